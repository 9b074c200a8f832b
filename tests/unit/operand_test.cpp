// The operands of matrix instructions: their types, and where their elements lie.

#include "common/cpu_device/operand.hpp"

#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <random>
#include <vector>

#include "common/cpu_device/tensor_core.hpp"
#include "tests/unit/stored_operand.hpp"

namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();

// ---- Types -----------------------------------------------------------------------------------------------

// Every number, against its definition.
TEST(Operands, Fp16) {
  for (Bits bits = 0; bits < 0x10000; ++bits) {
    const float value = std::bit_cast<float>(float_bits(OperandType::fp16, bits));
    const int exponent = static_cast<int>(bits >> 10 & 31);
    const float fraction = static_cast<float>(bits & 0x3ff) / 1024;
    const float sign = bits >> 15 != 0 ? -1.0f : 1.0f;
    if (exponent == 31 && fraction != 0) {
      ASSERT_TRUE(std::isnan(value)) << bits;
      continue;
    }
    const float magnitude = exponent == 31  ? infinity
                            : exponent == 0 ? std::ldexp(fraction, -14)
                                            : std::ldexp(1 + fraction, exponent - 15);
    ASSERT_EQ(value, sign * magnitude) << bits;
    ASSERT_EQ(std::signbit(value), sign < 0) << bits;
  }
}

TEST(Operands, Tf32AndBf16) {
  EXPECT_EQ(float_bits(OperandType::tf32, 0x3f803fff), 0x3f802000u);  // what TF32 does not have is cut off
  EXPECT_EQ(float_bits(OperandType::bf16, 0x3f81), 0x3f810000u);
  EXPECT_EQ(bytes_of(OperandType::tf32), 4u);
  EXPECT_EQ(bytes_of(OperandType::bf16), 2u);
  EXPECT_EQ(bytes_of(OperandType::fp16), 2u);
}

// 2^-24 * 1 counts as 2^-14 when exponents are compared: 2^-40 is below the 25 bits that are kept.
TEST(Operands, SubnormalFp16HasTheExponentOfTheSmallestNormalNumber) {
  const auto sum = [](const TensorCoreArithmetic& model, float c) {
    return sum_of(model, {{0x1p-24f, 1}, {-0x1p-24f, 1}}, c, 16);
  };
  EXPECT_EQ(sum(cpu_device::fp16_arithmetic, 0x1p-39f), 0x1p-39f);
  EXPECT_EQ(sum(cpu_device::fp16_arithmetic, 0x1p-40f), 0);
  EXPECT_EQ(sum(cpu_device::bf16_arithmetic, 0x1p-49f), 0x1p-49f);
  EXPECT_EQ(sum(cpu_device::bf16_arithmetic, 0x1p-50f), 0);
  EXPECT_EQ(sum_of(cpu_device::fp16_arithmetic, {{0x1p-24f, 0x1p-24f}, {0x3p-24f, -0x1p-14f}}, 0, 16),
            0x1p-48f - 0x3p-38f);
}

// ---- Layouts ---------------------------------------------------------------------------------------------

// All shapes of wgmma, and more rows than are unpacked at once: integers, so that sums are exact.
TEST(Operands, AllShapes) {
  std::mt19937 random(3);
  for (const OperandType type : all_types) {
    const TensorCoreArithmetic& model = cpu_device::arithmetic_of(type);
    const int K = model.products;
    const auto bits_of = [&](int integer) -> Bits {
      const Bits whole = std::bit_cast<Bits>(static_cast<float>(integer));
      if (type == OperandType::tf32) return whole;
      if (type == OperandType::bf16) return whole >> 16;
      const int magnitude = std::abs(integer);
      if (magnitude == 0) return 0;
      const int exponent = std::bit_width(static_cast<unsigned>(magnitude)) - 1;
      return (integer < 0 ? 0x8000u : 0u) | static_cast<Bits>(exponent + 15) << 10 |
             (static_cast<Bits>(magnitude) << (10 - exponent) & 0x3ff);
    };
    for (const int M : {1, 16, 64, 130}) {
      for (int N = 8; N <= 256; N += 8) {
        if (M != 64 && N % 120 != 8) continue;
        const auto a_size = static_cast<std::size_t>(M * K), b_size = static_cast<std::size_t>(N * K);
        std::vector<int> x(a_size), y(b_size);
        Stored a(type, a_size), b(type, b_size);
        const auto draw = [&](std::vector<int>& integers, Stored& stored) {
          for (std::size_t i = 0; i < integers.size(); ++i) {
            integers[i] = static_cast<int>(random() % 201) - 100;
            stored.set(i, bits_of(integers[i]));
          }
        };
        draw(x, a);
        draw(y, b);
        std::vector<float> d(static_cast<std::size_t>(M * N), 3.0f);
        multiply_add(model, type, M, N, K, rows_of(type, a.data(), K), rows_of(type, b.data(), K), d.data());
        for (int i = 0; i < M; ++i) {
          for (int j = 0; j < N; ++j) {
            int sum = 3;
            for (int k = 0; k < K; ++k) {
              sum += x[static_cast<std::size_t>(i * K + k)] * y[static_cast<std::size_t>(j * K + k)];
            }
            ASSERT_EQ(d[static_cast<std::size_t>(i * N + j)], static_cast<float>(sum)) << M << " x " << N;
          }
        }
      }
    }
  }
}

