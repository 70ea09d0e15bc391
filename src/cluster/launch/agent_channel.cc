#include "cluster/launch/agent_channel.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/ssl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "base/file.h"
#include "base/opened_file.h"
#include "base/time.h"
#include "comm/control/secret.h"

namespace trireme::launch {
namespace {

constexpr size_t kHeader = 5, kLargestFrame = size_t{1} << 20;
constexpr std::string_view kKinds = "hriomfe";
constexpr std::string_view kIdentity = "trireme-agent-1";  // identity of the key, sent unencrypted
constexpr const char* kSuite = "TLS_AES_128_GCM_SHA256";
constexpr unsigned char kSuiteNumber[] = {0x13, 0x01};

using Key = std::array<unsigned char, 32>;

Key derive_key(const std::string& secret) {
  const std::string text = std::string(kIdentity) + "\n" + secret;
  Key key{};
  EVP_Digest(text.data(), text.size(), key.data(), nullptr, EVP_sha256(), nullptr);
  return key;
}

/// A vanished host is noticed after a minute, as with `ServerAliveInterval` of ssh.
void watch_connection(int fd) {
  const int yes = 1, idle = 15, pause = 15, tries = 3, unanswered = 60'000;
  setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &yes, sizeof yes);
  setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof idle);
  setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &pause, sizeof pause);
  setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &tries, sizeof tries);
  setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &unanswered, sizeof unanswered);
}

SSL_SESSION* session_with(SSL* ssl, const Key& key) {
  SSL_SESSION* session = SSL_SESSION_new();
  const bool made = session != nullptr && SSL_SESSION_set1_master_key(session, key.data(), key.size()) == 1 &&
                    SSL_SESSION_set_cipher(session, SSL_CIPHER_find(ssl, kSuiteNumber)) == 1 &&
                    SSL_SESSION_set_protocol_version(session, TLS1_3_VERSION) == 1;
  require(made, ErrorKind::comm, "this OpenSSL cannot use {}", kSuite);
  return session;
}

int find_key(SSL* ssl, const unsigned char* identity, size_t size, SSL_SESSION** session) {
  const bool known = std::string_view(reinterpret_cast<const char*>(identity), size) == kIdentity;
  *session = known ? session_with(ssl, *static_cast<const Key*>(SSL_get_app_data(ssl))) : nullptr;
  return 1;
}

int use_key(SSL* ssl, const EVP_MD* digest, const unsigned char** identity, size_t* size, SSL_SESSION** session) {
  *session = nullptr;
  if (digest != nullptr && !EVP_MD_is_a(digest, "SHA256")) return 1;
  *identity = reinterpret_cast<const unsigned char*>(kIdentity.data());
  *size = kIdentity.size();
  *session = session_with(ssl, *static_cast<const Key*>(SSL_get_app_data(ssl)));
  return 1;
}

/// The meaning of a failed handshake, by OpenSSL's error.
AgentChannel::Greeting explain_handshake(int error) {
  using Greeting = AgentChannel::Greeting;
  const int reason = ERR_GET_REASON(ERR_peek_last_error());
  if (error == SSL_ERROR_SYSCALL || error == SSL_ERROR_ZERO_RETURN || reason == SSL_R_UNEXPECTED_EOF_WHILE_READING) {
    return Greeting::closed;
  }
  // The agent detects it by the head's proof, and sends the head an alert.
  const bool refused = reason == SSL_R_BINDER_DOES_NOT_VERIFY ||
                       reason == SSL_AD_REASON_OFFSET + SSL_AD_DECRYPT_ERROR ||
                       reason == SSL_AD_REASON_OFFSET + SSL_AD_ILLEGAL_PARAMETER;
  return refused ? Greeting::wrong_secret : Greeting::foreign;
}

}  // namespace

std::string encode(FrameKind kind, std::string_view bytes) {
  assert(bytes.size() <= kLargestFrame);
  std::string text(1, static_cast<char>(kind));
  for (int shift = 24; shift >= 0; shift -= 8) text += static_cast<char>(bytes.size() >> shift & 0xff);
  return text += bytes;
}

