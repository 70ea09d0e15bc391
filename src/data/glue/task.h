#pragma once
// The tasks of the GLUE benchmark as values: files, columns, labels, metrics. Source: Wang et al. 2018; the files'
// headers.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace trireme {

enum class GlueMetric : uint8_t { accuracy, f1, matthews, pearson, spearman, squared_error };

/// "matthews_correlation", "spearmanr", ...
const char* name_of(GlueMetric metric);

struct GlueTask {
  std::string name;                  ///< "mrpc"
  std::string folder;                ///< "MRPC", below the folder of all tasks
  std::string first, second;         ///< columns; second: empty for single sentences
  std::string label;                 ///< column
  std::vector<std::string> labels;   ///< class names by id; empty: the label is a number to predict
  std::vector<std::string> spelled;  ///< as the files spell them; empty: the id itself
  std::vector<GlueMetric> metrics;

  bool regression() const { return labels.empty(); }
  int64_t classes() const { return regression() ? 1 : static_cast<int64_t>(labels.size()); }
};

/// cola, mnli, mrpc, qnli, qqp, rte, sst2, stsb, wnli and ax (the diagnostic set without labels).
std::span<const GlueTask> glue_tasks();
/// Case-insensitive; also accepts "sst-2" and "sts-b". Throws Error::usage listing the names.
const GlueTask& glue_task(std::string_view name);

}  // namespace trireme
