#include "comm/control/secret.h"

#include <fmt/core.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <array>
#include <random>
#include <span>

#include "base/error.h"

namespace trireme {
namespace {

constexpr size_t kBytes = 32;  // of a digest and of a key
using Bytes = std::array<unsigned char, kBytes>;

std::string hex(std::span<const unsigned char> bytes) {
  std::string text;
  for (const unsigned char byte : bytes) text += fmt::format("{:02x}", byte);
  return text;
}

Bytes hmac(std::string_view key, std::string_view text) {
  Bytes out{};
  unsigned size = 0;
  const bool made =
      HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()), reinterpret_cast<const unsigned char*>(text.data()),
           text.size(), out.data(), &size) != nullptr;
  require(made && size == kBytes, ErrorKind::comm, "this OpenSSL cannot compute HMAC-SHA256");
  return out;
}

unsigned nibble(char c) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  const size_t at = kDigits.find(c);
  require(at != std::string_view::npos, ErrorKind::comm, "not a public key");
  return static_cast<unsigned>(at);
}

}  // namespace

std::string random_secret() {
  std::random_device device;
  std::string secret;
  for (int i = 0; i < 8; ++i) secret += fmt::format("{:08x}", device());
  return secret;
}

bool same_secret(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return false;
  unsigned difference = 0;
  for (size_t i = 0; i < a.size(); ++i) difference |= static_cast<unsigned char>(a[i] ^ b[i]);
  return difference == 0;
}

std::string proof_of(const Handshake& h, Side side) {
  // Lengths keep two different handshakes from having one text.
  return hex(hmac(h.secret, fmt::format("trireme {} {}:{} {}:{} {}:{}", side == Side::client ? "client" : "server",
                                        h.server_nonce.size(), h.server_nonce, h.client_nonce.size(), h.client_nonce,
                                        h.said.size(), h.said)));
}

bool proves(const Handshake& handshake, Side side, std::string_view proof) {
  return same_secret(proof_of(handshake, side), proof);
}

struct KeyAgreement::Key {
  EVP_PKEY* pair = nullptr;
  ~Key() { EVP_PKEY_free(pair); }
};

KeyAgreement::KeyAgreement() : key_(std::make_unique<Key>()) {
  const std::unique_ptr<EVP_PKEY_CTX, decltype(&EVP_PKEY_CTX_free)> context(
      EVP_PKEY_CTX_new_id(EVP_PKEY_X25519, nullptr), EVP_PKEY_CTX_free);
  Bytes own{};
  size_t size = own.size();
  const bool made = context && EVP_PKEY_keygen_init(context.get()) == 1 &&
                    EVP_PKEY_keygen(context.get(), &key_->pair) == 1 &&
                    EVP_PKEY_get_raw_public_key(key_->pair, own.data(), &size) == 1;
  require(made, ErrorKind::comm, "this OpenSSL cannot make X25519 keys");
  public_key_ = hex(own);
}

KeyAgreement::~KeyAgreement() = default;

std::string KeyAgreement::secret_with(const std::string& public_key) const {
  require(public_key.size() == 2 * kBytes, ErrorKind::comm, "not a public key");
  Bytes raw{}, shared{};
  for (size_t i = 0; i < kBytes; ++i)
    raw[i] = static_cast<unsigned char>(nibble(public_key[2 * i]) << 4 | nibble(public_key[2 * i + 1]));
  const std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)> other(
      EVP_PKEY_new_raw_public_key(EVP_PKEY_X25519, nullptr, raw.data(), raw.size()), EVP_PKEY_free);
  const std::unique_ptr<EVP_PKEY_CTX, decltype(&EVP_PKEY_CTX_free)> context(EVP_PKEY_CTX_new(key_->pair, nullptr),
                                                                            EVP_PKEY_CTX_free);
  size_t size = shared.size();
  const bool agreed = other && context && EVP_PKEY_derive_init(context.get()) == 1 &&
                      EVP_PKEY_derive_set_peer(context.get(), other.get()) == 1 &&
                      EVP_PKEY_derive(context.get(), shared.data(), &size) == 1;
  require(agreed, ErrorKind::comm, "not a public key");
  const bool first = public_key_ < public_key;
  return hex(hmac(std::string_view(reinterpret_cast<const char*>(shared.data()), size),
                  first ? public_key_ + public_key : public_key + public_key_));
}

}  // namespace trireme
