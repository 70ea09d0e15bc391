#include "config/yaml_reader.h"

#include <yaml-cpp/depthguard.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/json_text.h"
#include "base/utf8.h"

namespace trireme {
namespace {

/// Turns parser events into settings without building a document.
class SettingCollector final : public YAML::EventHandler {
 public:
  SettingCollector(std::string path, int layer) : path_(std::move(path)), layer_(layer) {}

  std::vector<Setting> take() { return std::move(settings_); }

  void OnDocumentStart(const YAML::Mark&) override {}
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t) override {
    if (!lists_.empty()) return add_item("null");
    if (maps_.empty()) return;  // an empty file
    require(has_key_, ErrorKind::config, "{}:{}: missing key before ':'", path_, mark.line + 1);
    add(key_line_, std::monostate{}, "", "nothing");
  }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override {
    fail(ErrorKind::config, "{}:{}: aliases (*name) are not supported; write the value itself", path_, mark.line + 1);
  }
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t, const std::string& text) override {
    refuse_tag(mark, tag);
    if (!lists_.empty()) return add_item(item_text(tag, text));
    require(!maps_.empty(), ErrorKind::config, "{}:{}: expected `key: value` lines, found \"{}\"", path_, mark.line + 1,
            text.substr(0, 80));
    if (!has_key_) return take_key(mark, text);
    const bool plain = tag == "?";
    add(mark.line + 1, plain ? resolve_plain(text) : Value(text), text, "");
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t,
                       YAML::EmitterStyle::value) override {
    refuse_tag(mark, tag);
    require(!maps_.empty(), ErrorKind::config, "{}:{}: expected `key: value` lines, found a list", path_,
            mark.line + 1);
    require(has_key_ || !lists_.empty(), ErrorKind::config, "{}:{}: a list cannot be a key", path_, mark.line + 1);
    if (lists_.empty()) add(key_line_, std::monostate{}, "", "a list");
    open(false);
  }
  void OnSequenceEnd() override { close(); }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t, YAML::EmitterStyle::value) override {
    refuse_tag(mark, tag);
    if (!lists_.empty()) return open(true);
    require(maps_.empty() || has_key_, ErrorKind::config, "{}:{}: a map cannot be a key", path_, mark.line + 1);
    maps_.push_back({maps_.empty() ? "" : path_of_key() + "."});
    has_key_ = false;
  }
  void OnMapEnd() override {
    if (!lists_.empty()) return close();
    maps_.pop_back();
    has_key_ = false;
  }

 private:
  struct Map {
    std::string prefix;
  };
  /// A list that is open, or a map inside one.
  struct List {
    bool is_map = false;
    size_t items = 0;
  };

  // Lists are kept as JSON in the setting's text, for the keys that accept one.
  std::string item_text(const std::string& tag, const std::string& text) const {
    const bool is_name = lists_.back().is_map && lists_.back().items % 2 == 0;
    const Value value = tag == "?" && !is_name ? resolve_plain(text) : Value(text);
    return std::holds_alternative<std::string>(value) ? dump_json(Json(text)) : to_text(value);
  }
  void add_item(const std::string& item) {
    if (!lists_.empty()) {
      List& list = lists_.back();
      if (list.items > 0) settings_.back().text += list.is_map && list.items % 2 == 1 ? ':' : ',';
      ++list.items;
    }
    settings_.back().text += item;
  }
  void open(bool is_map) {
    add_item(is_map ? "{" : "[");
    lists_.push_back({is_map, 0});
  }
  void close() {
    settings_.back().text += lists_.back().is_map ? '}' : ']';
    lists_.pop_back();
  }

  std::string path_of_key() const { return maps_.back().prefix + key_; }

  void refuse_tag(const YAML::Mark& mark, const std::string& tag) const {
    if (tag.empty() || tag == "?" || tag == "!") return;
    fail(ErrorKind::config, "{}:{}: the tag {} is not supported; remove it", path_, mark.line + 1, tag);
  }
  void take_key(const YAML::Mark& mark, const std::string& text) {
    key_ = text;
    key_line_ = mark.line + 1;
    has_key_ = true;
    const auto [first, inserted] = lines_.emplace(canonical(path_of_key()), mark.line + 1);
    require(inserted, ErrorKind::config, "{}:{}: \"{}\" appears twice in this file, first in line {}; remove one",
            path_, mark.line + 1, path_of_key(), first->second);
  }
  void add(int line, Value value, const std::string& text, std::string problem) {
    settings_.push_back({path_of_key(), std::move(value), text, {path_, line, layer_}, std::move(problem)});
    has_key_ = false;
  }

  std::string path_;
  int layer_;
  std::vector<Setting> settings_;
  std::vector<Map> maps_;
  std::map<std::string, int> lines_;  // of every key, in canonical spelling
  std::string key_;
  int key_line_ = 0;  // for a missing value, or a list
  bool has_key_ = false;
  std::vector<List> lists_;
};

/// A file that contains only directives has no document: yaml-cpp treats it as empty.
void refuse_directives(const std::string& text, const std::string& path) {
  std::istringstream lines(text);
  int number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    require(!line.starts_with('%'), ErrorKind::config,
            "{}:{}: \"{}\" is a YAML directive, and no options follow it; is this a configuration file?", path, number,
            line.substr(0, 80));
  }
}

}  // namespace

std::string read_config_text(const std::string& path) {
  std::string text;
  try {
    text = read_text(path, kMaxConfigBytes);
  } catch (const Error& e) {
    fail(ErrorKind::config, "configuration file: {}", e.what());
  }
  if (const size_t bad = find_invalid_utf8(text); bad != std::string_view::npos) {
    fail(ErrorKind::config, "{}:{}: byte {:#04x} at offset {} is not UTF-8 text; is this a configuration file?", path,
         std::count(text.begin(), text.begin() + static_cast<ptrdiff_t>(bad), '\n') + 1,
         static_cast<unsigned char>(text[bad]), bad);
  }
  return text;
}

std::vector<Setting> parse_yaml(const std::string& text, const std::string& path, int layer) {
  SettingCollector collector(path, layer);
  try {
    std::istringstream stream(text);
    YAML::Parser parser(stream);
    parser.HandleNextDocument(collector);
    SettingCollector rest(path, layer);
    require(!parser.HandleNextDocument(rest), ErrorKind::config,
            "{}: contains several YAML documents (---); give them as separate files", path);
  } catch (const YAML::DeepRecursion& e) {
    fail(ErrorKind::config, "{}:{}: nested {} levels deep; options are in groups, two levels deep", path,
         e.mark.line + 1, e.depth());
  } catch (const YAML::Exception& e) {
    fail(ErrorKind::config, "{}:{}: not valid YAML: {}", path, e.mark.line + 1, e.msg);
  }
  std::vector<Setting> settings = collector.take();
  if (settings.empty()) refuse_directives(text, path);
  return settings;
}

std::vector<Setting> read_yaml(const std::string& path, int layer) {
  return parse_yaml(read_config_text(path), path, layer);
}

}  // namespace trireme
