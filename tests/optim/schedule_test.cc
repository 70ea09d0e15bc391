#include "optim/schedule.h"

#include <gtest/gtest.h>

namespace trireme {
namespace {

constexpr RateSchedule kGpt2{RateCourse::cosine, 6e-4, 6e-5, 2000, 600000};

TEST(RateSchedule, WarmsUpLinearlyAndNeverStartsAtZero) {
  EXPECT_DOUBLE_EQ(learning_rate(kGpt2, 0), 6e-4 / 2001);
  EXPECT_DOUBLE_EQ(learning_rate(kGpt2, 999), 6e-4 * 1000 / 2001);
  EXPECT_DOUBLE_EQ(learning_rate(kGpt2, 1999), 6e-4 * 2000 / 2001);
}

TEST(RateSchedule, FollowsTheCosineFromPeakToMinimum) {
  EXPECT_DOUBLE_EQ(learning_rate(kGpt2, 2000), 6e-4);
  EXPECT_DOUBLE_EQ(learning_rate(kGpt2, 301000), 3.3e-4);                  // half way: the mean of both
  EXPECT_NEAR(learning_rate(kGpt2, 151500), 5.209188309203679e-4, 1e-18);  // a quarter: cos(pi / 4)
  EXPECT_DOUBLE_EQ(learning_rate(kGpt2, 600000), 6e-5);
  EXPECT_DOUBLE_EQ(learning_rate(kGpt2, 600001), 6e-5);
  EXPECT_DOUBLE_EQ(learning_rate(kGpt2, int64_t{1} << 40), 6e-5);
}

TEST(RateSchedule, LinearGoesStraightFromPeakToMinimum) {
  const RateSchedule schedule{RateCourse::linear, 1e-3, 1e-4, 10, 110};
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 9), 1e-3 * 10 / 11);
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 10), 1e-3);
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 35), 7.75e-4);
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 60), 5.5e-4);
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 110), 1e-4);
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 1000), 1e-4);
}

TEST(RateSchedule, ConstantKeepsThePeakAfterWarmUp) {
  const RateSchedule schedule{RateCourse::constant, 1e-3, 1e-5, 10, 100};
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 4), 1e-3 * 5 / 11);
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 10), 1e-3);
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 1000), 1e-3);
}

TEST(RateSchedule, ADecayThatEndsWithTheWarmUpGoesStraightToTheMinimum) {
  const RateSchedule schedule{RateCourse::cosine, 1e-3, 1e-5, 10, 10};
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 9), 1e-3 * 10 / 11);
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 10), 1e-5);
}

TEST(RateSchedule, LinearFallsInEqualStepsFromThePeakToTheMinimum) {
  RateSchedule schedule{RateCourse::linear, 1e-3, 0, 0, 100};
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 0), 1e-3);
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 25), 0.75e-3);
  EXPECT_NEAR(learning_rate(schedule, 99), 1e-5, 1e-15);
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 100), 0);
  schedule.warmup_steps = 20;
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 0), 1e-3 / 21);
  schedule.warms_from_zero = true;  // transformers' rule
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 0), 0);
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 5), 0.25e-3);
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 60), 0.5e-3);
}

