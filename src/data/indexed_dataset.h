#pragma once
// The indexed datasets of Megatron and NeoX: PREFIX.bin holds concatenated ids, PREFIX.idx the starts of sequences and
// documents. Byte for byte their "mmap" form; the older "cached" form (TNTIDX) can be read.
//
//   offset 0  9 bytes "MMIDIDX\0\0" | u64 version 1 | u8 dtype code | u64 sequences S | u64 documents + 1 D
//   34        S x i32 length in ids | S x i64 byte offset in .bin | D x i64 sequences before each document, and in all

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/file.h"
#include "data/block_check.h"
#include "data/sidecar.h"
#include "text/tokenizer.h"

namespace trireme {

/// u16 below 65500 ids, else i32: the rule of the reference.
enum class IndexedType : uint8_t { i32 = 4, u16 = 8 };
IndexedType indexed_type_for(uint64_t vocabulary);

/// The content of an index.
struct IndexedLayout {
  IndexedType type = IndexedType::u16;
  std::vector<int32_t> lengths = {};     ///< ids of each sequence
  std::vector<int64_t> documents = {0};  ///< sequences before each document, and in all
};

/// Writes an index atomically. Throws Error::io.
void write_index(const std::string& path, const IndexedLayout& layout);

uint64_t width_of(IndexedType type);

/// Both files, memory mapped, and the sidecar PREFIX.bin.json if it exists.
class IndexedDataset {
 public:
  /// Throws Error::io, Error::data naming the fault: magic, version, dtype, a truncated index, offsets that contradict
  /// the lengths, a .bin of another size.
  explicit IndexedDataset(const std::string& prefix);

  uint64_t sequences() const { return lengths_.size(); }
  uint64_t documents() const { return documents_.size() - 1; }
  uint64_t tokens() const { return tokens_; }
  IndexedType type() const { return type_; }
  std::span<const int32_t> lengths() const { return lengths_; }
  /// First sequence of each document, and the number of sequences.
  std::span<const int64_t> document_index() const { return documents_; }
  std::vector<TokenId> sequence(uint64_t index) const;
  /// Place of a sequence's first id in the .bin file, counted in ids.
  uint64_t begin(uint64_t index) const { return begins_[index]; }
  /// Reads ids of a sequence from `offset` on into `ids`; they must exist.
  void copy(uint64_t index, uint64_t offset, std::span<int32_t> ids) const;
  /// The .bin file.
  std::span<const std::byte> bytes() const { return bin_.bytes(); }
  const std::string& path() const { return bin_.path(); }
  const std::optional<TokenSidecar>& sidecar() const { return sidecar_; }
  /// Ids against the sidecar's checksums and the vocabulary, as check_blocks(); returns the number of blocks read.
  uint64_t check_ids(uint64_t vocabulary, bool all, const BeforeBlock& before = {}) const;

 private:
  void read_mmap_index(std::span<const std::byte> bytes, const std::string& path);
  void read_cached_index(std::span<const std::byte> bytes, const std::string& path);
  void check(const std::string& path) const;

  MappedFile bin_;
  std::optional<TokenSidecar> sidecar_;
  IndexedType type_ = IndexedType::u16;
  std::vector<int32_t> lengths_;
  std::vector<uint64_t> begins_;  // in ids
  std::vector<int64_t> documents_;
  uint64_t tokens_ = 0;
};

// "969, 30, 1": which documents of an indexed dataset are for training, validation and test.

/// Documents [begin[i], begin[i + 1]) are part i: train, valid, test.
using PartBorders = std::array<uint64_t, 4>;

/// Up to three shares separated by commas or slashes, missing ones are 0; a single number is training only. Shares are
/// normalised, their cumulative borders rounded (halves to even) and then all shifted so that the last is `documents`,
/// as Megatron does. Throws Error::usage for anything else.
PartBorders part_borders(const std::string& split, uint64_t documents);

}  // namespace trireme
