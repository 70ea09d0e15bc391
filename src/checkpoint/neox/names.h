#pragma once
// The names of GPT-NeoX's checkpoints: "LAYER.KEY", as its pipeline numbers layers: 0 the embedding, 2 to L + 1 the
// blocks, L + 3 the final norm, L + 4 an own head; 1 and L + 2 have no tensors.

#include <string>
#include <string_view>
#include <vector>

#include "model/spec.h"

namespace trireme {

/// How the tensors of the tensor ranks make one.
enum class NeoxJoin : uint8_t {
  boxes,   ///< side by side, as Layout cuts them
  copies,  ///< every rank has all of it
  shares,  ///< every rank adds its own to the residual stream, so they are summed: biases after a cut by columns, with
           ///< a parallel residual (a sequential one adds them once, after the ranks' sum: copies)
};

struct NeoxRule {
  std::string theirs, ours;
  int64_t layer = 0;
  NeoxJoin join = NeoxJoin::boxes;
  std::string_view key() const { return std::string_view(theirs).substr(theirs.find('.') + 1); }
};

/// Every parameter of the model, in the order in which NeoX lists them.
std::vector<NeoxRule> neox_rules(const Spec& spec);
int64_t neox_last_layer(const Spec& spec);  ///< the last one that has tensors

/// In mp_rank files that we write: {"vocabulary": ids without the rows that were added}. NeoX ignores it.
constexpr const char* kNeoxOwnKey = "trireme";

/// A name as the rules have it, from any form of it: "sequential.2.mlp.dense_h_to_4h.weight",
/// "tied_modules.embed.word_embeddings.weight".
std::string neox_name(std::string_view name);
/// Buffers that hold nothing of the model.
bool is_neox_buffer(std::string_view name);

}  // namespace trireme
