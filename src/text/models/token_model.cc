#include "text/models/token_model.h"

#include "text/unicode.h"

namespace trireme {
namespace {

/// <0x00> ... <0xFF>: a byte of a character that is not in the vocabulary.
bool is_byte(std::string_view token) { return token.size() == 6 && token.starts_with("<0x") && token.back() == '>'; }

}  // namespace

std::vector<size_t> TokenModel::ends(std::string_view piece, std::span<const TokenId> ids) const {
  std::vector<size_t> ends(ids.size(), piece.size());
  const auto token = [&](size_t i) { return vocabulary().token(ids[i]).value_or(std::string_view()); };
  const auto text = [&](size_t i) { return spelled(i == 0, i + 1 == ids.size(), token(i)); };
  const auto character = [&](size_t at) {
    return at + decode_utf8(piece.data() + at, piece.data() + piece.size()).length;
  };
  size_t at = 0;
  for (size_t i = 0; i + 1 < ids.size(); ++i) {
    const std::string spells = text(i);
    if (piece.substr(at).starts_with(spells)) {
      at += spells.size();
    } else if (is_byte(token(i)) && at < piece.size()) {
      ++at;
    } else if (at < piece.size()) {  // unknown: up to where the next one may begin
      const std::string next = text(i + 1);
      at = character(at);
      if (ids[i + 1] == ids[i] || is_byte(token(i + 1)) || piece.find(next, at) == std::string_view::npos) {
        ends[i] = at;
        continue;
      }
      while (at < piece.size() && !piece.substr(at).starts_with(next)) at = character(at);
    }
    ends[i] = at;
  }
  return ends;
}

}  // namespace trireme
