#include "text/pipeline/decoder.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "text/byte_alphabet.h"
#include "text/pipeline/metaspace.h"
#include "text/pipeline/replacement.h"
#include "text/pipeline/token_stage.h"
#include "text/unicode.h"

namespace trireme {
namespace {

/// Removes spaces that English does not use.
void clean_up(std::string& token) {
  static constexpr std::pair<std::string_view, std::string_view> kPairs[] = {
      {" .", "."},   {" ?", "?"},           {" !", "!"},   {" ,", ","},     {" ' ", "'"},   {" n't", "n't"},
      {" 'm", "'m"}, {" do not", " don't"}, {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"}};
  for (const auto& [from, to] : kPairs) replace_all(token, from, to);
}

/// A decoder that needs each complete token and its index.
std::unique_ptr<TokenSink> rewriting(TokenSink& next, RewriteStage::Rewrite rewrite) {
  return std::make_unique<RewriteStage>(next, std::move(rewrite));
}

/// Tokens spelled in GPT-2's byte alphabet become their bytes, joined; a token with other characters stays unchanged.
class ByteLevelDecoder final : public Decoder {
 public:
  std::unique_ptr<TokenSink> stage(TokenSink& next, const GivenBytes&) const override {
    return std::make_unique<Stage>(next);
  }
  bool is_per_token() const override { return true; }
  bool joins() const override { return true; }
  bool may_grow() const override { return false; }

 private:
  class Stage final : public WholeTokenStage {
   public:
    using WholeTokenStage::WholeTokenStage;
    void end() override {
      if (any_) next().end_token();
      WholeTokenStage::end();
    }

   protected:
    void token(std::string& text, size_t) override {
      std::string bytes;
      next().part(read_spelling(text, bytes) ? bytes : text);
      any_ = true;
    }

   private:
    bool any_ = false;
  };
};

/// All tokens become one.
class Fuse final : public Decoder {
 public:
  std::unique_ptr<TokenSink> stage(TokenSink& next, const GivenBytes&) const override {
    return std::make_unique<Stage>(next);
  }
  bool is_per_token() const override { return true; }
  bool joins() const override { return true; }
  bool may_grow() const override { return false; }

 private:
  class Stage final : public TokenStage {
   public:
    using TokenStage::TokenStage;
    void end_token() override { any_ = true; }
    void end() override {
      if (any_) next().end_token();
      TokenStage::end();
    }

   private:
    bool any_ = false;
  };
};

/// Continuing pieces lose their prefix; all others get a space before them.
class WordPieceDecoder final : public Decoder {
 public:
  WordPieceDecoder(std::string prefix, bool cleanup) : prefix_(std::move(prefix)), cleanup_(cleanup) {}
  std::unique_ptr<TokenSink> stage(TokenSink& next, const GivenBytes&) const override {
    return rewriting(next, [this](std::string& token, size_t index) {
      if (index > 0) {
        if (token.starts_with(prefix_))
          token.erase(0, prefix_.size());
        else
          token.insert(0, " ");
      }
      if (cleanup_) clean_up(token);
    });
  }

 private:
  std::string prefix_;
  bool cleanup_;
};

class MetaspaceDecoder final : public Decoder {
 public:
  explicit MetaspaceDecoder(MetaspaceOptions options) : options_(std::move(options)) {}
  std::unique_ptr<TokenSink> stage(TokenSink& next, const GivenBytes& given) const override {
    return std::make_unique<LiteralStage>(next, options_.replacement, is_per_token() ? " " : "", " ", given);
  }
  bool is_per_token() const override { return options_.prepend == MetaspaceOptions::Prepend::never; }
  bool may_grow() const override { return false; }

 private:
  MetaspaceOptions options_;
};

/// The suffix that ends words becomes a space; at the end it is removed.
class SuffixDecoder final : public Decoder {
 public:
  explicit SuffixDecoder(std::string suffix) : suffix_(std::move(suffix)) {}
  std::unique_ptr<TokenSink> stage(TokenSink& next, const GivenBytes&) const override {
    return std::make_unique<Stage>(next, suffix_);
  }

 private:
  /// Delays each token until the next one, because the last token is special.
  class Stage final : public TokenStage {
   public:
    Stage(TokenSink& next, const std::string& suffix) : TokenStage(next), suffix_(suffix) {}
    void part(std::string_view text) override {
      release(" ");
      token_ += text;
    }
    void end_token() override {
      release(" ");
      waits_ = true;
    }
    void end() override {
      release("");
      TokenStage::end();
    }

   private:
    void release(std::string_view to) {
      if (!waits_) return;
      replace_all(token_, suffix_, to);
      hand_on(token_);
      token_.clear();
      waits_ = false;
    }

    const std::string& suffix_;
    std::string token_;
    bool waits_ = false;
  };

  std::string suffix_;
};

/// <0xE2> becomes the byte; adjacent bytes become one token.
class ByteFallbackDecoder final : public Decoder {
 public:
  std::unique_ptr<TokenSink> stage(TokenSink& next, const GivenBytes&) const override {
    return std::make_unique<Stage>(next);
  }
  bool is_per_token() const override { return true; }
  bool joins() const override { return true; }
  bool may_grow() const override { return false; }

 private:
  class Stage final : public WholeTokenStage {
   public:
    using WholeTokenStage::WholeTokenStage;
    void end() override {
      end_bytes();
      WholeTokenStage::end();
    }

   protected:
    void token(std::string& text, size_t) override {
      const std::optional<char> byte = read(text);
      if (byte) {
        next().part({&*byte, 1});
        in_bytes_ = true;
        return;
      }
      end_bytes();
      hand_on(text);
    }

   private:
    void end_bytes() {
      if (in_bytes_) next().end_token();
      in_bytes_ = false;
    }
    bool in_bytes_ = false;
  };

  static std::optional<char> read(std::string_view token) {
    if (token.size() != 6 || !token.starts_with("<0x") || token[5] != '>') return std::nullopt;
    unsigned value = 0;
    for (const char c : token.substr(3, 2)) {
      const auto lower = static_cast<char>(c | 0x20);
      const bool digit = c >= '0' && c <= '9';
      if (!digit && (lower < 'a' || lower > 'f')) return std::nullopt;
      value = value * 16 + static_cast<unsigned>(digit ? c - '0' : lower - 'a' + 10);
    }
    return static_cast<char>(value);
  }
};

class ReplaceDecoder final : public Decoder {
 public:
  explicit ReplaceDecoder(Replacement replacement) : replacement_(std::move(replacement)) {}
  std::unique_ptr<TokenSink> stage(TokenSink& next, const GivenBytes& given) const override {
    if (const std::string* literal = replacement_.literal())
      return std::make_unique<LiteralStage>(next, *literal, replacement_.content(), replacement_.content(), given);
    return rewriting(next, [this, &given](std::string& token, size_t) { replacement_.apply(token, given.limit()); });
  }
  bool is_per_token() const override { return true; }

 private:
  Replacement replacement_;
};

class StripDecoder final : public Decoder {
 public:
  StripDecoder(std::string content, uint64_t start, uint64_t stop)
      : content_(std::move(content)), start_(start), stop_(stop) {}
  std::unique_ptr<TokenSink> stage(TokenSink& next, const GivenBytes&) const override {
    return std::make_unique<StripStage>(next, content_, start_, stop_);
  }
  bool is_per_token() const override { return true; }
  bool may_grow() const override { return false; }

 private:
  std::string content_;
  uint64_t start_, stop_;
};

/// Keeps one of adjacent equal tokens; removes padding; the delimiter of words becomes a space.
class CtcDecoder final : public Decoder {
 public:
  CtcDecoder(std::string padding, std::string delimiter, bool cleanup)
      : padding_(std::move(padding)), delimiter_(std::move(delimiter)), cleanup_(cleanup) {}
  std::unique_ptr<TokenSink> stage(TokenSink& next, const GivenBytes&) const override {
    return std::make_unique<Stage>(next, *this);
  }

 private:
  class Stage final : public WholeTokenStage {
   public:
    Stage(TokenSink& next, const CtcDecoder& decoder) : WholeTokenStage(next), decoder_(decoder) {}

   protected:
    void token(std::string& text, size_t index) override {
      if (index > 0 && text == previous_) return;
      previous_ = text;
      replace_all(text, decoder_.padding_, "");
      if (decoder_.cleanup_) {
        clean_up(text);
        replace_all(text, decoder_.delimiter_, " ");
      }
      if (!text.empty()) hand_on(text);
    }

   private:
    const CtcDecoder& decoder_;
    std::string previous_;
  };

  std::string padding_, delimiter_;
  bool cleanup_;
};

class SpacedDecoder final : public Decoder {
 public:
  std::unique_ptr<TokenSink> stage(TokenSink& next, const GivenBytes&) const override {
    return rewriting(next, [](std::string& token, size_t index) {
      if (index > 0) token.insert(0, " ");
    });
  }
};

class SequenceDecoder final : public Decoder {
 public:
  explicit SequenceDecoder(std::vector<std::unique_ptr<Decoder>> parts) : parts_(std::move(parts)) {}
  std::unique_ptr<TokenSink> stage(TokenSink& next, const GivenBytes& given) const override {
    auto chain = std::make_unique<Chain>(next);
    for (auto part = parts_.rbegin(); part != parts_.rend(); ++part)
      chain->put_before((*part)->stage(chain->first(), given));
    return chain;
  }
  bool is_per_token() const override {
    bool joined = false;  // tokens then differ from the given ones
    for (const auto& part : parts_) {
      if (!part->is_per_token() || (joined && !dynamic_cast<const Fuse*>(part.get()))) return false;
      joined = joined || part->joins();
    }
    return true;
  }
  bool joins() const override {
    return std::any_of(parts_.begin(), parts_.end(), [](const auto& part) { return part->joins(); });
  }
  bool may_grow() const override {
    return std::any_of(parts_.begin(), parts_.end(), [](const auto& part) { return part->may_grow(); });
  }

 private:
  class Chain final : public TokenSink {
   public:
    explicit Chain(TokenSink& next) : first_(&next) {}
    TokenSink& first() { return *first_; }
    void put_before(std::unique_ptr<TokenSink> stage) {
      first_ = stage.get();
      stages_.push_back(std::move(stage));
    }
    void part(std::string_view text) override { first_->part(text); }
    void end_token() override { first_->end_token(); }
    void end() override { first_->end(); }

   private:
    TokenSink* first_;
    std::vector<std::unique_ptr<TokenSink>> stages_;
  };

  std::vector<std::unique_ptr<Decoder>> parts_;
};

std::unique_ptr<Decoder> make_sequence(const JsonObject& element) {
  element.allow_only({"type", "decoders"});
  std::vector<std::unique_ptr<Decoder>> parts;
  const auto& items = element.array("decoders");
  for (size_t i = 0; i < items.size(); ++i)
    parts.push_back(make_decoder(JsonObject(items[i], element.place_of("decoders", i))));
  return std::make_unique<SequenceDecoder>(std::move(parts));
}

/// A string that must not be empty: replacing it would never end.
std::string read_text(const JsonObject& element, std::string_view key, std::string_view otherwise) {
  std::string text = element.string(key, otherwise);
  require(!text.empty(), ErrorKind::data, "{}: \"{}\" is empty", element.place(), key);
  return text;
}

}  // namespace

std::unique_ptr<Decoder> make_spaced_decoder() { return std::make_unique<SpacedDecoder>(); }

std::unique_ptr<Decoder> make_decoder(const JsonObject& element) {
  const std::string type = element.string("type");
  if (type == "Sequence") return make_sequence(element);
  if (type == "Metaspace") return std::make_unique<MetaspaceDecoder>(read_metaspace(element));
  if (type == "Replace") return std::make_unique<ReplaceDecoder>(Replacement(element));
  if (type == "ByteLevel") {
    element.allow_only({"type", "add_prefix_space", "trim_offsets", "use_regex"});
    return std::make_unique<ByteLevelDecoder>();
  }
  if (type == "WordPiece") {
    element.allow_only({"type", "prefix", "cleanup"});
    return std::make_unique<WordPieceDecoder>(element.string("prefix", "##"), element.boolean("cleanup", true));
  }
  if (type == "BPEDecoder") {
    element.allow_only({"type", "suffix"});
    return std::make_unique<SuffixDecoder>(read_text(element, "suffix", "</w>"));
  }
  if (type == "Strip") {
    element.allow_only({"type", "content", "start", "stop"});
    return std::make_unique<StripDecoder>(read_text(element, "content", ""), element.count("start"),
                                          element.count("stop"));
  }
  if (type == "CTC") {
    element.allow_only({"type", "pad_token", "word_delimiter_token", "cleanup"});
    return std::make_unique<CtcDecoder>(read_text(element, "pad_token", "<pad>"),
                                        read_text(element, "word_delimiter_token", "|"),
                                        element.boolean("cleanup", true));
  }
  if (type == "Fuse" || type == "ByteFallback") {
    element.allow_only({"type"});
    if (type == "Fuse") return std::make_unique<Fuse>();
    return std::make_unique<ByteFallbackDecoder>();
  }
  fail(ErrorKind::data, "{}: unsupported decoder \"{}\"", element.place(), type);
}

}  // namespace trireme
