#include "data/sample_source.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <initializer_list>

#include "base/error.h"
#include "base/rng.h"
#include "data/token_dataset.h"

namespace trireme {

void WindowSource::fill(SampleStream stream, uint64_t index, std::span<int32_t> tokens,
                        std::span<int32_t> targets) const {
  gather_windows(ids_, seed_, stream, {index, 1}, static_cast<int64_t>(tokens.size()), tokens, targets);
}

void require_ids(const std::string& path, uint64_t first, std::span<const int32_t> ids, uint64_t vocabulary) {
  for (size_t i = 0; i < ids.size() && vocabulary > 0; ++i)
    require(static_cast<uint32_t>(ids[i]) < vocabulary, ErrorKind::data,
            "{}: token {} is id {}, but the vocabulary has {} ids (0 to {}): the text was prepared with another "
            "tokenizer than the model's, or the file is damaged; --data.verify checks every id before the first step",
            path, first + i, static_cast<uint32_t>(ids[i]), vocabulary, vocabulary - 1);
}

void TokenFileSource::fill(SampleStream stream, uint64_t index, std::span<int32_t> tokens,
                           std::span<int32_t> targets) const {
  windows_.fill(stream, index, tokens, targets);
  const uint64_t first = window_start(seed_, stream, index, dataset_.size(), tokens.size());
  require_ids(dataset_.path(), first, tokens, dataset_.vocabulary());
  require_ids(dataset_.path(), first + tokens.size(), targets.last(1), dataset_.vocabulary());
}

std::vector<SourceFile> TokenFileSource::files(const BeforeBlock& before) const {
  return {{dataset_.path(), dataset_.tokens().bytes().size(), data_hash(dataset_, before)}};
}

void EndOfTextSource::fill(SampleStream stream, uint64_t index, std::span<int32_t> tokens,
                           std::span<int32_t> targets) const {
  text().fill(stream, index, tokens, targets);
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (tokens[i] == end_) targets[i] = -1;
  }
}

namespace {

constexpr uint32_t kMaskStream = 4;  // differs from the streams of data/sampler.h and of fine-tuning's epochs
constexpr const char* kContinuation = "##";

int32_t find_token(const Tokenizer& tokenizer, std::initializer_list<const char*> names) {
  for (const char* name : names) {
    if (const auto id = tokenizer.token_to_id(name)) return static_cast<int32_t>(*id);
  }
  fail(ErrorKind::config,
       "the data's tokenizer lacks {}, which a masked language model needs; prepare the data with a BERT tokenizer "
       "(`trireme prepare --tokenizer vocab.txt`)",
       *names.begin());
}

/// Tokens of a sample that are hidden together or not at all.
struct Piece {
  size_t first, count;
};

std::vector<Piece> pieces_of(const Masking& masking, std::span<const int32_t> tokens) {
  std::vector<Piece> pieces;
  for (size_t i = 0; i < tokens.size(); ++i) {
    const auto id = static_cast<size_t>(tokens[i]);
    if (masking.special[id]) continue;
    const bool goes_on = !masking.continues.empty() && masking.continues[id] && !pieces.empty() &&
                         pieces.back().first + pieces.back().count == i;
    if (goes_on) {
      ++pieces.back().count;
    } else {
      pieces.push_back({i, 1});
    }
  }
  return pieces;
}

int32_t replacement(const Masking& masking, int32_t token, RandomStream& random) {
  const uint64_t die = random.below(10);
  if (die < 8) return masking.mask;
  return die == 8 ? masking.ordinary[random.below(masking.ordinary.size())] : token;
}

}  // namespace

Masking masking_of(const Tokenizer& tokenizer, double rate, bool whole_words) {
  Masking masking;
  masking.rate = rate;
  masking.opening = find_token(tokenizer, {"[CLS]", "<s>"});
  masking.closing = find_token(tokenizer, {"[SEP]", "</s>"});
  masking.mask = find_token(tokenizer, {"[MASK]", "<mask>"});
  const size_t size = tokenizer.vocabulary_size();
  masking.special.assign(size, 0);
  for (const char* name : {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "<pad>", "<unk>", "<s>", "</s>", "<mask>"}) {
    if (const auto id = tokenizer.token_to_id(name)) masking.special[*id] = 1;
  }
  if (const auto end = tokenizer.end_of_text()) masking.special[*end] = 1;
  bool any = false;
  std::vector<char> continues(size, 0);
  for (size_t id = 0; id < size; ++id) {
    if (!masking.special[id]) masking.ordinary.push_back(static_cast<int32_t>(id));
    if (!whole_words) continue;
    const std::string text = tokenizer.id_to_token(static_cast<TokenId>(id));
    continues[id] = text.size() > 2 && text.starts_with(kContinuation);
    any = any || continues[id];
  }
  require(!whole_words || any, ErrorKind::config,
          "data.whole-words needs a WordPiece vocabulary, but no token of the data's tokenizer begins with {}",
          kContinuation);
  if (whole_words) masking.continues = std::move(continues);
  return masking;
}

MaskedSource::MaskedSource(std::unique_ptr<FileSource> text, Masking masking, uint64_t seed)
    : TargetSource(std::move(text)), masking_(std::move(masking)), seed_(seed) {}

void MaskedSource::fill(SampleStream stream, uint64_t index, std::span<int32_t> tokens,
                        std::span<int32_t> targets) const {
  assert(tokens.size() > kMaskedEnds && targets.size() == tokens.size());
  const std::span<int32_t> text = tokens.subspan(1, tokens.size() - kMaskedEnds);
  this->text().fill(stream, index, text, targets.subspan(1, text.size()));
  tokens.front() = masking_.opening;
  tokens.back() = masking_.closing;
  std::ranges::fill(targets, -1);

  std::vector<Piece> pieces = pieces_of(masking_, text);
  size_t maskable = 0;
  for (const Piece& piece : pieces) maskable += piece.count;
  size_t left = std::max<size_t>(1, static_cast<size_t>(std::llround(masking_.rate * static_cast<double>(maskable))));
  RandomStream random(mix_key(seed_, kMaskStream, static_cast<uint32_t>(stream), index));
  bool none = true;
  for (size_t i = 0; i < pieces.size() && left > 0; ++i) {
    std::swap(pieces[i], pieces[i + random.below(pieces.size() - i)]);
    const Piece piece = pieces[i];
    if (piece.count > left && !(none && i + 1 == pieces.size())) continue;  // too long, unless no other is left
    none = false;
    left -= std::min(left, piece.count);
    for (size_t place = piece.first; place < piece.first + piece.count; ++place) {
      targets[place + 1] = text[place];
      text[place] = replacement(masking_, text[place], random);
    }
  }
}

}  // namespace trireme
