#pragma once
// adapter_config.json of PEFT.

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace trireme {

/// What a LoRA adapter is besides its tensors.
struct PeftConfig {
  int64_t rank = 8;
  double alpha = 8;
  bool rank_stabilized = false;                 ///< the scale is alpha / sqrt(rank), not alpha / rank
  bool dora = false;                            ///< rows of the sum get their own length
  std::map<std::string, int64_t> rank_pattern;  ///< by regular expression of the end of a module's path
  std::map<std::string, double> alpha_pattern;
  std::vector<std::string> target_modules;  ///< empty: a pattern, or not recorded
  std::string base;                         ///< name or path of the base model; empty: not recorded
  std::string where;                        ///< the file, for errors

  /// Whether target_modules has the module, by its path or the end of it, or lists none.
  bool targets(std::string_view module) const;
  int64_t rank_of(std::string_view module) const;
  /// What B A is multiplied by.
  double scale_of(std::string_view module) const;
};

/// Whether a key of rank_pattern or alpha_pattern, a regular expression of the path's end, means the module. Throws
/// Error::data, which names `where`, for an invalid pattern.
bool matches_module(const std::string& pattern, std::string_view module, std::string_view where);

/// Reads adapter_config.json of a folder. Throws Error::io if it is missing, naming folders below that have one, and
/// Error::data for other methods than LoRA and for settings of PEFT that this program lacks, by their names.
PeftConfig read_peft_config(const std::string& folder);

}  // namespace trireme
