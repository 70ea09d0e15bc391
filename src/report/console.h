#pragma once
// The texts of the console: one aligned line per interval, and the progress bar.

#include <cstdint>
#include <string>

#include "report/metrics.h"

namespace trireme {

/// step  120/2000 | loss 4.5678 | ppl 96.33 | lr 6.00e-04 | grad 1.234 | 12345 tok/s | 332.1 ms/step | wait 3.1% | mfu
/// 45.2% | 1.23 GB | 3840 samples. Columns keep their width from line to line. Perplexity and memory appear if they are
/// known, skipped steps after the first one.
std::string step_line(const Metrics& metrics, int64_t steps);
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
