#include "text/pipeline/pipeline.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <functional>
#include <span>
#include <thread>
#include <utility>

#include "base/error.h"
#include "text/models/bpe.h"
#include "text/unicode.h"

namespace trireme {

namespace {

constexpr size_t kCopiedBytes = 16;   // of a token, copied at once by decoding
constexpr size_t kBytesPerToken = 5;  // initial reserve: English has 4 to 4.5

}  // namespace

void TokenNames::add(std::string_view token, TokenId id, std::string_view where) {
  const std::optional<TokenId> known = model_->find(token);
  if (known == id) return;
  require(!known, ErrorKind::data, "{}: token \"{}\" has two ids, {} and {}", where, token, known.value_or(0), id);
  const std::optional<std::string_view> other = model_->token(id);
  require(!other, ErrorKind::data, "{}: id {} belongs to two tokens, \"{}\" and \"{}\"", where, id,
          other.value_or(std::string_view()), token);
  added_.add(token, id, where);
}

std::optional<TokenId> TokenNames::find(std::string_view token) const {
  const std::optional<TokenId> id = model_->find(token);
  return id ? id : added_.find(token);
}

std::optional<std::string_view> TokenNames::token(TokenId id) const {
  const std::optional<std::string_view> token = model_->token(id);
  return token ? token : added_.token(id);
}

struct PipelineTokenizer::Scratch {
  std::unique_ptr<ModelScratch> model;
  std::string normalized;
  std::thread::id last_user;
};

/// A scratch for one call, returned at its end. A thread gets the one it had before, which is in its core's own cache:
/// two threads that swapped theirs every few documents lost 8 % of their time.
class PipelineTokenizer::Lease {
 public:
  explicit Lease(const PipelineTokenizer& owner) : owner_(owner) {
    const std::lock_guard lock(owner.mutex_);
    auto& idle = owner.idle_;
    if (idle.empty()) return;
    const auto own = std::find_if(idle.begin(), idle.end(), [](const std::unique_ptr<Scratch>& scratch) {
      return scratch->last_user == std::this_thread::get_id();
    });
    if (own != idle.end()) std::swap(*own, idle.back());
    scratch_ = std::move(idle.back());
    idle.pop_back();
  }
  ~Lease() {
    if (!scratch_) return;
    scratch_->last_user = std::this_thread::get_id();
    const std::lock_guard lock(owner_.mutex_);
    owner_.idle_.push_back(std::move(scratch_));
  }
  Lease(const Lease&) = delete;
  Lease& operator=(const Lease&) = delete;

  Scratch& get() {
    if (!scratch_) scratch_ = std::make_unique<Scratch>(Scratch{owner_.parts_.model->make_scratch(), {}, {}});
    return *scratch_;
  }

 private:
  const PipelineTokenizer& owner_;
  std::unique_ptr<Scratch> scratch_;
};

class PipelineTokenizer::ModelSink final : public PieceSink {
 public:
  ModelSink(const TokenModel& model, ModelScratch& scratch, std::vector<TokenId>& out)
      : model_(model), scratch_(scratch), out_(out) {}
  void piece(std::string_view text, bool) override { model_.encode(text, scratch_, out_); }

 private:
  const TokenModel& model_;
  ModelScratch& scratch_;
  std::vector<TokenId>& out_;
};

/// Pieces become ids with their places in `text`, which the pre-tokenizer splits.
class PipelineTokenizer::PlacingSink final : public PieceSink {
 public:
  PlacingSink(std::string_view text, const TokenModel& model, ModelScratch& scratch, std::vector<TokenId>& out,
              Places& places)
      : text_(text), model_(model), scratch_(scratch), out_(out), places_(places) {}

  void piece(std::string_view piece, bool) override {
    const size_t first = out_.size();
    model_.encode(piece, scratch_, out_);
    size_t begin = 0;
    for (const size_t end : model_.ends(piece, std::span(out_).subspan(first))) {
      places_.push_back(place_of(piece.substr(begin, end - begin)));
      begin = end;
    }
  }
  bool wants_origins() const override { return true; }
  void rewritten(std::string_view before, std::string_view after, Origins origins) override {
    while (!made_.empty() && !holds(made_.back().after, before)) made_.pop_back();
    made_.push_back({before, after, std::move(origins)});
  }

 private:
  struct Made {
    std::string_view before, after;
    Origins origins;
  };

