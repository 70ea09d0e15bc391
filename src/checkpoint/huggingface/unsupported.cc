#include "checkpoint/huggingface/family.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

namespace trireme {
namespace {

constexpr const char *kExperts = "it is a mixture of experts", *kImages = "it also takes images",
                     *kLinear =
                         "some of its layers have linear attention with a state, which no operator here computes",
                     *kLayerEmbeddings = "each layer has its own embeddings, and layers share keys and values";

struct Known {
  std::string_view model_type;
  const char* reason;
};
/// Types that people try.
constexpr Known kTypes[] = {
    {"qwen3_next", kLinear},
    {"gemma4", kLayerEmbeddings},
    {"gemma4_text", kLayerEmbeddings},
    {"gemma4_unified", kLayerEmbeddings},
    {"gemma4_unified_text", kLayerEmbeddings},
    {"gemma3n", kLayerEmbeddings},
    {"gemma3n_text", kLayerEmbeddings},
    {"llama4", kExperts},
    {"mixtral", kExperts},
    {"qwen2_moe", kExperts},
    {"qwen3_moe", kExperts},
    {"olmoe", kExperts},
    {"phimoe", kExperts},
    {"gpt_oss", kExperts},
    {"granitemoe", kExperts},
    {"deepseek_v2", kExperts},
    {"deepseek_v3", kExperts},
    {"mllama", kImages},
    {"llava", kImages},
    {"qwen2_vl", kImages},
    {"qwen2_5_vl", kImages},
};

struct Field {
  const char* name;
  const char* reason;
};
/// Fields that show it in a type that is not listed, if they have a value other than null, 0 and false; the first that
/// is there counts.
constexpr Field kFields[] = {
    {"vision_config", "it also takes images or sound"},
    {"audio_config", "it also takes images or sound"},
    {"image_token_id", "it also takes images or sound"},
    {"image_token_index", "it also takes images or sound"},
    {"num_experts", kExperts},
    {"num_local_experts", kExperts},
    {"n_routed_experts", kExperts},
    {"moe_num_experts", kExperts},
    {"moe_intermediate_size", kExperts},
    {"linear_num_key_heads", kLinear},
    {"linear_conv_kernel_dim", kLinear},
    {"ssm_state_size", kLinear},
    {"state_size", kLinear},
    {"mamba_d_state", kLinear},
    {"conv_L_cache", kLinear},
    {"lru_width", kLinear},
};

bool says_something(const Json& value) {
  return !value.is_null() && value != false && !(value.is_number() && value.get<double>() == 0);
}

}  // namespace

std::string why_unsupported(std::string_view model_type, const Json& config) {
  const auto* known = std::ranges::find(kTypes, model_type, &Known::model_type);
  if (known != std::end(kTypes)) return known->reason;
  if (!config.is_object()) return {};
  for (const auto& [name, reason] : kFields) {
    const auto found = config.find(name);
    if (found != config.end() && says_something(*found)) return fmt::format("{} (\"{}\")", reason, name);
  }
  return {};
}

}  // namespace trireme
