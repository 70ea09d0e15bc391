#pragma once
// Which part of a model a process holds. The model is the list {embedding, blocks, head}; a part is a slice of it.

#include <cstdint>
#include <limits>

#include "model/spec.h"

namespace trireme {

struct ModelPart {
  static constexpr int64_t kLast = std::numeric_limits<int64_t>::max();

  int64_t first_layer = 0, last_layer = kLast;  ///< blocks [first_layer, last_layer); kLast: to the model's last one
  bool embedding = true;                        ///< holds the embedding; only a part that begins at block 0 does
  bool head = true;                             ///< holds final norm and head; only a part that ends at the last block
  bool operator==(const ModelPart&) const = default;

  int64_t layers() const { return last_layer - first_layer; }
  /// The same with kLast replaced. Throws Error::config naming what does not fit the model.
  ModelPart of(const Spec& spec) const;
};

}  // namespace trireme
