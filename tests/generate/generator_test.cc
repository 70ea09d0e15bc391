#include "generate/generator.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/rng.h"
#include "model/mesh_layout.h"
#include "tests/support/apart_device.h"
#include "tests/support/apart_ops.h"
#include "tests/support/cut_states.h"
#include "tests/support/expect_error.h"
#include "tests/support/local_ranks.h"
#include "tests/support/tiny_model.h"
#include "tests/support/vector_view.h"

namespace trireme {
namespace {

/// Weights large enough that rounding does not change the most probable token.
template <class T>
std::vector<T> random_weights(const ParameterTable& table) {
  std::vector<T> weights(static_cast<size_t>(table.flat_count()));
  for (const Parameter& p : table.all()) {
    for (int64_t i = 0; i < p.stored_shape.count(); ++i) {
      const double noise = 0.4 * normal_at(mix_key(11, static_cast<uint64_t>(p.offset)), static_cast<uint64_t>(i));
      const auto value = static_cast<float>(noise + (p.init == Init::ones ? 1.0 : 0.0));
      if constexpr (std::is_same_v<T, float>) {
        weights[static_cast<size_t>(p.offset + i)] = value;
      } else {
        weights[static_cast<size_t>(p.offset + i)] = to_bf16(value);
      }
    }
  }
  return weights;
}

double as_double(float x) { return static_cast<double>(x); }
double as_double(bf16_t x) { return static_cast<double>(to_float(x)); }

template <class T>
struct Model {
  explicit Model(Spec of = tiny_spec()) : spec(std::move(of)) {}

  static constexpr DType kType = DTypeOf<T>::value;
  Spec spec;
  ParameterTable table{spec};
  std::vector<T> weights = random_weights<T>(table);
  std::unique_ptr<Ops> ops = make_cpu_ops();
  ParameterViews views{&table, View(std::span(weights), {table.flat_count()}), {}};
  Generator generator{spec, views, kType, *ops, 1};
  Stage stage{spec, views, kType, {.rows = spec.context, .training = false, .head_rows = spec.context}, *ops, 1};

  std::vector<TokenId> generate(const std::vector<TokenId>& prompt, const GenerateOptions& options,
                                uint64_t sample = 0) {
    std::vector<TokenId> out;
    generator.run(prompt, options, sample, [&](TokenId id) {
      out.push_back(id);
      return true;
    });
    return out;
  }

