#include "text/models/bpe.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "text/byte_alphabet.h"
#include "text/models/piece_cache.h"

namespace trireme {

namespace {

constexpr size_t kBatch = 64;                     // pieces whose cache lines are prefetched at the same time
constexpr size_t kMergedFirst = size_t{1} << 18;  // bytes merged before paths are built

}  // namespace

struct BpeModel::Scratch final : ModelScratch {
  struct Pending {
    std::string_view piece;
    PieceCache::Place place;
  };
  PieceCache cache;
  Pending pending[kBatch];
  TokenId ids[(kBatch + 1) * PieceCache::kInlineIds];  // find() always writes all entries
  std::string spelling;
  std::vector<TokenId> symbols;
  MergeScratch merge;
  size_t merged = 0;  // bytes of long pieces
  std::optional<TokenPaths::Memory> paths;
};

BpeModel::BpeModel(Vocabulary vocabulary, MergeTable merges, BpeOptions options)
    : vocabulary_(std::move(vocabulary)), merges_(std::move(merges)), options_(std::move(options)) {
  for (unsigned byte = 0; byte < 256; ++byte) {
    std::string letter;
    append_utf8(byte_to_letter(static_cast<uint8_t>(byte)), letter);
    byte_ids_[byte] = vocabulary_.find(letter).value_or(kMissing);
    fallback_ids_[byte] = vocabulary_.find(fmt::format("<0x{:02X}>", byte)).value_or(kMissing);
    all_bytes_ = all_bytes_ && byte_ids_[byte] != kMissing;
  }
  // Prefixes and suffixes change the first symbols, so the direct table cannot serve them.
  all_bytes_ = all_bytes_ && options_.continuing_prefix.empty() && options_.word_suffix.empty();
}

std::unique_ptr<ModelScratch> BpeModel::make_scratch() const { return std::make_unique<Scratch>(); }

bool BpeModel::is_per_character() const {
  return merges_.size() == 0 && !options_.fuse_unknown && !options_.ignore_merges &&
         options_.continuing_prefix.empty() && options_.word_suffix.empty();
}

std::string BpeModel::spelled(bool first, bool last, std::string_view token) const {
  if (options_.bytes) {
    std::string bytes;
    return read_spelling(token, bytes) ? bytes : std::string(token);
  }
  if (!first && token.starts_with(options_.continuing_prefix)) token.remove_prefix(options_.continuing_prefix.size());
  if (last && token.ends_with(options_.word_suffix)) token.remove_suffix(options_.word_suffix.size());
  return std::string(token);
}

void BpeModel::encode(std::string_view piece, ModelScratch& scratch, std::vector<TokenId>& out) const {
  if (piece.empty()) return;
  auto& own = static_cast<Scratch&>(scratch);
  if (!own.cache.append(piece, out)) append_uncached(piece, own, out);
}

void BpeModel::encode_cut(std::string_view text, const CutPlan& plan, ModelScratch& scratch,
                          std::vector<TokenId>& out) const {
  auto& own = static_cast<Scratch&>(scratch);
  const char* const end = text.data() + text.size();
  // Cuts a batch first and looks it up afterwards: the cache lines arrive while the next pieces are cut.
  const auto put_off = [&own, end](size_t index, std::string_view piece) {
    Scratch::Pending& pending = own.pending[index];
    pending.piece = piece;
    pending.place = own.cache.place(piece, static_cast<size_t>(end - piece.data()));
    own.cache.prefetch(pending.place);
  };
  if (const Cutter* const cutter = plan.only_cutter()) {
    for (const char* p = text.data(); p < end;) {
      size_t pieces = 0;
      for (; pieces < kBatch && p < end; ++pieces) {
        const char* const stop = cutter->next(p, end).end;
        put_off(pieces, {p, static_cast<size_t>(stop - p)});
        p = stop;
      }
      encode_pending(pieces, own, out);
    }
    return;
  }
  size_t pieces = 0;
  plan.cut(text, [&](std::string_view piece) {
    put_off(pieces, piece);
    if (++pieces == kBatch) encode_pending(std::exchange(pieces, 0), own, out);
  });
  encode_pending(pieces, own, out);
}

void BpeModel::encode_pending(size_t pieces, Scratch& scratch, std::vector<TokenId>& out) const {
  size_t ids = 0;  // in scratch.ids, moved to `out` at a longer piece or the end of the batch
  const auto give = [&] { out.insert(out.end(), scratch.ids, scratch.ids + std::exchange(ids, 0)); };
  for (size_t i = 0; i < pieces; ++i) {
    const Scratch::Pending& pending = scratch.pending[i];
    const size_t found = scratch.cache.find(pending.piece, pending.place, scratch.ids + ids);
    ids += found;
    if (found > 0) continue;
    give();
    append_other(pending.piece, pending.place, scratch, out);
  }
  give();
}

void BpeModel::append_other(std::string_view piece, const PieceCache::Place& place, Scratch& scratch,
                            std::vector<TokenId>& out) const {
  const std::span<const TokenId> ids = scratch.cache.find_more(piece, place);
  if (ids.empty()) return append_uncached(piece, scratch, out);
  out.insert(out.end(), ids.begin(), ids.end());
}

void BpeModel::append_uncached(std::string_view piece, Scratch& scratch, std::vector<TokenId>& out) const {
  if (piece.size() > kMergeWindow) return encode_long(piece, scratch, out);
  scratch.symbols.clear();
  const std::optional<TokenId> whole = whole_piece(piece, scratch.spelling);
  if (whole) {
    scratch.symbols.push_back(*whole);
  } else {
    first_symbols(piece, scratch.symbols);
    merge_symbols(merges_, scratch.symbols, scratch.merge);
  }
  scratch.cache.insert(piece, scratch.symbols);
  out.insert(out.end(), scratch.symbols.begin(), scratch.symbols.end());
}

void BpeModel::encode_long(std::string_view piece, Scratch& scratch, std::vector<TokenId>& out) const {
  const std::optional<TokenId> whole = whole_piece(piece, scratch.spelling);
  if (whole) return out.push_back(*whole);
  if (append_by_paths(piece, scratch, out)) return;
  if (options_.bytes && all_bytes_) {
    const auto read = [&](size_t from, size_t count, std::vector<TokenId>& symbols) {
      for (const char byte : piece.substr(from, count)) symbols.push_back(byte_ids_[static_cast<uint8_t>(byte)]);
    };
    return merge_in_windows(merges_, piece.size(), read, scratch.merge, out);
  }
  std::vector<TokenId> symbols;
  first_symbols(piece, symbols);
  const auto read = [&](size_t from, size_t count, std::vector<TokenId>& window) {
    const auto begin = symbols.begin() + static_cast<ptrdiff_t>(from);
    window.insert(window.end(), begin, begin + static_cast<ptrdiff_t>(count));
  };
  merge_in_windows(merges_, symbols.size(), read, scratch.merge, out);
}

bool BpeModel::append_by_paths(std::string_view piece, Scratch& scratch, std::vector<TokenId>& out) const {
  if (!options_.bytes || !all_bytes_) return false;
  if ((scratch.merged += piece.size()) < kMergedFirst) return false;
  std::call_once(paths_once_, [this] {
    if (vocabulary_.bytes() <= TokenPrefixes::kMostBytes) paths_.emplace(vocabulary_, merges_, byte_ids_);
  });
  if (!paths_) return false;
  if (!scratch.paths) scratch.paths.emplace(*paths_);
  return paths_->append(piece, *scratch.paths, out);
}

std::optional<TokenId> BpeModel::whole_piece(std::string_view piece, std::string& spelling) const {
  if (!options_.ignore_merges || piece.size() > vocabulary_.longest()) return std::nullopt;
  if (!options_.bytes) return vocabulary_.find(piece);
  spelling.clear();
  append_spelling(piece, spelling);
  return vocabulary_.find(spelling);
}

void BpeModel::first_symbols(std::string_view piece, std::vector<TokenId>& symbols) const {
  symbols.reserve(piece.size());
  if (options_.bytes && all_bytes_) {
    for (const char byte : piece) symbols.push_back(byte_ids_[static_cast<uint8_t>(byte)]);
    return;
  }
  const char* const end = piece.data() + piece.size();
  bool pending = false;  // an unknown token that later characters may still join
  std::string unit;
  for (const char* p = piece.data(); p < end;) {
    const size_t length = options_.bytes ? 1 : decode_utf8(p, end).length;
    unit.clear();
    if (p != piece.data()) unit += options_.continuing_prefix;
    if (options_.bytes)
      append_utf8(byte_to_letter(static_cast<uint8_t>(*p)), unit);
    else
      unit.append(p, length);
    if (p + length == end) unit += options_.word_suffix;
    p += length;
    if (const std::optional<TokenId> id = vocabulary_.find(unit)) {
      if (pending) symbols.push_back(*options_.unknown);
      pending = false;
      symbols.push_back(*id);
    } else {
      add_unknown(unit, symbols, pending);
    }
  }
  if (pending) symbols.push_back(*options_.unknown);
}

void BpeModel::add_unknown(std::string_view unit, std::vector<TokenId>& symbols, bool& pending) const {
  const auto fallback = [this](char byte) { return fallback_ids_[static_cast<uint8_t>(byte)]; };
  if (options_.byte_fallback &&
      std::all_of(unit.begin(), unit.end(), [&](char byte) { return fallback(byte) != kMissing; })) {
    for (const char byte : unit) symbols.push_back(fallback(byte));
    return;
  }
  require(
      options_.unknown.has_value(), ErrorKind::data,
      "the text has \"{}\", which is missing from the tokenizer's vocabulary, and the tokenizer has no unknown token",
      unit);
  if (pending && !options_.fuse_unknown) symbols.push_back(*options_.unknown);
  pending = true;
}

}  // namespace trireme