  static bool holds(std::string_view all, std::string_view part) {
    const std::less_equal<> ordered;
    return ordered(all.data(), part.data()) && ordered(part.data() + part.size(), all.data() + all.size());
  }
  TextSpan place_of(std::string_view part) const {
    for (auto made = made_.rbegin(); made != made_.rend(); ++made) {
      if (!holds(made->after, part)) continue;
      const auto at = static_cast<size_t>(part.data() - made->after.data());
      const TextSpan from = made->origins.of({at, at + part.size()});
      part = made->before.substr(from.begin, from.end - from.begin);
    }
    const auto at = static_cast<size_t>(part.data() - text_.data());
    return {at, at + part.size()};
  }

  std::string_view text_;
  const TokenModel& model_;
  ModelScratch& scratch_;
  std::vector<TokenId>& out_;
  Places& places_;
  std::vector<Made> made_;  // each from a part of the text or of one before it
};

namespace {

/// Between an ASCII letter or digit and ASCII white space. Not before \v and \f: BERT drops those and joins both sides.
bool is_cut(std::string_view text, size_t at) {
  const char before = text[at - 1], after = text[at], lower = static_cast<char>(before | 0x20);
  return ((lower >= 'a' && lower <= 'z') || (before >= '0' && before <= '9')) &&
         (after == ' ' || after == '\t' || after == '\n' || after == '\r');
}

}  // namespace

const char* end_of_text_name(const std::function<std::optional<TokenId>(const char*)>& find) {
  // OPT's vocabulary has GPT-2's name too, for nothing.
  if (find("<s>") == TokenId{0} && find("<pad>") == TokenId{1} && find("</s>") == TokenId{2}) return "</s>";
  for (const char* name : {"<|endoftext|>", "</s>", "<|end_of_text|>", "<eos>"})
    if (find(name)) return name;
  return nullptr;
}

PipelineTokenizer::PipelineTokenizer(PipelineParts parts, std::string_view where)
    : parts_(std::move(parts)), where_(where) {
  tokens_ = TokenNames(parts_.model->vocabulary());
  add_tokens(where);
  check_fixed_ids(where);
  if (parts_.decoder->is_per_token() && parts_.decoder->may_grow()) (void)decoded_tokens();
  const auto find = [&](const char* name) { return tokens_.find(name); };
  if (const char* name = end_of_text_name(find)) end_of_text_ = find(name);
  if (parts_.plan) planned_ = dynamic_cast<const BpeModel*>(parts_.model.get());
}

PipelineTokenizer::~PipelineTokenizer() = default;

void PipelineTokenizer::add_tokens(std::string_view where) {
  std::vector<std::string> raw_patterns, normalized_patterns;
  std::vector<AddedToken> raw_tokens, normalized_tokens;
  const bool pieces_end_there = parts_.plan ? parts_.plan->cuts_before_space()
                                            : parts_.pre_tokenizer && parts_.pre_tokenizer->cuts_before_space();
  cuts_before_space_ = pieces_end_there && (!parts_.normalizer || parts_.normalizer->cuts_before_space());
  for (const AddedToken& token : parts_.added) {
    tokens_.add(token.content, token.id, where);
    if (special_.size() <= token.id) special_.resize(size_t{token.id} + 1);
    special_[token.id] = token.special;
    // A token that contains a place to cut, or removes the white space after it, would be split.
    for (size_t i = 1; i < token.content.size(); ++i)
      cuts_before_space_ = cuts_before_space_ && !is_cut(token.content, i);
    cuts_before_space_ = cuts_before_space_ && !token.right_strip;
    if (token.normalized) {
      std::string pattern = token.content;
      if (parts_.normalizer) parts_.normalizer->apply(pattern, TextLimit(pattern.size(), where_), nullptr);
      normalized_patterns.push_back(std::move(pattern));
      normalized_tokens.push_back(token);
    } else {
      raw_patterns.push_back(token.content);
      raw_tokens.push_back(token);
    }
  }
  const bool all_special =
      std::all_of(parts_.added.begin(), parts_.added.end(), [](const AddedToken& token) { return token.special; });
  cuts_anywhere_ = !parts_.normalizer && !parts_.pre_tokenizer && all_special && parts_.model->is_per_character();
  raw_ = AddedTokenMatcher(std::move(raw_patterns), std::move(raw_tokens));
  normalized_ = AddedTokenMatcher(std::move(normalized_patterns), std::move(normalized_tokens));
}

/// Ids that templates and padding add must be tokens, too.
void PipelineTokenizer::check_fixed_ids(std::string_view where) const {
  const auto check = [&](TokenId id, const char* what) {
    require(id < tokens_.id_limit(), ErrorKind::data, "{}: the {} adds id {}, but the vocabulary has {} ids", where,
            what, id, tokens_.id_limit());
  };
  for (const auto* parts : {&parts_.post_processor.single, &parts_.post_processor.pair}) {
    for (const TemplatePart& part : *parts) {
      for (const TokenId id : part.ids) check(id, "post-processor");
    }
  }
  if (parts_.padding) check(parts_.padding->id, "padding");
}

/// Texts of all tokens, if the decoder works token by token.
struct PipelineTokenizer::DecodedTokens {
  std::string text;              // by id, concatenated
  std::vector<uint32_t> starts;  // starts of the texts, and the end of the last
  /// A short token that is not special, stored a second time in one place, so that one memory access suffices.
  struct ShortText {
    static constexpr size_t kMost = 15;
    char bytes[kMost] = {};
    uint8_t size = 0;  ///< 0: another token
  };
  std::vector<ShortText> short_texts;

