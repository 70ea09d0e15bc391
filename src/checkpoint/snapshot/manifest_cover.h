#pragma once
// Do the slices of a manifest make up its tensors?

#include <string_view>

#include "checkpoint/snapshot/manifest.h"

namespace trireme {

/// Checks that every slice is inside its tensor and its shard; the slices of a part cover every element of it exactly
/// once, and no other slice exists. Throws Error::data naming the first fault.
void check_cover(const Manifest& manifest, std::string_view where);

}  // namespace trireme
