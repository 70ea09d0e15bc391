#pragma once
// A dialect: another program's configuration files and flags, translated into the native options. Each has one table of
// its keys and one function for what the table cannot say. A key is exactly one of: mapped; no effect (changes neither
// numbers nor outputs; a note says so); refused (an error with the fix).

#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/names.h"
#include "config/setting.h"
#include "tensor/device.h"

namespace trireme {

enum class KeyRole { mapped, no_effect, refused };

struct DialectKey {
  std::string name;     ///< nesting joined by '.'; GROUP.*: every key in that group
  Value default_value;  ///< its type is the key's type; nothing: a list
  KeyRole role;
  std::string option;   ///< native option that takes the value unchanged; "": translate() handles the key
  std::string meaning;  ///< what Trireme does with the key: for docs/options.md, notes and errors
  /// refused as a flag only; a file of Dialect::files_are_programs may assign it for a program of another kind.
  bool idle_in_files = false;
  std::string values;       ///< mapped: the supported values with '|' between; "": all
  const char* reason = "";  ///< why other values are not supported, and what to do
};

/// Keys that stand together in a dialect's table and have the same answer.
struct DialectRow {
  enum class Kind {
    same,        ///< text: the native option that takes the value unchanged
    mapped,      ///< text: the meaning; translate() handles the key
    only,        ///< mapped for some values; text: why the others are not supported
    no_effect,   ///< text: why
    refused,     ///< text: what to do instead
    not_a_flag,  ///< refused, but idle in files
  };
  const char* keys;  ///< "NAME=DEFAULT; NAME=DEFAULT"; a list has no '='
  Kind kind;
  const char* text;
  const char* meaning = nullptr;  ///< same, only: if it is more than the option or the value
  const char* values = nullptr;   ///< only: the supported values with '|' between; nullptr: the default
};
std::vector<DialectKey> dialect_keys(std::span<const DialectRow> rows);

/// The dialect's settings on top of its defaults, and the native settings beside them.
class DialectView {
 public:
  /// settings: of all files and flags; merge_files() has merged those of files that must not share a key. Calls
  /// object() for unknown keys, wrong types, refused keys and values.
  DialectView(const struct Dialect& dialect, const std::vector<Setting>& settings, const std::vector<Setting>& native);

  bool given(std::string_view key) const { return setting(key).origin.layer != kDefaultLayer; }
  const Value& value(std::string_view key) const { return setting(key).value; }
  bool flag(std::string_view key) const { return std::get<bool>(value(key)); }
  int64_t integer(std::string_view key) const { return std::get<int64_t>(value(key)); }
  double number(std::string_view key) const { return std::get<double>(value(key)); }
  const std::string& text(std::string_view key) const { return std::get<std::string>(value(key)); }
  const Origin& origin(std::string_view key) const { return setting(key).origin; }
  /// The origin of the key with the highest layer.
  const Origin& latest(std::initializer_list<std::string_view> keys) const;
  /// The setting of an option in the native files and flags, if any.
  const Setting* native(std::string_view option) const;
  const Setting& setting(std::string_view key) const;

  /// "FILE:LINE: KEY is VALUE: REASON", or "--KEY is ...", is reported together with all other objections after all
  /// keys have been checked; settings that follow from the key are left out then.
  void object(std::string_view key, const std::string& reason) const;
  void object(const std::string& message) const;
  /// object() unless minimum <= value(key) <= maximum; whether it is.
  bool within(std::string_view key, int64_t minimum, int64_t maximum = INT64_MAX) const;
  const std::vector<std::string>& objections() const { return objections_; }
  /// Whether there is an objection to the key that stands there.
  bool objected(const Origin& origin) const;
  /// Assignments in files that have no effect.
  const std::vector<std::string>& notes() const { return notes_; }

 private:
  void take(const struct Dialect& dialect, const Setting& given);
  bool is_idle(const struct Dialect& dialect, const DialectKey* key, const Setting& given);

  std::vector<Setting> settings_;  // one per key of the dialect
  const std::vector<Setting>& native_;
  mutable std::vector<std::string> objections_;
  mutable std::vector<std::string> objected_;  // places
  std::vector<std::string> notes_;
};

/// The translation of a dialect's keys.
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

/// run.device of a key with torch's name of a device: cpu, cuda or cuda:0.
DeviceChoice device_named(const DialectView& view, std::string_view key);
/// Training in f16 with the loss scale of torch's GradScaler: 65536 at first, halved at each overflow, doubled after
/// 2000 steps without one.
void set_f16_of_torch(Translation& out, const Origin& origin);
/// The schedule of nanoGPT's keys decay_lr, warmup_iters, lr_decay_iters and min_lr in this group.
void set_schedule_of_nanogpt(Translation& out, const DialectView& view, const std::string& group = "");

struct Dialect {
  const char* name;
  const char* help;
  std::span<const DialectKey> keys;
  bool bare_overrides;  ///< flags may be written as key=value, without dashes
  /// Whether a file is in this dialect.
  bool (*claims)(const std::string& path, const std::vector<Setting>& settings);
  /// Sets what the table's `option` column did not.
  void (*translate)(const DialectView& view, Translation& translation);
  /// Files must not share a key; keys without effect are reported in one line; null means
  /// "not given"; a key that is not given sets no option; numbers are read as PyYAML reads them.
  bool one_file_per_key = false;
  /// Names of its keys in other programs, for hints.
  std::span<const Synonym> synonyms = {};
  /// Rewrites the settings before the lookup.
  void (*prepare)(std::vector<Setting>& settings, std::vector<std::string>& objections) = nullptr;
  /// Files are programs that may assign any name: a name that is not a key, or is a key of another of their programs,
  /// has no effect there either; a note says so. Misspelled keys are still errors.
  bool files_are_programs = false;

  const DialectKey* find(std::string_view key) const;
};

std::span<const Dialect* const> dialects();
/// Throws Error::usage listing the names.
const Dialect& find_dialect(std::string_view name);

/// Merges the settings of several files. A key, or group of keys, in two of them is an objection, unless the later one
/// writes it with '-': NeoX compares the words as written with its own, which have '_', and does not recognise that
/// one, so that it replaces the earlier.
std::vector<Setting> merge_files(const std::vector<Setting>& settings, std::vector<std::string>& objections,
                                 std::vector<std::string>& notes);

/// Native settings and notes from a dialect's settings. `problems` gets what it objects to; without it, throws
/// Error::config.
Translation translate(const Dialect& dialect, const std::vector<Setting>& settings, const std::vector<Setting>& native,
                      std::vector<std::string>* problems = nullptr);

extern const Dialect kAccelerate;
extern const Dialect kAxolotl;
extern const Dialect kGptNeox;
extern const Dialect kIntelNanogpt;
extern const Dialect kLlamaFactory;
extern const Dialect kNanogpt;

/// Number of ids of a folder of GPT-2 tokens without a sidecar: 50257. Nothing if there is a sidecar or no token file.
std::optional<int64_t> bare_gpt2_vocabulary(const std::string& data_dir);

}  // namespace trireme