// Where BF16 element (row, term) of an operand lies, by the layouts that wgmma knows: byte offsets written
// out.
TEST(Operands, LayoutsOfWgmma) {
  constexpr int rows = 128;
  struct Layout {
    const char* name;
    Operand operand;  // without its data
    std::size_t (*place)(std::size_t row, std::size_t term);
  };
  alignas(1024) static std::array<std::uint16_t, 16384> memory;
  for (std::size_t i = 0; i < memory.size(); ++i) memory[i] = static_cast<std::uint16_t>(i);
  for (const Layout& layout : std::vector<Layout>{
           // Core matrices of 8 rows of 16 bytes, one behind the other: two for the terms, then the next
           // rows.
           {"K-major",
            {nullptr, {16, 8, 256}, {2, 8, 128}},
            [](std::size_t r, std::size_t t) { return r / 8 * 256 + t / 8 * 128 + r % 8 * 16 + t % 8 * 2; }},
           // Rows of 128 bytes, of which the instruction takes 16 terms from number 32 on.
           {"K-major, 128 bytes",
            {nullptr, {128}, {2}, Swizzle::of_128_bytes, 64},
            [](std::size_t r, std::size_t t) { return r * 128 + ((4 + t / 8) ^ r % 8) * 16 + t % 8 * 2; }},
           {"K-major, 64 bytes",
            {nullptr, {64}, {2}, Swizzle::of_64_bytes, 32},
            [](std::size_t r, std::size_t t) { return r * 64 + ((2 + t / 8) ^ r / 2 % 4) * 16 + t % 8 * 2; }},
           {"K-major, 32 bytes",
            {nullptr, {32}, {2}, Swizzle::of_32_bytes},
            [](std::size_t r, std::size_t t) { return r * 32 + (t / 8 ^ r / 4 % 2) * 16 + t % 8 * 2; }},
           // Terms of 64 rows of the operand each, 128 bytes; 16 terms of them, then the next 64 rows.
           {"MN-major, 128 bytes",
            {nullptr, {2, 64, 2048}, {128}, Swizzle::of_128_bytes},
            [](std::size_t r, std::size_t t) {
              return r / 64 * 2048 + t * 128 + (r % 64 / 8 ^ t % 8) * 16 + r % 8 * 2;
            }},
       }) {
    Operand operand = layout.operand;
    operand.data = memory.data();
    for (int row = 0; row < rows; ++row) {
      for (int term = 0; term < 16; ++term) {
        ASSERT_EQ(operand.bits(OperandType::bf16, row, term) * 2,
                  layout.place(static_cast<std::size_t>(row), static_cast<std::size_t>(term)))
            << layout.name << ", row " << row << ", term " << term;
      }
    }
  }
}

// A product of operands in two layouts is that of the same elements side by side.
TEST(Operands, ProductsThroughLayouts) {
  constexpr OperandType type = OperandType::bf16;
  constexpr int M = 64, N = 128, K = 16;
  alignas(1024) static std::array<std::uint16_t, M * 64> a;  // K-major
  alignas(1024) static std::array<std::uint16_t, N * K> b;   // MN-major
  std::mt19937 random(7);
  for (std::uint16_t& bits : a) bits = static_cast<std::uint16_t>(0x3f00 + random() % 512);
  for (std::uint16_t& bits : b) bits = static_cast<std::uint16_t>(0x3f00 + random() % 512);
  const Operand of_a{a.data(), {128}, {2}, Swizzle::of_128_bytes, 32};
  const Operand of_b{b.data(), {2, 64, 2048}, {128}, Swizzle::of_128_bytes};
  Stored a_rows(type, M * K), b_rows(type, N * K);
  for (int k = 0; k < K; ++k) {
    for (int i = 0; i < M; ++i) a_rows.set(static_cast<std::size_t>(i * K + k), of_a.bits(type, i, k));
    for (int j = 0; j < N; ++j) b_rows.set(static_cast<std::size_t>(j * K + k), of_b.bits(type, j, k));
  }
  std::vector<float> d(M * N, 0.5f), expected = d;
  multiply_add(cpu_device::bf16_arithmetic, type, M, N, K, of_a, of_b, d.data());
  multiply_add(cpu_device::bf16_arithmetic, type, M, N, K, rows_of(type, a_rows.data(), K),
               rows_of(type, b_rows.data(), K), expected.data());
  EXPECT_EQ(d, expected);
  EXPECT_EQ(d[130 * 4 + 5], multiply_add(cpu_device::bf16_arithmetic, a_rows.floats(525 / N, K),
                                         b_rows.floats(525 % N, K), 0.5f));
}

}  // namespace
