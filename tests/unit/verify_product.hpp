#pragma once

// Products for tests of the checker: matrices of their own, and sums in several orders.

#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <vector>

#include "common/harness/random.hpp"
#include "common/harness/reference_cpu.hpp"
#include "common/harness/verify.hpp"

namespace {

using harness::Precision;
using harness::Verdict;
using harness::verify_on_host;

inline double tolerance_any_data(int k, Precision precision = Precision::fp32) {
  return harness::tolerance_any_data(k, harness::traits(precision).arithmetic);
}
inline double tolerance_random_data(int k, Precision precision = Precision::fp32) {
  return harness::tolerance_random_data(k, harness::traits(precision).arithmetic);
}

constexpr float nan = std::numeric_limits<float>::quiet_NaN();
constexpr float inf = std::numeric_limits<float>::infinity();

// A product with matrices of its own. C is not filled in.
template <typename T>
struct ProductOf {
  ProductOf(int M, int N, int K, int batch = 1, int pad = 0) {
    gemm.M = M;
    gemm.N = N;
    gemm.K = K;
    gemm.batch = batch;
    gemm.alpha = 1;
    gemm.lda = K + pad;
    gemm.ldb = gemm.ldc = N + pad;
    gemm.strideA = gemm.lda * M + pad;
    gemm.strideB = gemm.ldb * K + pad;
    gemm.strideC = gemm.ldc * M + pad;
    // What lies outside of the matrices spoils every result that it gets into.
    a.assign(gemm.strideA * batch + 1, T(nan));
    b.assign(gemm.strideB * batch + 1, T(nan));
    c.assign(gemm.strideC * batch + 1, nan);
    c0.assign(gemm.strideC * batch + 1, nan);
    fill(a, M, K, gemm.lda, gemm.strideA, 1);
    fill(b, K, N, gemm.ldb, gemm.strideB, 2);
    fill(c0, M, N, gemm.ldc, gemm.strideC, 3);
    gemm.A = a.data();
    gemm.B = b.data();
    gemm.C = c.data();
  }
  ProductOf(const ProductOf&) = delete;

  template <typename E>
  void fill(std::vector<E>& to, int rows, int cols, std::int64_t ld, std::int64_t stride,
            std::uint64_t seed) {
    std::uint64_t index = 0;
    for (int matrix = 0; matrix < gemm.batch; ++matrix) {
      for (int row = 0; row < rows; ++row) {
        for (int col = 0; col < cols; ++col) {
          to[matrix * stride + row * ld + col] =
              E(harness::uniform(seed, index++, harness::traits(harness::input_of<E>).significand_bits));
        }
      }
    }
  }

  float& at(int matrix, int row, int col) { return c[matrix * gemm.strideC + row * gemm.ldc + col]; }

  // Fills in C with `sum(terms)`, in which terms[k] = a[k] and b[k].
  using Sum = std::function<float(const std::vector<float>& a, const std::vector<float>& b)>;
  void compute(const Sum& sum) {
    std::vector<float> row_a(gemm.K), col_b(gemm.K);
    for (int matrix = 0; matrix < gemm.batch; ++matrix) {
      for (int row = 0; row < gemm.M; ++row) {
        for (int col = 0; col < gemm.N; ++col) {
          for (int k = 0; k < gemm.K; ++k) {
            row_a[k] = a[matrix * gemm.strideA + row * gemm.lda + k];
            col_b[k] = b[matrix * gemm.strideB + k * gemm.ldb + col];
          }
          const float product = gemm.alpha * sum(row_a, col_b);
          at(matrix, row, col) = gemm.beta == 0
                                     ? product
                                     : product + gemm.beta * c0[matrix * gemm.strideC + row * gemm.ldc + col];
        }
      }
    }
  }

  Verdict verify(double tolerance) const {
    return verify_on_host(gemm, gemm.beta == 0 ? nullptr : c0.data(), tolerance);
  }
  Verdict verify() const {
    return verify(tolerance_random_data(gemm.K, harness::usual_precision(harness::input_of<T>)));
  }

  GemmOf<T> gemm{};
  std::vector<T> a, b;
  std::vector<float> c, c0;
};
using Product = ProductOf<float>;

inline float forwards(const std::vector<float>& a, const std::vector<float>& b) {
  float sum = 0;
  for (std::size_t k = 0; k < a.size(); ++k) sum += a[k] * b[k];
  return sum;
}
inline float backwards(const std::vector<float>& a, const std::vector<float>& b) {
  float sum = 0;
  for (std::size_t k = a.size(); k-- > 0;) sum += a[k] * b[k];
  return sum;
}
inline float fused(const std::vector<float>& a, const std::vector<float>& b) {
  float sum = 0;
  for (std::size_t k = 0; k < a.size(); ++k) sum = std::fmaf(a[k], b[k], sum);
  return sum;
}
// Eight sums side by side, as with split K.
inline float split(const std::vector<float>& a, const std::vector<float>& b) {
  float sums[8] = {};
  for (std::size_t k = 0; k < a.size(); ++k) sums[k % 8] += a[k] * b[k];
  return ((sums[0] + sums[1]) + (sums[2] + sums[3])) + ((sums[4] + sums[5]) + (sums[6] + sums[7]));
}
inline const Product::Sum orders[] = {forwards, backwards, fused, split};

using Terms = std::vector<float>;

}  // namespace
