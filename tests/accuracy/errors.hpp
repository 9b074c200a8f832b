#pragma once

// What is exact (in double), what FP32 summation gives, and how far a result is from it.

#include <algorithm>
#include <cmath>
#include <vector>

#include "tests/accuracy/classes.hpp"

namespace accuracy {

constexpr double u = 0x1p-24;

// C = A * B by FMA, k ascending.
inline std::vector<float> summed_in_fp32(const Problem& p) {
  std::vector<float> C(p.M * p.N, 0.0f);
  for (int i = 0; i < p.M; ++i) {
    for (int k = 0; k < p.K; ++k) {
      for (int j = 0; j < p.N; ++j) {
        C[i * p.N + j] = std::fma(p.A[i * p.K + k], p.B[k * p.N + j], C[i * p.N + j]);
      }
    }
  }
  return C;
}

struct Exact {
  std::vector<double> product, magnitudes;  // A * B, |A| * |B|
};
inline Exact exact(const Problem& p) {
  Exact e{std::vector<double>(p.M * p.N), std::vector<double>(p.M * p.N)};
  for (int i = 0; i < p.M; ++i) {
    for (int k = 0; k < p.K; ++k) {
      for (int j = 0; j < p.N; ++j) {
        const double term = static_cast<double>(p.A[i * p.K + k]) * p.B[k * p.N + j];
        e.product[i * p.N + j] += term;
        e.magnitudes[i * p.N + j] += std::fabs(term);
      }
    }
  }
  return e;
}

// |c - exact| / (|A||B|) of an element, in u.
inline double error_of(const Exact& e, const std::vector<float>& C, std::size_t i) {
  const double error = std::fabs(C[i] - e.product[i]);
  return error == 0 ? 0 : std::isfinite(error) ? error / e.magnitudes[i] / u : INFINITY;
}

// The largest, over the elements that are numbers.
inline double largest_error(const Exact& e, const std::vector<float>& C) {
  double largest = 0;
  for (std::size_t i = 0; i < C.size(); ++i) {
    if (std::isfinite(e.product[i])) largest = std::max(largest, error_of(e, C, i));
  }
  return largest;
}

}  // namespace accuracy
