#include "text/tiktoken.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <optional>

#include "base/error.h"
#include "base/log.h"
#include "text/base64.h"
#include "text/byte_alphabet.h"
#include "text/tokenizer_assembly.h"
#include "text/vocabulary.h"

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

/// No cutting pattern consists of these alone.
bool looks_like_a_name(const std::string& pattern) {
  return std::all_of(pattern.begin(), pattern.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
  });
}

/// The preset that the option or the file's name names; nullptr: the option is a pattern of its own.
const Preset* choose_preset(const std::string& path, const std::string& pattern) {
  if (!pattern.empty()) {
    const Preset* preset = find_preset(pattern);
    require(preset || !looks_like_a_name(pattern), ErrorKind::usage,
            "--pattern is {}; {} or a regular expression was expected", pattern, preset_names());
    return preset;
  }
  const std::filesystem::path file(path);
  const Preset* preset = find_preset(file.stem().string());
  if (!preset && file.extension() == ".model") preset = find_preset("llama3");  // Llama 3 writes its ranks so
  require(preset != nullptr, ErrorKind::usage,
          "{} does not say how text is cut; name it with --pattern: {} or a regular expression", path, preset_names());
  log::info("{}: text is cut by the pattern of {}", path, preset->name);
  return preset;
}

constexpr size_t kMostTokenBytes = 512;  // every way to cut one is looked at; those in use have up to 128

using Ranks = std::vector<std::pair<std::string, TokenId>>;  // token's bytes and rank, by rank

Ranks read_ranks(std::string_view text, const std::string& path) {
  Ranks ranks;
  ranks.reserve(std::min<size_t>(static_cast<size_t>(std::count(text.begin(), text.end(), '\n')) + 1,
                                 size_t{Vocabulary::kLargestId} + 1));
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
    std::optional<std::string> token;
    bool good = space != std::string_view::npos;
    if (good) {
      token = decode_base64(line.substr(0, space));
      const auto [stop, error] = std::from_chars(line.data() + space + 1, line.data() + line.size(), rank);
      good = token && !token->empty() && token->size() <= kMostTokenBytes && error == std::errc() &&
             stop == line.data() + line.size() && rank <= Vocabulary::kLargestId;
    }
    require(good, ErrorKind::data,
            "{}, line {}: a token of up to {} bytes in base64, a space and its rank were expected", path, number,
            kMostTokenBytes);
    ranks.emplace_back(std::move(*token), rank);
    require(ranks.size() <= Vocabulary::kLargestId, ErrorKind::data,
            "{} has more than {} tokens, the most that are read", path, Vocabulary::kLargestId);
  }
  const auto lower = [](const auto& a, const auto& b) { return a.second < b.second; };
  if (!std::is_sorted(ranks.begin(), ranks.end(), lower)) std::stable_sort(ranks.begin(), ranks.end(), lower);
  return ranks;
}

/// Ids of tokens by their bytes. Most are short: those lie in the table itself, so that one look at memory finds them,
/// and a bit says of most others that they are not there.
class TokenIndex {
 public:
  explicit TokenIndex(const Ranks& ranks) : filter_(kFilterWords) {
    const auto is_short = [](const auto& entry) { return entry.first.size() <= kShort; };
    const auto count = static_cast<size_t>(std::count_if(ranks.begin(), ranks.end(), is_short));
    slots_.resize(std::bit_ceil(2 * count + 2));
    shift_ = 64 - std::countr_zero(slots_.size());
    for (const auto& [token, rank] : ranks) add(token, rank);
  }

  std::optional<TokenId> find(std::string_view token) const {
    if (token.size() > kShort) return long_.find(token);
    const uint64_t key = key_of(token), hash = hash_of(key, token.size());
    if (!(filter_[hash % kFilterWords] >> (hash >> 58) & 1)) return std::nullopt;
    for (size_t at = hash >> shift_;; at = (at + 1) & (slots_.size() - 1)) {
      const Slot& slot = slots_[at];
      if (slot.bytes == token.size() && slot.key == key) return slot.id;
      if (slot.bytes == 0) return std::nullopt;
    }
  }

