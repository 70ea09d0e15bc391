#pragma once
// config.json of decoders with rms norms, gated MLPs and rotary positions: one reader and one writer for all of them; a
// family is the values below.

#include "base/json.h"
#include "model/spec.h"

namespace trireme {

enum class AttentionBias : uint8_t {
  none,
  queries,  ///< of queries, keys and values, no key says so
  key,      ///< "attention_bias": of these and of the output
};

/// The layers that have a window.
enum class WindowLayers : uint8_t {
  none,
  all,      ///< if "sliding_window" is a number
  last,     ///< "layer_types"; from "max_window_layers" on. Both only with "use_sliding_window"
  repeats,  ///< "layer_types"; all but every `window_interval`-th
  unturned  ///< "layer_types"; if absent, those without positions, only with "use_sliding_window"
};

struct DecoderValues {
  double epsilon = 1e-6;
  double theta = 10000;             ///< where no key says it
  double window_theta = 0;          ///< of layers with a window, which have their own positions; 0: of all layers
  bool positions_by_layer = false;  ///< "rope_parameters" has an object for each kind of layer
  NormPlace norms = NormPlace::pre;
  float norm_offset = 0;
  QueryKeys query_keys = QueryKeys::plain;
  const char* activation_key = "hidden_act";
  const char* activation = "silu";
  bool old_gelu = false;  ///< files say "gelu" and mean "gelu_pytorch_tanh"
  int64_t key_heads = 0;  ///< where "num_key_value_heads" is absent; 0: heads
  int64_t head_size = 0;  ///< where "head_dim" is absent; 0: width / heads
  bool tied = false;      ///< where "tie_word_embeddings" is absent
  AttentionBias attention_bias = AttentionBias::none;
  bool mlp_bias = false;  ///< has the key
  WindowLayers windows = WindowLayers::none;
  int64_t window = 0;             ///< where "sliding_window" is absent; 0: none
  int64_t window_interval = 0;    ///< of WindowLayers::repeats
  bool interval_key = false;      ///< "sliding_window_pattern" says it
  bool scales_embedding = false;  ///< by the root of the width
  bool scales_by_scalar = false;  ///< "query_pre_attn_scalar"^-1/2 is the scale of scores
  bool attention_cap_key = false, logits_cap_key = false;
  double attention_cap = 0, logits_cap = 0;  ///< where they are absent
  bool multipliers = false;                  ///< has keys for those of embedding, residual, scores and logits
  bool unturned_layers = false;              ///< "no_rope_layers", "no_rope_layer_interval"
  bool branch_dropout = false;               ///< "resid_pdrop", "embd_pdrop"
  bool longrope = false;                     ///< "su" and "yarn" mean it too; the original context is a separate key
  int64_t padding = -1;                      ///< pad_token_id where it is absent; -1: none
  bool partial = false;                      ///< "partial_rotary_factor": the share of each head that turns
  double rotary_share = 1;                   ///< where it is absent
  bool attention_gate = false;
  bool states = false;  ///< layers with a state: "layer_types" or "full_attention_interval", "linear_..."
};

/// Throws Error::data naming key, value and file.
Spec read_decoder_config(const Json& config, const DecoderValues& values, std::string_view where);
/// Every key, in transformers 4's and 5's spelling.
void write_decoder_config(const Spec& spec, const DecoderValues& values, Json& config);
/// Is what write_decoder_config() makes of it read as the same again? Dropout that it has no key for counts as none.
bool decoder_config_expresses(const Spec& spec, const DecoderValues& values);

/// Rotary positions: "rope_theta", "rope_scaling" and "partial_rotary_factor" of transformers 4, "rope_parameters"
/// of 5. Throws Error::data naming key, value and file. spec: with its sizes and the kinds of its layers.
void read_positions(const Json& config, const DecoderValues& values, Spec& spec, std::string_view where);
/// In both spellings.
void write_positions(const Spec& spec, const DecoderValues& values, Json& config);

}  // namespace trireme
