#include "data/neox_index.h"

#include <algorithm>
#include <filesystem>
#include <numeric>
#include <optional>
#include <vector>

#include "base/count.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/size.h"
#include "data/numpy_random.h"
#include "data/token_dataset.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

constexpr const char* kDocuments = "_doc_idx.npy";
constexpr const char* kSamples = "_sample_idx.npy";
constexpr const char* kShuffle = "_shuffle_idx.npy";

/// Two numbers per sample and one more pair: the first size that needs i64, by NeoX's test, which divides without
/// rounding.
bool needs_wide_samples(uint64_t ids, uint64_t sequence) {
  const double samples = static_cast<double>(ids - 1) / static_cast<double>(sequence);
  return 2 * (samples + 1) >= static_cast<double>(INT32_MAX);
}

template <class T>
std::vector<T> sample_begins(std::span<const int32_t> lengths, std::span<const int32_t> documents, uint64_t samples,
                             uint64_t sequence) {
  std::vector<T> begins;
  begins.reserve(2 * (samples + 1));
  uint64_t place = 0, offset = 0;
  begins.insert(begins.end(), {0, 0});
  for (uint64_t i = 0; i < samples; ++i) {
    for (uint64_t wanted = sequence + 1; wanted > 0;) {
      const uint64_t left = static_cast<uint64_t>(lengths[static_cast<size_t>(documents[place])]) - offset;
      if (left >= wanted) {
        offset += wanted - 1;  // the last id is also the first of the next sample
        break;
      }
      wanted -= left;
      ++place;
      offset = 0;
    }
    begins.push_back(static_cast<T>(place));
    begins.push_back(static_cast<T>(offset));
  }
  return begins;
}

template <class T>
std::vector<T> shuffled_range(uint64_t size, NumpyRandomState& random) {
  std::vector<T> order(size);
  std::iota(order.begin(), order.end(), T{0});
  random.shuffle(std::span(order));
  return order;
}

/// Makes the three arrays in turn: give(suffix, values, columns).
template <class Give>
void make_order(std::span<const int32_t> lengths, uint64_t first, uint64_t last, const NeoxOrder& order,
                const Give& give) {
  require(order.sequence > 0, ErrorKind::usage, "the length of a sample is 0, expected at least 1");
  require(last <= lengths.size() && lengths.size() <= INT32_MAX, ErrorKind::data,
          "documents {} to {} of {} cannot be indexed", first, last, lengths.size());
  uint64_t ids = 0;
  for (uint64_t i = first; i < last; ++i) ids += static_cast<uint64_t>(lengths[i]);
  require(last > first, ErrorKind::data, "the split gives the part \"{}\" no documents; give it a larger share",
          order.name);
  require(ids > 0, ErrorKind::data, "the part \"{}\" has no ids in its {}; give it a larger share", order.name,
          count_text(last - first, "document"));
  const uint64_t most = static_cast<uint64_t>(INT64_MAX) / order.sequence;
  require(order.samples < most, ErrorKind::config,
          "{} samples of {} ids overflow 64 bits; lower run.steps or batch.global", order.samples, order.sequence);
  // One id more than in the samples: the last target.
  const uint64_t wanted = order.samples * order.sequence + 1;
  const uint64_t epochs = (wanted - 1) / ids + 1;
  require(epochs <= INT32_MAX / (last - first), ErrorKind::data,
          "{} samples of {} ids need {} passes over the {} of the part \"{}\" with {} ids, more than an order "
          "supports; use more text or fewer samples",
          order.samples, order.sequence, epochs, count_text(last - first, "document"), order.name, ids);
  const uint64_t samples = (epochs * ids - 1) / order.sequence;
  require_fits_memory(epochs * (last - first) * sizeof(int32_t) + 2 * samples * sizeof(int64_t),
                      fmt::format("the order of {} samples", samples), "lower run.steps or batch.global");

  NumpyRandomState random(order.seed);
  std::vector<int32_t> documents(epochs * (last - first));
  for (uint64_t i = 0; i < documents.size(); ++i) documents[i] = static_cast<int32_t>(first + i % (last - first));
  random.shuffle(std::span(documents));
  give(kDocuments, std::span<const int32_t>(documents), 0);
  const auto give_samples = [&](auto wide) {
    const auto begins = sample_begins<decltype(wide)>(lengths, documents, samples, order.sequence);
    give(kSamples, std::span(begins), 2);
  };
  needs_wide_samples(epochs * ids, order.sequence) ? give_samples(int64_t{}) : give_samples(int32_t{});
  const auto give_shuffle = [&](auto wide) {
    const auto shuffled = shuffled_range<decltype(wide)>(samples, random);
    give(kShuffle, std::span(shuffled), 0);
  };
  samples >= UINT32_MAX - 1 ? give_shuffle(int64_t{}) : give_shuffle(uint32_t{});
}

