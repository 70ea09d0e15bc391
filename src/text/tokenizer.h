#pragma once
// Text to ids and back. One interface; each tokenizer file format has a loader that builds one.

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

struct EncodeOptions {
  /// Template (e.g. [CLS] ... [SEP]) is applied and special tokens written in the text are recognised. Off: they are
  /// plain text; added tokens that are not special still match.
  bool special_tokens = true;
  /// Longest result, template included; 0: what the tokenizer's file says. Of a pair the longer text gives way one id
  /// at a time, of equal ones the second: BERT's own rule, which differs from that of tokenizer.json by an odd id.
  size_t max_length = 0;
  bool padding = true;  ///< ids that the tokenizer's file adds up to a length; off: none
};

struct Encoding {
  std::vector<TokenId> ids;
  std::vector<uint8_t> types;  ///< segment of each id; empty: all 0
};

/// Ids become text one by one. All that feed() and finish() return, joined, is decode() of all the ids.
class TextStream {
 public:
  virtual ~TextStream() = default;
  /// What no later id can change of the text, and was not returned before: whole UTF-8 characters and invalid bytes.
  /// Throws Error::data for an id that has no token.
  virtual std::string feed(TokenId id) = 0;
  /// The rest; no id follows.
  virtual std::string finish() = 0;
};

/// Thread-safe for concurrent const calls.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;
  virtual Encoding encode(std::string_view text, const EncodeOptions& = {}) const = 0;
  virtual Encoding encode_pair(std::string_view first, std::string_view second, const EncodeOptions& = {}) const = 0;
  /// Appends the ids of plain text (no template, no special tokens) to `out`: the path of `prepare`, no allocation per
  /// token.
  virtual void encode_plain(std::string_view text, std::vector<TokenId>& out) const = 0;
  /// Bytes of the ids; unknown ids throw Error::data. Invalid UTF-8 comes out as it went in where the model is
  /// byte-level.
  virtual std::string decode(std::span<const TokenId> ids, bool skip_special_tokens = false) const = 0;

  /// decode() while the ids come; borrows the tokenizer.
  virtual std::unique_ptr<TextStream> stream(bool skip_special_tokens = false) const = 0;

  virtual size_t vocabulary_size() const = 0;  ///< largest id + 1, added tokens included
  virtual std::optional<TokenId> token_to_id(std::string_view token) const = 0;
  virtual std::string id_to_token(TokenId id) const = 0;  ///< as written in the vocabulary
  virtual bool has_token(TokenId id) const = 0;           ///< false: a hole, or beyond the vocabulary
  virtual std::optional<TokenId> end_of_text()
      const = 0;  ///< what separates documents; none for character vocabularies
  virtual const std::string& json()
      const = 0;  ///< the tokenizer.json text that reproduces this tokenizer: stored with data and checkpoints
  /// First place at or after `near` (> 0) where text can be cut so that encode_plain() of both sides is encode_plain()
  /// of the whole: lets several threads share one long text. text.size() if there is none.
  virtual size_t cut(std::string_view text, [[maybe_unused]] size_t near) const { return text.size(); }
  /// How text is cut into the pieces that the model encodes: a line for each step, none where all of it is one piece.
  virtual std::vector<std::string> cutting() const = 0;
  uint64_t hash() const;  ///< XXH3 of json()
};

/// What some file formats leave open.
struct TokenizerLoadOptions {
  enum class LowerCase { automatic, on, off };
  /// vocab.txt: automatic is do_lower_case of a tokenizer_config.json beside it, else on exactly when the vocabulary
  /// has no upper-case letter outside of [brackets]; the choice is logged.
  LowerCase lower_case = LowerCase::automatic;
  /// tiktoken rank files: a preset (gpt2, r50k_base, p50k_base, cl100k_base, o200k_base, llama3) or a regular
  /// expression; empty: by the file's name.
  std::string pattern;
  /// Merges of a vocabulary of GPT-2's form; empty: those beside it.
  std::string merges;
};

/// In place of a path: bytes as ids, 512 of them, as NeoX's tokenizer of that name; id 0 ends documents.
constexpr const char* kCharLevelTokenizer = "CharLevelTokenizer";

/// `given`: tokenizer.json, vocab.txt (BERT), a tiktoken rank file, a vocabulary of GPT-2's form with its merges beside
/// it (X-vocab.json and X-merges.txt, encoder.json and vocab.bpe) or named, or a folder that holds one of these; or a
/// name of the Hugging Face hub (hub/place.h). Throws Error::io, Error::data, Error::usage.
std::unique_ptr<Tokenizer> load_tokenizer(const std::string& given, const TokenizerLoadOptions& options = {});
/// Does load_tokenizer() find its files in that folder?
bool holds_tokenizer(const std::string& folder);
std::unique_ptr<Tokenizer> tokenizer_from_json(std::string_view json_text, std::string_view where);
/// What separates documents, under the names that the known families give it; nullptr: none is there. find: the id of
/// the token with that text.
const char* end_of_text_name(const std::function<std::optional<TokenId>(const char*)>& find);

}  // namespace trireme
