#include "bench/device/rates.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <optional>

#include "base/count.h"
#include "ops/nvml.h"

namespace trireme::device_check {
namespace {

// Share of a PCIe link. Headers of packets leave about 0.9 of it, and Azure's health checks ask for 21 GB/s of gen. 4
// (0.67) and 48 GB/s of generation 5 (0.76). Half is what a link with half of its lanes or of its speed carries.
constexpr double kLeastPcieShare = 0.6;
constexpr double kLeastLinkShare = 0.5;  // of NVLink: below it links are down or messages take another way

/// The GPU's number at the driver's library.
std::optional<size_t> index_of(const NodeGpus& node, const std::string& place) {
  const auto is_there = [&](const NodeGpu& gpu) { return nvml::linux_bus(gpu.bus) == nvml::linux_bus(place); };
  const auto gpu = std::ranges::find_if(node.gpus, is_there);
  if (gpu == node.gpus.end()) return std::nullopt;
  return static_cast<size_t>(gpu - node.gpus.begin());
}

std::string why_unknown(const NodeGpus& node, const std::string& place) {
  return node.gpus.empty() ? node.why_none : fmt::format("the driver's library lists no GPU at {}", place);
}

std::vector<std::string> causes_of_copies(size_t i, const NodeGpu& gpu) {
  std::vector<std::string> causes;
  if (gpu.pcie_width.value_or(*gpu.most_pcie_width) < *gpu.most_pcie_width)
    causes.push_back(fmt::format("GPU {} uses x{} of x{} lanes: reseat it, or move it to another slot", i,
                                 *gpu.pcie_width, *gpu.most_pcie_width));
  if (gpu.pcie_generation.value_or(*gpu.most_pcie_generation) < *gpu.most_pcie_generation)
    causes.push_back(fmt::format("GPU {} uses generation {} of PCIe, {} is possible: look at the slot and the BIOS", i,
                                 *gpu.pcie_generation, *gpu.most_pcie_generation));
  return causes;
}

/// NVLinks between two GPUs; 0 if there is none or none is known.
int links_between(const NodeGpus& node, size_t a, size_t b) {
  const std::string& link = node.links.at(a).at(b);
  return link.starts_with("NV") ? std::atoi(link.c_str() + 2) : 0;
}

/// NVLinks of a GPU to the others of `gpus`, at most all of the card's.
int links_to(const NodeGpus& node, size_t gpu, const std::vector<size_t>& gpus, int of_card) {
  int links = 0, most = 0;
  for (const size_t other : gpus) {
    links += links_between(node, gpu, other);
    most = std::max(most, links_between(node, gpu, other));
  }
  return links > of_card ? most : links;  // through switches each pair has all of them
}

std::vector<std::string> causes_of_links(const NodeGpus& node, const std::vector<size_t>& gpus, int of_card) {
  std::vector<std::string> causes;
  for (const size_t gpu : gpus) {
    const int links = links_to(node, gpu, gpus, of_card);
    if (links == 0)
      causes.push_back(
          fmt::format("GPU {} has no NVLink to the others (nvidia-smi nvlink -s; on a node with NVSwitch "
                      "nvidia-fabricmanager has to run)",
                      gpu));
    else if (links < of_card)
      causes.push_back(fmt::format("GPU {} has {} of {} NVLinks up", gpu, links, of_card));
  }
  std::ranges::copy(complaints_of(node), std::back_inserter(causes));
  return causes;
}

}  // namespace

Judgement not_judged(std::string reason) { return {.text = "not judged: " + std::move(reason)}; }

Judgement judge_copies(double to, double from, const NodeGpus& node, const std::string& place) {
  const auto i = index_of(node, place);
  if (!i) return not_judged(why_unknown(node, place));
  const NodeGpu& gpu = node.gpus[*i];
  const double link =
      gpu.fault.empty() ? pcie_bytes_per_s(gpu.most_pcie_generation.value_or(0), gpu.most_pcie_width.value_or(0)) : 0;
  if (link == 0) return not_judged(fmt::format("the driver's library does not say which PCIe link GPU {} has", *i));
  Judgement judgement{
      .text = fmt::format("pinned {:.0f} and {:.0f} % of the {:.1f} GB/s of PCIe {}.0 x{}", 1e2 * to / link,
                          1e2 * from / link, link / 1e9, *gpu.most_pcie_generation, *gpu.most_pcie_width),
      .expected = link};
  if (std::min(to, from) >= kLeastPcieShare * link) return judgement;
  judgement.slow = true;
  judgement.text += fmt::format(", but at least {:.0f} % is expected", 1e2 * kLeastPcieShare);
  judgement.causes = causes_of_copies(*i, gpu);
  return judgement;
}

Judgement judge_links(double rate, const DataSheet& sheet, const NodeGpus& node,
                      const std::vector<std::string>& places) {
  if (sheet.card.empty()) return not_judged("no data sheet of this GPU is known");
  if (sheet.link == 0)
    return not_judged(fmt::format("the data sheet of a {} has no NVLink for all of a node", sheet.card));
  std::vector<size_t> gpus;
  for (const std::string& place : places) {
    const auto i = index_of(node, place);
    if (!i) return not_judged(why_unknown(node, place));
    gpus.push_back(*i);
  }
  const int of_card = sheet.links();
  // Without switches GPUs that do not take part have some of the links.
  if (gpus.size() < node.gpus.size())
    for (const size_t gpu : gpus)
      if (const int links = links_to(node, gpu, gpus, of_card); links < of_card)
        return not_judged(fmt::format("{} of the node's {} GPUs have {} of the {} NVLinks of a {} between them",
                                      gpus.size(), node.gpus.size(), links, of_card, sheet.card));
  Judgement judgement{.text = fmt::format("the library's own {:.0f} % of the {:.0f} GB/s of a {}'s NVLinks",
                                          1e2 * rate / sheet.link, sheet.link / 1e9, sheet.card),
                      .expected = sheet.link};
  if (rate >= kLeastLinkShare * sheet.link) return judgement;
  judgement.slow = true;
  judgement.text += fmt::format(", but at least {:.0f} % is expected", 1e2 * kLeastLinkShare);
  judgement.causes = causes_of_links(node, gpus, of_card);
  if (judgement.causes.empty())
    judgement.causes.emplace_back(
        "messages take another way than the links: NCCL_DEBUG=INFO shows it, and NCCL_P2P_DISABLE or NCCL_P2P_LEVEL "
        "may cause it");
  return judgement;
}

void add(const Judgement& judgement, Result& result) {
  result.text += "; " + judgement.text;
  if (!judgement.slow) return;
  result.verdict = Verdict::failed;
  result.text += fmt::format("; likely {}: {}", judgement.causes.size() == 1 ? "cause" : "causes",
                             fmt::join(judgement.causes, "; "));
}

}  // namespace trireme::device_check
