#include "data/indexed_source.h"

#include <fcntl.h>
#include <fmt/ranges.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cassert>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <numeric>

#include "base/error.h"
#include "base/log.h"
#include "base/opened_file.h"
#include "data/indexed_dataset.h"
#include "data/token_dataset.h"

namespace trireme {
namespace {

constexpr uint64_t kStride = 1024;
constexpr double kSpare = 1.005;  // the choices do not follow the weights exactly

}  // namespace

Blend::Blend(std::vector<double> weights, uint64_t samples) : weights_(std::move(weights)), samples_(samples) {
  double sum = 0;
  for (const double weight : weights_) {
    require(weight >= 0 && std::isfinite(weight), ErrorKind::usage, "weight {} of a data set: expected a number >= 0",
            weight);
    sum += weight;
  }
  require(sum > 0, ErrorKind::usage, "the weights of the data sets are all 0");
  for (double& weight : weights_) weight /= sum;
  std::vector<uint64_t> taken(weights_.size());
  for (uint64_t i = 0; i < samples_; ++i) {
    if (i % kStride == 0) kept_.insert(kept_.end(), taken.begin(), taken.end());
    ++taken[choose(i, taken.data())];
  }
}

size_t Blend::choose(uint64_t index, const uint64_t* taken) const {
  const double number = std::max(static_cast<double>(index), 1.0);
  size_t best = 0;
  double most = weights_[0] * number - static_cast<double>(taken[0]);
  for (size_t i = 1; i < weights_.size(); ++i) {
    const double error = weights_[i] * number - static_cast<double>(taken[i]);
    if (error <= most) continue;
    most = error;
    best = i;
  }
  return best;
}

Blend::Choice Blend::at(uint64_t index) const {
  assert(index < samples_);
  const auto from = kept_.begin() + static_cast<ptrdiff_t>(index / kStride * weights_.size());
  std::vector<uint64_t> taken(from, from + static_cast<ptrdiff_t>(weights_.size()));
  for (uint64_t i = index / kStride * kStride;; ++i) {
    const size_t set = choose(i, taken.data());
    if (i == index) return {set, taken[set]};
    ++taken[set];
  }
}

uint64_t Blend::needed(size_t set) const {
  return static_cast<uint64_t>(std::ceil(static_cast<double>(samples_) * weights_[set] * kSpare));
}

namespace {

namespace fs = std::filesystem;

/// Held while the files of an order are checked and made. Without locks in the file system every process makes them:
/// files appear atomically and are identical.
class BuildLock {
 public:
  explicit BuildLock(std::string path) : path_(std::move(path)), fd_(open_for_writing(path_, O_RDWR | O_CREAT)) {
    if (fd_ >= 0) flock(fd_, LOCK_EX);
  }
  BuildLock(const BuildLock&) = delete;
  BuildLock& operator=(const BuildLock&) = delete;
  ~BuildLock() {
    if (fd_ < 0) return;
    unlink(path_.c_str());
    close(fd_);
  }

 private:
  std::string path_;
  int fd_;
};

/// The record costs time at the next start where it is missing, no more: the folder may be read-only.
void keep_record(const std::string& stem, std::span<const int32_t> lengths, uint64_t first, uint64_t last,
                 const BeforeBlock& before) {
  try {
    record_neox_index(stem, lengths, first, last, before);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::io) throw;
    log::info("the hashes of the sample order are not kept, so every start checks it again: {}", error.what());
  }
}

std::vector<double> weights_of(const std::vector<WeightedPrefix>& sets) {
  std::vector<double> weights;
  for (const WeightedPrefix& set : sets) weights.push_back(set.weight);
  return weights;
}

std::vector<std::string> words_of(const std::string& text) {
  std::vector<std::string> words;
  for (size_t at = text.find_first_not_of(" ,"); at != std::string::npos;) {
    const size_t end = std::min(text.find_first_of(" ,", at), text.size());
    words.push_back(text.substr(at, end - at));
    at = text.find_first_not_of(" ,", end);
  }
  return words;
}

}  // namespace

std::vector<WeightedPrefix> parse_blend(const std::string& text) {
  const std::vector<std::string> words = words_of(text);
  if (words.size() == 1) return {{1, words[0]}};
  require(!words.empty() && words.size() % 2 == 0, ErrorKind::usage,
          "data \"{}\" has {} words; expected one prefix, or alternating weights and prefixes", text, words.size());
  std::vector<WeightedPrefix> sets;
  for (size_t i = 0; i < words.size(); i += 2) {
    WeightedPrefix set{0, words[i + 1], true};
    const char* const end = words[i].data() + words[i].size();
    const auto [rest, error] = std::from_chars(words[i].data(), end, set.weight);
    require(error == std::errc() && rest == end, ErrorKind::usage,
            "data \"{}\": found \"{}\", expected a weight; alternate weights and prefixes", text, words[i]);
    sets.push_back(std::move(set));
  }
  return sets;
}

IndexedSource::IndexedSource(IndexedSourceOptions options)
    : options_(std::move(options)),
      blend_(weights_of(options_.sets), blended() ? std::max<uint64_t>(options_.samples, 1) : 1) {
  for (size_t i = 0; i < options_.sets.size(); ++i) sets_.push_back(open(i));
}

bool IndexedSource::blended() const { return options_.sets.size() > 1 || options_.sets[0].weighted; }

