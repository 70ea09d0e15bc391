#include "checkpoint/gguf/file.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "base/count.h"
#include "base/error.h"
#include "base/json_fields.h"
#include "base/log.h"
#include "checkpoint/gguf/pre_tokenizers.h"
#include "checkpoint/huggingface/generation_settings.h"
#include "text/chat/chat_files.h"
#include "text/tokenizer.h"

namespace trireme {
namespace {

constexpr const char *kWhere = "tokenizer.json", *kSpace = "▁";

/// How tokenizer.ggml.token_type says what a token is.
enum TokenKind : int32_t { kNormal = 1, kUnknown = 2, kControl = 3, kUserDefined = 4, kUnused = 5, kByte = 6 };

bool has_step(const Json& element, std::string_view type) {
  if (!element.is_object()) return false;
  if (element.value("type", "") == type) return true;
  for (const char* list : {"normalizers", "pretokenizers"}) {
    if (const auto found = element.find(list); found != element.end() && found->is_array())
      return std::ranges::any_of(*found, [&](const Json& step) { return has_step(step, type); });
  }
  return false;
}

bool has_step(const Json& tokenizer, const char* part, std::string_view type) {
  const auto found = tokenizer.find(part);
  return found != tokenizer.end() && has_step(*found, type);
}

/// Patterns that cut as one of the known ones.
std::string canonical(const std::string& pattern) {
  std::string one = pattern;
  // cl100k's possessive quantifiers, and groups of one alternative, change no match of these patterns.
  for (const auto& [from, to] :
       {std::pair{"?+", "?"}, {"++", "+"}, {"'(?i:[sdmt]|ll|ve|re)", "(?i:'s|'t|'re|'ve|'m|'ll|'d)"}}) {
    for (size_t at; (at = one.find(from)) != one.npos;) one.replace(at, std::string_view(from).size(), to);
  }
  return one;
}

/// Appends the steps of a pre-tokenizer; a step that is not one of its patterns is appended as its JSON.
void append_steps(const Json& element, std::vector<std::string>& steps) {
  const auto type = element.is_object() ? element.value("type", "") : std::string();
  if (type == "Sequence") {
    for (const Json& step : json_array(element, "pretokenizers", kWhere)) append_steps(step, steps);
  } else if (type == "ByteLevel" && !element.value("add_prefix_space", true)) {
    if (element.value("use_regex", true)) steps.emplace_back(kGpt2Pattern);
  } else if (type == "Digits" && element.value("individual_digits", false)) {
    steps.emplace_back(kDigitPattern);
  } else if (type == "Split" && element.value("behavior", "") == "Isolated" && !element.value("invert", false) &&
             element.contains("pattern") && element["pattern"].contains("Regex")) {
    steps.push_back(canonical(element["pattern"]["Regex"].get<std::string>()));
  } else if (type == "Split" && element.value("behavior", "") == "Removed" && element.value("invert", false) &&
             element.contains("pattern") && element["pattern"].contains("Regex")) {
    steps.push_back(canonical(element["pattern"]["Regex"].get<std::string>()));  // matches are the pieces: the same
  } else {
    steps.push_back(dump_valid_json(element));
  }
}

size_t shared_prefix(const std::vector<std::string>& a, const std::vector<std::string>& b) {
  const std::string one = fmt::format("{}", fmt::join(a, "\n")), other = fmt::format("{}", fmt::join(b, "\n"));
  return static_cast<size_t>(std::ranges::mismatch(one, other).in1 - one.begin());
}

std::string pre_tokenizer_name(const Json& tokenizer, bool ignores_merges) {
  std::vector<std::string> steps;
  if (const auto element = tokenizer.find("pre_tokenizer"); element != tokenizer.end()) append_steps(*element, steps);
  const auto& known = known_pre_tokenizers();
  const bool composes = has_step(tokenizer, "normalizer", "NFC");
  const PreTokenizerName* found = nullptr;
  for (const PreTokenizerName& one : known) {
    const bool cuts_alike = one.steps == steps && one.ignores_merges == ignores_merges;
    if (cuts_alike && (!found || one.composes == composes)) found = &one;
  }
  if (found) return found->name;
  const auto nearest = std::ranges::max_element(known, {}, [&](const PreTokenizerName& one) {
    return 2 * shared_prefix(one.steps, steps) + (one.ignores_merges == ignores_merges);
  });
  fail(ErrorKind::config,
       "llama.cpp cuts texts by the name of a pre-tokenizer, and none known here does what this model's does ({}{}); "
       "the nearest is {}. Use --gguf-pre NAME for one that you know to be right",
       fmt::join(steps, ", then "), ignores_merges ? ", ignore_merges" : "", nearest->name);
}

/// The ids that the tokenizer puts around a text.
struct Frame {
  std::optional<TokenId> begin, end;
};
Frame frame_of(const Tokenizer& tokenizer, const std::vector<int32_t>& kinds) {
  const EncodeOptions plain{.special_tokens = false, .padding = false}, complete{.padding = false};
  std::string text;
  std::vector<TokenId> inner;
  for (size_t id = 0; id < kinds.size() && inner.empty(); ++id) {
    const auto token = static_cast<TokenId>(id);
    if (kinds[id] != kNormal || !tokenizer.has_token(token)) continue;
    text = tokenizer.decode(std::span(&token, 1));
    inner = tokenizer.encode(text, plain).ids;
  }
  require(!inner.empty(), ErrorKind::data, "{}: no token is one of text", kWhere);
  const std::vector<TokenId> all = tokenizer.encode(text, complete).ids;
  const auto at = std::search(all.begin(), all.end(), inner.begin(), inner.end());
  const auto before = at - all.begin(), after = std::ssize(all) - before - std::ssize(inner);
  require(before <= 1 && after <= 1 && after >= 0, ErrorKind::config,
          "the tokenizer puts {} before a text and {} behind it; a GGUF file can only name one of each",
          count_text(before, "id"), count_text(after, "id"));
  Frame frame;
  if (before == 1) frame.begin = all.front();
  if (after == 1) frame.end = all.back();
  return frame;
}

/// Tokens with their kinds and, for SentencePiece, scores.
class TokenList {
 public:
  explicit TokenList(int64_t count)
      : texts_(static_cast<size_t>(count)), kinds_(texts_.size(), kUnused), scores_(texts_.size(), -1e4f) {
    for (size_t id = 0; id < texts_.size(); ++id) texts_[id] = fmt::format("[PAD{}]", id);
  }

