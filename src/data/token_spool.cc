#include "data/token_spool.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>

#include "base/error.h"
#include "base/file.h"
#include "data/sidecar.h"

namespace trireme {
namespace {

static_assert(std::endian::native == std::endian::little, "token files are little-endian and are written as they are");

constexpr size_t kBufferTokens = size_t{1} << 20;

}  // namespace

TokenSpool::TokenSpool(std::string path) : path_(std::move(path)) {
  fd_ = open(path_.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  require(fd_ >= 0, ErrorKind::io, "cannot create {}: {}", path_, std::strerror(errno));
  buffer_.reserve(kBufferTokens);
}

TokenSpool::~TokenSpool() {
  close(fd_);
  unlink(path_.c_str());
}

void TokenSpool::append(std::span<const TokenId> ids) {
  tokens_ += ids.size();
  while (!ids.empty()) {
    const size_t take = std::min(ids.size(), kBufferTokens - buffer_.size());
    for (const TokenId id : ids.first(take)) buffer_.push_back(static_cast<uint16_t>(id));
    ids = ids.subspan(take);
    if (buffer_.size() == kBufferTokens) flush();
  }
}

void TokenSpool::end_document() { ends_.push_back(tokens_); }

void TokenSpool::flush() {
  const char* bytes = reinterpret_cast<const char*>(buffer_.data());
  const size_t size = buffer_.size() * sizeof(uint16_t);
  for (size_t done = 0; done < size;) {
    const ssize_t n = ::write(fd_, bytes + done, size - done);
    if (n < 0 && errno == EINTR) continue;
    require(n > 0, ErrorKind::io, "cannot write {} ({} tokens so far): {}", path_, tokens_, std::strerror(errno));
    done += static_cast<size_t>(n);
  }
  buffer_.clear();
}

void TokenSpool::read(uint64_t token, std::span<uint16_t> ids) {
  char* bytes = reinterpret_cast<char*>(ids.data());
  for (size_t done = 0; done < ids.size_bytes();) {
    const ssize_t n =
        pread(fd_, bytes + done, ids.size_bytes() - done, static_cast<off_t>(token * sizeof(uint16_t) + done));
    if (n < 0 && errno == EINTR) continue;
    require(n > 0, ErrorKind::io, "cannot read {} back: {}", path_, n < 0 ? std::strerror(errno) : "it was cut off");
    done += static_cast<size_t>(n);
  }
}

TokenSpool::Summary TokenSpool::write(const std::string& path, std::span<const uint64_t> documents,
                                      const std::function<void()>& keep_going) {
  flush();
  AtomicFile file(path);
  BlockHasher hasher;
  Summary summary;
  std::vector<uint16_t> ids(kBufferTokens);
  for (size_t i = 0; i < documents.size();) {
    // Documents that follow each other in the spool are copied together.
    const uint64_t begin = begin_of(documents[i]);
    uint64_t end = ends_[documents[i]];
    for (++i; i < documents.size() && begin_of(documents[i]) == end; ++i) end = ends_[documents[i]];
    for (uint64_t at = begin; at < end;) {
      keep_going();
      const std::span<uint16_t> part(ids.data(), std::min<uint64_t>(kBufferTokens, end - at));
      read(at, part);
      file.write(std::as_bytes(part));
      hasher.append(std::as_bytes(part));
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
