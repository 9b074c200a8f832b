#pragma once

// What step 47 computes, once more, for small matrices and fast: in the arithmetic of
// the CPU device, without its threads. adversary.cpp holds the two against each other, bit for bit.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "common/cpu_device/tensor_core.hpp"
#include "steps/47_every_shape/hi_lo.hpp"
#include "steps/47_every_shape/parts.hpp"
#include "tests/accuracy/classes.hpp"

// In an unnamed namespace, as what it takes from hi_lo.hpp is.
namespace {

namespace model {

// What may be weakened, to see whether a search finds out.
struct Rules {
  float least_terms = 16, least_shown = 16;
  bool shown_inverted = false;  // the guard refuses what shows
  int promoted_every = 64;      // terms
  bool sums_in_double = false;
  float counted = COUNTED;
  float lo_scale = LO_SCALE;
};

struct Outcome {
  Path path = Path::fast;
  std::vector<float> C;  // of the fast path, whatever the guard says
};

// The lines of a matrix, split. K is padded to whole blocks with zeros.
struct Split {
  std::vector<fp16> hi, lo;  // [line][padded]
  std::vector<float> counts;
  std::vector<Line> lines;
};

template <typename Element>
Split split(int lines, int K, const Element& element, const Rules& rules) {
  const int blocks = ceil_div(K, COUNTED_K), padded = blocks * COUNTED_K;
  Split s{std::vector<fp16>(lines * padded, fp16(0.0f)), std::vector<fp16>(lines * padded, fp16(0.0f)),
          std::vector<float>(lines * blocks), std::vector<Line>(lines)};
  for (int line = 0; line < lines; ++line) {
    float most = 0;
    for (int k = 0; k < K; ++k) most = std::max(most, std::fabs(element(line, k)));
    const int exponent = splitting::scale_for(std::bit_cast<unsigned>(most));
    const float factor = splitting::power_of_two(std::min(exponent, 126));
    const float rest = splitting::power_of_two(std::max(exponent - 126, 0));
    s.lines[line] = {-exponent, 0, 0, 0};
    for (int k = 0; k < K; ++k) {
      const float x = element(line, k), scaled = x * factor * rest, magnitude = std::fabs(scaled);
      const bool tiny = magnitude < LEAST_FP16 && x != 0;
      const fp16 hi(tiny ? std::copysign(LEAST_FP16, x) : scaled);
      s.hi[line * padded + k] = hi;
      s.lo[line * padded + k] = fp16((scaled - static_cast<float>(hi)) * rules.lo_scale);
      s.counts[line * blocks + k / COUNTED_K] += magnitude >= rules.counted;
      s.lines[line].lossy += magnitude < LEAST_KEPT && x != 0;
    }
    if (most == 0) std::fill_n(s.counts.begin() + line * blocks, blocks, float{COUNTED_K});
  }
  return s;
}

Outcome run(const accuracy::Problem& p, const Rules& rules = {}) {
  const auto [M, N, K, A, B] = p;
  const int blocks = ceil_div(K, COUNTED_K), padded = blocks * COUNTED_K;
  const Split a = split(M, K, [&](int i, int k) { return p.A[i * p.K + k]; }, rules);
  const Split b = split(N, K, [&](int j, int k) { return p.B[k * p.N + j]; }, rules);
  const std::size_t elements = static_cast<std::size_t>(M) * N;
  std::vector<double> sums(elements, 0.0);
  std::vector<float> small(elements, 0.0f), products(elements, 0.0f);
  const auto multiply = [&](std::vector<float>& d, const std::vector<fp16>& x, const std::vector<fp16>& y,
                            int k) {
    using namespace cpu_device;
    constexpr auto type = OperandType::fp16;
    multiply_add(fp16_arithmetic, type, p.M, p.N, 16, rows_of(type, &x[k], padded),
                 rows_of(type, &y[k], padded), d.data());
  };
  const auto add = [&](double& sum, float x) {
    sum = rules.sums_in_double ? sum + x : static_cast<float>(sum) + x;
  };
  for (int k = 0; k < padded; k += 16) {
    multiply(small, a.hi, b.lo, k);
    multiply(small, a.lo, b.hi, k);
    if (k % rules.promoted_every == 0) std::ranges::fill(products, 0.0f);
    multiply(products, a.hi, b.hi, k);
    if ((k + 16) % rules.promoted_every != 0 && k + 16 < padded) continue;
    for (std::size_t i = 0; i < elements; ++i) add(sums[i], products[i]);
  }
  Outcome o{K < 96 ? Path::short_k : Path::fast, std::vector<float>(elements)};
  for (int i = 0; i < M; ++i) {
    for (int j = 0; j < N; ++j) {
      const std::size_t at = static_cast<std::size_t>(i) * N + j;
      add(sums[at], small[at] * (1 / rules.lo_scale));
      const auto sum = static_cast<float>(sums[at]);
      float terms = 0;
      for (int block = 0; block < blocks; ++block) {
        terms += a.counts[i * blocks + block] * b.counts[j * blocks + block] / COUNTED_K;
      }
      const float lossy = static_cast<float>(a.lines[i].lossy + b.lines[j].lossy);
      const bool shows = std::fabs(sum) >= rules.least_shown * lossy;
      if (o.path < Path::few_terms && terms < rules.least_terms) o.path = Path::few_terms;
      if (o.path < Path::lossy && shows == rules.shown_inverted) o.path = Path::lossy;
      o.C[at] = std::ldexp(sum, a.lines[i].exponent + b.lines[j].exponent);
    }
  }
  return o;
}

}  // namespace model

}  // namespace
