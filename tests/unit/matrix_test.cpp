// mma and ldmatrix on the CPU device: what they compute and load, and what is said when they are used
// wrongly.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <fstream>
#include <ostream>
#include <random>
#include <string>
#include <vector>

#include "common/cpu_device/cpu_device.hpp"
#include "common/cpu_device/tensor_core.hpp"
#include "common/cuda/fragments.hpp"
#include "common/cuda/tf32.hpp"
#include "tests/unit/device_buffer.hpp"
#include "tests/unit/matrix_kernels.hpp"

namespace {

using cpu_device::Fault;
using cpu_device::FaultKind;
using testing::HasSubstr;
using testing::IsEmpty;

// The line of matrix_kernels.cpp with the comment "here: NAME".
std::string here(const std::string& name) {
  std::ifstream file(PROJECT_ROOT "/tests/unit/matrix_kernels.cpp");
  std::string line;
  for (int number = 1; std::getline(file, line); ++number) {
    if (line.ends_with("// here: " + name)) return "tests/unit/matrix_kernels.cpp:" + std::to_string(number);
  }
  return "no line is marked with " + name;
}

class MatrixFixture : public testing::Test {
 protected:
  explicit MatrixFixture(bool checked) {
    cpu_device::set_checking(checked);
    std::fill_n(x.data(), x.size(), 0.0f);
    std::fill_n(y.data(), y.size(), -1.0f);
  }
  ~MatrixFixture() override {
    cpu_device::set_listener(nullptr);
    for (const Fault& fault : cpu_device::take_faults()) ADD_FAILURE() << describe(fault);
    cpu_device::set_checking(false);
  }
  void run(MatrixKernel kernel, int n = 0, unsigned threads = 32, std::size_t shared_bytes = 0) {
    launch(kernel, dim3(1), dim3(threads), shared_bytes, x.data(), y.data(), n);
  }
  // Integers, so that all sums are exact.
  void fill_with_integers(std::size_t count, unsigned seed, int limit = 100) {
    std::mt19937 random(seed);
    for (std::size_t i = 0; i < count; ++i) {
      x.data()[i] = static_cast<float>(static_cast<int>(random() % (2 * limit + 1)) - limit);
    }
  }
  // Element (i, j) of A * B + C, as the kernels find them in x.
  float expected(int i, int j, int K) {
    const float *A = x.data(), *B = A + 16 * K, *C = B + K * 8;
    float sum = C[i * 8 + j];
    for (int k = 0; k < K; ++k) sum += A[i * K + k] * B[k * 8 + j];
    return sum;
  }

