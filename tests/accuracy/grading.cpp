// Grades a kernel that emulates FP32, on the CPU device, as implementations of the BLAS are graded (Demmel,
// Li, Langou and others, How to grade the accuracy of an implementation of the BLAS, 2024). With u = 2^-24,
// an element's error is at most
//
//   A   n u |A||B|, of that element: what sums in FP32 promise
//   B   n u times the norms of its row of A and its column of B: so are products in fixed point, whose
//   numbers
//       have one exponent for each row and column
//   C   n u times the norms of A and B: so is Strassen's algorithm
//
// Matrices whose rows, columns or terms have magnitudes of their own tell one grade from another. Of dense
// ones, the error must not grow faster than n. Exit status 1 if a mode does not get the grade it is to have:
// checked and strict A, fast A or B.

#include <fmt/format.h>

#include <bit>

#include "common/harness/entry.hpp"
#include "tests/accuracy/classes.hpp"
#include "tests/accuracy/errors.hpp"

extern const harness::Entry run_on_cpu;

namespace {

using accuracy::Draw;
using accuracy::Problem;
using accuracy::u;

constexpr int M = 40, N = 50;

std::vector<float> product(const Problem& p, Accuracy accuracy) {
  std::vector<float> C(p.M * p.N);
  harness::AnyGemm gemm(
      Gemm{p.M, p.N, p.K, 1, 1.0f, p.A.data(), p.K, 0, p.B.data(), p.N, 0, 0.0f, C.data(), p.N, 0});
  gemm.accuracy = accuracy;
  run_on_cpu(gemm);
  return C;
}

// The largest errors, in n u times what each grade allows it to be relative to.
struct Errors {
  double a = 0, b = 0, c = 0;
  char grade() const { return a <= 1 ? 'A' : b <= 1 ? 'B' : c <= 1 ? 'C' : '-'; }
};
Errors errors(const Problem& p, const std::vector<float>& C) {
  std::vector<double> rows(p.M), cols(p.N);
  double all_a = 0, all_b = 0;
  for (int i = 0; i < p.M; ++i) {
    for (int k = 0; k < p.K; ++k) rows[i] += std::pow(p.A[i * p.K + k], 2.0);
    all_a += rows[i];
    rows[i] = std::sqrt(rows[i]);
  }
  for (int j = 0; j < p.N; ++j) {
    for (int k = 0; k < p.K; ++k) cols[j] += std::pow(p.B[k * p.N + j], 2.0);
    all_b += cols[j];
    cols[j] = std::sqrt(cols[j]);
  }
  const accuracy::Exact e = accuracy::exact(p);
  Errors largest;
  for (int i = 0; i < p.M; ++i) {
    for (int j = 0; j < p.N; ++j) {
      const std::size_t at = static_cast<std::size_t>(i) * p.N + j;
      const double error = std::fabs(C[at] - e.product[at]) / (p.K * u);
      if (error == 0) continue;
      largest.a = std::max(largest.a, error / e.magnitudes[at]);
      largest.b = std::max(largest.b, error / (rows[i] * cols[j]));
      largest.c = std::max(largest.c, error / std::sqrt(all_a * all_b));
    }
  }
  return largest;
}

enum class Scaled { nothing, terms, rows_and_columns };

// Normal matrices; A times a diagonal matrix of powers of two, and its inverse times B, or the rows of A and
// the columns of B times some.
Problem draw(int K, Scaled scaled, int binades) {
  Problem p{M, N, K, std::vector<float>(M * K), std::vector<float>(K * N)};
  Draw d(K + 1);
  accuracy::fill(p, [&](int, int) { return d.normal(); }, [&](int, int) { return d.normal(); });
  const auto scale = [](float& x, int exponent) { x = std::ldexp(x, exponent); };
  for (int k = 0; k < K && scaled == Scaled::terms; ++k) {
    const int exponent = binades * (2 * k - K) / K;  // from -binades to binades
    for (int i = 0; i < M; ++i) scale(p.A[i * K + k], exponent);
    for (int j = 0; j < N; ++j) scale(p.B[k * N + j], -exponent);
  }
  for (int k = 0; k < K && scaled == Scaled::rows_and_columns; ++k) {
    for (int i = 0; i < M; ++i) scale(p.A[i * K + k], i * 7 % 3 * binades - binades);
    for (int j = 0; j < N; ++j) scale(p.B[k * N + j], binades - j * 5 % 3 * binades);
  }
  return p;
}

// C, scaled back.
std::vector<float> unscaled(std::vector<float> C, int binades) {
  for (int i = 0; i < M; ++i) {
    for (int j = 0; j < N; ++j) {
      C[i * N + j] = std::ldexp(C[i * N + j], j * 5 % 3 * binades - i * 7 % 3 * binades);
    }
  }
  return C;
}

}  // namespace

int main() {
  int broken = 0;
  const auto check = [&](bool right, const std::string& what) {
    if (right) return;
    fmt::print("  wrong: {}\n", what);
    ++broken;
  };
  for (int mode = 0; mode < 3; ++mode) {
    const auto accuracy = static_cast<Accuracy>(mode);
    const char* const name = accuracy_names[mode];
    // The slope of log(error) over log(n), by least squares; both ends and the maximum count.
    double x = 0, y = 0, xx = 0, xy = 0;
    const std::vector<int> Ks{16, 32, 64, 128, 256, 512, 1024, 2048};
    for (const int K : Ks) {
      const Problem p = draw(K, Scaled::nothing, 0);
      const Errors e = errors(p, product(p, accuracy));
      fmt::print("{:8} n = {:4}: {:6.3f} u |A||B|, grade {}\n", name, K, e.a * K, e.grade());
      check(e.grade() == 'A', "not grade A on dense matrices");
      const double log_n = std::log(K), log_e = std::log(e.a * K);
      x += log_n, y += log_e, xx += log_n * log_n, xy += log_n * log_e;
    }
    const auto count = static_cast<double>(Ks.size());
    const double slope = (count * xy - x * y) / (count * xx - x * x);
    fmt::print("{:8} grows as n to the {:.2f}\n", name, slope);
    check(slope <= 1, "the error grows faster than n");
    for (const int binades : {6, 10, 20, 40}) {
      const Problem p = draw(256, Scaled::terms, binades);
      const Errors e = errors(p, product(p, accuracy));
      fmt::print("{:8} terms scaled by 2^+-{}: {:10.3g} u |A||B|, grade {}\n", name, binades, e.a * 256,
                 e.grade());
      check(accuracy == Accuracy::fast ? e.grade() <= 'B' : e.grade() == 'A',
            "a lower grade than it is to have");
      // That the test can tell: scaled numbers have no more bits than fixed-point ones.
      if (accuracy == Accuracy::fast && binades == 40) check(e.grade() == 'B', "grade A without a guard");
    }
    const std::vector<float> C = product(draw(256, Scaled::nothing, 0), accuracy);
    for (const int binades : {10, 40}) {
      const Problem p = draw(256, Scaled::rows_and_columns, binades);
      const std::vector<float> scaled = product(p, accuracy);
      fmt::print("{:8} rows and columns scaled by 2^+-{}: grade {}\n", name, binades,
                 errors(p, scaled).grade());
      check(errors(p, scaled).grade() == 'A', "not grade A");
      check(unscaled(scaled, binades) == C, "not the scaled bits");
    }
  }
  return broken > 0;
}
