#include "data/prepare/growing_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <utility>

#include "base/error.h"
#include "base/file.h"
#include "base/opened_file.h"

namespace trireme {

BackgroundTasks::~BackgroundTasks() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void BackgroundTasks::add(std::function<void()> task) {
  if (!thread_.joinable()) thread_ = std::thread([this] { run(); });
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return tasks_.size() < maximum_; });
  if (error_) std::rethrow_exception(error_);
  tasks_.push_back(std::move(task));
  changed_.notify_all();
}

void BackgroundTasks::finish() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return tasks_.empty(); });
  if (error_) std::rethrow_exception(error_);
}

void BackgroundTasks::run() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return ends_ || !tasks_.empty(); });
    if (tasks_.empty()) return;
    if (!error_) {
      const std::function<void()>& task = tasks_.front();  // others only append
      lock.unlock();
      std::exception_ptr error;
      try {
        task();
      } catch (...) {
        error = std::current_exception();
      }
      lock.lock();
      error_ = error;
    }
    tasks_.pop_front();
    changed_.notify_all();
  }
}

namespace {

constexpr size_t kPage = 4096;  // alignment of direct writes

}  // namespace

void GrowingFile::Free::operator()(std::byte* bytes) const { std::free(bytes); }

GrowingFile::Block GrowingFile::allocate_block() {
  void* const bytes = std::aligned_alloc(kPage, kBlockBytes);
  if (!bytes) throw std::bad_alloc();
  return Block(static_cast<std::byte*>(bytes));
}

GrowingFile::GrowingFile(std::string path, uint64_t size, Purpose purpose, OnBlock on_block)
    : path_(std::move(path)),
      on_block_(std::move(on_block)),
      block_begin_(size - size % kBlockBytes),
      size_(size % kBlockBytes),
      written_(size_) {
  for (Block& block : blocks_) block = allocate_block();
  fd_ = open_for_writing(path_, O_RDWR | O_CREAT);
  require(fd_ >= 0, ErrorKind::io, "cannot create {}: {}", path_, std::strerror(errno));
  if (purpose == Purpose::keep) direct_fd_ = open(path_.c_str(), O_WRONLY | O_DIRECT | O_CLOEXEC);
  try {
    const off_t found = lseek(fd_, 0, SEEK_END);
    require(found >= static_cast<off_t>(size) && ftruncate(fd_, static_cast<off_t>(size)) == 0, ErrorKind::io,
            "{} has {} bytes, but {} were saved; remove it to start from the beginning", path_, found, size);
    read(block_begin_, std::span(block().get(), size_));
  } catch (const Error&) {
    close(fd_);
    if (direct_fd_ >= 0) close(direct_fd_);
    throw;
  }
}

GrowingFile::~GrowingFile() {
  try {
    writes_.finish();  // they use the descriptors
  } catch (...) {      // callers who need the error call flush()
  }
  close(fd_);
  if (direct_fd_ >= 0) close(direct_fd_);
}

void GrowingFile::append(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const size_t n = std::min(bytes.size(), kBlockBytes - size_);
    std::memcpy(block().get() + size_, bytes.data(), n);
    size_ += n;
    bytes = bytes.subspan(n);
    if (size_ == kBlockBytes) queue_full_block();
  }
}

void GrowingFile::queue_full_block() {
  writes_.add(
      [this, bytes = std::span<const std::byte>(block().get(), kBlockBytes), begin = block_begin_, written = written_] {
        if (on_block_) on_block_(bytes);
        // Blocks that flush() has started use the cache, and blocks that the file system cannot write directly.
        const size_t direct = written == 0 && direct_fd_ >= 0 ? write(direct_fd_, bytes, begin) : written;
        write_through_cache(bytes.subspan(direct), begin + direct);
      });
  current_ = (current_ + 1) % kBlocks;  // add() has waited until the oldest one was free
  block_begin_ += kBlockBytes;
  size_ = written_ = 0;
}

size_t GrowingFile::write(int fd, std::span<const std::byte> bytes, uint64_t offset) {
  size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t n = pwrite(fd, bytes.data() + done, bytes.size() - done, static_cast<off_t>(offset + done));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    done += static_cast<size_t>(n);
  }
  return done;
}

void GrowingFile::write_through_cache(std::span<const std::byte> bytes, uint64_t offset) const {
  const bool written = write(fd_, bytes, offset) == bytes.size();
  require(written, ErrorKind::io, "cannot write {}: {}", path_, reason_of_write(errno));
}

void GrowingFile::flush() {
  writes_.finish();
  write_through_cache({block().get() + written_, size_ - written_}, block_begin_ + written_);
  written_ = size_;
}

void GrowingFile::sync() {
  flush();
  const bool synced = fdatasync(fd_) == 0;
  require(synced, ErrorKind::io, "cannot flush {} to disk: {}", path_, reason_of_write(errno));
}

void GrowingFile::move(const std::string& path, uint64_t size) {
  flush();
  require(ftruncate(fd_, static_cast<off_t>(size)) == 0, ErrorKind::io, "cannot truncate {}: {}", path_,
          std::strerror(errno));
  sync();
  const bool moved = std::rename(path_.c_str(), path.c_str()) == 0;
  require(moved, ErrorKind::io, "cannot move {} to {}: {}", path_, path, std::strerror(errno));
  path_ = path;
}

void GrowingFile::read(uint64_t offset, std::span<std::byte> bytes) const {
  for (size_t done = 0; done < bytes.size();) {
    const ssize_t n = pread(fd_, bytes.data() + done, bytes.size() - done, static_cast<off_t>(offset + done));
    if (n < 0 && errno == EINTR) continue;
    require(n > 0, ErrorKind::io, "cannot read {} back: {}", path_,
            n < 0 ? std::strerror(errno) : "unexpected end of file");
    done += static_cast<size_t>(n);
  }
}

}  // namespace trireme
