#include "data/id_judgement.h"

#include <algorithm>
#include <bitset>
#include <cstdint>
#include <cstring>
#include <vector>

namespace trireme {
namespace {

constexpr size_t kWindows = 16, kWindowIds = size_t{32} << 10;
constexpr size_t kFewestIds = 16;  // fewer are not significant
constexpr size_t kFewestSet = 8;   // nonzero ids, all at even or all at odd places
/// numpy writes the width into the file.
constexpr const char* kWide =
    "write the ids with their width: python3 -c \"import numpy; numpy.save('FILE.npy', numpy.fromfile('FILE', "
    "'<u4'))\"";
constexpr const char* kNarrow =
    "write the ids as 16 bits: python3 -c \"import numpy; numpy.fromfile('FILE', '{}').astype('<u2').tofile('NEW')\"";

using IdSet = std::bitset<65536>;

/// The ids of the windows; each begins at a multiple of 8 bytes of the file.
std::vector<uint16_t> sample_of(std::span<const std::byte> bytes, bool& ends_empty) {
  const size_t ids = bytes.size() / 2, windows = std::min(kWindows, (ids + kWindowIds - 1) / kWindowIds);
  std::vector<uint16_t> sample;
  for (size_t w = 0; w < windows; ++w) {
    const size_t last = ids <= kWindowIds ? 0 : ids - kWindowIds;
    const size_t begin = windows > 1 ? last * w / (windows - 1) / 4 * 4 : 0;
    const size_t count = std::min(kWindowIds, ids - begin) / 4 * 4;  // whole numbers of 8 bytes
    const size_t at = sample.size();
    sample.resize(at + (ids <= kWindowIds ? ids : count));
    std::memcpy(sample.data() + at, bytes.data() + begin * 2, (sample.size() - at) * 2);
    ends_empty = windows > 1 && std::all_of(sample.begin() + static_cast<ptrdiff_t>(at), sample.end(),
                                            [](uint16_t id) { return id == 0; });
  }
  return sample;
}

/// Counts over the sample, for ids at even and at odd places (the low and high halves of 32-bit numbers).
struct Halves {
  size_t pairs = 0;
  size_t zero_low = 0, zero_high = 0, small_high = 0, wide_low = 0, upper_low = 0, float_high = 0, negative_high = 0;
  size_t zero_pairs = 0;      ///< both halves are 0
  size_t zero_of_second = 0;  ///< pairs 1, 3, ...: the upper halves of 64-bit numbers
  IdSet low, high;
};

/// Upper halves of f32 numbers from 1e-10 to 1e10.
bool is_float_high(uint16_t id) {
  const unsigned exponent = id >> 7 & 0xFF;
  return exponent >= 127 - 33 && exponent <= 127 + 33;
}

Halves halves_of(const std::vector<uint16_t>& ids) {
  Halves h;
  h.pairs = ids.size() / 2;
  for (size_t i = 0; i < h.pairs; ++i) {
    const uint16_t low = ids[2 * i], high = ids[2 * i + 1];
    h.low.set(low);
    h.high.set(high);
    h.zero_low += low == 0;
    h.zero_high += high == 0;
    h.small_high += high < 16 || high == 0xFFFF;  // 0xFFFF: of -1, which ends texts in some files
    h.wide_low += low > 255;
    h.upper_low +=
        low >= 50432;  // above all ids of GPT-2: floats and random bytes have a quarter of their halves there
    h.float_high += high == 0 || is_float_high(high);
    h.negative_high += high >> 15;
    const bool zero = low == 0 && high == 0;
    h.zero_pairs += zero;
    if (i % 2 == 1) h.zero_of_second += zero;
  }
  return h;
}

bool is_64_bit(const Halves& h) { return h.pairs >= kFewestIds && h.zero_of_second == h.pairs / 2; }

/// Every second id is 0, or one of a few multiples of 65536 between ids of all sizes.
bool is_little_endian_wide(const Halves& h) {
  if (h.zero_high == h.pairs) return h.low.count() >= 3 && h.pairs - h.zero_low >= kFewestSet;
  return h.pairs >= 32 && h.small_high == h.pairs && h.wide_low * 4 >= h.pairs && h.low.count() * 4 >= h.pairs &&
         h.low.count() >= 24;
}

/// The high halves are exponents of ordinary numbers, the low ones arbitrary.
bool is_float(const Halves& h) {
  if (h.pairs < 32 || h.float_high != h.pairs || h.high.count() < 3) return false;
  return h.zero_low * 2 >= h.pairs || h.upper_low * 20 >= h.pairs;  // the first: of whole numbers as floats
}

/// f64: of each four ids the last is an exponent, the others are arbitrary.
bool is_double(const std::vector<uint16_t>& ids) {
  size_t numbers = 0, fitting = 0, upper = 0;
  IdSet tops;
  for (size_t i = 0; i + 3 < ids.size(); i += 4, ++numbers) {
    const unsigned exponent = ids[i + 3] >> 4 & 0x7FF;
    const bool zero = ids[i] == 0 && ids[i + 1] == 0 && ids[i + 2] == 0 && ids[i + 3] == 0;
    fitting += zero || (exponent >= 1023 - 33 && exponent <= 1023 + 33);
    upper += ids[i + 2] >= 50432;
    tops.set(ids[i + 3]);
  }
  return numbers >= 32 && fitting == numbers && tops.count() >= 3 && upper * 20 >= numbers;
}

/// Halves of f16 or bf16 numbers of both signs: no id is small, many have the highest bit.
bool is_half_float(const std::vector<uint16_t>& ids) {
  size_t negative = 0, fitting = 0;
  IdSet seen;
  for (const uint16_t id : ids) {
    const unsigned top = id >> 8 & 0x7F;
    fitting += id == 0 || (top >= 0x18 && top < 0x48);
    negative += id >> 15;
    seen.set(id);
  }
  return ids.size() >= 256 && fitting * 20 >= ids.size() * 17 && seen.count() >= 64 && negative * 4 >= ids.size() &&
         negative * 4 <= ids.size() * 3;
}

/// Small in the first byte where it should be in the second: ids of frequent tokens are small.
bool is_big_endian(const std::vector<uint16_t>& ids) {
  size_t swapped_only = 0, native_only = 0, multiples = 0;
  IdSet small, seen;
  for (const uint16_t id : ids) {
    const unsigned low = id & 0xFF, high = id >> 8;
    multiples += low == 0;
    seen.set(id);
    if (low < 4 && high >= 4) small.set(id), ++swapped_only;
    native_only += high < 4 && low >= 4;
  }
  if (multiples == ids.size()) return seen.count() >= 3;
  return ids.size() >= 256 && swapped_only * 5 >= ids.size() && swapped_only > 8 * native_only && small.count() >= 32;
}

/// One byte per id: neither half of a pair has a high bit, and both vary.
bool is_8_bit(const std::vector<uint16_t>& ids) {
  std::bitset<256> lows, highs;
  for (const uint16_t id : ids) {
    if (id & 0x8080) return false;
    lows.set(id & 0xFF);
    highs.set(id >> 8);
  }
  return ids.size() >= 128 && highs.count() >= 16 && lows.count() >= 16 &&
         (lows & highs).count() * 4 >= 3 * std::max(lows.count(), highs.count());
}

std::string narrow(const char* type) {
  std::string text = kNarrow;
  return text.replace(text.find("{}"), 2, type);
}

void judge(const std::vector<uint16_t>& ids, IdJudgement& out) {
  const Halves h = halves_of(ids);
  const char* what = nullptr;
  if (h.zero_low == h.pairs && h.high.count() >= 3 && h.pairs - h.zero_high >= kFewestSet && !is_float(h)) {
    what = "32-bit numbers in big-endian order, whose upper halves are 0";
    out.todo = narrow(">u4");
  } else if (is_little_endian_wide(h)) {
    const bool wide = is_64_bit(h);
    what = wide                     ? "64-bit ids, whose upper parts are 0"
           : h.zero_high == h.pairs ? "32-bit ids, whose upper halves are 0: every second id of 16 bits is 0"
                                    : "32-bit ids, some of them above 65535";
    out.todo = wide || h.zero_high == h.pairs ? narrow(wide ? "<u8" : "<u4") : kWide;
  } else if (is_float(h) || is_double(ids) || is_half_float(ids)) {
    what = "floating-point numbers";
    out.todo = "a token file holds ids: `trireme prepare` makes one from text";
  } else if (is_big_endian(ids)) {
    what = "16-bit ids in big-endian order";
    out.todo = narrow(">u2");
  } else if (is_8_bit(ids)) {
    what = "8-bit ids, one byte each";
    out.todo = narrow("u1");
  }
  if (what) out.other = what;
}

}  // namespace

IdJudgement judge_ids(std::span<const std::byte> bytes, uint64_t width) {
  IdJudgement out;
  const std::vector<uint16_t> ids = sample_of(bytes, out.ends_empty);
  if (ids.empty()) return out;
  if (width == 4) {
    const Halves h = halves_of(ids);
    out.zeros = static_cast<double>(h.zero_pairs) / static_cast<double>(h.pairs);
    return out;
  }
  out.zeros = static_cast<double>(std::ranges::count(ids, uint16_t{0})) / static_cast<double>(ids.size());
  if (ids.size() >= kFewestIds) judge(ids, out);
  return out;
}

}  // namespace trireme