  DeviceBuffer x{1024}, y{1024};
};

struct Build {
  const char* name;
  const MatrixKernels* kernels;
};
void PrintTo(const Build& build, std::ostream* out) { *out << build.name; }

class Matrix : public MatrixFixture, public testing::WithParamInterface<Build> {
 protected:
  Matrix() : MatrixFixture(GetParam().kernels != &plain_matrix_kernels) {}
  const MatrixKernels& kernels = *GetParam().kernels;
};

INSTANTIATE_TEST_SUITE_P(, Matrix,
                         testing::Values(Build{"plain", &plain_matrix_kernels}
#ifdef HAVE_OBSERVED
                                         ,
                                         Build{"observed", &observed_matrix_kernels}
#endif
                                         ),
                         [](const auto& info) { return info.param.name; });

// ---- mma -------------------------------------------------------------------------------------------------

TEST_P(Matrix, ProductInTf32) {
  for (unsigned seed = 1; seed <= 8; ++seed) {
    fill_with_integers(16 * 8 + 8 * 8 + 16 * 8, seed);
    run(kernels.product_tf32);
    for (int i = 0; i < 16; ++i) {
      for (int j = 0; j < 8; ++j) ASSERT_EQ(y[i * 8 + j], expected(i, j, 8)) << i << " " << j;
    }
  }
}

TEST_P(Matrix, ProductInBf16) {
  for (unsigned seed = 1; seed <= 8; ++seed) {
    fill_with_integers(16 * 16 + 16 * 8 + 16 * 8, seed);
    run(kernels.product_bf16);
    for (int i = 0; i < 16; ++i) {
      for (int j = 0; j < 8; ++j) ASSERT_EQ(y[i * 8 + j], expected(i, j, 16)) << i << " " << j;
    }
  }
}

// 1 + 2^-11 + 2^-23 is nearest to 1 + 2^-10; cut off it is 1.
TEST_P(Matrix, OperandsAreCutOffOrRounded) {
  for (int i = 0; i < 8; ++i) x.data()[i * 8 + i] = 1 + 0x1p-11f + 0x1p-23f;            // A: rows 0 to 7
  for (int i = 0; i < 8; ++i) x.data()[16 * 8 + i * 8 + i] = -1 - 0x1p-11f - 0x1p-23f;  // B
  run(kernels.product_tf32);
  EXPECT_EQ(y[0], -(1 + 0x1p-10f) * (1 + 0x1p-10f));
  run(kernels.product_cut_off);
  EXPECT_EQ(y[0], -1.0f);
  EXPECT_EQ(y[9], -1.0f);
  EXPECT_EQ(y[1], 0.0f);
}

TEST_P(Matrix, ANanReachesItsRowOnly) {
  fill_with_integers(16 * 8 + 8 * 8 + 16 * 8, 3);
  x.data()[5 * 8 + 2] = std::nanf("");
  run(kernels.product_tf32);
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

// x as 16-bit elements that all differ: element e of a row is row * 8 + e.
std::uint16_t half(float word, int i) {
  return static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(word) >> 16 * i);
}
void number_elements(DeviceBuffer& x) {
  for (std::uint32_t i = 0; i < 128; ++i) x.data()[i] = std::bit_cast<float>(2 * i | (2 * i + 1) << 16);
}

TEST_P(Matrix, MatricesOfRows) {
  number_elements(x);
  for (const int count : {1, 2, 4}) {
    run(kernels.matrices, count);
    for (int lane = 0; lane < 32; ++lane) {
      for (int m = 0; m < count; ++m) {
        for (int i = 0; i < 2; ++i) {
          ASSERT_EQ(half(y[lane * count + m], i), m * 64 + lane / 4 * 8 + lane % 4 * 2 + i)
              << count << " matrices, lane " << lane;
        }
      }
    }
  }
}

TEST_P(Matrix, MatricesTransposed) {
  number_elements(x);
  for (const int count : {1, 2, 4}) {
    run(kernels.matrices_trans, count);
    for (int lane = 0; lane < 32; ++lane) {
      for (int m = 0; m < count; ++m) {
        for (int i = 0; i < 2; ++i) {
          ASSERT_EQ(half(y[lane * count + m], i), m * 64 + (lane % 4 * 2 + i) * 8 + lane / 4)
              << count << " matrices, lane " << lane;
        }
      }
    }
  }
}

TEST_P(Matrix, RowsLieWhereTheLanesSay) {
  number_elements(x);
  run(kernels.rows_of_others, 5);
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

#ifdef HAVE_OBSERVED

// ---- What is wrong ---------------------------------------------------------------------------------------

class MatrixFault : public MatrixFixture {
 protected:
  MatrixFault() : MatrixFixture(true) {}
  // One fault, at the line with the mark, by that thread.
  void expect(FaultKind kind, const std::string& mark, unsigned thread, const std::string& detail) {
    const std::vector<Fault> faults = cpu_device::take_faults();
    ASSERT_EQ(faults.size(), 1u) << (faults.size() < 2 ? "" : describe(faults[0]) + describe(faults[1]));
    EXPECT_EQ(faults[0].kind, kind) << describe(faults[0]);
    EXPECT_EQ(faults[0].where, here(mark));
    EXPECT_EQ(faults[0].thread.x, thread);
    EXPECT_THAT(faults[0].detail, HasSubstr(detail));
  }
  static std::string name(int thread) { return "thread (" + std::to_string(thread) + ",0,0)"; }
  const MatrixKernels& kernels = observed_matrix_kernels;
};

TEST_F(MatrixFault, LaneThatLeftBeforeAnMma) {
  for (const int n : {0, 17, 31}) {
    run(kernels.mma_of_some, n);
    expect(FaultKind::missing_lane, "mma_of_some", n == 0 ? 1 : 0,
           "waits here for " + name(n) + " at mma_tf32, which has left the kernel");
  }
  run(kernels.mma_of_some, 40, 24);
  expect(FaultKind::missing_lane, "mma_of_some", 0, "thread number 24 at mma_tf32, which does not exist");
}

TEST_F(MatrixFault, LaneElsewhereThanAtAnMma) {
  run(kernels.mma_elsewhere, 9);
  expect(FaultKind::missing_lane, "mma_elsewhere", 0,
         "waits here for " + name(9) + " at mma_bf16, which waits at " + here("elsewhere"));
}

TEST_F(MatrixFault, UnroundedOperands) {
  x.data()[0] = 0.1f;
  run(kernels.unrounded, 213);  // register 2 of lane 13
  expect(FaultKind::unrounded_operand, "unrounded", 13, "brings A[3][5] = 0.100000001 in register 2");
  run(kernels.unrounded_b, 131);
  expect(FaultKind::unrounded_operand, "unrounded_b", 31, "brings B[7][7] = 0.100000001 in register 1");
  x.data()[0] = std::bit_cast<float>(0x7fc12345);  // a NaN: no matter of rounding
  run(kernels.unrounded, 7);
  EXPECT_TRUE(std::isnan(y[4]));
}

TEST_F(MatrixFault, LaneMissingFromAnLdmatrix) {
  run(kernels.ldmatrix_of_some, 20);
  expect(FaultKind::missing_lane, "ldmatrix_of_some", 0,
         "waits here for " + name(20) + " at ldmatrix, which waits at " + here("after_ldmatrix_of_some"));
}

TEST_F(MatrixFault, RowsAtWrongAddresses) {
  for (const int words : {1, 2, 3}) {
    run(kernels.misaligned, 500 + words);
    expect(FaultKind::misaligned, "misaligned", 5, "no multiple of 16");
  }
  run(kernels.misaligned, 504);      // another row
  run(kernels.misaligned, 900 + 1);  // of a lane that nobody asks
  run(kernels.outside, 600, 32, 128);
  run(kernels.outside, 704, 32, 128);
  expect(FaultKind::out_of_bounds_shared, "outside", 7, "reads 16 bytes");
  run(kernels.not_shared, 15);
  expect(FaultKind::out_of_bounds_shared, "not_shared", 15, "ldmatrix the address of a row that is not in");
  run(kernels.not_shared, 16);  // of a lane that nobody asks
}

TEST_F(MatrixFault, RowsThatNobodyWrote) {
  for (const int n : {0, 3, 7}) {
    run(kernels.unwritten, n);
    expect(FaultKind::uninitialised_shared, "unwritten", static_cast<unsigned>(n), "reads");
  }
}

// It is the lane that gave the address that has read.
TEST_F(MatrixFault, RacesWithARow) {
  for (const int n : {0, 5, 31}) {
    run(kernels.race, n, 64);
    expect(FaultKind::race_shared, "race", 32u + 31 - static_cast<unsigned>(n),
           "which " + name(n) + " wrote");
  }
}

// ---- What the X-ray is told ------------------------------------------------------------------------------

class Told : public cpu_device::AccessListener {
 public:
  void on_access(const cpu_device::Access& access) override {
    reads_of_shared += access.space == cpu_device::Space::shared && !access.write;
  }
  void on_request(const cpu_device::CollectiveRequest& request) override { requests.push_back(request); }
  int reads_of_shared = 0;
  std::vector<cpu_device::CollectiveRequest> requests;
};

TEST_F(MatrixFault, AnLdmatrixIsOneRequest) {
  for (const int count : {1, 2, 4}) {
    Told told;
    cpu_device::set_listener(&told);
    run(kernels.matrices, count);
    cpu_device::set_listener(nullptr);
    EXPECT_EQ(told.reads_of_shared, 0);
    ASSERT_EQ(told.requests.size(), 1u);
    const cpu_device::CollectiveRequest& request = told.requests[0];
    EXPECT_EQ(request.operation, cpu_device::Operation::matrix);
    EXPECT_EQ(request.space, cpu_device::Space::shared);
    EXPECT_EQ(request.bytes, 16u);
    EXPECT_EQ(request.active, count == 4 ? ~0u : (1u << 8 * count) - 1);
    for (unsigned lane = 0; lane < 8u * static_cast<unsigned>(count); ++lane) {
      EXPECT_EQ(request.addresses[lane], request.addresses[0] + 16 * lane);
    }
  }
}

#endif

}  // namespace
