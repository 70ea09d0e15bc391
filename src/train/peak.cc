#include "train/peak.h"

#include <algorithm>

#include "base/log.h"
#include "train/machine.h"

namespace trireme {

PeakRate::PeakRate(double configured, Ops& ops, int threads, int local_ranks, DType dtype, Scalars& scalars)
    : ops_(ops),
      threads_(threads),
      local_ranks_(local_ranks),
      dtype_(dtype),
      scalars_(scalars),
      measured_(configured == 0) {
  total_ = measured_ ? measure() : scalars.sum(configured);
}

double PeakRate::measure() {
  scalars_.barrier();
  const GemmRate rate = measure_gemm_rate(ops_, threads_, dtype_);
  const double own = ops_.device().is_host() ? share_of_processors(threads_, local_ranks_) : 1;
  taken_ = scalars_.sum(std::max(0.0, 1 - rate.processors / own)) / scalars_.size();
  return scalars_.sum(rate.best * own);
}

double PeakRate::share(double rate) {
  const double most = scalars_.max(rate);
  if (most <= total_) return rate / total_;
  if (measured_) {
    const double before = total_;
    total_ = std::max({before, measure(), most});
    log::info(
        "steps reach {:.1f} GFLOP/s, more than the measured peak of {:.1f}: the machine was busy during that "
        "measurement. From now on mfu is the share of {:.1f} GFLOP/s",
        most / 1e9, before / 1e9, total_ / 1e9);
  } else if (!warned_) {
    warned_ = true;
    log::write_once(log::Level::warning, fmt::format("mfu is above 100 %: steps reach {:.4g} TFLOP/s per rank, but "
                                                     "log.peak-tflops is {:.4g}; remove it to measure the peak",
                                                     most / scalars_.size() / 1e12, total_ / scalars_.size() / 1e12));
  }
  return rate / total_;
}

}  // namespace trireme
