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

TokenSpool::Summary TokenSpool::write(const std::string& path, std::span<const uint64_t> documents,
                                      const std::function<void()>& keep_going) {
  ids_.flush();
  AtomicFile file(path);
  BlockHasher hasher;
  Summary summary;
  std::vector<std::byte> bytes(kCopyBytes);
  for (size_t i = 0; i < documents.size();) {
    // Documents that follow each other in the spool are copied together.
    const uint64_t begin = begin_of(documents[i]);
    uint64_t end = ends_[documents[i]];
    for (++i; i < documents.size() && begin_of(documents[i]) == end; ++i) end = ends_[documents[i]];
    for (uint64_t at = begin * width_; at < end * width_;) {
      keep_going();
      const auto part = std::span(bytes).first(std::min<uint64_t>(kCopyBytes, end * width_ - at));
      ids_.read(at, part);
      file.write(part);
      hasher.append(part);
      at += part.size();
    }
    summary.tokens += end - begin;
  }
  require(summary.tokens > 0, ErrorKind::data, "{} would be empty: {} documents without a token", path,
          documents.size());
  file.commit();
  summary.block_hashes = hasher.finish();
  return summary;
}

}  // namespace trireme
