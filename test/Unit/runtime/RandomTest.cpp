// Philox against published vectors; initial values; permutations.
#include "scrimp/runtime/Random.h"
#include <cmath>
#include <gtest/gtest.h>
#include <vector>

using namespace scrimp::runtime;

// Random123's kat_vectors, philox4x32 10.
TEST(Random, PhiloxPublishedVectors) {
  EXPECT_EQ(philox4x32({0, 0, 0, 0}, {0, 0}), (PhiloxCounter{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox4x32({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, {0xffffffff, 0xffffffff}),
            (PhiloxCounter{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (PhiloxCounter{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Random, Fnv1a) {
  EXPECT_EQ(fnv1a64(""), 0xcbf29ce484222325u);
  EXPECT_EQ(fnv1a64("a"), 0xaf63dc4c8601ec8cu);
  EXPECT_EQ(fnv1a64("foobar"), 0x85944171f73967e8u);
}

// Under the key seed ^ fnv1a64(name) = 0 and block 0 the words are philox({0, 0, 0, 1}, {0, 0}).
TEST(Random, UniformFollowsItsFormula) {
  InitialValues values(fnv1a64("w"), "w");
  PhiloxCounter words = philox4x32({5, 1, 0, 1}, {0, 0});
  auto drawn = values.uniform(0x100000005, -2, 3);
  for (int i = 0; i < 4; ++i)
    EXPECT_EQ(drawn[i], static_cast<float>(-2 + 5.0 * ((words[i] >> 8) / 16777216.0)));
}

TEST(Random, NormalHasItsMoments) {
  InitialValues values(1, "w");
  double sum = 0, squares = 0;
  int count = 40000;
  for (int block = 0; block < count / 4; ++block)
    for (float x : values.normal(block, 1, 2)) {
      ASSERT_TRUE(std::isfinite(x));
      sum += x;
      squares += (x - 1.0) * (x - 1.0);
    }
  EXPECT_NEAR(sum / count, 1, 0.05);
  EXPECT_NEAR(squares / count, 4, 0.1);
}

TEST(Random, TensorsAndSeedsDiffer) {
  EXPECT_NE(InitialValues(1, "a").uniform(0, 0, 1), InitialValues(1, "b").uniform(0, 0, 1));
  EXPECT_NE(InitialValues(1, "a").uniform(0, 0, 1), InitialValues(2, "a").uniform(0, 0, 1));
}

TEST(Random, PermutationIsABijection) {
  for (uint64_t size : {1, 2, 3, 7, 64, 65, 1000, 4097})
    for (uint64_t epoch : {0, 1}) {
      Permutation permutation(size, 3, epoch);
      std::vector<bool> seen(size);
      for (uint64_t i = 0; i < size; ++i) {
        uint64_t image = permutation(i);
        ASSERT_LT(image, size);
        ASSERT_FALSE(seen[image]);
        seen[image] = true;
      }
    }
}

TEST(Random, PermutationsDifferByEpochAndSeed) {
  int equalEpoch = 0, equalSeed = 0;
  for (uint64_t i = 0; i < 1000; ++i) {
    equalEpoch += Permutation(1000, 3, 0)(i) == Permutation(1000, 3, 1)(i);
    equalSeed += Permutation(1000, 3, 0)(i) == Permutation(1000, 4, 0)(i);
  }
  EXPECT_LT(equalEpoch, 20);
  EXPECT_LT(equalSeed, 20);
}

// A domain close to 2^63 needs halves of 32 bits.
TEST(Random, PermutationOfALargeDomain) {
  uint64_t size = (uint64_t{1} << 62) + 12345;
  Permutation permutation(size, 1, 0);
  EXPECT_LT(permutation(0), size);
  EXPECT_NE(permutation(0), permutation(1));
}
