// A file of its own so that it is compiled for speed: tests spend nearly all their time in its inner loop.

#include "common/harness/reference_cpu.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include "common/harness/parallel.hpp"

namespace harness {

namespace {

// Row `row` of matrix `matrix` of the reference: sums of a * b, and of |a| * |b|.
template <typename T>
void reference_row(const GemmOf<T>& g, std::int64_t matrix, std::int64_t row, std::vector<double>& sums,
                   std::vector<double>& magnitudes) {
  std::fill(sums.begin(), sums.end(), 0.0);
  std::fill(magnitudes.begin(), magnitudes.end(), 0.0);
  for (int k = 0; k < g.K; ++k) {
    const double a = static_cast<float>(g.A[matrix * g.strideA + row * g.lda + k]);
    const T* b = g.B + matrix * g.strideB + k * g.ldb;
    double* sum = sums.data();
    double* magnitude = magnitudes.data();
    for (int col = 0; col < g.N; ++col) {
      const double product = a * static_cast<float>(b[col]);
      sum[col] += product;
      magnitude[col] += std::fabs(product);
    }
  }
}

template <typename T>
Verdict verify(const GemmOf<T>& g, const float* c0, double tolerance) {
  std::vector<Verdict> rows(static_cast<std::size_t>(std::int64_t{g.batch} * g.M));
  parallel(static_cast<std::int64_t>(rows.size()), [&](std::int64_t i) {
    std::vector<double> sums(g.N), magnitudes(g.N);
    const std::int64_t matrix = i / g.M, row = i % g.M;
    reference_row(g, matrix, row, sums, magnitudes);
    const std::int64_t offset = matrix * g.strideC + row * g.ldc;
    for (int col = 0; col < g.N; ++col) {
      const double old = c0 == nullptr ? 0.0 : static_cast<double>(g.beta) * c0[offset + col];
      const double product = static_cast<double>(g.alpha) * sums[col];
      const double reference = product + old;
      const Magnitude magnitude{magnitudes[col], std::fabs(static_cast<double>(g.alpha)), std::fabs(old)};
      const float c = g.C[offset + col];
      const double over = error_over_bound(c, reference, magnitude, tolerance);
      Verdict& verdict = rows[i];
      const double error = c - reference;
      if (!std::isnan(error)) verdict.max_error = std::max(verdict.max_error, std::fabs(error));
      if (std::isfinite(error) && magnitude.total() > 0) {
        verdict.max_relative_error =
            std::max(verdict.max_relative_error, std::fabs(error) / magnitude.total());
        verdict.error_along_product += error * product;
        verdict.product_squared += product * product;
      }
      verdict.max_error_over_bound = std::max(verdict.max_error_over_bound, over);
      if (over <= 1) continue;
      if (verdict.wrong++ == 0) verdict.first_wrong = i * g.N + col;
    }
  });
  Verdict all;
  for (const Verdict& row : rows) {
    all.max_error = std::max(all.max_error, row.max_error);
    all.max_error_over_bound = std::max(all.max_error_over_bound, row.max_error_over_bound);
    all.max_relative_error = std::max(all.max_relative_error, row.max_relative_error);
    all.error_along_product += row.error_along_product;
    all.product_squared += row.product_squared;
    all.wrong += row.wrong;
    if (all.first_wrong < 0) all.first_wrong = row.first_wrong;
  }
  return all;
}

}  // namespace

Verdict verify_on_host(const AnyGemm& gemm, const float* c0, double tolerance) {
  return with_element(gemm.input, [&]<typename T>(T) { return verify(gemm.as<T>(), c0, tolerance); });
}

}  // namespace harness
