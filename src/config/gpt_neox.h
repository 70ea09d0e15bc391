#pragma once
// The keys of dialect gpt-neox, and those that only some values of are taken.

#include <span>

#include "config/dialect.h"

namespace trireme {

std::span<const DialectKey> gpt_neox_keys();

/// A key of which other values than these would change numbers or outputs and have no counterpart.
struct GptNeoxLimit {
  const char* key;
  const char* values;  ///< those that are taken, with '|' between them
  const char* reason;  ///< why the others are not, and what to do
};
std::span<const GptNeoxLimit> gpt_neox_limits();

/// The keys that say what a checkpoint of NeoX holds: the model, the batch, the schedule and the seed.
std::span<const char* const> gpt_neox_saved_keys();

}  // namespace trireme
