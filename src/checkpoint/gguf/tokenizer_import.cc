#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <unordered_map>

#include "base/error.h"
#include "base/json.h"
#include "base/json_text.h"
#include "checkpoint/gguf/import.h"
#include "checkpoint/gguf/pre_tokenizers.h"

namespace trireme {
namespace {

constexpr const char* kSpace = "▁";
constexpr int64_t kUnknown = 2, kControl = 3, kUserDefined = 4, kUnused = 5;

/// The lists of tokens, of one length.
struct Tokens {
  const std::vector<std::string>* texts;
  const std::vector<int64_t>* kinds;
  const std::vector<double>* scores;

  explicit Tokens(const GgufHeader& header)
      : texts(header.array<std::string>("tokenizer.ggml.tokens")),
        kinds(header.array<int64_t>("tokenizer.ggml.token_type")),
        scores(header.array<double>("tokenizer.ggml.scores")) {
    require(texts != nullptr, ErrorKind::data, "{}: key tokenizer.ggml.tokens is missing", header.where);
    for (const size_t size : {kinds ? kinds->size() : texts->size(), scores ? scores->size() : texts->size()})
      require(size == texts->size(), ErrorKind::data, "{}: {} tokens, but {} types or scores of tokens", header.where,
              texts->size(), size);
  }
  int64_t kind(size_t id) const { return kinds ? (*kinds)[id] : 1; }
  bool is_added(size_t id) const { return kind(id) == kControl || kind(id) == kUserDefined; }
  /// A place in the matrix that no token has.
  bool is_free(size_t id) const {
    return kind(id) == kUnused && ((*texts)[id].starts_with("[PAD") || (*texts)[id].empty());
  }
};

std::optional<size_t> special_id(const GgufHeader& header, const char* role, const Tokens& tokens) {
  const std::string key = std::string("tokenizer.ggml.") + role + "_token_id";
  if (!header.has(key)) return std::nullopt;
  const int64_t id = header.integer(key);
  require(id >= 0 && id < std::ssize(*tokens.texts), ErrorKind::data, "{}: {} is {}, but there are {} tokens",
          header.where, key, id, tokens.texts->size());
  return static_cast<size_t>(id);
}

Json added_tokens(const Tokens& tokens) {
  Json added = Json::array();
  for (size_t id = 0; id < tokens.texts->size(); ++id) {
    if (!tokens.is_added(id) && tokens.kind(id) != kUnknown) continue;
    added.push_back({{"id", id},
                     {"content", (*tokens.texts)[id]},
                     {"single_word", false},
                     {"lstrip", false},
                     {"rstrip", false},
                     {"normalized", false},
                     {"special", tokens.kind(id) != kUserDefined}});
  }
  return added;
}

Json vocabulary(const Tokens& tokens) {
  Json vocabulary = Json::object();
  auto& entries = vocabulary.get_ref<Json::object_t&>();
  for (size_t id = 0; id < tokens.texts->size(); ++id)
    if (!tokens.is_added(id) && !tokens.is_free(id)) entries.push_back({(*tokens.texts)[id], id});
  return vocabulary;
}

/// The tokens that are put around a text; null: none.
Json post_processor(const GgufHeader& header, const Tokens& tokens, bool begins) {
  const auto begin = special_id(header, "bos", tokens), end = special_id(header, "eos", tokens);
  const bool ends = header.flag("tokenizer.ggml.add_eos_token", false) && end;
  begins = header.flag("tokenizer.ggml.add_bos_token", begins) && begin;
  if (!begins && !ends) return nullptr;
  Json single = Json::array(), pair = Json::array(), special = Json::object();
  const auto put = [&](size_t id, Json& list) {
    const std::string& text = (*tokens.texts)[id];
    list.push_back({{"SpecialToken", {{"id", text}, {"type_id", 0}}}});
    special[text] = {{"id", text}, {"ids", {id}}, {"tokens", {text}}};
  };
  const auto text = [&](const char* name, int type, Json& list) {
    if (begins) put(*begin, list);
    list.push_back({{"Sequence", {{"id", name}, {"type_id", type}}}});
    if (ends) put(*end, list);
  };
  text("A", 0, single);
  text("A", 0, pair);
  text("B", 1, pair);
  return {{"type", "TemplateProcessing"}, {"single", single}, {"pair", pair}, {"special_tokens", special}};
}

Json byte_level(bool pattern) {
  return {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", pattern}};
}

Json byte_level_tokenizer(const GgufHeader& header, const Tokens& tokens) {
  const std::string pre = header.has("tokenizer.ggml.pre") ? header.text("tokenizer.ggml.pre") : "gpt-2";
  const PreTokenizerName* known = find_pre_tokenizer(pre);
  require(known != nullptr, ErrorKind::data,
          "{}: the pre-tokenizer {} (tokenizer.ggml.pre) is not known here; give the model's own tokenizer with "
          "--tokenizer, or --data.tokenizer",
          header.where, pre);
  Json steps = Json::array();
  for (const std::string& pattern : known->steps)
    steps.push_back(
        {{"type", "Split"}, {"pattern", {{"Regex", pattern}}}, {"behavior", "Isolated"}, {"invert", false}});
  steps.push_back(byte_level(false));
  const auto* merges = header.array<std::string>("tokenizer.ggml.merges");
  require(merges != nullptr, ErrorKind::data, "{}: key tokenizer.ggml.merges is missing", header.where);
  return {{"version", "1.0"},
          {"truncation", nullptr},
          {"padding", nullptr},
          {"added_tokens", added_tokens(tokens)},
          {"normalizer", known->composes ? Json{{"type", "NFC"}} : Json()},
          {"pre_tokenizer", {{"type", "Sequence"}, {"pretokenizers", steps}}},
          {"post_processor", post_processor(header, tokens, known->ignores_merges && pre != "tekken")},
          {"decoder", byte_level(true)},
          {"model",
           {{"type", "BPE"},
            {"dropout", nullptr},
            {"unk_token", nullptr},
            {"continuing_subword_prefix", nullptr},
            {"end_of_word_suffix", nullptr},
            {"fuse_unk", false},
            {"byte_fallback", false},
            {"ignore_merges", known->ignores_merges},
            {"vocab", vocabulary(tokens)},
            {"merges", *merges}}}};
}

/// SentencePiece merges the two neighbours whose token has the highest score: every pair that makes a token, by scores.
Json merges_by_score(const Tokens& tokens) {
  std::unordered_map<std::string_view, size_t> ids;
  for (size_t id = 0; id < tokens.texts->size(); ++id)
    if (!tokens.is_added(id) && !tokens.is_free(id)) ids.emplace((*tokens.texts)[id], id);
  struct Merge {
    double score;
    size_t id, at;
  };
  std::vector<Merge> merges;
  for (const auto& [text, id] : ids) {
    for (size_t at = 1; at < text.size(); ++at) {
      if ((text[at] & 0xC0) == 0x80) continue;
      if (ids.contains(text.substr(0, at)) && ids.contains(text.substr(at)))
        merges.push_back({(*tokens.scores)[id], id, at});
    }
  }
  std::ranges::sort(merges, [](const Merge& a, const Merge& b) {
    return std::tuple(-a.score, a.id, a.at) < std::tuple(-b.score, b.id, b.at);
  });
  Json list = Json::array();
  for (const Merge& merge : merges) {
    const std::string& text = (*tokens.texts)[merge.id];
    list.push_back({text.substr(0, merge.at), text.substr(merge.at)});
  }
  return list;
}

Json sentencepiece_tokenizer(const GgufHeader& header, const Tokens& tokens) {
  require(tokens.scores != nullptr, ErrorKind::data, "{}: key tokenizer.ggml.scores is missing", header.where);
  for (const double score : *tokens.scores)
    require(std::isfinite(score), ErrorKind::data, "{}: a score of a token is {}", header.where, score);
  const bool prefix = header.flag("tokenizer.ggml.add_space_prefix", true);
  Json normalizers = Json::array(), decoders = Json::array();
  if (prefix) normalizers.push_back({{"type", "Prepend"}, {"prepend", kSpace}});
  normalizers.push_back({{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", kSpace}});
  decoders.push_back({{"type", "Replace"}, {"pattern", {{"String", kSpace}}}, {"content", " "}});
  decoders.push_back({{"type", "ByteFallback"}});
  decoders.push_back({{"type", "Fuse"}});
  if (prefix) decoders.push_back({{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}});
  const auto unknown = special_id(header, "unknown", tokens);
  return {{"version", "1.0"},
          {"truncation", nullptr},
          {"padding", nullptr},
          {"added_tokens", added_tokens(tokens)},
          {"normalizer", {{"type", "Sequence"}, {"normalizers", normalizers}}},
          {"pre_tokenizer", nullptr},
          {"post_processor", post_processor(header, tokens, true)},
          {"decoder", {{"type", "Sequence"}, {"decoders", decoders}}},
          {"model",
           {{"type", "BPE"},
            {"dropout", nullptr},
            {"unk_token", unknown && tokens.kind(*unknown) == kUnknown ? Json((*tokens.texts)[*unknown]) : Json()},
            {"continuing_subword_prefix", nullptr},
            {"end_of_word_suffix", nullptr},
            {"fuse_unk", true},
            {"byte_fallback", true},
            {"ignore_merges", false},
            {"vocab", vocabulary(tokens)},
            {"merges", merges_by_score(tokens)}}}};
}

}  // namespace

std::string gguf_tokenizer(const GgufHeader& header) {
  if (!header.has("tokenizer.ggml.model")) return {};
  const std::string& model = header.text("tokenizer.ggml.model");
  if (model == "no_vocab" || model == "none") return {};
  require(model == "gpt2" || model == "llama", ErrorKind::data,
          "{}: the tokenizer {} (tokenizer.ggml.model) is not supported; supported: gpt2 and llama", header.where,
          model);
  const Tokens tokens(header);
  return dump_json(model == "gpt2" ? byte_level_tokenizer(header, tokens) : sentencepiece_tokenizer(header, tokens), 1);
}

std::string gguf_generation(const GgufHeader& header, std::string_view model_type) {
  Json all{{"model_type", model_type}, {"config", Json::object()}, {"generation_config", nullptr}};
  if (!header.array<std::string>("tokenizer.ggml.tokens")) return dump_json(all);
  const Tokens tokens(header);
  Json roles = Json::object(), ends = Json::array();
  for (const auto& [role, name] : {std::pair{"bos", "bos_token"}, {"eos", "eos_token"}, {"padding", "pad_token"}}) {
    if (const auto id = special_id(header, role, tokens)) roles[name] = (*tokens.texts)[*id];
  }
  for (const char* role : {"eos", "eot", "eom"}) {
    const auto id = special_id(header, role, tokens);
    if (id && std::ranges::find(ends, Json(*id)) == ends.end()) ends.push_back(*id);
  }
  if (const auto begin = special_id(header, "bos", tokens)) all["config"]["bos_token_id"] = *begin;
  if (!ends.empty()) all["config"]["eos_token_id"] = ends.size() == 1 ? ends.front() : ends;
  Json files = Json::object();
  if (!roles.empty()) files["tokenizer_config.json"] = dump_json(roles, 2) + "\n";
  if (header.has("tokenizer.chat_template")) files["chat_template.jinja"] = header.text("tokenizer.chat_template");
  if (!files.empty()) all["tokenizer_files"] = files;
  return dump_json(all);
}

}  // namespace trireme
