#include "hub/digest.h"

#include <fmt/format.h>
#include <openssl/evp.h>

#include <array>

#include "base/error.h"

namespace trireme::hub {

void Digest::Free::operator()(evp_md_ctx_st* context) const { EVP_MD_CTX_free(context); }

bool Digest::is_name(std::string_view text) {
  return (text.size() == 40 || text.size() == 64) && text.find_first_not_of("0123456789abcdef") == text.npos;
}

Digest::Digest(std::string_view name, uint64_t size) : context_(EVP_MD_CTX_new()) {
  require(is_name(name), ErrorKind::data, "\"{}\" is not a SHA-256 or Git SHA-1", name);
  const bool large = name.size() == 64;
  require(context_ && EVP_DigestInit_ex(context_.get(), large ? EVP_sha256() : EVP_sha1(), nullptr) == 1, ErrorKind::io,
          "OpenSSL does not support {} here (FIPS mode?): fetched files could not be verified",
          large ? "SHA-256" : "SHA-1");
  if (large) return;
  const std::string header = fmt::format("blob {}", size);
  add(std::as_bytes(std::span(header.c_str(), header.size() + 1)));
}

void Digest::add(std::span<const std::byte> bytes) { EVP_DigestUpdate(context_.get(), bytes.data(), bytes.size()); }

std::string Digest::finish() {
  std::array<unsigned char, EVP_MAX_MD_SIZE> value{};
  unsigned length = 0;
  EVP_DigestFinal_ex(context_.get(), value.data(), &length);
  std::string text;
  for (unsigned i = 0; i < length; ++i) text += fmt::format("{:02x}", value[i]);
  return text;
}

}  // namespace trireme::hub
