// mma and ldmatrix on the CPU device: what they compute and load, and which faults are reported.

#include <bit>
#include <cmath>
#include <cstdint>
#include <random>

#include "common/cpu_device/tensor_core.hpp"
#include "common/cuda/fragments.hpp"
#include "common/cuda/tf32.hpp"
#include "tests/unit/device_test.hpp"

namespace {

class Matrix : public BothBuilds {
 protected:
  // A [16][K], B [K][8] and C [16][8] in x: integers, so that all sums are exact.
  void fill(int K, unsigned seed) {
    std::mt19937 random(seed);
    for (int i = 0; i < 16 * K + K * 8 + 16 * 8; ++i)
      x[i] = static_cast<float>(static_cast<int>(random() % 201) - 100);
  }
  // Element (i, j) of A * B + C.
  float expected(int i, int j, int K) {
    const float *A = x.data(), *B = A + 16 * K, *C = B + K * 8;
    float sum = C[i * 8 + j];
    for (int k = 0; k < K; ++k) sum += A[i * K + k] * B[k * 8 + j];
    return sum;
  }
  void expect_products(const char* kernel, int K) {
    for (unsigned seed = 1; seed <= 8; ++seed) {
      fill(K, seed);
      run(kernel, 1, 32);
      for (int i = 0; i < 16; ++i) {
        for (int j = 0; j < 8; ++j) ASSERT_EQ(y[i * 8 + j], expected(i, j, K)) << i << " " << j;
      }
    }
  }
  // Loads 1, 2 and 4 matrices whose 16-bit elements all differ: element e of row r is r * 8 + e. Of each, a
  // lane must get what element(lane, i) says for its two halves.
  void expect_matrices(const char* kernel, int (*element)(int lane, int i)) {
    number_elements();
    for (const int count : {1, 2, 4}) {
      run(kernel, 1, 32, count);
      for (int lane = 0; lane < 32; ++lane) {
        for (int m = 0; m < count; ++m) {
          for (int i = 0; i < 2; ++i) {
            ASSERT_EQ(half(y[lane * count + m], i), m * 64 + element(lane, i))
                << count << " matrices, lane " << lane;
          }
        }
      }
    }
  }
  void number_elements() {
    for (std::uint32_t i = 0; i < 128; ++i) x[i] = std::bit_cast<float>(2 * i | (2 * i + 1) << 16);
  }
  static std::uint16_t half(float word, int i) {
    return static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(word) >> 16 * i);
  }
};
INSTANTIATE_TEST_SUITE_P(, Matrix, testing::Values("plain", "observed"), name_of_build);

// ---- mma -------------------------------------------------------------------------------------------------

TEST_P(Matrix, Products) {
  expect_products("product_tf32", 8);
  expect_products("product_bf16", 16);
}

// 1 + 2^-11 + 2^-23 is nearest to 1 + 2^-10; cut off it is 1.
TEST_P(Matrix, OperandsAreCutOffOrRounded) {
  std::fill_n(x.data(), x.size(), 0.0f);
  for (int i = 0; i < 8; ++i) x[i * 8 + i] = 1 + 0x1p-11f + 0x1p-23f;            // A: rows 0 to 7
  for (int i = 0; i < 8; ++i) x[16 * 8 + i * 8 + i] = -1 - 0x1p-11f - 0x1p-23f;  // B
  run("product_tf32", 1, 32);
  EXPECT_EQ(y[0], -(1 + 0x1p-10f) * (1 + 0x1p-10f));
  run("product_cut_off", 1, 32);
  EXPECT_EQ(y[0], -1.0f);
  EXPECT_EQ(y[9], -1.0f);
  EXPECT_EQ(y[1], 0.0f);
}

TEST_P(Matrix, ANanReachesItsRowOnly) {
  fill(8, 3);
  x[5 * 8 + 2] = std::nanf("");
  run("product_tf32", 1, 32);
  for (int i = 0; i < 16; ++i) {
    for (int j = 0; j < 8; ++j) EXPECT_EQ(std::isnan(y[i * 8 + j]), i == 5);
  }
}

