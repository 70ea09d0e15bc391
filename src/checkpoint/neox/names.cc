#include "checkpoint/neox/names.h"

#include <fmt/format.h>

#include <utility>

#include "model/parameter_table.h"

namespace trireme {
namespace {

constexpr int64_t kFirstBlock = 2;

struct BlockName {
  const char *theirs, *ours;
  NeoxJoin join;
};
constexpr BlockName kBlock[] = {
    {"input_layernorm.weight", "norm1.weight", NeoxJoin::copies},
    {"input_layernorm.bias", "norm1.bias", NeoxJoin::copies},
    {"attention.query_key_value.weight", "attention.qkv.weight", NeoxJoin::boxes},
    {"attention.query_key_value.bias", "attention.qkv.bias", NeoxJoin::boxes},
    {"attention.dense.weight", "attention.out.weight", NeoxJoin::boxes},
    {"attention.dense.bias", "attention.out.bias", NeoxJoin::shares},
    {"post_attention_layernorm.weight", "norm2.weight", NeoxJoin::copies},
    {"post_attention_layernorm.bias", "norm2.bias", NeoxJoin::copies},
    {"mlp.linear1.weight", "mlp.in.weight", NeoxJoin::boxes},
    {"mlp.linear1.bias", "mlp.in.bias", NeoxJoin::boxes},
    {"mlp.linear2.weight", "mlp.out.weight", NeoxJoin::boxes},
    {"mlp.linear2.bias", "mlp.out.bias", NeoxJoin::shares},
};

// Names of older versions.
constexpr std::pair<std::string_view, std::string_view> kOlder[] = {{"mlp.dense_h_to_4h.", "mlp.linear1."},
                                                                    {"mlp.dense_4h_to_h.", "mlp.linear2."}};
constexpr std::string_view kWrappers[] = {"module.", "_forward_module.", "sequential."};
constexpr std::string_view kTied = "tied_modules.embed.";
constexpr std::string_view kBuffers[] = {"attention.rotary_emb.inv_freq", "attention.bias", "attention.masked_bias"};

}  // namespace

int64_t neox_last_layer(const Spec& spec) { return kFirstBlock + spec.layers + (spec.tied_head ? 1 : 2); }

std::vector<NeoxRule> neox_rules(const Spec& spec) {
  const ParameterTable table(spec);
  std::vector<NeoxRule> rules;
  const auto add = [&](int64_t layer, const char* theirs, std::string ours, NeoxJoin join) {
    if (!table.look_up(ours)) return;
    if (join == NeoxJoin::shares && spec.residual == Residual::sequential) join = NeoxJoin::copies;
    rules.push_back({fmt::format("{}.{}", layer, theirs), std::move(ours), layer, join});
  };
  add(0, "word_embeddings.weight", "embedding.token.weight", NeoxJoin::boxes);
  add(0, "position_embeddings.weight", "embedding.position.weight", NeoxJoin::copies);
  for (int64_t block = 0; block < spec.layers; ++block) {
    for (const BlockName& name : kBlock)
      add(kFirstBlock + block, name.theirs, fmt::format("block.{}.{}", block, name.ours), name.join);
  }
  const int64_t norm = kFirstBlock + spec.layers + 1;
  add(norm, "norm.weight", "norm.weight", NeoxJoin::copies);
  add(norm, "norm.bias", "norm.bias", NeoxJoin::copies);
  add(norm + 1, "final_linear.weight", "head.weight", NeoxJoin::boxes);
  return rules;
}

std::string neox_name(std::string_view name) {
  for (bool again = true; again;) {
    again = false;
    for (const std::string_view wrapper : kWrappers) {
      if (!name.starts_with(wrapper)) continue;
      name.remove_prefix(wrapper.size());
      again = true;
    }
  }
  std::string plain = name.starts_with(kTied) ? fmt::format("0.{}", name.substr(kTied.size())) : std::string(name);
  for (const auto& [older, newer] : kOlder) {
    const size_t at = plain.find(older);
    if (at != std::string::npos) plain.replace(at, older.size(), newer);
  }
  return plain;
}

bool is_neox_buffer(std::string_view name) {
  for (const std::string_view buffer : kBuffers) {
    if (name.ends_with(buffer) && (name.size() == buffer.size() || name[name.size() - buffer.size() - 1] == '.'))
      return true;
  }
  return false;
}

}  // namespace trireme
