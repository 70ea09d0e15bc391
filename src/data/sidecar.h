#pragma once
// FILE.bin.json: `trireme prepare`'s description of FILE.bin, the headerless token file beside it. One JSON object:
//
//   format_version   1; a reader refuses a higher one
//   dtype            "uint16" or "int32": the element of FILE.bin, little-endian
//   tokens           elements in FILE.bin
//   documents        documents in FILE.bin, each followed by one end-of-text id (a single text split by characters: 1)
//   vocabulary_size  largest id of the tokenizer + 1; every element is below it
//   tokenizer_hash   XXH3-64 of the tokenizer.json beside it, 16 hexadecimal digits; "" if there is none
//   block_bytes      size of a checked block, a multiple of 4096; the last block may be shorter
//   block_hashes     XXH3-64 of each block of FILE.bin in order, 16 hexadecimal digits each
//   split            the rule that put these documents here and not in the other file, as text
// Unknown keys are ignored, so that a later writer may add keys under the same version.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace trireme {

/// 4 MiB: one block is read and hashed in under a millisecond, and the full OpenWebText (18 GB) has 4,310 of them.
constexpr uint64_t kSidecarBlockBytes = uint64_t{4} << 20;

struct TokenSidecar {
  uint64_t tokens = 0, documents = 0;
  uint64_t vocabulary = 0;
  std::string tokenizer_hash;
  std::string dtype = "uint16";
  uint64_t block_bytes = kSidecarBlockBytes;
  std::vector<uint64_t> block_hashes;
  std::string split;
};

/// Bytes of one element. Throws Error::data for a dtype that the format does not have.
uint64_t element_bytes(const TokenSidecar& sidecar);
/// The dtype of ids of that many bytes, 2 or 4.
const char* dtype_of(uint64_t width);

/// FILE.bin.json of FILE.bin.
std::string sidecar_path(const std::string& bin_path);

/// Reads FILE.bin.json if it exists. Throws Error::io, Error::data (malformed, a key missing or of the wrong type, a
/// higher version, a number of blocks that does not match the tokens).
std::optional<TokenSidecar> read_sidecar(const std::string& bin_path);

/// Writes FILE.bin.json atomically. Throws Error::io.
void write_sidecar(const std::string& bin_path, const TokenSidecar& sidecar);

/// Block hashes of a file written sequentially.
class BlockHasher {
 public:
  explicit BlockHasher(uint64_t block_bytes = kSidecarBlockBytes);
  void append(std::span<const std::byte> bytes);
  /// Hashes of all blocks, including the last, shorter one. No append() afterwards.
  std::vector<uint64_t> finish();

 private:
  std::vector<std::byte> block_;  // filled up to used_
  size_t used_ = 0;
  std::vector<uint64_t> hashes_;
};

}  // namespace trireme
