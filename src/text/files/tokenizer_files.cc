// load_tokenizer(): finds the files of a tokenizer and rewrites older formats as tokenizer.json.

#include <algorithm>
#include <filesystem>

#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "hub/place.h"
#include "text/files/character_meta.h"
#include "text/files/declared_tokens.h"
#include "text/files/json_cursor.h"
#include "text/files/model_tables.h"
#include "text/files/tiktoken.h"
#include "text/files/tokenizer_assembly.h"
#include "text/json_node.h"
#include "text/models/vocabulary.h"
#include "text/tokenizer.h"
#include "text/unicode.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

/// About twice the size of the largest tokenizer.json in use.
constexpr size_t kMostFileBytes = size_t{64} << 20;

fs::path folder_of(const fs::path& file) { return file.has_parent_path() ? file.parent_path() : fs::path("."); }

std::string read_tokenizer_file(const std::string& path) { return read_text(path, kMostFileBytes); }

std::vector<std::pair<std::string, TokenId>> read_vocab_json(const std::string& path) {
  const std::string text = read_tokenizer_file(path);
  require(JsonCursor(text).peek() == '{', ErrorKind::data, "{}: expected an object of tokens and ids", path);
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
            ErrorKind::data, "{}, line {}: \"{}\", expected two tokens separated by one space", path, line_number,
            line);
    merges.emplace_back(line.substr(0, space), line.substr(space + 1));
    require(merges.size() <= Vocabulary::kLargestId, ErrorKind::data,
            "{} has more than {} merges, the supported maximum", path, Vocabulary::kLargestId);
  }
  return merges;
}

AddedToken special_token(const std::string& content, TokenId id) {
  AddedToken token;
  token.id = id;
  token.content = content;
  token.normalized = false;
  token.special = true;
  token.left_strip = content == "<mask>";  // replaces a word, so it removes the space before it, like RoBERTa's
  return token;
}

/// The special tokens of vocabularies of this kind: GPT-2's one, or the five of fairseq (OPT, RoBERTa).
std::vector<AddedToken> find_special_tokens(const std::vector<std::pair<std::string, TokenId>>& vocabulary,
                                            bool fairseq) {
  std::vector<AddedToken> added;
  for (const auto& [token, id] : vocabulary) {
    for (const char* name : {"<|endoftext|>", "<s>", "<pad>", "</s>", "<unk>", "<mask>"}) {
      if (token == name && (fairseq || token == "<|endoftext|>")) added.push_back(special_token(token, id));
    }
  }
  return added;
}

/// A text member of a JSON file; empty if either is missing.
std::string text_member(const fs::path& path, const char* name) {
  if (!fs::exists(path)) return {};
  const JsonNode root = parse_json_node(read_tokenizer_file(path.string()), path.string());
  const JsonNode* const value = root.is_object() ? root.find(name) : nullptr;
  return value && value->is_string() ? value->text : std::string();
}

/// Classes of transformers whose vocab.json with merges.txt is read as GPT-2's.
constexpr std::string_view kLikeGpt2[] = {"GPT2Tokenizer",       "RobertaTokenizer", "OPTTokenizer",
                                          "GPTNeoXTokenizer",    "CodeGenTokenizer", "BartTokenizer",
                                          "PreTrainedTokenizer", "PhiTokenizer",     "TokenizersBackend"};

/// Whether the text of a vocabulary with merges is cut as Qwen 2's. Files of other classes get a warning.
bool is_of_qwen(const fs::path& folder) {
  std::string name = text_member(folder / "tokenizer_config.json", "tokenizer_class");
  if (name.ends_with("Fast")) name.resize(name.size() - 4);
  if (name.empty()) return text_member(folder / "config.json", "model_type").starts_with("qwen");
  if (name == "Qwen2Tokenizer") return true;
  if (std::ranges::find(kLikeGpt2, name) == std::end(kLikeGpt2))
    log::write_once(
        log::Level::warning,
        fmt::format("{}: its vocabulary with merges is read as GPT-2's, but tokenizer_config.json names {}, which may "
                    "cut text in another way; in Python, AutoTokenizer.from_pretrained(FOLDER).save_pretrained(FOLDER) "
                    "writes a tokenizer.json that says how",
                    folder.string(), name));
  return false;
}

