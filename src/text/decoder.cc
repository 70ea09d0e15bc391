#include "text/decoder.h"

#include <algorithm>
#include <optional>

#include "base/error.h"
#include "text/byte_alphabet.h"
#include "text/metaspace.h"
#include "text/replacement.h"
#include "text/unicode.h"

namespace trireme {
namespace {

void replace_all(std::string& text, std::string_view from, std::string_view to) {
  for (size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
    text.replace(at, from.size(), to);
}

/// Tokens spelled in GPT-2's byte alphabet become their bytes; a token with other characters stays as it is.
class ByteLevelDecoder final : public Decoder {
 public:
  void apply(std::vector<std::string>& tokens, const TextLimit&) const override {
    for (std::string& token : tokens) {
      std::string bytes;
      if (read_spelling(token, bytes)) token = std::move(bytes);
    }
  }
  bool is_per_token() const override { return true; }
  bool may_grow() const override { return false; }
  void append(std::string_view token, const TextLimit&, std::string& out) const override {
    if (!read_spelling(token, out)) out += token;
  }
};

/// Joins all tokens into one.
class Fuse final : public Decoder {
 public:
  void apply(std::vector<std::string>& tokens, const TextLimit&) const override {
    std::string joined;
    for (const std::string& token : tokens) joined += token;
    tokens.assign(1, joined);
  }
  bool is_per_token() const override { return true; }
};

/// Continuing pieces lose their prefix, all others get a space before them.
class WordPieceDecoder final : public Decoder {
 public:
  WordPieceDecoder(std::string prefix, bool cleanup) : prefix_(std::move(prefix)), cleanup_(cleanup) {}
  void apply(std::vector<std::string>& tokens, const TextLimit&) const override {
    for (size_t i = 0; i < tokens.size(); ++i) {
      std::string& token = tokens[i];
      if (i > 0) {
        if (token.starts_with(prefix_))
          token.erase(0, prefix_.size());
        else
          token.insert(0, " ");
      }
      if (cleanup_) clean_up(token);
    }
  }

 private:
  /// Takes back the spaces that English writes nowhere.
  static void clean_up(std::string& token) {
    static constexpr std::pair<std::string_view, std::string_view> kPairs[] = {
        {" .", "."},   {" ?", "?"},           {" !", "!"},   {" ,", ","},     {" ' ", "'"},   {" n't", "n't"},
        {" 'm", "'m"}, {" do not", " don't"}, {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"}};
    for (const auto& [from, to] : kPairs) replace_all(token, from, to);
  }

  std::string prefix_;
  bool cleanup_;
};

class MetaspaceDecoder final : public Decoder {
 public:
  explicit MetaspaceDecoder(MetaspaceOptions options) : options_(std::move(options)) {}
  void apply(std::vector<std::string>& tokens, const TextLimit&) const override {
    const bool drops_first = options_.prepend != MetaspaceOptions::Prepend::never;
    for (size_t i = 0; i < tokens.size(); ++i)
      replace_all(tokens[i], options_.replacement, i == 0 && drops_first ? "" : " ");
  }

 private:
  MetaspaceOptions options_;
};

/// The suffix that ends words becomes a space, at the end nothing.
class SuffixDecoder final : public Decoder {
 public:
  explicit SuffixDecoder(std::string suffix) : suffix_(std::move(suffix)) {}
  void apply(std::vector<std::string>& tokens, const TextLimit&) const override {
    for (size_t i = 0; i < tokens.size(); ++i) replace_all(tokens[i], suffix_, i + 1 == tokens.size() ? "" : " ");
  }

 private:
  std::string suffix_;
};

/// <0xE2> becomes the byte.
class ByteFallbackDecoder final : public Decoder {
 public:
  void apply(std::vector<std::string>& tokens, const TextLimit&) const override {
    for (std::string& token : tokens) {
      if (const std::optional<char> byte = read(token)) token.assign(1, *byte);
    }
  }
  bool is_per_token() const override { return true; }

 private:
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
  void apply(std::vector<std::string>& tokens, const TextLimit& limit) const override {
    for (std::string& token : tokens) replacement_.apply(token, limit);
  }
  bool is_per_token() const override { return true; }

 private:
  Replacement replacement_;
};

/// Takes up to so many of one character off both ends of each token.
class StripDecoder final : public Decoder {
 public:
  StripDecoder(std::string content, uint64_t start, uint64_t stop)
      : content_(std::move(content)), start_(start), stop_(stop) {}
  void apply(std::vector<std::string>& tokens, const TextLimit&) const override {
    for (std::string& token : tokens) {
      size_t begin = 0;
      for (uint64_t i = 0; i < start_ && std::string_view(token).substr(begin).starts_with(content_); ++i)
        begin += content_.size();
      token.erase(0, begin);
      for (uint64_t i = 0; i < stop_ && token.ends_with(content_); ++i) token.resize(token.size() - content_.size());
    }
  }

 private:
  std::string content_;
  uint64_t start_, stop_;
};

class SequenceDecoder final : public Decoder {
 public:
  explicit SequenceDecoder(std::vector<std::unique_ptr<Decoder>> parts) : parts_(std::move(parts)) {}
  void apply(std::vector<std::string>& tokens, const TextLimit& limit) const override {
    for (const auto& part : parts_) part->apply(tokens, limit);
  }
  bool is_per_token() const override {
    for (const auto& part : parts_) {
      if (joined_before(part.get()) || !part->is_per_token()) return false;
    }
    return true;
  }

 private:
  bool joined_before(const Decoder* last) const {
    for (const auto& part : parts_) {
      if (part.get() == last) return false;
      if (dynamic_cast<const Fuse*>(part.get())) return true;
    }
    return false;
  }

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

/// A string that must not be empty: replacing it would not end.
std::string read_text(const JsonObject& element, std::string_view key, std::string_view otherwise) {
  std::string text = element.string(key, otherwise);
  require(!text.empty(), ErrorKind::data, "{}: \"{}\" is empty", element.place(), key);
  return text;
}

}  // namespace

void Decoder::append(std::string_view token, const TextLimit& limit, std::string& out) const {
  std::vector<std::string> one{std::string(token)};
  apply(one, limit);
  for (const std::string& part : one) out += part;
}

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
  if (type == "Fuse" || type == "ByteFallback") {
    element.allow_only({"type"});
    if (type == "Fuse") return std::make_unique<Fuse>();
    return std::make_unique<ByteFallbackDecoder>();
  }
  fail(ErrorKind::data, "{}: the decoder \"{}\" is not implemented", element.place(), type);
}

}  // namespace trireme
