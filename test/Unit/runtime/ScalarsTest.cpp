// The optimizer's scalars and the schedules, against PyTorch's formulas written out.
#include "scrimp/runtime/Scalars.h"
#include <cmath>
#include <gtest/gtest.h>

using namespace scrimp::runtime;

static double scalar(const char *name, const ScalarInputs &inputs) {
  double value;
  writeScalar(scalarIndex(name), DType::f64, reinterpret_cast<char *>(&value), inputs);
  return value;
}

TEST(Scalars, Adam) {
  ScalarInputs in;
  in.values.lr = 0.01;
  in.values.weightDecay = 0.1;
  in.t = 3;
  EXPECT_EQ(scalar("one_minus_beta1", in), 1 - 0.9);
  EXPECT_EQ(scalar("one_minus_beta2", in), 1 - 0.999);
  EXPECT_EQ(scalar("decay_factor", in), 1 - 0.01 * 0.1);
  EXPECT_EQ(scalar("step_size", in), 0.01 / (1 - std::pow(0.9, 3.0)));
  EXPECT_EQ(scalar("sqrt_bias_correction2", in), std::pow(1 - std::pow(0.999, 3.0), 0.5));
  EXPECT_EQ(scalar("eps", in), 1e-8);
}

// torch/optim/sgd.py: the buffer starts as a clone of the first gradient, without dampening.
TEST(Scalars, DampeningStartsAtTheSecondUpdate) {
  ScalarInputs in;
  in.values.dampening = 0.25;
  EXPECT_EQ(scalar("one_minus_dampening", in), 1);
  in.t = 2;
  EXPECT_EQ(scalar("one_minus_dampening", in), 0.75);
}

TEST(Scalars, SeedKeepsAllItsBits) {
  ScalarInputs in;
  in.seed = 0xfedcba9876543211;
  uint64_t wide;
  writeScalar(scalarIndex("seed"), DType::i64, reinterpret_cast<char *>(&wide), in);
  EXPECT_EQ(wide, in.seed);
  EXPECT_EQ(scalarIndex("nonsense"), -1);
}

// Warm-up of 2 of 10 updates: lr/2, lr, then p = 0, 1/8, ..., 7/8.
TEST(Scalars, Schedules) {
  Schedule cosine{ScheduleKind::cosine, 2, 0.1}, linear{ScheduleKind::linear, 2, 0.1},
      constant{ScheduleKind::constant, 2, 0};
  EXPECT_EQ(scheduledRate(cosine, 1, 1, 10), 0.5);
  EXPECT_EQ(scheduledRate(cosine, 1, 2, 10), 1);
  EXPECT_EQ(scheduledRate(cosine, 1, 3, 10), 1);
  EXPECT_DOUBLE_EQ(scheduledRate(cosine, 1, 7, 10), 0.55);
  EXPECT_DOUBLE_EQ(scheduledRate(cosine, 1, 10, 10), 0.1 + 0.9 * 0.5 * (1 + std::cos(M_PI * 7 / 8)));
  EXPECT_DOUBLE_EQ(scheduledRate(linear, 1, 7, 10), 0.55);
  EXPECT_EQ(scheduledRate(constant, 1, 9, 10), 1);
  EXPECT_EQ(scheduledRate(cosine, 1, 12, 10), 0.1);
}
