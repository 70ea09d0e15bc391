#include "bench/comm/options.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <utility>

#include "base/error.h"

namespace trireme::comm_bench {
namespace {

struct NamedCollective {
  const char* name;
  const char* other;  ///< nccl-tests' or MPI's spelling
  Collective collective;
};

constexpr NamedCollective kCollectives[] = {
    {"all_reduce", "allreduce", Collective::all_reduce},
    {"all_gather", "allgather", Collective::all_gather},
    {"reduce_scatter", "reducescatter", Collective::reduce_scatter},
    {"broadcast", "bcast", Collective::broadcast},
    {"reduce", "reduce", Collective::reduce},
    {"alltoall", "all_to_all", Collective::all_to_all},
    {"gather", "gather", Collective::gather},
    {"scatter", "scatter", Collective::scatter},
    {"sendrecv", "send_receive", Collective::send_receive},
};

struct NamedElement {
  const char* name;
  const char* other;
  Element element;
};

constexpr NamedElement kElements[] = {
    {"int8", "i8", Element::i8},         {"uint8", "u8", Element::u8},   {"int32", "i32", Element::i32},
    {"uint32", "u32", Element::u32},     {"int64", "i64", Element::i64}, {"uint64", "u64", Element::u64},
    {"half", "f16", Element::f16},       {"float", "f32", Element::f32}, {"double", "f64", Element::f64},
    {"bfloat16", "bf16", Element::bf16},
};

constexpr std::array kOps = {"sum", "prod", "min", "max", "avg"};

}  // namespace

std::vector<Subject> parse_subjects(const std::vector<std::string>& names) {
  std::vector<Subject> subjects;
  for (std::string name : names) {
    if (name.ends_with("_perf")) name.resize(name.size() - 5);
    if (name == "all") {
      for (const NamedCollective& known : kCollectives) subjects.push_back({known.name, known.collective});
    }
    if (name == "all" || name == "gradient") {
      subjects.push_back({"gradient", Collective::all_reduce, true});
      continue;
    }
    const auto* known = std::ranges::find_if(
        kCollectives, [&](const NamedCollective& entry) { return name == entry.name || name == entry.other; });
    require(known != std::end(kCollectives), ErrorKind::usage,
            "\"{}\" is not supported; expected all_reduce, all_gather, reduce_scatter, broadcast, reduce, "
            "alltoall, gather, scatter, sendrecv, gradient or all",
            name);
    subjects.push_back({known->name, known->collective});
  }
  return subjects;
}

int64_t parse_bytes(const std::string& text, std::string_view flag) {
  double value = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const std::string unit(stop, text.data() + text.size());
  constexpr std::array<std::pair<const char*, double>, 7> kUnits = {
      {{"", 1}, {"K", 1024}, {"k", 1024}, {"M", 1 << 20}, {"m", 1 << 20}, {"G", 1 << 30}, {"g", 1 << 30}}};
  const auto* known = std::ranges::find_if(kUnits, [&](const auto& entry) { return unit == entry.first; });
  require(error == std::errc() && known != kUnits.end() && value >= 0 && value <= 1e15, ErrorKind::usage,
          "{} {}: expected bytes such as 8, 32M or 1G", flag, text);
  return static_cast<int64_t>(value * known->second);
}

std::vector<int64_t> sizes(const Options& options) {
  require(options.least_bytes <= options.most_bytes, ErrorKind::usage, "-b {} is above -e {}", options.least_bytes,
          options.most_bytes);
  const bool moves = options.factor > 0 ? options.factor > 1 && options.least_bytes > 0 : options.step_bytes > 0;
  require(moves || options.least_bytes == options.most_bytes, ErrorKind::usage,
          "the size never grows from -b {} to -e {}; set -f 2 and a size above 0, or -i with a step",
          options.least_bytes, options.most_bytes);
  std::vector<int64_t> found;
  for (int64_t size = options.least_bytes; size <= options.most_bytes;
       size = options.factor > 0 ? size * options.factor : size + options.step_bytes) {
    found.push_back(size);
    if (options.least_bytes == options.most_bytes) break;
  }
  return found;
}

std::vector<Element> parse_elements(const std::string& text) {
  std::vector<Element> found;
  for (const NamedElement& known : kElements) {
    if (text == "all" || text == known.name || text == known.other) found.push_back(known.element);
  }
  require(!found.empty(), ErrorKind::usage,
          "-d {}: expected int8, uint8, int32, uint32, int64, uint64, half, float, double, bfloat16 or all", text);
  return found;
}

std::vector<ReduceOp> parse_ops(const std::string& text) {
  std::vector<ReduceOp> found;
  for (size_t i = 0; i < kOps.size(); ++i) {
    if (text == "all" || text == kOps[i]) found.push_back(static_cast<ReduceOp>(i));
  }
  require(!found.empty(), ErrorKind::usage, "-o {}: expected sum, prod, min, max, avg or all", text);
  return found;
}

const char* name_of(Element element) { return std::ranges::find(kElements, element, &NamedElement::element)->name; }

const char* name_of(ReduceOp op) { return kOps[static_cast<size_t>(op)]; }

bool reduces(Collective collective) {
  return collective == Collective::all_reduce || collective == Collective::reduce_scatter ||
         collective == Collective::reduce;
}

bool has_root(Collective collective) {
  return collective == Collective::broadcast || collective == Collective::reduce || collective == Collective::gather ||
         collective == Collective::scatter;
}

int parts_of(Collective collective, int ranks) {
  switch (collective) {
    case Collective::all_gather:
    case Collective::reduce_scatter:
    case Collective::all_to_all:
    case Collective::gather:
    case Collective::scatter:
      return ranks;
    default:
      return 1;
  }
}

double bus_factor(const Subject& subject, int ranks) {
  const double n = ranks;
  if (subject.is_gradient || subject.collective == Collective::all_reduce) return 2 * (n - 1) / n;
  return parts_of(subject.collective, ranks) > 1 ? (n - 1) / n : 1;
}

}  // namespace trireme::comm_bench