 private:
  static constexpr size_t kShort = 8, kFilterWords = size_t{1} << 15;
  struct Slot {
    uint64_t key = 0;
    TokenId id = 0;
    uint32_t bytes = 0;  // 0: free
  };

  static uint64_t key_of(std::string_view token) {
    uint64_t key = 0;
    std::memcpy(&key, token.data(), token.size());
    return key;
  }
  static uint64_t hash_of(uint64_t key, size_t bytes) {
    __extension__ using u128 = unsigned __int128;
    const u128 product = static_cast<u128>(key ^ 0x9E3779B97F4A7C15 * (bytes + 1)) * 0xD6E8FEB86659FD93;
    return static_cast<uint64_t>(product >> 64) ^ static_cast<uint64_t>(product);
  }

  void add(std::string_view token, TokenId id) {
    if (token.size() > kShort) return long_.add(token, id, "");
    const uint64_t key = key_of(token), hash = hash_of(key, token.size());
    size_t at = hash >> shift_;
    while (slots_[at].bytes != 0) at = (at + 1) & (slots_.size() - 1);
    slots_[at] = {key, id, static_cast<uint32_t>(token.size())};
    filter_[hash % kFilterWords] |= uint64_t{1} << (hash >> 58);
  }

  std::vector<Slot> slots_;
  int shift_ = 0;
  std::vector<uint64_t> filter_;
  Vocabulary long_;
};

struct Merge {
  TokenId left, right, merged;
};

/// Every way to put a token together from two others, in the order of the tokens' ranks.
MergeTable make_merges(const Ranks& ranks) {
  const TokenIndex index(ranks);
  MergeTable merges(2 * ranks.size());
  uint32_t rank = 0;
  std::vector<Merge> found;
  constexpr size_t kBatch = 64;  // places in the table that are on their way at the same time
  const auto add_found = [&] {
    for (const Merge& merge : found) merges.prefetch(merge.left, merge.right);
    for (const Merge& merge : found) merges.add(merge.left, merge.right, rank++, merge.merged);
    found.clear();
  };
  for (const auto& [text, id] : ranks) {
    const std::string_view token = text;
    const size_t before = found.size();
    for (size_t cut = 1; cut < token.size(); ++cut) {
      const std::optional<TokenId> left = index.find(token.substr(0, cut));
      if (!left) continue;
      const std::optional<TokenId> right = index.find(token.substr(cut));
      if (right) found.push_back({*left, *right, id});
    }
    std::sort(found.begin() + static_cast<ptrdiff_t>(before), found.end(),
              [](const Merge& a, const Merge& b) { return std::pair(a.left, a.right) < std::pair(b.left, b.right); });
    if (found.size() >= kBatch) add_found();
  }
  add_found();
  return merges;
}

/// The tokens in GPT-2's spelling, and their merges.
BpeTables make_tables(const Ranks& ranks, const std::string& path) {
  BpeTables tables;
  tables.vocabulary.reserve(ranks.size());
  const std::string place = path + ": model.vocab";
  for (const auto& [token, rank] : ranks) tables.vocabulary.add(spell_bytes(token), rank, place);
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
    const auto taken = std::lower_bound(ranks.begin(), ranks.end(), special.id,
                                        [](const auto& entry, TokenId id) { return entry.second < id; });
    if (taken != ranks.end() && taken->second == special.id && taken->first != special.content)
      fail(ErrorKind::data,
           "{}: the pattern {} gives \"{}\" the id {}, which is \"{}\" in this file; the file is probably another "
           "one's, name that with --pattern: {} or a regular expression",
           path, preset.name, special.content, special.id, spell_bytes(taken->first), preset_names());
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
  const Ranks ranks = read_ranks(text, path);
  require(!ranks.empty(), ErrorKind::data, "{} has no tokens", path);
  BpeDescription frame;
  frame.pattern = preset ? preset->pattern : pattern;
  frame.ignore_merges = true;
  if (preset && preset->name == std::string_view("llama3"))
    add_llama3_specials(frame, ranks.back().second + 1);
  else if (preset)
    add_preset_specials(frame, *preset, ranks, path);
  return tokenizer_from_tables(std::move(frame), make_tables(ranks, path), path);
}

}  // namespace trireme
