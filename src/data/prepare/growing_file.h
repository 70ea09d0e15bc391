#pragma once
// A file that grows and can be truncated to an earlier size, so that a later run can use what a killed run has left. A
// separate thread writes complete blocks at multiples of their size while the next ones are filled. Direct writes cost
// a tenth of the processor time, and the last sync() has nothing to wait for; in the page cache such blocks take a few
// large pages instead of one per 4 KiB.

#include <array>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <thread>

namespace trireme {

// Runs tasks in order on another thread, so that waiting for a disk does not block compute.

/// Used by one thread at a time. The other thread starts with the first task.
class BackgroundTasks {
 public:
  /// `most`: tasks that may be unfinished at a time.
  explicit BackgroundTasks(size_t most) : maximum_(most) {}
  BackgroundTasks(const BackgroundTasks&) = delete;
  BackgroundTasks& operator=(const BackgroundTasks&) = delete;
  /// Waits for the tasks; ignores their exceptions.
  ~BackgroundTasks();

  /// Waits until fewer than `most` are unfinished. Throws an earlier task's exception; the tasks after it are dropped,
  /// including this one.
  void add(std::function<void()> task);
  /// Waits for all tasks. Throws a task's exception, also in later calls.
  void finish();

 private:
  void run();

  const size_t maximum_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> tasks_;  // the first one is running
  std::exception_ptr error_;
  bool ends_ = false;
  std::thread thread_;
};

class GrowingFile {
 public:
  /// Called with each full block, on the writing thread.
  using OnBlock = std::function<void(std::span<const std::byte>)>;
  static constexpr size_t kBlockBytes = size_t{4} << 20;

  enum class Purpose {
    keep,   ///< blocks are written to disk at once
    reread  ///< blocks stay in memory if possible: they are read soon, then the file is removed
  };

  /// Opens or creates the file and truncates it to `size` bytes. Throws Error::io, also if it has fewer.
  GrowingFile(std::string path, uint64_t size, Purpose purpose, OnBlock on_block = {});
  GrowingFile(const GrowingFile&) = delete;
  GrowingFile& operator=(const GrowingFile&) = delete;
  ~GrowingFile();

  /// Appends; written when its block is full, or by flush() or sync(). Throws Error::io, also for an earlier block.
  void append(std::span<const std::byte> bytes);
  /// Writes everything appended to the file; on_block has then returned for each full block.
  void flush();
  /// flush(), and makes everything appended survive a power cut.
  void sync();
  /// Moves the first `size` bytes, synced, to another path of the same file system. The object is unusable afterwards.
  void move(const std::string& path, uint64_t size);
  /// Reads flushed bytes at an offset.
  void read(uint64_t offset, std::span<std::byte> bytes) const;

  /// Bytes appended since the last full block.
  std::span<const std::byte> begun_block() const { return {block().get(), size_}; }

  const std::string& path() const { return path_; }

 private:
  // One is filled, the others wait for the disk: a disk that stalls for 20 ms at 500 MB/s of text causes no delay.
  static constexpr size_t kBlocks = 3;

  struct Free {
    void operator()(std::byte* bytes) const;
  };
  using Block = std::unique_ptr<std::byte[], Free>;  // its pages are allocated when they are filled
  static Block allocate_block();

  Block& block() { return blocks_[current_]; }
  const Block& block() const { return blocks_[current_]; }
  void queue_full_block();
  /// Writes bytes at an offset through that descriptor and returns the number written.
  static size_t write(int fd, std::span<const std::byte> bytes, uint64_t offset);
  void write_through_cache(std::span<const std::byte> bytes, uint64_t offset) const;

  std::string path_;
  OnBlock on_block_;
  int fd_ = -1;
  int direct_fd_ = -1;  // for direct writes; -1: not wanted or unsupported by the file system
  std::array<Block, kBlocks> blocks_;
  size_t current_ = 0;     // the block being filled
  uint64_t block_begin_;   // its offset
  size_t size_, written_;  // size_ bytes of it are filled, written_ of them are in the file
  BackgroundTasks writes_{kBlocks - 1};
};

}  // namespace trireme
