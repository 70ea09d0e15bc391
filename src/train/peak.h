#pragma once
// What a run's MFU is a share of: the FLOP/s that the ranks could reach.

#include "comm/scalars.h"
#include "ops/ops.h"

namespace trireme {

class PeakRate {
 public:
  /// Collective. `configured`: FLOP/s of one rank (log.peak-tflops); 0: that of a large GEMM is measured, on all ranks
  /// at the same time, as they compute (measure_gemm_rate()). What other programs take of the processors does not lower
  /// it; that ranks of a host have fewer processors than threads does. Borrows.
  PeakRate(double configured, Ops& ops, int threads, int local_ranks, DType dtype, Scalars& scalars);

  /// FLOP/s of all ranks.
  double total() const { return total_; }
  bool is_measured() const { return measured_; }
  /// The share of their processors' time that other programs took from the ranks while it was measured, the mean of
  /// all; 0 for a configured one.
  double taken() const { return taken_; }

  /// `rate` as a share of the peak. Collective; rates may differ a little between ranks. A measured peak that is beaten
  /// was measured while the machine did something else, too: it is measured again, and is at least the rate, so that
  /// the share is never above 1. A configured one that is beaten stays, with one warning.
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
