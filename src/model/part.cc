#include "model/part.h"

#include <algorithm>

#include "base/error.h"

namespace trireme {

ModelPart ModelPart::of(const Spec& spec) const {
  ModelPart part = *this;
  if (last_layer == kLast) part.last_layer = spec.layers;
  require(0 <= part.first_layer && part.first_layer <= part.last_layer && part.last_layer <= spec.layers,
          ErrorKind::config, "part of a model: blocks {} to {}, the model has {}", part.first_layer, part.last_layer,
          spec.layers);
  require(!embedding || part.first_layer == 0, ErrorKind::config,
          "part of a model: it has the embedding but begins at block {}; the embedding goes with block 0",
          part.first_layer);
  require(!head || part.last_layer == spec.layers, ErrorKind::config,
          "part of a model: it has the head but ends at block {} of {}; the head goes with the last block",
          part.last_layer, spec.layers);
  require(embedding || head || part.layers() > 0, ErrorKind::config,
          "part of a model: it has no block, no embedding and no head; use fewer stages than the model's {} blocks",
          spec.layers);
  return part;
}

}  // namespace trireme
