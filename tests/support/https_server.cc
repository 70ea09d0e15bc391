#include "tests/support/https_server.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <sstream>
#include <stdexcept>

namespace trireme {
namespace {

/// A key and a certificate for localhost, and the server's TLS context.
struct Identity {
  TemporaryFolder folder;
  std::string path = folder / "certificate.pem";
  SSL_CTX* context = SSL_CTX_new(TLS_server_method());

  Identity() {
    EVP_PKEY* key = EVP_EC_gen("P-256");
    X509* x = X509_new();
    X509_set_version(x, 2);
    ASN1_INTEGER_set(X509_get_serialNumber(x), 1);
    X509_gmtime_adj(X509_getm_notBefore(x), -3600);
    X509_gmtime_adj(X509_getm_notAfter(x), 86400);
    X509_set_pubkey(x, key);
    X509_NAME* name = X509_get_subject_name(x);
    X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, reinterpret_cast<const unsigned char*>("localhost"), -1, -1,
                               0);
    X509_set_issuer_name(x, name);
    for (const auto& [nid, value] : {std::pair{NID_subject_alt_name, "DNS:localhost,IP:127.0.0.1"},
                                     std::pair{NID_basic_constraints, "critical,CA:TRUE"}}) {
      X509_EXTENSION* extension = X509V3_EXT_conf_nid(nullptr, nullptr, nid, value);
      X509_add_ext(x, extension, -1);
      X509_EXTENSION_free(extension);
    }
    X509_sign(x, key, EVP_sha256());
    std::FILE* file = std::fopen(path.c_str(), "w");
    if (file == nullptr || PEM_write_X509(file, x) != 1) throw std::runtime_error("cannot write " + path);
    std::fclose(file);
    SSL_CTX_use_certificate(context, x);
    SSL_CTX_use_PrivateKey(context, key);
    X509_free(x);
    EVP_PKEY_free(key);
  }
  Identity(const Identity&) = delete;
  Identity& operator=(const Identity&) = delete;
  ~Identity() { SSL_CTX_free(context); }
};

const Identity& identity() {
  static const Identity one;
  return one;
}

int connect_to(const std::string& port) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(std::stoi(port)));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address);
  return fd;
}

/// The work of a proxy after CONNECT.
void pump(int a, int b) {
  char buffer[16384];
  pollfd both[] = {{a, POLLIN, 0}, {b, POLLIN, 0}};
  while (poll(both, 2, 10000) > 0) {
    for (int i = 0; i < 2; ++i) {
      if (both[i].revents == 0) continue;
      const ssize_t got = read(both[i].fd, buffer, sizeof buffer);
      if (got <= 0 || write(both[1 - i].fd, buffer, static_cast<size_t>(got)) != got) return;
    }
  }
}

}  // namespace

/// One connection, encrypted or not.
class HttpsServer::Connection {
 public:
  Connection(int socket, bool encrypted) : socket_(socket) {
    if (!encrypted) return;
    ssl_ = SSL_new(identity().context);
    SSL_set_fd(ssl_, socket);
    good_ = SSL_accept(ssl_) == 1;
  }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;
  ~Connection() {
    ERR_clear_error();
    SSL_free(ssl_);
  }