  void set(const std::string& text, int64_t id, int32_t kind) {
    require(id >= 0 && id < std::ssize(texts_), ErrorKind::data,
            "{}: token \"{}\" has the id {}, but the model has only {}", kWhere, text, id,
            count_text(texts_.size(), "id"));
    const auto at = static_cast<size_t>(id);
    ids_[text] = id;
    if (text.find('\0') != text.npos) return;  // llama.cpp would end it there, and two tokens would be one
    texts_[at] = text;
    kinds_[at] = kind;
  }
  void set_score(int64_t id, float score) { scores_[static_cast<size_t>(id)] = score; }

  std::optional<int64_t> find(const std::string& text) const {
    const auto found = ids_.find(text);
    return found == ids_.end() ? std::nullopt : std::optional(found->second);
  }
  const std::vector<std::string>& texts() const { return texts_; }
  const std::vector<int32_t>& kinds() const { return kinds_; }
  const std::vector<float>& scores() const { return scores_; }

 private:
  std::vector<std::string> texts_;
  std::vector<int32_t> kinds_;
  std::vector<float> scores_;
  std::map<std::string, int64_t> ids_;
};

bool is_byte_token(const std::string& text) {
  return text.size() == 6 && text.starts_with("<0x") && text.ends_with('>') &&
         std::isxdigit(static_cast<unsigned char>(text[3])) && std::isxdigit(static_cast<unsigned char>(text[4]));
}

std::vector<std::pair<std::string, std::string>> merges_of(const Json& model) {
  std::vector<std::pair<std::string, std::string>> merges;
  for (const Json& merge : json_array(model, "merges", kWhere)) {
    if (merge.is_array() && merge.size() == 2) {
      merges.emplace_back(merge[0].get<std::string>(), merge[1].get<std::string>());
      continue;
    }
    const auto text = merge.is_string() ? merge.get<std::string>() : std::string();
    const size_t space = text.find(' ', 1);  // a token may begin with a space
    require(space != text.npos, ErrorKind::data, "{}: merge {} is not two tokens", kWhere,
            dump_valid_json(merge).substr(0, 80));
    merges.emplace_back(text.substr(0, space), text.substr(space + 1));
  }
  return merges;
}

void add_model_tokens(const Json& model, bool spells_bytes, TokenList& tokens) {
  const std::string unknown = model.contains("unk_token") && model["unk_token"].is_string()
                                  ? model["unk_token"].get<std::string>()
                                  : std::string();
  for (const auto& [text, id] : json_member(model, "vocab", kWhere).items()) {
    const bool is_unknown = !unknown.empty() && text == unknown;
    const int32_t kind = is_unknown ? kUnknown : !spells_bytes && is_byte_token(text) ? kByte : kNormal;
    tokens.set(text, id.get<int64_t>(), kind);
  }
}

void add_added_tokens(const Json& tokenizer, TokenList& tokens) {
  const auto added = tokenizer.find("added_tokens");
  if (added == tokenizer.end() || !added->is_array()) return;
  for (const Json& token : *added) {
    const auto text = json_field<std::string>(token, "content", kWhere);
    const auto id = json_field<int64_t>(token, "id", kWhere);
    const bool looks_special = text.size() > 4 && text.starts_with("<|") && text.ends_with("|>");
    const bool is_control = token.value("special", false) || looks_special;
    if (id < std::ssize(tokens.kinds()) && id >= 0 && tokens.kinds()[static_cast<size_t>(id)] == kUnknown &&
        tokens.texts()[static_cast<size_t>(id)] == text)
      continue;
    // llama.cpp looks for these in texts whose spaces are still spaces.
    const bool has_written_spaces = text.find(kSpace) != text.npos && !is_control;
    tokens.set(text, id, is_control ? kControl : has_written_spaces ? kNormal : kUserDefined);
  }
}

/// Metaspace that puts a space before a text; empty: another pre-tokenizer, or none.
bool has_metaspace(const Json& tokenizer) {
  const auto found = tokenizer.find("pre_tokenizer");
  return found != tokenizer.end() && has_step(*found, "Metaspace") &&
         found->value("prepend_scheme", "always") != "never";
}

/// llama.cpp merges any two tokens that make one. Returns how many pairs of them are not among the merges.
size_t missing_merges(const std::vector<std::pair<std::string, std::string>>& merges, const Json& vocabulary) {
  std::set<std::string> made;
  for (const auto& [left, right] : merges) made.insert(left + right);
  const std::set<std::pair<std::string, std::string>> known(merges.begin(), merges.end());
  const auto is_made = [&](const std::string& text) {
    if (made.contains(text)) return true;
    const auto letters = std::ranges::count_if(text, [](char c) { return (c & 0xC0) != 0x80; });
    return letters == 1 && vocabulary.contains(text);
  };
  size_t missing = 0;
  for (const std::string& text : made) {
    for (size_t at = 1; at < text.size(); ++at) {
      if ((text[at] & 0xC0) == 0x80) continue;
      const std::pair pair(text.substr(0, at), text.substr(at));
      if (!known.contains(pair) && is_made(pair.first) && is_made(pair.second)) ++missing;
    }
  }
  return missing;
}

/// SentencePiece's BPE merges the pair whose token has the highest score: earlier merges get higher ones. Characters
/// need none.
void add_sentencepiece(const Json& tokenizer, const Json& model, TokenList& tokens, GgufMetadata& metadata) {
  const auto merges = merges_of(model);
  float score = 0;
  for (const auto& [left, right] : merges) {
    const auto id = tokens.find(left + right);
    if (!id || tokens.scores()[static_cast<size_t>(*id)] > -1e4f) continue;
    tokens.set_score(*id, score);
    score -= 1;
  }
  const bool metaspace = has_metaspace(tokenizer);
  metadata.add("tokenizer.ggml.model", "llama");
  metadata.add("tokenizer.ggml.pre", "default");
  metadata.add("tokenizer.ggml.scores", std::span<const float>(tokens.scores()));
  metadata.add("tokenizer.ggml.add_space_prefix", metaspace || has_step(tokenizer, "normalizer", "Prepend"));
  if (metaspace)
    log::warning(
        "llama.cpp puts a space before every text and behind every special token; this tokenizer puts none before a "
        "text that begins with one, or behind a special token: such texts get other ids there");
  if (const size_t missing = missing_merges(merges, model["vocab"]); missing > 0)
    log::warning(
        "{} of this tokenizer make a token, but are not among its merges; llama.cpp merges them, too: some texts get "
        "other ids there",
        count_text(missing, "pair"));
}

void add_byte_level(const Json& tokenizer, const Json& model, const std::string& pre, GgufMetadata& metadata) {
  metadata.add("tokenizer.ggml.model", "gpt2");
  metadata.add("tokenizer.ggml.pre",
               pre.empty() ? pre_tokenizer_name(tokenizer, model.value("ignore_merges", false)) : pre);
  std::vector<std::string> merges;
  for (const auto& [left, right] : merges_of(model)) merges.push_back(left + " " + right);
  metadata.add("tokenizer.ggml.merges", std::span<const std::string>(merges));
}

void add_special_ids(const std::string& tokenizer_json, const Json& model, const std::string& generation,
                     const TokenList& tokens, GgufMetadata& metadata) {
  const GenerationSettings settings = generation_settings(generation, "the model's generation settings");
  const chat::ChatFiles files =
      chat::chat_files_of(kept_tokenizer_files(generation, "the model's generation settings"), "the model's tokenizer");
  const auto tokenizer = tokenizer_from_json(tokenizer_json, kWhere);
  const Frame frame = frame_of(*tokenizer, tokens.kinds());
  const auto named = [&](const char* role) -> std::optional<int64_t> {
    const auto found = files.tokens.find(role);
    return found == files.tokens.end() ? std::nullopt : tokens.find(found->second);
  };
  const auto add = [&](const char* key, std::optional<int64_t> id) {
    // Files of models with another vocabulary may name an id that this one does not have.
    if (id && *id < std::ssize(tokens.texts()))
      metadata.add(fmt::format("tokenizer.ggml.{}_token_id", key), static_cast<uint32_t>(*id));
  };
  std::vector<int64_t> ends(settings.end.begin(), settings.end.end());
  std::erase_if(ends, [&](int64_t id) { return id >= std::ssize(tokens.texts()); });
  if (ends.empty()) {
    if (const auto end = tokenizer->end_of_text()) ends.push_back(*end);
  }
  std::optional<int64_t> end = named("eos_token");
  if (frame.end) end = *frame.end;
  if (!ends.empty() && (!end || (!frame.end && std::ranges::find(ends, *end) == ends.end()))) end = ends.front();
  std::optional<int64_t> begin = frame.begin ? frame.begin : settings.begin;
  if (!begin) begin = named("bos_token");
  add("bos", begin);
  add("eos", end);
  const auto other = std::ranges::find_if(ends, [&](int64_t id) { return id != end; });
  if (other != ends.end()) add("eot", *other);
  if (model.contains("unk_token") && model["unk_token"].is_string())
    add("unknown", tokens.find(model["unk_token"].get<std::string>()));
  add("padding", named("pad_token"));
  metadata.add("tokenizer.ggml.add_bos_token", frame.begin.has_value());
  metadata.add("tokenizer.ggml.add_eos_token", frame.end.has_value());
  std::vector<std::string> others;
  for (const auto& [name, source] : files.templates) {
    if (name == "default") {
      metadata.add("tokenizer.chat_template", source.text);
    } else {
      metadata.add("tokenizer.chat_template." + name, source.text);
      others.push_back(name);
    }
  }
  if (!others.empty()) metadata.add("tokenizer.chat_templates", std::span<const std::string>(others));
}

}  // namespace

void add_vocabulary(const std::string& tokenizer_json, const std::string& generation, int64_t vocabulary,
                    const std::string& pre, GgufMetadata& metadata) {
  if (tokenizer_json.empty()) {
    metadata.add("tokenizer.ggml.model", "no_vocab");
    return;
  }
  const Json tokenizer = parse_json(tokenizer_json, kWhere);
  const Json& model = json_member(tokenizer, "model", kWhere);
  const bool is_bpe = model.contains("merges") && model.contains("vocab") && model["vocab"].is_object();
  const bool bytes = has_step(tokenizer, "pre_tokenizer", "ByteLevel"),
             falls_back = is_bpe && model.value("byte_fallback", false);
  require(is_bpe && (bytes || falls_back), ErrorKind::config,
          "llama.cpp has no tokenizer like this model's ({}): only byte-level BPE and BPE with byte fallback "
          "(SentencePiece) can be written; an export as a Hugging Face folder keeps it",
          model.value("type", "no type"));
  TokenList tokens(vocabulary);
  add_model_tokens(model, bytes, tokens);
  add_added_tokens(tokenizer, tokens);
  if (bytes)
    add_byte_level(tokenizer, model, pre, metadata);
  else
    add_sentencepiece(tokenizer, model, tokens, metadata);
  metadata.add("tokenizer.ggml.tokens", std::span<const std::string>(tokens.texts()));
  metadata.add("tokenizer.ggml.token_type", std::span<const int32_t>(tokens.kinds()));
  add_special_ids(tokenizer_json, model, generation, tokens, metadata);
}

}  // namespace trireme
