// Small parts: element types, hashes, the arena's guards, exponentials.
#include "../../../runtime/lib/cpu/Exp.h"
#include "scrimp/runtime/Arena.h"
#include "scrimp/runtime/Convert.h"
#include "scrimp/runtime/Hash.h"
#include <cmath>
#include <gtest/gtest.h>

using namespace scrimp::runtime;

static uint64_t hashOf(std::string_view text, size_t piece) {
  Hash64 hash;
  for (size_t at = 0; at < text.size(); at += piece)
    hash.update(text.data() + at, std::min(piece, text.size() - at));
  return hash.digest();
}

// Published XXH64 values, whole and in pieces.
TEST(Formats, Xxh64) {
  EXPECT_EQ(hashOf("", 1), 0xef46db3751d8e999u);
  EXPECT_EQ(hashOf("a", 1), 0xd24ec4f1a98c6e5bu);
  EXPECT_EQ(hashOf("abc", 2), 0x44bc2cf5ad770999u);
  std::string_view long_ = "Nobody inspects the spammish repetition, and so on until more than one block is full";
  for (size_t piece : {1, 5, 31, 32, 33, 64})
    EXPECT_EQ(hashOf(long_, piece), hashOf(long_, long_.size()));
  EXPECT_EQ(hashOf("Nobody inspects the spammish repetition", 7), 0xfbcea83c8a378bf1u);
}

TEST(Formats, HalfRoundsToEven) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    float value = halfToFloat(static_cast<uint16_t>(bits));
    if (!std::isnan(value)) {
      ASSERT_EQ(floatToHalf(value), bits);
    }
  }
  EXPECT_EQ(floatToHalf(1 + 0x1p-11f), 0x3c00);     // half way: to even
  EXPECT_EQ(floatToHalf(1 + 3 * 0x1p-11f), 0x3c02); // half way: to even
  EXPECT_EQ(floatToHalf(1 + 0x1p-11f + 0x1p-20f), 0x3c01);
  EXPECT_EQ(floatToHalf(65519.0f), 0x7bff);
  EXPECT_EQ(floatToHalf(65520.0f), 0x7c00);
  EXPECT_EQ(floatToHalf(0x1p-25f), 0);
  EXPECT_EQ(floatToHalf(0x1.8p-25f), 1);
  EXPECT_TRUE(std::isnan(halfToFloat(floatToHalf(NAN))));
}

// Trap 16, by integer arithmetic.
TEST(Formats, Bf16RoundsToEven) {
  EXPECT_EQ(floatToBf16(1.0f), 0x3f80);
  EXPECT_EQ(floatToBf16(1 + 0x1p-8f), 0x3f80);
  EXPECT_EQ(floatToBf16(1 + 3 * 0x1p-8f), 0x3f82);
  EXPECT_EQ(floatToBf16(INFINITY), 0x7f80);
  EXPECT_TRUE(std::isnan(bf16ToFloat(floatToBf16(NAN))));
}

TEST(Formats, IntegersConvertExactlyOrNotAtAll) {
  int64_t wide[] = {1, -1, 127, 128, int64_t{1} << 40, (int64_t{1} << 24) + 1};
  auto source = reinterpret_cast<const char *>(wide);
  char target[64];
  EXPECT_EQ(convertElements(FileType::i64, source, DType::i8, target, 6), 3);
  EXPECT_EQ(convertElements(FileType::i64, source, DType::i32, target, 6), 4);
  EXPECT_EQ(convertElements(FileType::i64, source, DType::f32, target, 6), 5);
  EXPECT_EQ(convertElements(FileType::i64, source, DType::f64, target, 6), -1);
  EXPECT_EQ(convertElements(FileType::i64, source, DType::i1, target, 6), 1);
  EXPECT_FALSE(canConvert(FileType::f32, DType::i64));
  EXPECT_TRUE(canConvert(FileType::f64, DType::f32));
}

TEST(Formats, ExponentialIsCloseToLibm) {
  double worst = 0;
  for (float x = -87.0f; x < 5; x += 0.00137f) {
    double exact = std::exp(static_cast<double>(x));
    worst = std::max(worst, std::abs(exponential(x) - exact) / exact);
  }
  EXPECT_LT(worst, 2.5e-7);
  EXPECT_EQ(exponential(-INFINITY), 0.0f);
  EXPECT_EQ(exponential(-1e30f), 0.0f);
  EXPECT_EQ(exponential(0.0f), 1.0f);
  EXPECT_TRUE(std::isnan(exponential(NAN)));
}

TEST(Formats, TheFirstByteBehindTheArenaFaults) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  Arena arena;
  ASSERT_FALSE(arena.allocate(4096 + 64, 64).failed());
  EXPECT_EQ(reinterpret_cast<uintptr_t>(arena.base()) % 64, 0u);
  volatile char *bytes = arena.base();
  bytes[0] = 1;
  bytes[4096 + 63] = 1;
  EXPECT_DEATH(bytes[4096 + 64] = 1, "");
  EXPECT_DEATH(bytes[-4097] = 1, "");
  EXPECT_TRUE(Arena().allocate(100, 64).failed());
  EXPECT_TRUE(Arena().allocate(UINT64_MAX - 63, 64).failed());
  Arena nothing;
  EXPECT_FALSE(nothing.allocate(0, 64).failed());
}
