#include "config/dialect.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cassert>
#include <cmath>
#include <filesystem>
#include <map>
#include <utility>

#include "base/count.h"
#include "base/error.h"
#include "config/choices.h"
#include "config/flag_word.h"
#include "config/setting.h"
#include "config/trl.h"

namespace trireme {
namespace {

const char* type_name(const Value& value) {
  if (std::holds_alternative<bool>(value)) return "True or False";
  if (std::holds_alternative<int64_t>(value)) return "a whole number";
  if (std::holds_alternative<double>(value)) return "a number";
  return std::holds_alternative<std::monostate>(value) ? "a list" : "text";
}

/// As PyYAML reads it, if the key expects such a value: 1_000, yes, 017.
Value as_pyyaml(const DialectKey& key, const Setting& setting) {
  const bool text = std::holds_alternative<std::string>(setting.value);
  const bool octal = std::holds_alternative<int64_t>(setting.value) && setting.origin.line > 0;
  const bool wants_text = std::holds_alternative<std::string>(key.default_value);
  if (wants_text || (!text && !octal)) return setting.value;
  return resolve_pyyaml(setting.text).value_or(setting.value);
}

/// The value in the type of the key. Whole numbers become numbers; in YAML, words are read as PyYAML reads them, and
/// 1e3 is a whole number. Nothing else is converted.
Value as_type_of(const DialectKey& key, const Setting& setting, bool yaml) {
  const Value value = yaml ? as_pyyaml(key, setting) : setting.value;
  if (const auto* whole = std::get_if<int64_t>(&value)) {
    if (std::holds_alternative<double>(key.default_value)) return static_cast<double>(*whole);
  }
  if (const auto* real = std::get_if<double>(&value)) {
    require(std::isfinite(*real), ErrorKind::config, "{}: {} is {}, which is not a finite number",
            setting.origin.text(), key.name, setting.text);
    constexpr double kMost = 9e15;  // all whole numbers up to here are exact
    const bool whole = yaml && std::abs(*real) < kMost && *real == std::floor(*real);
    if (whole && std::holds_alternative<int64_t>(key.default_value)) return static_cast<int64_t>(*real);
  }
  require(value.index() == key.default_value.index(), ErrorKind::config, "{} is {}, expected {}", place(setting),
          describe(setting), type_name(key.default_value));
  return value;
}

[[noreturn]] void fail_unknown(const Dialect& dialect, const Setting& setting) {
  std::vector<std::string> names;
  for (const DialectKey& key : dialect.keys) names.emplace_back(key.name);
  const std::string near = nearest_name(setting.key, names, dialect.synonyms);
  fail(ErrorKind::config, "{}: dialect {} has no key \"{}\"{}", setting.origin.text(), dialect.name, setting.key,
       near.empty() ? std::string("; docs/options.md lists its keys") : fmt::format("; did you mean \"{}\"?", near));
}

/// null, or Python's None.
bool is_none(const Setting& setting) {
  return setting.problem == "nothing" || setting.text == "None" || setting.text == "null";
}

/// The group of a key inside a group: two files must not share it.
std::string outermost(const std::string& key) { return canonical(key.substr(0, key.find('.'))); }

/// Whether the dialect has the key or a group of this name.
bool knows(const Dialect& dialect, const std::string& key) {
  const std::string group = canonical(key) + ".";
  return dialect.find(key) || std::ranges::any_of(dialect.keys, [&](const DialectKey& known) {
           return canonical(known.name).starts_with(group);
         });
}

/// Notes the keys without effect in one line; the reasons go to the details.
void note_no_effect(const std::vector<const Setting*>& settings, const Dialect& dialect, Translation& out) {
  std::vector<std::string> names;
  for (const Setting* setting : settings) {
    names.push_back(setting->key);
    out.details.push_back(
        fmt::format("{} has no effect here: {}", place(*setting), dialect.find(setting->key)->meaning));
  }
  if (!names.empty())
    out.notes.push_back(fmt::format("{} of {} {} no effect here (--verbose shows why): {}",
                                    count_text(names.size(), "key"), dialect.name, names.size() == 1 ? "has" : "have",
                                    fmt::join(names, ", ")));
}

}  // namespace

std::vector<Setting> merge_files(const std::vector<Setting>& settings, std::vector<std::string>& objections,
                                 std::vector<std::string>& notes) {
  struct Owner {
    Origin origin;
    std::string objected;  // the file for which there is already an objection
  };
  std::map<std::string, Owner> owners;
  std::vector<Setting> merged;
  for (const Setting& setting : settings) {
    const std::string key = outermost(setting.key), written = setting.key.substr(0, setting.key.find('.'));
    if (setting.origin.layer < kFlagLayer) {
      Owner& owner = owners.try_emplace(key, Owner{setting.origin, ""}).first->second;
      const bool other = owner.origin.layer != setting.origin.layer;
      if (other && written.find('-') != std::string::npos) {
        notes.push_back(fmt::format(
            "{}: \"{}\" replaces the value from {}: in NeoX, a later file overrides a key by writing it with '-'",
            setting.origin.text(), written, owner.origin.text()));
        std::erase_if(merged, [&](const Setting& before) { return outermost(before.key) == key; });
        owner = {setting.origin, ""};
      } else if (other && std::exchange(owner.objected, setting.origin.source) != setting.origin.source) {
        objections.push_back(
            fmt::format("{}: \"{}\" is also set in {}, but each key may be set in only one file; remove one of them",
                        setting.origin.text(), written, owner.origin.text()));
      }
    }
    merged.push_back(setting);
  }
  return merged;
}

std::vector<DialectKey> dialect_keys(std::span<const DialectRow> rows) {
  using enum DialectRow::Kind;
  std::vector<DialectKey> keys;
  for (const DialectRow& row : rows) {
    std::string_view rest = row.keys;
    while (!rest.empty()) {
      const std::string_view key = rest.substr(0, rest.find("; "));
      rest.remove_prefix(std::min(key.size() + 2, rest.size()));
      const size_t equals = key.find('=');
      const std::string_view written = key.substr(std::min(equals, key.size() - 1) + 1);
      const Value value = equals == std::string_view::npos ? Value() : resolve_plain(written);
      const std::string values = row.kind != only ? "" : row.values != nullptr ? row.values : to_text(value);
      std::string meaning = row.meaning != nullptr ? row.meaning : row.text;
      if (row.kind == only && row.meaning == nullptr)
        meaning = fmt::format("{}; {} refused", values,
                              values == "false"  ? "true is"
                              : values == "true" ? "false is"
                                                 : "others are");
      const KeyRole role = row.kind == no_effect                           ? KeyRole::no_effect
                           : row.kind == refused || row.kind == not_a_flag ? KeyRole::refused
                                                                           : KeyRole::mapped;
      keys.push_back({std::string(key.substr(0, equals)), value, role, row.kind == same ? row.text : "",
                      std::move(meaning), row.kind == not_a_flag, values, row.text});
    }
  }
  return keys;
}

const DialectKey* Dialect::find(std::string_view key) const {
  const std::string wanted = canonical(key);
  for (const DialectKey& candidate : keys) {
    const std::string known = canonical(candidate.name);
    // "aio.*": every key in that group
    if (known == wanted || (known.ends_with(".*") && wanted.starts_with(known.substr(0, known.size() - 1))))
      return &candidate;
  }
  return nullptr;
}

DialectView::DialectView(const Dialect& dialect, const std::vector<Setting>& settings,
                         const std::vector<Setting>& native)
    : native_(native) {
  const Origin not_given{fmt::format("default of {}", dialect.name), 0, kDefaultLayer};
  for (const DialectKey& key : dialect.keys)
    settings_.push_back({key.name, key.default_value, to_text(key.default_value), not_given, ""});
  for (const Setting& given : settings) {
    if (dialect.one_file_per_key && is_none(given) && knows(dialect, given.key)) continue;
    try {
      take(dialect, given);
    } catch (const Error& e) {
      objections_.emplace_back(e.what());
    }
  }
  for (size_t i = 0; i < dialect.keys.size(); ++i) {
    const DialectKey& key = dialect.keys[i];
    if (key.values.empty() || lists_word(key.values, to_text(settings_[i].value), '|')) continue;
    object(key.name, key.reason);
    settings_[i].value = key.default_value;
  }
}

/// Whether a file that is a program assigns a name that has no effect there either.
bool DialectView::is_idle(const Dialect& dialect, const DialectKey* key, const Setting& given) {
  if (!dialect.files_are_programs || given.origin.layer >= kFlagLayer) return false;
  if (key != nullptr && !key->idle_in_files) return false;
  if (key != nullptr) {
    notes_.push_back(fmt::format("{} has no effect here: {}", place(given), key->meaning));
    return true;
  }
  for (const DialectKey& known : dialect.keys) {
    if (known.role == KeyRole::mapped && is_misspelling_of(given.key, known.name)) return false;
  }
  notes_.push_back(fmt::format("{} is not a key of {}: it has no effect", place(given), dialect.name));
  return true;
}

void DialectView::take(const Dialect& dialect, const Setting& given) {
  const DialectKey* key = dialect.find(given.key);
  if (is_idle(dialect, key, given)) return;
  if (!key) fail_unknown(dialect, given);
  if (key->role == KeyRole::refused) {
    fail(ErrorKind::config, "{} cannot be used here: {}", place(given), key->meaning);
  }
  Setting& effective = settings_[static_cast<size_t>(key - dialect.keys.data())];
  if (given.origin.layer < effective.origin.layer) return;
  Setting taken = given;
  taken.key = key->name;
  if (key->role == KeyRole::mapped) taken.value = as_type_of(*key, given, dialect.one_file_per_key);
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

void DialectView::object(const std::string& message) const {
  if (std::ranges::find(objections_, message) == objections_.end()) objections_.push_back(message);
}

void DialectView::object(std::string_view key, const std::string& reason) const {
  object(fmt::format("{} is {}: {}", place(setting(key)), describe(setting(key)), reason));
  objected_.push_back(origin(key).text());
}

bool DialectView::objected(const Origin& origin) const {
  return std::ranges::find(objected_, origin.text()) != objected_.end();
}

bool DialectView::within(std::string_view key, int64_t minimum, int64_t maximum) const {
  const int64_t found = integer(key);
  if (found < minimum) object(key, fmt::format("the smallest possible value is {}", minimum));
  if (found > maximum) object(key, fmt::format("the largest possible value is {}", maximum));
  return found >= minimum && found <= maximum;
}

DeviceChoice device_named(const DialectView& view, std::string_view key) {
  return view.text(key) == "cpu" ? DeviceChoice::cpu : DeviceChoice::cuda;
}

void set_f16_of_torch(Translation& out, const Origin& origin) {
  out.set("precision.dtype", DType::f16, origin);
  out.set("precision.loss-scale-window", int64_t{2000}, origin);
  out.set("precision.loss-scale-hysteresis", int64_t{1}, origin);
  out.set("precision.loss-scale-min", 0x1p-24, origin);  // GradScaler has none
}

void set_schedule_of_nanogpt(Translation& out, const DialectView& view, const std::string& group) {
  const Origin& decay = view.origin(group + "decay_lr");
  if (!view.flag(group + "decay_lr")) {
    out.set("optim.schedule", RateCourse::constant, decay);
    out.set("optim.warmup-steps", int64_t{0}, decay);
    return;
  }
  view.within(group + "lr_decay_iters", 1);
  out.set("optim.schedule", RateCourse::cosine, decay);
  for (const auto& [key, option] :
       {std::pair{"warmup_iters", "optim.warmup-steps"}, std::pair{"lr_decay_iters", "optim.decay-steps"},
        std::pair{"min_lr", "optim.min-learning-rate"}})
    out.set(option, view.value(group + key), view.origin(group + key));
}

void Translation::set(std::string option, Value value, Origin origin) {
  std::string text = to_text(value);
  settings.push_back({std::move(option), std::move(value), std::move(text), std::move(origin), ""});
}

std::span<const Dialect* const> dialects() {
  static constexpr const Dialect* all[] = {&kAccelerate, &kIntelNanogpt, &kNanogpt,      &kGptNeox,
                                           &kTrlSft,     &kTrlDpo,       &kLlamaFactory, &kAxolotl};
  return all;
}

const Dialect& find_dialect(std::string_view name) {
  std::vector<std::string> names{"native"};
  for (const Dialect* dialect : dialects()) {
    if (canonical(name) == dialect->name) return *dialect;
    names.emplace_back(dialect->name);
  }
  fail(ErrorKind::usage, "unknown dialect \"{}\"; known: {}", name, fmt::join(names, ", "));
}

std::optional<int64_t> bare_gpt2_vocabulary(const std::string& data_dir) {
  const std::filesystem::path tokens = std::filesystem::path(data_dir) / "train.bin";
  std::error_code unreadable;  // if unreadable, opening the dataset gives the error
  if (!std::filesystem::exists(tokens, unreadable)) return std::nullopt;
  if (std::filesystem::exists(tokens.string() + ".json", unreadable)) return std::nullopt;
  constexpr int64_t kGpt2Ids = 50257;
  return kGpt2Ids;
}

Translation translate(const Dialect& dialect, const std::vector<Setting>& settings, const std::vector<Setting>& native,
                      std::vector<std::string>* problems) {
  Translation translation;
  std::vector<std::string> shared;
  std::vector<Setting> own = dialect.one_file_per_key ? merge_files(settings, shared, translation.notes) : settings;
  if (dialect.prepare) dialect.prepare(own, shared);
  const DialectView view(dialect, own, native);
  for (const std::string& objection : shared) view.object(objection);
  translation.notes.insert(translation.notes.end(), view.notes().begin(), view.notes().end());
  std::vector<const Setting*> without_effect;
  for (const DialectKey& key : dialect.keys) {
    const Setting& setting = view.setting(key.name);
    const bool given = view.given(key.name);
    if (key.role == KeyRole::no_effect && given) without_effect.push_back(&setting);
    if (!key.option.empty() && (given || !dialect.one_file_per_key))
      translation.set(key.option, setting.value, setting.origin);
  }
  if (dialect.one_file_per_key) {
    note_no_effect(without_effect, dialect, translation);
  } else {
    for (const Setting* setting : without_effect)
      translation.notes.push_back(
          fmt::format("{} has no effect here: {}", place(*setting), dialect.find(setting->key)->meaning));
  }
  dialect.translate(view, translation);
  if (problems == nullptr) require_none(view.objections());
  if (problems != nullptr) problems->insert(problems->end(), view.objections().begin(), view.objections().end());
  std::erase_if(translation.settings, [&](const Setting& setting) { return view.objected(setting.origin); });
  return translation;
}

}  // namespace trireme
