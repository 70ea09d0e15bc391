#include "train/sft/turn_ends.h"

#include <algorithm>
#include <map>

#include "text/chat/turn_end.h"

namespace trireme {
namespace {

bool is_blank(const Tokenizer& tokenizer, TokenId id) {
  return tokenizer.decode({{id}}).find_first_not_of(" \t\r\n") == std::string::npos;
}

}  // namespace

std::optional<TokenId> end_of_counted_turns(const chat::CodedIds& conversations, const Tokenizer& tokenizer) {
  std::map<TokenId, size_t> ends;  // how many runs end with each id
  std::map<TokenId, bool> blank;
  size_t runs = 0;
  const auto is_blank_id = [&](TokenId id) {
    const auto [known, is_new] = blank.try_emplace(id, false);
    if (is_new) known->second = is_blank(tokenizer, id);
    return known->second;
  };
  for (size_t conversation = 0; conversation < conversations.size(); ++conversation) {
    const std::span<const int32_t> codes = conversations.at(conversation);
    for (size_t i = 0; i < codes.size(); ++i) {
      const bool last = chat::is_counted(codes[i]) && (i + 1 == codes.size() || !chat::is_counted(codes[i + 1]));
      if (!last) continue;
      ++runs;
      size_t at = i;
      while (at > 0 && chat::is_counted(codes[at - 1]) && is_blank_id(static_cast<TokenId>(chat::id_of(codes[at]))))
        --at;
      ++ends[static_cast<TokenId>(chat::id_of(codes[at]))];
    }
  }
  const auto most = std::ranges::max_element(ends, {}, [](const auto& end) { return end.second; });
  if (most == ends.end() || 2 * most->second <= runs || !chat::is_marker(tokenizer, most->first)) return std::nullopt;
  return most->first;
}

}  // namespace trireme
