#include "checkpoint/huggingface/family_config.h"

#include <fmt/ranges.h>

#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "base/count.h"
#include "base/json_fields.h"
#include "checkpoint/huggingface/family.h"

namespace trireme {

template <class T>
T field_or(const Json& config, const char* name, T otherwise, std::string_view where) {
  const auto found = config.find(name);
  return found == config.end() || found->is_null() ? otherwise : json_field<T>(config, name, where);
}
template bool field_or(const Json&, const char*, bool, std::string_view);
template int64_t field_or(const Json&, const char*, int64_t, std::string_view);
template double field_or(const Json&, const char*, double, std::string_view);
template std::string field_or(const Json&, const char*, std::string, std::string_view);

int64_t frozen_row(const Family& family, const Json& config, int64_t rows, std::string_view where) {
  if (!family.has_padding) return -1;
  if (family.wrapper && config.is_object() && config.contains("text_config"))
    return frozen_row(family, config.at("text_config"), rows, where);
  const bool absent = !config.is_object() || !config.contains("pad_token_id");
  if (!absent && config.at("pad_token_id").is_null()) return -1;
  int64_t row = absent ? family.padding : json_field<int64_t>(config, "pad_token_id", where);
  if (!absent && row < 0) row += rows;  // torch counts from the end
  return row < rows ? std::max<int64_t>(row, -1) : -1;
}

float rate_or(const Json& config, const char* name, double otherwise, std::string_view where) {
  const auto value = field_or<double>(config, name, otherwise, where);
  const auto rate = static_cast<float>(value);
  require(std::isfinite(rate), ErrorKind::data, "{}: \"{}\" is {}, more than a number of 32 bits can be", where, name,
          value);
  return rate;
}

int64_t size_field(const Json& config, const char* name, std::string_view where) {
  const auto size = json_field<int64_t>(config, name, where);
  require(size > 0 && size <= std::numeric_limits<int32_t>::max(), ErrorKind::data,
          "{}: \"{}\" is {}; it must be at least 1 and below 2^31", where, name, size);
  return size;
}

void read_sizes(const Json& config, const SizeFields& fields, Spec& spec, std::string_view where) {
  spec.vocabulary = spec.vocabulary_rows = size_field(config, fields.vocabulary, where);
  spec.context = size_field(config, fields.context, where);
  spec.layers = size_field(config, fields.layers, where);
  spec.heads = size_field(config, fields.heads, where);
  spec.width = size_field(config, fields.width, where);
  spec.inner_width = size_field(config, fields.inner_width, where);
}

void write_sizes(const Spec& spec, const SizeFields& fields, Json& config) {
  config[fields.vocabulary] = spec.vocabulary;
  config[fields.context] = spec.context;
  config[fields.layers] = spec.layers;
  config[fields.heads] = spec.heads;
  config[fields.width] = spec.width;
  config[fields.inner_width] = spec.inner_width;
}

void require_switch(const Json& config, const char* name, bool expected, std::string_view where) {
  require(field_or<bool>(config, name, expected, where) == expected, ErrorKind::data,
          "{}: \"{}\" is {}, but only {} is supported, because the model's results would differ", where, name,
          !expected, expected);
}

void require_word(const Json& config, const char* name, const std::string& expected, std::string_view where) {
  const auto found = field_or<std::string>(config, name, expected, where);
  require(found == expected, ErrorKind::data,
          "{}: \"{}\" is \"{}\", but only \"{}\" is supported, because the model's results would differ", where, name,
          found, expected);
}

Activation read_activation(const Json& config, const char* name, const std::string& otherwise, std::string_view where) {
  const auto found = field_or<std::string>(config, name, otherwise, where);
  std::vector<std::string> names;
  for (const auto& [known, activation] : Names<Activation>::kHuggingFace) {
    if (found == known) return activation;
    names.emplace_back(known);
  }
  fail(ErrorKind::data, "{}: unknown {} \"{}\"; known: {}", where, name, found, fmt::join(names, ", "));
}

std::string_view activation_name(Activation activation) {
  for (const auto& [name, known] : Names<Activation>::kHuggingFace) {
    if (known == activation) return name;
  }
  return "";
}

int64_t read_classes(const Json& config, std::string_view where) {
  int64_t classes = 2;
  const auto labels = config.find("id2label");
  if (config.contains("num_labels")) {
    classes = size_field(config, "num_labels", where);
  } else if (labels != config.end() && !labels->is_null()) {
    require(labels->is_object() && !labels->empty(), ErrorKind::data,
            "{}: \"id2label\" is {}, expected an object with a name per class", where, labels->type_name());
    classes = static_cast<int64_t>(labels->size());
  }
  const auto problem =
      field_or<std::string>(config, "problem_type", classes == 1 ? "regression" : "single_label_classification", where);
  require(problem == (classes == 1 ? "regression" : "single_label_classification"), ErrorKind::data,
          "{}: problem_type \"{}\" with {} is not supported; supported: regression of one class and "
          "single_label_classification of several",
          where, problem, count_text(classes, "class"));
  return classes;
}

void write_classes(const Spec& spec, Json& config) {
  Json names, ids;
  for (int64_t i = 0; i < spec.classes; ++i) {
    names[std::to_string(i)] = fmt::format("LABEL_{}", i);
    ids[fmt::format("LABEL_{}", i)] = i;
  }
  config["id2label"] = names;
  config["label2id"] = ids;
}

Spec encoder_spec(HeadKind head) {
  Spec spec;
  spec.mask = Mask::full;
  spec.norm_place = NormPlace::post;
  spec.final_norm = false;
  spec.embedding_norm = true;
  spec.head = head;
  spec.tied_head = head != HeadKind::classifier;
  return spec;
}

bool is_encoder(const Spec& spec) {
  return spec.is_plain() && spec.mask == Mask::full && spec.norm_place == NormPlace::post && !spec.final_norm &&
         spec.embedding_norm && spec.position == Position::learned && !spec.projected() &&
         spec.head != HeadKind::language_model && spec.biases == Biases{};
}

}  // namespace trireme
