#pragma once
// Conversations as rows of a training: their ids, which of them count in the loss, and which conversations share a row.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace trireme::chat {

// Puts conversations together into rows, so that little of a row is padding.

struct Packing {
  std::vector<std::vector<size_t>> rows;  ///< numbers of the conversations in each row, in the order of placing
  size_t cut = 0;                         ///< conversations that are longer than a row and lose their end
};

/// Best fit decreasing: the conversations by falling length (equal ones in their order), each into the row with the
/// least room that is enough, else into a new one. lengths: ids of each conversation, at least 1; longer ones count as
/// `row` ids. row: ids of a row, at least 1. n log n. Source: Johnson 1973; TRL's packing strategy "bfd".
Packing pack_best_fit(std::span<const size_t> lengths, size_t row);

/// Conversations as codes: an id, or its complement (~id, which is negative) where it counts in the loss.
struct CodedIds {
  std::vector<int32_t> codes;
  std::vector<uint64_t> offsets{0};  ///< where each conversation begins, and the end

  size_t size() const { return offsets.size() - 1; }
  std::span<const int32_t> at(size_t conversation) const {
    return std::span(codes).subspan(offsets[conversation], offsets[conversation + 1] - offsets[conversation]);
  }
  void add(std::span<const int32_t> conversation) {
    codes.insert(codes.end(), conversation.begin(), conversation.end());
    offsets.push_back(codes.size());
  }
};
constexpr bool is_counted(int32_t code) { return code < 0; }
constexpr int32_t id_of(int32_t code) { return is_counted(code) ? ~code : code; }

struct TrainingRows {
  CodedIds conversations;
  size_t most = 0;                        ///< ids of a row
  std::vector<std::vector<size_t>> rows;  ///< numbers of the conversations in each row
  std::vector<int64_t> lengths, counted;  ///< of each row: ids, and predictions that count in the loss, at least 1
  size_t cut = 0;                         ///< conversations that lost their end, because they are longer than a row
  size_t uncounted = 0;                   ///< conversations (pairs) in no row: no id of what is left counts in the loss
  size_t equal = 0;                       ///< pairs in no row: what is left of their answers is the same

  size_t size() const { return rows.size(); }
  int64_t ids() const;          ///< of all rows
  int64_t counted_ids() const;  ///< predictions of all rows that count
  double padding() const;       ///< 0-1: what rows of `most` ids would have of padding; none is computed
  /// The codes of a conversation that fit in a row.
  std::span<const int32_t> kept(size_t conversation) const {
    const std::span<const int32_t> all = conversations.at(conversation);
    return all.first(std::min(all.size(), most));
  }
};

/// Rows of at most `most` ids (at least 2): with `packs` several conversations in a row by best fit decreasing
/// (packing.h), else one in each, in their order. Of a conversation id i + 1 is predicted at id i, so its first id is
/// never counted.
TrainingRows make_rows(CodedIds conversations, size_t most, bool packs);

/// Rows of pairs: the conversations 2 i and 2 i + 1 are two answers to one prompt, and share row i, of at most 2 x most
/// ids. Pairs of which no id of an answer counts in its first `most` ids are in no row, and those whose answers do
/// not differ there.
TrainingRows make_pairs(CodedIds conversations, size_t most);

/// Takes the share of the conversations that a seed chooses out of `all`: rounded, at least 1 and at most all but one;
/// share 0: none. Both keep their order. each: conversations that stay together, in which `all` is counted.
CodedIds take_share(CodedIds& all, double share, uint64_t seed, size_t each = 1);

}  // namespace trireme::chat
