#include "checkpoint/spec_json.h"

#include <string>
#include <type_traits>
#include <utility>

#include "checkpoint/json_fields.h"

namespace trireme {
namespace {

template <class E>
struct Names;
template <>
struct Names<Activation> {
  static constexpr std::pair<Activation, const char*> kAll[] = {{Activation::gelu_tanh, "gelu-tanh"},
                                                                {Activation::gelu_erf, "gelu-erf"},
                                                                {Activation::relu, "relu"},
                                                                {Activation::tanh, "tanh"}};
};
template <>
struct Names<Mask> {
  static constexpr std::pair<Mask, const char*> kAll[] = {{Mask::causal, "causal"}, {Mask::full, "full"}};
};
template <>
struct Names<NormPlace> {
  static constexpr std::pair<NormPlace, const char*> kAll[] = {{NormPlace::pre, "pre"}, {NormPlace::post, "post"}};
};
template <>
struct Names<Residual> {
  static constexpr std::pair<Residual, const char*> kAll[] = {{Residual::sequential, "sequential"},
                                                              {Residual::parallel, "parallel"}};
};
template <>
struct Names<Position> {
  static constexpr std::pair<Position, const char*> kAll[] = {{Position::learned, "learned"},
                                                              {Position::rotary, "rotary"}};
};
template <>
struct Names<HeadKind> {
  static constexpr std::pair<HeadKind, const char*> kAll[] = {
      {HeadKind::language_model, "language-model"},
      {HeadKind::masked_language_model, "masked-language-model"},
      {HeadKind::classifier, "classifier"}};
};

/// Calls f(name, field) for every field: the one list for reading and writing.
template <class S, class F>
void for_each_field(S& spec, F f) {
  f("vocabulary", spec.vocabulary);
  f("vocabulary_rows", spec.vocabulary_rows);
  f("context", spec.context);
  f("layers", spec.layers);
  f("heads", spec.heads);
  f("width", spec.width);
  f("inner_width", spec.inner_width);
  f("activation", spec.activation);
  f("mask", spec.mask);
  f("norm_place", spec.norm_place);
  f("residual", spec.residual);
  f("final_norm", spec.final_norm);
  f("position", spec.position);
  f("position_offset", spec.position_offset);
  f("rotary_dims", spec.rotary_dims);
  f("rotary_base", spec.rotary_base);
  f("embedding_width", spec.embedding_width);
  f("token_types", spec.token_types);
  f("embedding_norm", spec.embedding_norm);
  f("head", spec.head);
  f("tied_head", spec.tied_head);
  f("classes", spec.classes);
  f("head_activation", spec.head_activation);
  f("qkv_bias", spec.biases.qkv);
  f("attention_out_bias", spec.biases.attention_out);
  f("mlp_in_bias", spec.biases.mlp_in);
  f("mlp_out_bias", spec.biases.mlp_out);
  f("norm_bias", spec.biases.norm);
  f("norm_epsilon", spec.norm_epsilon);
  f("embedding_dropout", spec.embedding_dropout);
  f("attention_dropout", spec.attention_dropout);
  f("residual_dropout", spec.residual_dropout);
  f("attention_residual_dropout", spec.attention_residual_dropout);
  f("head_dropout", spec.head_dropout);
  f("head_input_dropout", spec.head_input_dropout);
}

template <class E>
const char* name_of_value(E value) {
  for (const auto& [known, name] : Names<E>::kAll) {
    if (known == value) return name;
  }
  return "";
}

template <class E>
E value_of_name(const std::string& wanted, const char* field, std::string_view where) {
  for (const auto& [value, name] : Names<E>::kAll) {
    if (wanted == name) return value;
  }
  fail(ErrorKind::data, "{}: unknown {} \"{}\"", where, field, wanted);
}

}  // namespace

const char* head_name(HeadKind head) { return name_of_value(head); }

Json spec_to_json(const Spec& spec) {
  Json json;
  for_each_field(spec, [&](const char* name, const auto& field) {
    using T = std::decay_t<decltype(field)>;
    if constexpr (std::is_same_v<T, float>) {
      json[name] = shortest_double(field);
    } else if constexpr (std::is_enum_v<T>) {
      json[name] = name_of_value(field);
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
      all.emplace_back(name, name_of_value(field));
    } else {
      all.emplace_back(name, fmt::format("{}", field));
    }
  };
  for_each_field(a, add);
  const size_t count = all.size();
  for_each_field(b, add);
  std::vector<SpecDifference> differences;
  for (size_t i = 0; i < count; ++i) {
    if (all[i] != all[count + i]) differences.push_back({all[i].first, all[i].second, all[count + i].second});
  }
  return differences;
}

std::string describe_differences(const Spec& found, const Spec& asked) {
  std::string text;
  for (const auto& [field, a, b] : spec_differences(found, asked))
    text += fmt::format("{}{} is {}, asked for {}", text.empty() ? "" : "; ", field, a, b);
  return text;
}

Spec spec_from_json(const Json& json, std::string_view where, int64_t version) {
  Spec spec;
  StoredFields fields(json, "the model", where, version);
  for_each_field(spec, [&](const char* name, auto& field) {
    using T = std::decay_t<decltype(field)>;
    if constexpr (std::is_same_v<T, float>) {
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
