#include "data/prepare/token_spool.h"

#include <algorithm>
#include <bit>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file.h"
#include "base/hash.h"
#include "data/sidecar.h"

namespace trireme {
namespace {

static_assert(std::endian::native == std::endian::little, "token files are little-endian and are written as they are");
static_assert(GrowingFile::kBlockBytes == kSidecarBlockBytes, "a block is hashed when it is full");

using Purpose = GrowingFile::Purpose;

constexpr size_t kCopyBytes = size_t{256} << 10;  // stays in the core's own cache

uint64_t saved_count(const Json& saved, const char* key) { return saved.is_null() ? 0 : saved.at(key).get<uint64_t>(); }

void require_tokens(uint64_t tokens, const std::string& path, uint64_t documents) {
  require(tokens > 0, ErrorKind::data, "{} would be empty: {} documents without a token", path, documents);
}

}  // namespace

TokenSpool::TokenSpool(const WorkFolder& folder, const std::string& name, Options options, const Json& saved)
    : width_(options.width),
      tokens_(saved_count(saved, "tokens")),
      ends_(saved_count(saved, "documents")),
      hashes_(tokens_ * width_ / kSidecarBlockBytes),
      ends_on_disk_(ends_.size()),
      hashes_on_disk_(hashes_.size()),
      ids_(folder.file(name + ".ids"), tokens_ * width_, options.kept ? Purpose::keep : Purpose::reread,
           [this](std::span<const std::byte> block) { hashes_.push_back(xxh3(block)); }),
      ends_file_(folder.file(name + ".ends"), ends_.size() * sizeof(uint64_t), Purpose::reread),
      hashes_file_(folder.file(name + ".hashes"), hashes_.size() * sizeof(uint64_t), Purpose::reread) {
  ends_file_.read(0, std::as_writable_bytes(std::span(ends_)));
  hashes_file_.read(0, std::as_writable_bytes(std::span(hashes_)));
}

void TokenSpool::append(std::span<const std::byte> ids, std::span<const size_t> ends) {
  for (const size_t end : ends) ends_.push_back(tokens_ + end);
  tokens_ += ids.size() / width_;
  ids_.append(ids);
}

void TokenSpool::flush() {
  ids_.flush();
  ends_file_.append(std::as_bytes(std::span(ends_).subspan(ends_on_disk_)));
  ends_file_.flush();
  ends_on_disk_ = ends_.size();
  hashes_file_.append(std::as_bytes(std::span(hashes_).subspan(hashes_on_disk_)));
  hashes_file_.flush();
  hashes_on_disk_ = hashes_.size();
}

void TokenSpool::sync() {
  flush();
  for (GrowingFile* file : {&ids_, &ends_file_, &hashes_file_}) file->sync();
}

Json TokenSpool::state() const { return {{"tokens", tokens_}, {"documents", ends_.size()}}; }

TokenSpool::Summary TokenSpool::write(const std::string& path, size_t documents,
                                      const std::function<Place(size_t)>& place_of,
                                      const std::function<void()>& keep_going) {
  Summary summary;
  GrowingFile file(path, 0, Purpose::keep,
                   [&](std::span<const std::byte> block) { summary.block_hashes.push_back(xxh3(block)); });
  std::vector<std::byte> copied(kCopyBytes);
  for (size_t i = 0; i < documents;) {
    // Adjacent documents of a spool are copied together.
    const auto [spool, first] = place_of(i);
    uint64_t last = first;
    for (++i; i < documents; ++i, ++last) {
      const Place next = place_of(i);
      if (next.spool != spool || next.document != last + 1) break;
    }
    const uint64_t begin = spool->end_of_first(first), end = spool->ends_[last], width = spool->width_;
    for (uint64_t at = begin * width; at < end * width;) {
      keep_going();
      const auto part = std::span(copied).first(std::min<uint64_t>(copied.size(), end * width - at));
      spool->ids_.read(at, part);
      file.append(part);
      at += part.size();
    }
    summary.tokens += end - begin;
  }
  require_tokens(summary.tokens, path, documents);
  file.sync();
  if (!file.begun_block().empty()) summary.block_hashes.push_back(xxh3(file.begun_block()));
  return summary;
}

bool TokenSpool::begins_with(std::span<const uint64_t> documents) const {
  for (uint64_t i = 0; i < documents.size(); ++i) {
    if (documents[i] != i) return false;
  }
  return true;
}

TokenSpool::Summary TokenSpool::summary_of_first(const std::string& path, uint64_t documents) {
  ids_.flush();
  Summary summary{end_of_first(documents), {}};
  require_tokens(summary.tokens, path, documents);
  const uint64_t bytes = summary.tokens * width_, blocks = bytes / kSidecarBlockBytes;
  summary.block_hashes.assign(hashes_.begin(), hashes_.begin() + static_cast<ptrdiff_t>(blocks));
  std::vector<std::byte> rest(bytes % kSidecarBlockBytes);
  ids_.read(blocks * kSidecarBlockBytes, rest);
  if (!rest.empty()) summary.block_hashes.push_back(xxh3(rest));
  return summary;
}

}  // namespace trireme
