#include "checkpoint/snapshot/shard_copy.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "base/error.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/opened_file.h"
#include "checkpoint/snapshot/stored_shard.h"

namespace trireme {
namespace fs = std::filesystem;
namespace {

constexpr size_t kStride = size_t{1} << 20;  // between looks at the limit

/// Read, not mapped: a disk that fails is an error and not the process' end.
void read_at(const OpenedFile& file, const std::string& path, uint64_t begin, std::span<std::byte> out) {
  for (size_t done = 0; done < out.size();) {
    const ssize_t n = pread(file.fd(), out.data() + done, out.size() - done, static_cast<off_t>(begin + done));
    if (n < 0 && errno == EINTR) continue;
    require(n > 0, ErrorKind::io, "cannot read {} at offset {}: {}", path, begin + done,
            n == 0 ? "the file ends there" : std::strerror(errno));
    done += static_cast<size_t>(n);
  }
}

}  // namespace

ShardCopy::ShardCopy(Order order, const Manifest& manifest, Heartbeat* heartbeat)
    : order_(std::move(order)), manifest_(manifest), heartbeat_(heartbeat), rate_(order_.bytes_per_second) {
  for (const size_t shard : order_.shards) bytes_ += manifest_.shards[shard].bytes;
  thread_ = std::thread([this] { run(); });
}

ShardCopy::~ShardCopy() {
  {
    const std::lock_guard lock(mutex_);
    cancelled_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

bool ShardCopy::wait(double seconds) const {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, std::chrono::duration<double>(seconds), [&] { return done_.load(); });
}

void ShardCopy::lift_limit() {
  {
    const std::lock_guard lock(mutex_);
    rate_ = 0;
  }
  changed_.notify_all();
}

const std::string& ShardCopy::failure() {
  if (thread_.joinable()) thread_.join();
  return failure_;
}

void ShardCopy::run() {
  try {
    std::error_code error;
    fs::create_directory(order_.to, error);
    require(!error, ErrorKind::io, "cannot create {}: {}", order_.to, error.message());
    for (const size_t shard : order_.shards) copy(shard);
    const bool first = std::ranges::find(order_.shards, size_t{0}) != order_.shards.end();
    if (first && manifest_.has_tokenizer)
      write_text(order_.to + "/tokenizer.json", read_tokenizer(order_.from, manifest_));
  } catch (const std::exception& e) {
    failure_ = *e.what() ? e.what() : "unknown failure";
  }
  const std::lock_guard lock(mutex_);
  done_ = true;
  changed_.notify_all();
}

void ShardCopy::copy(size_t index) {
  const StoredShard& shard = manifest_.shards[index];
  const std::string path = order_.from + "/" + shard.file;
  const OpenedFile file(path);
  AtomicFile out(order_.to + "/" + shard.file);
  std::vector<std::byte> bytes(shard.header_bytes);
  const auto write = [&](uint64_t begin) {
    for (size_t at = 0; at < bytes.size(); at += kStride) {
      const auto part = std::span(bytes).subspan(at, std::min(kStride, bytes.size() - at));
      out.write_at(begin + at, part);
      pace(part.size());
    }
  };
  read_at(file, path, 0, bytes);
  require(xxh3(bytes) == shard.header_hash, ErrorKind::data, "{}: bytes 0 to {} (the header) are damaged", path,
          shard.header_bytes);
  write(0);
  for (const StoredSlice& slice : manifest_.slices) {
    for (size_t piece = 0; slice.shard == index && piece < slice.pieces(); ++piece) {
      const PiecePlace place = place_of_piece(slice, piece);
      bytes.resize(place.bytes);
      read_at(file, path, place.begin, bytes);
      check_piece(bytes, path, manifest_, slice, piece);
      write(place.begin);
    }
  }
  out.commit();
}

void ShardCopy::pace(size_t bytes) {
  copied_ += bytes;
  if (heartbeat_) heartbeat_->move();
  std::unique_lock lock(mutex_);
  while (!cancelled_ && rate_ > 0) {
    const auto due = start_ + std::chrono::duration_cast<Clock::duration>(
                                  std::chrono::duration<double>(static_cast<double>(copied_) / rate_));
    if (Clock::now() >= due) break;
    changed_.wait_until(lock, due);
  }
  require(!cancelled_, ErrorKind::stopped, "the copy was cancelled");
}

}  // namespace trireme
