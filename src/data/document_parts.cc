#include "data/document_parts.h"

#include <algorithm>
#include <string_view>

#include "base/error.h"
#include "base/text.h"

namespace trireme {
namespace {

constexpr size_t kParts = 3;

double read_share(std::string_view text, const std::string& split) {
  while (text.starts_with(' ')) text.remove_prefix(1);
  while (text.ends_with(' ')) text.remove_suffix(1);
  const std::optional<double> share = parse_number(text);
  require(share && *share >= 0, ErrorKind::usage,
          "split \"{}\": \"{}\" is not a number >= 0; write shares like \"969, 30, 1\"", split, text);
  return *share;
}

}  // namespace

PartBorders part_borders(const std::string& split, uint64_t documents) {
  const char separator = split.find(',') != std::string::npos ? ',' : '/';
  std::array<double, kParts> shares{};
  size_t count = 0;
  double sum = 0;
  for (size_t at = 0; at <= split.size();) {
    const size_t end = std::min(split.find(separator, at), split.size());
    require(count < kParts, ErrorKind::usage, "split \"{}\" has more than the three shares train, valid and test",
            split);
    shares[count] = read_share(std::string_view(split).substr(at, end - at), split);
    sum += shares[count++];
    at = end + 1;
  }
  require(sum > 0, ErrorKind::usage, "split \"{}\" gives every part a share of 0", split);
  const auto total = static_cast<int64_t>(documents);
  std::array<int64_t, kParts + 1> borders{};
  for (size_t i = 0; i < kParts; ++i) {
    // halves to even, as Python rounds; nearbyint() does so by default
    const double part = std::nearbyint(shares[i] / sum * static_cast<double>(total));
    borders[i + 1] = borders[i] + static_cast<int64_t>(part);
  }
  const int64_t excess = borders[kParts] - total;
  PartBorders out{};
  for (size_t i = 1; i <= kParts; ++i) out[i] = static_cast<uint64_t>(std::max<int64_t>(0, borders[i] - excess));
  return out;
}

}  // namespace trireme