TEST(Rounding, ToTf32) {
  const auto bits = [](float x) { return std::bit_cast<float>(to_tf32(x)); };
  EXPECT_EQ(bits(1.0f), 1.0f);
  EXPECT_EQ(bits(1 + 0x1p-11f), 1 + 0x1p-10f);  // a tie: away from zero
  EXPECT_EQ(bits(-1 - 0x1p-11f), -1 - 0x1p-10f);
  EXPECT_EQ(bits(1 + 0x1p-11f - 0x1p-23f), 1.0f);
  EXPECT_EQ(bits(1 + 3 * 0x1p-11f), 1 + 0x1p-9f);
  EXPECT_EQ(bits(0x1.fffffep127f), INFINITY);
  EXPECT_EQ(bits(-INFINITY), -INFINITY);
  EXPECT_TRUE(std::isnan(bits(std::nanf(""))));
  EXPECT_EQ(std::signbit(bits(-0.0f)), true);
}

// ---- ldmatrix --------------------------------------------------------------------------------------------

TEST_P(Matrix, MatricesOfRows) {
  expect_matrices("matrices", [](int lane, int i) { return lane / 4 * 8 + lane % 4 * 2 + i; });
  expect_matrices("matrices_trans", [](int lane, int i) { return (lane % 4 * 2 + i) * 8 + lane / 4; });
}

TEST_P(Matrix, RowsLieWhereTheLanesSay) {
  number_elements();
  run("rows_of_others", 1, 32, 5);
  for (int lane = 0; lane < 32; ++lane) EXPECT_EQ(half(y[lane], 1), 5 * 8 + lane % 4 * 2 + 1);
}

// ---- The maps --------------------------------------------------------------------------------------------

// Whether the fragments of all lanes hold each element of a matrix [rows][cols] once.
template <typename Map>
void expect_each_once(const Map& map, int elements, int rows, int cols) {
  std::vector<int> seen(static_cast<std::size_t>(rows * cols));
  for (int lane = 0; lane < 32; ++lane) {
    for (int i = 0; i < elements; ++i) {
      const Place at = map(lane, i);
      ASSERT_TRUE(at.row >= 0 && at.row < rows && at.col >= 0 && at.col < cols);
      ++seen[static_cast<std::size_t>(at.row * cols + at.col)];
    }
  }
  EXPECT_THAT(seen, testing::Each(1));
}

TEST(Fragments, HoldEachElementOnce) {
  expect_each_once(MmaTf32Shape::a, MmaTf32Shape::a_elements, 16, 8);
  expect_each_once(MmaTf32Shape::b, MmaTf32Shape::b_elements, 8, 8);
  expect_each_once(MmaTf32Shape::c, MmaTf32Shape::c_elements, 16, 8);
  expect_each_once(MmaBf16Shape::a, MmaBf16Shape::a_elements, 16, 16);
  expect_each_once(MmaBf16Shape::b, MmaBf16Shape::b_elements, 16, 8);
  expect_each_once(MmaBf16Shape::c, MmaBf16Shape::c_elements, 16, 8);
  expect_each_once(ldmatrix_place, 2, 8, 8);
  expect_each_once(ldmatrix_trans_place, 2, 8, 8);
}

// As the tables of the PTX ISA have it for lane 13, which is in group 3, number 1 of it.
TEST(Fragments, OfALane) {
  constexpr int lane = 13;
  static_assert(MmaTf32Shape::a(lane, 1) == Place{11, 1} && MmaTf32Shape::a(lane, 2) == Place{3, 5});
  static_assert(MmaTf32Shape::b(lane, 1) == Place{5, 3});
  static_assert(MmaTf32Shape::c(lane, 1) == Place{3, 3} && MmaTf32Shape::c(lane, 2) == Place{11, 2});
  static_assert(MmaBf16Shape::a(lane, 3) == Place{11, 3} && MmaBf16Shape::a(lane, 4) == Place{3, 10});
  static_assert(MmaBf16Shape::b(lane, 1) == Place{3, 3} && MmaBf16Shape::b(lane, 2) == Place{10, 3});
  static_assert(ldmatrix_place(lane, 1) == Place{3, 3} && ldmatrix_trans_place(lane, 1) == Place{3, 3});
  static_assert(ldmatrix_trans_place(lane, 0) == Place{2, 3} && ldmatrix_address_lane(3, 1) == 25);
}

// ---- Faults ----------------------------------------------------------------------------------------------

