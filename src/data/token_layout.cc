#include "data/token_dataset.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <bitset>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/log.h"
#include "data/file_signature.h"
#include "data/npy_file.h"

namespace trireme {
namespace {

// Guesses the content of a file of numbers without a header: 16-bit ids, or numbers of another width, byte order or
// kind.

struct IdJudgement {
  std::string other;        ///< what it seems to be instead of little-endian 16-bit ids; empty: seems to be ids
  std::string todo;         ///< how to make a token file of it
  double zeros = 0;         ///< share of zeros among the sampled ids
  bool ends_empty = false;  ///< the last window holds zeros only
};

/// Samples up to 16 windows of 64 KiB, from the first to the last. Valid ids of any vocabulary pass, also few distinct,
/// constant and padded ones. If every second id is 0, with three or more other ids between, they cannot be
/// distinguished from 32-bit ids and are reported as such. width 4: the ids are known to have 32 bits, and only zeros
/// are counted.
IdJudgement judge_ids(std::span<const std::byte> bytes, uint64_t width = 2);

constexpr size_t kWindows = 16, kWindowIds = size_t{32} << 10;
constexpr size_t kFewestIds = 16;  // fewer are not significant
constexpr size_t kFewestSet = 8;   // nonzero ids, all at even or all at odd places
/// numpy writes the width into the file.
constexpr const char* kWide =
    "write the ids with their width: python3 -c \"import numpy; numpy.save('FILE.npy', numpy.fromfile('FILE', "
    "'{}').astype('<u4'))\"";
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
  size_t negative = 0;         ///< of small negative numbers, such as -1 or -100
  size_t zero_pairs = 0;       ///< both halves are 0
  size_t empty_of_second = 0;  ///< pairs 1, 3, ...: the upper halves of 64-bit numbers, 0 or of a small negative one
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
    h.negative += high == 0xFFFF && low >= 0xFF00;
    const bool zero = low == 0 && high == 0;
    h.zero_pairs += zero;
    if (i % 2 == 1) h.empty_of_second += zero || (low == 0xFFFF && high == 0xFFFF);
  }
  return h;
}

bool is_64_bit(const Halves& h) { return h.pairs >= kFewestIds && h.empty_of_second == h.pairs / 2; }

/// Every second id is 0 (or the sign of a negative number), or one of a few multiples of 65536 between ids of all
/// sizes.
bool is_wide(const Halves& h) {
  if (h.zero_high + h.negative == h.pairs) return h.low.count() >= 3 && h.pairs - h.zero_low >= kFewestSet;
  constexpr size_t kVaried = 256;  // different ids: in a long file each is frequent
  const size_t ids = is_64_bit(h) ? h.pairs / 2 : h.pairs;
  return h.pairs >= 32 && h.small_high == h.pairs && h.wide_low * 4 >= ids && h.low.count() >= 24 &&
         h.low.count() >= std::min(ids / 4, kVaried);
}

uint16_t swapped(uint16_t id) { return static_cast<uint16_t>(id << 8 | id >> 8); }

/// The same numbers in the other byte order.
std::vector<uint16_t> reversed(const std::vector<uint16_t>& ids, size_t ids_per_number) {
  std::vector<uint16_t> out(ids.size() / ids_per_number * ids_per_number);
  for (size_t i = 0; i < out.size(); ++i)
    out[i] = swapped(ids[i / ids_per_number * ids_per_number + (ids_per_number - 1 - i % ids_per_number)]);
  return out;
}

struct Wide {
  bool is_64_bit = false, is_big_endian = false;
  bool is_large = false, is_negative = false;  ///< some are above 65535, or below 0
};

