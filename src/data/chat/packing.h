#pragma once
// Puts conversations together into rows, so that little of a row is padding.

#include <cstddef>
#include <span>
#include <vector>

namespace trireme::chat {

struct Packing {
  std::vector<std::vector<size_t>> rows;  ///< numbers of the conversations in each row, in the order of placing
  size_t cut = 0;                         ///< conversations that are longer than a row and lose their end
};

/// Best fit decreasing: the conversations by falling length (equal ones in their order), each into the row with the
/// least room that is enough, else into a new one. lengths: ids of each conversation, at least 1; longer ones count as
/// `row` ids. row: ids of a row, at least 1. n log n. Source: Johnson 1973; TRL's packing strategy "bfd".
Packing pack_best_fit(std::span<const size_t> lengths, size_t row);

}  // namespace trireme::chat
