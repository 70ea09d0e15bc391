// The model in GPT-NeoX's files: its form, its sizes and its first weights.

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/count.h"
#include "base/json.h"
#include "config/config.h"
#include "config/gpt_neox.h"
#include "config/gpt_neox_part.h"

namespace trireme {
namespace {

bool is_text(const Json& item) { return item.is_string(); }

class ModelTranslator : private NeoxPart {
 public:
  ModelTranslator(const DialectView& view, Translation& out) : NeoxPart(view, out) {}

  void translate() {
    model();
    initial_weights();
  }

 private:
  void model() {
    norms();
    set("model.tied-head", !is("no_weight_tying"), "no_weight_tying");
    set("model.residual", is("gpt_j_residual") ? Residual::parallel : Residual::sequential, "gpt_j_residual");
    if (view_.given("use_bias_in_attn_linear")) {
      copy("use_bias_in_attn_linear", "model.qkv-bias");
      copy("use_bias_in_attn_linear", "model.attention-out-bias");
    }
    if (view_.given("use_bias_in_mlp")) {
      copy("use_bias_in_mlp", "model.mlp-in-bias");
      copy("use_bias_in_mlp", "model.mlp-out-bias");
      if (is("gpt_j_residual") && !is("use_bias_in_mlp"))
        object("use_bias_in_mlp",
               "with gpt_j_residual, NeoX drops the attention's output of such a model; change one of the two");
    }
    activation();
    positions();
    attention();
    const int64_t inner = inner_width();
    const int64_t multiple = view_.integer("mlp_multiple_of");
    if (is_gated()) return gated_width(inner, multiple);
    if (multiple < 1 || inner % multiple != 0)
      object("mlp_multiple_of",
             fmt::format("the MLP's width is {}, not a multiple of it; set intermediate_size to the required width",
                         inner));
  }

  void norms() {
    const bool rms = view_.text("norm") == "rmsnorm";
    const char* epsilon = rms ? "rms_norm_epsilon" : "layernorm_epsilon";
    if (rms) set("model.norm", NormKind::rms, "norm");
    if (rms || view_.given(epsilon)) copy(epsilon, "model.norm-epsilon");
    if (!rms && view_.given("use_bias_in_norms")) copy("use_bias_in_norms", "model.norm-bias");
    if (view_.given("final_norm") && view_.text("final_norm") != view_.text("norm"))
      object("final_norm", "only the same norm as in the blocks is supported; remove it");
  }

  /// Newer versions take two thirds of the width for both matrices of a gated MLP together, and round up the rows of
  /// both (2 x multiple) and the columns of the second one (multiple).
  void gated_width(int64_t width, int64_t multiple) {
    if (multiple < 1) return object("mlp_multiple_of", "the smallest possible value is 1");
    const auto round_up = [](int64_t n, int64_t to) { return (n + to - 1) / to * to; };
    const int64_t both = width * 2 / 3, inner = round_up(both / 2, multiple);
    const char* key = view_.given("intermediate_size") ? "intermediate_size" : "mlp_multiple_of";
    if (round_up(both, 2 * multiple) != 2 * inner)
      return object(key,
                    fmt::format("NeoX itself fails with this gated MLP: its first matrix has {} rows and its second "
                                "one {} columns; set intermediate_size to 3 times the width that you want",
                                round_up(both, 2 * multiple), inner));
    set("model.inner-width", inner, key);
  }

  /// The MLP's inner width; NeoX does not accept both keys.
  int64_t inner_width() {
    constexpr const char* kFactor = "expansion_factor";
    if (view_.given("intermediate_size")) {
      if (view_.given(kFactor)) object(kFactor, "intermediate_size also sets the MLP's width; remove one of them");
      if (!is_gated()) copy("intermediate_size", "model.inner-width");
      return view_.integer("intermediate_size");
    }
    if (!view_.given(kFactor)) return 4 * view_.integer("hidden_size");
    const double width = view_.number(kFactor) * static_cast<double>(view_.integer("hidden_size"));
    constexpr double kMost = 1 << 24;
    if (width < 1 || width > kMost) {
      object(kFactor, fmt::format("this gives an MLP of width {}", width));
      return 0;
    }
    set("model.inner-width", static_cast<int64_t>(width), kFactor);
    return static_cast<int64_t>(width);
  }

  void activation() {
    const std::string& name = view_.text("activation");
    const Activation gelu = is("bias_gelu_fusion") ? Activation::gelu_tanh : Activation::gelu_erf;
    const bool by_fusion = name == "gelu" && view_.given("bias_gelu_fusion");
    if (name == "gelu" || name == "relu")
      set("model.activation", name == "relu" ? Activation::relu : gelu, by_fusion ? "bias_gelu_fusion" : "activation");
    if (name == "silu" || name == "swish" || name == "swiglu") set("model.activation", Activation::silu, "activation");
    if (name == "geglu") set("model.activation", Activation::gelu_erf, "activation");
    if (name == "reglu") set("model.activation", Activation::relu, "activation");
    if (is_gated()) set("model.gated", true, "activation");
  }
  bool is_gated() const {
    const std::string& name = view_.text("activation");
    return name == "swiglu" || name == "geglu" || name == "reglu";
  }