  std::optional<WebRequest> next() {
    size_t end;
    while (good_ && (end = buffer_.find("\r\n\r\n")) == std::string::npos) fill();
    if (!good_) return std::nullopt;
    std::istringstream head(buffer_.substr(0, end));
    buffer_.erase(0, end + 4);
    WebRequest request;
    std::string line;
    head >> request.method >> request.path;
    std::getline(head, line);
    while (std::getline(head, line)) {
      if (line.ends_with('\r')) line.pop_back();
      const size_t colon = line.find(": ");
      if (colon == std::string::npos) continue;
      std::string name = line.substr(0, colon);
      std::ranges::transform(name, name.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
      request.headers[name] = line.substr(colon + 2);
    }
    return request;
  }

  /// False if the connection must end.
  bool answer(const WebRequest& request, const WebReply& reply) {
    std::string head =
        fmt::format("HTTP/1.1 {} X\r\nContent-Length: {}\r\n", reply.status, reply.length.value_or(reply.body.size()));
    for (const auto& [name, value] : reply.headers) head += fmt::format("{}: {}\r\n", name, value);
    send(head + "\r\n");
    if (request.method == "HEAD") return good_;
    if (reply.stall_seconds > 0) std::this_thread::sleep_for(std::chrono::duration<double>(reply.stall_seconds));
    send(std::string_view(reply.body).substr(0, reply.break_after.value_or(reply.body.size())));
    if (reply.hold_seconds > 0) std::this_thread::sleep_for(std::chrono::duration<double>(reply.hold_seconds));
    return good_ && !reply.break_after && !reply.length;
  }

  void send(std::string_view bytes) {
    while (good_ && !bytes.empty()) {
      const auto size = static_cast<int>(std::min<size_t>(bytes.size(), 16384));
      const int sent = ssl_ != nullptr ? SSL_write(ssl_, bytes.data(), size)
                                       : static_cast<int>(write(socket_, bytes.data(), static_cast<size_t>(size)));
      good_ = sent > 0;
      if (good_) bytes.remove_prefix(static_cast<size_t>(sent));
    }
  }

 private:
  void fill() {
    char bytes[4096];
    const int got =
        ssl_ != nullptr ? SSL_read(ssl_, bytes, sizeof bytes) : static_cast<int>(read(socket_, bytes, sizeof bytes));
    good_ = got > 0;
    if (good_) buffer_.append(bytes, static_cast<size_t>(got));
  }

  int socket_;
  SSL* ssl_ = nullptr;
  bool good_ = true;
  std::string buffer_;
};

HttpsServer::HttpsServer(Handler handler, Security security) : handler_(std::move(handler)), security_(security) {
  signal(SIGPIPE, SIG_IGN);  // clients may leave at any time
  for (const char* name : {"no_proxy", "NO_PROXY"}) setenv(name, "localhost,127.0.0.1", 1);
  identity();
  listener_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  if (bind(listener_, reinterpret_cast<sockaddr*>(&address), length) != 0 || listen(listener_, 64) != 0 ||
      getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &length) != 0)
    throw std::runtime_error("cannot listen on 127.0.0.1");
  port_ = ntohs(address.sin_port);
  acceptor_ = std::thread([this] { accept_all(); });
}

HttpsServer::~HttpsServer() {
  shutdown(listener_, SHUT_RDWR);
  acceptor_.join();
  {
    const std::lock_guard lock(mutex_);
    for (const int socket : sockets_) shutdown(socket, SHUT_RDWR);
  }
  for (std::thread& thread : threads_) thread.join();
  for (const int socket : sockets_) close(socket);
  close(listener_);
}

std::string HttpsServer::url() const {
  return fmt::format("{}://localhost:{}", security_ == Security::tls ? "https" : "http", port_);
}

std::string HttpsServer::certificate() { return identity().path; }

std::vector<WebRequest> HttpsServer::requests() const {
  const std::lock_guard lock(mutex_);
  return requests_;
}

void HttpsServer::accept_all() {
  while (true) {
    const int socket = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
    if (socket < 0) return;
    const std::lock_guard lock(mutex_);
    sockets_.push_back(socket);
    threads_.emplace_back([this, socket] { serve(socket); });
  }
}

void HttpsServer::serve(int socket) {
  {
    Connection connection(socket, security_ == Security::tls);
    while (const auto request = connection.next()) {
      {
        const std::lock_guard lock(mutex_);
        requests_.push_back(*request);
      }
      if (request->method == "CONNECT") {
        const int other = connect_to(request->path.substr(request->path.find(':') + 1));
        connection.send("HTTP/1.1 200 Connected\r\n\r\n");
        pump(socket, other);
        close(other);
        break;
      }
      if (!connection.answer(*request, handler_(*request))) break;
    }
  }
  shutdown(socket, SHUT_RDWR);
}

}  // namespace trireme
