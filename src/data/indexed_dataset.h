#pragma once
// The indexed datasets of Megatron and NeoX: PREFIX.bin holds ids back to back, PREFIX.idx says where sequences and
// documents begin. Byte for byte their "mmap" form; the older "cached" form (TNTIDX) is read.
//
//   offset 0  9 bytes "MMIDIDX\0\0" | u64 version 1 | u8 dtype code | u64 sequences S | u64 documents + 1 D
//   34        S x i32 length in ids | S x i64 byte offset in .bin | D x i64 sequences before each document, and in all

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/file.h"
#include "data/document_encoder.h"

namespace trireme {

/// u16 below 65500 ids, else i32: the rule of the reference.
enum class IndexedType : uint8_t { i32 = 4, u16 = 8 };
IndexedType indexed_type_for(uint64_t vocabulary);

/// Writes both files, seen whole or not at all; each document is one sequence. 4 bytes of memory per document.
class IndexedWriter final : public DocumentSink {
 public:
  IndexedWriter(std::string prefix, IndexedType type);

  void append(std::span<const TokenId> ids) override;
  /// A document without ids has no sequence. Throws Error::data for one of more than 2^31 - 1 ids.
  void end_document() override;
  /// Publishes both files, the index last. Throws Error::io, Error::data when there are no ids.
  void commit();

  uint64_t tokens() const { return tokens_; }

 private:
  void flush();

  std::string prefix_;
  IndexedType type_;
  AtomicFile bin_;
  std::vector<std::byte> buffer_;
  std::vector<int32_t> lengths_;
  std::vector<int64_t> documents_{0};
  uint64_t tokens_ = 0, document_tokens_ = 0;
};

/// Both files, memory mapped.
class IndexedDataset {
 public:
  /// Throws Error::io, Error::data naming what does not fit: magic, version, dtype, a cut-off index, offsets that are
  /// not those of the lengths, a .bin of another size.
  explicit IndexedDataset(const std::string& prefix);

  uint64_t sequences() const { return lengths_.size(); }
  uint64_t documents() const { return documents_.size() - 1; }
  uint64_t tokens() const { return tokens_; }
  IndexedType type() const { return type_; }
  std::span<const int32_t> lengths() const { return lengths_; }
  /// First sequence of each document, and the number of sequences.
  std::span<const int64_t> document_index() const { return documents_; }
  std::vector<TokenId> sequence(uint64_t index) const;

 private:
  void read_mmap_index(std::span<const std::byte> bytes, const std::string& path);
  void read_cached_index(std::span<const std::byte> bytes, const std::string& path);
  void check(const std::string& path) const;

  MappedFile bin_;
  IndexedType type_ = IndexedType::u16;
  std::vector<int32_t> lengths_;
  std::vector<uint64_t> begins_;  // in ids
  std::vector<int64_t> documents_;
  uint64_t tokens_ = 0;
};

}  // namespace trireme
