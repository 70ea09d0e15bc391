#pragma once
// Logits of every token id: final norm; or the transform of a masked language model, norm(f(linear(x))); or a
// projection to the embedding's width; then the token matrix (or its own matrix) and cross-entropy, in row chunks.
// Where the matrix is cut, each tensor rank has the logits of some ids, and only row statistics are exchanged; logits()
// alone gathers them. Where a batch names the rows that count, and tensor ranks do not share rows, only those go
// through the matrix.

#include <optional>

#include "model/head.h"

namespace trireme {

class DecoderHead final : public Head {
 public:
  DecoderHead(const Spec& spec, const ParameterViews& views);
  void loss(const Pass& pass, ConstView x, const Workspace& work) const override;
  void loss_and_backward(const Pass& pass, ConstView x, const Workspace& work, float scale) const override;
  void logits(const Pass& pass, ConstView x, const Workspace& work, View logits) const override;

 private:
  /// Input of the decoder's matrix: x, work.norm or work.head.narrow.
  ConstView input_of(const Pass& pass, ConstView x, const Workspace& work) const;
  /// work.gradient = gradient of x; dinput: of input_of(), overwritten.
  void backward_input(const Pass& pass, ConstView x, const Workspace& work, View dinput) const;
  /// Whether only the batch's counted rows go through the matrix.
  bool takes_counted(const Pass& pass) const;
  /// The counted rows of `input`, in the first rows of `to`.
  static ConstView counted_rows(const Pass& pass, ConstView input, View to);
  /// The logits of input's rows that this rank has, capped where the model does.
  void capped_logits(const Pass& pass, ConstView input, View logits) const;
  /// Of one row chunk: its logits, and the loss.
  void chunk_loss(const Pass& pass, ConstView input, ConstView targets, const HeadChunk& chunk) const;
  void chunk_backward(const Pass& pass, ConstView input, ConstView targets, const Workspace& work,
                      const HeadChunk& chunk, View dinput, float scale, bool first_chunk) const;

  const Spec& spec_;
  std::optional<Norm> norm_;  ///< final, or after the transform
  std::optional<Linear> transform_, project_;
  LayerParameter weight_, bias_;
  int64_t first_class_, classes_;  ///< this rank's columns without padding
  bool cut_;                       ///< other tensor ranks have further columns
};

}  // namespace trireme
