#pragma once
// adapter_config.json of PEFT.

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace trireme {

/// Values by a regular expression of the end of a module's path: the first that matches counts, in the order of the
/// file.
template <class T>
using ModulePattern = std::vector<std::pair<std::string, T>>;

/// Modules by names, each a path or its end behind a dot, or by a regular expression of whole paths.
struct ModuleChoice {
  std::vector<std::string> names;
  std::string pattern;
  bool empty() const { return names.empty() && pattern.empty(); }
};

constexpr std::string_view kAllLinear = "all-linear";  ///< PEFT's word for a pattern

/// What a LoRA adapter is besides its tensors.
struct PeftConfig {
  int64_t rank = 8;
  double alpha = 8;
  bool rank_stabilized = false;  ///< the scale is alpha / sqrt(rank), not alpha / rank
  bool dora = false;             ///< rows of the sum get their own length
  ModulePattern<int64_t> rank_pattern;
  ModulePattern<double> alpha_pattern;
  ModuleChoice targets, excluded;            ///< target_modules (empty: not recorded), exclude_modules
  std::vector<int64_t> layers;               ///< layers_to_transform: those of targets.names only; empty: all
  std::vector<std::string> layers_patterns;  ///< what stands before a layer's number in a path; empty: any name
  std::vector<std::string> modules_to_save;  ///< modules that are trained in full, by the ends of their paths
  std::string base;                          ///< name or path of the base model; empty: not recorded
  std::string where;                         ///< the file, for errors

  /// Why PEFT gives the module no adapter, as a clause that names the setting; empty: it gives it one.
  std::string leaves_out(std::string_view module) const;
  bool gives_adapter(std::string_view module) const { return !targets.empty() && leaves_out(module).empty(); }
  bool adapts_all_linears() const { return targets.pattern == kAllLinear; }  ///< of the blocks
  /// Whether the module is trained in full, alone or as a part of one.
  bool saves(std::string_view module) const;
  int64_t rank_of(std::string_view module) const;
  /// What B A is multiplied by.
  double scale_of(std::string_view module) const;
};

/// As PEFT matches a name of a list: the whole path or its end behind a dot.
bool ends_path(std::string_view path, std::string_view name);

/// Whether a key of rank_pattern or alpha_pattern, a regular expression of the path's end, means the module. Throws
/// Error::data, which names `where`, for an invalid pattern.
bool matches_module(const std::string& pattern, std::string_view module, std::string_view where);

/// Reads adapter_config.json of a folder. Throws Error::io if it is missing, naming folders below that have one, and
/// Error::data for other methods than LoRA and for settings of PEFT that this program lacks, by their names.
PeftConfig read_peft_config(const std::string& folder);

}  // namespace trireme
