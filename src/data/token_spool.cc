#include "data/token_spool.h"

#include <algorithm>
#include <bit>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file.h"
#include "data/sidecar.h"

namespace trireme {
namespace {

static_assert(std::endian::native == std::endian::little, "token files are little-endian and are written as they are");

constexpr size_t kCopyBytes = size_t{2} << 20;

uint64_t saved_count(const Json& saved, const char* key) { return saved.is_null() ? 0 : saved.at(key).get<uint64_t>(); }

void require_tokens(uint64_t tokens, const std::string& path, uint64_t documents) {
  require(tokens > 0, ErrorKind::data, "{} would be empty: {} documents without a token", path, documents);
}

}  // namespace

TokenSpool::TokenSpool(const WorkFolder& folder, const std::string& name, uint64_t width, const Json& saved)
    : width_(width),
      tokens_(saved_count(saved, "tokens")),
      ids_(folder.file(name + ".ids"), tokens_ * width),
      ends_file_(folder.file(name + ".ends"), saved_count(saved, "documents") * sizeof(uint64_t)),
      ends_(saved_count(saved, "documents")),
      ends_on_disk_(ends_.size()) {
  ends_file_.read(0, std::as_writable_bytes(std::span(ends_)));
}

template <class Id>
void TokenSpool::append_as(std::span<const TokenId> ids) {
  narrowed_.resize(ids.size() * sizeof(Id));
  Id* to = reinterpret_cast<Id*>(narrowed_.data());
  for (const TokenId id : ids) *to++ = static_cast<Id>(id);
  ids_.append(narrowed_);
}

void TokenSpool::append(std::span<const TokenId> ids) {
  tokens_ += ids.size();
  if (width_ == sizeof(TokenId))
    ids_.append(std::as_bytes(ids));
  else
    append_as<uint16_t>(ids);
}

void TokenSpool::end_document() { ends_.push_back(tokens_); }

void TokenSpool::sync() {
  ids_.sync();
  ends_file_.append(std::as_bytes(std::span(ends_).subspan(ends_on_disk_)));
  ends_file_.sync();
  ends_on_disk_ = ends_.size();
}

Json TokenSpool::state() const { return {{"tokens", tokens_}, {"documents", ends_.size()}}; }

template <class Part>
void TokenSpool::read_ids(uint64_t begin, uint64_t end, const std::function<void()>& keep_going, Part part) {
  copied_.resize(kCopyBytes);
  for (uint64_t at = begin * width_; at < end * width_;) {
    keep_going();
    const auto bytes = std::span(copied_).first(std::min<uint64_t>(kCopyBytes, end * width_ - at));
    ids_.read(at, bytes);
    part(bytes);
    at += bytes.size();
  }
}

TokenSpool::Summary TokenSpool::write(const std::string& path, std::span<const uint64_t> documents,
                                      const std::function<void()>& keep_going) {
  ids_.flush();
  AtomicFile file(path);
  BlockHasher hasher;
  Summary summary;
  for (size_t i = 0; i < documents.size();) {
    // Documents that follow each other in the spool are copied together.
    const uint64_t begin = begin_of(documents[i]);
    uint64_t end = ends_[documents[i]];
    for (++i; i < documents.size() && begin_of(documents[i]) == end; ++i) end = ends_[documents[i]];
    read_ids(begin, end, keep_going, [&](std::span<const std::byte> bytes) {
      file.write(bytes);
      hasher.append(bytes);
    });
    summary.tokens += end - begin;
  }
  require_tokens(summary.tokens, path, documents.size());
  file.commit();
  summary.block_hashes = hasher.finish();
  return summary;
}

bool TokenSpool::begins_with(std::span<const uint64_t> documents) const {
  for (uint64_t i = 0; i < documents.size(); ++i) {
    if (documents[i] != i) return false;
  }
  return true;
}

TokenSpool::Summary TokenSpool::summary_of_first(const std::string& path, uint64_t documents,
                                                 const std::function<void()>& keep_going) {
  ids_.flush();
  BlockHasher hasher;
  Summary summary{end_of_first(documents), {}};
  require_tokens(summary.tokens, path, documents);
  read_ids(0, summary.tokens, keep_going, [&](std::span<const std::byte> bytes) { hasher.append(bytes); });
  summary.block_hashes = hasher.finish();
  return summary;
}

}  // namespace trireme
