// load_tokenizer(): which files make a tokenizer, and the older formats rewritten as tokenizer.json.

#include <algorithm>
#include <filesystem>

#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "hub/place.h"
#include "text/json_cursor.h"
#include "text/json_node.h"
#include "text/model_tables.h"
#include "text/tiktoken.h"
#include "text/tokenizer.h"
#include "text/tokenizer_assembly.h"
#include "text/unicode.h"
#include "text/vocabulary.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

/// About twice what the largest tokenizer.json in use has.
constexpr size_t kMostFileBytes = size_t{64} << 20;

std::string read_tokenizer_file(const std::string& path) { return read_text(path, kMostFileBytes); }

std::vector<std::pair<std::string, TokenId>> read_vocab_json(const std::string& path) {
  const std::string text = read_tokenizer_file(path);
  require(JsonCursor(text).peek() == '{', ErrorKind::data, "{}: an object of tokens and ids was expected", path);
  const Vocabulary vocabulary = read_vocabulary(text, path);
  std::vector<std::pair<std::string, TokenId>> entries;
  entries.reserve(vocabulary.count());
  for (TokenId id = 0; id < vocabulary.id_limit(); ++id) {
    if (const auto token = vocabulary.token(id)) entries.emplace_back(*token, id);
  }
  return entries;
}

std::vector<std::pair<std::string, std::string>> read_merges_txt(const std::string& path) {
  const std::string text = read_tokenizer_file(path);
  std::vector<std::pair<std::string, std::string>> merges;
  size_t line_number = 0;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    std::string_view line(text.data() + at, end - at);
    at = end + 1;
    ++line_number;
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.empty() || (line_number == 1 && line.starts_with("#version"))) continue;
    const size_t space = line.find(' ');
    require(space != std::string_view::npos && space > 0 && space + 1 < line.size() &&
                line.find(' ', space + 1) == std::string_view::npos,
            ErrorKind::data, "{}, line {}: \"{}\", two tokens with one space between were expected", path, line_number,
            line);
    merges.emplace_back(line.substr(0, space), line.substr(space + 1));
    require(merges.size() <= Vocabulary::kLargestId, ErrorKind::data,
            "{} has more than {} merges, the most that are read", path, Vocabulary::kLargestId);
  }
  return merges;
}

AddedToken special_token(const std::string& content, TokenId id) {
  AddedToken token;
  token.id = id;
  token.content = content;
  token.normalized = false;
  token.special = true;
  token.left_strip = content == "<mask>";  // stands for a word, so it takes the space before it, as RoBERTa's does
  return token;
}

/// The special tokens that vocabularies of this kind have: GPT-2's one, or the five of fairseq (OPT, RoBERTa).
std::vector<AddedToken> find_special_tokens(const std::vector<std::pair<std::string, TokenId>>& vocabulary) {
  std::vector<AddedToken> added;
  for (const auto& [token, id] : vocabulary) {
    for (const char* name : {"<|endoftext|>", "<s>", "<pad>", "</s>", "<unk>", "<mask>"}) {
      if (token == name) added.push_back(special_token(token, id));
    }
  }
  return added;
}

/// The token that tokenizer_config.json beside the files wants before every text: OPT's </s>.
std::optional<AddedToken> find_begin(const fs::path& folder, const std::vector<AddedToken>& added) {
  const fs::path path = folder / "tokenizer_config.json";
  if (!fs::exists(path)) return std::nullopt;
  const JsonNode root = parse_json_node(read_tokenizer_file(path.string()), path.string());
  const JsonObject config(root, path.string());
  if (!config.boolean("add_bos_token", false)) return std::nullopt;
  const JsonNode* node = config.node().find("bos_token");
  const std::string name =
      node && node->is_object() ? config.object("bos_token").string("content") : config.string("bos_token");
  const auto it = std::find_if(added.begin(), added.end(), [&](const AddedToken& t) { return t.content == name; });
  require(it != added.end(), ErrorKind::data, "{}: bos_token \"{}\" is not in the vocabulary", path.string(), name);
  return *it;
}

