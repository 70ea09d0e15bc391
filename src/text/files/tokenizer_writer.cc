#include "text/files/tokenizer_writer.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <unordered_map>

#include "base/error.h"
#include "base/json.h"
#include "base/json_text.h"
#include "text/byte_alphabet.h"
#include "text/unicode.h"

namespace trireme {
namespace {

/// Writes a JSON string. Vocabularies are written directly: an ordered JSON object of this size is slow to build.
std::string quoted(const std::string& text) {
  try {
    return dump_valid_json(Json(text));
  } catch (const nlohmann::json::type_error&) {
    fail(ErrorKind::data, "a token is not valid UTF-8, so tokenizer.json cannot contain it");
  }
}

template <class List, class Write>
void write_list(std::string& out, const List& list, Write write) {
  bool first = true;
  for (const auto& entry : list) {
    out += first ? "\n      " : ",\n      ";
    first = false;
    write(entry);
  }
  if (!first) out += "\n    ";
}

Json added_token_json(const AddedToken& token) {
  return Json{{"id", token.id},
              {"content", token.content},
              {"single_word", token.single_word},
              {"lstrip", token.left_strip},
              {"rstrip", token.right_strip},
              {"normalized", token.normalized},
              {"special", token.special}};
}

Json byte_level_json() {
  return Json{{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", true}};
}

/// Pieces by the given pattern, then bytes.
Json pattern_json(const std::string& pattern) {
  Json bytes = byte_level_json();
  bytes["use_regex"] = false;
  const Json split = {
      {"type", "Split"}, {"pattern", {{"Regex", pattern}}}, {"behavior", "Isolated"}, {"invert", false}};
  return Json{{"type", "Sequence"}, {"pretokenizers", {split, std::move(bytes)}}};
}

Json begin_template(const AddedToken& begin) {
  const Json special = {{"SpecialToken", {{"id", begin.content}, {"type_id", 0}}}};
  const auto sequence = [](const char* name, int type) {
    return Json{{"Sequence", {{"id", name}, {"type_id", type}}}};
  };
  Json ids = {{"id", begin.content}, {"ids", {begin.id}}, {"tokens", {begin.content}}};
  return Json{{"type", "TemplateProcessing"},
              {"single", {special, sequence("A", 0)}},
              {"pair", {special, sequence("A", 0), special, sequence("B", 1)}},
              {"special_tokens", {{begin.content, std::move(ids)}}}};
}

}  // namespace

std::string write_added_tokens(const std::vector<AddedToken>& added) {
  Json list = Json::array();
  for (const AddedToken& token : added) list.push_back(added_token_json(token));
  return dump_valid_json(list);
}

std::string write_tokenizer_json(const BpeDescription& tokenizer) {
  const Json byte_level = tokenizer.byte_level ? byte_level_json() : Json();
  const Json pieces = tokenizer.pattern.empty() ? byte_level : pattern_json(tokenizer.pattern);
  const Json decoder = tokenizer.byte_level ? byte_level_json() : Json{{"type", "Fuse"}};
  const Json post = tokenizer.begin ? begin_template(*tokenizer.begin) : byte_level;
  std::string out = "{\n  \"version\": \"1.0\",\n  \"truncation\": null,\n  \"padding\": null,\n";
  const auto member = [&out](const char* key, const Json& value) {
    out += fmt::format("  \"{}\": {},\n", key, dump_valid_json(value));
  };
  out += fmt::format("  \"added_tokens\": {},\n", write_added_tokens(tokenizer.added));
  member("normalizer", tokenizer.composes ? Json{{"type", "NFC"}} : Json());
  member("pre_tokenizer", pieces);
  member("post_processor", post);
  member("decoder", decoder);
  out +=
      "  \"model\": {\n    \"type\": \"BPE\",\n    \"dropout\": null,\n    \"unk_token\": null,\n"
      "    \"continuing_subword_prefix\": null,\n    \"end_of_word_suffix\": null,\n    \"fuse_unk\": false,\n"
      "    \"byte_fallback\": false,\n";
  out += fmt::format("    \"ignore_merges\": {},\n    \"vocab\": {{", tokenizer.ignore_merges);
  write_list(out, tokenizer.vocabulary,
             [&](const auto& entry) { out += fmt::format("{}: {}", quoted(entry.first), entry.second); });
  out += "},\n    \"merges\": [";
  write_list(out, tokenizer.merges, [&](const auto& merge) { out += quoted(merge.first + " " + merge.second); });
  out += "]\n  }\n}\n";
  return out;
}

std::string bert_tokenizer_json(const std::vector<std::string>& tokens, bool lower_case, const std::string& where) {
  Json added = Json::array();
  std::optional<TokenId> separator, begin;
  bool has_unknown = false;
  std::unordered_map<std::string_view, size_t> last;  // line of a word; the last of several counts
  for (size_t i = 0; i < tokens.size(); ++i) last[tokens[i]] = i;
  for (size_t i = 0; i < tokens.size(); ++i) {
    const std::string& text = tokens[i];
    if (last[text] != i) continue;
    if (text != "[PAD]" && text != "[UNK]" && text != "[CLS]" && text != "[SEP]" && text != "[MASK]") continue;
    AddedToken token;
    token.id = static_cast<TokenId>(i);
    token.content = text;
    token.normalized = false;
    token.special = true;
    added.push_back(added_token_json(token));
    has_unknown = has_unknown || text == "[UNK]";
    if (text == "[SEP]") separator = token.id;
    if (text == "[CLS]") begin = token.id;
  }
  require(has_unknown, ErrorKind::data, "{}: the unknown token [UNK] is missing", where);
  Json post;
  if (begin && separator)
    post = Json{{"type", "BertProcessing"}, {"sep", {"[SEP]", *separator}}, {"cls", {"[CLS]", *begin}}};
  const Json normalizer = {{"type", "BertNormalizer"},
                           {"clean_text", true},
                           {"handle_chinese_chars", true},
                           {"strip_accents", nullptr},
                           {"lowercase", lower_case}};
  std::string out = fmt::format(
      "{{\n  \"version\": \"1.0\",\n  \"truncation\": null,\n  \"padding\": null,\n  \"added_tokens\": {},\n"
      "  \"normalizer\": {},\n  \"pre_tokenizer\": {{\"type\":\"BertPreTokenizer\"}},\n  \"post_processor\": {},\n"
      "  \"decoder\": {{\"type\":\"WordPiece\",\"prefix\":\"##\",\"cleanup\":true}},\n  \"model\": {{\n"
      "    \"type\": \"WordPiece\",\n    \"unk_token\": \"[UNK]\",\n    \"continuing_subword_prefix\": \"##\",\n"
      "    \"max_input_chars_per_word\": 100,\n    \"vocab\": {{",
      dump_valid_json(added), dump_valid_json(normalizer), dump_valid_json(post));
  std::vector<size_t> lines;
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (last[tokens[i]] == i) lines.push_back(i);
  }
  write_list(out, lines, [&](size_t line) { out += fmt::format("{}: {}", quoted(tokens[line]), line); });
  return out + "}\n  }\n}\n";
}

std::string byte_tokenizer_json() {
  constexpr TokenId kIds = 512;
  BpeDescription tokenizer;
  for (TokenId id = 0; id < kIds; ++id) {
    const auto byte = static_cast<char>(id);
    tokenizer.vocabulary.emplace_back(id < 256 ? spell_bytes({&byte, 1}) : fmt::format("<|unused_{}|>", id), id);
  }
  return write_tokenizer_json(tokenizer);
}

std::string character_tokenizer_json(const std::vector<char32_t>& characters, bool end_of_text) {
  BpeDescription tokenizer;
  tokenizer.byte_level = false;
  for (const char32_t code : characters) {
    require(code != kInvalidCode, ErrorKind::data,
            "a character vocabulary needs valid UTF-8, but the text has other bytes; use a byte-level tokenizer");
    std::string text;
    append_utf8(code, text);
    tokenizer.vocabulary.emplace_back(std::move(text), static_cast<TokenId>(tokenizer.vocabulary.size()));
  }
  if (end_of_text) {
    AddedToken token;
    token.id = static_cast<TokenId>(tokenizer.vocabulary.size());
    token.content = "<|endoftext|>";
    token.normalized = false;
    token.special = true;
    tokenizer.added.push_back(std::move(token));
  }
  return write_tokenizer_json(tokenizer);
}

}  // namespace trireme
