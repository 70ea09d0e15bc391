#include "text/models/wordpiece.h"

#include "base/error.h"
#include "text/models/piece_cache.h"
#include "text/unicode.h"

namespace trireme {

namespace {

constexpr TokenId kNoToken = UINT32_MAX;
constexpr TokenId kWordStart = 0,
                  kWordRest = 1;  // roots of the tree: all tokens, and those with the prefix, without it

bool goes_on_character(char byte) { return (static_cast<uint8_t>(byte) & 0xC0) == 0x80; }

}  // namespace

struct WordPieceModel::Scratch final : ModelScratch {
  PieceCache cache;
  std::vector<TokenId> ids;
};

WordPieceModel::WordPieceModel(Vocabulary vocabulary, WordPieceOptions options)
    : vocabulary_(std::move(vocabulary)), options_(std::move(options)), ends_(2, kNoToken) {
  for (TokenId id = 0; id < vocabulary_.id_limit(); ++id) {
    const std::optional<std::string_view> token = vocabulary_.token(id);
    if (!token) continue;
    add_to_tree(kWordStart, *token, id);
    if (token->starts_with(options_.prefix)) add_to_tree(kWordRest, token->substr(options_.prefix.size()), id);
  }
}

void WordPieceModel::add_to_tree(TokenId root, std::string_view bytes, TokenId id) {
  TokenId node = root;
  for (const char byte : bytes) {
    const auto next = static_cast<TokenId>(ends_.size());
    if (edges_.add(node, static_cast<uint8_t>(byte), next)) ends_.push_back(kNoToken);
    node = static_cast<TokenId>(edges_.find(node, static_cast<uint8_t>(byte)));
  }
  ends_[node] = id;
}

size_t WordPieceModel::longest_match(TokenId root, std::string_view text, TokenId& id) const {
  size_t longest = 0;
  TokenId node = root;
  for (size_t i = 0; i < text.size();) {
    const uint64_t next = edges_.find(node, static_cast<uint8_t>(text[i++]));
    if (next == PairMap::kNone) break;
    node = static_cast<TokenId>(next);
    if (ends_[node] == kNoToken || (i < text.size() && goes_on_character(text[i]))) continue;
    longest = i;
    id = ends_[node];
  }
  return longest;
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
    TokenId id = kNoToken;
    const size_t length = longest_match(begin == 0 ? kWordStart : kWordRest, piece.substr(begin), id);
    if (length == 0) return unknown();
    scratch.ids.push_back(id);
    begin += length;
  }
}

void WordLevelModel::encode(std::string_view piece, ModelScratch&, std::vector<TokenId>& out) const {
  const std::optional<TokenId> id = vocabulary_.find(piece);
  require(
      id || unknown_, ErrorKind::data,
      "the text has \"{}\", which is missing from the tokenizer's vocabulary, and the tokenizer has no unknown token",
      piece);
  out.push_back(id ? *id : *unknown_);
}

}  // namespace trireme
