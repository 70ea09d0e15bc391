// The search of ggml's reference quantisers (make_qkx2_quants, make_qx_quants) for all parts of a block at once: what
// they compute for one part after the other is here one lane each, in their order of additions, so that the bytes are
// the same and the compiler may use vectors.
//
// x [place][part]: values; q: their levels; w: weights; l: a level; lanes: one value for each part.

#include "checkpoint/gguf/k_blocks.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>

#include "tensor/f16.h"

namespace trireme {
namespace {

/// The nearest integer, ties to even; of huge values and of what is not a number ggml's, from the bits of a sum.
int nearest(float x) { return static_cast<int>(std::bit_cast<uint32_t>(x + 12582912.0f) & 0x007FFFFF) - 0x00400000; }

int clamped(int value, int least, int most) { return std::max(least, std::min(most, value)); }

template <int kParts>
using Lanes = std::array<float, kParts>;
template <int kPlaces, int kParts>
using Levels = int32_t[kPlaces][kParts];

template <int kPlaces, int kParts>
void transpose(const float* from, float (&to)[kPlaces][kParts]) {
  for (int j = 0; j < kParts; ++j) {
    for (int i = 0; i < kPlaces; ++i) to[i][j] = from[j * kPlaces + i];
  }
}

// --- scale and minimum of parts of 32 values: q4_k and q5_k

constexpr int kPlaces = 32, kParts = kSuperBlock / kPlaces;

struct Search {
  int most;     ///< levels are 0 ... most
  float first;  ///< the scales that are tried are (most + first + 0.1 i) / range, for i = 0 ... steps
  int steps;
};

/// x ~ scale * q + least, scale and least of each part.
struct ScaledParts {
  Lanes<kParts> scale, least;
  Levels<kPlaces, kParts> q;
};

struct Sums {
  Lanes<kParts> w{}, x{};
};

/// Levels of x by an inverse scale: q = nearest(inverse * (x - least)).
void quantise(const float (&x)[kPlaces][kParts], const Lanes<kParts>& inverse, const Lanes<kParts>& least, int most,
              Levels<kPlaces, kParts>& q) {
  for (int i = 0; i < kPlaces; ++i) {
    for (int j = 0; j < kParts; ++j) q[i][j] = clamped(nearest(inverse[j] * (x[i][j] - least[j])), 0, most);
  }
}

Lanes<kParts> weighted_error(const float (&x)[kPlaces][kParts], const float (&w)[kPlaces][kParts],
                             const Levels<kPlaces, kParts>& q, const Lanes<kParts>& scale, const Lanes<kParts>& least) {
  Lanes<kParts> error{};
  for (int i = 0; i < kPlaces; ++i) {
    for (int j = 0; j < kParts; ++j) {
      const float difference = scale[j] * static_cast<float>(q[i][j]) + least[j] - x[i][j];
      error[j] += w[i][j] * (difference * difference);
    }
  }
  return error;
}

/// Weighted least squares of scale and least for given levels; false where there is no solution.
struct Fit {
  Lanes<kParts> scale, least;
  std::array<bool, kParts> exists;
};
Fit fit(const float (&x)[kPlaces][kParts], const float (&w)[kPlaces][kParts], const Levels<kPlaces, kParts>& q,
        const Sums& sums) {
  Lanes<kParts> l{}, l2{}, xl{};
  for (int i = 0; i < kPlaces; ++i) {
    for (int j = 0; j < kParts; ++j) {
      const float level = static_cast<float>(q[i][j]), weighted = w[i][j] * level;
      l[j] += weighted;
      l2[j] += weighted * level;
      xl[j] += weighted * x[i][j];
    }
  }
  Fit fit;
  for (int j = 0; j < kParts; ++j) {
    const float determinant = sums.w[j] * l2[j] - l[j] * l[j];
    fit.exists[j] = determinant > 0;
    fit.scale[j] = (sums.w[j] * xl[j] - sums.x[j] * l[j]) / determinant;
    fit.least[j] = (l2[j] * sums.x[j] - l[j] * xl[j]) / determinant;
    if (fit.least[j] > 0) {
      fit.least[j] = 0;
      fit.scale[j] = xl[j] / l2[j];
    }
  }
  return fit;
}

void search_parts(const float (&x)[kPlaces][kParts], const float (&w)[kPlaces][kParts], const Search& search,
                  ScaledParts& best) {
  Lanes<kParts> most, inverse, error;
  Sums sums;
  for (int j = 0; j < kParts; ++j) {
    best.least[j] = most[j] = x[0][j];
    sums.w[j] = w[0][j];
    sums.x[j] = w[0][j] * x[0][j];
  }
  for (int i = 1; i < kPlaces; ++i) {
    for (int j = 0; j < kParts; ++j) {
      best.least[j] = x[i][j] < best.least[j] ? x[i][j] : best.least[j];
      most[j] = x[i][j] > most[j] ? x[i][j] : most[j];
      sums.w[j] += w[i][j];
      sums.x[j] += w[i][j] * x[i][j];
    }
  }
  std::array<bool, kParts> flat;
  Lanes<kParts> flat_least;
  const auto levels = static_cast<float>(search.most);
  for (int j = 0; j < kParts; ++j) {
    best.least[j] = std::min(best.least[j], 0.0f);
    flat[j] = most[j] == best.least[j];
    flat_least[j] = best.least[j];
    inverse[j] = levels / (most[j] - best.least[j]);
    best.scale[j] = 1 / inverse[j];
  }
  quantise(x, inverse, best.least, search.most, best.q);
  error = weighted_error(x, w, best.q, best.scale, best.least);
  Levels<kPlaces, kParts> tried;
  for (int step = 0; step <= search.steps; ++step) {
    // The range is that of the best minimum so far.
    for (int j = 0; j < kParts; ++j)
      inverse[j] = (search.first + 0.1f * static_cast<float>(step) + levels) / (most[j] - best.least[j]);
    quantise(x, inverse, best.least, search.most, tried);
    const Fit fitted = fit(x, w, tried, sums);
    const Lanes<kParts> errors = weighted_error(x, w, tried, fitted.scale, fitted.least);
    std::array<int32_t, kParts> better;
    for (int j = 0; j < kParts; ++j) {
      better[j] = fitted.exists[j] && errors[j] < error[j] ? -1 : 0;
      if (!better[j]) continue;
      error[j] = errors[j];
      best.scale[j] = fitted.scale[j];
      best.least[j] = fitted.least[j];
    }
    for (int i = 0; i < kPlaces; ++i) {
      for (int j = 0; j < kParts; ++j) best.q[i][j] = (tried[i][j] & better[j]) | (best.q[i][j] & ~better[j]);
    }
  }
  for (int j = 0; j < kParts; ++j) {
    if (!flat[j]) continue;
    best.scale[j] = 0;
    best.least[j] = flat_least[j];
    for (int i = 0; i < kPlaces; ++i) best.q[i][j] = 0;
  }
}

struct SixBits {
  int scale, least;
};
SixBits read_six_bits(const uint8_t* scales, int j) {
  if (j < 4) return {scales[j] & 63, scales[j + 4] & 63};
  return {(scales[j + 4] & 15) | scales[j - 4] >> 6 << 4, scales[j + 4] >> 4 | scales[j] >> 6 << 4};
}

void write_six_bits(uint8_t* scales, int j, SixBits bits) {
  if (j < 4) {
    scales[j] = static_cast<uint8_t>(bits.scale);
    scales[j + 4] = static_cast<uint8_t>(bits.least);
    return;
  }
  scales[j + 4] = static_cast<uint8_t>((bits.scale & 15) | (bits.least & 15) << 4);
  scales[j - 4] = static_cast<uint8_t>(scales[j - 4] | bits.scale >> 4 << 6);
  scales[j] = static_cast<uint8_t>(scales[j] | bits.least >> 4 << 6);
}

/// Six bits of a scale. Negative ones, which the search may give for odd values, wrap, as ggml's.
int six_bits(float x) { return std::min(63, static_cast<int>(static_cast<uint8_t>(nearest(x)))); }

template <class Block>
void encode_scaled(const float* values, const Search& search, Block& block, uint8_t (&levels)[kSuperBlock]) {
  float x[kPlaces][kParts], w[kPlaces][kParts];
  transpose(values, x);
  Lanes<kParts> squares{};
  for (int i = 0; i < kPlaces; ++i) {
    for (int j = 0; j < kParts; ++j) squares[j] += x[i][j] * x[i][j];
  }
  for (float& square : squares) square = std::sqrt(square / kPlaces);
  for (int i = 0; i < kPlaces; ++i) {
    for (int j = 0; j < kParts; ++j) w[i][j] = squares[j] + std::fabs(x[i][j]);
  }
  ScaledParts parts;
  search_parts(x, w, search, parts);
  float largest_scale = 0, largest_least = 0;
  for (int j = 0; j < kParts; ++j) {
    if (parts.scale[j] > largest_scale) largest_scale = parts.scale[j];
    if (-parts.least[j] > largest_least) largest_least = -parts.least[j];
  }
  const float to_scale = largest_scale > 0 ? 63 / largest_scale : 0,
              to_least = largest_least > 0 ? 63 / largest_least : 0;
  for (int j = 0; j < kParts; ++j)
    write_six_bits(block.scales, j, {six_bits(to_scale * parts.scale[j]), six_bits(to_least * -parts.least[j])});
  block.d = to_f16(largest_scale / 63).bits;
  block.least = to_f16(largest_least / 63).bits;
  for (int j = 0; j < kParts; ++j) {
    const SixBits bits = read_six_bits(block.scales, j);
    const float d = to_float(f16_t{block.d}) * static_cast<float>(bits.scale),
                least = to_float(f16_t{block.least}) * static_cast<float>(bits.least);
    for (int i = 0; i < kPlaces; ++i) {
      const int level =
          d != 0 ? clamped(nearest((x[i][j] + least) / d), 0, search.most) : static_cast<int>(parts.q[i][j]);
      levels[j * kPlaces + i] = static_cast<uint8_t>(level);
    }
  }
}

/// Low four bits: those of each 64 values in 32 bytes, the first half in the lower bits.
void pack_low(const uint8_t (&levels)[kSuperBlock], uint8_t* low) {
  for (int n = 0; n < kSuperBlock; n += 64) {
    for (int i = 0; i < 32; ++i)
      low[n / 2 + i] = static_cast<uint8_t>((levels[n + i] & 15) | (levels[n + i + 32] & 15) << 4);
  }
}

/// Calls level(part, place) for the levels of a block with scales and minima.
template <class Block, class Level>
void decode_scaled(const Block& block, float* out, Level level) {
  const float d = to_float(f16_t{block.d}), least = to_float(f16_t{block.least});
  for (int j = 0; j < kParts; ++j) {
    const SixBits bits = read_six_bits(block.scales, j);
    const float scale = d * static_cast<float>(bits.scale), minimum = least * static_cast<float>(bits.least);
    for (int i = 0; i < kPlaces; ++i) out[j * kPlaces + i] = scale * static_cast<float>(level(j, i)) - minimum;
  }
}

int low_bits(const uint8_t* low, int part, int place) { return low[part / 2 * 32 + place] >> part % 2 * 4 & 15; }

// --- scale of parts of 16 values: q6_k

constexpr int kFewPlaces = 16, kManyParts = kSuperBlock / kFewPlaces;
constexpr int kHalf = 32;           ///< levels are -kHalf ... kHalf - 1
constexpr float kNothing = 1e-15f;  ///< ggml's GROUP_MAX_EPS

/// The sums of x's products with its levels, weighted by x^2, and the levels.
struct Trial {
  Lanes<kManyParts> xl{}, l2{};
  Levels<kFewPlaces, kManyParts> q;
};
void try_scales(const float (&x)[kFewPlaces][kManyParts], const Lanes<kManyParts>& inverse, Trial& trial) {
  trial.xl = trial.l2 = {};
  for (int i = 0; i < kFewPlaces; ++i) {
    for (int j = 0; j < kManyParts; ++j) {
      trial.q[i][j] = clamped(nearest(inverse[j] * x[i][j]), -kHalf, kHalf - 1);
      const float level = static_cast<float>(trial.q[i][j]), w = x[i][j] * x[i][j];
      trial.xl[j] += w * x[i][j] * level;
      trial.l2[j] += w * level * level;
    }
  }
}

/// The scales; levels in `best`.
Lanes<kManyParts> search_scales(const float (&x)[kFewPlaces][kManyParts], Trial& best) {
  Lanes<kManyParts> magnitude{}, value{}, inverse, scale, quality;
  for (int i = 0; i < kFewPlaces; ++i) {
    for (int j = 0; j < kManyParts; ++j) {
      const float size = std::fabs(x[i][j]);
      if (!(size > magnitude[j])) continue;
      magnitude[j] = size;
      value[j] = x[i][j];
    }
  }
  for (int j = 0; j < kManyParts; ++j) inverse[j] = -static_cast<float>(kHalf) / value[j];
  try_scales(x, inverse, best);
  for (int j = 0; j < kManyParts; ++j) {
    scale[j] = best.l2[j] != 0 ? best.xl[j] / best.l2[j] : 0;
    quality[j] = scale[j] * best.xl[j];
  }
  Trial trial;
  for (int step = -9; step <= 9; ++step) {
    if (step == 0) continue;
    for (int j = 0; j < kManyParts; ++j)
      inverse[j] = -(static_cast<float>(kHalf) + 0.1f * static_cast<float>(step)) / value[j];
    try_scales(x, inverse, trial);
    std::array<int32_t, kManyParts> better;
    for (int j = 0; j < kManyParts; ++j) {
      better[j] = trial.l2[j] > 0 && trial.xl[j] * trial.xl[j] > quality[j] * trial.l2[j] ? -1 : 0;
      if (!better[j]) continue;
      scale[j] = trial.xl[j] / trial.l2[j];
      quality[j] = scale[j] * trial.xl[j];
    }
    for (int i = 0; i < kFewPlaces; ++i) {
      for (int j = 0; j < kManyParts; ++j) best.q[i][j] = (trial.q[i][j] & better[j]) | (best.q[i][j] & ~better[j]);
    }
  }
  for (int j = 0; j < kManyParts; ++j) {
    if (!(magnitude[j] < kNothing)) continue;
    scale[j] = 0;
    for (int i = 0; i < kFewPlaces; ++i) best.q[i][j] = -kHalf;
  }
  return scale;
}

}  // namespace

void encode_block(const float* x, Q4kBlock& block) {
  uint8_t levels[kSuperBlock];
  encode_scaled(x, {15, -1, 20}, block, levels);
  pack_low(levels, block.low);
}

void encode_block(const float* x, Q5kBlock& block) {
  uint8_t levels[kSuperBlock];
  encode_scaled(x, {31, -0.5f, 15}, block, levels);
  pack_low(levels, block.low);
  for (int i = 0; i < kPlaces; ++i) {
    int bits = 0;
    for (int j = 0; j < kParts; ++j) bits |= levels[j * kPlaces + i] >> 4 << j;
    block.high[i] = static_cast<uint8_t>(bits);
  }
}

void encode_block(const float* values, Q6kBlock& block) {
  float x[kFewPlaces][kManyParts];
  transpose(values, x);
  Trial best;
  const Lanes<kManyParts> scales = search_scales(x, best);
  float magnitude = 0, largest = 0;
  for (const float scale : scales) {
    if (!(std::fabs(scale) > magnitude)) continue;
    magnitude = std::fabs(scale);
    largest = scale;
  }
  if (magnitude < kNothing) {
    std::memset(&block, 0, sizeof block);
    return;
  }
  const float inverse = -128.0f / largest;
  block.d = to_f16(1 / inverse).bits;
  uint8_t levels[kSuperBlock];
  for (int j = 0; j < kManyParts; ++j) {
    block.scales[j] = static_cast<int8_t>(std::min(127, nearest(inverse * scales[static_cast<size_t>(j)])));
    const float d = to_float(f16_t{block.d}) * static_cast<float>(block.scales[j]);
    for (int i = 0; i < kFewPlaces; ++i) {
      const int level = d != 0 ? clamped(nearest(x[i][j] / d), -kHalf, kHalf - 1) : static_cast<int>(best.q[i][j]);
      levels[j * kFewPlaces + i] = static_cast<uint8_t>(level + kHalf);
    }
  }
  for (int n = 0; n < 2; ++n) {
    const uint8_t* l = levels + n * 128;
    for (int i = 0; i < 32; ++i) {
      for (int half = 0; half < 2; ++half)
        block.low[n * 64 + half * 32 + i] =
            static_cast<uint8_t>((l[half * 32 + i] & 15) | (l[half * 32 + i + 64] & 15) << 4);
      block.high[n * 32 + i] =
          static_cast<uint8_t>(l[i] >> 4 | l[i + 32] >> 4 << 2 | l[i + 64] >> 4 << 4 | l[i + 96] >> 4 << 6);
    }
  }
}

void decode_block(const Q4kBlock& block, float* out) {
  decode_scaled(block, out, [&](int part, int place) { return low_bits(block.low, part, place); });
}

void decode_block(const Q5kBlock& block, float* out) {
  decode_scaled(block, out, [&](int part, int place) {
    return low_bits(block.low, part, place) | (block.high[place] >> part & 1) << 4;
  });
}

void decode_block(const Q6kBlock& block, float* out) {
  const float d = to_float(f16_t{block.d});
  for (int at = 0; at < kSuperBlock; ++at) {
    const int n = at / 128, quarter = at / 32 % 4, i = at % 32;
    const int low = block.low[n * 64 + quarter % 2 * 32 + i] >> quarter / 2 * 4 & 15;
    const int level = (low | (block.high[n * 32 + i] >> quarter * 2 & 3) << 4) - kHalf;
    out[at] = d * static_cast<float>(block.scales[at / kFewPlaces]) * static_cast<float>(level);
  }
}

}  // namespace trireme
