#include "common/bf16.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

namespace {

constexpr float inf = std::numeric_limits<float>::infinity();

bf16 of_bits(unsigned bits) {
  bf16 value;
  value.bits = static_cast<std::uint16_t>(bits);
  return value;
}

// As shared memory and copies byte by byte want it.
static_assert(std::is_trivially_default_constructible_v<bf16> && std::is_trivially_copyable_v<bf16>);

TEST(Bf16, IsTheUpperHalfOfAFloat) {
  EXPECT_EQ(bf16(1.0f).bits, 0x3f80);
  EXPECT_EQ(bf16(-2.5f).bits, 0xc020);
  EXPECT_EQ(bf16(-0.0f).bits, 0x8000);
  EXPECT_EQ(static_cast<float>(of_bits(0x3f81)), 1.0f + 0x1p-7f);
}

TEST(Bf16, EveryValueSurvivesTheWayToFloatAndBack) {
  for (unsigned bits = 0; bits < 0x10000; ++bits) {
    const float value = of_bits(bits);
    if (std::isnan(value)) {
      EXPECT_EQ(bf16(value).bits, bits | 0x40);  // quiet, otherwise the same
    } else {
      EXPECT_EQ(bf16(value).bits, bits);
    }
  }
}

// Against the definition: of the two neighbours the nearer one, of two as near the even one.
TEST(Bf16, RoundsToNearestEven) {
  for (unsigned bits = 0; bits < 0x7f7f; ++bits) {  // all but the largest, whose upper neighbour is no number
    const double low = static_cast<float>(of_bits(bits)), high = static_cast<float>(of_bits(bits + 1));
    for (const std::uint32_t below : {0x0001u, 0x1234u, 0x7fffu, 0x8000u, 0x8001u, 0xffffu}) {
      const float value = std::bit_cast<float>(bits << 16 | below);
      const bool nearer_high = value - low > high - value, tie = value - low == high - value;
      const unsigned expected = nearer_high || (tie && bits % 2 == 1) ? bits + 1 : bits;
      ASSERT_EQ(bf16(value).bits, expected) << value;
      ASSERT_EQ(bf16(-value).bits, expected | 0x8000) << value;
    }
  }
}

TEST(Bf16, TooLargeBecomesInfinite) {
  EXPECT_EQ(static_cast<float>(bf16(std::bit_cast<float>(0x7f7f7fffu))), 0x1.fep127f);
  EXPECT_EQ(static_cast<float>(bf16(std::bit_cast<float>(0x7f7f8000u))), inf);
  EXPECT_EQ(static_cast<float>(bf16(-std::numeric_limits<float>::max())), -inf);
  EXPECT_EQ(static_cast<float>(bf16(inf)), inf);
}

// Also one that has its bits in the lower half only, and one whose rounding would run into the exponent.
TEST(Bf16, NanStaysNan) {
  for (const std::uint32_t bits : {0x7fc00000u, 0x7f800001u, 0x7fffffffu, 0xffffffffu, 0x7fad7fadu}) {
    EXPECT_TRUE(std::isnan(static_cast<float>(bf16(std::bit_cast<float>(bits))))) << std::hex << bits;
    EXPECT_EQ(bf16(std::bit_cast<float>(bits)).bits >> 15, bits >> 31) << std::hex << bits;
  }
}

}  // namespace