IndexedSource::Set IndexedSource::open(size_t number) const {
  const std::string& prefix = options_.sets[number].prefix;
  Set set{"", std::make_unique<IndexedDataset>(prefix), nullptr};
  set.data->check_ids(options_.vocabulary, options_.verify, options_.before);
  uint64_t first = 0, last = set.data->sequences();
  if (!options_.split.empty()) {
    const PartBorders borders = part_borders(options_.split, set.data->sequences());
    const size_t part = options_.part == "train" ? 0 : options_.part == "valid" ? 1 : 2;
    first = borders[part];
    last = borders[part + 1];
    for (size_t i = 0; i < set.documents.size(); ++i) set.documents[i] = borders[i + 1] - borders[i];
  }
  uint64_t ids = 0;
  for (uint64_t i = first; i < last; ++i) ids += static_cast<uint64_t>(set.data->lengths()[i]);
  set.tokens = ids;
  require(ids > options_.sequence, ErrorKind::data,
          "{}: the documents for {} have {} tokens, but one sample needs {}; lower batch.sequence, use more text or "
          "another "
          "data.split",
          set.data->path(), options_.part, ids, options_.sequence + 1);
  const NeoxOrder order{.name = blended() ? fmt::format("{}_{}", options_.part, number) : options_.part,
                        .samples = blended() ? blend_.needed(number) : std::max<uint64_t>(options_.samples, 1),
                        .sequence = options_.sequence,
                        .seed = options_.seed};
  if (!options_.index_folder.empty()) fs::create_directories(options_.index_folder);
  const std::string stem = set.stem = neox_index_stem(prefix, options_.index_folder, order);
  const std::span<const int32_t> lengths = set.data->lengths();
  if (!has_neox_index(stem) || !has_neox_index_record(stem, lengths, first, last, options_.before))
    make_order(stem, lengths, first, last, order);
  set.order = std::make_unique<NeoxIndex>(stem);
  return set;
}

/// Makes the files, unless another process has made them meanwhile, or NeoX has.
void IndexedSource::make_order(const std::string& stem, std::span<const int32_t> lengths, uint64_t first, uint64_t last,
                               const NeoxOrder& order) const {
  const BuildLock lock(stem + ".lock");
  if (has_neox_index(stem)) {
    const NeoxIndexState state = check_neox_index(stem, lengths, first, last, order, options_.before);
    if (state == NeoxIndexState::recorded) return;
    if (state == NeoxIndexState::correct) return keep_record(stem, lengths, first, last, options_.before);
    log::warning("the sample order {} is damaged or is that of other documents: creating it again", stem);
  } else {
    log::info("creating the sample order {}", stem);
  }
  build_neox_index(stem, lengths, first, last, order, options_.before);
  keep_record(stem, lengths, first, last, options_.before);
}

void IndexedSource::fill(SampleStream, uint64_t index, std::span<int32_t> tokens, std::span<int32_t> targets) const {
  const Blend::Choice choice =
      sets_.size() == 1 ? Blend::Choice{0, index} : blend_.at(index % std::max<uint64_t>(options_.samples, 1));
  const Set& set = sets_[choice.set];
  const auto begin = set.order->begin(choice.sample % set.order->samples());
  auto copy = [&, place = begin.place, offset = begin.offset](std::span<int32_t> to) mutable {
    while (!to.empty()) {
      require(place < set.order->places() && set.order->document(place) < set.data->sequences(), ErrorKind::data,
              "the sample order of {} points outside the data; remove its .npy files to create them again",
              set.data->path());
      const uint64_t document = set.order->document(place);
      const auto length = static_cast<uint64_t>(set.data->lengths()[document]);
      const uint64_t n = std::min<uint64_t>(to.size(), length - std::min(offset, length));
      set.data->copy(document, offset, to.first(n));
      require_ids(set.data->path(), set.data->begin(document) + offset, to.first(n), options_.vocabulary);
      to = to.subspan(n);
      offset += n;
      if (offset < length) continue;
      ++place;
      offset = 0;
    }
  };
  copy(tokens);
  std::copy(tokens.begin() + 1, tokens.end(), targets.begin());
  copy(targets.last(1));
}

uint64_t IndexedSource::tokens() const {
  uint64_t total = 0;
  for (const Set& set : sets_) total += set.tokens;
  return total;
}

std::string IndexedSource::name() const {
  std::vector<std::string> names;
  for (const WeightedPrefix& set : options_.sets)
    names.push_back(options_.sets.size() == 1 ? set.prefix : fmt::format("{} {}", set.weight, set.prefix));
  return fmt::format("{}", fmt::join(names, ", "));
}

std::vector<std::string> IndexedSource::index_files() const {
  std::vector<std::string> files;
  for (size_t i = 0; i < sets_.size(); ++i) {
    files.push_back(options_.sets[i].prefix + ".idx");
    for (const std::string& file : neox_index_files(sets_[i].stem)) files.push_back(file);
  }
  return files;
}

uint64_t IndexedSource::documents(size_t part) const {
  uint64_t documents = 0;
  for (const Set& set : sets_) {
    if (set.documents[part] == 0) return 0;
    documents += set.documents[part];
  }
  return documents;
}

uint64_t IndexedSource::unused_documents(size_t part) const {
  uint64_t all = 0;
  for (const Set& set : sets_) all += set.documents[part];
  return documents(part) > 0 ? 0 : all;
}

std::vector<SourceFile> IndexedSource::files(const BeforeBlock& before) const {
  std::vector<SourceFile> files;
  for (const Set& set : sets_)
    files.push_back(
        {set.data->path(), set.data->bytes().size(), data_hash(set.data->bytes(), set.data->sidecar(), before)});
  return files;
}

}  // namespace trireme
