#include "train/guard/data_proof.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <set>

#include "base/hash.h"
#include "base/rng.h"
#include "comm/agreement.h"
#include "comm/proof.h"
#include "data/sidecar.h"

namespace trireme {
namespace {

constexpr uint64_t kParts = 64, kWhole = uint64_t{64} << 20, kSample = uint64_t{64} << 10;
constexpr uint64_t kLeastPart = 4096;
constexpr uint32_t kWindowStream = 5;  // beside those of data/sampler.h, of fine-tuning's epochs and of masks
constexpr uint64_t kGathered = 4096;   // window hashes that ranks exchange at once

std::string checksum(std::span<const std::byte> bytes) { return hex64(xxh3(bytes)); }

std::string sidecar_line(const std::string& path) {
  const std::string beside = sidecar_path(path);
  if (!std::filesystem::exists(beside)) return fmt::format("{}: missing\n", beside);
  return fmt::format("{}: XXH3 {}\n", beside, checksum(MappedFile(beside).bytes()));
}

std::string parts_of(const MappedFile& file, const BeforeBlock& before) {
  std::string lines;
  const uint64_t size = file.bytes().size();
  const bool whole = size <= kWhole;
  const uint64_t parts = whole ? std::min(kParts, (size + kLeastPart - 1) / kLeastPart) : kParts;
  for (uint64_t i = 0; i < parts; ++i) {
    if (before) before();
    const uint64_t begin = whole ? size * i / parts : (size - kSample) / (kParts - 1) * i;
    const uint64_t end = whole ? size * (i + 1) / parts : begin + kSample;
    lines += fmt::format("{}: bytes {} to {} have XXH3 {}\n", file.path(), begin, end,
                         checksum(file.bytes().subspan(begin, end - begin)));
  }
  return lines;
}

}  // namespace

std::string describe_file(const std::string& path, const std::string& hash, const BeforeBlock& before) {
  const MappedFile file(path);
  std::string lines = fmt::format("{}: {} bytes\n", path, file.bytes().size());
  lines += sidecar_line(path);
  lines += parts_of(file, before);
  if (!hash.empty()) lines += fmt::format("{}: XXH3 of all blocks {}\n", path, hash);
  return lines;
}

void prove_same_data(const std::vector<DataFileFact>& files, const std::vector<std::string>& others, Scalars& scalars,
                     std::string_view host, const BeforeBlock& before) {
  if (scalars.size() == 1) return;
  std::string text;
  together(scalars, [&] {
    for (const DataFileFact& file : files) text += describe_file(file.path, file.hash, before);
    for (const std::string& path : others) text += describe_file(path, "", before);
  });
  prove_same_text(scalars, host, text, "read the same data", "copy the data to that host again, with its sidecar");
}

DataWindows::DataWindows(const std::vector<DataFileFact>& files, uint64_t seed, int ranks) : seed_(seed) {
  if (ranks == 1) return;
  std::set<std::string> seen;
  for (const DataFileFact& file : files) {
    if (!seen.insert(file.path).second) continue;
    files_.emplace_back(file.path);
    total_ += files_.back().bytes().size();
  }
}

DataWindows::Window DataWindows::window(uint64_t number) const {
  uint64_t place = RandomStream(mix_key(seed_, kWindowStream, number)).below(total_);
  const MappedFile* file = files_.data();
  for (; place >= file->bytes().size(); ++file) place -= file->bytes().size();
  const uint64_t size = file->bytes().size(), bytes = std::min(size, kWindow);
  return {file, std::min(place, size - bytes), bytes};
}

uint64_t DataWindows::hash_of(uint64_t number) const {
  const Window drawn = window(number);
  return xxh3(drawn.file->bytes().subspan(drawn.begin, drawn.bytes));
}

void DataWindows::hash_next() {
  if (total_ > 0) hash_ = mix_key(hash_, hash_of(next_++));
}

void DataWindows::compare(Scalars& scalars, std::string_view host, int64_t step) {
  if (total_ == 0 || next_ == compared_) return;
  if (!scalars.differing(hash_).empty()) find_difference(scalars, host, step);
  compared_ = next_;
  hash_ = 0;
}

void DataWindows::find_difference(Scalars& scalars, std::string_view host, int64_t step) const {
  const auto hosts = scalars.gather(host);
  const std::string fix =
      "compare the file with that of the other hosts (`trireme data verify` if it has a sidecar), copy it again and "
      "resume from a checkpoint before this step";
  for (uint64_t first = compared_; first < next_; first += kGathered) {
    std::vector<uint64_t> hashes;
    for (uint64_t number = first; number < std::min(next_, first + kGathered); ++number)
      hashes.push_back(hash_of(number));
    const auto all = scalars.gather(
        std::string_view(reinterpret_cast<const char*>(hashes.data()), hashes.size() * sizeof(uint64_t)));
    for (size_t i = 0; i < hashes.size(); ++i) {
      const auto is_same = [&](const std::string& other) {
        return std::memcmp(other.data() + i * sizeof(uint64_t), all[0].data() + i * sizeof(uint64_t),
                           sizeof(uint64_t)) == 0;
      };
      if (std::ranges::all_of(all, is_same)) continue;
      const Window drawn = window(first + i);
      const std::vector<int> ranks = scalars.differing(hashes[i]);
      throw CommonError(
          ErrorKind::mismatch,
          fmt::format("ranks do not read the same data after step {}: {} in bytes {} to {} of {}; {}", step,
                      who_differs(ranks, hosts), drawn.begin, drawn.begin + drawn.bytes, drawn.file->path(), fix));
    }
  }
  throw CommonError(ErrorKind::mismatch,
                    fmt::format("ranks did not read the same data before step {}, but do now: a file was written to, "
                                "or a host's memory or network file system is faulty; {}",
                                step, fix));
}

}  // namespace trireme
