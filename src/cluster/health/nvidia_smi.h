#pragma once
// Parses the output of nvidia-smi.

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace trireme::health {

/// A device of `nvidia-smi -q`: every line with a value, by its path of sections ("ECC Errors/Aggregate/DRAM
/// Uncorrectable").
struct GpuFacts {
  std::string bus_id;
  std::map<std::string, std::string> values;

  /// Empty if it is missing.
  std::string value(const std::string& path) const;
  /// The number that a value starts with; `absent` for N/A, deprecated and missing values.
  double number(const std::string& path, double absent) const;
};

struct SmiReport {
  int attached = 0;  ///< "Attached GPUs"
  std::vector<GpuFacts> gpus;
};

/// Parses the text of `nvidia-smi -q`, complete or with some sections (-d). Throws Error::data for other text.
SmiReport parse_smi_query(std::string_view text);

struct NvlinkStatus {
  std::string gpu;  ///< "GPU 6: NVIDIA A100 ..."
  int active = 0, inactive = 0;
  bool supported = true;      ///< false: the device has none, or MIG hides it
  bool all_inactive = false;  ///< reported in one sentence instead of link by link
};

/// Parses the text of `nvidia-smi nvlink -s`. Throws Error::data for other text.
std::vector<NvlinkStatus> parse_nvlink_status(std::string_view text);

/// The meaning of an exit code of nvidia-smi; empty for 0.
std::string smi_exit_reason(int code);

struct XidEvent {
  int code = 0;
  double uptime = 0;  ///< seconds after boot; 0 if the line does not have it
  std::string device, line;
};

/// Xid lines of `dmesg`.
std::vector<XidEvent> parse_xid_events(std::string_view text);

}  // namespace trireme::health