  void positions() {
    const bool rotary = view_.text("pos_emb") == "rotary";
    set("model.position", rotary ? Position::rotary : Position::learned, "pos_emb");
    if (!rotary) return;  // as in NeoX, rotary_pct and rotary_emb_base then have no effect
    copy("rotary_pct", "model.rotary-fraction");
    copy("rotary_emb_base", "model.rotary-base");
  }

  /// Flash attention lets a query see its own position and `width` before it.
  void window(bool all_flash) {
    constexpr const char* key = "sliding_window_width";
    if (!view_.given(key) || view_.integer(key) >= view_.integer("seq_length")) return;
    const int64_t width = view_.integer(key);
    if (width < 1) return object(key, "the smallest possible value is 1");
    if (!all_flash)
      return object(key,
                    "NeoX uses it only in layers of attention type flash; set attention_config to flash, or remove it");
    set("model.window", width + 1, key);
  }

  /// In every layer, a query attends to all keys before it: [[["flash"], 24]].
  void attention() {
    const int64_t heads = view_.integer("num_attention_heads");
    if (const int64_t keys = view_.integer("num_kv_heads"); view_.given("num_kv_heads") && keys != 0 && keys != heads) {
      if (keys < 0 || heads % keys != 0)
        object("num_kv_heads", fmt::format("it does not divide num_attention_heads, which is {}", heads));
      else
        copy("num_kv_heads", "model.key-heads");
    }
    constexpr const char* kUnique = "num_unique_layers";
    if (view_.given(kUnique) && view_.integer(kUnique) != view_.integer("num_layers"))
      object(kUnique, "layers that share weights are not supported; set it to num_layers, or remove it");
    if (!view_.given("attention_config")) return window(false);
    constexpr const char* kForm = "pairs of attention types and their number of repetitions, like [[[\"flash\"], 12]]";
    const auto is_pair = [](const Json& item) {
      return item.is_array() && item.size() == 2 && item[0].is_array() && std::ranges::all_of(item[0], is_text) &&
             (item[1].is_number_integer() || item[1] == "all");
    };
    const auto pairs = neox_list(view_, "attention_config", kForm, is_pair);
    if (!pairs) return;
    int64_t layers = 0;
    bool all_flash = true;
    for (const Json& pair : *pairs) {
      for (const Json& type : pair[0]) {
        all_flash = all_flash && type == "flash";
        if (type == "global" || type == "flash") continue;
        return object("attention_config", fmt::format("attention of type {} is not supported; set global or flash",
                                                      type.get<std::string>()));
      }
      if (pair[1] == "all") return window(all_flash);
      layers += pair[1].get<int64_t>() * static_cast<int64_t>(pair[0].size());
    }
    if (layers != view_.integer("num_layers"))
      object("attention_config", fmt::format("it describes {}, but num_layers is {}", count_text(layers, "layer"),
                                             view_.integer("num_layers")));
    window(all_flash);
  }

  void initial_weights() {
    struct Scheme {
      const char *method, *output;
      double std;
      const char* ours;
    };
    constexpr double kAny = 0;
    constexpr Scheme kSchemes[] = {{"normal", "scaled_normal", 0.02, "gpt2"},
                                   {"normal", "normal", 0.02, "bert"},
                                   {"normal", "scaled_normal", 0.006, "opt"},
                                   {"small_init", "wang_init", kAny, "neox"}};
    const std::string &method = view_.text("init_method"), &output = view_.text("output_layer_init_method");
    const double std = view_.number("init_method_std");
    const char* key = view_.given("init_method")                ? "init_method"
                      : view_.given("output_layer_init_method") ? "output_layer_init_method"
                                                                : "init_method_std";
    for (const Scheme& scheme : kSchemes) {
      if (method == scheme.method && output == scheme.output && (scheme.std == kAny || scheme.std == std))
        return set("model.init-scheme", scheme.ours, key);
    }
    if (view_.native("model.init-scheme") || view_.native("model.init")) return;
    view_.object(fmt::format(
        "{}: {} is {}: init_method {} with output_layer_init_method {} and init_method_std {} is not supported; set "
        "normal with scaled_normal (0.02 or 0.006) or normal (0.02), or small_init with wang_init",
        view_.origin(key).text(), key, to_text(view_.value(key)), method, output, std));
  }
};

}  // namespace

void translate_neox_model(const DialectView& view, Translation& out) { ModelTranslator(view, out).translate(); }

}  // namespace trireme
