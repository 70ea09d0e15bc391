#pragma once
// The peak rate behind a run's MFU: the FLOP/s that the ranks could reach.

#include "comm/scalars.h"
#include "ops/ops.h"

namespace trireme {

class PeakRate {
 public:
  /// Collective. `configured`: FLOP/s of one rank (log.peak-tflops); 0: measures a large GEMM on all ranks at the same
  /// time (measure_gemm_rate()). Other programs do not lower the result; more threads than processors on a host do.
  /// Borrows.
  PeakRate(double configured, Ops& ops, int threads, int local_ranks, DType dtype, Scalars& scalars);

  /// FLOP/s of all ranks.
  double total() const { return total_; }
  bool is_measured() const { return measured_; }
  /// The share of processor time that other programs took from the ranks during the measurement, the mean over ranks; 0
  /// for a configured peak.
  double used_by_others() const { return taken_; }

  /// `rate` as a share of the peak. Collective; rates may differ a little between ranks. If the rate is above a
  /// measured peak, the machine was busy during that measurement: it is measured again, and raised to the rate if
  /// needed, so that the share is never above 1. A configured peak stays, with one warning.
  double share(double rate);

 private:
  double measure();

  Ops& ops_;
  int threads_, local_ranks_;
  DType dtype_;
  Scalars& scalars_;
  bool measured_, warned_ = false;
  double total_ = 0, taken_ = 0;
};

}  // namespace trireme
