// Any bytes as text for tokenizers of each kind. Byte-level ones give the bytes back, the tables of GPT-2's pattern cut
// as PCRE2 does, and a text that is cut where cut() says encodes as the whole.
#include <cstdio>
#include <cstdlib>
#include <memory>

#include "base/error.h"
#include "text/files/tokenizer_writer.h"
#include "text/line_codec.h"
#include "text/tokenizer.h"

namespace {

using namespace trireme;

/// The 256 bytes and some merges, cut by GPT-2's pattern, or, if it is given, another one.
std::unique_ptr<Tokenizer> byte_level(const std::string& pattern) {
  BpeDescription tokenizer;
  const auto letters = tokenizer_from_json(byte_tokenizer_json(), "bytes");
  for (TokenId id = 0; id < 256; ++id) tokenizer.vocabulary.emplace_back(letters->id_to_token(id), id);
  for (const auto& [left, right] : {std::pair{"t", "h"}, {"th", "e"}, {"\u0120", "the"}, {"a", "a"}, {"aa", "aa"}}) {
    tokenizer.merges.emplace_back(left, right);
    tokenizer.vocabulary.emplace_back(std::string(left) + right, static_cast<TokenId>(tokenizer.vocabulary.size()));
  }
  tokenizer.pattern = pattern;
  return tokenizer_from_json(write_tokenizer_json(tokenizer), "byte level");
}

std::vector<TokenId> encode(const Tokenizer& tokenizer, std::string_view text) {
  std::vector<TokenId> ids;
  tokenizer.encode_plain(text, ids);
  return ids;
}

void check_cut(const Tokenizer& tokenizer, std::string_view text, size_t near) {
  const size_t at = tokenizer.cut(text, near);
  std::vector<TokenId> ids = encode(tokenizer, text.substr(0, at));
  tokenizer.encode_plain(text.substr(at), ids);
  if (ids != encode(tokenizer, text)) std::abort();
}

/// What `trireme tokenizer encode --jsonl` and `decode` read.
void check_lines(const Tokenizer& tokenizer, std::string_view text) {
  for (const bool encoding : {true, false}) {
    std::FILE* in = fmemopen(const_cast<char*>(text.data()), text.size(), "rb");
    std::FILE* out = std::fopen("/dev/null", "wb");
    if (!in || !out) std::abort();
    try {
      if (encoding)
        encode_lines(tokenizer, {.json_lines = true}, in, out, "fuzzed");
      else
        decode_lines(tokenizer, {}, in, out, "fuzzed");
    } catch (const Error& e) {
      if (e.kind() != ErrorKind::data) std::abort();
    }
    std::fclose(in);
    std::fclose(out);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const auto scanned = byte_level("");
  static const auto matched =  // the group keeps it from becoming tables
      byte_level("(?>'s|'t|'re|'ve|'m|'ll|'d)| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+");
  static const auto words = tokenizer_from_json(
      bert_tokenizer_json({"[UNK]", "[CLS]", "[SEP]", "the", "##e", "a", "##a", "!"}, true, "words"), "words");
  if (size < 2) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  const std::vector<TokenId> ids = encode(*scanned, text);
  if (ids != encode(*matched, text) || scanned->decode(ids) != text) std::abort();
  const size_t near = 1 + data[0] % text.size();
  check_cut(*scanned, text, near);
  check_cut(*words, text, near);
  words->decode(encode(*words, text));
  check_lines(*scanned, text);
  return 0;
}
