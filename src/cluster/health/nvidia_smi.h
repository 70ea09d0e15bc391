#pragma once
// What nvidia-smi prints, as facts.

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace trireme::health {

/// One device of `nvidia-smi -q`: every line with a value, by its path in the indentation
/// ("ECC Errors/Aggregate/DRAM Uncorrectable").
struct GpuFacts {
  std::string bus_id;
  std::map<std::string, std::string> values;

  /// Empty when it is not told.
  std::string value(const std::string& path) const;
  /// The number a value starts with; `absent` for N/A, deprecated and not told.
  double number(const std::string& path, double absent) const;
  /// "0000:83:00.0 (GPU-...)" for messages.
  std::string label() const;
};

struct SmiReport {
  int attached = 0;  ///< "Attached GPUs"
  std::vector<GpuFacts> gpus;
};

/// Text of `nvidia-smi -q`, whole or of some sections (-d). Throws Error::data when it is not that.
SmiReport parse_smi_query(std::string_view text);

struct NvlinkStatus {
  std::string gpu;  ///< "GPU 6: NVIDIA A100 ..."
  int active = 0, inactive = 0;
  bool supported = true;      ///< false: the device says that it has none, or MIG hides it
  bool all_inactive = false;  ///< told by a sentence instead of link by link
};

/// Text of `nvidia-smi nvlink -s`. Throws Error::data when it is not that.
std::vector<NvlinkStatus> parse_nvlink_status(std::string_view text);

/// Devices of `nvidia-smi -L`, MIG slices not counted.
int count_listed_gpus(std::string_view text);

/// What an exit code of nvidia-smi means; empty for 0.
std::string smi_exit_reason(int code);

struct XidEvent {
  int code = 0;
  double uptime = 0;  ///< seconds after boot; 0 when the line does not tell
  std::string device, line;
};

/// Xid lines of `dmesg`.
std::vector<XidEvent> parse_xid_events(std::string_view text);

}  // namespace trireme::health
