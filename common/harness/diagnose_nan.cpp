// Names the mistake behind a NaN in C: elements that nobody has written, and inputs from between the rows.

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>

#include "common/harness/diagnose.hpp"
#include "common/poison.hpp"

namespace harness {

namespace {

std::uint32_t bits_of(float value) { return std::bit_cast<std::uint32_t>(value); }

// What is known about the origin of a wrong NaN that is not the poison itself. On the CPU device arithmetic
// makes a NaN quiet and keeps its other bits; a GPU turns every NaN into the same one. A NaN from a BF16
// element has nothing in its lower half.
std::string origin_of_nan(float value, bool on_cpu) {
  constexpr std::uint32_t sign = 1u << 31, made = 0x7fc00000, quiet = poison_bits | quiet_bits;
  const std::uint32_t bits = (bits_of(value) & ~sign) | quiet_bits;
  if (bits == quiet || bits == ((quiet & 0xffff0000) | (quiet_bits & 0xffff))) {
    return "NaN from what the kernel must not read: memory outside the matrices, C when beta is 0, shared "
           "memory or a workspace that no thread has written, or a copy still under way";
  }
  if (on_cpu && (bits_of(value) & ~sign) == made)
    return "NaN that the kernel's own arithmetic made: 0 / 0, 0 * inf or inf - inf";
  return "NaN, which the kernel read outside the matrices, from an unwritten C, or made itself";
}

// For an element that was never written: where others like it are, if there are any, as their place may tell
// why.
std::string unwritten_elements(Device& device, const AnyGemm& g, std::int64_t matrix) {
  constexpr std::int64_t max_elements = 1 << 24;
  const std::int64_t elements = (g.M - 1) * g.ldc + g.N;
  const std::string alone = "the element was never written";
  if (elements > max_elements) return alone;
  std::vector<float> c(static_cast<std::size_t>(elements));  // [M][N]
  device.download(c.data(), g.C + matrix * g.strideC, c.size() * sizeof(float));
  std::int64_t count = 0, top = g.M, bottom = 0, left = g.N, right = 0;
  for (std::int64_t row = 0; row < g.M; ++row) {
    for (std::int64_t col = 0; col < g.N; ++col) {
      if (bits_of(c[static_cast<std::size_t>(row * g.ldc + col)]) != poison_bits) continue;
      ++count;
      top = std::min(top, row);
      bottom = std::max(bottom, row);
      left = std::min(left, col);
      right = std::max(right, col);
    }
  }
  if (count <= 1) return alone;
  const auto span = [](const char* what, std::int64_t first, std::int64_t last) {
    return first == last ? fmt::format("{} {}", what, first) : fmt::format("{}s {} to {}", what, first, last);
  };
  const std::string place = fmt::format("the {} elements in {} and {} were never written", count,
                                        span("row", top, bottom), span("column", left, right));
  const auto written = [&](std::int64_t row, std::int64_t col) {
    return bits_of(c[static_cast<std::size_t>(row * g.ldc + col)]) != poison_bits;
  };
  std::int64_t rows_written = 0, cols_written = 0;
  while (rows_written < g.M && written(rows_written, 0)) ++rows_written;
  while (cols_written < g.N && written(0, cols_written)) ++cols_written;
  // Whether what is left is less than a tile of 8, 16, 32, ..., as many as done is a multiple of.
  const auto whole_tiles = [](std::int64_t done, std::int64_t all) {
    const std::int64_t tile = done & -done;
    return done == all || (tile >= 8 && all - done < tile);
  };
  const bool rounded_down = rows_written > 0 &&
                            count == std::int64_t{g.M} * g.N - rows_written * cols_written &&
                            whole_tiles(rows_written, g.M) && whole_tiles(cols_written, g.N);
  const char* const down = "; fits a grid that is rounded down to whole tiles";
  if (rounded_down && rows_written < g.M && cols_written < g.N) {
    return fmt::format("{} and {} were never written{}", span("row", rows_written, g.M - 1),
                       span("column", cols_written, g.N - 1), down);
  }
  if (count != (bottom - top + 1) * (right - left + 1)) return alone + "; nor were others: " + place;
  // As many blocks of T x T as M x N takes, with row and column exchanged, cover N rows and M columns,
  // rounded up.
  for (const int tile : {8, 16, 32, 64, 128, 256}) {
    const int rows = (g.N + tile - 1) / tile * tile, cols = (g.M + tile - 1) / tile * tile;
    if ((rows >= g.M && top == 0 && bottom == g.M - 1 && left == cols && right == g.N - 1) ||
        (cols >= g.N && left == 0 && right == g.N - 1 && top == rows && bottom == g.M - 1)) {
      return fmt::format("{}; fits blocks of {} x {} whose row and column are exchanged", place, tile, tile);
    }
  }
  return rounded_down ? place + down : place;
}

// Whether a leading dimension of A of K explains a whole column of C: its NaNs, for which part of the row
// comes from between the rows of A, its wrong elements, and its right ones.
bool fits_dense_a(Device& device, const AnyGemm& g, const float* c0, double tolerance, std::int64_t matrix,
                  std::int64_t col) {
  constexpr int max_rows = 64;
  const auto terms = static_cast<std::size_t>(g.K);
  const void* A = g.behind(g.A, matrix * g.strideA);
  const void* B = g.behind(g.B, matrix * g.strideB);
  std::vector<float> b;
  for (int k = 0; k < g.K; ++k) b.push_back(fetch_inputs(device, g, B, k * g.ldb + col)[0]);
  bool telling = false;  // some number is wrong, and precisely as expected
  for (std::int64_t row = 0; row < std::min(g.M, max_rows); ++row) {
    const std::vector<float> a = fetch_inputs(device, g, A, row * g.lda, g.K);
    const std::vector<float> dense_a = fetch_inputs(device, g, A, row * g.K, g.K);
    const std::int64_t offset = matrix * g.strideC + row * g.ldc + col;
    const double old = c0 == nullptr ? 0 : double{g.beta} * fetch(device, c0 + offset);
    double reference = old, expected = old, magnitude = std::fabs(old);
    for (std::size_t k = 0; k < terms; ++k) {
      reference += double{g.alpha} * a[k] * b[k];
      expected += double{g.alpha} * dense_a[k] * b[k];
      magnitude += std::fabs(double{g.alpha} * dense_a[k] * b[k]);
    }
    const float value = fetch(device, g.C + offset);
    if (std::isnan(value) != std::isnan(expected)) return false;
    if (std::isnan(value)) continue;
    if (std::fabs(value - expected) > tolerance * magnitude) return false;
    telling = telling || std::fabs(value - reference) > tolerance * magnitude;
  }
  return telling;
}

}  // namespace

std::string diagnose_nan(Device& device, const AnyGemm& g, const float* c0, double tolerance,
                         std::int64_t matrix, std::int64_t col, float value) {
  if (g.lda != g.K && fits_dense_a(device, g, c0, tolerance, matrix, col)) return dense_a_text(g);
  if (bits_of(value) == poison_bits) return unwritten_elements(device, g, matrix);
  return origin_of_nan(value, device.info().kind == "cpu");
}

}  // namespace harness
