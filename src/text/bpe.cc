#include "text/bpe.h"

#include <algorithm>

#include "base/error.h"
#include "text/byte_alphabet.h"
#include "text/gpt2_scanner.h"
#include "text/piece_cache.h"

namespace trireme {

struct BpeModel::Scratch final : ModelScratch {
  PieceCache cache;
  std::vector<TokenId> symbols;
  MergeScratch merge;
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

void BpeModel::encode(std::string_view piece, ModelScratch& scratch, std::vector<TokenId>& out) const {
  if (piece.empty()) return;
  auto& own = static_cast<Scratch&>(scratch);
  if (!own.cache.append(piece, piece.size(), out)) encode_uncached(piece, own, out);
}

void BpeModel::encode_gpt2_pattern(std::string_view text, ModelScratch& scratch, std::vector<TokenId>& out) const {
  auto& own = static_cast<Scratch&>(scratch);
  Gpt2Scanner scanner(text);
  while (!scanner.done()) {
    const std::string_view piece = scanner.next();
    const auto readable = static_cast<size_t>(scanner.end() - piece.data());
    if (!own.cache.append(piece, readable, out)) encode_uncached(piece, own, out);
  }
}

void BpeModel::encode_uncached(std::string_view piece, Scratch& scratch, std::vector<TokenId>& out) const {
  scratch.symbols.clear();
  const std::optional<TokenId> whole = options_.ignore_merges ? whole_piece(piece) : std::nullopt;
  if (whole) {
    scratch.symbols.push_back(*whole);
  } else {
    first_symbols(piece, scratch.symbols);
    merge_symbols(merges_, scratch.symbols, scratch.merge);
  }
  scratch.cache.insert(piece, scratch.symbols);
  out.insert(out.end(), scratch.symbols.begin(), scratch.symbols.end());
}

std::optional<TokenId> BpeModel::whole_piece(std::string_view piece) const {
  return options_.bytes ? vocabulary_.find(spell_bytes(piece)) : vocabulary_.find(piece);
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
  require(options_.unknown.has_value(), ErrorKind::data,
          "the text has \"{}\", which is not in the tokenizer's vocabulary, and the tokenizer has no unknown token",
          unit);
  if (pending && !options_.fuse_unknown) symbols.push_back(*options_.unknown);
  pending = true;
}

}  // namespace trireme