  /// Logits after the last `context` of `tokens`, without a cache.
  std::vector<double> uncached(const std::vector<TokenId>& tokens) {
    const size_t rows = std::min(tokens.size(), static_cast<size_t>(spec.context));
    std::vector<int32_t> ids(tokens.end() - static_cast<std::ptrdiff_t>(rows), tokens.end()), positions(rows),
        offsets = {0, static_cast<int32_t>(rows)};
    for (size_t i = 0; i < rows; ++i) positions[i] = static_cast<int32_t>(i);
    const auto n = static_cast<int64_t>(rows);
    std::vector<T> logits(rows * static_cast<size_t>(spec.vocabulary_rows));
    Batch batch;
    batch.tokens = View(std::span(ids), {n});
    batch.positions = View(std::span(positions), {n});
    batch.offsets = View(std::span(offsets), {2});
    stage.logits(batch, View(std::span(logits), {n, spec.vocabulary_rows}));
    std::vector<double> last;
    for (int64_t v = 0; v < spec.vocabulary; ++v)
      last.push_back(
          as_double(logits[(rows - 1) * static_cast<size_t>(spec.vocabulary_rows) + static_cast<size_t>(v)]));
    return last;
  }
};

std::vector<TokenId> prompt_of(size_t length) {
  std::vector<TokenId> prompt;
  for (size_t i = 0; i < length; ++i) prompt.push_back(static_cast<TokenId>((7 * i + 3) % 13));
  return prompt;
}

// The context is 8: prompts below, at and above it, and continuations that slide past it.
constexpr size_t kPromptLengths[] = {1, 3, 7, 8, 9, 21};
const GenerateOptions kGreedy = {.sampling = {.greedy = true}, .max_new_tokens = 20, .seed = 1, .stop_at = {}};

TEST(Generator, GreedyWithTheCacheEqualsTheUncachedReference) {
  Model<float> model;
  for (const size_t length : kPromptLengths) {
    std::vector<TokenId> text = prompt_of(length);
    for (const TokenId id : model.generate(text, kGreedy)) {
      const std::vector<double> logits = model.uncached(text);
      ASSERT_EQ(id, std::ranges::max_element(logits) - logits.begin())
          << "prompt of " << length << ", then " << text.size();
      text.push_back(id);
    }
    EXPECT_EQ(text.size(), length + 20);
  }
}

// A text that grows beyond the original context turns by other frequencies from its first token on.
TEST(Generator, ATextThatGrowsBeyondTheOriginalContextIsComputedAgain) {
  for (const RotaryKind kind : {RotaryKind::longrope, RotaryKind::dynamic}) {
    Spec spec = tiny_spec();
    spec.context = 24;
    spec.position = Position::rotary;
    spec.rotary_dims = 8;
    spec.rotary = {.kind = kind, .factor = 4, .original_context = 5};
    if (kind == RotaryKind::longrope) {
      spec.rotary.short_factors = {1, 1, 1, 1};
      spec.rotary.long_factors = {1, 3, 5, 9};
    }
    Model<float> model(spec);
    for (const size_t length : {2, 5, 6}) {
      std::vector<TokenId> text = prompt_of(length);
      for (const TokenId id : model.generate(text, kGreedy)) {
        const std::vector<double> logits = model.uncached(text);
        ASSERT_EQ(id, std::ranges::max_element(logits) - logits.begin())
            << name_of(kind) << ", prompt of " << length << ", then " << text.size();
        text.push_back(id);
      }
    }
  }
}

TEST(Generator, GreedyInBf16TakesALargestLogitOfTheUncachedReferenceWithinItsRounding) {
  Model<bf16_t> model;
  for (const size_t length : kPromptLengths) {
    std::vector<TokenId> text = prompt_of(length);
    for (const TokenId id : model.generate(text, kGreedy)) {
      const std::vector<double> logits = model.uncached(text);
      const double largest = *std::ranges::max_element(logits);
      ASSERT_GE(logits[id], largest - 0.03 * std::abs(largest)) << "prompt of " << length << ", then " << text.size();
      text.push_back(id);
    }
  }
}

TEST(Generator, RanksThatHoldTheModelBetweenThemWriteWhatOneWrites) {
  for (const bool rotary : {false, true}) {
    Spec spec = tiny_spec();
    spec.layers = 4;
    spec.heads = 4;
    if (rotary) {
      spec.position = Position::rotary;
      spec.rotary_dims = 2;
      spec.residual = Residual::parallel;
      spec.tied_head = false;
    }
    const ParameterTable whole(spec);
    std::vector<float> weights = random_weights<float>(whole);
    const GenerateOptions drawn = {.sampling = {.temperature = 1.5}, .max_new_tokens = 20, .seed = 3, .stop_at = {}};
    const auto write = [&](Generator& generator) {
      std::vector<TokenId> out;
      for (const GenerateOptions& options : {kGreedy, drawn})
        for (const size_t length : kPromptLengths)
          generator.run(prompt_of(length), options, 0, [&](TokenId id) {
            out.push_back(id);
            return true;
          });
      return out;
    };
    const auto ops = make_cpu_ops();
    Generator one(spec, {&whole, View(std::span(weights), {whole.flat_count()}), {}}, DType::f32, *ops, 1);
    const std::vector<TokenId> want = write(one);
    for (const MeshShape& shape : {MeshShape{1, 2, 1}, MeshShape{1, 4, 1}, MeshShape{1, 1, 3}, MeshShape{1, 2, 2}}) {
      run_local(static_cast<int>(shape.tensor * shape.pipeline), [&](RankContext& rank) {
        Mesh mesh(rank.world, shape);
        const ParameterTable table(spec, InitScheme::gpt2, layout_of(spec, shape, rank.rank()));
        std::vector<float> part(static_cast<size_t>(table.flat_count()));
        const View own{std::span(part), {table.flat_count()}};
        for (const Parameter& p : table.all())
          copy_box<float>(whole.find(p.name), View(std::span(weights), {whole.flat_count()}), p, own);
        const auto own_ops = make_cpu_ops();
        Generator generator(spec, {&table, own, {}}, DType::f32, *own_ops, 1, &mesh);
        EXPECT_EQ(write(generator), want) << "tensor " << shape.tensor << ", pipeline " << shape.pipeline;
      });
    }
  }
}

TEST(Generator, DrawsArePureFunctionsOfSeedAndSample) {
  Model<float> model;
  GenerateOptions options = {.sampling = {.temperature = 2.0}, .max_new_tokens = 30, .seed = 5, .stop_at = {}};
  const auto first = model.generate(prompt_of(3), options);
  EXPECT_EQ(model.generate(prompt_of(3), options), first) << "the generator remembers something";
  EXPECT_NE(model.generate(prompt_of(3), options, 1), first);
  options.seed = 6;
  EXPECT_NE(model.generate(prompt_of(3), options), first);
}

TEST(Generator, EndsAtTheStopTokenWithoutReportingIt) {
  Model<float> model;
  const auto all = model.generate(prompt_of(3), kGreedy);
  GenerateOptions options = kGreedy;
  options.stop_at = all[4];
  const auto end = std::ranges::find(all, all[4]);
  EXPECT_EQ(model.generate(prompt_of(3), options), std::vector<TokenId>(all.begin(), end));
}

TEST(Generator, EndsAtAnyOfSeveralStopTokens) {
  Model<float> model;
  const auto all = model.generate(prompt_of(3), kGreedy);
  GenerateOptions options = kGreedy;
  options.stop_at = std::vector<TokenId>{all[9], all[4]};
  const auto end = std::ranges::find_if(all, [&](TokenId id) { return id == all[4] || id == all[9]; });
  EXPECT_EQ(model.generate(prompt_of(3), options), std::vector<TokenId>(all.begin(), end));
}

TEST(Generator, NeverDrawsWhatMayNotBeDrawn) {
  Model<float> model;
  for (const SamplingOptions& sampling :
       {SamplingOptions{.greedy = true}, SamplingOptions{.temperature = 3.0}, SamplingOptions{.top_k = 12},
        SamplingOptions{.temperature = 3.0, .top_p = 0.99},
        SamplingOptions{.temperature = 3.0, .top_k = 3, .top_p = 0.9}}) {
    GenerateOptions options = {.sampling = sampling, .max_new_tokens = 60, .seed = 2, .stop_at = {}};
    options.never = {0, 2, 3, 5, 7, 8, 11, 12, 99};
    for (const TokenId id : model.generate(prompt_of(3), options))
      EXPECT_TRUE(std::ranges::find(options.never, id) == options.never.end()) << id;
  }
  GenerateOptions none = kGreedy;
  for (TokenId id = 0; id < 13; ++id) none.never.push_back(id);
  EXPECT_ERROR(model.generate({1}, none), ErrorKind::data, "none of the model's 13 ids may be drawn");
}

TEST(Generator, ARepetitionPenaltyMakesTokensOfTheTextLessProbable) {
  Model<float> model;
  GenerateOptions options = kGreedy;
  options.repetition_penalty = 1e6;
  options.max_new_tokens = 8;
  std::vector<TokenId> text = prompt_of(3);
  for (const TokenId id : model.generate(prompt_of(3), options)) {
    std::vector<double> logits = model.uncached(text);
    for (const TokenId seen : text) {
      double& logit = logits[seen];
      logit = model.uncached(text)[seen] > 0 ? model.uncached(text)[seen] / 1e6 : model.uncached(text)[seen] * 1e6;
    }
    EXPECT_EQ(id, std::ranges::max_element(logits) - logits.begin());
    text.push_back(id);
  }
  options.repetition_penalty = 0;
  EXPECT_ERROR(model.generate({1}, options), ErrorKind::usage, "--repetition-penalty is 0, expected a number above 0");
}

TEST(Generator, RefusesAnEmptyPromptAndForeignTokens) {
  Model<float> model;
  EXPECT_ERROR(model.generate({}, kGreedy), ErrorKind::usage, "the prompt is empty");
  EXPECT_ERROR(
      model.generate({2, 13}, kGreedy), ErrorKind::data,
      "the prompt has token 13, but the model's vocabulary ends at 12: the prompt's tokenizer is not the model's");
}

TEST(Generator, WritesTheSameOnADeviceThatTheProgramDoesNotReach) {
  Model<float> here;
  ApartDevice device;
  ApartOps ops(device, make_cpu_ops());
  Arena memory(view(here.weights).bytes(), device);
  const View weights = memory.take(DType::f32, {here.table.flat_count()});
  device.stream().copy(view(here.weights), weights);
  Generator there(here.spec, {&here.table, weights, {}}, DType::f32, ops, 1);
  GenerateOptions options;
  options.max_new_tokens = 12;
  std::vector<TokenId> written;
  there.run(std::vector<TokenId>{3, 1, 4}, options, 0, [&](TokenId id) {
    written.push_back(id);
    return true;
  });
  EXPECT_EQ(written, here.generate({3, 1, 4}, options));
}

}  // namespace
}  // namespace trireme