TEST_F(Check, LaneThatLeftBeforeAnMma) {
  for (const int n : {0, 17, 31}) {
    run("mma_of_some", 1, 32, n);
    expect(FaultKind::missing_lane, n == 0 ? 1 : 0,
           "waits here for " + thread_name(n) + " at mma_tf32, which has left the kernel");
  }
  run("mma_of_some", 1, 24, 40);
  expect(FaultKind::missing_lane, 0, "thread number 24 at mma_tf32, which does not exist");
}

TEST_F(Check, LaneElsewhereThanAtAnMma) {
  run("mma_elsewhere", 1, 32, 9);
  expect(FaultKind::missing_lane, 0,
         "waits here for " + thread_name(9) + " at mma_bf16, which waits at " + here("mma_lane_elsewhere"));
}

TEST_F(Check, UnroundedOperands) {
  x[0] = 0.1f;
  run("unrounded", 1, 32, 213);  // register 2 of lane 13
  expect(FaultKind::unrounded_operand, 13, "brings A[3][5] = 0.100000001 in register 2");
  run("unrounded_b", 1, 32, 131);
  expect(FaultKind::unrounded_operand, 31, "brings B[7][7] = 0.100000001 in register 1");
  x[0] = std::bit_cast<float>(0x7fc12345);  // a NaN: no matter of rounding
  run("unrounded", 1, 32, 7);
  EXPECT_TRUE(std::isnan(y[4]));
}

TEST_F(Check, LaneMissingFromAnLdmatrix) {
  run("ldmatrix_of_some", 1, 32, 20);
  expect(
      FaultKind::missing_lane, 0,
      "waits here for " + thread_name(20) + " at ldmatrix, which waits at " + here("after_ldmatrix_of_some"));
}

TEST_F(Check, RowsAtWrongAddresses) {
  for (const int words : {1, 2, 3}) {
    run("ldmatrix_misaligned", 1, 32, 500 + words);
    expect(FaultKind::misaligned, 5, "no multiple of 16");
  }
  run("ldmatrix_misaligned", 1, 32, 504);      // another row
  run("ldmatrix_misaligned", 1, 32, 900 + 1);  // of a lane that nobody asks
  run("ldmatrix_outside", 1, 32, 600, 128);
  expect_none();
  run("ldmatrix_outside", 1, 32, 704, 128);
  expect(FaultKind::out_of_bounds_shared, 7, "reads 16 bytes");
  run("ldmatrix_not_shared", 1, 32, 15);
  expect(FaultKind::out_of_bounds_shared, 15, "ldmatrix the address of a row that is not in");
  run("ldmatrix_not_shared", 1, 32, 16);  // of a lane that nobody asks
}

TEST_F(Check, RowsThatNobodyWrote) {
  for (const int n : {0, 3, 7}) {
    run("ldmatrix_unwritten", 1, 32, n);
    expect(FaultKind::uninitialised_shared, n, "reads");
  }
}

// The read counts as that of the lane that gave the address.
TEST_F(Check, RacesWithARow) {
  for (const int n : {0, 5, 31}) {
    run("ldmatrix_race", 1, 64, n);
    expect(FaultKind::race_shared, 32 + 31 - n, "which " + thread_name(n) + " wrote");
  }
}

TEST_F(Check, AnLdmatrixIsOneRequest) {
  for (const unsigned count : {1u, 2u, 4u}) {
    const Recorder& recorder = record();
    run("matrices", 1, 32, static_cast<int>(count));
    for (const Access& access : recorder.accesses) EXPECT_TRUE(access.space == Space::global || access.write);
    ASSERT_EQ(recorder.requests.size(), 1u);
    const cpu_device::CollectiveRequest& request = recorder.requests[0];
    EXPECT_EQ(request.operation, cpu_device::Operation::matrix);
    EXPECT_EQ(request.space, Space::shared);
    EXPECT_EQ(request.bytes, 16u);
    EXPECT_EQ(request.active, count == 4 ? ~0u : (1u << 8 * count) - 1);
    for (unsigned lane = 0; lane < 8 * count; ++lane) {
      EXPECT_EQ(request.addresses[lane], request.addresses[0] + 16 * lane);
    }
  }
}

}  // namespace
