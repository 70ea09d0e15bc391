#include "model/spec.h"
#include "model/train_flops.h"

#include <gtest/gtest.h>

#include "tests/model/spec_cases.h"
#include "tests/support/expect_error.h"

namespace trireme {
namespace {

Spec llama() {
  Spec spec = small_spec();
  make_llama(spec);
  return spec;
}

TEST(Spec, ValuesWithoutAMeaningAreErrors) {
  const auto check = [](void (*change)(Spec&), const char* text) {
    Spec spec = llama();
    change(spec);
    EXPECT_ERROR(spec.validate(), ErrorKind::config, text);
  };
  check([](Spec& s) { s.heads = 6, s.key_heads = 4, s.width = 12, s.rotary_dims = 2; },
        "model: 4 heads of keys do not divide 6 heads; 1, 2, 3, 6 do");
  check([](Spec& s) { s.heads = 3, s.key_heads = 0; },
        "model: 3 heads do not divide width 8; heads that do: 1, 2, 4, 8");
  check([](Spec& s) { s.heads = 1024, s.head_size = 4096, s.key_heads = 1; },
        "model: 1024 heads of 4096 values are 4194304, expected at most 262144");
  check([](Spec& s) { s.biases.norm = true; }, "model: rms norms have no bias");
  check([](Spec& s) { s.norm_offset = 0.5f; }, "model: norm offset is 0.5; it must be 0, or for rms norms 0 or 1");
  check([](Spec& s) { s.norm_place = NormPlace::both, s.residual = Residual::parallel; },
        "model: norms after a parallel residual are not defined");
  check([](Spec& s) { s.attention_scale = -1; }, "model: attention scale is -1; it must be at least 0");
  check([](Spec& s) { s.attention_cap = -1; }, "model: attention cap is -1; it must be at least 0; 0 is none");
  check([](Spec& s) { s.residual_scale = 0; }, "model: residual scale is 0; it must be above 0");
  check([](Spec& s) { s.attention_layers = "F"; },
        "model: attention layers are \"F\", expected 2 letters, one per layer");
  check([](Spec& s) { s.attention_layers = "FX"; },
        "model: attention layers are \"FX\", expected letters F, W, f, w and D");
  check([](Spec& s) { s.attention_layers = "FW"; },
        "model: a window of 0 keys, and at least one layer with a window; both or neither are needed");
  check([](Spec& s) { s.window = 3; },
        "model: a window of 3 keys, and no layer with a window; both or neither are needed");
  check([](Spec& s) { s.window = 3, s.attention_layers = "FW", s.mask = Mask::full; },
        "model: only a causal mask can have windows");
  check([](Spec& s) { s.window_rotary_base = 100; },
        "model: rotary base of windowed layers is 100; it must be above 1, and there must be such layers");
  check([](Spec& s) { s.rotary.factor = 0; }, "model: rotary factor is 0; it must be at least 1");
  Spec learned = small_spec();
  learned.attention_layers = "Ff";
  EXPECT_ERROR(learned.validate(), ErrorKind::config,
               "model: attention layers are \"Ff\", but positions are not rotary");
  learned = small_spec();
  learned.rotary.kind = RotaryKind::linear;
  EXPECT_ERROR(learned.validate(), ErrorKind::config,
               "model: rotary positions of kind linear, but positions are learned");
  Spec classifier = small_spec();
  make_classifier(classifier, 2);
  classifier.logits_cap = 3;
  EXPECT_ERROR(classifier.validate(), ErrorKind::config, "model: a classifier's logits have neither scale nor cap");
}

TEST(Spec, LayersHaveTheirWindowsAndPositions) {
  Spec spec = llama();
  spec.layers = 4, spec.attention_layers = "FWfw", spec.window = 3;
  spec.validate();
  for (const auto& [layer, window, turns] :
       {std::tuple{0, false, true}, {1, true, true}, {2, false, false}, {3, true, false}}) {
    EXPECT_EQ(spec.has_window(layer), window);
    EXPECT_EQ(spec.turns(layer), turns);
  }
  EXPECT_TRUE(llama().turns(1));
  EXPECT_FALSE(small_spec().turns(1));
}

TEST(Spec, FlopsCountGroupsGatesAndWindows) {
  Spec spec = llama();
  spec.layers = 2, spec.heads = 4, spec.key_heads = 2, spec.head_size = 6, spec.width = 8, spec.inner_width = 20;
  // qkv: (4 + 2 x 2) x 6 x 8; out: 4 x 6 x 8; MLP: 3 x 8 x 20; head: 11 x 8
  const double products = 2 * (384 + 192 + 480) + 88;
  EXPECT_EQ(train_flops_per_token(spec, 100), 6 * products + 12 * 24 * 2 * 50);
  spec.window = 10, spec.attention_layers = "FW";
  // The first 10 queries of a window see 5 keys on average, the others 10: 9.5.
  EXPECT_EQ(train_flops_per_token(spec, 100), 6 * products + 12 * 24 * (50 + 9.5));
  EXPECT_EQ(train_flops_per_token(spec, 8), 6 * products + 12 * 24 * (4 + 4));
}

TEST(Spec, FlopsCountStatesGatesAndConvolutions) {
  Spec spec = llama();
  spec.layers = 2, spec.heads = 4, spec.key_heads = 2, spec.head_size = 6, spec.width = 8, spec.inner_width = 20;
  spec.attention_gate = true, spec.attention_layers = "DF";
  spec.delta_key_heads = 2, spec.delta_value_heads = 4, spec.delta_key_size = 3, spec.delta_value_size = 5;
  spec.delta_taps = 4;
  spec.validate();
  // Attention: (2 x 4 + 2 x 2) x 6 x 8 and 4 x 6 x 8. State: queries, keys, values 12 + 20, gates 20, 8 more, times 8;
  // 20 x 8; 4 taps of 32 channels; 3 products with 4 states of 3 x 5. MLP: 3 x 8 x 20; head: 11 x 8.
  const double products = (576 + 192) + (60 * 8 + 160 + 128) + 2 * 480 + 88, states = 3 * 4 * 15;
  EXPECT_EQ(train_flops_per_token(spec, 100), 6 * (products + states) + 12 * 24 * 50);
  EXPECT_EQ(train_flops_per_token(ParameterTable(spec), 100), 6 * (products + states) + 12 * 24 * 50);
  // Only the last block is trained: of the first one forward is left, a third.
  const double frozen = 60 * 8 + 160 + 128 + 480, last = 576 + 192 + 480;
  EXPECT_EQ(train_flops_per_token(ParameterTable(spec, InitScheme::gpt2, {}, {"block.1", ""}), 100),
            2 * (frozen + states) + 6 * last + 12 * 24 * 50 + 4 * 88);
}

TEST(Spec, RefusesLayersWithAStateThatDoNotFit) {
  Spec spec = llama();
  spec.attention_layers = "DF";
  EXPECT_ERROR(spec.validate(), ErrorKind::config,
               "model: at least one layer with a state (D), but delta key heads, value heads, key size, value size and "
               "taps are 0, 0, 0, 0, 0; all are 0 without such a layer and above 0 with one");
  spec.delta_key_heads = 2, spec.delta_value_heads = 3, spec.delta_key_size = spec.delta_value_size = 4;
  spec.delta_taps = 9;
  EXPECT_ERROR(spec.validate(), ErrorKind::config, "model: taps of layers with a state is 9, expected 0 to 8");
  spec.delta_taps = 4;
  EXPECT_ERROR(spec.validate(), ErrorKind::config,
               "model: 2 key heads of layers with a state do not divide their 3 value heads; 1, 3 do");
  spec.delta_value_heads = 4;
  spec.validate();
  spec.adapters = "attention.out in 0: rank 2, scale 1";
  EXPECT_ERROR(spec.validate(), ErrorKind::config,
               "model: block 0 has no linear attention.out, because it has a state");
}

TEST(Spec, TensorRanksAreAtMostTheHeadsOfKeys) {
  Spec spec = llama();
  spec.heads = 8, spec.key_heads = 2, spec.width = 16, spec.rotary_dims = 2;
  const auto table = [&](int ranks) {
    return ParameterTable(spec, InitScheme::gpt2, {.part = {}, .tensor_rank = 0, .tensor_size = ranks});
  };
  EXPECT_EQ(table(2).find("block.0.attention.qkv.weight").shape, Shape({12, 16}));
  EXPECT_EQ(table(2).find("block.0.mlp.in.weight").shape, Shape({20, 16}));
  EXPECT_ERROR(table(4), ErrorKind::config, "tensor 4 does not divide 2 heads of keys; 1, 2 do");
}

}  // namespace
}  // namespace trireme
