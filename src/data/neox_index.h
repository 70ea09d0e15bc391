#pragma once
// NeoX's order of samples over an indexed dataset, as three .npy files under NeoX's names:
//
//   doc      i32 [epochs x documents]   documents in the order of reading: all epochs shuffled as one list
//   sample   i32 [n + 1, 2]             place in doc and id offset of each sample's start; a sample is sequence + 1
//                                       ids, its last one is the first of the next (i64 from 2^30 samples on)
//   shuffle  u32 [n]                    the order in which samples are drawn (i64 from 2^32 - 2 samples on)
//
// Both shuffles come from one numpy RandomState(seed), documents first. epochs is the smallest number whose ids give
// the requested samples; n is the number of samples in these epochs. A "document" is a sequence of the dataset, as in
// NeoX.

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "data/block_check.h"
#include "data/npy_file.h"

namespace trireme {

struct NeoxOrder {
  std::string name;      ///< train, valid or test
  uint64_t samples = 0;  ///< at least this number
  uint64_t sequence = 0;
  uint64_t seed = 0;
};

/// FOLDER/PREFIX_NAME_indexmap_<samples>ns_<sequence>sl_<seed>s_packedpi_ac: the prefix of the three names. folder
/// empty: that of the dataset's prefix.
std::string neox_index_stem(const std::string& prefix, const std::string& folder, const NeoxOrder& order);

/// Writes the three files. lengths: ids of every sequence of the dataset; the documents are [first, last) of them.
/// before: called before each file. Throws Error::io, Error::usage (seed, sequence), Error::data (no ids for a sample).
void build_neox_index(const std::string& stem, std::span<const int32_t> lengths, uint64_t first, uint64_t last,
                      const NeoxOrder& order, const BeforeBlock& before = {});

/// What the three files are worth: their orders depend on nothing but these arguments, and a program that uses other
/// ones trains on other data without an error.
enum class NeoxIndexState : uint8_t {
  recorded,  ///< stem + ".xxh3" has their hashes and that of the lengths
  correct,   ///< they have no valid record, but equal what build_neox_index() makes
  wrong,     ///< or cannot be read
};
NeoxIndexState check_neox_index(const std::string& stem, std::span<const int32_t> lengths, uint64_t first,
                                uint64_t last, const NeoxOrder& order, const BeforeBlock& before = {});
/// Only the record, which needs no more than reading the files.
bool has_neox_index_record(const std::string& stem, std::span<const int32_t> lengths, uint64_t first, uint64_t last,
                           const BeforeBlock& before = {});
/// Writes the record of the files as they are. Throws Error::io.
void record_neox_index(const std::string& stem, std::span<const int32_t> lengths, uint64_t first, uint64_t last,
                       const BeforeBlock& before = {});

/// Names of the three files.
std::vector<std::string> neox_index_files(const std::string& stem);
/// True if all three files exist.
bool has_neox_index(const std::string& stem);

/// The three files, mapped.
class NeoxIndex {
 public:
  /// Throws Error::io, Error::data (shapes or types that do not match).
  explicit NeoxIndex(const std::string& stem);

  uint64_t samples() const { return shuffle_.size(); }
  uint64_t places() const { return documents_.size(); }
  /// Sequence of the dataset at a place in doc.
  uint64_t document(uint64_t place) const { return static_cast<uint64_t>(documents_.at(place)); }
  struct Begin {
    uint64_t place, offset;
  };
  /// Start of the drawn sample; index < samples().
  Begin begin(uint64_t index) const;

 private:
  NpyArray documents_, sample_, shuffle_;
};

}  // namespace trireme
