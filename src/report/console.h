#pragma once
// The texts of the console: one aligned line per interval, and the progress bar.

#include <cstdint>
#include <string>
#include <vector>

#include "config/choices.h"
#include "report/metrics.h"

namespace trireme {

/// step  120/2000 | loss  4.5678 | lr 6.00e-04 | grad   1.2345 |    12345 tok/s |   332.1 ms/step | wait  3.1% | mfu
/// 45.2%: these columns, or if there are none, those of LogColumn in their order that fit 120 characters. Columns keep
/// their width from line to line. At the end follow f16's loss scale, and skipped steps after the first one.
std::string step_line(const Metrics& metrics, int64_t steps, const std::vector<LogColumn>& columns = {});
/// The options that belong into the log's head, as aligned columns: name, value (cut if it is long), origin.
std::vector<std::string> option_lines(const OptionFacts& options);
/// The same in GPT-NeoX's format, with the interval's mean loss and the gradient's norm; its GPUs are ranks. The loss
/// scale is 1 without fp16.
std::string neox_step_line(const Metrics& metrics, int64_t steps);
std::string evaluation_line(const EvaluationMetrics& metrics);
std::string test_line(const TestMetrics& metrics);
std::string checkpoint_line(const CheckpointEvent& event);

/// [=========>          ]  45% step 900/2000, loss 3.214, 2m13s left; `seconds_left` below 0: unknown.
std::string progress_line(int64_t step, int64_t steps, double loss, double seconds_left);
/// 59s, 2m13s, 5h07m, 3d04h.
std::string duration_text(double seconds);

}  // namespace trireme