NpyType npy_type_of(std::span<const int32_t>) { return NpyType::i32; }
NpyType npy_type_of(std::span<const uint32_t>) { return NpyType::u32; }
NpyType npy_type_of(std::span<const int64_t>) { return NpyType::i64; }

std::string record_path(const std::string& stem) { return stem + ".xxh3"; }

/// "16 digits lengths 0 1000", then the hash and the name of each file.
std::string record_of(const std::string& stem, std::span<const int32_t> lengths, uint64_t first, uint64_t last,
                      const BeforeBlock& before) {
  std::string text =
      fmt::format("{} lengths {} {}\n", hex64(xxh3(std::as_bytes(lengths.subspan(first, last - first)))), first, last);
  for (const std::string& path : neox_index_files(stem))
    text += fmt::format("{} {}\n", hex64(data_hash(MappedFile(path).bytes(), std::nullopt, before)),
                        path.substr(stem.size()));
  return text;
}

}  // namespace

std::string neox_index_stem(const std::string& prefix, const std::string& folder, const NeoxOrder& order) {
  const std::string base = folder.empty() ? prefix : (fs::path(folder) / fs::path(prefix).filename()).string();
  return fmt::format("{}_{}_indexmap_{}ns_{}sl_{}s_packedpi_ac", base, order.name, order.samples, order.sequence,
                     order.seed);
}

std::vector<std::string> neox_index_files(const std::string& stem) {
  return {stem + kDocuments, stem + kSamples, stem + kShuffle};
}

bool has_neox_index(const std::string& stem) {
  return std::ranges::all_of(neox_index_files(stem), [](const std::string& file) { return fs::exists(file); });
}

void build_neox_index(const std::string& stem, std::span<const int32_t> lengths, uint64_t first, uint64_t last,
                      const NeoxOrder& order, const BeforeBlock& before) {
  make_order(lengths, first, last, order, [&](const char* suffix, const auto& values, uint64_t columns) {
    if (before) before();
    write_npy(stem + suffix, values, columns);
  });
}

bool has_neox_index_record(const std::string& stem, std::span<const int32_t> lengths, uint64_t first, uint64_t last,
                           const BeforeBlock& before) {
  if (!fs::exists(record_path(stem))) return false;
  try {
    return read_text_if_there(record_path(stem)) == record_of(stem, lengths, first, last, before);
  } catch (const Error&) {  // a record that cannot be read proves nothing
    return false;
  }
}

void record_neox_index(const std::string& stem, std::span<const int32_t> lengths, uint64_t first, uint64_t last,
                       const BeforeBlock& before) {
  write_text(record_path(stem), record_of(stem, lengths, first, last, before));
}

NeoxIndexState check_neox_index(const std::string& stem, std::span<const int32_t> lengths, uint64_t first,
                                uint64_t last, const NeoxOrder& order, const BeforeBlock& before) {
  if (has_neox_index_record(stem, lengths, first, last, before)) return NeoxIndexState::recorded;
  bool equal = true;
  make_order(lengths, first, last, order, [&](const char* suffix, const auto& values, uint64_t columns) {
    if (before) before();
    if (!equal) return;
    try {
      const NpyArray found(stem + suffix);
      const std::vector<uint64_t> shape =
          columns == 0 ? std::vector<uint64_t>{values.size()} : std::vector<uint64_t>{values.size() / columns, columns};
      equal = found.type() == npy_type_of(values) && found.shape() == shape &&
              std::ranges::equal(found.bytes(), std::as_bytes(values));
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::data) throw;
      equal = false;
    }
  });
  return equal ? NeoxIndexState::correct : NeoxIndexState::wrong;
}

NeoxIndex::NeoxIndex(const std::string& stem)
    : documents_(stem + kDocuments), sample_(stem + kSamples), shuffle_(stem + kShuffle) {
  require(sample_.shape().size() == 2 && sample_.shape()[1] == 2 && sample_.shape()[0] == shuffle_.size() + 1,
          ErrorKind::data,
          "{}{}, {} and {} do not match: the second has {} samples, the third {}; remove them to create them again",
          stem, kDocuments, kSamples, kShuffle, sample_.shape().empty() ? 0 : sample_.shape()[0], shuffle_.size());
}

NeoxIndex::Begin NeoxIndex::begin(uint64_t index) const {
  const auto sample = static_cast<uint64_t>(shuffle_.at(index));
  require(sample < shuffle_.size(), ErrorKind::data,
          "sample {} of the order has number {}, but only {} exist; remove its .npy files to create them again", index,
          sample, shuffle_.size());
  return {static_cast<uint64_t>(sample_.at(2 * sample)), static_cast<uint64_t>(sample_.at(2 * sample + 1))};
}

}  // namespace trireme
