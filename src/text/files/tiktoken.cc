#include "text/files/tiktoken.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <numeric>
#include <optional>

#include "base/error.h"
#include "base/log.h"
#include "text/base64.h"
#include "text/byte_alphabet.h"
#include "text/files/token_parts.h"
#include "text/files/tokenizer_assembly.h"
#include "text/models/vocabulary.h"
#include "text/regex/intervals.h"

namespace trireme {
namespace {

struct Special {
  const char* content;
  TokenId id;
};

struct Preset {
  const char* name;
  const char* pattern;  // empty: GPT-2's, which has its own scanner
  std::vector<Special> specials;
};

constexpr const char* kCl100kPattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr const char* kO200kPattern =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?)"
    R"(|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?)"
    R"(|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

const std::vector<Preset>& presets() {
  static const std::vector<Preset> list{
      {"gpt2", "", {{"<|endoftext|>", 50256}}},
      {"r50k_base", "", {{"<|endoftext|>", 50256}}},
      {"p50k_base", "", {{"<|endoftext|>", 50256}}},
      {"cl100k_base",
       kCl100kPattern,
       {{"<|endoftext|>", 100257},
        {"<|fim_prefix|>", 100258},
        {"<|fim_middle|>", 100259},
        {"<|fim_suffix|>", 100260},
        {"<|endofprompt|>", 100276}}},
      {"o200k_base", kO200kPattern, {{"<|endoftext|>", 199999}, {"<|endofprompt|>", 200018}}},
      {"llama3", kCl100kPattern, {}},
  };
  return list;
}

const Preset* find_preset(std::string_view name) {
  const auto it = std::find_if(presets().begin(), presets().end(), [&](const Preset& p) { return p.name == name; });
  return it == presets().end() ? nullptr : &*it;
}

std::string preset_names() {
  std::string names;
  for (const Preset& preset : presets()) names += names.empty() ? preset.name : fmt::format(", {}", preset.name);
  return names;
}

/// No valid pattern consists only of these.
bool looks_like_a_name(const std::string& pattern) {
  return std::all_of(pattern.begin(), pattern.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
  });
}

/// The preset named by the option or the file; nullptr: the option is a pattern.
const Preset* choose_preset(const std::string& path, const std::string& pattern) {
  if (!pattern.empty()) {
    const Preset* preset = find_preset(pattern);
    require(preset || !looks_like_a_name(pattern), ErrorKind::usage,
            "--pattern is {}; expected {} or a regular expression", pattern, preset_names());
    return preset;
  }
  const std::filesystem::path file(path);
  const Preset* preset = find_preset(file.stem().string());
  if (!preset && file.extension() == ".model") preset = find_preset("llama3");  // Llama 3 writes its ranks so
  require(preset != nullptr, ErrorKind::usage,
          "the pattern of {} is unknown; set --pattern to {} or a regular expression", path, preset_names());
  log::write_first(log::Level::info, fmt::format("{}: text is cut by the pattern of {}", path, preset->name));
  return preset;
}

/// Translates a tiktoken pattern for tokenizer.json: in tiktoken ^ and $ are borders of the text, not of lines.
std::string with_borders_of_text(std::string_view pattern) {
  std::string out;
  bool in_class = false;
  for (size_t i = 0; i < pattern.size(); ++i) {
    const char c = pattern[i];
    if (c == '\\' && i + 1 < pattern.size()) {
      out.append({c, pattern[++i]});
    } else if (!in_class && (c == '^' || c == '$')) {
      out += c == '^' ? "\\A" : "\\z";
    } else {
      in_class = in_class ? c != ']' : c == '[';
      out.push_back(c);
      if (c == '[' && i + 1 < pattern.size() && pattern[i + 1] == '^') out.push_back(pattern[++i]);
    }
  }
  return out;
}

constexpr size_t kInPlace = 64;          // more than a string's inline buffer, whose text moves with it
constexpr size_t kMostTokenBytes = 512;  // all ways to cut one are tried; common tokens have up to 128

/// Tokens' bytes and their ranks, by rank.
struct Ranks {
  std::string bytes;  ///< of all tokens, concatenated
  std::vector<std::string_view> tokens;
  std::vector<TokenId> ids;

  Ranks() = default;
  Ranks(Ranks&&) = default;
  Ranks& operator=(Ranks&&) = default;
  void sort() {
    if (std::is_sorted(ids.begin(), ids.end())) return;
    std::vector<size_t> order(ids.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return ids[a] < ids[b]; });
    Ranks sorted;
    for (const size_t i : order) {
      sorted.tokens.push_back(tokens[i]);
      sorted.ids.push_back(ids[i]);
    }
    tokens.swap(sorted.tokens);
    ids.swap(sorted.ids);
  }
};

Ranks read_ranks(std::string_view text, const std::string& path) {
  Ranks ranks;
  constexpr size_t kLeastLine = 7;  // "QQ== 0\n"; unused reserved memory is never touched
  const auto lines = std::min<size_t>(text.size() / kLeastLine + 1, size_t{Vocabulary::kLargestId} + 1);
  ranks.tokens.reserve(lines);
  ranks.ids.reserve(lines);
  ranks.bytes.reserve(std::max(text.size(), kInPlace));
  size_t number = 0;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    std::string_view line = text.substr(at, end - at);
    at = end + 1;
    ++number;
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.empty()) continue;
    const size_t space = line.find(' ');
    TokenId rank = 0;
    const size_t begin = ranks.bytes.size();  // has room for all
    bool good = space != std::string_view::npos && decode_base64(line.substr(0, space), ranks.bytes);
    const size_t bytes = ranks.bytes.size() - begin;
    if (good) {
      const auto [stop, error] = std::from_chars(line.data() + space + 1, line.data() + line.size(), rank);
      good = bytes > 0 && bytes <= kMostTokenBytes && error == std::errc() && stop == line.data() + line.size() &&
             rank <= Vocabulary::kLargestId;
    }
    require(good, ErrorKind::data, "{}, line {}: expected a token of up to {} bytes in base64, a space and its rank",
            path, number, kMostTokenBytes);
    ranks.tokens.emplace_back(ranks.bytes.data() + begin, bytes);
    ranks.ids.push_back(rank);
    require(ranks.ids.size() <= Vocabulary::kLargestId, ErrorKind::data,
            "{} has more than {} tokens, the supported maximum", path, Vocabulary::kLargestId);
  }
  ranks.sort();
  return ranks;
}

