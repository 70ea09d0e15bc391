#include "text/json_node.h"

#include <simdjson.h>

#include <algorithm>

#include "base/error.h"

namespace trireme {
namespace {

JsonNode convert(simdjson::dom::element element) {
  using Type = simdjson::dom::element_type;
  JsonNode node;
  switch (element.type()) {
    case Type::ARRAY:
      node.kind = JsonNode::Kind::array;
      node.items.reserve(simdjson::dom::array(element).size());
      for (const auto item : simdjson::dom::array(element)) node.items.push_back(convert(item));
      break;
    case Type::OBJECT:
      node.kind = JsonNode::Kind::object;
      node.members.reserve(simdjson::dom::object(element).size());
      for (const auto field : simdjson::dom::object(element))
        node.members.push_back({std::string(field.key), convert(field.value)});
      break;
    case Type::INT64:
      node.kind = JsonNode::Kind::integer;
      node.integer = int64_t(element);
      node.number = static_cast<double>(node.integer);
      break;
    case Type::UINT64:  // only above the range of int64
      node.kind = JsonNode::Kind::number;
      node.number = static_cast<double>(uint64_t(element));
      break;
    case Type::DOUBLE:
      node.kind = JsonNode::Kind::number;
      node.number = double(element);
      break;
    case Type::STRING:
      node.kind = JsonNode::Kind::string;
      node.text = std::string_view(element);
      break;
    case Type::BOOL:
      node.kind = JsonNode::Kind::boolean;
      node.flag = bool(element);
      break;
    case Type::NULL_VALUE:
      break;
  }
  return node;
}

/// Integers of more than 64 bits are numbers of JSON that the parser refuses; tokenizer_config.json has 10^30 where a
/// model has no limit.
std::string with_long_integers_as_floats(std::string_view text) {
  constexpr size_t kLong = 19;  // digits
  std::string out;
  bool in_string = false;
  for (size_t i = 0; i < text.size();) {
    const char c = text[i];
    const bool begins_number = !in_string && (c == '-' || (c >= '0' && c <= '9'));
    const size_t end = begins_number ? std::min(text.find_first_not_of("0123456789", i + 1), text.size())
                                     : std::min(i + (in_string && c == '\\' ? 2 : 1), text.size());
    out += text.substr(i, end - i);
    const char next = end < text.size() ? text[end] : ' ';
    if (begins_number && end - i >= kLong && next != '.' && next != 'e' && next != 'E') out += ".0";
    if (c == '"') in_string = !in_string;
    i = end;
    if (!begins_number || end >= text.size()) continue;
    const size_t rest = std::min(text.find_first_not_of("0123456789.eE+-", end), text.size());  // of a float
    out += text.substr(end, rest - end);
    i = rest;
  }
  return out;
}

}  // namespace

const JsonNode* JsonNode::find(std::string_view key) const {
  const JsonNode* found = nullptr;
  for (const auto& [name, value] : members) {
    if (name != key) continue;
    require(found == nullptr, ErrorKind::data, "key \"{}\" appears twice in one object", key);
    found = &value;
  }
  return found && !found->is_null() ? found : nullptr;
}

JsonNode parse_json_node(std::string_view text, std::string_view where) {
  try {
    simdjson::dom::parser parser;
    simdjson::dom::element root;
    auto error = parser.parse(text.data(), text.size()).get(root);
    if (error == simdjson::NUMBER_ERROR) error = parser.parse(with_long_integers_as_floats(text)).get(root);
    if (error) throw simdjson::simdjson_error(error);
    return convert(root);
  } catch (const simdjson::simdjson_error& e) {
    fail(ErrorKind::data, "{}: not valid JSON: {}", where, e.what());
  }
}

JsonObject::JsonObject(const JsonNode& node, std::string place) : node_(&node), place_(std::move(place)) {
  require(node.is_object(), ErrorKind::data, "{}: expected a JSON object", place_);
}

const JsonNode& JsonObject::required(std::string_view key) const {
  const JsonNode* node = node_->find(key);
  require(node != nullptr, ErrorKind::data, "{}: \"{}\" is missing", place_, key);
  return *node;
}

void JsonObject::wrong_type(std::string_view key, std::string_view expected) const {
  fail(ErrorKind::data, "{}: \"{}\" must be {}", place_, key, expected);
}

std::string JsonObject::string(std::string_view key) const {
  const JsonNode& node = required(key);
  if (!node.is_string()) wrong_type(key, "a string");
  return node.text;
}

std::string JsonObject::string(std::string_view key, std::string_view otherwise) const {
  return has(key) ? string(key) : std::string(otherwise);
}

bool JsonObject::boolean(std::string_view key) const {
  const JsonNode& node = required(key);
  if (node.kind != JsonNode::Kind::boolean) wrong_type(key, "true or false");
  return node.flag;
}

bool JsonObject::boolean(std::string_view key, bool otherwise) const { return has(key) ? boolean(key) : otherwise; }

uint64_t JsonObject::count(std::string_view key) const {
  const JsonNode& node = required(key);
  if (!node.is_integer() || node.integer < 0) wrong_type(key, "an integer >= 0");
  return static_cast<uint64_t>(node.integer);
}

uint64_t JsonObject::count(std::string_view key, uint64_t otherwise) const { return has(key) ? count(key) : otherwise; }

JsonObject JsonObject::object(std::string_view key) const { return {required(key), place_of(key)}; }

const std::vector<JsonNode>& JsonObject::array(std::string_view key) const {
  const JsonNode& node = required(key);
  if (!node.is_array()) wrong_type(key, "an array");
  return node.items;
}

std::string JsonObject::place_of(std::string_view key) const {
  const bool is_file = place_.find(": ") == std::string::npos;
  return fmt::format("{}{}{}", place_, is_file ? ": " : ".", key);
}

std::string JsonObject::place_of(std::string_view key, size_t index) const {
  return fmt::format("{}[{}]", place_of(key), index);
}

void JsonObject::allow_only(std::initializer_list<std::string_view> keys) const {
  for (const auto& [name, value] : node_->members) {
    require(std::find(keys.begin(), keys.end(), name) != keys.end(), ErrorKind::data, "{}: unsupported key \"{}\"",
            place_, name);
  }
}

}  // namespace trireme
