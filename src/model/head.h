#pragma once
// Computes a loss from the last block's rows: a decoder (one logit per token id, in row chunks, so that all logits
// never exist at once) or a classifier of complete sequences.

#include <memory>
#include <optional>
#include <vector>

#include "model/linear.h"
#include "model/memory.h"

namespace trireme {

class Head {
 public:
  virtual ~Head() = default;

  // work is for the rows of x.

  /// pass.loss += sum over the counted targets of the cross-entropy in nats (regression: of the squared error). x:
  /// [rows, width].
  virtual void loss(const Pass& pass, ConstView x, const Workspace& work) const = 0;
  /// The same, with gradients of loss x scale: weights by pass.write, x into work.gradient (overwritten).
  virtual void loss_and_backward(const Pass& pass, ConstView x, const Workspace& work, float scale) const = 0;
  /// Decoder: logits of some rows, x [n, width] -> [n, vocabulary_rows], columns past the vocabulary undefined.
  /// Classifier: x [rows, width] of the whole batch -> [sequences, classes].
  virtual void logits(const Pass& pass, ConstView x, const Workspace& work, View logits) const = 0;
};

std::unique_ptr<Head> make_head(const Spec& spec, const ParameterViews& views);

// A class (or, with one class, a number) per sequence, of its first row x: out(dropout(f(hidden(dropout(x))))). A batch
// may have more sequences than labels (or than rows of asked-for logits): the last ones are padding, run and never
// read.

class ClassifierHead final : public Head {
 public:
  ClassifierHead(const Spec& spec, const ParameterViews& views);
  void loss(const Pass& pass, ConstView x, const Workspace& work) const override;
  void loss_and_backward(const Pass& pass, ConstView x, const Workspace& work, float scale) const override;
  void logits(const Pass& pass, ConstView x, const Workspace& work, View logits) const override;

 private:
  /// The first rows, as the hidden linear takes them, are in head.first; its activation in head.hidden, dropped out in
  /// head.first_gradient. head is for the rows of logits.
  void forward(const Pass& pass, ConstView x, const HeadBuffers& head, View logits) const;
  /// y = each sequence's row of x, of whose rows a tensor rank may have its own only.
  void gather_first(const Pass& pass, ConstView x, View y) const;
  /// dx = 0 except in each sequence's row, which gets its row of dy.
  void scatter_first(const Pass& pass, ConstView dy, View dx) const;
  void loss_of(const Pass& pass, const HeadChunk& chunk) const;
  Dropout input_dropout(const Pass& pass) const;
  Dropout output_dropout(const Pass& pass) const;

  const Spec& spec_;
  Linear hidden_, out_;
};

// Logits of every token id: final norm; or the transform of a masked language model, norm(f(linear(x))); or a
// projection to the embedding's width; then the token matrix (or its own matrix) and cross-entropy, in row chunks.
// Where the matrix is cut, each tensor rank has the logits of some ids, and only row statistics are exchanged; logits()
// alone gathers them. Where a batch names the rows that count, and tensor ranks do not share rows, only those go
// through the matrix. A SequenceLoss needs the log-probabilities of complete sequences before it has gradients: where
// they take several chunks, the logits are computed twice.

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
  /// What goes through the matrix: rows, their targets, and whether they are only the batch's counted ones.
  struct HeadRows {
    ConstView input, targets;
    bool counted = false;
  };
  /// Whether only the batch's counted rows go through the matrix.
  bool takes_counted(const Pass& pass) const;
  /// Those of `input`; counted ones in the first rows of `to`.
  HeadRows rows_of(const Pass& pass, ConstView input, View to) const;
  /// The logits of input's rows that this rank has, capped where the model does.
  void capped_logits(const Pass& pass, ConstView input, View logits) const;
  /// Of one row chunk: its logits and their statistics.
  void chunk_logits(const Pass& pass, ConstView input, ConstView targets, const HeadChunk& chunk) const;
  /// Gradients of the parameters and of the input from that of the logits.
  void chunk_backward(const Pass& pass, ConstView input, const Workspace& work, const HeadChunk& chunk, View dinput,
                      bool first_chunk) const;
  /// Adds the batch's SequenceLoss to pass.loss; returns its derivatives by the sequences' cross-entropies if wanted.
  std::vector<double> sequence_loss(const Pass& pass, const HeadRows& rows, const Workspace& work, bool wanted) const;

  const Spec& spec_;
  std::optional<Norm> norm_;  ///< final, or after the transform
  std::optional<Linear> transform_, project_;
  LayerParameter weight_, bias_;
  int64_t first_class_, classes_;  ///< this rank's columns without padding
  bool cut_;                       ///< other tensor ranks have further columns
};

}  // namespace trireme
