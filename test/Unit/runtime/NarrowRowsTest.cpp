// Rows of 16-bit floats against the conversions of single elements: every 16-bit pattern, and every f32 near a tie.
#include "../../../runtime/lib/cpu/NarrowRows.h"
#include <bit>
#include <cmath>
#include <gtest/gtest.h>
#include <vector>

using namespace scrimp::runtime;

TEST(NarrowRows, WidensEveryPattern) {
  std::vector<uint16_t> all(65536);
  for (size_t i = 0; i < all.size(); ++i)
    all[i] = static_cast<uint16_t>(i);
  std::vector<float> wide(all.size());
  for (DType type : {DType::bf16, DType::f16}) {
    widenRow(type, all.data(), wide.data(), 65536);
    for (size_t i = 0; i < all.size(); ++i) {
      float expected = type == DType::bf16 ? bf16ToFloat(all[i]) : halfToFloat(all[i]);
      if (std::isnan(expected))
        ASSERT_TRUE(std::isnan(wide[i])) << i;
      else
        ASSERT_EQ(std::bit_cast<uint32_t>(wide[i]), std::bit_cast<uint32_t>(expected)) << i;
    }
  }
}

TEST(NarrowRows, RoundsAsSingleElementsDo) {
  std::vector<float> values;
  // Sign, exponent and the first bits of the mantissa run through all; the rest stands below, at and above ties.
  for (uint32_t high = 0; high < 65536; ++high)
    for (uint32_t low : {0x0000u, 0x0001u, 0x0fffu, 0x1000u, 0x1001u, 0x7fffu, 0x8000u, 0x8001u, 0xf000u, 0xffffu})
      values.push_back(std::bit_cast<float>(high << 16 | low));
  std::vector<uint16_t> narrow(values.size());
  for (DType type : {DType::bf16, DType::f16}) {
    narrowRow(type, values.data(), narrow.data(), static_cast<int64_t>(values.size()));
    for (size_t i = 0; i < values.size(); ++i) {
      uint16_t expected = type == DType::bf16 ? floatToBf16(values[i]) : floatToHalf(values[i]);
      if (std::isnan(values[i]))
        ASSERT_TRUE(std::isnan(type == DType::bf16 ? bf16ToFloat(narrow[i]) : halfToFloat(narrow[i]))) << i;
      else
        ASSERT_EQ(narrow[i], expected) << dtypeName(type) << " of " << values[i];
    }
  }
}
