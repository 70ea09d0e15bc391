#pragma once
// Converts text to ids and back. One interface; each tokenizer file format has its loader.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace trireme {

using TokenId = uint32_t;

/// Bytes [begin, end) of a text.
struct TextSpan {
  size_t begin, end;
  friend bool operator==(const TextSpan&, const TextSpan&) = default;
};

struct EncodeOptions {
  /// Applies the template (e.g. [CLS] ... [SEP]) and recognizes special tokens written in the text. Off: they are plain
  /// text; added tokens that are not special still match.
  bool special_tokens = true;
  /// Longest result, including the template; 0: from the tokenizer's file. In a pair the longer text loses one id at a
  /// time, the second if they are equal: BERT's rule, which differs from that of tokenizer.json by an odd id.
  size_t max_length = 0;
  bool padding = true;  ///< pads to a length as the tokenizer's file specifies; off: never
};

struct Encoding {
  std::vector<TokenId> ids;
  std::vector<uint8_t> types;  ///< segment of each id; empty: all 0
};

/// Decodes ids one by one. The joined results of feed() and finish() are decode() of all ids.
class TextStream {
 public:
  virtual ~TextStream() = default;
  /// New text that no later id can change: complete UTF-8 characters and invalid bytes. Throws Error::data for an id
  /// without a token.
  virtual std::string feed(TokenId id) = 0;
  /// The rest of the text; no id follows.
  virtual std::string finish() = 0;
};

/// Thread-safe for concurrent const calls.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;
  virtual Encoding encode(std::string_view text, const EncodeOptions& = {}) const = 0;
  virtual Encoding encode_pair(std::string_view first, std::string_view second, const EncodeOptions& = {}) const = 0;
  /// Appends the ids of plain text (no template, no special tokens) to `out`: used by `prepare`, without allocations
  /// per token.
  virtual void encode_plain(std::string_view text, std::vector<TokenId>& out) const = 0;
  /// Bytes of the ids; unknown ids throw Error::data. A byte-level model preserves invalid UTF-8.
  virtual std::string decode(std::span<const TokenId> ids, bool skip_special_tokens = false) const = 0;

  /// Incremental decode(); borrows the tokenizer.
  virtual std::unique_ptr<TextStream> stream(bool skip_special_tokens = false) const = 0;

  virtual size_t vocabulary_size() const = 0;  ///< largest id + 1, including added tokens
  virtual std::optional<TokenId> token_to_id(std::string_view token) const = 0;
  virtual std::string id_to_token(TokenId id) const = 0;   ///< as written in the vocabulary
  virtual bool has_token(TokenId id) const = 0;            ///< false: a gap, or beyond the vocabulary
  virtual std::optional<TokenId> end_of_text() const = 0;  ///< separates documents; none for character vocabularies
  virtual const std::string& json()
      const = 0;  ///< the tokenizer.json text that reproduces this tokenizer: stored with data and checkpoints
  /// First place at or after `near` (> 0) where text can be cut so that encode_plain() of both sides equals
  /// encode_plain() of the complete text, for encoding one long text with several threads. text.size() if none.
  virtual size_t cut(std::string_view text, [[maybe_unused]] size_t near) const { return text.size(); }
  /// Describes how text is cut into pieces for the model: one line per step, none if the text is one piece.
  virtual std::vector<std::string> cutting() const = 0;
  /// Appends the ids of a text that a chat template made to `out`: special tokens are recognized, and nothing is added,
  /// cut or padded.
  virtual void encode_chat(std::string_view text, std::vector<TokenId>& out) const = 0;
  /// The same, and to `places` the bytes of `text` that each id was made from, whatever the tokenizer changes in it: a
  /// normal form, case, spaces. They are in order; several ids may share a character, and the place of what the
  /// tokenizer inserts is empty.
  virtual void encode_chat(std::string_view text, std::vector<TokenId>& out, std::vector<TextSpan>& places) const = 0;
  uint64_t hash() const;  ///< XXH3 of json()
};

/// Options for facts missing from some file formats.
struct TokenizerLoadOptions {
  enum class LowerCase { automatic, on, off };
  /// vocab.txt: automatic is do_lower_case of a tokenizer_config.json beside it; without one, on if the vocabulary has
  /// no upper-case letter outside [brackets]. Logs the choice.
  LowerCase lower_case = LowerCase::automatic;
  /// tiktoken rank files: a preset (gpt2, r50k_base, p50k_base, cl100k_base, o200k_base, llama3) or a regular
  /// expression; empty: by the file's name.
  std::string pattern;
  /// Merges of a vocabulary in GPT-2's format; empty: those beside it.
  std::string merges;
};

/// Instead of a path: bytes as ids, with 512 ids, like NeoX's tokenizer of that name; id 0 ends documents.
constexpr const char* kCharLevelTokenizer = "CharLevelTokenizer";

/// `given`: tokenizer.json, vocab.txt (BERT), a tiktoken rank file, a vocabulary in GPT-2's format with its merges
/// beside it (X-vocab.json and X-merges.txt, encoder.json and vocab.bpe) or named, or a folder with one of these; or a
/// name of the Hugging Face hub (hub/place.h). Throws Error::io, Error::data, Error::usage.
std::unique_ptr<Tokenizer> load_tokenizer(const std::string& given, const TokenizerLoadOptions& options = {});
/// Whether load_tokenizer() finds its files in that folder.
bool holds_tokenizer(const std::string& folder);
std::unique_ptr<Tokenizer> tokenizer_from_json(std::string_view json_text, std::string_view where);
/// The token that separates documents, by the names of the known families; nullptr: none. find: the id of the token
/// with that text.
const char* end_of_text_name(const std::function<std::optional<TokenId>(const char*)>& find);

/// The text that new ids add to a prompt, incrementally: the joined results of feed() and finish() are decode(prompt
/// and new ids) without its common prefix with decode(prompt). So the first new word keeps the space before it, which
/// decoding it alone would drop.
class Continuation {
 public:
  /// Borrows the tokenizer. Throws Error::data for an id without a token.
  Continuation(const Tokenizer& tokenizer, std::span<const TokenId> prompt);
  /// As in TextStream.
  std::string feed(TokenId id) { return new_part(stream_->feed(id)); }
  std::string finish() { return new_part(stream_->finish()); }

 private:
  std::string new_part(std::string text);

  std::string known_;  // decode(prompt)
  size_t at_ = 0;      // bytes of it that the text has repeated so far
  std::unique_ptr<TextStream> stream_;
};

}  // namespace trireme
