#include "checkpoint/snapshot/spec_json.h"

#include <fmt/ranges.h>

#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "checkpoint/snapshot/stored_fields.h"

namespace trireme {
namespace {

// Fields from this one on came with this format version of checkpoints.
constexpr std::string_view kFirstNewField = "key_heads";
constexpr int64_t kNewFieldsSince = 4;
// Fields from these on are absent for a model that has none of what they describe: gated attention and layers with a
// state, adapters.
constexpr std::string_view kFirstOfStates = "attention_gate", kFirstOfAdapters = "adapters";

/// Which of them a field belongs to.
class Section {
 public:
  void reach(std::string_view field) {
    of_states_ = (of_states_ || field == kFirstOfStates) && field != kFirstOfAdapters && !of_adapters_;
    of_adapters_ = of_adapters_ || field == kFirstOfAdapters;
  }
  bool optional() const { return of_states_ || of_adapters_; }
  /// Whether a model lacks what the field describes.
  bool absent(const Spec& spec) const {
    if (of_states_) return !spec.has_states() && !spec.attention_gate;
    return of_adapters_ && spec.adapters.empty();
  }

 private:
  bool of_states_ = false, of_adapters_ = false;
};

template <class E>
E value_of_name(const std::string& wanted, const char* field, std::string_view where) {
  const std::optional<E> value = value_named<E>(wanted);
  require(value.has_value(), ErrorKind::data, "{}: unknown {} \"{}\"", where, field, wanted);
  return *value;
}

}  // namespace

Json spec_to_json(const Spec& spec) {
  Json json;
  Section section;
  spec.visit([&](const char* name, const auto& field) {
    section.reach(name);
    if (section.absent(spec)) return;
    using T = std::decay_t<decltype(field)>;
    if constexpr (std::is_same_v<T, std::vector<float>>) {
      json[name] = Json::array();
      for (const float value : field) json[name].push_back(shortest_double(value));
    } else if constexpr (std::is_same_v<T, float>) {
      json[name] = shortest_double(field);
    } else if constexpr (std::is_enum_v<T>) {
      json[name] = name_of(field);
    } else {
      json[name] = field;
    }
  });
  return json;
}

std::vector<SpecDifference> spec_differences(const Spec& a, const Spec& b) {
  std::vector<std::pair<std::string, std::string>> all;
  const auto add = [&](const char* name, const auto& field) {
    using T = std::decay_t<decltype(field)>;
    if constexpr (std::is_enum_v<T>) {
      all.emplace_back(name, name_of(field));
    } else if constexpr (std::is_same_v<T, std::vector<float>>) {
      all.emplace_back(name, fmt::format("[{}]", fmt::join(field, ", ")));
    } else {
      all.emplace_back(name, fmt::format("{}", field));
    }
  };
  a.visit(add);
  const size_t count = all.size();
  b.visit(add);
  std::vector<SpecDifference> differences;
  for (size_t i = 0; i < count; ++i) {
    if (all[i] != all[count + i]) differences.push_back({all[i].first, all[i].second, all[count + i].second});
  }
  return differences;
}

std::string describe_differences(const Spec& found, const Spec& asked) {
  std::string text;
  for (const auto& [field, a, b] : spec_differences(found, asked))
    text += fmt::format("{}{} is {}, not {}", text.empty() ? "" : "; ", field, a, b);
  return text;
}

Spec spec_from_json(const Json& json, std::string_view where, int64_t version) {
  Spec spec;
  StoredFields fields(json, "the model", where, version);
  bool newer = false;
  Section section;
  spec.visit([&](const char* name, auto& field) {
    using T = std::decay_t<decltype(field)>;
    newer = newer || std::string_view(name) == kFirstNewField;
    section.reach(name);
    if (section.optional() && !json.contains(name)) return;
    if (newer && !fields.newer(name, kNewFieldsSince)) return;
    if constexpr (std::is_same_v<T, std::vector<float>>) {
      for (const Json& value : fields.array(name)) {
        require(value.is_number(), ErrorKind::data, "{}: \"{}\" has {}, expected numbers", where, name,
                value.type_name());
        field.push_back(static_cast<float>(value.get<double>()));
      }
    } else if constexpr (std::is_same_v<T, float>) {
      field = static_cast<float>(fields.get<double>(name));
    } else if constexpr (std::is_enum_v<T>) {
      field = value_of_name<T>(fields.get<std::string>(name), name, where);
    } else {
      field = fields.get<T>(name);
    }
  });
  fields.end();
  return spec;
}

}  // namespace trireme