  std::string_view operator[](TokenId id) const {
    return {text.data() + starts[id], starts[id + size_t{1}] - starts[id]};
  }
};

namespace {

/// The text of tokens, joined.
class JoinedText final : public TokenSink {
 public:
  explicit JoinedText(std::string& text) : text_(text) {}
  void part(std::string_view text) override { text_ += text; }
  void end_token() override {}
  void end() override {}

 private:
  std::string& text_;
};

}  // namespace

const PipelineTokenizer::DecodedTokens& PipelineTokenizer::decoded_tokens() const {
  std::call_once(decoded_once_, [&] {
    auto tokens = std::make_unique<DecodedTokens>();
    tokens->starts.reserve(tokens_.id_limit() + 1);
    tokens->short_texts.resize(tokens_.id_limit());
    JoinedText joined(tokens->text);
    GivenBytes present{0, where_};  // of this token only: the limit holds for each one
    const std::unique_ptr<TokenSink> decoder = parts_.decoder->stage(joined, present);
    size_t given = 0;  // of all tokens so far
    for (TokenId id = 0; id < tokens_.id_limit(); ++id) {
      const size_t start = tokens->text.size();
      tokens->starts.push_back(static_cast<uint32_t>(start));
      const std::optional<std::string_view> token = tokens_.token(id);
      if (!token) continue;
      present.bytes = token->size();
      decoder->part(*token);
      decoder->end_token();
      TextLimit(given += token->size(), where_).check(tokens->text.size());
      const std::string_view text = std::string_view(tokens->text).substr(start);
      if (is_special(id) || text.empty() || text.size() > DecodedTokens::ShortText::kMost) continue;
      tokens->short_texts[id].size = static_cast<uint8_t>(text.size());
      std::copy(text.begin(), text.end(), tokens->short_texts[id].bytes);
    }
    tokens->starts.push_back(static_cast<uint32_t>(tokens->text.size()));
    decoded_ = std::move(tokens);
  });
  return *decoded_;
}

const std::string& PipelineTokenizer::json() const {
  if (!parts_.write_json) return parts_.json;
  std::call_once(json_once_, [&] { json_ = parts_.write_json(*parts_.model); });
  return json_;
}

void PipelineTokenizer::encode_plain(std::string_view text, std::vector<TokenId>& out) const {
  encode_ids(text, false, out);
}

void PipelineTokenizer::encode_ids(std::string_view text, bool specials, std::vector<TokenId>& out,
                                   Places* places) const {
  Lease lease(*this);
  encode_raw(text, specials, lease.get(), out, places);
}

namespace {

/// Calls plain(text, at_start) for the text between the added tokens and token(match) for each of them.
template <class Plain, class Token>
void between_added(const AddedTokenMatcher& matcher, std::string_view text, bool at_start, bool specials, Plain plain,
                   Token token) {
  size_t from = 0;
  if (!matcher.empty(specials)) {
    for (auto match = matcher.find(text, 0, 0, specials); match.begin != std::string_view::npos;
         match = matcher.find(text, from, match.next, specials)) {
      if (match.begin > from) plain(text.substr(from, match.begin - from), at_start && from == 0);
      token(match);
      from = match.end;
    }
  }
  if (from < text.size()) plain(text.substr(from), at_start && from == 0);
}

}  // namespace

void PipelineTokenizer::encode_raw(std::string_view text, bool specials, Scratch& scratch, std::vector<TokenId>& out,
                                   Places* places) const {
  const auto plain = [&](std::string_view part, bool first) {
    const size_t before = out.size(), placed = places == nullptr ? 0 : places->size();
    Origins origins;
    const bool same = !parts_.normalizer || parts_.normalizer->keeps(part);
    if (same) {
      encode_normalized(part, first, specials, scratch, out, places);
    } else {
      scratch.normalized = part;
      parts_.normalizer->apply(scratch.normalized, TextLimit(part.size(), where_),
                               places == nullptr ? nullptr : &origins);
      encode_normalized(scratch.normalized, first, specials, scratch, out, places);
    }
    if (places == nullptr) return;
    const auto offset = static_cast<size_t>(part.data() - text.data());
    for (size_t i = 0; i < out.size() - before; ++i) {
      TextSpan& place = (*places)[placed + i];
      if (!same) place = origins.of(place);
      place = {place.begin + offset, place.end + offset};
    }
  };
  between_added(raw_, text, true, specials, plain, [&](const AddedTokenMatcher::Match& match) {
    out.push_back(match.id);
    if (places != nullptr) places->push_back({match.begin, match.end});
  });
}

void PipelineTokenizer::encode_normalized(std::string_view text, bool at_start, bool specials, Scratch& scratch,
                                          std::vector<TokenId>& out, Places* places) const {
  const auto plain = [&](std::string_view part, bool first) {
    if (places == nullptr) return encode_pieces(part, first, scratch, out);
    const size_t placed = places->size();
    encode_placed_pieces(part, first, scratch, out, *places);
    const auto offset = static_cast<size_t>(part.data() - text.data());
    for (size_t i = placed; i < places->size(); ++i) {
      (*places)[i].begin += offset;
      (*places)[i].end += offset;
    }
  };
  between_added(normalized_, text, at_start, specials, plain, [&](const AddedTokenMatcher::Match& match) {
    out.push_back(match.id);
    if (places != nullptr) places->push_back({match.begin, match.end});
  });
}

void PipelineTokenizer::encode_pieces(std::string_view text, bool at_start, Scratch& scratch,
                                      std::vector<TokenId>& out) const {
  if (planned_) return planned_->encode_cut(text, *parts_.plan, *scratch.model, out);
  if (!parts_.pre_tokenizer) return parts_.model->encode(text, *scratch.model, out);
  ModelSink sink(*parts_.model, *scratch.model, out);
  parts_.pre_tokenizer->split(text, at_start, sink);
}

void PipelineTokenizer::encode_placed_pieces(std::string_view text, bool at_start, Scratch& scratch,
                                             std::vector<TokenId>& out, Places& places) const {
  PlacingSink sink(text, *parts_.model, *scratch.model, out, places);
  if (planned_)
    parts_.plan->cut(text, [&](std::string_view piece) { sink.piece(piece, false); });
  else if (parts_.pre_tokenizer)
    parts_.pre_tokenizer->split(text, at_start, sink);
  else
    sink.piece(text, at_start);
}

Encoding PipelineTokenizer::encode(std::string_view text, const EncodeOptions& options) const {
  std::vector<TokenId> ids;
  encode_ids(text, options.special_tokens, ids);
  return finish(ids, nullptr, options);
}

Encoding PipelineTokenizer::encode_pair(std::string_view first, std::string_view second,
                                        const EncodeOptions& options) const {
  std::vector<TokenId> a, b;
  encode_ids(first, options.special_tokens, a);
  encode_ids(second, options.special_tokens, b);
  return finish(a, &b, options);
}

Encoding PipelineTokenizer::finish(std::vector<TokenId>& first, std::vector<TokenId>* second,
                                   const EncodeOptions& options) const {
  std::optional<Truncation> truncation = parts_.truncation;
  if (options.max_length > 0) {
    truncation.emplace();
    truncation->length = options.max_length;
    truncation->strategy = Truncation::Strategy::longest_one_by_one;
  }
  const size_t added = options.special_tokens ? parts_.post_processor.added(second != nullptr) : 0;
  if (truncation) truncation->apply(added, first, second);
  Encoding encoding = parts_.post_processor.apply(first, second, options.special_tokens);
  if (parts_.padding && options.padding) parts_.padding->apply(encoding);
  return encoding;
}

std::string_view PipelineTokenizer::token_or_fail(TokenId id) const {
  const std::optional<std::string_view> token = tokens_.token(id);
  require(token.has_value(), ErrorKind::data, "id {} is outside the tokenizer's vocabulary of {} ids", id,
          tokens_.id_limit());
  return *token;
}

std::string PipelineTokenizer::id_to_token(TokenId id) const { return std::string(token_or_fail(id)); }

/// The decoder's stages, from ids to text.
class PipelineTokenizer::Stream final : public TextStream {
 public:
  Stream(const PipelineTokenizer& owner, bool skips_special)
      : owner_(owner),
        skips_special_(skips_special),
        given_{0, owner.where_},
        joined_(text_),
        decoder_(owner.parts_.decoder->stage(joined_, given_)) {}