std::unique_ptr<Tokenizer> load_vocab_and_merges(const fs::path& vocab, const fs::path& merges) {
  BpeDescription tokenizer;
  tokenizer.vocabulary = read_vocab_json(vocab.string());
  tokenizer.merges = read_merges_txt(merges.string());
  tokenizer.added = find_special_tokens(tokenizer.vocabulary);
  tokenizer.begin = find_begin(vocab.parent_path(), tokenizer.added);
  return tokenizer_from_description(std::move(tokenizer), fmt::format("{} with {}", vocab.string(), merges.string()));
}

/// The merges file that belongs to a vocabulary file of that folder, if there is one.
std::optional<fs::path> merges_in(const fs::path& folder) {
  for (const char* name : {"merges.txt", "vocab.bpe"}) {
    if (fs::exists(folder / name)) return folder / name;
  }
  return std::nullopt;
}

std::vector<std::string> read_lines(const std::string& path) {
  const std::string text = read_tokenizer_file(path);
  std::vector<std::string> lines;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    lines.push_back(text.substr(at, end - at));
    if (lines.back().ends_with('\r')) lines.back().pop_back();
    require(lines.size() <= Vocabulary::kLargestId, ErrorKind::data,
            "{} has more than {} lines, the most ids that are read", path, Vocabulary::kLargestId);
    at = end + 1;
  }
  return lines;
}

bool has_upper_case(const std::vector<std::string>& tokens) {
  return std::any_of(tokens.begin(), tokens.end(), [](const std::string& token) {
    if (token.starts_with('[') && token.ends_with(']')) return false;
    const char* const end = token.data() + token.size();
    for (const char* p = token.data(); p < end;) {
      const Decoded next = decode_utf8(p, end);
      if (is_upper_case(next.code)) return true;
      p += next.length;
    }
    return false;
  });
}

/// vocab.txt does not say whether it is cased.
bool choose_lower_case(const fs::path& path, const std::vector<std::string>& tokens,
                       TokenizerLoadOptions::LowerCase choice) {
  using LowerCase = TokenizerLoadOptions::LowerCase;
  if (choice != LowerCase::automatic) {
    const bool lower = choice == LowerCase::on;
    log::info("{}: lower case {}, as --lower-case says", path.string(), lower ? "on" : "off");
    return lower;
  }
  const fs::path config_path = path.parent_path() / "tokenizer_config.json";
  if (fs::exists(config_path)) {
    const JsonNode root = parse_json_node(read_tokenizer_file(config_path.string()), config_path.string());
    const JsonObject config(root, config_path.string());
    if (config.has("do_lower_case")) {
      const bool lower = config.boolean("do_lower_case");
      log::info("{}: lower case {}, as {} says", path.string(), lower ? "on" : "off", config_path.string());
      return lower;
    }
  }
  const bool lower = !has_upper_case(tokens);
  log::info("{}: lower case {}, because the vocabulary has {} upper-case letter; --lower-case on|off decides otherwise",
            path.string(), lower ? "on" : "off", lower ? "no" : "an");
  return lower;
}

/// Options for files of another kind would do nothing.
void refuse_options(const TokenizerLoadOptions& options, const std::string& path, bool pattern = true,
                    bool lower_case = true) {
  require(!pattern || options.pattern.empty(), ErrorKind::usage,
          "--pattern says how text is cut for a file of tiktoken ranks, and {} is none; leave it out", path);
  require(!lower_case || options.lower_case == TokenizerLoadOptions::LowerCase::automatic, ErrorKind::usage,
          "--lower-case is for a vocab.txt, and {} is none; leave it out", path);
}

