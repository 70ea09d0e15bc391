#pragma once
// The two hashes that the hub uses to name contents: SHA-256 of large files (Git LFS), and Git's SHA-1 of a blob.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

struct evp_md_ctx_st;

namespace trireme::hub {

/// Hash of a stream of bytes.
class Digest {
 public:
  /// `name`: 64 hexadecimal digits, SHA-256 of the bytes; 40, SHA-1 of "blob SIZE", a zero byte and the bytes. Throws
  /// Error::data for another name.
  Digest(std::string_view name, uint64_t size);
  void add(std::span<const std::byte> bytes);
  /// The hash in hexadecimal; call once.
  std::string finish();

  static bool is_name(std::string_view text);

 private:
  struct Free {
    void operator()(evp_md_ctx_st* context) const;
  };
  std::unique_ptr<evp_md_ctx_st, Free> context_;
};

}  // namespace trireme::hub