/// PRETOKENIZE_REGEX of transformers' tokenization_qwen2.py.
constexpr const char* kQwenPattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

/// The token that tokenizer_config.json puts before every text: OPT's </s>.
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
  require(it != added.end(), ErrorKind::data, "{}: bos_token \"{}\" is missing from the vocabulary", path.string(),
          name);
  return *it;
}

std::unique_ptr<Tokenizer> load_vocab_and_merges(const fs::path& vocab, const fs::path& merges) {
  const std::string where = fmt::format("{} with {}", vocab.string(), merges.string());
  const fs::path folder = folder_of(vocab);
  BpeDescription tokenizer;
  tokenizer.vocabulary = read_vocab_json(vocab.string());
  tokenizer.merges = read_merges_txt(merges.string());
  if (is_of_qwen(folder)) {
    tokenizer.pattern = kQwenPattern;
    tokenizer.composes = true;
  }
  const auto find = [&](std::string_view token) -> std::optional<TokenId> {
    const auto entry = std::ranges::find(tokenizer.vocabulary, token, &std::pair<std::string, TokenId>::first);
    return entry == tokenizer.vocabulary.end() ? std::nullopt : std::optional(entry->second);
  };
  const size_t next = tokenizer.vocabulary.empty() ? 0 : size_t{tokenizer.vocabulary.back().second} + 1;
  tokenizer.added = with_declared(find_special_tokens(tokenizer.vocabulary, !tokenizer.composes),
                                  declared_tokens(folder.string()), find, next, where);
  tokenizer.begin = find_begin(folder, tokenizer.added);
  return tokenizer_from_description(std::move(tokenizer), where);
}

/// The merges beside a vocabulary: X-merges.txt for X-vocab.json, vocab.bpe for encoder.json.
std::optional<fs::path> merges_beside(const fs::path& vocabulary) {
  const fs::path folder = vocabulary.parent_path();
  const std::string name = vocabulary.filename().string();
  for (const std::string_view known : {"vocab.json", "encoder.json"}) {
    if (!name.ends_with(known)) continue;
    const std::string prefix = name.substr(0, name.size() - known.size());
    for (const char* merges : {"merges.txt", "vocab.bpe"}) {
      if (fs::exists(folder / (prefix + merges))) return folder / (prefix + merges);
    }
  }
  return std::nullopt;
}

/// The text without Unicode white space at its end.
std::string_view trimmed_end(std::string_view text) {
  size_t end = 0;
  for (const char *p = text.data(), *const stop = p + text.size(); p < stop;) {
    const Decoded next = decode_utf8(p, stop);
    p += next.length;
    if ((char_table()[next.code] & kSpace) == 0) end = static_cast<size_t>(p - text.data());
  }
  return text.substr(0, end);
}

/// One token per line, read like Hugging Face's tokenizers library (and BertTokenizer of transformers from version 5
/// on; earlier ones kept blanks at the end of a line): only \n ends lines, white space at the end of a line is not part
/// of the token, a blank line is the empty token.
std::vector<std::string> read_lines(const std::string& path) {
  const std::string text = read_tokenizer_file(path);
  std::vector<std::string> lines;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    const std::string_view line = std::string_view(text).substr(at, end - at);
    for_each_valid_run(line, [&](std::string_view, bool valid) {
      require(valid, ErrorKind::data,
              "{}, line {}: not UTF-8; `iconv -f LATIN1 -t UTF-8` converts a file of that encoding", path,
              lines.size() + 1);
    });
    lines.emplace_back(trimmed_end(line));
    require(lines.size() <= Vocabulary::kLargestId, ErrorKind::data,
            "{} has more than {} lines, the supported maximum of ids", path, Vocabulary::kLargestId);
    at = end + 1;
  }
  return lines;
}

