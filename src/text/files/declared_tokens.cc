#include "text/files/declared_tokens.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>

#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "text/files/json_cursor.h"
#include "text/files/tokenizer_assembly.h"
#include "text/files/tokenizer_writer.h"
#include "text/json_node.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMostBytes = size_t{64} << 20;
constexpr const char* kConfig = "tokenizer_config.json";
constexpr const char* kRoles[] = {"bos_token", "eos_token", "unk_token", "sep_token",
                                  "pad_token", "cls_token", "mask_token"};

/// A token as a text, which is special, or as an object.
AddedToken read_token(const JsonNode& node, const std::string& place, bool special) {
  AddedToken token;
  if (node.is_string()) {
    token.content = node.text;
    token.special = special;
    token.normalized = !special;
    return token;
  }
  const JsonObject object(node, place);
  token.content = object.string("content");
  token.single_word = object.boolean("single_word", false);
  token.left_strip = object.boolean("lstrip", false);
  token.right_strip = object.boolean("rstrip", false);
  token.special = special || object.boolean("special", false);
  token.normalized = object.boolean("normalized", !token.special);
  return token;
}

TokenId read_number(std::string_view text, const std::string& place) {
  const bool digits =
      !text.empty() && text.size() <= 9 && std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
  require(digits, ErrorKind::data, "{}: \"{}\" is not the id of a token", place, text.substr(0, 40));
  return static_cast<TokenId>(std::stoul(std::string(text)));
}

/// A file of the folder that is an object; null if it is missing.
JsonNode read_file(const std::string& path) {
  if (!fs::is_regular_file(path)) return {};
  JsonNode node = parse_json_node(read_text(path, kMostBytes), path);
  require(node.is_object(), ErrorKind::data, "{}: expected a JSON object", path);
  return node;
}

/// What the files declare, by their rules.
class Declared {
 public:
  explicit Declared(const std::string& folder) {
    const std::string where = folder + "/" + kConfig, map = folder + "/special_tokens_map.json";
    const JsonNode config = read_file(where);
    const JsonNode* const decoder = config.find("added_tokens_decoder");
    take_named(config, where);
    if (!decoder) take_named(read_file(map), map);
    for (const auto& tokens : {roles_, own_, extra_}) {
      for (const AddedToken& token : tokens)
        if (!token.content.empty() && names_.insert(token.content).second) named_.push_back(token);
    }
    if (decoder)
      take_decoder(*decoder, where + ": added_tokens_decoder");
    else
      take_added(folder + "/added_tokens.json");
    for (const AddedToken& token : named_) add({token, std::nullopt, false});
  }

  std::vector<DeclaredToken> take() { return std::move(tokens_); }

 private:
  /// Special tokens by their roles (a later file's count), by roles of a family's own (image_token), and without one.
  void take_named(const JsonNode& file, const std::string& where) {
    for (const auto& [name, value] : file.members) {
      const std::string place = where + ": " + name;
      const auto role = std::ranges::find(kRoles, name) - std::begin(kRoles);
      if (value.is_null()) continue;
      if (role < std::ssize(kRoles)) {
        roles_[static_cast<size_t>(role)] = read_token(value, place, true);
      } else if (name.ends_with("_token") && value.is_string()) {
        own_.push_back(read_token(value, place, true));
      } else if (name == "additional_special_tokens" || name == "extra_special_tokens") {
        for (const JsonNode& item : value.items) extra_.push_back(read_token(item, place, true));
        for (const auto& [key, item] : value.members) own_.push_back(read_token(item, place + ": " + key, true));
      }
    }
  }

  void take_decoder(const JsonNode& decoder, const std::string& place) {
    std::map<TokenId, AddedToken> by_id;
    for (const auto& [key, value] : JsonObject(decoder, place).node().members) {
      AddedToken token = read_token(value, place + ": " + key, false);
      token.special = token.special || names_.contains(token.content);
      by_id[read_number(key, place)] = std::move(token);
    }
    for (auto& [id, token] : by_id) add({std::move(token), id, true});
  }

  /// {"token": id}
  void take_added(const std::string& path) {
    std::map<TokenId, AddedToken> by_id;
    for (const auto& [content, id] : read_file(path).members) {
      require(id.is_integer() && id.integer >= 0 && id.integer < 1'000'000'000, ErrorKind::data,
              "{}: the id of \"{}\" is not a number of a token", path, content.substr(0, 40));
      AddedToken token;
      token.content = content;
      token.special = names_.contains(content);
      token.normalized = !token.special;
      by_id[static_cast<TokenId>(id.integer)] = std::move(token);
    }
    for (auto& [id, token] : by_id) add({std::move(token), id, false});
  }