// Rates of transformers' optimization.py (get_polynomial_decay_schedule_with_warmup and its siblings), computed by its
// formulas in Python, those of warmup_stable_decay by transformers 5.24 itself: peak 2e-5, by default 10 of 100 steps
// warm up.
TEST(TransformersSchedule, IsItsOwn) {
  const int64_t steps[] = {0, 5, 10, 11, 55, 99, 100, 101};
  struct Case {
    const char* name;
    RateSchedule schedule;
    double rates[8];
  };
  const auto of = [](RateCourse course) {
    RateSchedule schedule{course, 2e-5, 0, 10, 100};
    schedule.warms_from_zero = true;
    return schedule;
  };
  RateSchedule polynomial = of(RateCourse::polynomial), square = polynomial;
  polynomial.minimum = 1e-7;
  square.minimum = 1e-6;
  square.power = 2;
  RateSchedule once = of(RateCourse::cosine_with_restarts), thrice = once;
  thrice.restarts = 3;
  RateSchedule inverse = of(RateCourse::inverse_sqrt), cold = inverse, slow = inverse;
  cold.warmup_steps = 0;
  slow.timescale = 50;
  RateSchedule stable = of(RateCourse::stable_decay), straight = stable, root = stable, tenth = stable;
  stable.minimum = straight.minimum = root.minimum = 2e-6;
  stable.decay_length = straight.decay_length = root.decay_length = 50;
  straight.decay_shape = DecayShape::linear;
  root.decay_shape = DecayShape::sqrt;
  const Case cases[] = {
      {"warmup_stable_decay by a cosine",
       stable,
       {2e-06, 1.1e-05, 2e-05, 2e-05, 1.9559508646656384e-05, 2.017759444145556e-06, 2e-06, 2e-06}},
      {"... in a line", straight, {2e-06, 1.1e-05, 2e-05, 2e-05, 1.82e-05, 2.36e-06, 2e-06, 2e-06}},
      {"... by a root",
       root,
       {2e-06, 1.1e-05, 2e-05, 2e-05, 1.4307900211696917e-05, 2.180909114099002e-06, 2e-06, 2e-06}},
      {"... of a tenth", tenth, {0, 1e-05, 2e-05, 2e-05, 2e-05, 4.894348370484648e-07, 0, 0}},
      {"polynomial",
       polynomial,
       {0, 1e-05, 2e-05, 1.9778888888888892e-05, 1.0050000000000002e-05, 3.2111111111111034e-07, 1e-07, 1e-07}},
      {"polynomial of power 2",
       square,
       {0, 1e-05, 2e-05, 1.958012345679013e-05, 5.75e-06, 1.0023456790123456e-06, 1e-06, 1e-06}},
      {"cosine_with_restarts", once, {0, 1e-05, 2e-05, 1.999390827019096e-05, 1e-05, 6.091729809042379e-09, 0, 0}},
      {"of 3 cycles", thrice, {0, 1e-05, 2e-05, 1.9945218953682736e-05, 1e-05, 5.4781046317266e-08, 0, 0}},
      {"inverse_sqrt",
       inverse,
       {0, 1e-05, 2e-05, 1.9069251784911845e-05, 8.528028654224418e-06, 6.356417261637282e-06, 6.324555320336758e-06,
        6.2931677552755265e-06}},
      {"inverse_sqrt without a warm-up",
       cold,
       {2e-05, 1.9995001874219093e-05, 1.9990007493755467e-05, 1.998900906668925e-05, 1.994522584013585e-05,
        1.990172906269999e-05, 1.9900743804199787e-05, 1.9899758692014233e-05}},
      {"inverse_sqrt of timescale 50",
       slow,
       {0, 1e-05, 2e-05, 1.9802950859533486e-05, 1.4509525002200235e-05, 1.1995202878081345e-05, 1.1952286093343938e-05,
        1.1909826683508273e-05}},
  };
  for (const Case& c : cases) {
    for (size_t i = 0; i < std::size(steps); ++i)
      EXPECT_NEAR(learning_rate(c.schedule, steps[i]), c.rates[i], 1e-19) << c.name << " at " << steps[i];
  }
}

