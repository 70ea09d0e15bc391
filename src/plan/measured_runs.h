#pragma once
// Holds step_time() against runs that somebody measured: a third of them fits at most three numbers, the others judge.

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "plan/step_time.h"

namespace trireme {

/// A run of a decoder with full recomputation under 1F1B.
struct MeasuredRun {
  ModelSize model;
  StepLayout layout;
  double seconds = 0;  ///< of a step
};

/// Runs of a CSV file: one header line with the names `# GPUs`, `global batch`, `micro batch`, `hidden size`,
/// `attention heads`, `# layers`, `sequence length`, `tensor parallelism`, `data parallelism`, `pipeline parallelism`
/// and `iteration time (ms)`, in any order; `Parameters (billion)` may be there and is not used. vocabulary: of every
/// model, since the columns do not have it. Throws Error::io, and Error::data naming the missing or unknown column, or
/// the line with what is wrong in it.
std::vector<MeasuredRun> read_measured_runs(const std::string& path, int64_t vocabulary);

/// True: the run is for fitting. Those whose number, from 0, leaves remainder 0 when divided by 3; runs of equal model
/// and layout are on the side of the first of them.
std::vector<bool> fitted_runs(const std::vector<MeasuredRun>& runs);

/// The numbers that are fitted. With runs on one node only, the time to start a kernel; else the network's share.
struct FittedNumbers {
  double product_share = 0, inner_share = 0;
  std::optional<double> node_share, launch_seconds;
  MachineRates apply(MachineRates machine) const;
};

/// Least mean |log(planned / measured)|, rounded off below 3 %. Deterministic. Throws Error::data without runs.
FittedNumbers fit_runs(const std::vector<MeasuredRun>& runs, const MachineRates& machine);

struct JudgedRuns {
  double mean_error = 0, max_error = 0;     ///< |planned / measured - 1| of the judged runs
  double spearman = 0, least_spearman = 0;  ///< of the judged runs of each model: mean and least; models with 3 or more
  double choice_loss = 0, largest_choice_loss = 0;  ///< of all runs of each model, number of ranks and batch
  size_t judged = 0, fitted = 0, groups = 0;
  size_t models = 0;            ///< with a rank correlation
  std::vector<double> planned;  ///< seconds of every run
};
/// planned: seconds of every run. Throws Error::data where no run is left to judge.
JudgedRuns judge_runs(const std::vector<MeasuredRun>& runs, const std::vector<bool>& fitted,
                      std::vector<double> planned);

/// Spearman's rank correlation; equal values share their mean rank. Two lists of the same length of at least 2. 0 where
/// all values of a list are equal.
double rank_correlation(const std::vector<double>& a, const std::vector<double>& b);

/// The point near `start` where `cost` is least, by the simplex method of Nelder and Mead 1965. step: the first
/// simplex' edge. Deterministic; at most 400 steps per dimension.
std::vector<double> least_point(const std::function<double(const std::vector<double>&)>& cost,
                                const std::vector<double>& start, double step);

}  // namespace trireme
