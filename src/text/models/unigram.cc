#include "text/models/unigram.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <limits>

#include "base/error.h"
#include "text/models/piece_cache.h"
#include "text/unicode.h"

namespace trireme {
namespace {

constexpr double kUnknownPenalty = 10;  // an unknown character scores this much below the rarest token

/// Hugging Face's JSON reader rounds a number twice: its digits as a whole number, then divided by a power of ten.
/// These last bits decide between equally good paths in a run of one character. Uses the fewest digits that give the
/// number, like the files.
double read_in_two_steps(double score) {
  char text[40];
  const auto [end, error] = std::to_chars(text, text + sizeof text - 1, score, std::chars_format::scientific);
  if (error != std::errc() || !std::isfinite(score)) return score;
  *end = 0;
  uint64_t digits = 0;
  int exponent = 0;
  const char* p = text;
  for (bool fraction = false; p < end && *p != 'e'; ++p) {
    if (*p == '.') fraction = true;
    if (*p < '0' || *p > '9') continue;
    digits = digits * 10 + static_cast<uint64_t>(*p - '0');
    exponent -= fraction;
  }
  exponent += std::atoi(p + 1);
  const std::string power = fmt::format("1e{}", std::abs(exponent));
  const double ten = std::strtod(power.c_str(), nullptr), whole = static_cast<double>(digits);
  return std::copysign(exponent < 0 ? whole / ten : whole * ten, score);
}

}  // namespace

struct UnigramModel::Scratch final : ModelScratch {
  struct Best {  // best path to the end of a prefix of the piece
    double score = 0;
    size_t begin = SIZE_MAX;  // of its last token; SIZE_MAX: no path yet
    TokenId id = kNone;
  };
  PieceCache cache;
  std::vector<Best> best;
  std::vector<std::pair<size_t, size_t>> cuts;  // from the last to the first
  std::vector<TokenId> ids;
};

UnigramModel::UnigramModel(Vocabulary vocabulary, std::vector<double> scores, UnigramOptions options)
    : vocabulary_(std::move(vocabulary)), scores_(std::move(scores)), options_(options) {
  std::transform(scores_.begin(), scores_.end(), scores_.begin(), read_in_two_steps);
  double lowest = std::numeric_limits<double>::infinity();
  for (const double score : scores_) lowest = std::min(lowest, score);
  unknown_score_ = lowest - kUnknownPenalty;
  for (unsigned byte = 0; byte < 256; ++byte)
    fallback_ids_[byte] = vocabulary_.find(fmt::format("<0x{:02X}>", byte)).value_or(kNone);
  build_trie();
}

/// Breadth first over the sorted tokens: the tokens below a node are a range of them.
void UnigramModel::build_trie() {
  std::vector<std::pair<std::string_view, TokenId>> tokens;
  for (TokenId id = 0; id < vocabulary_.id_limit(); ++id) {
    const std::optional<std::string_view> token = vocabulary_.token(id);
    if (token && !token->empty()) tokens.emplace_back(*token, id);
  }
  std::sort(tokens.begin(), tokens.end());
  struct Range {
    size_t begin, end, depth;
  };
  std::vector<Range> ranges{{0, tokens.size(), 0}};
  nodes_.emplace_back();
  for (uint32_t n = 0; n < nodes_.size(); ++n) {
    auto [begin, end, depth] = ranges[n];
    if (begin < end && tokens[begin].first.size() == depth) nodes_[n].token = tokens[begin++].second;
    nodes_[n].first = static_cast<uint32_t>(edges_.size());
    while (begin < end) {
      const char byte = tokens[begin].first[depth];
      size_t stop = begin;
      while (stop < end && tokens[stop].first[depth] == byte) ++stop;
      edges_.push_back({static_cast<uint8_t>(byte), static_cast<uint32_t>(nodes_.size())});
      nodes_.emplace_back();
      ranges.push_back({begin, stop, depth + 1});
      begin = stop;
    }
    nodes_[n].count = static_cast<uint32_t>(edges_.size()) - nodes_[n].first;
  }
}

const UnigramModel::Node* UnigramModel::child(const Node& node, uint8_t byte) const {
  const auto first = edges_.begin() + node.first, last = first + node.count;
  const auto it = std::lower_bound(first, last, byte, [](const Edge& edge, uint8_t b) { return edge.byte < b; });
  return it != last && it->byte == byte ? &nodes_[it->node] : nullptr;
}

std::unique_ptr<ModelScratch> UnigramModel::make_scratch() const { return std::make_unique<Scratch>(); }

void UnigramModel::encode(std::string_view piece, ModelScratch& scratch, std::vector<TokenId>& out) const {
  if (piece.empty()) return;
  auto& own = static_cast<Scratch&>(scratch);
  if (own.cache.append(piece, out)) return;
  find_best_cut(piece, own);
  append_ids(piece, own);
  own.cache.insert(piece, own.ids);
  out.insert(out.end(), own.ids.begin(), own.ids.end());
}

void UnigramModel::find_best_cut(std::string_view piece, Scratch& scratch) const {
  auto& best = scratch.best;
  best.assign(piece.size() + 1, {});
  const char* const end = piece.data() + piece.size();
  for (size_t begin = 0; begin < piece.size();) {
    const size_t character = decode_utf8(piece.data() + begin, end).length;
    const double score = best[begin].score;
    const auto offer = [&](size_t to, double candidate, TokenId id) {
      if (best[to].begin == SIZE_MAX || candidate > best[to].score) best[to] = {candidate, begin, id};
    };
    bool single = false;
    const Node* node = &nodes_[0];
    for (size_t at = begin; at < piece.size() && (node = child(*node, static_cast<uint8_t>(piece[at]))); ++at) {
      if (node->token == kNone) continue;
      offer(at + 1, score + scores_[node->token], node->token);
      single = single || at + 1 - begin == character;
    }
    if (!single) offer(begin + character, score + unknown_score_, kNone);
    begin += character;
  }
  scratch.cuts.clear();
  for (size_t to = piece.size(); to > 0; to = best[to].begin) scratch.cuts.emplace_back(best[to].begin, to);
}

void UnigramModel::append_ids(std::string_view piece, Scratch& scratch) const {
  scratch.ids.clear();
  const auto is_unknown = [&](size_t to) {
    const TokenId id = scratch.best[to].id;
    return id == kNone || (options_.unknown && id == *options_.unknown);
  };
  for (size_t i = scratch.cuts.size(); i-- > 0;) {
    auto [begin, end] = scratch.cuts[i];
    if (!is_unknown(end)) {
      scratch.ids.push_back(scratch.best[end].id);
      continue;
    }
    while (i > 0 && is_unknown(scratch.cuts[i - 1].second)) end = scratch.cuts[--i].second;
    append_unknown(piece.substr(begin, end - begin), scratch.ids);
  }
}

void UnigramModel::append_unknown(std::string_view text, std::vector<TokenId>& ids) const {
  // Adjacent unknown characters can spell a token, which is then used.
  if (const std::optional<TokenId> whole = vocabulary_.find(text)) return ids.push_back(*whole);
  const auto fallback = [this](char byte) { return fallback_ids_[static_cast<uint8_t>(byte)]; };
  if (options_.byte_fallback &&
      std::all_of(text.begin(), text.end(), [&](char byte) { return fallback(byte) != kNone; })) {
    for (const char byte : text) ids.push_back(fallback(byte));
    return;
  }
  require(
      options_.unknown.has_value(), ErrorKind::data,
      "the text has \"{}\", which is missing from the tokenizer's vocabulary, and the tokenizer has no unknown token",
      text);
  ids.push_back(*options_.unknown);
}

}  // namespace trireme