/// Every way to put a token together from two others, in the order of the tokens' ranks.
MergeTable make_merges(const Ranks& ranks) {
  const TokenCuts cuts(ranks.tokens, ranks.ids);
  MergeTable merges(ranks.ids.size() * 5 / 2);  // o200k has 2.2 for each token, cl100k 2.3
  uint32_t rank = 0;
  std::vector<TokenParts> of_token, found;
  constexpr size_t kBatch = 64;  // places in the table that are on their way at the same time
  const auto add_found = [&] {
    for (const TokenParts& parts : found) merges.prefetch(parts.left, parts.right);
    for (const TokenParts& parts : found) merges.add(parts.left, parts.right, rank++, parts.whole);
    found.clear();
  };
  for (size_t i = 0; i < ranks.ids.size(); ++i) {
    cuts.of(i, of_token);
    found.insert(found.end(), of_token.begin(), of_token.end());
    if (found.size() >= kBatch) add_found();
  }
  add_found();
  return merges;
}

/// The tokens in GPT-2's spelling, and their merges.
BpeTables make_tables(const Ranks& ranks, const std::string& path) {
  BpeTables tables;
  tables.vocabulary.reserve(ranks.ids.size());
  const std::string place = path + ": model.vocab";
  constexpr size_t kBatch = 32;  // places in the table that are on their way at the same time
  std::string spellings[kBatch];
  for (size_t first = 0; first < ranks.ids.size(); first += kBatch) {
    const size_t batch = std::min(kBatch, ranks.ids.size() - first);
    for (size_t i = 0; i < batch; ++i) {
      spellings[i].clear();
      append_spelling(ranks.tokens[first + i], spellings[i]);
      tables.vocabulary.prefetch(spellings[i]);
    }
    for (size_t i = 0; i < batch; ++i) tables.vocabulary.add(spellings[i], ranks.ids[first + i], place);
  }
  tables.merges = make_merges(ranks);
  return tables;
}

void add_special(BpeDescription& tokenizer, std::string content, TokenId id) {
  AddedToken token;
  token.id = id;
  token.content = std::move(content);
  token.normalized = false;
  token.special = true;
  tokenizer.added.push_back(std::move(token));
}

void add_preset_specials(BpeDescription& tokenizer, const Preset& preset, const Ranks& ranks, const std::string& path) {
  for (const Special& special : preset.specials) {
    const auto taken = std::lower_bound(ranks.ids.begin(), ranks.ids.end(), special.id);
    const bool is_taken = taken != ranks.ids.end() && *taken == special.id;
    const std::string_view by =
        is_taken ? ranks.tokens[static_cast<size_t>(taken - ranks.ids.begin())] : std::string_view(special.content);
    if (by != special.content)
      fail(ErrorKind::data,
           "{}: the pattern {} gives \"{}\" the id {}, which is \"{}\" in this file; the file probably belongs to "
           "another pattern: set --pattern to {} or a regular expression",
           path, preset.name, special.content, special.id, spell_bytes(by), preset_names());
    add_special(tokenizer, special.content, special.id);
  }
}

/// Llama 3's 256 special tokens follow the ranks.
void add_llama3_specials(BpeDescription& tokenizer, TokenId first) {
  std::vector<std::string> names{"<|begin_of_text|>", "<|end_of_text|>"};
  const auto reserved = [&](int from, int to) {
    for (int i = from; i <= to; ++i) names.push_back(fmt::format("<|reserved_special_token_{}|>", i));
  };
  reserved(0, 3);
  names.insert(names.end(), {"<|start_header_id|>", "<|end_header_id|>"});
  reserved(4, 4);
  names.emplace_back("<|eot_id|>");
  reserved(5, 250);
  for (const std::string& name : names) add_special(tokenizer, name, first++);
}

}  // namespace

bool is_tiktoken(std::string_view text) {
  const std::string_view line = text.substr(0, text.find('\n'));
  const size_t space = line.find(' ');
  return space != std::string_view::npos && space > 0 && decode_base64(line.substr(0, space)).has_value();
}

std::unique_ptr<Tokenizer> load_tiktoken(std::string_view text, const std::string& path, const std::string& pattern) {
  const Preset* preset = choose_preset(path, pattern);
  Ranks ranks = read_ranks(text, path);
  require(!ranks.ids.empty(), ErrorKind::data, "{} has no tokens", path);
  BpeDescription frame;
  frame.pattern = preset ? preset->pattern : with_borders_of_text(without_possessive_intervals(pattern));
  frame.ignore_merges = true;
  if (preset && preset->name == std::string_view("llama3"))
    add_llama3_specials(frame, ranks.ids.back() + 1);
  else if (preset)
    add_preset_specials(frame, *preset, ranks, path);
  BpeTables tables = make_tables(ranks, path);
  ranks = Ranks();
  return tokenizer_from_tables(std::move(frame), std::move(tables), path);
}

}  // namespace trireme
