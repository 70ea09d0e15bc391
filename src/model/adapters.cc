#include "model/adapters.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <set>
#include <tuple>

#include "base/error.h"
#include "model/spec.h"

namespace trireme {
namespace {

constexpr const char* kExample = "attention.qkv.query in 0-29: rank 16, scale 2";

/// Reads Spec::adapters from its beginning to its end.
class Reader {
 public:
  explicit Reader(const std::string& text) : text_(text), rest_(text) {}

  bool done() const { return rest_.empty(); }
  bool skip(std::string_view word) {
    if (!rest_.starts_with(word)) return false;
    rest_.remove_prefix(word.size());
    return true;
  }
  void expect(std::string_view word) {
    if (!skip(word)) refuse();
  }
  /// Text before the word, which is skipped, too.
  std::string_view until(std::string_view word) {
    const size_t end = rest_.find(word);
    if (end == std::string_view::npos) refuse();
    const std::string_view text = rest_.substr(0, end);
    rest_.remove_prefix(end + word.size());
    return text;
  }
  template <class Number>
  Number number() {
    Number value{};
    const auto [end, fault] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), value);
    if (fault != std::errc()) refuse();
    rest_.remove_prefix(static_cast<size_t>(end - rest_.data()));
    return value;
  }
  [[noreturn]] void refuse() const {
    fail(ErrorKind::config, "model: adapters are \"{}\", expected like \"{}\"", text_, kExample);
  }

 private:
  const std::string& text_;
  std::string_view rest_;
};

/// "attention.qkv.query" as the linear and its part.
std::pair<std::string_view, AdapterPart> linear_and_part(std::string_view name, const Reader& reader) {
  for (const std::string_view linear : kBlockLinears) {
    if (name == linear) return {linear, AdapterPart::all};
    if (!name.starts_with(linear) || name[linear.size()] != '.') continue;
    if (const auto part = value_named<AdapterPart>(name.substr(linear.size() + 1))) return {linear, *part};
  }
  reader.refuse();
}

std::string_view short_name(std::string_view linear) {
  return linear.substr(linear.find('.', linear.find('.') + 1) + 1);
}

int64_t block_of(std::string_view linear) {
  int64_t block = -1;
  const std::string_view number = linear.substr(linear.find('.') + 1);
  (void)std::from_chars(number.data(), number.data() + number.size(), block);
  return block;
}

bool has_part(const Spec& spec, std::string_view linear, AdapterPart part) {
  switch (part) {
    case AdapterPart::all:
      return true;
    case AdapterPart::gate:
    case AdapterPart::up:
      return linear == "mlp.in" && spec.gated;
    case AdapterPart::mixed:
    case AdapterPart::output_gate:
    case AdapterPart::beta:
    case AdapterPart::decay:
      return linear == "delta.in";
    default:
      return linear == "attention.qkv";
  }
}

/// Blocks as "0-3, 5".
std::string ranges_of(const std::vector<int64_t>& blocks) {
  std::vector<std::string> ranges;
  for (size_t i = 0; i < blocks.size();) {
    size_t end = i;
    while (end + 1 < blocks.size() && blocks[end + 1] == blocks[end] + 1) ++end;
    ranges.push_back(end == i ? fmt::format("{}", blocks[i]) : fmt::format("{}-{}", blocks[i], blocks[end]));
    i = end + 1;
  }
  return fmt::format("{}", fmt::join(ranges, ", "));
}

auto order_of(const Adapter& adapter) {
  return std::tuple(block_of(adapter.linear),
                    std::ranges::find(kBlockLinears, short_name(adapter.linear)) - kBlockLinears, adapter.part);
}

void read_one(const Spec& spec, Reader& reader, std::vector<Adapter>& adapters) {
  const auto [linear, part] = linear_and_part(reader.until(" in "), reader);
  std::vector<int64_t> blocks;
  do {
    const auto first = reader.number<int64_t>();
    const int64_t last = reader.skip("-") ? reader.number<int64_t>() : first;
    require(0 <= first && first <= last && last < spec.layers, ErrorKind::config,
            "model: adapters of blocks {} to {}, but the model has blocks 0 to {}", first, last, spec.layers - 1);
    for (int64_t block = first; block <= last; ++block) blocks.push_back(block);
  } while (reader.skip(", "));
  reader.expect(": rank ");
  const auto rank = reader.number<int64_t>();
  reader.expect(", scale ");
  const auto scale = reader.number<float>();
  const bool magnitude = reader.skip(", magnitudes");
  require(rank > 0 && scale > 0, ErrorKind::config,
          "model: an adapter has rank {} and scale {}, expected numbers above 0", rank, scale);
  require(has_part(spec, linear, part), ErrorKind::config, "model: {} has no part {}", linear, name_of(part));
  for (const int64_t block : blocks) {
    require(linear.starts_with("mlp.") || linear.starts_with("delta.") == spec.has_state(block), ErrorKind::config,
            "model: block {} has no linear {}, because it {} a state", block, linear,
            spec.has_state(block) ? "has" : "does not have");
    adapters.push_back({fmt::format("block.{}.{}", block, linear), part, rank, scale, magnitude});
  }
}

}  // namespace

