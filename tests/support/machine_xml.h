#pragma once
// Machines with GPUs in the XML that hwloc reads.

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <string>
#include <string_view>
#include <vector>

namespace trireme {

/// A machine in hwloc's XML: its NUMA nodes are spread over the sockets, and cores over the nodes; the second hardware
/// threads of all cores come after the first ones.
class MachineXml {
 public:
  MachineXml(int sockets, int nodes, int cores, int threads = 1)
      : sockets_(sockets), nodes_(nodes), cores_(cores), threads_(threads), devices_(static_cast<size_t>(nodes)) {}

  /// A GPU and, on the same PCIe switch, a network device of that name and type; "": none.
  MachineXml& gpu(int node, const std::string& bus, const std::string& network = "", const char* type = "3") {
    std::string& text = devices_[static_cast<size_t>(node)];
    const std::string domain = bus.substr(0, 4), number = bus.substr(5, 2);
    // A root port, and a switch below it.
    text += fmt::format(
        "<object type=\"Bridge\" gp_index=\"{}\" bridge_type=\"0-1\" depth=\"0\" bridge_pci=\"{}:[{}-{}]\">", next_++,
        domain, number, number);
    text += fmt::format(
        "<object type=\"PCIDev\" gp_index=\"{}\" pci_busid=\"{}\" pci_type=\"0302 [10de:20b2] [10de:1463] a1\" "
        "pci_link_speed=\"31.5\"/>",
        next_++, bus);
    if (!network.empty()) {
      text += fmt::format(
          "<object type=\"PCIDev\" gp_index=\"{}\" pci_busid=\"{}:{}:01.0\" pci_type=\"0207 [15b3:101b] [15b3:0001] "
          "00\" pci_link_speed=\"31.5\"><object type=\"OSDev\" gp_index=\"{}\" name=\"{}\" "
          "osdev_type=\"{}\"/></object>",
          next_, domain, number, next_ + 1, network, type);
      next_ += 2;
    }
    text += "</object>\n";
    return *this;
  }

  std::string xml() {
    const int all = cores_ * threads_;
    std::string text =
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<!DOCTYPE topology SYSTEM \"hwloc2.dtd\">\n<topology "
        "version=\"2.0\">\n";
    text += object("Machine", 0, range(0, all), range(0, nodes_));
    for (int socket = 0; socket < sockets_; ++socket) {
      text += object("Package", socket, of_nodes(socket * per_socket(), per_socket()),
                     range(socket * per_socket(), per_socket()));
      for (int node = socket * per_socket(); node < (socket + 1) * per_socket(); ++node) add_node(text, node);
      text += "</object>\n";
    }
    return text + "</object>\n</topology>\n";
  }

 private:
  int per_socket() const { return nodes_ / sockets_; }
  int per_node() const { return cores_ / nodes_; }

  static std::string mask(const std::vector<int>& bits) {
    std::vector<uint32_t> words(1 + static_cast<size_t>(*std::ranges::max_element(bits)) / 32);
    for (const int bit : bits) words[static_cast<size_t>(bit) / 32] |= uint32_t{1} << (bit % 32);
    std::string text;
    for (auto word = words.rbegin(); word != words.rend(); ++word)
      text += fmt::format("{}0x{:08x}", text.empty() ? "" : ",", *word);
    return text;
  }
  static std::string range(int first, int count) {
    std::vector<int> bits(static_cast<size_t>(count));
    std::iota(bits.begin(), bits.end(), first);
    return mask(bits);
  }
  std::vector<int> cpus_of_core(int core) const {
    std::vector<int> cpus;
    for (int thread = 0; thread < threads_; ++thread) cpus.push_back(core + thread * cores_);
    return cpus;
  }
  std::string of_nodes(int first, int count) const {
    std::vector<int> cpus;
    for (int core = first * per_node(); core < (first + count) * per_node(); ++core) {
      for (const int cpu : cpus_of_core(core)) cpus.push_back(cpu);
    }
    return mask(cpus);
  }
  std::string object(const char* type, int index, const std::string& cpus, const std::string& nodes,
                     const char* more = "") {
    return fmt::format(
        "<object type=\"{0}\" os_index=\"{1}\" cpuset=\"{2}\" complete_cpuset=\"{2}\" {5} nodeset=\"{3}\" "
        "complete_nodeset=\"{3}\" gp_index=\"{4}\" {6}>\n",
        type, index, cpus, nodes, next_++,
        std::string_view(type) == "Machine" ? fmt::format("allowed_cpuset=\"{}\" allowed_nodeset=\"{}\"", cpus, nodes)
                                            : std::string(),
        more);
  }
  void add_node(std::string& text, int node) {
    const std::string cpus = of_nodes(node, 1), nodes = range(node, 1);
    if (per_socket() > 1) text += object("Group", node, cpus, nodes, "kind=\"0\" subkind=\"0\"");
    text += object("NUMANode", node, cpus, nodes, "local_memory=\"1000000000\"") + "</object>\n";
    for (int core = node * per_node(); core < (node + 1) * per_node(); ++core) {
      text += object("Core", core, mask(cpus_of_core(core)), nodes);
      for (const int cpu : cpus_of_core(core)) text += object("PU", cpu, mask({cpu}), nodes) + "</object>\n";
      text += "</object>\n";
    }
    text += devices_[static_cast<size_t>(node)];
    if (per_socket() > 1) text += "</object>\n";
  }

  int sockets_, nodes_, cores_, threads_, next_ = 1;
  std::vector<std::string> devices_;
};

}  // namespace trireme