// Rates of GPT-NeoX's AnnealingLR, computed by its formulas in Python: peak 1e-3, minimum 1e-4, 2.5 of 20 updates warm
// up.
TEST(NeoxSchedule, IsItsOwnToTheLastBit) {
  const int64_t updates[] = {0, 1, 2, 3, 11, 20, 21, 40};
  const struct {
    RateCourse course;
    double rates[8];
  } courses[] = {
      {RateCourse::constant, {0.0004, 0.0004, 0.0008, 0.001, 0.001, 0.001, 0.001, 0.001}},
      {RateCourse::linear,
       {0.0004, 0.0004, 0.0008, 0.0009714285714285715, 0.0005142857142857143, 0.0001, 0.0001, 0.0001}},
      {RateCourse::cosine,
       {0.0004, 0.0004, 0.0008, 0.0009981884322978576, 0.0005701891736577318, 0.0001, 0.00010723168513061666,
        0.0009554359905560887}},
      {RateCourse::exponential,
       {0.0004, 0.0004, 0.0008, 0.000980394732646697, 0.0007141944605590042, 0.0005000735956957677,
        0.0004806576541575995, 0.0002265023406764688}},
  };
  for (const auto& [course, rates] : courses) {
    const RateSchedule schedule{.course = course,
                                .peak = 1e-3,
                                .minimum = 1e-4,
                                .warmup_steps = 2.5,
                                .decay_steps = 20,
                                .form = ScheduleForm::neox};
    EXPECT_TRUE(schedule.counts_updates());
    for (size_t i = 0; i < std::size(updates); ++i)
      EXPECT_EQ(learning_rate(schedule, updates[i]), rates[i]) << static_cast<int>(course) << " at " << updates[i];
  }
}

// Computed by NeoX's class (AnnealingLR of ea7aefd): peak 1e-3, minimum 1e-4, 20 updates, warm-ups of none, of a part
// of an update, and of one.
TEST(NeoxSchedule, WithoutAWarmUpTheFirstUpdateHasThePeak) {
  const int64_t updates[] = {0, 1, 2, 20};
  const struct {
    double warmup;
    RateCourse course;
    double rates[4];
  } cases[] = {
      {0, RateCourse::constant, {0.001, 0.001, 0.001, 0.001}},
      {0, RateCourse::linear, {0.001, 0.00095, 0.0009000000000000001, 0.0001}},
      {0, RateCourse::cosine, {0.001, 0.000994459753267812, 0.0009779754323328191, 0.0001}},
      {0, RateCourse::exponential, {0.001, 0.0009659434373034891, 0.0009330467240696795, 0.0005000735956957677}},
      {0.25, RateCourse::linear, {0.004, 0.0009620253164556962, 0.0009113924050632912, 0.0001}},
      {0.25, RateCourse::cosine, {0.004, 0.000996801433165888, 0.0009826772069473392, 0.0001}},
      {1, RateCourse::linear, {0.001, 0.001, 0.0009473684210526316, 0.0001}},
      {1, RateCourse::exponential, {0.001, 0.001, 0.0009641834668115951, 0.0005000735956957677}},
  };
  for (const auto& [warmup, course, rates] : cases) {
    const RateSchedule schedule{.course = course,
                                .peak = 1e-3,
                                .minimum = 1e-4,
                                .warmup_steps = warmup,
                                .decay_steps = 20,
                                .form = ScheduleForm::neox};
    for (size_t i = 0; i < std::size(updates); ++i)
      EXPECT_EQ(learning_rate(schedule, updates[i]), rates[i])
          << static_cast<int>(course) << " with " << warmup << " at " << updates[i];
  }
}

// Seen in files that NeoX wrote, and in its class.
TEST(NeoxSchedule, HasItsOddEnds) {
  RateSchedule schedule{RateCourse::cosine, 1e-3, 1e-4, 2, 20, false, ScheduleForm::neox};
  EXPECT_EQ(learning_rate(schedule, 3), 0.0009931634888554937) << "stored with the optimizer after three steps";
  schedule = {RateCourse::cosine, 1e-4, 0, 100, 1000, false, ScheduleForm::neox};
  EXPECT_NEAR(learning_rate(schedule, 2000), 9.698e-5, 1e-8) << "climbs again past the end";
  schedule.course = RateCourse::exponential;
  EXPECT_NEAR(learning_rate(schedule, 1000), 0.5e-4, 1e-8) << "ends at half of the start";
  schedule.warmup_steps = 1000;
  EXPECT_EQ(learning_rate(schedule, 1001), 0) << "NeoX divides by zero here";
}

}  // namespace
}  // namespace trireme