std::string Adapter::b() const {
  return part == AdapterPart::all ? linear + ".lora_B" : fmt::format("{}.lora_B.{}", linear, name_of(part));
}

std::string Adapter::magnitudes() const {
  return part == AdapterPart::all ? linear + ".lora_magnitude"
                                  : fmt::format("{}.lora_magnitude.{}", linear, name_of(part));
}

std::string adapters_text(std::vector<Adapter> adapters) {
  std::ranges::sort(adapters, {}, order_of);
  std::vector<std::pair<std::tuple<std::string, int64_t, float, bool>, std::vector<int64_t>>> groups;
  for (const Adapter& adapter : adapters) {
    std::string name(short_name(adapter.linear));
    if (adapter.part != AdapterPart::all) name += fmt::format(".{}", name_of(adapter.part));
    const std::tuple key(std::move(name), adapter.rank, adapter.scale, adapter.magnitude);
    auto group = std::ranges::find(groups, key, [](const auto& g) { return g.first; });
    if (group == groups.end()) group = groups.insert(groups.end(), {key, {}});
    group->second.push_back(block_of(adapter.linear));
  }
  std::vector<std::string> parts;
  for (const auto& [key, blocks] : groups)
    parts.push_back(fmt::format("{} in {}: rank {}, scale {}{}", std::get<0>(key), ranges_of(blocks), std::get<1>(key),
                                std::get<2>(key), std::get<3>(key) ? ", magnitudes" : ""));
  return fmt::format("{}", fmt::join(parts, "; "));
}

std::vector<Adapter> adapters_of(const Spec& spec) {
  std::vector<Adapter> adapters;
  for (Reader reader(spec.adapters); !reader.done();) {
    read_one(spec, reader, adapters);
    if (!reader.done()) reader.expect("; ");
  }
  std::ranges::sort(adapters, {}, order_of);
  for (size_t i = 1; i < adapters.size(); ++i) {
    const Adapter &a = adapters[i - 1], &b = adapters[i];
    const bool overlap = a.linear == b.linear && (a.part == AdapterPart::all || a.part == b.part);
    require(!overlap, ErrorKind::config, "model: {} has two adapters, of {} and of {}", a.linear, name_of(a.part),
            name_of(b.part));
  }
  return adapters;
}

std::vector<Adapter> adapters_of(const Spec& spec, std::string_view linear) {
  if (spec.adapters.empty()) return {};
  std::vector<Adapter> adapters = adapters_of(spec);
  std::erase_if(adapters, [&](const Adapter& adapter) { return adapter.linear != linear; });
  return adapters;
}

RowPattern outputs_of(const Spec& spec, AdapterPart part) {
  const int64_t head = spec.head_dim(), queries = spec.query_vectors() * head, all = queries + 2 * head;
  const int64_t of_delta = std::max<int64_t>(spec.delta_key_heads, 1), delta = spec.delta_width() / of_delta;
  const int64_t mixed = spec.delta_mixed_width() / of_delta, gates = spec.delta_value_width() / of_delta;
  switch (part) {
    case AdapterPart::all:
      return {};
    case AdapterPart::query:
      return {0, queries, all};
    case AdapterPart::key:
      return {queries, head, all};
    case AdapterPart::value:
      return {queries + head, head, all};
    case AdapterPart::gate:
      return {0, 1, 2};
    case AdapterPart::up:
      return {1, 1, 2};
    case AdapterPart::mixed:
      return {0, mixed, delta};
    case AdapterPart::output_gate:
      return {mixed, gates, delta};
    case AdapterPart::beta:
      return {mixed + gates, spec.delta_group(), delta};
    case AdapterPart::decay:
      return {mixed + gates + spec.delta_group(), spec.delta_group(), delta};
  }
  return {};
}

AdapterSizes adapter_sizes(const Spec& spec, int tensor_size) {
  AdapterSizes sizes;
  std::map<std::string, int64_t> ranks;
  for (const Adapter& adapter : adapters_of(spec)) {
    ranks[adapter.linear] += adapter.rank;
    sizes.magnitudes |= adapter.magnitude;
  }
  for (const auto& [linear, rank] : ranks) {
    const std::string_view name = short_name(linear);
    const bool by_rows = name == "attention.qkv" || name == "mlp.in" || name == "delta.in";
    const int64_t cut = (name == "attention.qkv"   ? spec.qkv_width()
                         : name == "attention.out" ? spec.attention_width()
                         : name == "delta.in"      ? spec.delta_width()
                         : name == "delta.out"     ? spec.delta_value_width()
                         : name == "mlp.in"        ? spec.mlp_in_width()
                                                   : spec.inner_width) /
                        tensor_size;
    sizes.rank = std::max(sizes.rank, rank);
    sizes.inputs = std::max(sizes.inputs, by_rows ? spec.width : cut);
    sizes.outputs = std::max(sizes.outputs, by_rows ? cut : spec.width);
  }
  return sizes;
}

}  // namespace trireme