  void add(DeclaredToken declared) {
    if (!declared.token.content.empty() && seen_.insert(declared.token.content).second)
      tokens_.push_back(std::move(declared));
  }

  std::vector<AddedToken> roles_ = std::vector<AddedToken>(std::size(kRoles)), own_, extra_;
  std::vector<AddedToken> named_;  ///< all of these
  std::set<std::string> names_;    ///< their texts
  std::vector<DeclaredToken> tokens_;
  std::set<std::string> seen_;
};

bool same_flags(const AddedToken& a, const AddedToken& b) {
  return a.single_word == b.single_word && a.left_strip == b.left_strip && a.right_strip == b.right_strip &&
         a.normalized == b.normalized && a.special == b.special;
}

/// Whether with_declared() would change the list.
bool changes(const std::vector<AddedToken>& added, const std::vector<DeclaredToken>& declared) {
  return std::ranges::any_of(declared, [&](const DeclaredToken& one) {
    const auto known = std::ranges::find(added, one.token.content, &AddedToken::content);
    return known == added.end() || (one.replaces && !same_flags(*known, one.token));
  });
}

/// Where the value of "added_tokens" is in a tokenizer.json; behind the opening bracket, empty, if it has none.
struct Place {
  size_t begin = 0, end = 0;
  bool found = false;
};
Place place_of_added(std::string_view json) {
  JsonCursor cursor(json);
  cursor.take('{');
  Place place{cursor.position(), cursor.position()};
  for (bool first = true; cursor.next('}', first);) {
    const bool wanted = cursor.key() == "added_tokens";
    (void)cursor.peek();
    const size_t begin = cursor.position();
    (void)cursor.skip();
    if (wanted) place = {begin, cursor.position(), true};
  }
  return place;
}

}  // namespace

std::vector<DeclaredToken> declared_tokens(const std::string& folder) { return Declared(folder).take(); }

std::vector<AddedToken> with_declared(std::vector<AddedToken> added, const std::vector<DeclaredToken>& declared,
                                      const std::function<std::optional<TokenId>(std::string_view)>& find, size_t next,
                                      std::string_view where) {
  for (const AddedToken& token : added) next = std::max(next, size_t{token.id} + 1);
  for (const DeclaredToken& one : declared) {
    const auto known = std::ranges::find(added, one.token.content, &AddedToken::content);
    AddedToken token = one.token;
    token.id = known != added.end() ? known->id : find(token.content).value_or(static_cast<TokenId>(next));
    if (one.id && *one.id != token.id)
      log::write_once(log::Level::warning,
                      fmt::format("{}: {} declares the id {} for \"{}\", but it gets {}, as in transformers", where,
                                  one.replaces ? kConfig : "added_tokens.json", *one.id, token.content, token.id));
    if (known == added.end()) {
      next = std::max(next, size_t{token.id} + 1);
      added.push_back(std::move(token));
    } else if (one.replaces) {
      *known = std::move(token);
    }
  }
  std::ranges::stable_sort(added, {}, &AddedToken::id);
  return added;
}

std::string with_declared_tokens(std::string json, const std::string& folder, std::string_view where) {
  const std::vector<DeclaredToken> declared = declared_tokens(folder);
  if (declared.empty()) return json;
  Place place;
  try {
    place = place_of_added(json);
  } catch (const JsonSyntax&) {
    return json;
  }
  const std::string_view text = std::string_view(json).substr(place.begin, place.end - place.begin);
  const std::vector<AddedToken> added = text.empty() ? std::vector<AddedToken>() : read_added_tokens(text, where);
  if (!changes(added, declared)) return json;
  const std::unique_ptr<Tokenizer> before = tokenizer_from_json(json, where);
  const std::vector<AddedToken> all = with_declared(
      added, declared, [&](std::string_view token) { return before->token_to_id(token); }, before->vocabulary_size(),
      where);
  const std::string list = write_added_tokens(all);
  json.replace(place.begin, place.end - place.begin,
               place.found ? list : fmt::format("\n  \"added_tokens\": {},", list));
  return json;
}

std::string read_tokenizer_json(const std::string& folder) {
  const std::string path = folder + "/tokenizer.json";
  return with_declared_tokens(read_text(path, kMostBytes), folder, path);
}

}  // namespace trireme
