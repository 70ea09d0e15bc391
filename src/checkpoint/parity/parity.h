#pragma once
// Does a Hugging Face folder compute the same here as in another framework? A case file holds inputs and what the other
// one gives for them: logits, loss and the gradient of every parameter.

#include <string>
#include <vector>

#include "comm/mesh.h"
#include "ops/ops.h"

namespace trireme {

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
