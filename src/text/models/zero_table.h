#pragma once
// A table of zero entries, in pages that the system allocates at first access.

#include <cstddef>
#include <memory>
#include <type_traits>
#include <utility>

namespace trireme {

/// Random access to a complete table is faster with large pages: fewer page faults and fewer TLB entries.
enum class TablePages { small, large };

class ZeroPages {
 public:
  /// Throws std::bad_alloc.
  ZeroPages(size_t bytes, TablePages pages);
  void* data() const { return pages_.get(); }

 private:
  struct Unmap {
    size_t bytes;
    void operator()(void* pages) const;
  };
  std::unique_ptr<void, Unmap> pages_;
};

template <class Entry>
class ZeroTable {
  static_assert(std::is_trivially_destructible_v<Entry> && std::is_trivially_copyable_v<Entry>, "zeros are entries");

 public:
  ZeroTable(size_t entries, TablePages pages)
      : pages_(entries * sizeof(Entry), pages), first_(static_cast<Entry*>(pages_.data())), size_(entries) {}
  ZeroTable(ZeroTable&& other) noexcept
      : pages_(std::move(other.pages_)),
        first_(std::exchange(other.first_, nullptr)),
        size_(std::exchange(other.size_, 0)) {}
  ZeroTable& operator=(ZeroTable&& other) noexcept {
    pages_ = std::move(other.pages_);
    first_ = std::exchange(other.first_, nullptr);
    size_ = std::exchange(other.size_, 0);
    return *this;
  }

  Entry& operator[](size_t at) { return first_[at]; }
  const Entry& operator[](size_t at) const { return first_[at]; }
  size_t size() const { return size_; }
  Entry* begin() { return first_; }
  Entry* end() { return first_ + size_; }
  const Entry* begin() const { return first_; }
  const Entry* end() const { return first_ + size_; }

 private:
  ZeroPages pages_;
  Entry* first_;
  size_t size_;
};

}  // namespace trireme
