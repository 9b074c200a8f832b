#include "common/fp16.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "common/cpu_device/operand.hpp"

namespace {

fp16 of_bits(unsigned bits) {
  fp16 value;
  value.bits = static_cast<std::uint16_t>(bits);
  return value;
}

// As shared memory and copies byte by byte want it.
static_assert(std::is_trivially_default_constructible_v<fp16> && std::is_trivially_copyable_v<fp16>);

TEST(Fp16, ChosenValues) {
  EXPECT_EQ(fp16(1.0f).bits, 0x3c00);
  EXPECT_EQ(fp16(-2.5f).bits, 0xc100);
  EXPECT_EQ(fp16(-0.0f).bits, 0x8000);
  EXPECT_EQ(fp16(65504.0f).bits, 0x7bff);
  EXPECT_EQ(fp16(0x1p-14f).bits, 0x0400);
  EXPECT_EQ(fp16(0x1p-24f).bits, 0x0001);
}

// As floats they are what the tensor cores take them for; and back.
TEST(Fp16, EveryValueSurvivesTheWayToFloatAndBack) {
  for (unsigned bits = 0; bits < 0x10000; ++bits) {
    const float value = of_bits(bits);
    ASSERT_EQ(std::bit_cast<std::uint32_t>(value),
              cpu_device::float_bits(cpu_device::OperandType::fp16, bits));
    ASSERT_EQ(fp16(value).bits, std::isnan(value) ? 0x7fff : bits);
  }
}

// Against the definition: of the two neighbours the nearer one, of two as near the even one.
TEST(Fp16, RoundsToNearestEven) {
  for (unsigned bits = 0; bits < 0x7bff; ++bits) {  // all but the largest
    const double low = static_cast<float>(of_bits(bits)), high = static_cast<float>(of_bits(bits + 1));
    for (const double part : {0x1p-13, 0.25, 0.5 - 0x1p-12, 0.5, 0.5 + 0x1p-12, 1 - 0x1p-13}) {
      const auto value = static_cast<float>(low + part * (high - low));
      const unsigned expected = bits + (part > 0.5 || (part == 0.5 && bits % 2 == 1));
      ASSERT_EQ(fp16(value).bits, expected) << value;
      ASSERT_EQ(fp16(-value).bits, expected | 0x8000) << value;
    }
  }
}

TEST(Fp16, TooLargeBecomesInfiniteTooSmallZero) {
  EXPECT_EQ(static_cast<float>(fp16(std::nextafter(65520.0f, 0.0f))), 65504.0f);
  constexpr float inf = std::numeric_limits<float>::infinity();
  for (const float value : {65520.0f, 1e10f, std::numeric_limits<float>::max(), inf}) {
    EXPECT_EQ(static_cast<float>(fp16(value)), inf) << value;
    EXPECT_EQ(static_cast<float>(fp16(-value)), -inf) << value;
  }
  EXPECT_EQ(fp16(0x1p-25f).bits, 0);  // a tie, to even
  EXPECT_EQ(fp16(std::nextafter(0x1p-25f, 1.0f)).bits, 1);
  EXPECT_EQ(fp16(-std::numeric_limits<float>::denorm_min()).bits, 0x8000);
}

TEST(Fp16, PairsHaveTheFirstInTheLowerHalf) {
  const std::uint32_t pair = pack_fp16(1.0f, -2.5f);
  EXPECT_EQ(pair, 0xc1003c00u);
  EXPECT_EQ(first_fp16(pair), 1.0f);
  EXPECT_EQ(second_fp16(pair), -2.5f);
}

}  // namespace
