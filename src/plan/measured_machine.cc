#include "plan/node_type.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "base/count.h"
#include "base/error.h"
#include "base/json.h"
#include "base/json_text.h"
#include "base/names.h"

namespace trireme {
namespace {

constexpr size_t kMostBytes = size_t{64} << 20;
constexpr const char* kExpected = "expected a file of `trireme bench node -J` or `trireme bench comm -J`";

const Json& member(const Json& json, const char* key, const std::string& where) {
  require(json.is_object() && json.contains(key), ErrorKind::data, "{}: {} is missing; {}", where, key, kExpected);
  return json.at(key);
}

double positive(const Json& json, const char* key, const std::string& where) {
  const Json& value = member(json, key, where);
  require(value.is_number() && value.get<double>() > 0 && std::isfinite(value.get<double>()), ErrorKind::data,
          "{}: {} is {}, expected a positive number; measure again", where, key, dump_json(value));
  constexpr double kMost = 1e18;  // bytes and operations per second of no node are more
  require(value.get<double>() <= kMost, ErrorKind::data, "{}: {} is {}, expected at most {:g}; measure again", where,
          key, dump_json(value), kMost);
  return value.get<double>();
}

int64_t count(const Json& json, const char* key, const std::string& where) {
  const double value = positive(json, key, where);
  constexpr double kMost = 1e9;
  require(value == std::floor(value) && value <= kMost, ErrorKind::data,
          "{}: {} is {}, expected a whole number up to {:g}; measure again", where, key, dump_json(json.at(key)),
          kMost);
  return static_cast<int64_t>(value);
}

std::string text(const Json& json, const char* key, const std::string& where) {
  const Json& value = member(json, key, where);
  require(value.is_string(), ErrorKind::data, "{}: {} is {}, expected text", where, key, dump_json(value));
  return value.get<std::string>();
}

MeasuredProduct product_of(const Json& json, const std::string& where) {
  MeasuredProduct product;
  product.in = count(json, "in", where);
  product.out = count(json, "out", where);
  product.flops = positive(json, "flops_per_s", where);
  const std::string kind = text(json, "kind", where), dtype = text(json, "dtype", where);
  const std::optional<DType> known = value_named<DType>(dtype);
  require(known.has_value(), ErrorKind::data, "{}: dtype is \"{}\", expected f32 or bf16", where, dtype);
  require(kind == "forward" || kind == "input" || kind == "weight", ErrorKind::data,
          "{}: kind is \"{}\", expected forward, input or weight", where, kind);
  product.dtype = *known;
  product.kind = kind == "forward" ? GemmKind::forward : kind == "input" ? GemmKind::input : GemmKind::weight;
  return product;
}

struct NodeFile {
  std::string path, host;
  NodeType type;
  double taken = 0;  ///< MeasuredMachine::taken
};

NodeFile node_file(const Json& json, const std::string& path) {
  NodeFile file{path, text(json, "host", path), {}, 0};
  NodeType& type = file.type;
  type.processor = text(json, "cpu", path);
  type.instruction_set = text(json, "instruction_set", path);
  type.cores = count(json, "cores", path);
  const int64_t threads = count(json, "threads", path);
  require(threads == type.cores, ErrorKind::mismatch,
          "{}: {} measured a node of {}, so its rates are not those of the node; measure without --threads", path,
          count_text(threads, "thread"), count_text(type.cores, "core"));
  type.memory_gb = positive(json, "memory_bytes", path) / 1e9;
  type.memory_gb_per_s =
      std::max(positive(json, "copy_bytes_per_s", path), positive(json, "triad_bytes_per_s", path)) / 1e9;
  const Json& products = member(json, "gemms", path);
  require(products.is_array() && !products.empty(), ErrorKind::data, "{}: gemms is empty; {}", path, kExpected);
  double half = 0, full = 0;
  for (const Json& one : products) {
    type.products.push_back(product_of(one, path));
    double& best = type.products.back().dtype == DType::f32 ? full : half;
    best = std::max(best, type.products.back().flops / 1e12);
  }
  require(full > 0, ErrorKind::data, "{}: gemms has no product in f32; {}", path, kExpected);
  type.f32_tflops = full;
  type.tflops = half > 0 ? half : full;
  type.product_share = type.memory_share = type.link_share = type.network_share = 1;
  if (json.contains("processors_taken")) {  // not in a file of an earlier version
    const Json& taken = json.at("processors_taken");
    require(taken.is_number() && taken.get<double>() >= 0 && taken.get<double>() <= 1, ErrorKind::data,
            "{}: processors_taken is {}, expected a number from 0 to 1; measure again", path, dump_json(taken));
    file.taken = taken.get<double>();
  }
  type.name = "measured on " + file.host;
  type.source = path;
  return file;
}

struct LinkFile {
  std::string path;
  std::vector<std::string> hosts;  ///< of each rank
  double ring = 0;                 ///< bytes per second of a rank that an all-reduce in a ring would need for this time
  double work = 0;                 ///< seconds of computing that a rank loses per byte of them
};

/// From the largest gradient exchange, else the rate of plain messages only.
void take_rates(LinkFile& file, const Json& json, int64_t ranks) {
  const std::string& path = file.path;
  require(!json.contains("gradient") || json.at("gradient").is_array(), ErrorKind::data,
          "{}: gradient is {}, expected a list; {}", path, dump_json(json.value("gradient", Json())), kExpected);
  if (!json.contains("gradient") || json.at("gradient").empty()) {
    file.ring = positive(member(json, "link", path), "measured_rate", path);
    return;
  }
  const Json& largest = json.at("gradient").back();
  const std::string wire = text(member(json, "config", path), "wire", path);
  const auto n = static_cast<double>(ranks);
  const double bytes = 2 * (n - 1) / n * positive(largest, "size", path) * (wire == "f32" ? 1 : 0.5);
  file.ring = bytes / positive(largest, "gradient_seconds", path);
  if (!largest.contains("lost_seconds")) return;  // a file of an earlier version
  const Json& lost = largest.at("lost_seconds");
  require(lost.is_number() && lost.get<double>() >= 0, ErrorKind::data,
          "{}: lost_seconds is {}, expected a number from 0; measure again", path, dump_json(lost));
  file.work = lost.get<double>() / bytes;
}

LinkFile link_file(const Json& json, const std::string& path) {
  LinkFile file{path, {}, 0, 0};
  for (const Json& rank : member(json, "devices", path)) {
    const std::string words = rank.is_string() ? rank.get<std::string>() : "";  // "Pid 123 on HOST"
    const size_t at = words.rfind(" on ");
    require(at != std::string::npos, ErrorKind::data, "{}: devices has {}, expected \"Pid N on HOST\"", path,
            dump_json(rank));
    file.hosts.push_back(words.substr(at + 4));
  }
  require(file.hosts.size() > 1, ErrorKind::data, "{}: measured with {}, expected at least 2", path,
          count_text(file.hosts.size(), "rank"));
  take_rates(file, json, static_cast<int64_t>(file.hosts.size()));
  return file;
}

void require_alike(const NodeFile& a, const NodeFile& b) {
  const bool same = a.type.cores == b.type.cores && a.type.instruction_set == b.type.instruction_set;
  require(same, ErrorKind::mismatch,
          "the measured nodes differ: {} ({}) has {} with {}, {} ({}) has {} with {}; plan with files of equal nodes",
          a.host, a.path, count_text(a.type.cores, "core"), a.type.instruction_set, b.host, b.path,
          count_text(b.type.cores, "core"), b.type.instruction_set);
}

/// Takes the slower rate of each kind.
void take_slower(NodeType& type, const NodeType& other) {
  type.memory_gb = std::min(type.memory_gb, other.memory_gb);
  type.memory_gb_per_s = std::min(type.memory_gb_per_s, other.memory_gb_per_s);
  type.tflops = std::min(type.tflops, other.tflops);
  type.f32_tflops = std::min(type.f32_tflops, other.f32_tflops);
  for (MeasuredProduct& product : type.products) {
    for (const MeasuredProduct& same : other.products) {
      if (same.kind == product.kind && same.in == product.in && same.out == product.out && same.dtype == product.dtype)
        product.flops = std::min(product.flops, same.flops);
    }
  }
}

void take_links(MeasuredMachine& machine, const LinkFile& file, const std::set<std::string>& hosts) {
  for (const std::string& host : file.hosts)
    require(hosts.contains(host), ErrorKind::mismatch,
            "{} was measured on {}, but no file of `bench node` is of this host: they are of {}; measure the nodes of "
            "the job",
            file.path, host, fmt::join(hosts, ", "));
  const std::set<std::string> used(file.hosts.begin(), file.hosts.end());
  const auto ranks = static_cast<double>(file.hosts.size()), each = ranks / static_cast<double>(used.size());
  if (used.size() == 1) {
    machine.node.link_gb_per_s = file.ring / 1e9;
    machine.node.link_work = file.work;
    return;
  }
  machine.network = true;
  // Each rank sends to the ranks of all other hosts, so that the ranks of a host share its network.
  const double rate = file.ring * each * (ranks - each) / (ranks - 1) * 8 / 1e9;
  double& network = machine.node.network_gbit_per_s;
  network = network > 0 ? std::min(network, rate) : rate;
  machine.node.network_work = std::max(machine.node.network_work, file.work);
}

}  // namespace

MeasuredMachine read_measured_machine(const std::vector<std::string>& files) {
  std::vector<NodeFile> nodes;
  std::vector<LinkFile> links;
  for (const std::string& path : files) {
    const Json json = read_json(path, kMostBytes);
    if (json.is_object() && json.contains("gemms")) {
      nodes.push_back(node_file(json, path));
    } else if (json.is_object() && json.contains("devices")) {
      links.push_back(link_file(json, path));
    } else {
      fail(ErrorKind::data, "{}: neither gemms nor devices; {}", path, kExpected);
    }
  }
  require(!nodes.empty(), ErrorKind::data, "{}: no file of `trireme bench node -J`; add one of each node",
          fmt::join(files, ", "));
  MeasuredMachine machine;
  machine.node = nodes.front().type;
  machine.host = nodes.front().host;
  std::set<std::string> hosts;
  for (const NodeFile& node : nodes) {
    require_alike(nodes.front(), node);
    take_slower(machine.node, node.type);
    if (node.taken > machine.taken) machine.taken = node.taken, machine.busy = node.path;
    hosts.insert(node.host);
  }
  for (const LinkFile& link : links) take_links(machine, link, hosts);
  return machine;
}

void require_same_machine(const MeasuredMachine& measured, const NodeType& type) {
  const NodeType& node = measured.node;
  constexpr double kNear = 0.15;  // a system keeps some memory for itself
  const bool memory = std::abs(node.memory_gb / type.memory_gb - 1) <= kNear;
  const bool kernels = type.instruction_set.empty() || node.instruction_set == type.instruction_set;
  require(type.gpus == 0 && node.cores == type.cores && kernels && memory, ErrorKind::mismatch,
          "the measured files are of another machine: {} has {} with {} and {:.0f} GB, but a node of type {} has {}{} "
          "and {:.0f} GB; measure on such a node, or leave out --node",
          measured.host, count_text(node.cores, "core"), node.instruction_set, node.memory_gb, type.name,
          type.gpus > 0 ? count_text(type.gpus, "GPU") : count_text(type.cores, "core"),
          type.instruction_set.empty() ? "" : " with " + type.instruction_set, type.memory_gb);
}

}  // namespace trireme
