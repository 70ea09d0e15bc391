#include "ops/gpu_node.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "base/count.h"
#include "base/error.h"
#include "base/text.h"
#include "ops/nvml.h"

namespace trireme {
namespace {

constexpr int kLeastMajor = 8;  // of compute capability: bf16 in tensor cores

constexpr unsigned kTemperatureOfDie = 0, kUncorrected = 1, kSinceDriverLoad = 0, kProhibited = 2, kRemoteIsGpu = 0,
                   kPeerReads = 0, kPeersReach = 0;

std::optional<int> numa_node_of(const std::string& bus) {
  std::ifstream file("/sys/bus/pci/devices/" + nvml::linux_bus(bus) + "/numa_node");
  int node = -1;
  if (!(file >> node) || node < 0) return std::nullopt;
  return node;
}

std::optional<int> as_int(std::optional<unsigned> value) {
  if (!value) return std::nullopt;
  return static_cast<int>(*value);
}

NodeGpu read_gpu(const nvml::Library& library, nvml::Device device) {
  NodeGpu gpu;
  gpu.bus = nvml::bus_of(library, device);
  gpu.name = library.text<96>("nvmlDeviceGetName", device);
  gpu.uuid = library.text<96>("nvmlDeviceGetUUID", device);
  nvml::Memory memory{};
  const int answered = library.call("nvmlDeviceGetMemoryInfo", device, &memory);
  if (answered != nvml::kSuccess) {
    gpu.fault = "its memory cannot be read: " + library.reason(answered);
    return gpu;
  }
  gpu.memory_bytes = memory.total;
  gpu.free_bytes = memory.free;
  if (library.call("nvmlDeviceGetCudaComputeCapability", device, &gpu.major, &gpu.minor) != nvml::kSuccess)
    gpu.major = gpu.minor = 0;
  gpu.numa_node = numa_node_of(gpu.bus);
  const auto number = [&](const char* name) { return as_int(library.number<unsigned>(name, device)); };
  gpu.pcie_generation = number("nvmlDeviceGetCurrPcieLinkGeneration");
  gpu.pcie_width = number("nvmlDeviceGetCurrPcieLinkWidth");
  gpu.most_pcie_generation = number("nvmlDeviceGetMaxPcieLinkGeneration");
  gpu.most_pcie_width = number("nvmlDeviceGetMaxPcieLinkWidth");
  gpu.celsius = as_int(library.number<unsigned>("nvmlDeviceGetTemperature", device, kTemperatureOfDie));
  if (const auto milliwatts = number("nvmlDeviceGetPowerUsage")) gpu.watts = *milliwatts / 1000.0;
  if (const auto milliwatts = number("nvmlDeviceGetEnforcedPowerLimit")) gpu.most_watts = *milliwatts / 1000.0;
  if (const auto busy = library.number<nvml::Utilization>("nvmlDeviceGetUtilizationRates", device))
    gpu.busy_percent = static_cast<int>(busy->gpu);
  gpu.uncorrected_errors =
      library.number<unsigned long long>("nvmlDeviceGetTotalEccErrors", device, kUncorrected, kSinceDriverLoad);
  unsigned now = 0, pending = 0;
  gpu.mig = library.call("nvmlDeviceGetMigMode", device, &now, &pending) == nvml::kSuccess && now == 1;
  gpu.prohibited = number("nvmlDeviceGetComputeMode").value_or(0) == static_cast<int>(kProhibited);
  return gpu;
}

/// The NVLinks of a GPU that are up: by the bus of the other GPU, and "" for those to a switch.
std::vector<std::string> link_ends(const nvml::Library& library, nvml::Device device) {
  std::vector<std::string> ends;
  for (unsigned link = 0; link < nvml::kMostLinks; ++link) {
    if (library.number<unsigned>("nvmlDeviceGetNvLinkState", device, link).value_or(0) == 0) continue;
    const auto type = library.number<unsigned>("nvmlDeviceGetNvLinkRemoteDeviceType", device, link);
    const auto remote = library.number<nvml::Pci>("nvmlDeviceGetNvLinkRemotePciInfo_v2", device, link);
    ends.push_back(type.value_or(kRemoteIsGpu) == kRemoteIsGpu && remote ? nvml::bus_of(*remote) : "");
  }
  return ends;
}

std::string pci_link(const nvml::Library& library, nvml::Device a, nvml::Device b) {
  switch (library.number<unsigned>("nvmlDeviceGetTopologyCommonAncestor", a, b).value_or(0)) {
    case 10:
      return "PIX";
    case 20:
      return "PXB";
    case 30:
      return "PHB";
    case 40:
      return "NODE";
    case 50:
      return "SYS";
    default:
      return "";
  }
}

std::vector<std::vector<std::string>> read_links(const nvml::Library& library, const std::vector<nvml::Device>& devices,
                                                 const std::vector<NodeGpu>& gpus) {
  std::vector<std::vector<std::string>> ends;
  for (size_t i = 0; i < devices.size(); ++i)
    ends.push_back(gpus[i].fault.empty() ? link_ends(library, devices[i]) : std::vector<std::string>());
  std::vector<std::vector<std::string>> links(gpus.size(), std::vector<std::string>(gpus.size()));
  for (size_t i = 0; i < gpus.size(); ++i) {
    for (size_t j = 0; j < gpus.size(); ++j) {
      if (i == j || !gpus[i].fault.empty() || !gpus[j].fault.empty()) continue;
      // Through switches every GPU reaches every other one with all of its links.
      const auto to_switch = std::min(std::ranges::count(ends[i], ""), std::ranges::count(ends[j], ""));
      const auto direct = std::ranges::count(ends[i], gpus[j].bus);
      links[i][j] =
          direct + to_switch > 0 ? fmt::format("NV{}", direct + to_switch) : pci_link(library, devices[i], devices[j]);
    }
  }
  return links;
}

std::vector<std::pair<int, int>> read_apart(const nvml::Library& library, const std::vector<nvml::Device>& devices,
                                            const std::vector<NodeGpu>& gpus) {
  std::vector<std::pair<int, int>> apart;
  for (size_t i = 0; i < devices.size(); ++i) {
    for (size_t j = i + 1; j < devices.size(); ++j) {
      if (!gpus[i].fault.empty() || !gpus[j].fault.empty()) continue;
      const auto status = library.number<unsigned>("nvmlDeviceGetP2PStatus", devices[i], devices[j], kPeerReads);
      if (status.value_or(kPeersReach) != kPeersReach) apart.emplace_back(static_cast<int>(i), static_cast<int>(j));
    }
  }
  return apart;
}

void read_with(const nvml::Library& library, NodeGpus& node) {
  node.driver = library.text<80>("nvmlSystemGetDriverVersion");
  node.cuda = library.number<int>("nvmlSystemGetCudaDriverVersion_v2").value_or(0);
  const auto count = library.number<unsigned>("nvmlDeviceGetCount_v2").value_or(0);
  std::vector<nvml::Device> devices(count);
  for (unsigned i = 0; i < count; ++i) {
    const int found = library.call("nvmlDeviceGetHandleByIndex_v2", i, &devices[i]);
    node.gpus.push_back(found == nvml::kSuccess ? read_gpu(library, devices[i]) : NodeGpu{});
    if (found != nvml::kSuccess) node.gpus.back().fault = library.reason(found);
  }
  node.links = read_links(library, devices, node.gpus);
  node.apart = read_apart(library, devices, node.gpus);
  if (count == 0) node.why_none = fmt::format("driver {} reports no GPU", node.driver);
}

template <class T>
void put(Json& json, const char* key, const std::optional<T>& value) {
  if (value) json[key] = *value;
}
template <class T>
std::optional<T> get(const Json& json, const char* key) {
  if (!json.contains(key)) return std::nullopt;
  return json.at(key).get<T>();
}

}  // namespace

NodeGpus read_node_gpus() {
  NodeGpus node;
  try {
    const nvml::Session session;
    read_with(*session, node);
  } catch (const Error& e) {
    node.why_none =
        e.kind() == ErrorKind::io ? fmt::format("this node has no NVIDIA driver: {}", e.what()) : std::string(e.what());
  }
  return node;
}

namespace {

/// What keeps the i-th GPU from being used.
std::vector<std::string> obstacles_of(size_t i, const NodeGpu& gpu) {
  if (!gpu.fault.empty())
    return {fmt::format("GPU {}: {}; reset it (nvidia-smi --gpu-reset) or restart the node", i, gpu.fault)};
  std::vector<std::string> obstacles;
  if (gpu.major > 0 && gpu.major < kLeastMajor)
    obstacles.push_back(fmt::format("GPU {}: compute capability {}.{}, but at least {}.0 is needed", i, gpu.major,
                                    gpu.minor, kLeastMajor));
  if (gpu.prohibited)
    obstacles.push_back(fmt::format("GPU {}: its compute mode is prohibited; set it with `nvidia-smi -c DEFAULT`", i));
  if (gpu.mig)
    obstacles.push_back(
        fmt::format("GPU {}: MIG partitions it; turn MIG off with `nvidia-smi -mig 0` to use the whole GPU", i));
  return obstacles;
}

}  // namespace

std::vector<std::string> obstacles_of(const NodeGpus& node) {
  std::vector<std::string> obstacles;
  for (size_t i = 0; i < node.gpus.size(); ++i)
    std::ranges::move(obstacles_of(i, node.gpus[i]), std::back_inserter(obstacles));
  return obstacles;
}

std::vector<std::pair<std::string, std::string>> shared_facts_of(const NodeGpus& node) {
  if (node.gpus.empty()) return {};
  std::string links;
  for (const auto& row : node.links) {
    for (const std::string& link : row) links += (link.empty() ? "-" : link) + " ";
    if (!links.empty()) links.back() = '/';
  }
  if (!links.empty()) links.pop_back();
  return {{"driver", node.driver},
          {"number of GPUs", fmt::format("{}", node.gpus.size())},
          {"first GPU", node.gpus[0].name},
          {"links", links}};
}

std::vector<std::string> complaints_of(const NodeGpus& node) {
  std::vector<std::string> complaints;
  for (size_t i = 0; i < node.gpus.size(); ++i) {
    const NodeGpu& gpu = node.gpus[i];
    const auto add = [&](const std::string& text) { complaints.push_back(fmt::format("GPU {}: {}", i, text)); };
    std::ranges::move(obstacles_of(i, gpu), std::back_inserter(complaints));
    if (!gpu.fault.empty()) continue;
    if (gpu.uncorrected_errors.value_or(0) > 0)
      add(fmt::format("{} that ECC could not correct since the driver was loaded; see `nvidia-smi -q -d ECC`",
                      count_text(*gpu.uncorrected_errors, "memory error")));
    if (gpu.pcie_width && gpu.most_pcie_width && *gpu.pcie_width < *gpu.most_pcie_width)
      add(fmt::format("PCIe x{} in use, x{} possible; copies are slower", *gpu.pcie_width, *gpu.most_pcie_width));
    if (gpu.free_bytes < gpu.memory_bytes / 10 * 9)
      add(fmt::format("{} of its {} are free; `nvidia-smi` names the programs on it", human_bytes(gpu.free_bytes),
                      human_bytes(gpu.memory_bytes)));
  }
  for (const auto& [a, b] : node.apart)
    complaints.push_back(fmt::format(
        "GPU {} and GPU {} do not reach each other's memory: NCCL copies through the host's; `nvidia-smi topo -p2p r` "
        "says why",
        a, b));
  const NodeGpu* first = nullptr;
  for (const NodeGpu& gpu : node.gpus) {
    if (!gpu.fault.empty()) continue;
    if (first == nullptr) first = &gpu;
    if (gpu.name == first->name && gpu.memory_bytes == first->memory_bytes) continue;
    complaints.emplace_back("the GPUs are not all of one kind; a job runs at the speed of the slowest");
    break;
  }
  return complaints;
}

Json to_json(const NodeGpus& node) {
  Json gpus = Json::array();
  for (const NodeGpu& gpu : node.gpus) {
    Json one = {{"bus", gpu.bus}, {"name", gpu.name}, {"uuid", gpu.uuid}};
    if (!gpu.fault.empty()) {
      one["fault"] = gpu.fault;
    } else {
      one.update({{"compute_capability", {gpu.major, gpu.minor}},
                  {"memory_bytes", gpu.memory_bytes},
                  {"free_bytes", gpu.free_bytes},
                  {"mig", gpu.mig},
                  {"prohibited", gpu.prohibited}});
      put(one, "numa_node", gpu.numa_node);
      put(one, "pcie_generation", gpu.pcie_generation);
      put(one, "pcie_width", gpu.pcie_width);
      put(one, "most_pcie_generation", gpu.most_pcie_generation);
      put(one, "most_pcie_width", gpu.most_pcie_width);
      put(one, "watts", gpu.watts);
      put(one, "most_watts", gpu.most_watts);
      put(one, "celsius", gpu.celsius);
      put(one, "busy_percent", gpu.busy_percent);
      put(one, "uncorrected_errors", gpu.uncorrected_errors);
    }
    gpus.push_back(std::move(one));
  }
  Json json = {{"driver", node.driver},
               {"cuda", node.cuda},
               {"gpus", std::move(gpus)},
               {"links", node.links},
               {"apart", node.apart}};
  if (!node.why_none.empty()) json["why_none"] = node.why_none;
  return json;
}

NodeGpus node_gpus_from_json(const Json& json) {
  try {
    NodeGpus node{.driver = json.at("driver"), .cuda = json.at("cuda"), .why_none = json.value("why_none", "")};
    node.links = json.at("links").get<std::vector<std::vector<std::string>>>();
    node.apart = json.at("apart").get<std::vector<std::pair<int, int>>>();
    for (const Json& one : json.at("gpus")) {
      NodeGpu gpu{.name = one.at("name"), .uuid = one.at("uuid"), .bus = one.at("bus")};
      gpu.fault = one.value("fault", "");
      if (gpu.fault.empty()) {
        gpu.major = one.at("compute_capability").at(0);
        gpu.minor = one.at("compute_capability").at(1);
        gpu.memory_bytes = one.at("memory_bytes");
        gpu.free_bytes = one.at("free_bytes");
        gpu.mig = one.at("mig");
        gpu.prohibited = one.at("prohibited");
        gpu.numa_node = get<int>(one, "numa_node");
        gpu.pcie_generation = get<int>(one, "pcie_generation");
        gpu.pcie_width = get<int>(one, "pcie_width");
        gpu.most_pcie_generation = get<int>(one, "most_pcie_generation");
        gpu.most_pcie_width = get<int>(one, "most_pcie_width");
        gpu.watts = get<double>(one, "watts");
        gpu.most_watts = get<double>(one, "most_watts");
        gpu.celsius = get<int>(one, "celsius");
        gpu.busy_percent = get<int>(one, "busy_percent");
        gpu.uncorrected_errors = get<uint64_t>(one, "uncorrected_errors");
      }
      node.gpus.push_back(std::move(gpu));
    }
    return node;
  } catch (const Json::exception& e) {
    fail(ErrorKind::data, "not a description of a node's GPUs: {}", e.what());
  }
}

}  // namespace trireme