std::optional<Frame> FrameReader::next() {
  const std::string_view rest = std::string_view(bytes_).substr(begin_);
  if (rest.empty()) return std::nullopt;
  require(kKinds.find(rest[0]) != std::string_view::npos, ErrorKind::comm, "agent: byte {} does not begin a frame",
          static_cast<int>(static_cast<unsigned char>(rest[0])));
  if (rest.size() < kHeader) return std::nullopt;
  size_t size = 0;
  for (size_t i = 1; i < kHeader; ++i) size = size << 8 | static_cast<unsigned char>(rest[i]);
  require(size <= kLargestFrame, ErrorKind::comm, "agent: a frame of {} bytes, expected at most {}", size,
          kLargestFrame);
  if (rest.size() < kHeader + size) return std::nullopt;
  Frame frame{static_cast<FrameKind>(rest[0]), std::string(rest.substr(kHeader, size))};
  begin_ += kHeader + size;
  if (begin_ == bytes_.size() || begin_ > kLargestFrame) bytes_.erase(0, std::exchange(begin_, 0));
  return frame;
}

struct AgentChannel::Tls {
  Socket socket;
  Key key;
  SSL_CTX* context;
  SSL* ssl;
  std::string outgoing;
  bool over = false;

  Tls(Socket its_socket, Side side, const std::string& secret)
      : socket(std::move(its_socket)),
        key(derive_key(secret)),
        context(SSL_CTX_new(side == Side::agent ? TLS_server_method() : TLS_client_method())),
        ssl(nullptr) {
    SSL_CTX_set_min_proto_version(context, TLS1_3_VERSION);
    SSL_CTX_set_ciphersuites(context, kSuite);
    SSL_CTX_set_num_tickets(context, 0);  // no session resumption
    SSL_CTX_set_mode(context, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    // An impostor with a certificate instead of the key is refused: the head trusts no authority.
    if (side == Side::head) SSL_CTX_set_verify(context, SSL_VERIFY_PEER, nullptr);
    SSL_CTX_set_psk_find_session_callback(context, find_key);
    SSL_CTX_set_psk_use_session_callback(context, use_key);
    ssl = SSL_new(context);
    SSL_set_app_data(ssl, &key);
    SSL_set_fd(ssl, socket.fd());
    side == Side::agent ? SSL_set_accept_state(ssl) : SSL_set_connect_state(ssl);
  }
  Tls(const Tls&) = delete;
  Tls& operator=(const Tls&) = delete;
  ~Tls() {
    SSL_free(ssl);
    SSL_CTX_free(context);
  }

  void send_some() {
    while (!over && !outgoing.empty()) {
      ERR_clear_error();
      const int sent = SSL_write(ssl, outgoing.data(), static_cast<int>(std::min(outgoing.size(), size_t{1} << 16)));
      if (sent <= 0) {
        over = !may_go_on(sent);
        return;
      }
      outgoing.erase(0, static_cast<size_t>(sent));
    }
  }

  void receive_some(FrameReader& reader) {
    std::array<char, 16384> buffer;
    while (!over) {
      ERR_clear_error();
      const int got = SSL_read(ssl, buffer.data(), buffer.size());
      if (got <= 0) {
        over = !may_go_on(got);
        return;
      }
      reader.append({buffer.data(), static_cast<size_t>(got)});
    }
  }

  bool may_go_on(int result) const {
    const int error = SSL_get_error(ssl, result);
    return error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE;
  }
};

AgentChannel::AgentChannel(Socket socket, Side side, const std::string& secret) {
  watch_connection(socket.fd());
  tls_ = std::make_unique<Tls>(std::move(socket), side, secret);
}

AgentChannel::~AgentChannel() = default;

AgentChannel::Greeting AgentChannel::shake_hands(double seconds) {
  const Clock::time_point start = Clock::now();
  for (;;) {
    ERR_clear_error();
    const int result = SSL_do_handshake(tls_->ssl);
    if (result == 1) return SSL_session_reused(tls_->ssl) == 1 ? Greeting::done : Greeting::foreign;
    const int error = SSL_get_error(tls_->ssl, result);
    if (error != SSL_ERROR_WANT_READ && error != SSL_ERROR_WANT_WRITE) return explain_handshake(error);
    const double left = seconds - seconds_since(start);
    pollfd item{tls_->socket.fd(), static_cast<short>(error == SSL_ERROR_WANT_READ ? POLLIN : POLLOUT), 0};
    if (left <= 0 || poll(&item, 1, static_cast<int>(left * 1e3) + 1) == 0) return Greeting::silent;
  }
}

void AgentChannel::queue(FrameKind kind, std::string_view bytes) { tls_->outgoing += encode(kind, bytes); }

size_t AgentChannel::queued() const { return tls_->outgoing.size(); }

bool AgentChannel::move(bool receives) {
  if (receives) tls_->receive_some(reader_);
  tls_->send_some();
  return !tls_->over;
}

pollfd AgentChannel::awaited(bool reads) const {
  return {tls_->socket.fd(), static_cast<short>((reads ? POLLIN : 0) | (queued() > 0 ? POLLOUT : 0)), 0};
}

void AgentChannel::finish(double seconds) {
  const Clock::time_point start = Clock::now();
  const auto wait = [&] {
    const double left = seconds - seconds_since(start);
    pollfd item = awaited();
    return left > 0 && poll(&item, 1, static_cast<int>(left * 1e3) + 1) > 0;
  };
  while (queued() > 0 && move() && queued() > 0 && wait()) {
  }
  SSL_shutdown(tls_->ssl);
  shutdown(tls_->socket.fd(), SHUT_WR);
  // Closing a socket before all input was read discards data that the other side has not read yet.
  while (move() && wait()) {
  }
}

namespace {

// From one recorded handshake secrets can be guessed offline: a password would be found.
constexpr size_t kFewestCharacters = 32;

void require_private(const std::string& file) {
  const OpenedFile opened(file);
  struct stat facts {};
  fstat(opened.fd(), &facts);
  require((facts.st_mode & 077) == 0, ErrorKind::config,
          "secret file {}: its mode is {:04o}, so others may read it; expected 0600: `chmod 600 {}`, or set the secret "
          "in {}",
          file, facts.st_mode & 07777, file, kAgentSecretVariable);
}

}  // namespace

std::string read_agent_secret(const std::string& file) {
  std::string secret, origin = file.empty() ? kAgentSecretVariable : "secret file " + file;
  if (!file.empty()) {
    require_private(file);
    secret = read_text(file, size_t{64} << 10);
  } else if (const char* value = std::getenv(kAgentSecretVariable)) {
    secret = value;
  } else {
    fail(ErrorKind::config,
         "agents: the secret is missing: set --secret-file or {}; `trireme agent --new-secret FILE` creates one for "
         "all hosts",
         kAgentSecretVariable);
  }
  constexpr const char* kBlanks = " \t\r\n";
  secret.erase(secret.find_last_not_of(kBlanks) + 1);  // npos + 1 is 0
  secret.erase(0, secret.find_first_not_of(kBlanks));
  require(secret.size() >= kFewestCharacters, ErrorKind::config,
          "{}: it has {} characters, expected at least {}; `trireme agent --new-secret FILE` creates a random one",
          origin, secret.size(), kFewestCharacters);
  return secret;
}

void write_agent_secret(const std::string& file) {
  const int fd = open(file.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  require(fd >= 0 || errno != EEXIST, ErrorKind::io, "secret file {}: it exists already; use it or remove it first",
          file);
  require(fd >= 0, ErrorKind::io, "secret file {}: {}", file, std::strerror(errno));
  const std::string line = random_secret() + "\n";
  const bool written = write(fd, line.data(), line.size()) == static_cast<ssize_t>(line.size());
  const int error = errno;
  close(fd);
  require(written, ErrorKind::io, "secret file {}: {}", file, std::strerror(error));
}

}  // namespace trireme::launch