  void put(TokenId id) {
    const std::string_view token = owner_.token_or_fail(id);
    if (skips_special_ && owner_.is_special(id)) return;
    given_.bytes += token.size();
    decoder_->part(token);
    decoder_->end_token();
    given_.limit().check(returned_ + text_.size());
  }

  std::string feed(TokenId id) override {
    put(id);
    return take(whole_characters(text_));
  }

  std::string finish() override {
    decoder_->end();
    return take(text_.size());
  }

 private:
  std::string take(size_t bytes) {
    std::string taken = text_.substr(0, bytes);
    text_.erase(0, bytes);
    returned_ += bytes;
    return taken;
  }

  const PipelineTokenizer& owner_;
  bool skips_special_;
  GivenBytes given_;
  std::string text_;  // not returned yet
  size_t returned_ = 0;
  JoinedText joined_;
  std::unique_ptr<TokenSink> decoder_;
};

std::unique_ptr<TextStream> PipelineTokenizer::stream(bool skip_special_tokens) const {
  return std::make_unique<Stream>(*this, skip_special_tokens);
}

std::string PipelineTokenizer::decode(std::span<const TokenId> ids, bool skip_special_tokens) const {
  const auto is_left_out = [&](TokenId id) { return skip_special_tokens && is_special(id); };
  if (parts_.decoder->is_per_token()) return decode_per_token(ids, is_left_out);
  Stream stream(*this, skip_special_tokens);
  for (const TokenId id : ids) stream.put(id);
  return stream.finish();
}

template <class IsLeftOut>
std::string PipelineTokenizer::decode_per_token(std::span<const TokenId> ids, IsLeftOut is_left_out) const {
  const DecodedTokens& tokens = decoded_tokens();
  std::string text;
  text.resize(kBytesPerToken * ids.size() + kCopiedBytes);
  size_t used = 0;
  const auto make_room = [&](size_t bytes) {
    if (used + bytes + kCopiedBytes > text.size()) text.resize(2 * text.size() + bytes);
  };
  for (const TokenId id : ids) {
    make_room(0);
    const auto* const known = id < tokens.short_texts.size() ? &tokens.short_texts[id] : nullptr;
    if (known && known->size > 0) {
      // Always copies this many bytes, in one instruction; the next token overwrites the excess.
      static_assert(sizeof *known == kCopiedBytes && offsetof(DecodedTokens::ShortText, bytes) == 0);
      std::memcpy(text.data() + used, known, kCopiedBytes);
      used += known->size;
      continue;
    }
    // An id without a token, or with an empty one, has no bytes and takes the slow path.
    const std::string_view part = id < tokens_.id_limit() ? tokens[id] : std::string_view();
    if (part.empty()) (void)token_or_fail(id);
    if (is_left_out(id)) continue;
    make_room(part.size());
    std::copy(part.begin(), part.end(), text.begin() + static_cast<ptrdiff_t>(used));
    used += part.size();
  }
  text.resize(used);
  return text;
}

std::vector<std::string> PipelineTokenizer::cutting() const {
  std::vector<std::string> lines;
  if (parts_.pre_tokenizer) parts_.pre_tokenizer->describe(lines);
  return lines;
}

size_t PipelineTokenizer::cut(std::string_view text, size_t near) const {
  if (!cuts_before_space_ && !cuts_anywhere_) return text.size();
  const auto continues = [&](size_t i) { return (static_cast<uint8_t>(text[i]) & 0xC0) == 0x80; };
  for (size_t i = std::max<size_t>(near, 1); i < text.size(); ++i) {
    if (cuts_anywhere_ ? !continues(i) : is_cut(text, i)) return i;
  }
  return text.size();
}

}  // namespace trireme
