#pragma once
// A dialect: another program's configuration files and flags, translated into the native options. Each has one table of
// its keys and one function for what the table cannot say. A key is exactly one of: mapped; no effect (changes neither
// numbers nor outputs, one note says so); refused (an error with the fix).

#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/names.h"
#include "config/setting.h"

namespace trireme {

enum class KeyRole { mapped, no_effect, refused };

struct DialectKey {
  const char* name;     ///< nesting joined by '.'; GROUP.*: every key in that group
  Value default_value;  ///< its type is the key's type; nothing: a list
  KeyRole role;
  const char* option;   ///< native option that takes the value as it is; "": translate() deals with the key
  const char* meaning;  ///< what becomes of the key: for docs/options.md, notes and errors
  /// refused: as a flag only; a file of Dialect::files_are_programs may assign it for a program of another kind.
  bool idle_in_files = false;
};

/// The dialect's settings laid over its defaults, and the native ones beside them.
class DialectView {
 public:
  /// settings: of all files and flags, those of files that may share no key merged by merge_apart(). Throws
  /// Error::config for unknown keys, wrong types, refused keys; or object()s, as the dialect wants it.
  DialectView(const struct Dialect& dialect, const std::vector<Setting>& settings, const std::vector<Setting>& native);

  bool given(std::string_view key) const { return setting(key).origin.layer != kDefaultLayer; }
  const Value& value(std::string_view key) const { return setting(key).value; }
  bool flag(std::string_view key) const { return std::get<bool>(value(key)); }
  int64_t integer(std::string_view key) const { return std::get<int64_t>(value(key)); }
  double number(std::string_view key) const { return std::get<double>(value(key)); }
  const std::string& text(std::string_view key) const { return std::get<std::string>(value(key)); }
  const Origin& origin(std::string_view key) const { return setting(key).origin; }
  /// Of the key that stands in the highest layer.
  const Origin& latest(std::initializer_list<std::string_view> keys) const;
  /// What the native files and flags say about an option, if anything.
  const Setting* native(std::string_view option) const;
  const Setting& setting(std::string_view key) const;

  /// Throws Error::config: "FILE:LINE: KEY is VALUE: REASON", or "--KEY is ...".
  [[noreturn]] void refuse(std::string_view key, const std::string& reason) const;
  /// refuse() unless value(key) >= minimum.
  void at_least(std::string_view key, int64_t minimum) const;

  /// What refuse() says, told together with all other objections when everything was looked at.
  void object(std::string_view key, const std::string& reason) const;
  void object(const std::string& message) const { objections_.push_back(message); }
  const std::vector<std::string>& objections() const { return objections_; }
  /// What files assign without effect.
  const std::vector<std::string>& notes() const { return notes_; }

 private:
  void take(const struct Dialect& dialect, const Setting& given);
  bool is_idle(const struct Dialect& dialect, const DialectKey* key, const Setting& given);

  std::vector<Setting> settings_;  // one per key of the dialect
  const std::vector<Setting>& native_;
  mutable std::vector<std::string> objections_;
  std::vector<std::string> notes_;
};

/// What a dialect makes of its keys.
struct Translation {
  std::vector<Setting> settings;  ///< native keys
  std::vector<std::string> notes;
  std::vector<std::string> details;  ///< notes that only `--verbose` shows

  void set(std::string option, Value value, Origin origin);
  template <HasNames E>
  void set(std::string option, E value, Origin origin) {
    set(std::move(option), std::string(name_of(value)), std::move(origin));
  }
};

struct Dialect {
  const char* name;
  const char* help;
  std::span<const DialectKey> keys;
  bool bare_overrides;  ///< flags may be written key=value, without dashes
  /// Whether a file is in this dialect.
  bool (*claims)(const std::string& path, const std::vector<Setting>& settings);
  /// Sets what the table's `option` column did not.
  void (*translate)(const DialectView& view, Translation& translation);
  /// Files may share no key; all objections are told at once; keys without effect in one line; null stands for "not
  /// given"; a key that is not given sets no option by itself; numbers are PyYAML's.
  bool merges_apart = false;
  /// What other programs call its keys, for hints.
  std::span<const Synonym> synonyms = {};
  /// Rewrites the settings before they are looked up.
  void (*prepare)(std::vector<Setting>& settings) = nullptr;
  /// Files are programs in which any name may be assigned: what is not a key, or is one of another program of theirs,
  /// has no effect there either; a note says so. Slips of the pen are errors all the same.
  bool files_are_programs = false;

  const DialectKey* find(std::string_view key) const;
};

std::span<const Dialect* const> dialects();
/// Throws Error::usage listing the names.
const Dialect& find_dialect(std::string_view name);

/// What several files say. A key, or group of keys, in two of them is an objection, but where the later one writes it
/// with '-': NeoX compares the words as they are written with those that it has, which have '_', and overlooks that
/// one, so that it replaces the earlier.
std::vector<Setting> merge_apart(const std::vector<Setting>& settings, std::vector<std::string>& objections,
                                 std::vector<std::string>& notes);

/// Native settings and notes from a dialect's settings. Throws Error::config.
Translation translate(const Dialect& dialect, const std::vector<Setting>& settings, const std::vector<Setting>& native);

extern const Dialect kAccelerate;
extern const Dialect kGptNeox;
extern const Dialect kIntelNanogpt;
extern const Dialect kNanogpt;

/// Ids of a folder of GPT-2 tokens that says nothing about itself (no sidecar): 50257. Nothing where there is a sidecar
/// or no token file at all.
std::optional<int64_t> bare_gpt2_vocabulary(const std::string& data_dir);

}  // namespace trireme