std::unique_ptr<Tokenizer> load_vocab_txt(const fs::path& path, const TokenizerLoadOptions& options) {
  const std::vector<std::string> tokens = read_lines(path.string());
  refuse_options(options, path.string(), true, false);
  const bool lower = choose_lower_case(path, tokens, options.lower_case);
  return tokenizer_from_text(bert_tokenizer_json(tokens, lower, path.string()), path.string());
}

/// The vocabulary of that folder for which merges lie beside it, if there is one.
std::optional<fs::path> vocabulary_with_merges(const fs::path& folder) {
  if (!merges_in(folder)) return std::nullopt;
  for (const char* name : {"vocab.json", "encoder.json"}) {
    if (fs::exists(folder / name)) return folder / name;
  }
  return std::nullopt;
}

std::unique_ptr<Tokenizer> load_folder(const fs::path& folder, const TokenizerLoadOptions& options) {
  if (fs::exists(folder / "tokenizer.json")) return load_tokenizer((folder / "tokenizer.json").string(), options);
  if (const auto vocabulary = vocabulary_with_merges(folder)) {
    refuse_options(options, vocabulary->string());
    return load_vocab_and_merges(*vocabulary, *merges_in(folder));
  }
  if (fs::exists(folder / "vocab.txt")) return load_vocab_txt(folder / "vocab.txt", options);
  fail(ErrorKind::io,
       "{} has no tokenizer: neither tokenizer.json, nor vocab.json or encoder.json with merges.txt or vocab.bpe, nor "
       "vocab.txt",
       folder.string());
}

[[noreturn]] void refuse_missing(const std::string& path, const std::string& why_not) {
  fail(
      ErrorKind::io,
      "no tokenizer {}: expected a tokenizer.json, vocab.txt or NAME.tiktoken, or a folder that holds one or "
      "vocab.json "
      "with merges.txt; `trireme tokenizer train --input TEXT --vocab-size 8192 --output FOLDER` makes one from text{}",
      path, why_not);
}

/// vocab.json and encoder.json are objects of ids; tokenizer.json has a "model".
bool is_vocab_json(const fs::path& path) {
  const std::string name = path.filename().string();
  return name == "vocab.json" || name == "encoder.json";
}

}  // namespace

bool holds_tokenizer(const std::string& folder) {
  const fs::path path(folder);
  return fs::exists(path / "tokenizer.json") || fs::exists(path / "vocab.txt") || vocabulary_with_merges(path);
}

std::unique_ptr<Tokenizer> load_tokenizer(const std::string& given, const TokenizerLoadOptions& options) {
  if (given == kCharLevelTokenizer && !fs::exists(given)) {
    refuse_options(options, given);
    return tokenizer_from_json(byte_tokenizer_json(), given);
  }
  const hub::Place place = hub::place_of_tokenizer(given);
  const std::string& path = place.path;
  const fs::path file(path);
  if (!fs::exists(file)) refuse_missing(path, place.why_not);
  if (!options.merges.empty()) {
    require(fs::exists(options.merges), ErrorKind::io, "no merges {}: those of the vocabulary {}", options.merges,
            path);
    refuse_options(options, path);
    return load_vocab_and_merges(file, options.merges);
  }
  if (fs::is_directory(file)) return load_folder(file, options);
  if (is_vocab_json(file)) {
    refuse_options(options, path);
    const std::optional<fs::path> merges = merges_in(file.parent_path());
    require(merges.has_value(), ErrorKind::io, "{} needs merges.txt or vocab.bpe beside it", path);
    return load_vocab_and_merges(file, *merges);
  }
  if (file.extension() == ".txt") return load_vocab_txt(file, options);
  std::string text = read_tokenizer_file(path);
  if (file.extension() == ".tiktoken" || is_tiktoken(text)) {
    refuse_options(options, path, false);
    return load_tiktoken(text, path, options.pattern);
  }
  refuse_options(options, path);
  return tokenizer_from_text(std::move(text), path);
}

}  // namespace trireme
