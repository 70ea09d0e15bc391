#include "model/spec.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <vector>

#include "base/divisors.h"
#include "base/error.h"

namespace trireme {
namespace {

void require_positive(int64_t value, const char* field) {
  require(value > 0, ErrorKind::config, "model: {} is {}, it must be at least 1", field, value);
}

// The limits of the options of config/config.h, widened for values in files. No product of two of them times the number
// of layers overflows, and a table of so many layers is made in a second.
constexpr int64_t kMostLayers = 1000, kMostHeads = 1024, kMostWidth = 65536, kMostInnerWidth = 4 * kMostWidth,
                  kMostContext = 1 << 20, kMostVocabulary = 1 << 22, kMostPaddingRows = 1 << 16, kMostClasses = 1 << 20;

void require_sizes(const Spec& spec) {
  const struct {
    int64_t value, least, most;
    const char* field;
  } sizes[] = {
      {spec.vocabulary, 1, kMostVocabulary, "vocabulary"},
      {spec.vocabulary_rows, 1, kMostVocabulary + kMostPaddingRows, "rows of the token matrix"},
      {spec.context, 1, kMostContext, "context"},
      {spec.layers, 1, kMostLayers, "layers"},
      {spec.heads, 1, kMostHeads, "heads"},
      {spec.width, 1, kMostWidth, "width"},
      {spec.inner_width, 1, kMostInnerWidth, "inner width"},
      {spec.position_offset, 0, kMostContext, "position offset"},
      {spec.embedding_width, 0, kMostWidth, "embedding width"},
      {spec.token_types, 0, kMostClasses, "token types"},
      {spec.classes, 0, kMostClasses, "classes"},
  };
  for (const auto& size : sizes) {
    if (size.least == 1) require_positive(size.value, size.field);
    require(size.value >= size.least && size.value <= size.most, ErrorKind::config,
            "model: {} is {}, expected {} to {}", size.field, size.value, size.least, size.most);
  }
}

void require_rate(float rate, const char* field) {
  require(rate >= 0 && rate < 1, ErrorKind::config, "model: {} is {}, a dropout rate is at least 0 and below 1", field,
          rate);
}

void validate_positions(const Spec& spec) {
  if (spec.position == Position::learned) {
    require(spec.rotary_dims == 0, ErrorKind::config, "model: {} rotary dims, but positions are learned",
            spec.rotary_dims);
    return;
  }
  require(spec.position_offset == 0, ErrorKind::config, "model: position offset is {}, but positions are rotary",
          spec.position_offset);
  require(spec.rotary_dims >= 2 && spec.rotary_dims % 2 == 0 && spec.rotary_dims <= spec.head_dim(), ErrorKind::config,
          "model: rotary dims is {}, it must be even, at least 2 and at most the head size, {}", spec.rotary_dims,
          spec.head_dim());
  require(spec.rotary_base > 1, ErrorKind::config, "model: rotary base is {}, it must be above 1", spec.rotary_base);
}

void validate_head(const Spec& spec) {
  if (spec.head == HeadKind::language_model) return;
  require(!spec.final_norm && !spec.projected(), ErrorKind::config,
          "model: only a language-model head can follow a final norm or projected embeddings");
  if (spec.head != HeadKind::classifier) return;
  require_positive(spec.classes, "classes");
  require(!spec.tied_head, ErrorKind::config, "model: a classifier's head cannot be tied to the token embedding");
}

}  // namespace

bool Spec::has_dropout() const {
  return std::max({embedding_dropout, attention_dropout, residual_dropout, head_dropout}) > 0;
}

void Spec::validate() const {
  require_sizes(*this);
  require(vocabulary_rows >= vocabulary, ErrorKind::config,
          "model: {} rows of the token matrix cannot hold a vocabulary of {}", vocabulary_rows, vocabulary);
  require(width % heads == 0, ErrorKind::config, "model: {} heads do not divide width {}; heads that do: {}", heads,
          width, fmt::join(divisors(width), ", "));
  require_rate(embedding_dropout, "embedding dropout");
  require_rate(attention_dropout, "attention dropout");
  require_rate(residual_dropout, "residual dropout");
  require_rate(head_dropout, "head dropout");
  require(norm_epsilon > 0, ErrorKind::config, "model: norm epsilon is {}, it must be above 0", norm_epsilon);
  require(norm_place == NormPlace::pre || residual == Residual::sequential, ErrorKind::config,
          "model: norms after a parallel residual are not defined; use pre-norm or a sequential residual");
  validate_positions(*this);
  validate_head(*this);
}

double train_flops_per_token(const Spec& spec, int64_t sequence) {
  const auto width = static_cast<double>(spec.width), inner = static_cast<double>(spec.inner_width);
  const double block = 4 * width * width + 2 * width * inner;  // qkv, attention out, MLP in and out
  double matmul = static_cast<double>(spec.layers) * block;
  if (spec.has_decoder()) matmul += static_cast<double>(spec.vocabulary * spec.token_width());
  if (spec.projected()) matmul += 2 * width * static_cast<double>(spec.token_width());
  if (spec.head == HeadKind::masked_language_model) matmul += width * width;
  const double attention = spec.mask == Mask::causal ? 6 : 12;
  return 6 * matmul + attention * static_cast<double>(spec.layers) * width * static_cast<double>(sequence);
}

}  // namespace trireme
