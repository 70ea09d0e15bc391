#include "text/files/character_meta.h"

#include <map>
#include <optional>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "text/files/pickle.h"
#include "text/files/tokenizer_writer.h"
#include "text/unicode.h"

namespace trireme {
namespace {

using Kind = Pickle::Kind;

constexpr const char* kExpected =
    "expected nanoGPT's {\"vocab_size\": N, \"itos\": {0: \"a\", ...}, \"stoi\": {\"a\": 0, ...}}";

std::optional<Pickle::Index> entry(const Pickle& pickle, std::string_view name) {
  std::optional<Pickle::Index> found;
  for (const auto& [key, value] : pickle.dict(pickle.root())) {
    if (pickle.kind(key) == Kind::text && pickle.text(key) == name) found = value;  // the last of equal keys counts
  }
  return found;
}

char32_t one_character(std::string_view text, const std::string& path) {
  const char* const end = text.data() + text.size();
  const Decoded first = text.empty() ? Decoded{kInvalidCode, 0} : decode_utf8(text.data(), end);
  require(first.code != kInvalidCode && static_cast<size_t>(first.length) == text.size(), ErrorKind::data,
          "{}: itos has \"{}\", but only vocabularies of single characters are supported", path, text);
  return first.code;
}

}  // namespace

std::unique_ptr<Tokenizer> read_character_meta(const std::string& path) {
  const MappedFile file(path);
  const Pickle pickle(file.bytes(), path);
  require(pickle.kind(pickle.root()) == Kind::dict, ErrorKind::data, "{}: {}", path, kExpected);
  const auto names = entry(pickle, "itos");
  require(names && pickle.kind(*names) == Kind::dict, ErrorKind::data, "{}: \"itos\" is missing; {}", path, kExpected);
  std::map<int64_t, char32_t> characters;
  for (const auto& [key, value] : pickle.dict(*names)) {
    require(pickle.kind(key) == Kind::integer && pickle.kind(value) == Kind::text, ErrorKind::data,
            "{}: \"itos\" does not map ids to characters; {}", path, kExpected);
    characters[pickle.integer(key)] = one_character(pickle.text(value), path);
  }
  const auto count = static_cast<int64_t>(characters.size());
  require(count > 0 && characters.begin()->first == 0 && characters.rbegin()->first == count - 1, ErrorKind::data,
          "{}: the ids of \"itos\" are not 0 to {} without gaps", path, count - 1);
  const auto size = entry(pickle, "vocab_size");
  require(!size || pickle.kind(*size) != Kind::integer || pickle.integer(*size) == count, ErrorKind::data,
          "{}: vocab_size is {}, but itos has {} characters", path, size ? pickle.integer(*size) : 0, count);
  std::vector<char32_t> in_order;
  in_order.reserve(characters.size());
  for (const auto& [id, code] : characters) in_order.push_back(code);
  return tokenizer_from_json(character_tokenizer_json(in_order, false), path);
}

}  // namespace trireme