/// Numbers of 32 or 64 bits in either byte order.
std::optional<Wide> find_wide(const std::vector<uint16_t>& ids, const Halves& h) {
  const auto found = [](const Halves& numbers, bool is_big_endian) {
    return Wide{.is_64_bit = is_64_bit(numbers),
                .is_big_endian = is_big_endian,
                .is_large = numbers.zero_high + numbers.negative<numbers.pairs, .is_negative = numbers.negative> 0};
  };
  if (is_wide(h)) return found(h, false);
  const Halves of_64_bit = halves_of(reversed(ids, 4)), of_32_bit = halves_of(reversed(ids, 2));
  if (is_wide(of_64_bit) && is_64_bit(of_64_bit)) return found(of_64_bit, true);
  if (is_wide(of_32_bit)) return found(of_32_bit, true);
  return std::nullopt;
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

/// Values of bytes are distributed alike in both halves of the ids, and not evenly: text in any encoding of 8 bits, or
/// text between binary numbers. The high halves of ids are small, or all alike.
bool is_bytes(const std::vector<uint16_t>& ids) {
  constexpr size_t kFewest = 256, kDifferent = 16, kFrequent = 32;
  std::array<size_t, 256> low{}, high{}, both{};
  size_t count = 0, apart = 0;
  for (const uint16_t id : ids) {
    if (id == 0) continue;  // padding
    ++low[id & 0xFF], ++high[id >> 8], ++count;
  }
  for (size_t b = 0; b < both.size(); ++b) {
    both[b] = low[b] + high[b];
    apart += std::max(low[b], high[b]) - std::min(low[b], high[b]);
  }
  const auto different = [](const std::array<size_t, 256>& counts) {
    return static_cast<size_t>(std::ranges::count_if(counts, [](size_t n) { return n > 0; }));
  };
  if (count < kFewest || different(low) < kDifferent || different(high) < kDifferent) return false;
  std::ranges::sort(both, std::greater<>());
  const size_t frequent = std::accumulate(both.begin(), both.begin() + kFrequent, size_t{0});
  return apart * 2 < count && frequent * 5 >= count * 2 * 3;
}

std::string with_type(const char* pattern, const char* type) {
  std::string text = pattern;
  return text.replace(text.find("{}"), 2, type);
}

void judge_wide(const Wide& wide, IdJudgement& out) {
  const char* const bits = wide.is_64_bit ? "64-bit ids" : "32-bit ids";
  const char* const order = wide.is_big_endian ? " in big-endian order" : "";
  const char* const seen = wide.is_negative ? "some of them negative"
                           : wide.is_large  ? "some of them above 65535"
                                            : "none of them above 65535: their upper parts, read as 16-bit ids, are 0";
  out.other = fmt::format("{}{}, {}", bits, order, seen);
  const char* const type = wide.is_big_endian ? (wide.is_64_bit ? ">u8" : ">u4") : (wide.is_64_bit ? "<u8" : "<u4");
  out.todo = wide.is_negative ? "negative ids, such as -100 of labels that do not count, are not tokens: write the ids "
                                "of the texts alone, as 16 or 32 bits"
                              : with_type(wide.is_large ? kWide : kNarrow, type);
}

void judge(const std::vector<uint16_t>& ids, IdJudgement& out) {
  const Halves h = halves_of(ids);
  const bool floats = is_float(h);
  if (const auto wide = find_wide(ids, h); wide && !floats) return judge_wide(*wide, out);
  const char* what = nullptr;
  if (floats || is_double(ids) || is_half_float(ids)) {
    what = "floating-point numbers";
    out.todo = "a token file holds ids: `trireme prepare` makes one from text";
  } else if (is_big_endian(ids)) {
    what = "16-bit ids in big-endian order";
    out.todo = with_type(kNarrow, ">u2");
  } else if (is_8_bit(ids)) {
    what = "8-bit ids, one byte each";
    out.todo = with_type(kNarrow, "u1");
  }
  if (!what && is_bytes(ids)) {
    what = "bytes of text or of another file: both bytes of an id take the same values";
    out.todo = "`trireme prepare --input FILE --tokenizer TOKENIZER --output FOLDER` makes token files from text";
  }
  if (what) out.other = what;
}

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

constexpr const char* kBare = "nanoGPT token file, 16-bit ids";
constexpr const char* kBareWide = "token file, 32-bit ids";
constexpr const char* kTrust = "if they are 16-bit ids, use --data.trust";

/// A shard of llm.c: 256 numbers of 32 bits (magic, version, number of ids), then the ids.
constexpr uint64_t kShardHeader = 256 * sizeof(int32_t);
constexpr int32_t kGpt2Shard = 20240520, kLlama3Shard = 20240801, kEvaluationShard = 20240522;

struct ShardKind {
  int32_t magic, version;
  const char* model;
  uint64_t width;
};
constexpr ShardKind kShards[] = {{kGpt2Shard, 1, "GPT-2", 2}, {kLlama3Shard, 7, "Llama 3", 4}};

TokenLayout npy_layout(std::string_view file, const std::string& path) {
  const NpyHeader header = read_npy_header(file, path);
  const char* kSave = "python3 -c \"import numpy; numpy.save('NEW.npy', numpy.load('FILE').ravel().astype('<u4'))\"";
  require(header.shape.size() == 1, ErrorKind::data,
          "{} is a .npy file of {} dimensions, but tokens have one; flatten it: {}", path, header.shape.size(), kSave);
  const bool narrow = header.type == "<u2" || header.type == "<i2";
  require(narrow || header.type == "<u4" || header.type == "<i4", ErrorKind::data,
          "{} is a .npy file of '{}', but tokens are 16-bit or 32-bit ids ('<u2', '<u4'); convert it: {}", path,
          header.type, kSave);
  const uint64_t bytes = file.size() - header.data, width = narrow ? 2 : 4;
  require(bytes / width == header.shape[0] && bytes % width == 0, ErrorKind::data,
          "{}: its header declares {} ids, but {} bytes follow it: it was truncated or not written completely", path,
          header.shape[0], bytes);
  require(header.data % width == 0, ErrorKind::data, "{}: its ids begin at byte {}, which {} does not divide", path,
          header.data, width);
  return {fmt::format("NumPy's .npy, {}-bit ids", 8 * width), header.data, bytes, width};
}

int32_t word_of(std::string_view file, size_t index) {
  int32_t word = 0;
  std::memcpy(&word, file.data() + index * sizeof word, sizeof word);
  return word;
}

/// Whether the file begins like an llm.c shard: its magic, in either byte order, and a small version.
bool is_shard(std::string_view file, int32_t magic) {
  if (file.size() < 3 * sizeof(int32_t)) return false;
  const auto first = static_cast<uint32_t>(word_of(file, 0)), version = static_cast<uint32_t>(word_of(file, 1));
  const auto wanted = static_cast<uint32_t>(magic);
  return (first == wanted && version < 256) || (first == __builtin_bswap32(wanted) && __builtin_bswap32(version) < 256);
}

TokenLayout shard_layout(std::string_view file, const ShardKind& kind, const std::string& path) {
  require(file.size() >= kShardHeader && word_of(file, 0) == kind.magic && word_of(file, 1) == kind.version,
          ErrorKind::data,
          "{} begins like an llm.c shard for {}, but its header has another version or byte order or is truncated; "
          "only version {} in little-endian order is supported",
          path, kind.model, kind.version);
  const auto ids = static_cast<uint32_t>(word_of(file, 2));
  const uint64_t bytes = file.size() - kShardHeader;
  require(bytes == uint64_t{ids} * kind.width, ErrorKind::data,
          "{}: the header of this llm.c shard declares {} ids, but {} bytes follow it: it was truncated or not written "
          "to its end",
          path, ids, bytes);
  return {fmt::format("llm.c shard for {}, {}-bit ids", kind.model, 8 * kind.width), kShardHeader, bytes, kind.width};
}

/// Headers with supported ids, and headers of the same programs with unsupported ones.
TokenLayout layout_of(std::string_view file, const std::string& path) {
  if (is_npy(file)) return npy_layout(file, path);
  for (const ShardKind& kind : kShards) {
    if (is_shard(file, kind.magic)) return shard_layout(file, kind, path);
  }
  require(!is_shard(file, kEvaluationShard), ErrorKind::data,
          "{} is an llm.c file of multiple-choice questions, not training data; name a shard of tokens", path);
  if (const auto known = signature_of(file, path))
    fail(ErrorKind::data, "{} is {}, not a token file: {}", path, known->what, known->todo);
  return headerless_tokens(file, 2);
}

std::string with_path(std::string todo, const std::string& path) {
  for (size_t at = todo.find("FILE"); at != std::string::npos; at = todo.find("FILE", at + path.size()))
    todo.replace(at, 4, path);
  return todo;
}

void judge(std::string_view file, const TokenLayout& layout, const std::string& path) {
  const IdJudgement judged =
      judge_ids(std::as_bytes(std::span(file.data() + layout.offset, layout.bytes)), layout.width);
  require(judged.other.empty() || layout.offset > 0, ErrorKind::data,
          "{} has no sidecar, and its content looks like {}; {}; {}", path, judged.other, with_path(judged.todo, path),
          kTrust);
  constexpr double kMany = 0.5;  // real texts have an id 0 rarely
  if (judged.zeros > kMany)
    log::write_once(log::Level::warning,
                    fmt::format("{}: {:.0f} % of the sampled ids are 0{}", path, 100 * judged.zeros,
                                judged.ends_empty ? ", and its end is all zeros: was it written completely?" : ""));
}

}  // namespace

TokenLayout identify_tokens(std::string_view file, const std::string& path) {
  const TokenLayout layout = layout_of(file, path);
  judge(file, layout, path);
  return layout;
}

TokenLayout headerless_tokens(std::string_view file, uint64_t width) {
  return {width == 2 ? kBare : kBareWide, 0, file.size(), width};
}

}  // namespace trireme
