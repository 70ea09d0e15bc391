#pragma once
// Shared by the families' readers and writers of config.json.

#include <string>
#include <string_view>

#include "base/json.h"
#include "model/spec.h"

namespace trireme {

/// The field, or `otherwise` where it is absent or null. T: bool, int64_t, double or std::string.
template <class T>
T field_or(const Json& config, const char* name, T otherwise, std::string_view where);

float rate_or(const Json& config, const char* name, double otherwise, std::string_view where);

/// A size: at least 1 and small enough that products of two do not overflow.
int64_t size_field(const Json& config, const char* name, std::string_view where);

/// A family's names for the sizes that every model has.
struct SizeFields {
  const char *vocabulary, *context, *layers, *heads, *width, *inner_width;
};
void read_sizes(const Json& config, const SizeFields& fields, Spec& spec, std::string_view where);
void write_sizes(const Spec& spec, const SizeFields& fields, Json& config);

/// A switch whose other value would change the model's numbers.
void require_switch(const Json& config, const char* name, bool expected, std::string_view where);
/// The same for a word.
void require_word(const Json& config, const char* name, const std::string& expected, std::string_view where);

/// Throws Error::data listing the names that are known.
Activation read_activation(const Json& config, const char* name, const std::string& otherwise, std::string_view where);
/// Their name of it, as exported.
std::string_view activation_name(Activation activation);

/// Classes of a sequence classifier from num_labels or id2label, 2 if both are missing; refuses a problem_type with
/// another loss.
int64_t read_classes(const Json& config, std::string_view where);
void write_classes(const Spec& spec, Json& config);

/// An encoder (full mask, post-norm, normed embeddings, learned positions) with a head that needs no other field.
Spec encoder_spec(HeadKind head);
/// Is it such an encoder, whatever its head?
bool is_encoder(const Spec& spec);

}  // namespace trireme
