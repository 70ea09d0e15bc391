#include "config/dialect.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cassert>
#include <cmath>
#include <filesystem>

#include "base/error.h"

namespace trireme {
namespace {

const char* type_name(const Value& value) {
  if (std::holds_alternative<bool>(value)) return "True or False";
  if (std::holds_alternative<int64_t>(value)) return "a whole number";
  if (std::holds_alternative<double>(value)) return "a number";
  return "text";
}

/// The value in the type of the key: whole numbers widen to numbers, nothing else changes.
Value as_type_of(const DialectKey& key, const Setting& setting) {
  if (const auto* whole = std::get_if<int64_t>(&setting.value)) {
    if (std::holds_alternative<double>(key.default_value)) return static_cast<double>(*whole);
  }
  if (const auto* real = std::get_if<double>(&setting.value)) {
    require(std::isfinite(*real), ErrorKind::config, "{}: {} is {}, which is not a finite number",
            setting.origin.text(), key.name, setting.text);
  }
  require(setting.value.index() == key.default_value.index(), ErrorKind::config, "{} is {}, expected {}",
          place(setting), describe(setting), type_name(key.default_value));
  return setting.value;
}

[[noreturn]] void fail_unknown(const Dialect& dialect, const Setting& setting) {
  std::vector<std::string> names;
  for (const DialectKey& key : dialect.keys) names.emplace_back(key.name);
  const std::string near = nearest_name(setting.key, names);
  fail(ErrorKind::config, "{}: dialect {} has no key \"{}\"{}", setting.origin.text(), dialect.name, setting.key,
       near.empty() ? std::string("; docs/options.md lists its keys") : fmt::format("; did you mean \"{}\"?", near));
}

}  // namespace

const DialectKey* Dialect::find(std::string_view key) const {
  const std::string wanted = canonical(key);
  for (const DialectKey& candidate : keys) {
    if (canonical(candidate.name) == wanted) return &candidate;
  }
  return nullptr;
}

DialectView::DialectView(const Dialect& dialect, const std::vector<Setting>& settings,
                         const std::vector<Setting>& native)
    : native_(native) {
  for (const DialectKey& key : dialect.keys) {
    settings_.push_back({key.name,
                         key.default_value,
                         to_text(key.default_value),
                         {fmt::format("default of {}", dialect.name), 0, kDefaultLayer},
                         ""});
  }
  for (const Setting& given : settings) {
    const DialectKey* key = dialect.find(given.key);
    if (!key) fail_unknown(dialect, given);
    if (key->role == KeyRole::refused) {
      fail(ErrorKind::config, "{} cannot be used here: {}", place(given), key->meaning);
    }
    Setting& effective = settings_[static_cast<size_t>(key - dialect.keys.data())];
    if (given.origin.layer < effective.origin.layer) continue;
    effective = given;
    effective.key = key->name;
    if (key->role == KeyRole::mapped) effective.value = as_type_of(*key, given);
  }
}

const Setting& DialectView::setting(std::string_view key) const {
  for (const Setting& setting : settings_) {
    if (setting.key == key) return setting;
  }
  assert(false && "a translator asks for a key that its table does not have");
  return settings_.front();
}

const Origin& DialectView::latest(std::initializer_list<std::string_view> keys) const {
  const Origin* latest = &origin(*keys.begin());
  for (const std::string_view key : keys) {
    if (origin(key).layer > latest->layer) latest = &origin(key);
  }
  return *latest;
}

const Setting* DialectView::native(std::string_view option) const {
  const Setting* last = nullptr;
  for (const Setting& setting : native_) {
    if (canonical(setting.key) == option && (!last || setting.origin.layer >= last->origin.layer)) last = &setting;
  }
  return last;
}

void DialectView::refuse(std::string_view key, const std::string& reason) const {
  fail(ErrorKind::config, "{} is {}: {}", place(setting(key)), describe(setting(key)), reason);
}

void DialectView::at_least(std::string_view key, int64_t minimum) const {
  if (integer(key) < minimum) refuse(key, fmt::format("the smallest possible value is {}", minimum));
}

void Translation::set(std::string option, Value value, Origin origin) {
  std::string text = to_text(value);
  settings.push_back({std::move(option), std::move(value), std::move(text), std::move(origin), ""});
}

std::span<const Dialect* const> dialects() {
  static constexpr const Dialect* all[] = {&kAccelerate, &kIntelNanogpt, &kNanogpt};
  return all;
}

const Dialect& find_dialect(std::string_view name) {
  std::vector<std::string> names{"native"};
  for (const Dialect* dialect : dialects()) {
    if (canonical(name) == dialect->name) return *dialect;
    names.emplace_back(dialect->name);
  }
  fail(ErrorKind::usage, "no dialect \"{}\"; there are {}", name, fmt::join(names, ", "));
}

std::optional<int64_t> bare_gpt2_vocabulary(const std::string& data_dir) {
  const std::filesystem::path tokens = std::filesystem::path(data_dir) / "train.bin";
  std::error_code unreadable;  // then the data set's own error says so
  if (!std::filesystem::exists(tokens, unreadable)) return std::nullopt;
  if (std::filesystem::exists(tokens.string() + ".json", unreadable)) return std::nullopt;
  constexpr int64_t kGpt2Ids = 50257;
  return kGpt2Ids;
}

Translation translate(const Dialect& dialect, const std::vector<Setting>& settings,
                      const std::vector<Setting>& native) {
  const DialectView view(dialect, settings, native);
  Translation translation;
  for (const DialectKey& key : dialect.keys) {
    const Setting& setting = view.setting(key.name);
    if (key.role == KeyRole::no_effect && view.given(key.name)) {
      translation.notes.push_back(fmt::format("{} has no effect here: {}", place(setting), key.meaning));
    }
    if (*key.option) translation.set(key.option, setting.value, setting.origin);
  }
  dialect.translate(view, translation);
  return translation;
}

}  // namespace trireme
