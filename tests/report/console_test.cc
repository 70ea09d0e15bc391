#include "report/console.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace trireme {
namespace {

Metrics example() {
  Metrics m{120, 4.56781, 6e-4, 1.2345, 12345.4, 332.14, 0.031, 0.452, 3840, 245760, 0};
  m.samples_per_second = 96.44;
  m.flops_per_second = 9.87654e12;
  return m;
}

std::vector<LogColumn> every_column() {
  std::vector<LogColumn> columns;
  for (const Named<LogColumn>& known : Names<LogColumn>::kAll) columns.push_back(known.value);
  return columns;
}

TEST(StepLine, BeginsWithLossRateGradientAndSpeed) {
  EXPECT_EQ(step_line(example(), 2000),
            "step  120/2000 | loss  4.5678 | lr 6.00e-04 | grad   1.2345 |    12345 tok/s |   332.1 ms/step | "
            "wait  3.1% | mfu 45.2%");
}

TEST(StepLine, FitsIn120CharactersWhateverThereIsToSay) {
  Metrics m = example();
  m.perplexity = std::exp(m.loss);
  m.memory_bytes = 1'234'000'000;
  EXPECT_LE(step_line(m, 2000).size(), 120u);
  m.step = m.samples = 123'456'789;
  m.tokens_per_second = 1.25e9;
  m.loss_scale = 65536;
  m.skipped = 12;
  const std::string line = step_line(m, 200'000'000);
  EXPECT_LE(line.size(), 120u) << line;
  EXPECT_NE(line.find("| scale 65536 | 12 skipped"), std::string::npos) << line;
  m = example();
  m.values = {{"reward accuracy", 0.75}, {"reward margin", 1.5}, {"log-probability of the chosen", -123.4}};
  const std::string task = step_line(m, 2000);
  EXPECT_LE(task.size(), 120u) << task;
  EXPECT_NE(task.find("tok/s | reward accuracy   0.75"), std::string::npos) << task;
}

TEST(StepLine, ShowsTheColumnsThatAreAskedForInTheirOrder) {
  Metrics m = example();
  m.perplexity = std::exp(m.loss);
  m.memory_bytes = 1'234'000'000;
  EXPECT_EQ(step_line(m, 2000, {LogColumn::perplexity, LogColumn::loss, LogColumn::samples}),
            "step  120/2000 | ppl     96.33 | loss  4.5678 | 3840 samples");
  m.slowest = slowest_of({0.2, 0.21, 0.43, 0.19});
  m.interval_loss = 4.6;
  EXPECT_EQ(step_line(m, 2000, every_column()),
            "step  120/2000 | loss  4.5678 | mean  4.6000 | lr 6.00e-04 | grad   1.2345 |    12345 tok/s |   332.1 "
            "ms/step | wait  "
            "3.1% | mfu 45.2% | ppl     96.33 |   1.23 GB | 3840 samples |   96.4 samples/s |   9.9TFLOP/s | "
            "slowest rank 2 2.10x");
}

TEST(StepLine, OfATaskWithEpochsHasThemAndTheMeanLoss) {
  Metrics m = example();
  m.interval_loss = 4.6;
  EXPECT_EQ(step_line(m, 2000).find("mean"), std::string::npos);
  m.epoch = 1.25;
  EXPECT_TRUE(step_line(m, 2000).starts_with("step  120/2000 | epoch  1.25 | loss  4.5678 | mean  4.6000 | lr"));
  m.values = {{"rewards/chosen", -0.04}};
  EXPECT_TRUE(step_line(m, 2000).starts_with("step  120/2000 | epoch  1.25 | loss  4.5678 | lr"));
  EXPECT_TRUE(step_line(m, 2000).ends_with("tok/s | rewards/chosen  -0.04"));
}

TEST(OptionLines, AreAlignedAndHaveTheOrigin) {
  const OptionFacts options{{"optim.clip", "0.5", "flag --optim.clip", true},
                            {"log.every", "1", "a.yaml:7", false},
                            {"data.train", std::string(100, 'x'), "a.yaml:12", true}};
  EXPECT_EQ(option_lines(options),
            (std::vector<std::string>{"optim.clip  0.5                                           flag --optim.clip",
                                      "data.train  " + std::string(41, 'x') + "...  a.yaml:12"}));
}

TEST(StepLine, KeepsItsColumnsFromStepToStep) {
  Metrics early = example();
  early.step = 1;
  early.loss = 10.98765;
  early.tokens_per_second = 987.6;
  const std::string a = step_line(early, 2000), b = step_line(example(), 2000);
  for (const char* column : {" | lr", " | grad", " tok/s", " ms/step", " | mfu"}) {
    EXPECT_EQ(a.find(column), b.find(column)) << column;
  }
}

TEST(StepLine, NamesSkippedStepsOnceThereAreAny) {
  EXPECT_EQ(step_line(example(), 2000).find("skipped"), std::string::npos);
  Metrics m = example();
  m.skipped = 2;
  EXPECT_NE(step_line(m, 2000).find(" | 2 skipped"), std::string::npos);
}

TEST(StepLine, ShowsTheLossScaleOfF16) {
  Metrics m = example();
  EXPECT_EQ(step_line(m, 2000).find("scale"), std::string::npos);
  m.loss_scale = 65536;
  EXPECT_NE(step_line(m, 2000, {LogColumn::samples}).find("3840 samples | scale 65536"), std::string::npos);
  EXPECT_NE(neox_step_line(m, 2000).find(" | loss scale: 65536.0 | "), std::string::npos);
}

TEST(StepLine, ShowsANonFiniteLossAsSuch) {
  Metrics m = example();
  m.loss = std::numeric_limits<double>::quiet_NaN();
  EXPECT_NE(step_line(m, 2000).find("loss     nan"), std::string::npos);
}

TEST(NeoxStepLine, IsThatOfNeoxWithTheGradientsNorm) {
  Metrics m = example();
  m.flops_per_device = 90.34e12;
  m.interval_loss = 9.876543;
  m.interval_skipped = 2;
  m.interval_not_finite = 1;
  EXPECT_EQ(
      neox_step_line(m, 150000),
      " samples/sec: 96.440 | iteration      120/  150000 | elapsed time per iteration (ms): 332.1 | learning rate: "
      "6.000E-04 | approx flops per GPU: 90.3TFLOPS | lm_loss: 9.876543E+00 | grad norm: 1.234 | loss scale: 1.0 | "
      "number of skipped iterations:   2 | number of nan iterations:   1 |");
}

TEST(TestLine, HasLossAndPerplexity) {
  EXPECT_EQ(test_line({250, std::log(100.0), 2.34}), "test at step 250: loss 4.6052, perplexity 100.00 (2.3 s)");
}

TEST(EvaluationLine, AddsPerplexityAndWhetherItIsTheBest) {
  EXPECT_EQ(evaluation_line({250, std::nullopt, std::log(100.0), 2.34, false}),
            "evaluation at step 250: validation loss 4.6052, perplexity 100.00 (2.3 s)");
  EXPECT_EQ(evaluation_line({250, 4.5, 4.25, 2.0, true}),
            "evaluation at step 250: validation loss 4.2500, perplexity 70.11, train loss 4.5000 (2.0 s, best so far)");
  EXPECT_EQ(evaluation_line({250, 4.5, std::nullopt, 2.0, false}),
            "evaluation at step 250: train loss 4.5000, no validation data (2.0 s)");
}

TEST(ProgressLine, ShowsShareLossAndTimeLeft) {
  EXPECT_EQ(progress_line(900, 2000, 3.2141, 133),
            "[==========>             ]  45% step 900/2000, loss 3.2141, 2m13s left");
  EXPECT_EQ(progress_line(0, 2000, NAN, -1), "[>                       ]   0% step 0/2000");
  EXPECT_EQ(progress_line(2000, 2000, NAN, 0), "[========================] 100% step 2000/2000, 0s left");
}

TEST(ProgressLine, IsFullWhereThereIsNothingToDo) {
  EXPECT_EQ(progress_line(0, 0, NAN, -1), "[========================] 100% step 0/0");
}

TEST(DurationText, UsesTheTwoLargestUnits) {
  EXPECT_EQ(duration_text(0.4), "0s");
  EXPECT_EQ(duration_text(59.4), "59s");
  EXPECT_EQ(duration_text(59.6), "1m00s");
  EXPECT_EQ(duration_text(18420), "5h07m");
  EXPECT_EQ(duration_text(3 * 86400 + 4 * 3600 + 59), "3d04h");
}

}  // namespace
}  // namespace trireme