bool has_upper_case(const std::vector<std::string>& tokens) {
  constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";  // stays part of the first token
  return std::any_of(tokens.begin(), tokens.end(), [&](std::string_view token) {
    if (token.starts_with(kByteOrderMark)) token.remove_prefix(kByteOrderMark.size());
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

/// What a start finds out about a file of which it opens the tokenizer several times.
template <class... Args>
void note(fmt::format_string<Args...> format, Args&&... args) {
  log::write_first(log::Level::info, fmt::format(format, std::forward<Args>(args)...));
}

/// vocab.txt does not state whether it is cased.
bool choose_lower_case(const fs::path& path, const std::vector<std::string>& tokens,
                       TokenizerLoadOptions::LowerCase choice) {
  using LowerCase = TokenizerLoadOptions::LowerCase;
  if (choice != LowerCase::automatic) {
    const bool lower = choice == LowerCase::on;
    note("{}: lower case {}, from --lower-case", path.string(), lower ? "on" : "off");
    return lower;
  }
  const fs::path config_path = path.parent_path() / "tokenizer_config.json";
  if (fs::exists(config_path)) {
    const JsonNode root = parse_json_node(read_tokenizer_file(config_path.string()), config_path.string());
    const JsonObject config(root, config_path.string());
    if (config.has("do_lower_case")) {
      const bool lower = config.boolean("do_lower_case");
      note("{}: lower case {}, from {}", path.string(), lower ? "on" : "off", config_path.string());
      return lower;
    }
  }
  const bool lower = !has_upper_case(tokens);
  note("{}: lower case {}, because the vocabulary has {} upper-case letter; --lower-case on|off overrides this",
       path.string(), lower ? "on" : "off", lower ? "no" : "an");
  return lower;
}

/// Options for files of another kind would have no effect.
void refuse_options(const TokenizerLoadOptions& options, const std::string& path, bool pattern = true,
                    bool lower_case = true, bool merges = true) {
  require(!merges || options.merges.empty(), ErrorKind::usage,
          "--merges needs a vocabulary in GPT-2's format (vocab.json), but {} is not one; omit --merges", path);
  require(!pattern || options.pattern.empty(), ErrorKind::usage,
          "--pattern needs a tiktoken rank file, but {} is not one; omit --pattern", path);
  require(!lower_case || options.lower_case == TokenizerLoadOptions::LowerCase::automatic, ErrorKind::usage,
          "--lower-case needs a vocab.txt, but {} is not one; omit --lower-case", path);
}

std::unique_ptr<Tokenizer> load_vocab_txt(const fs::path& path, const TokenizerLoadOptions& options) {
  const std::vector<std::string> tokens = read_lines(path.string());
  refuse_options(options, path.string(), true, false);
  const bool lower = choose_lower_case(path, tokens, options.lower_case);
  return tokenizer_from_text(
      with_declared_tokens(bert_tokenizer_json(tokens, lower, path.string()), folder_of(path).string(), path.string()),
      path.string());
}

/// The vocabulary in that folder that has merges beside it: vocab.json, encoder.json, or the only one with another
/// name.
std::optional<fs::path> vocabulary_with_merges(const fs::path& folder) {
  for (const char* name : {"vocab.json", "encoder.json"}) {
    if (fs::exists(folder / name) && merges_beside(folder / name)) return folder / name;
  }
  std::vector<fs::path> found;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    if (merges_beside(entry.path())) found.push_back(entry.path());
  }
  return found.size() == 1 ? std::optional(found.front()) : std::nullopt;
}

/// The named merges, or those beside it.
std::unique_ptr<Tokenizer> load_vocabulary(const fs::path& vocabulary, const TokenizerLoadOptions& options) {
  refuse_options(options, vocabulary.string(), true, true, false);
  if (!options.merges.empty()) {
    require(fs::exists(options.merges), ErrorKind::io, "merges file {} of the vocabulary {} is missing", options.merges,
            vocabulary.string());
    return load_vocab_and_merges(vocabulary, options.merges);
  }
  const std::optional<fs::path> merges = merges_beside(vocabulary);
  require(merges.has_value(), ErrorKind::io,
          "{} needs merges.txt or vocab.bpe beside it, under its own name (X-merges.txt for X-vocab.json); or set "
          "--merges FILE",
          vocabulary.string());
  return load_vocab_and_merges(vocabulary, *merges);
}

std::unique_ptr<Tokenizer> load_folder(const fs::path& folder, const TokenizerLoadOptions& options) {
  for (const char* name : {"vocab.json", "encoder.json"}) {
    if (!options.merges.empty() && fs::exists(folder / name)) return load_vocabulary(folder / name, options);
  }
  if (fs::exists(folder / "tokenizer.json")) return load_tokenizer((folder / "tokenizer.json").string(), options);
  if (const auto vocabulary = vocabulary_with_merges(folder)) return load_vocabulary(*vocabulary, options);
  if (fs::exists(folder / "vocab.txt")) return load_vocab_txt(folder / "vocab.txt", options);
  if (fs::exists(folder / kCharacterMeta)) return load_tokenizer((folder / kCharacterMeta).string(), options);
  fail(ErrorKind::io,
       "{} has no tokenizer: expected tokenizer.json, vocab.json or encoder.json with merges.txt or "
       "vocab.bpe, vocab.txt, or nanoGPT's meta.pkl",
       folder.string());
}

[[noreturn]] void refuse_missing(const std::string& path, const std::string& why_not) {
  fail(ErrorKind::io,
       "tokenizer {} does not exist: expected a tokenizer.json, vocab.txt or NAME.tiktoken, or a folder that holds one "
       "or vocab.json with merges.txt; `trireme tokenizer train --input TEXT --vocab-size 8192 --output FOLDER` makes "
       "one from text{}",
       path, why_not);
}

/// Whether it is an object of ids, like vocab.json and encoder.json; tokenizer.json begins with other members.
bool is_vocabulary(std::string_view text) {
  const auto skip_blank = [&] { text.remove_prefix(std::min(text.find_first_not_of(" \t\r\n"), text.size())); };
  const auto take = [&](char wanted) {
    skip_blank();
    if (!text.starts_with(wanted)) return false;
    text.remove_prefix(1);
    return true;
  };
  if (!take('{') || !take('"')) return false;
  size_t end = 0;
  while (end < text.size() && text[end] != '"') end += text[end] == '\\' ? 2 : 1;
  text.remove_prefix(std::min(end + 1, text.size()));
  if (!take(':')) return false;
  skip_blank();
  return !text.empty() && text.front() >= '0' && text.front() <= '9';
}

}  // namespace

bool holds_tokenizer(const std::string& folder) {
  const fs::path path(folder);
  return fs::exists(path / "tokenizer.json") || fs::exists(path / "vocab.txt") || vocabulary_with_merges(path) ||
         fs::exists(path / kCharacterMeta);
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
  if (fs::is_directory(file)) return load_folder(file, options);
  if (file.extension() == ".pkl") {
    refuse_options(options, path);
    return read_character_meta(path);
  }
  std::string text = read_tokenizer_file(path);
  const std::string name = file.filename().string();
  if (is_vocabulary(text) || name == "vocab.json" || name == "encoder.json") return load_vocabulary(file, options);
  require(!text.starts_with("#version"), ErrorKind::usage,
          "{} contains the merges of a vocabulary; name the vocabulary (--tokenizer X-vocab.json), and this file with "
          "--merges unless it is X-merges.txt",
          path);
  if (file.extension() == ".txt") return load_vocab_txt(file, options);
  if (file.extension() == ".tiktoken" || is_tiktoken(text)) {
    refuse_options(options, path, false);
    return load_tiktoken(text, path, options.pattern);
  }
  refuse_options(options, path);
  return tokenizer_from_text(with_declared_tokens(std::move(text), folder_of(file).string(), path), path);
}

}  // namespace trireme
