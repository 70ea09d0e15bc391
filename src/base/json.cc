#include "base/json.h"
#include "base/json_text.h"

#include <nlohmann/json.hpp>
#include <unordered_set>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/file.h"

namespace trireme {
namespace {

constexpr size_t kMaxDepth = 64;  // no file of this field nests deeper than about ten

std::string place(std::string_view text, size_t offset) {
  size_t line = 1, column = 1;
  for (size_t i = 0; i < text.size() && i + 1 < offset; ++i) {
    column = text[i] == '\n' ? 1 : column + 1;
    line += text[i] == '\n';
  }
  return fmt::format("line {}, column {}", line, column);
}

/// "unexpected end of input" from the library's "[json.exception.parse_error.101] parse error at line 1, column 2:
/// syntax error while parsing value - unexpected end of input; last read: '{'".
std::string reason_of(const std::string& message) {
  if (message.find("ill-formed UTF-8") != std::string::npos) return "a byte that is not UTF-8";
  if (message.find("number overflow") != std::string::npos)
    return "a number that is too large for 64-bit floating point";
  const std::string_view before = " - ", after = "; last read: ";
  const size_t begin = message.find(before), end = message.find(after);
  if (begin != std::string::npos && begin < end)
    return message.substr(begin + before.size(), end == std::string::npos ? end : end - begin - before.size());
  const size_t colon = message.rfind(": ");
  return colon == std::string::npos ? message : message.substr(colon + 2);
}

/// Builds the document from the parser's events. The library's own builder compares every key with those before it,
/// which takes minutes for an object of 100,000.
class Builder final : public nlohmann::json_sax<Json> {
 public:
  Builder(std::string_view text, std::string_view where) : text_(text), where_(where) {}

  Json take() { return std::move(root_); }

  bool null() override { return add(nullptr); }
  bool boolean(bool value) override { return add(value); }
  bool number_integer(number_integer_t value) override { return add(value); }
  bool number_unsigned(number_unsigned_t value) override { return add(value); }
  bool number_float(number_float_t value, const string_t&) override { return add(value); }
  bool string(string_t& value) override { return add(std::move(value)); }
  bool binary(binary_t&) override { return false; }  // JSON has none
  bool start_object(size_t) override { return open(Json::object()); }
  bool start_array(size_t) override { return open(Json::array()); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }
  bool key(string_t& name) override {
    count();
    if (!levels_.back().keys.insert(name).second)
      fail(ErrorKind::data, "{}: key \"{}\" appears twice in one object", where_, name);
    key_ = std::move(name);
    return true;
  }
  bool parse_error(size_t position, const std::string&, const nlohmann::detail::exception& e) override {
    fail(ErrorKind::data, "{}: not valid JSON at {}: {}", where_, place(text_, position), reason_of(e.what()));
  }

 private:
  struct Level {
    Json* value;
    std::unordered_set<std::string> keys;
  };

  void count() {
    if (++values_ > kMostJsonValues)
      fail(ErrorKind::data, "{}: more than {} keys and values, the supported maximum", where_, kMostJsonValues);
  }

  /// Adds the value to the open container; values inside a growing container do not move until it is closed.
  Json& put(Json value) {
    count();
    if (levels_.empty()) return root_ = std::move(value);
    Json& parent = *levels_.back().value;
    if (parent.is_array()) return parent.get_ref<Json::array_t&>().emplace_back(std::move(value));
    return parent.get_ref<Json::object_t&>().emplace_back(std::move(key_), std::move(value)).second;
  }
  bool add(Json value) {
    put(std::move(value));
    return true;
  }
  bool open(Json container) {
    if (levels_.size() == kMaxDepth) fail(ErrorKind::data, "{}: JSON nests deeper than {} levels", where_, kMaxDepth);
    levels_.push_back({&put(std::move(container)), {}});
    return true;
  }
  bool close() {
    levels_.pop_back();
    return true;
  }

  std::string_view text_, where_;
  Json root_;
  std::vector<Level> levels_;
  std::string key_;
  size_t values_ = 0;
};

}  // namespace

Json parse_json(std::string_view text, std::string_view where) {
  Builder builder(text, where);
  try {
    Json::sax_parse(text.begin(), text.end(), &builder);
  } catch (const Json::exception& e) {
    fail(ErrorKind::data, "{}: not valid JSON: {}", where, e.what());
  }
  return builder.take();
}

Json read_json(const std::string& path, size_t max_bytes) { return parse_json(read_text(path, max_bytes), path); }

std::string dump_json(const Json& json, int indent) {
  return json.dump(indent, ' ', false, Json::error_handler_t::replace);
}

std::string dump_valid_json(const Json& json, int indent) { return json.dump(indent); }

}  // namespace trireme
