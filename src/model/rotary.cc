// Legend: w: frequency; i: its number, from 0; O: the original context.
#include "model/rotary.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/error.h"

namespace trireme {
namespace {

/// w, where waves that fit into O `high` times and more keep it.
double llama3_frequency(double w, const RotaryScaling& s) {
  const auto original = static_cast<double>(s.original_context), factor = static_cast<double>(s.factor);
  const auto low = static_cast<double>(s.low), high = static_cast<double>(s.high);
  const double wave = 2 * std::numbers::pi / w;
  if (wave < original / high) return w;
  if (wave > original / low) return w / factor;
  const double share = (original / wave - low) / (high - low);
  return (1 - share) * w / factor + share * w;
}

/// How much of w / factor there is in yarn's frequency i.
class YarnRamp {
 public:
  YarnRamp(double base, int64_t dims, const RotaryScaling& s) {
    const auto number_of = [&](float turns) {
      const double waves =
          static_cast<double>(s.original_context) / (static_cast<double>(turns) * 2 * std::numbers::pi);
      return static_cast<double>(dims) * std::log(waves) / (2 * std::log(base));
    };
    begin_ = number_of(s.beta_fast);
    end_ = number_of(s.beta_slow);
    if (s.truncate) {
      begin_ = std::floor(begin_);
      end_ = std::ceil(end_);
    }
    begin_ = std::max(begin_, 0.0);
    end_ = std::min(end_, static_cast<double>(dims - 1));
    if (begin_ == end_) end_ += 0.001;
  }
  double operator()(int64_t i) const {
    return std::clamp((static_cast<double>(i) - begin_) / (end_ - begin_), 0.0, 1.0);
  }

 private:
  double begin_, end_;
};

double dynamic_base(double base, int64_t dims, const RotaryScaling& s, int64_t length) {
  const auto factor = static_cast<double>(s.factor), original = static_cast<double>(s.original_context);
  const double power = static_cast<double>(dims) / static_cast<double>(dims - 2);
  return base * std::pow(factor * static_cast<double>(length) / original - (factor - 1), power);
}

bool has_original(RotaryKind kind) { return kind != RotaryKind::none && kind != RotaryKind::linear; }

}  // namespace

void RotaryScaling::validate(int64_t dims) const {
  require(factor >= 1 && std::isfinite(factor), ErrorKind::config, "model: rotary factor is {}; it must be at least 1",
          factor);
  require(attention_factor > 0 && std::isfinite(attention_factor), ErrorKind::config,
          "model: rotary attention factor is {}; it must be above 0", attention_factor);
  require(!has_original(kind) || original_context > 0, ErrorKind::config,
          "model: rotary positions of kind {} need the original context; it is {}", name_of(kind), original_context);
  if (kind == RotaryKind::dynamic)
    require(dims > 2, ErrorKind::config, "model: rotary dims is {}, dynamic frequencies need at least 4", dims);
  if (kind == RotaryKind::llama3)
    require(low > 0 && high > low && std::isfinite(high), ErrorKind::config,
            "model: rotary low and high are {} and {}, expected 0 < low < high", low, high);
  if (kind == RotaryKind::yarn)
    require(beta_slow > 0 && beta_fast >= beta_slow && std::isfinite(beta_fast), ErrorKind::config,
            "model: rotary beta-fast and beta-slow are {} and {}, expected 0 < beta-slow <= beta-fast", beta_fast,
            beta_slow);
  for (const auto& [factors, name] : {std::pair{&short_factors, "short"}, {&long_factors, "long"}}) {
    const auto expected = static_cast<size_t>(kind == RotaryKind::longrope ? dims / 2 : 0);
    require(factors->size() == expected, ErrorKind::config,
            "model: {} {} rotary factors, expected {}, one per pair of rotary dims", factors->size(), name, expected);
    for (const float value : *factors)
      require(value > 0 && std::isfinite(value), ErrorKind::config,
              "model: a {} rotary factor is {}; it must be above 0", name, value);
  }
}

std::vector<float> rotary_frequencies(double base, int64_t dims, const RotaryScaling& scaling, int64_t longest) {
  const auto factor = static_cast<double>(scaling.factor);
  if (scaling.kind == RotaryKind::dynamic) base = dynamic_base(base, dims, scaling, rotary_length(scaling, longest));
  const YarnRamp ramp(base, dims, scaling);  // read by yarn only
  const std::vector<float>& factors = longest > scaling.original_context ? scaling.long_factors : scaling.short_factors;
  std::vector<float> frequencies;
  for (int64_t i = 0; i < dims / 2; ++i) {
    double w = std::pow(base, -2 * static_cast<double>(i) / static_cast<double>(dims));
    switch (scaling.kind) {
      case RotaryKind::none:
      case RotaryKind::dynamic:
        break;
      case RotaryKind::linear:
        w /= factor;
        break;
      case RotaryKind::llama3:
        w = llama3_frequency(w, scaling);
        break;
      case RotaryKind::yarn:
        w = w * (1 - ramp(i)) + w / factor * ramp(i);
        break;
      case RotaryKind::longrope:
        w /= static_cast<double>(factors[static_cast<size_t>(i)]);
        break;
    }
    frequencies.push_back(static_cast<float>(w));
  }
  return frequencies;
}

int64_t rotary_length(const RotaryScaling& scaling, int64_t longest) {
  const int64_t original = scaling.original_context;
  if (scaling.kind == RotaryKind::dynamic) return std::max(longest, original);
  if (scaling.kind == RotaryKind::longrope) return longest > original ? original + 1 : original;
  return 0;
}

double default_attention_factor(RotaryKind kind, double factor, int64_t original_context) {
  if (factor <= 1) return 1;
  if (kind == RotaryKind::yarn) return 0.1 * std::log(factor) + 1;
  if (kind == RotaryKind::longrope) return std::sqrt(1 + std::log(factor) / std::log(original_context));
  return 1;
}

}  // namespace trireme
