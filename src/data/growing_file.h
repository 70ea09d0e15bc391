#pragma once
// A file that grows at its end and can be cut back to a size it had: what a killed run leaves is used again.
//
// It is written in whole blocks that begin at multiples of their size. Past the page cache that costs a tenth of the
// processor time and leaves the last sync() nothing to wait for; in the page cache such blocks take a few large pages,
// where writes of any size take one for each 4 KiB.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace trireme {

class GrowingFile {
 public:
  /// Called with each block when it is full, before it goes to the file.
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

  /// Goes to the file when its block is full, or with flush() or sync(). Throws Error::io.
  void append(std::span<const std::byte> bytes);
  void flush();
  /// flush(), and what was appended survives a power cut.
  void sync();
  /// Keeps the first `size` bytes, synced, under another path of the same file system. Nothing can be done afterwards.
  void move(const std::string& path, uint64_t size);
  /// Bytes at an offset, of what was flushed.
  void read(uint64_t offset, std::span<std::byte> bytes) const;

  /// What was appended since the last block was full.
  std::span<const std::byte> begun_block() const { return {block_.get(), size_}; }

  const std::string& path() const { return path_; }

 private:
  struct Free {
    void operator()(std::byte* bytes) const;
  };
  /// Writes what is missing of the block, through that descriptor.
  bool write_block(int fd);

  std::string path_;
  OnBlock on_block_;
  int fd_ = -1;
  int direct_fd_ = -1;                        // past the page cache; -1: not wanted, or the file system cannot
  uint64_t block_begin_;                      // offset of the last block
  std::unique_ptr<std::byte[], Free> block_;  // its first size_ bytes are there, written_ of them in the file
  size_t size_, written_;
};

}  // namespace trireme
