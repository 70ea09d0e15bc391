#include "config/dialect.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cassert>
#include <cmath>
#include <filesystem>
#include <map>
#include <set>

#include "base/error.h"

namespace trireme {
namespace {

const char* type_name(const Value& value) {
  if (std::holds_alternative<bool>(value)) return "True or False";
  if (std::holds_alternative<int64_t>(value)) return "a whole number";
  if (std::holds_alternative<double>(value)) return "a number";
  return std::holds_alternative<std::monostate>(value) ? "a list" : "text";
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

/// null, or Python's None.
bool is_none(const Setting& setting) {
  return setting.problem == "nothing" || setting.text == "None" || setting.text == "null";
}

/// Of keys inside of a group the group: that is what two files may not share.
std::string outermost(const std::string& key) { return canonical(key.substr(0, key.find('.'))); }

/// "a.yml:3: ..." for each group of keys that stands in two files.
std::vector<std::string> shared_keys(const std::vector<Setting>& settings) {
  std::map<std::string, const Setting*> first;
  std::set<std::pair<std::string, std::string>> told;
  std::vector<std::string> out;
  for (const Setting& setting : settings) {
    if (setting.origin.layer >= kFlagLayer) continue;
    const std::string key = outermost(setting.key);
    const Setting& before = *first.emplace(key, &setting).first->second;
    if (before.origin.layer == setting.origin.layer || !told.emplace(key, setting.origin.source).second) continue;
    out.push_back(fmt::format("{}: \"{}\" stands in {} too, and files may share no key; remove one of them",
                              setting.origin.text(), setting.key.substr(0, setting.key.find('.')),
                              before.origin.text()));
  }
  return out;
}

/// What keys without effect there are, as one line; why, as details.
void note_no_effect(const std::vector<const Setting*>& settings, const Dialect& dialect, Translation& out) {
  std::vector<std::string> names;
  for (const Setting* setting : settings) {
    names.push_back(setting->key);
    out.details.push_back(
        fmt::format("{} has no effect here: {}", place(*setting), dialect.find(setting->key)->meaning));
  }
  if (!names.empty())
    out.notes.push_back(fmt::format("{} keys of {} have no effect here (--verbose says why): {}", names.size(),
                                    dialect.name, fmt::join(names, ", ")));
}

}  // namespace

const DialectKey* Dialect::find(std::string_view key) const {
  const std::string wanted = canonical(key);
  for (const DialectKey& candidate : keys) {
    const std::string known = canonical(candidate.name);
    // "aio.*": whatever stands in that group
    if (known == wanted || (known.ends_with(".*") && wanted.starts_with(known.substr(0, known.size() - 1))))
      return &candidate;
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
  if (!dialect.merges_apart) {
    for (const Setting& given : settings) take(dialect, given);
    return;
  }
  objections_ = shared_keys(settings);
  for (const Setting& given : settings) {
    if (is_none(given)) continue;
    try {
      take(dialect, given);
    } catch (const Error& e) {
      objections_.emplace_back(e.what());
    }
  }
}

void DialectView::take(const Dialect& dialect, const Setting& given) {
  const DialectKey* key = dialect.find(given.key);
  if (!key) fail_unknown(dialect, given);
  if (key->role == KeyRole::refused) {
    fail(ErrorKind::config, "{} cannot be used here: {}", place(given), key->meaning);
  }
  Setting& effective = settings_[static_cast<size_t>(key - dialect.keys.data())];
  if (given.origin.layer < effective.origin.layer) return;
  Setting taken = given;
  taken.key = key->name;
  if (key->role == KeyRole::mapped) taken.value = as_type_of(*key, given);
  effective = std::move(taken);
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

void DialectView::object(std::string_view key, const std::string& reason) const {
  object(fmt::format("{} is {}: {}", place(setting(key)), describe(setting(key)), reason));
}

void DialectView::at_least(std::string_view key, int64_t minimum) const {
  if (integer(key) < minimum) refuse(key, fmt::format("the smallest possible value is {}", minimum));
}

void Translation::set(std::string option, Value value, Origin origin) {
  std::string text = to_text(value);
  settings.push_back({std::move(option), std::move(value), std::move(text), std::move(origin), ""});
}

std::span<const Dialect* const> dialects() {
  static constexpr const Dialect* all[] = {&kAccelerate, &kIntelNanogpt, &kNanogpt, &kGptNeox};
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
  std::vector<const Setting*> without_effect;
  for (const DialectKey& key : dialect.keys) {
    const Setting& setting = view.setting(key.name);
    const bool given = view.given(key.name);
    if (key.role == KeyRole::no_effect && given) without_effect.push_back(&setting);
    if (*key.option && (given || !dialect.merges_apart)) translation.set(key.option, setting.value, setting.origin);
  }
  if (dialect.merges_apart) {
    note_no_effect(without_effect, dialect, translation);
  } else {
    for (const Setting* setting : without_effect)
      translation.notes.push_back(
          fmt::format("{} has no effect here: {}", place(*setting), dialect.find(setting->key)->meaning));
  }
  dialect.translate(view, translation);
  const std::vector<std::string>& objections = view.objections();
  if (objections.size() == 1) fail(ErrorKind::config, "{}", objections[0]);
  if (!objections.empty())
    fail(ErrorKind::config, "{} settings cannot be used here:\n  {}", objections.size(), fmt::join(objections, "\n  "));
  return translation;
}

}  // namespace trireme
