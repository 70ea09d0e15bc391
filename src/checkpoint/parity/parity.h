#pragma once
// Does a Hugging Face folder compute the same here as in another framework? A case file holds inputs and what the other
// one gives for them: logits, loss and the gradient of every parameter.

#include <string>
#include <vector>

#include "checkpoint/huggingface/family.h"
#include "checkpoint/safetensors/safetensors.h"
#include "comm/mesh.h"
#include "model/pass.h"
#include "ops/ops.h"

namespace trireme {

/// A parity case as packed rows, without those that attention_mask excludes.
/// Elements of a tensor of any numeric type. Throws Error::data for other types.
std::vector<double> read_numbers(const SafetensorsFile& file, const SafetensorsEntry& entry);

/// The model that runs cases. Where positions count tokens other than padding, a padding token that is attended to has
/// the row before the first position: it becomes position 0, and every other one is one later.
Spec parity_spec(Spec spec, const Family& family);

class ParityCase {
 public:
  /// spec: parity_spec(). padding: id that the family gives no gradient.
  ParityCase(const SafetensorsFile& file, const Spec& spec, const Family& family, int64_t padding);

  /// Views of this object's arrays.
  Batch batch() const;
  int64_t rows() const { return static_cast<int64_t>(tokens_.size()); }
  int64_t sequences() const { return static_cast<int64_t>(offsets_.size()) - 1; }
  /// Tokens, or sequences, whose loss is counted.
  int64_t counted() const { return counted_; }
  /// The place of each row in the case's [B x T].
  const std::vector<int64_t>& places() const { return places_; }
  int64_t length() const { return length_; }

 private:
  std::vector<double> matrix(const char* name, double otherwise) const;
  void check_id(const char* name, size_t place, double id, int64_t count) const;
  int32_t position(int64_t column, int32_t counted, bool padding) const;
  void add_sequence(int64_t sequence, const std::vector<double>& ids, const std::vector<double>& mask,
                    const std::vector<double>& types);
  void set_token_labels(const std::vector<double>& labels, const std::vector<double>& mask);
  void set_class_labels();
  [[noreturn]] void bad(const std::string& what) const;

  const SafetensorsFile& file_;
  const Spec& spec_;
  const Family& family_;
  int64_t padding_, sequences_ = 0, length_ = 0, counted_ = 0;
  std::vector<int32_t> tokens_, positions_, types_, targets_, offsets_{0};
  std::vector<float> values_;
  std::vector<int64_t> places_;
};

/// One compared tensor. error = max|got - want| / max(max|want|, 1e-3 x the largest max|want| of all gradients): some
/// gradients are zero in exact arithmetic, and their rounding errors mean nothing.
struct ParityTensor {
  std::string name;  ///< "logits", "loss", "grad.<their name>"
  double error = 0;  ///< infinite where a value of ours is not finite
  double want = 0;   ///< max|want|
};

/// Runs the model of `folder` forward and backward on a case, dropout off, weights and activations of `dtype`. The case
/// (safetensors) has input_ids [B, T], attention_mask [B, T] (default: ones), token_type_ids [B, T] (default: zeros),
/// labels ([B, T] with -100 for what is not counted, shifted here for causal models; classifiers: [B], integers or,
/// with one class, numbers), logits, loss and grad.<their parameter name>, which may be left out, all of them. Logits
/// where attention_mask is 0 are not compared. Throws Error::data for a case that does not fit the model, naming the
/// tensor; for labels that are counted where attention_mask is 0; for a classifier's rows that are padded on the left;
/// for expected values that are not finite. mesh: whose tensor and pipeline ranks hold the model between them; then
/// collective, and every rank gets the same. nullptr: this rank has all of it. adapter: a folder of PEFT's, whose
/// adapters the model has; then the case has the gradients of what the adapter trains, as grad.<name in
/// adapter_model.safetensors>, and none of the base model. Throws Error::config and Error::data as PeftAdapter.
std::vector<ParityTensor> compare_with_case(const std::string& folder, const std::string& case_path, DType dtype,
                                            Ops& ops, int threads, Mesh* mesh = nullptr,
                                            const std::string& adapter = {});

}  // namespace trireme
