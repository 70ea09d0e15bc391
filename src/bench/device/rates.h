#pragma once
// Whether rates measured on a node are those that its hardware can have, and the likely causes of less. What the
// driver's library or the table of data sheets does not know is not judged.

#include <string>
#include <vector>

#include "bench/data_sheet.h"
#include "bench/device/report.h"
#include "ops/gpu_node.h"

namespace trireme::device_check {

struct Judgement {
  std::string text = {};  ///< the share that was reached, or "not judged: " with the reason
  double expected = 0;    ///< bytes per second that the hardware carries; 0: not judged
  bool slow = false;
  std::vector<std::string> causes = {};  ///< likely ones, if slow
};

/// Copies between pinned memory and the GPU against its PCIe link: the generation and width that card and slot have
/// together. to, from: bytes per second to and from the GPU. place: Backend::gpu.
Judgement judge_copies(double to, double from, const NodeGpus& node, const std::string& place);
/// A sum over GPUs of one node against their NVLinks. rate: bus bandwidth, bytes per second. places: Backend::gpu of
/// each of them.
Judgement judge_links(double rate, const DataSheet& sheet, const NodeGpus& node,
                      const std::vector<std::string>& places);
Judgement not_judged(std::string reason);

/// Adds the text and, if slow, the failure and its causes.
void add(const Judgement& judgement, Result& result);

}  // namespace trireme::device_check
