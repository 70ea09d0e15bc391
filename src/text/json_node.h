#pragma once
// A JSON tree for tokenizer files: they have objects of 100,000 keys, whose order matters, and small option objects,
// whose unknown keys must be errors. Every error names the file and the place.

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

namespace trireme {

class JsonNode {
 public:
  enum class Kind : uint8_t { null, boolean, integer, number, string, array, object };
  struct Member;

  Kind kind = Kind::null;
  bool flag = false;
  int64_t integer = 0;
  double number = 0;  ///< also set for an integer
  std::string text;
  std::vector<JsonNode> items;
  std::vector<Member> members;

  bool is_null() const { return kind == Kind::null; }
  bool is_string() const { return kind == Kind::string; }
  bool is_integer() const { return kind == Kind::integer; }
  bool is_number() const { return kind == Kind::integer || kind == Kind::number; }
  bool is_array() const { return kind == Kind::array; }
  bool is_object() const { return kind == Kind::object; }
  /// Member of that name, or nullptr if it is missing or null. Throws Error::data if it appears twice.
  const JsonNode* find(std::string_view key) const;
};

struct JsonNode::Member {
  std::string name;
  JsonNode value;
};

/// Parses JSON. Throws Error::data naming `where`.
JsonNode parse_json_node(std::string_view text, std::string_view where);

/// One object of a file with the prefix of its errors: "tokenizer.json: normalizer.normalizers[1]".
class JsonObject {
 public:
  /// Throws Error::data if `node` is not an object.
  JsonObject(const JsonNode& node, std::string place);

  const std::string& place() const { return place_; }
  const JsonNode& node() const { return *node_; }

  /// The members below are required unless a default is given; null counts as missing. A wrong type throws Error::data.
  std::string string(std::string_view key) const;
  std::string string(std::string_view key, std::string_view otherwise) const;
  bool boolean(std::string_view key) const;
  bool boolean(std::string_view key, bool otherwise) const;
  uint64_t count(std::string_view key) const;
  uint64_t count(std::string_view key, uint64_t otherwise) const;
  JsonObject object(std::string_view key) const;
  const std::vector<JsonNode>& array(std::string_view key) const;
  bool has(std::string_view key) const { return node_->find(key) != nullptr; }
  /// Place of a member, for errors.
  std::string place_of(std::string_view key) const;
  std::string place_of(std::string_view key, size_t index) const;

  /// Throws Error::data naming a member that is not listed: unsupported members are never ignored.
  void allow_only(std::initializer_list<std::string_view> keys) const;

 private:
  const JsonNode& required(std::string_view key) const;
  [[noreturn]] void wrong_type(std::string_view key, std::string_view expected) const;

  const JsonNode* node_;
  std::string place_;
};

}  // namespace trireme
