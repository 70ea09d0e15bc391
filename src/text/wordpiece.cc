#include "text/wordpiece.h"

#include <algorithm>

#include "text/piece_cache.h"
#include "text/unicode.h"

namespace trireme {

struct WordPieceModel::Scratch final : ModelScratch {
  PieceCache cache;
  std::vector<TokenId> ids;
  std::string candidate;
};

WordPieceModel::WordPieceModel(Vocabulary vocabulary, WordPieceOptions options)
    : vocabulary_(std::move(vocabulary)), options_(std::move(options)) {
  for (TokenId id = 0; id < vocabulary_.id_limit(); ++id) {
    if (const std::string* token = vocabulary_.token(id)) longest_token_ = std::max(longest_token_, token->size());
  }
}

std::unique_ptr<ModelScratch> WordPieceModel::make_scratch() const { return std::make_unique<Scratch>(); }

void WordPieceModel::encode(std::string_view piece, ModelScratch& scratch, std::vector<TokenId>& out) const {
  if (piece.empty()) return;
  auto& own = static_cast<Scratch&>(scratch);
  if (own.cache.append(piece, out)) return;
  encode_uncached(piece, own);
  own.cache.insert(piece, own.ids);
  out.insert(out.end(), own.ids.begin(), own.ids.end());
}

void WordPieceModel::encode_uncached(std::string_view piece, Scratch& scratch) const {
  scratch.ids.clear();
  const auto unknown = [&] { scratch.ids.assign(1, options_.unknown); };
  if (piece.size() > options_.longest_word && count_code_points(piece) > options_.longest_word) return unknown();
  for (size_t begin = 0; begin < piece.size();) {
    scratch.candidate = begin == 0 ? "" : options_.prefix;
    const size_t prefix = scratch.candidate.size();
    size_t length = std::min(piece.size() - begin, longest_token_);
    scratch.candidate.append(piece, begin, length);
    std::optional<TokenId> id;
    for (; length > 0; --length, scratch.candidate.pop_back()) {
      // A token ends where a character does: a byte that goes on one cannot come next.
      if (begin + length < piece.size() && (static_cast<uint8_t>(piece[begin + length]) & 0xC0) == 0x80) continue;
      if ((id = vocabulary_.find(scratch.candidate))) break;
    }
    if (!id) return unknown();
    scratch.ids.push_back(*id);
    begin += scratch.candidate.size() - prefix;
  }
}

}  // namespace trireme
