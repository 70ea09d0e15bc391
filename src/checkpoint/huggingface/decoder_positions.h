#pragma once
// Rotary positions in config.json: "rope_theta", "rope_scaling" and "partial_rotary_factor" of transformers 4,
// "rope_parameters" of 5.

#include "checkpoint/huggingface/decoder_config.h"

namespace trireme {

/// Throws Error::data naming key, value and file. spec: with its sizes and the kinds of its layers.
void read_positions(const Json& config, const DecoderValues& values, Spec& spec, std::string_view where);
/// In both spellings.
void write_positions(const Spec& spec, const DecoderValues& values, Json& config);

}  // namespace trireme
