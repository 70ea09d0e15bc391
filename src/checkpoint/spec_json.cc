#include "checkpoint/spec_json.h"

#include <algorithm>
#include <array>
#include <string>

#include "checkpoint/json_fields.h"

namespace trireme {
namespace {

constexpr std::pair<Activation, const char*> kActivations[] = {
    {Activation::gelu_tanh, "gelu-tanh"}, {Activation::gelu_erf, "gelu-erf"}, {Activation::relu, "relu"}};

/// Calls f(name, field) for every plain field: the one list for reading and writing.
template <class S, class F>
void for_each_field(S& spec, F f) {
  f("vocabulary", spec.vocabulary);
  f("vocabulary_rows", spec.vocabulary_rows);
  f("context", spec.context);
  f("layers", spec.layers);
  f("heads", spec.heads);
  f("width", spec.width);
  f("inner_width", spec.inner_width);
  f("tied_head", spec.tied_head);
  f("qkv_bias", spec.biases.qkv);
  f("attention_out_bias", spec.biases.attention_out);
  f("mlp_in_bias", spec.biases.mlp_in);
  f("mlp_out_bias", spec.biases.mlp_out);
  f("norm_bias", spec.biases.norm);
  f("norm_epsilon", spec.norm_epsilon);
  f("embedding_dropout", spec.embedding_dropout);
  f("attention_dropout", spec.attention_dropout);
  f("residual_dropout", spec.residual_dropout);
}

}  // namespace

Json spec_to_json(const Spec& spec) {
  Json json;
  for_each_field(spec, [&](const char* name, const auto& field) {
    if constexpr (std::is_same_v<std::decay_t<decltype(field)>, float>) {
      json[name] = shortest_double(field);
    } else {
      json[name] = field;
    }
  });
  for (const auto& [activation, name] : kActivations) {
    if (activation == spec.activation) json["activation"] = name;
  }
  return json;
}

Spec spec_from_json(const Json& json, std::string_view where) {
  Spec spec;
  size_t fields = 1;
  for_each_field(spec, [&](const char* name, auto& field) {
    using T = std::decay_t<decltype(field)>;
    if constexpr (std::is_same_v<T, float>) {
      field = static_cast<float>(json_field<double>(json, name, where));
    } else {
      field = json_field<T>(json, name, where);
    }
    ++fields;
  });
  const auto activation = json_field<std::string>(json, "activation", where);
  const auto* known = std::find_if(std::begin(kActivations), std::end(kActivations),
                                   [&](const auto& item) { return activation == item.second; });
  require(known != std::end(kActivations), ErrorKind::data, "{}: unknown activation \"{}\"", where, activation);
  spec.activation = known->first;
  require(json.size() == fields, ErrorKind::data,
          "{}: the model has {} fields, {} are known; a newer version may have written it", where, json.size(), fields);
  return spec;
}

}  // namespace trireme
