#pragma once
// From a family's files into a model: which tensor is which parameter, and every difference in one error.

#include <string>
#include <vector>

#include "checkpoint/huggingface/family.h"
#include "checkpoint/tensor_source.h"
#include "model/parameter_table.h"
#include "optim/training_state.h"

namespace trireme {

/// The action if the files lack the head's parameters.
enum class MissingHead : uint8_t {
  refuse,
  keep,   ///< they remain unchanged in the state: a new head on a pretrained model
  renew,  ///< so, too, where the files have them for another number of classes
};

/// Loads what the table holds of the tensors of `source`, by the family's names and layouts. Missing, unexpected and
/// mis-shaped ones: one Error::data listing all, which begins with `where`. If the spec has a smaller context than the
/// files, position rows are cropped; a larger one is an error. Tensors of a head that the model does not have are left
/// out, and a line says so. tied: a matrix, or a bias, that has a name in the embedding and one in the head may be
/// there under either alone. Returns the files' names of the head's tensors that were kept.
std::vector<std::string> import_tensors(const Family& family, const TensorSource& source, const std::string& where,
                                        const Spec& spec, const ParameterTable& table, MissingHead missing_head,
                                        TrainingState& state, bool tied);

}  // namespace trireme
