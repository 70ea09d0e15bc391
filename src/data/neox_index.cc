#include "data/neox_index.h"

#include <algorithm>
#include <filesystem>
#include <numeric>
#include <vector>

#include "base/count.h"
#include "base/error.h"
#include "base/size.h"
#include "data/numpy_legacy_random.h"

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
void write_shuffled_range(const std::string& path, uint64_t size, NumpyRandomState& random) {
  std::vector<T> order(size);
  std::iota(order.begin(), order.end(), T{0});
  random.shuffle(std::span(order));
  write_npy(path, std::span<const T>(order));
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

  const auto begin_file = [&] {
    if (before) before();
  };
  begin_file();
  NumpyRandomState random(order.seed);
  std::vector<int32_t> documents(epochs * (last - first));
  for (uint64_t i = 0; i < documents.size(); ++i) documents[i] = static_cast<int32_t>(first + i % (last - first));
  random.shuffle(std::span(documents));
  write_npy(stem + kDocuments, std::span<const int32_t>(documents));
  begin_file();
  if (needs_wide_samples(epochs * ids, order.sequence)) {
    write_npy(stem + kSamples,
              std::span<const int64_t>(sample_begins<int64_t>(lengths, documents, samples, order.sequence)), 2);
  } else {
    write_npy(stem + kSamples,
              std::span<const int32_t>(sample_begins<int32_t>(lengths, documents, samples, order.sequence)), 2);
  }
  begin_file();
  if (samples >= UINT32_MAX - 1)
    write_shuffled_range<int64_t>(stem + kShuffle, samples, random);
  else
    write_shuffled_range<uint32_t>(stem + kShuffle, samples, random);
}

NeoxIndex::NeoxIndex(const std::string& stem)
    : documents_(stem + kDocuments), sample_(stem + kSamples), shuffle_(stem + kShuffle) {
  require(sample_.shape().size() == 2 && sample_.shape()[1] == 2 && sample_.shape()[0] == shuffle_.size() + 1,
          ErrorKind::data,
          "{}{}, {} and {} do not match: the second has {} samples, the third {}; remove them to create them again",
          stem, kDocuments, kSamples, kShuffle, sample_.shape().empty() ? 0 : sample_.shape()[0], shuffle_.size());
}

bool NeoxIndex::covers(uint64_t first, uint64_t last) const {
  uint64_t lowest = UINT64_MAX, highest = 0;
  for (uint64_t place = 0; place < places(); ++place) {
    lowest = std::min(lowest, document(place));
    highest = std::max(highest, document(place));
  }
  return last > first && places() % (last - first) == 0 && lowest == first && highest == last - 1;
}

NeoxIndex::Begin NeoxIndex::begin(uint64_t index) const {
  const auto sample = static_cast<uint64_t>(shuffle_.at(index));
  require(sample < shuffle_.size(), ErrorKind::data,
          "sample {} of the order has number {}, but only {} exist; remove its .npy files to create them again", index,
          sample, shuffle_.size());
  return {static_cast<uint64_t>(sample_.at(2 * sample)), static_cast<uint64_t>(sample_.at(2 * sample + 1))};
}

}  // namespace trireme
