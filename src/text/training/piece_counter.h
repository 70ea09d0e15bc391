#pragma once
// Counts the pieces (words of GPT-2's pattern) of a text, which is all that BPE training needs.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace trireme {

class PieceCounter {
 public:
  PieceCounter();
  /// Cuts text by GPT-2's pattern and counts the pieces.
  void add_text(std::string_view text);
  void add_piece(std::string_view piece, uint64_t count);
  /// Adds the counts of another counter.
  void merge(const PieceCounter& other);

  struct Entry {
    std::string_view piece;
    uint64_t count;
  };
  /// All pieces in the order of their bytes, independent of the order of adding. Valid until the next change.
  std::vector<Entry> sorted() const;
  uint64_t total() const { return total_; }  ///< pieces, repeats included

 private:
  struct Slot {
    uint64_t hash = 0, count = 0;  // count 0: free
    uint64_t offset = 0;
    uint64_t bytes = 0;
  };
  void grow();

  std::vector<Slot> slots_;
  std::string pool_;  // the pieces' bytes
  size_t used_ = 0;
  uint64_t total_ = 0;
};

}  // namespace trireme
