#include "checkpoint/gguf/architecture.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/log.h"

namespace trireme {
namespace {

constexpr GgufArchitecture kKnown[] = {
    {.model_type = "gpt2", .name = "gpt2", .activation = Activation::gelu_tanh, .biases = true},
    {.model_type = "gpt_neox",
     .name = "gptneox",
     .activation = Activation::gelu_tanh,
     .own_head = true,
     .biases = true},
    {.model_type = "llama",
     .name = "llama",
     .activation = Activation::silu,
     .interleaved = true,
     .divisors = true,
     .biases = true},
    {.model_type = "mistral", .name = "llama", .activation = Activation::silu, .interleaved = true, .divisors = true},
    {.model_type = "qwen2", .name = "qwen2", .activation = Activation::silu, .biases = true},
    {.model_type = "qwen3", .name = "qwen3", .activation = Activation::silu},
    {.model_type = "gemma", .name = "gemma", .activation = Activation::gelu_tanh},
    {.model_type = "gemma2", .name = "gemma2", .activation = Activation::gelu_tanh},
    {.model_type = "gemma3_text", .name = "gemma3", .activation = Activation::gelu_tanh},
    {.model_type = "phi3", .name = "phi3", .activation = Activation::silu},
    {.model_type = "smollm3", .name = "smollm3", .activation = Activation::silu, .interleaved = true, .biases = true},
    {.model_type = "olmo2", .name = "olmo2", .activation = Activation::silu, .own_head = true},
    {.model_type = "olmo3", .name = "olmo2", .activation = Activation::silu, .own_head = true},
    {.model_type = "granite",
     .name = "granite",
     .activation = Activation::silu,
     .interleaved = true,
     .divisors = true,
     .biases = true},
};

struct Refused {
  std::string_view model_type;
  const char* reason;
};
constexpr Refused kRefused[] = {
    {"opt", "llama.cpp has no architecture for OPT"},
    {"qwen3_5", "llama.cpp computes its layers with a state, but they are not written here yet"},
    {"qwen3_5_text", "llama.cpp computes its layers with a state, but they are not written here yet"},
    {"distilbert", "llama.cpp has no architecture for DistilBERT"},
    {"bert", "llama.cpp computes embeddings with BERT, but not the head of a masked language model or a classifier"},
    {"roberta",
     "llama.cpp computes embeddings with RoBERTa, but not the head of a masked language model or a classifier"},
};

bool is(const GgufArchitecture& architecture, std::string_view name) { return architecture.name == name; }

bool is_gemma(const GgufArchitecture& architecture) { return std::string_view(architecture.name).starts_with("gemma"); }

/// Every `interval`-th layer has no window, and all others do; 0: no such number.
int64_t window_interval(const Spec& spec) {
  for (int64_t interval = 1; interval <= spec.layers + 1; ++interval) {
    bool fits = true;
    for (int64_t i = 0; i < spec.layers; ++i) fits &= spec.has_window(i) == ((i + 1) % interval != 0);
    if (fits) return interval;
  }
  return 0;
}

bool has_windows(const GgufArchitecture& architecture) {
  return is(architecture, "gemma2") || is(architecture, "gemma3") || is(architecture, "olmo2");
}

bool reads_window_base(const GgufArchitecture& architecture) { return is(architecture, "gemma3"); }

/// What queries are multiplied by, so that the scores are those of the model: Gemma's scale of scores is not in the
/// file, llama.cpp takes it from the number of layers.
float query_factor(const GgufArchitecture& architecture, const Spec& spec) {
  if (!is_gemma(architecture)) return 1;
  const int64_t largest = is(architecture, "gemma2") ? 46 : is(architecture, "gemma3") ? 62 : -1;
  const int64_t divisor = spec.layers == largest ? spec.width / spec.heads : spec.head_dim();
  return spec.score_scale() * std::sqrt(static_cast<float>(divisor));
}

bool has_biases(const GgufArchitecture& architecture, const Spec& spec) {
  const Biases& b = spec.biases;
  return b.attention_out || b.mlp_in || b.mlp_out || (b.qkv && !is(architecture, "qwen2"));
}

/// Why llama.cpp does not compute this model; empty: it does.
std::string obstacle(const GgufArchitecture& a, const Spec& spec) {
  const bool gelu = spec.activation == Activation::gelu_erf && a.activation == Activation::gelu_tanh && !is_gemma(a);
  if (spec.activation != a.activation && !gelu)
    return fmt::format("its activation is {}, but only {} is computed there", name_of(spec.activation),
                       name_of(a.activation));
  if (!a.biases && has_biases(a, spec)) return "it has biases, which are not read there";
  if (is_gemma(a) && !spec.tied_head) return "its head is a matrix of its own, but only a tied one is read there";
  const RotaryKind kind = spec.rotary.kind;
  if (kind == RotaryKind::llama3 && !a.divisors)
    return "its positions are scaled as Llama 3's, which is not read there";
  if (kind == RotaryKind::longrope && !is(a, "phi3") && !is(a, "llama") && !is(a, "granite"))
    return "its positions are scaled by factors per frequency (longrope), which are not read there";
  if (kind == RotaryKind::yarn && !spec.rotary.truncate)
    return "the bounds of its scaled positions are not whole numbers (\"truncate\" false), which are all that is "
           "computed there";
  if (is(a, "smollm3")) {
    for (int64_t i = 0; i < spec.layers; ++i)
      if (spec.turns(i) != ((i + 1) % 4 != 0))
        return "layers without positions are every fourth one there, and not here";
  }
  if (is(a, "gemma2") && (spec.attention_cap == 0 || spec.logits_cap == 0))
    return "it has no caps of scores and logits, which are always computed there";
  if (has_windows(a) && spec.window > 0) {
    if (window_interval(spec) == 0 && !is(a, "olmo2"))
      return "its layers with windows do not repeat in the way that is read there";
    if (!reads_window_base(a) && spec.window_rotary_base > 0 && spec.window_rotary_base != spec.rotary_base)
      return "its layers with windows have another base of positions, which is not computed there";
  }
  return {};
}

struct TensorName {
  const char* ours;
  FileLayout layout;
  const char* theirs;
};
constexpr TensorName kNames[] = {
    {"embedding.token.weight", FileLayout::same, "token_embd.weight"},
    {"embedding.position.weight", FileLayout::same, "position_embd.weight"},
    {"norm.weight", FileLayout::same, "output_norm.weight"},
    {"norm.bias", FileLayout::same, "output_norm.bias"},
    {"head.weight", FileLayout::same, "output.weight"},
    {"block.{}.norm1.weight", FileLayout::same, "blk.{}.attn_norm.weight"},
    {"block.{}.norm1.bias", FileLayout::same, "blk.{}.attn_norm.bias"},
    {"block.{}.norm2.weight", FileLayout::same, "blk.{}.ffn_norm.weight"},
    {"block.{}.norm2.bias", FileLayout::same, "blk.{}.ffn_norm.bias"},
    {"block.{}.branch_norm1.weight", FileLayout::same, "blk.{}.post_attention_norm.weight"},
    {"block.{}.branch_norm2.weight", FileLayout::same, "blk.{}.post_ffw_norm.weight"},
    {"block.{}.attention.qkv.weight", FileLayout::query, "blk.{}.attn_q.weight"},
    {"block.{}.attention.qkv.bias", FileLayout::query, "blk.{}.attn_q.bias"},
    {"block.{}.attention.qkv.weight", FileLayout::key, "blk.{}.attn_k.weight"},
    {"block.{}.attention.qkv.bias", FileLayout::key, "blk.{}.attn_k.bias"},
    {"block.{}.attention.qkv.weight", FileLayout::value, "blk.{}.attn_v.weight"},
    {"block.{}.attention.qkv.bias", FileLayout::value, "blk.{}.attn_v.bias"},
    {"block.{}.attention.qkv.weight", FileLayout::qkv_blocks, "blk.{}.attn_qkv.weight"},
    {"block.{}.attention.qkv.bias", FileLayout::qkv_blocks, "blk.{}.attn_qkv.bias"},
    {"block.{}.attention.out.weight", FileLayout::same, "blk.{}.attn_output.weight"},
    {"block.{}.attention.out.bias", FileLayout::same, "blk.{}.attn_output.bias"},
    {"block.{}.attention.q_norm.weight", FileLayout::same, "blk.{}.attn_q_norm.weight"},
    {"block.{}.attention.k_norm.weight", FileLayout::same, "blk.{}.attn_k_norm.weight"},
    {"block.{}.mlp.in.weight", FileLayout::gate, "blk.{}.ffn_gate.weight"},
    {"block.{}.mlp.in.bias", FileLayout::gate, "blk.{}.ffn_gate.bias"},
    {"block.{}.mlp.in.weight", FileLayout::up, "blk.{}.ffn_up.weight"},
    {"block.{}.mlp.in.bias", FileLayout::up, "blk.{}.ffn_up.bias"},
    {"block.{}.mlp.in.weight", FileLayout::gate_up_blocks, "blk.{}.ffn_up.weight"},
    {"block.{}.mlp.in.weight", FileLayout::same, "blk.{}.ffn_up.weight"},
    {"block.{}.mlp.in.bias", FileLayout::same, "blk.{}.ffn_up.bias"},
    {"block.{}.mlp.out.weight", FileLayout::same, "blk.{}.ffn_down.weight"},
    {"block.{}.mlp.out.bias", FileLayout::same, "blk.{}.ffn_down.bias"},
};

/// Matrices are [out, in] there; queries, keys and values in one matrix follow each other.
FileLayout gguf_layout(const NameRule& rule) {
  if (rule.layout == FileLayout::transposed) return FileLayout::same;
  const bool fused = rule.layout == FileLayout::same || rule.layout == FileLayout::qkv_blocks_transposed;
  if (fused && std::string_view(rule.ours).starts_with("block.{}.attention.qkv.")) return FileLayout::qkv_blocks;
  return rule.layout;
}

/// The factor of cosines and sines beside the one that llama.cpp computes itself, yarn's.
float attention_factor(const RotaryScaling& scaling) {
  const bool own = scaling.kind == RotaryKind::yarn;
  return scaling.attention_factor / (own ? 0.1f * std::log(scaling.factor) + 1 : 1);
}

void add_positions(const Spec& spec, const auto& add) {
  if (spec.position != Position::rotary) return;
  add("rope.dimension_count", static_cast<uint32_t>(spec.rotary_dims));
  add("rope.freq_base", spec.rotary_base);
  const RotaryScaling& scaling = spec.rotary;
  if (scaling.kind == RotaryKind::linear || scaling.kind == RotaryKind::yarn) {
    add("rope.scaling.type", name_of(scaling.kind));
    add("rope.scaling.factor", scaling.factor);
  }
  if (scaling.kind == RotaryKind::longrope) add("rope.scaling.type", name_of(scaling.kind));
  if (scaling.kind == RotaryKind::yarn || scaling.kind == RotaryKind::longrope) {
    add("rope.scaling.original_context_length", static_cast<uint32_t>(scaling.original_context));
    add("rope.scaling.attn_factor", attention_factor(scaling));
  }
  if (scaling.kind == RotaryKind::yarn) {
    add("rope.scaling.yarn_beta_fast", scaling.beta_fast);
    add("rope.scaling.yarn_beta_slow", scaling.beta_slow);
  }
}

void add_windows(const GgufArchitecture& architecture, const Spec& spec, const auto& add) {
  if (!has_windows(architecture)) {
    // Phi-3's key says that the model is one with a window, which is not computed either.
    if (is(architecture, "phi3")) add("attention.sliding_window", uint32_t{0});
    if (spec.window > 0 && spec.window < spec.context)
      log::warning("llama.cpp has no windows in {}: texts longer than {} tokens get other probabilities there",
                   architecture.name, spec.window);
    return;
  }
  if (is(architecture, "olmo2")) {
    if (spec.window == 0) return;
    add("attention.sliding_window", static_cast<uint32_t>(spec.window));
    std::vector<bool> windows;
    for (int64_t i = 0; i < spec.layers; ++i) windows.push_back(spec.has_window(i));
    add("attention.sliding_window_pattern", windows);
    return;
  }
  // Every layer is a full one with the interval 1.
  add("attention.sliding_window", static_cast<uint32_t>(spec.window > 0 ? spec.window : spec.context));
  add("attention.sliding_window_pattern", static_cast<uint32_t>(window_interval(spec)));
  if (reads_window_base(architecture))
    add("rope.freq_base_swa", spec.window_rotary_base > 0 ? spec.window_rotary_base : spec.rotary_base);
}

}  // namespace

const GgufArchitecture& gguf_architecture(const Family& family, const Spec& spec) {
  const auto* refused = std::ranges::find(kRefused, std::string_view(family.model_type), &Refused::model_type);
  require(refused == std::end(kRefused), ErrorKind::config, "cannot write a {} model as GGUF: {}", family.model_type,
          refused == std::end(kRefused) ? "" : refused->reason);
  const auto* known = std::ranges::find(kKnown, std::string_view(family.model_type),
                                        [](const GgufArchitecture& a) { return std::string_view(a.model_type); });
  require(known != std::end(kKnown), ErrorKind::config,
          "cannot write a {} model as GGUF: its architecture in llama.cpp is not known here", family.model_type);
  const std::string reason = obstacle(*known, spec);
  require(reason.empty(), ErrorKind::config,
          "cannot write this {} model as GGUF, because llama.cpp would compute another one: {}", family.model_type,
          reason);
  return *known;
}

std::vector<const GgufArchitecture*> gguf_architectures() {
  std::vector<const GgufArchitecture*> all;
  for (const GgufArchitecture& one : kKnown) all.push_back(&one);
  return all;
}

std::vector<NameRule> gguf_names(const Family& family) {
  std::vector<NameRule> names;
  for (const NameRule& rule : family.names) {
    const FileLayout layout = gguf_layout(rule);
    const auto* name = std::ranges::find_if(kNames, [&](const TensorName& known) {
      return std::string_view(known.ours) == rule.ours && known.layout == layout;
    });
    if (name != std::end(kNames)) names.push_back({name->theirs, rule.ours, layout});
  }
  return names;
}

void add_architecture(const GgufArchitecture& architecture, const Spec& spec, GgufMetadata& metadata) {
  const auto add = [&](std::string_view key, const auto& value) {
    metadata.add(fmt::format("{}.{}", architecture.name, key), value);
  };
  add("vocab_size", static_cast<uint32_t>(spec.vocabulary));
  add("context_length", static_cast<uint32_t>(spec.context));
  add("embedding_length", static_cast<uint32_t>(spec.width));
  add("block_count", static_cast<uint32_t>(spec.layers));
  add("feed_forward_length", static_cast<uint32_t>(spec.inner_width));
  add("attention.head_count", static_cast<uint32_t>(spec.heads));
  add("attention.head_count_kv", static_cast<uint32_t>(spec.kv_heads()));
  add("attention.key_length", static_cast<uint32_t>(spec.head_dim()));
  add("attention.value_length", static_cast<uint32_t>(spec.head_dim()));
  add(spec.norm == NormKind::rms ? "attention.layer_norm_rms_epsilon" : "attention.layer_norm_epsilon",
      spec.norm_epsilon);
  add_positions(spec, add);
  add_windows(architecture, spec, add);
  if (is(architecture, "gptneox")) add("use_parallel_residual", spec.residual == Residual::parallel);
  if (spec.attention_cap > 0) add("attn_logit_softcapping", spec.attention_cap);
  if (spec.logits_cap > 0) add("final_logit_softcapping", spec.logits_cap);
  if (!is(architecture, "granite")) return;
  add("attention.scale", spec.score_scale());
  add("embedding_scale", spec.embedding_scale);
  add("residual_scale", spec.residual_scale);
  add("logit_scale", 1 / spec.logits_scale);
}

std::vector<GgufExtra> extra_tensors(const GgufArchitecture&, const Spec& spec) {
  if (spec.rotary.kind == RotaryKind::longrope)
    return {{"rope_factors_long.weight", spec.rotary.long_factors},
            {"rope_factors_short.weight", spec.rotary.short_factors}};
  if (spec.rotary.kind != RotaryKind::llama3) return {};
  const auto base = static_cast<double>(spec.rotary_base);
  std::vector<float> divisors = rotary_frequencies(base, spec.rotary_dims, {}, spec.context);
  const std::vector<float> scaled = rotary_frequencies(base, spec.rotary_dims, spec.rotary, spec.context);
  for (size_t i = 0; i < divisors.size(); ++i) divisors[i] /= scaled[i];
  return {{"rope_freqs.weight", divisors}};
}

namespace {

/// Rows of queries and keys in the order of llama.cpp, or back.
void reorder_rows(const GgufArchitecture& architecture, const Spec& spec, std::string_view name, int64_t row_length,
                  bool back, std::vector<float>& values) {
  const bool turns = name.ends_with(".attn_q.weight") || name.ends_with(".attn_k.weight") ||
                     name.ends_with(".attn_q.bias") || name.ends_with(".attn_k.bias");
  const auto width = static_cast<size_t>(row_length), rows = static_cast<size_t>(spec.head_dim());
  if (!architecture.interleaved || !turns || values.size() % (rows * width) != 0) return;
  std::vector<float> old(rows * width);
  for (auto head = values.begin(); head != values.end(); head += std::ssize(old)) {
    std::copy_n(head, old.size(), old.begin());
    for (size_t row = 0; row < rows; ++row) {
      const size_t half = row % 2 * (rows / 2) + row / 2;
      const size_t from = back ? row : half, to = back ? half : row;
      std::copy_n(old.begin() + static_cast<std::ptrdiff_t>(from * width), width,
                  head + static_cast<std::ptrdiff_t>(to * width));
    }
  }
}

void add_to_gains(const Spec& spec, std::string_view name, float sign, std::vector<float>& values) {
  if (spec.norm_offset == 0 || !name.ends_with("norm.weight")) return;
  for (float& value : values) value += sign * spec.norm_offset;
}

}  // namespace

void to_gguf_values(const GgufArchitecture& architecture, const Spec& spec, std::string_view name, int64_t row_length,
                    std::vector<float>& values) {
  add_to_gains(spec, name, 1, values);
  // The gain of queries that are normalised afterwards.
  const bool normed = spec.query_keys != QueryKeys::plain;
  if (name.ends_with(normed ? ".attn_q_norm.weight" : ".attn_q.weight")) {
    const float factor = query_factor(architecture, spec);
    if (std::fabs(factor - 1) > 1e-6f) {
      for (float& value : values) value *= factor;
    }
  }
  reorder_rows(architecture, spec, name, row_length, false, values);
}

void from_gguf_values(const GgufArchitecture& architecture, const Spec& spec, std::string_view name, int64_t row_length,
                      std::vector<float>& values) {
  add_to_gains(spec, name, -1, values);
  reorder_rows(architecture, spec, name, row_length, true, values);
}

}  // namespace trireme
