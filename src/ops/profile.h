#pragma once
// Recorder of operator calls: the time on the device, FLOPs or bytes of each. The public, checked functions report to
// it (Ops::report_to); costs nothing without a recorder.

#include <initializer_list>
#include <string>
#include <string_view>

#include "ops/ops.h"

namespace trireme {

/// One call of an operator.
struct OpCall {
  std::string op;    ///< with its sizes if they distinguish calls: "linear 768->3072"
  Event start, end;  ///< with their times
  double flops = 0;  ///< of products and attention; else 0
  double bytes = 0;  ///< of all tensors of the call, each counted once
};

class OpRecorder {
 public:
  virtual ~OpRecorder() = default;
  virtual bool recording() const = 0;
  /// Where the work of the calls is now, with its time (DeviceStream::record_time()).
  virtual Event mark() = 0;
  virtual void add(OpCall call) = 0;
};

/// Rows times a weight [out, in].
struct ProductSize {
  int64_t rows = 0, in = 0, out = 0;
};

/// Reports the call during which it lives to an active recorder, if any.
class OpTimer {
 public:
  /// moved: tensors that the call reads or writes, once for each way.
  OpTimer(OpRecorder* recorder, std::string_view op, std::initializer_list<ConstView> moved);
  OpTimer(OpRecorder* recorder, std::string_view op, std::initializer_list<ConstView> moved, const ProductSize& size);
  /// products: of each pair of a query and a key with a head's vectors.
  OpTimer(OpRecorder* recorder, std::string_view op, std::initializer_list<ConstView> moved,
          const AttentionShape& shape, int products);
  ~OpTimer();
  OpTimer(const OpTimer&) = delete;
  OpTimer& operator=(const OpTimer&) = delete;

 private:
  OpRecorder* recorder_;  ///< nullptr: no recorder
  OpCall call_;
};

}  // namespace trireme
