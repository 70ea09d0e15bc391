#pragma once
// A file that grows at its end and can be cut back to a size it had: what a killed run leaves is used again.
//
// It is written in whole blocks that begin at multiples of their size, by a thread of its own while the next ones are
// filled. Past the page cache that costs a tenth of the processor time and leaves the last sync() nothing to wait for;
// in the page cache such blocks take a few large pages, where writes of any size take one for each 4 KiB.

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "data/prepare/background_tasks.h"

namespace trireme {

class GrowingFile {
 public:
  /// Called with each block that is full, on the thread that writes.
  using OnBlock = std::function<void(std::span<const std::byte>)>;
  static constexpr size_t kBlockBytes = size_t{4} << 20;

  enum class Purpose {
    keep,   ///< blocks go to the disk at once
    reread  ///< blocks stay in memory where there is room: they are read soon, then the file is removed
  };

  /// Opens or makes the file and cuts it to `size` bytes. Throws Error::io, also when it has fewer.
  GrowingFile(std::string path, uint64_t size, Purpose purpose, OnBlock on_block = {});
  GrowingFile(const GrowingFile&) = delete;
  GrowingFile& operator=(const GrowingFile&) = delete;
  ~GrowingFile();

  /// Goes to the file when its block is full, or with flush() or sync(). Throws Error::io, also what an earlier block
  /// met with.
  void append(std::span<const std::byte> bytes);
  /// What was appended is in the file, and on_block has returned for each full block.
  void flush();
  /// flush(), and what was appended survives a power cut.
  void sync();
  /// Keeps the first `size` bytes, synced, under another path of the same file system. Nothing can be done afterwards.
  void move(const std::string& path, uint64_t size);
  /// Bytes at an offset, of what was flushed.
  void read(uint64_t offset, std::span<std::byte> bytes) const;

  /// What was appended since the last block was full.
  std::span<const std::byte> begun_block() const { return {block().get(), size_}; }

  const std::string& path() const { return path_; }

 private:
  // One is filled, the others wait for the disk: a disk that stops for 20 ms at 500 MB/s of text delays nobody.
  static constexpr size_t kBlocks = 3;

  struct Free {
    void operator()(std::byte* bytes) const;
  };
  using Block = std::unique_ptr<std::byte[], Free>;  // its pages are there once they were filled
  static Block allocate_block();

  Block& block() { return blocks_[current_]; }
  const Block& block() const { return blocks_[current_]; }
  void give_block_away();
  /// Writes bytes at an offset through that descriptor and returns how many of them it took.
  static size_t write(int fd, std::span<const std::byte> bytes, uint64_t offset);
  void write_through_cache(std::span<const std::byte> bytes, uint64_t offset) const;

  std::string path_;
  OnBlock on_block_;
  int fd_ = -1;
  int direct_fd_ = -1;  // past the page cache; -1: not wanted, or the file system cannot
  std::array<Block, kBlocks> blocks_;
  size_t current_ = 0;     // the block that is filled
  uint64_t block_begin_;   // its offset
  size_t size_, written_;  // its first size_ bytes are there, written_ of them in the file
  BackgroundTasks writes_{kBlocks - 1};
};

}  // namespace trireme
