// Names the mistake behind a wrong element where its value gives it away: recomputes the element as
// well-known bugs would, and looks for the bug that fits all the elements examined.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "common/harness/run_case.hpp"
#include "common/poison.hpp"

namespace harness {

namespace {

// A wrong element with all that goes into it.
struct Element {
  std::int64_t matrix, row, col;
  float value;
  double old = 0;                            // C0 there
  std::vector<double> terms;                 // a[k] * b[k]
  std::vector<double> wrong_lda, wrong_ldb;  // the same with a leading dimension taken for dense
  // What the sum would be with elements from other places, and which mistake that is; NAN if there are no
  // such elements.
  std::vector<std::pair<std::string, double>> other_sums;
  double reference = 0;
  Magnitude magnitude{};
};

float fetch(Device& device, const float* from) {
  float value = 0;
  device.download(&value, from, sizeof value);
  return value;
}

// `count` consecutive elements of A or B, from `offset` elements after the matrix's first.
std::vector<float> fetch_inputs(Device& device, const AnyGemm& g, const void* matrix, std::int64_t offset,
                                int count = 1) {
  return with_element(g.input, [&]<typename T>(T) {
    std::vector<T> values(static_cast<std::size_t>(count));
    device.download(values.data(), g.behind(matrix, offset), values.size() * sizeof(T));
    return std::vector<float>(values.begin(), values.end());
  });
}

// The sums of kernels that take elements from the wrong places: matrices or tiles transposed, always the
// first tile, terms of A that meet other terms of B.
void add_other_sums(const AnyGemm& g, const auto& a_at, const auto& b_at, Element& e) {
  const auto add = [&](std::string mistake, const auto& term) {
    double sum = 0;
    for (int k = 0; k < g.K; ++k) sum += term(k);
    e.other_sums.emplace_back(std::move(mistake), sum);
  };
  add("fits A read as if it were transposed: A[k][row]",
      [&](int k) { return k < g.M && e.row < g.K ? a_at(k, e.row) * b_at(k, e.col) : NAN; });
  add("fits B read as if it were transposed: B[col][k]",
      [&](int k) { return e.col < g.K && k < g.N ? a_at(e.row, k) * b_at(e.col, k) : NAN; });
  for (const int tile : {8, 16, 32, 64, 128}) {
    const std::int64_t row0 = e.row / tile * tile, col0 = e.col / tile * tile;
    add(fmt::format("fits a tile of A, {} x {}, read transposed: row and k exchanged", tile, tile),
        [&](int k) { return a_at(row0 + k % tile, k / tile * tile + e.row % tile) * b_at(k, e.col); });
    add(fmt::format("fits a tile of B, {} x {}, read transposed: k and column exchanged", tile, tile),
        [&](int k) { return a_at(e.row, k) * b_at(k / tile * tile + e.col % tile, col0 + k % tile); });
    if (g.K <= tile) continue;
    const char* const first =
        "fits tiles of {} of {} terms that are all the first one: the copy leaves out k0";
    add(fmt::format(fmt::runtime(first), "A", tile),
        [&](int k) { return a_at(e.row, k % tile) * b_at(k, e.col); });
    add(fmt::format(fmt::runtime(first), "B", tile),
        [&](int k) { return a_at(e.row, k) * b_at(k % tile, e.col); });
  }
  // Of a k-tile with rows of 128 bytes, a wgmma takes 32 bytes' terms at a time.
  const int terms = static_cast<int>(32 / traits(g.input).bytes), tile = 4 * terms;
  for (const int step : {0, terms / 2}) {
    const auto met = [&](int k) { return k / tile * tile + k % tile / terms * step + k % terms; };
    const char* const text = "fits terms of {} that advance by {} from wgmma to wgmma, and those of {} by {}";
    if (g.K <= terms) return;
    add(fmt::format(fmt::runtime(text), "A", step, "B", terms),
        [&](int k) { return a_at(e.row, met(k)) * b_at(k, e.col); });
    add(fmt::format(fmt::runtime(text), "B", step, "A", terms),
        [&](int k) { return a_at(e.row, k) * b_at(met(k), e.col); });
  }
}

Element examine(Device& device, const AnyGemm& g, const float* c0, std::int64_t index) {
  Element e;
  e.matrix = index / g.N / g.M;
  e.row = index / g.N % g.M;
  e.col = index % g.N;
  const std::int64_t offset = e.matrix * g.strideC + e.row * g.ldc + e.col;
  e.value = fetch(device, g.C + offset);
  if (c0 != nullptr) e.old = fetch(device, c0 + offset);
  const void* A = g.behind(g.A, e.matrix * g.strideA);
  const void* B = g.behind(g.B, e.matrix * g.strideB);
  const auto input = [&](const void* matrix, std::int64_t offset) -> double {
    return fetch_inputs(device, g, matrix, offset)[0];
  };
  double sum = 0, magnitude = 0;
  for (int k = 0; k < g.K; ++k) {
    const double a = input(A, e.row * g.lda + k), b = input(B, k * g.ldb + e.col);
    e.terms.push_back(a * b);
    e.wrong_lda.push_back(g.lda == g.K ? NAN : input(A, e.row * g.K + k) * b);
    e.wrong_ldb.push_back(g.ldb == g.N ? NAN : a * input(B, std::int64_t{k} * g.N + e.col));
    sum += a * b;
    magnitude += std::fabs(a * b);
  }
  const auto a_at = [&](std::int64_t row, std::int64_t k) {
    return row < g.M && k < g.K ? input(A, row * g.lda + k) : 0.0;
  };
  const auto b_at = [&](std::int64_t k, std::int64_t col) {
    return k < g.K && col < g.N ? input(B, k * g.ldb + col) : 0.0;
  };
  constexpr int max_terms = 512;  // each sum takes two elements from the device for every term
  if (g.K <= max_terms) add_other_sums(g, a_at, b_at, e);
  e.reference = g.alpha * sum + g.beta * e.old;
  e.magnitude = {magnitude, std::fabs(g.alpha), std::fabs(g.beta * e.old)};
  return e;
}

std::uint32_t bits_of(float value) {
  std::uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

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

std::string dense_a_text(const AnyGemm& g) {
  return fmt::format("fits a leading dimension of A of {} (its row length) instead of {}", g.K, g.lda);
}

double sum_of(const std::vector<double>& terms, std::size_t begin, std::size_t end) {
  double sum = 0;
  for (std::size_t k = begin; k < end; ++k) sum += terms[k];
  return sum;
}

class Suspects {
 public:
  Suspects(const AnyGemm& g, std::vector<Element> elements, double tolerance)
      : g_(g), elements_(std::move(elements)), tolerance_(tolerance) {}

  // Empty if no mistake fits.
  std::string name() const {
    if (g_.beta != 0 && fits([&](const Element& e) { return e.old; })) {
      return "the old value, as if the element had never been written";
    }
    // In the exercises' build GCC initialises a float without a value to -1.7e38.
    if (std::fabs(elements_[0].value) > 1e37f) return "fits a variable that was used before it had a value";
    if (g_.K > 0) {
      if (fits([&](const Element& e) { return g_.beta * e.old; })) {
        return "fits a sum of nothing: no term was added, or none of it was kept";
      }
      if (fits([&](const Element& e) { return g_.alpha * g_.alpha * sum(e) + g_.beta * e.old; })) {
        return "fits alpha applied twice";
      }
      if (fits([&](const Element& e) { return sum(e) + g_.beta * e.old; })) return "fits alpha left out";
      if (fits([&](const Element& e) { return g_.alpha * sum(e); })) return "fits beta * C left out";
      if (fits([&](const Element& e) { return g_.alpha * sum(e) + e.old; }))
        return "fits C added without beta";
      if (fits([&](const Element& e) { return g_.alpha * (sum(e) + g_.beta * e.old); })) {
        return "fits alpha applied to beta * C too";
      }
      if (fits([&](const Element& e) { return g_.alpha * sum_of(e.wrong_lda, 0, g_.K) + g_.beta * e.old; })) {
        return dense_a_text(g_);
      }
      if (fits([&](const Element& e) { return g_.alpha * sum_of(e.wrong_ldb, 0, g_.K) + g_.beta * e.old; })) {
        return fmt::format("fits a leading dimension of B of {} (its row length) instead of {}", g_.N,
                           g_.ldb);
      }
      // The rest tries so many sums that a single element might fit one of them by chance.
      if (elements_.size() == 1) return "";
      if (const std::string lost = term_of_each_tile(); !lost.empty()) return lost;
      for (std::size_t gap = 1; gap <= 64 && gap <= static_cast<std::size_t>(g_.K); ++gap) {
        const std::size_t end = g_.K - gap;
        if (fits([&](const Element& e) { return g_.alpha * sum_of(e.terms, 0, end) + g_.beta * e.old; })) {
          return fmt::format("fits a sum that stops at k = {} instead of {}: the last {} missing", end, g_.K,
                             gap == 1 ? "term is" : fmt::format("{} terms are", gap));
        }
        if (fits([&](const Element& e) { return g_.alpha * sum_of(e.terms, gap, g_.K) + g_.beta * e.old; })) {
          return fmt::format("fits a sum that starts at k = {}: the first {} missing", gap,
                             gap == 1 ? "term is" : fmt::format("{} terms are", gap));
        }
      }
      for (std::size_t i = 0; i < elements_[0].other_sums.size(); ++i) {
        if (fits([&](const Element& e) { return g_.alpha * e.other_sums[i].second + g_.beta * e.old; })) {
          return elements_[0].other_sums[i].first;
        }
      }
      if (const std::string stale = stale_tile(); !stale.empty()) return stale;
    }
    return "";
  }

 private:
  double sum(const Element& e) const { return sum_of(e.terms, 0, e.terms.size()); }

  template <typename Formula>
  bool fits(const Formula& formula) const {
    for (const Element& e : elements_) {
      const double value = formula(e);
      const double rounding = tolerance_ * e.magnitude.total();
      if (!(std::fabs(value - e.value) <= rounding)) return false;
      if (std::fabs(value - e.reference) <= rounding) return false;  // tells nothing
    }
    return true;
  }

  // A loop over a k-tile that begins or ends with a term too few, or forgets the sum.
  std::string term_of_each_tile() const {
    for (const int width : {4, 8, 16, 32, 64, 128}) {
      if (g_.K <= width) break;
      const int last = (g_.K - 1) / width * width;
      if (fits([&](const Element& e) { return g_.alpha * sum_of(e.terms, last, g_.K) + g_.beta * e.old; })) {
        return fmt::format("fits the terms from k = {} on alone: the sum begins anew in each tile", last);
      }
      for (const int lost : {width - 1, 0}) {
        if (fits([&](const Element& e) {
              double without = sum(e);
              for (int k = lost; k < g_.K; k += width) without -= e.terms[static_cast<std::size_t>(k)];
              return g_.alpha * without + g_.beta * e.old;
            })) {
          return fmt::format("fits a sum without the {} of each tile of {} terms",
                             lost == 0 ? "first" : "last", width);
        }
      }
    }
    return "";
  }

  // A k-tile used in place of another, as with a stale buffer.
  std::string stale_tile() const {
    for (const int width : {8, 16, 32, 64}) {
      const int tiles = (g_.K + width - 1) / width;
      if (tiles < 2 || tiles > 64) continue;
      // Beyond K, the last tile may still hold the one before it.
      const int begin = g_.K - width, end = (tiles - 1) * width;
      if (fits([&](const Element& e) {
            return g_.alpha * (sum(e) + sum_of(e.terms, begin, end)) + g_.beta * e.old;
          })) {
        return fmt::format(
            "fits the terms from k = {} to {} counted twice: beyond K, the last tile of {} terms "
            "still holds the one before it",
            begin, end - 1, width);
      }
      if (tiles > 2 && fits([&](const Element& e) {
            return g_.alpha * tiles * sum_of(e.terms, 0, width) + g_.beta * e.old;
          })) {
        return fmt::format("fits the first K tile of {} terms used in place of all {} (a stale buffer)",
                           width, tiles);
      }
      for (int lost = 0; lost < tiles; ++lost) {
        for (int twice = 0; twice < tiles; ++twice) {
          if (lost == twice) continue;
          const auto tile = [&](const Element& e, int t) {
            return sum_of(e.terms, t * width, std::min(g_.K, (t + 1) * width));
          };
          if (fits([&](const Element& e) {
                return g_.alpha * (sum(e) - tile(e, lost) + tile(e, twice)) + g_.beta * e.old;
              })) {
            return fmt::format(
                "fits the K tile of {} terms at k = {} used where the one at k = {} belongs "
                "(a stale buffer)",
                width, twice * width, lost * width);
          }
        }
      }
    }
    return "";
  }

  const AnyGemm& g_;
  std::vector<Element> elements_;
  double tolerance_;
};

// Elements that hold the value of another one in their row or column.
std::string changed_places(Device& device, const AnyGemm& g, const std::vector<Element>& elements,
                           double tolerance) {
  constexpr std::int64_t max_inputs = 1 << 20;
  if (elements.size() < 2 || std::int64_t{g.K} * (g.M + g.N) > max_inputs) return "";
  const std::int64_t matrix = elements[0].matrix;
  std::vector<std::vector<float>> a, b;  // [M][K], [K][N]
  for (int row = 0; row < g.M; ++row)
    a.push_back(fetch_inputs(device, g, g.behind(g.A, matrix * g.strideA), row * g.lda, g.K));
  for (int k = 0; k < g.K; ++k)
    b.push_back(fetch_inputs(device, g, g.behind(g.B, matrix * g.strideB), k * g.ldb, g.N));
  const auto holds = [&](const Element& e, std::int64_t row, std::int64_t col) {
    double sum = 0;
    for (int k = 0; k < g.K; ++k) sum += double{a[row][k]} * b[k][col];
    return error_over_bound(e.value, g.alpha * sum + g.beta * e.old, e.magnitude, tolerance) <= 1;
  };
  if (std::ranges::all_of(elements, [&](const Element& e) {
        return e.col < g.M && e.row < g.N && e.row != e.col && holds(e, e.col, e.row);
      })) {
    return "fits C stored as if it were transposed: C[col][row]";
  }
  std::string text = "fits elements that changed places:";
  for (const Element& e : elements) {
    const auto is_from = [&](std::int64_t row, std::int64_t col) { return holds(e, row, col); };
    std::int64_t row = e.row, col = 0;
    while (col < g.N && !is_from(row, col)) ++col;
    if (col == g.N) {
      for (row = 0, col = e.col; row < g.M && !is_from(row, col);) ++row;
      if (row == g.M) return "";
    }
    text +=
        fmt::format("{} C[{}][{}] holds C[{}][{}]", text.back() == ':' ? "" : ",", e.row, e.col, row, col);
  }
  return text;
}

}  // namespace

std::string diagnose(Device& device, const AnyGemm& g, const float* c0, double tolerance,
                     std::int64_t first_wrong) {
  constexpr int max_k = 4096;  // the elements come from the device one by one: keep it short
  const std::int64_t matrix = first_wrong / g.N / g.M, row = first_wrong / g.N % g.M, col = first_wrong % g.N;
  const float value = fetch(device, g.C + matrix * g.strideC + row * g.ldc + col);
  std::string text = fmt::format("first C[{}][{}]{} = {}", row, col,
                                 g.batch > 1 ? fmt::format(" of matrix {}", matrix) : "", value);
  if (g.K > max_k) return text;
  // The elements after it are most likely wrong in the same way; right ones are left out.
  std::vector<Element> wrong;
  const std::int64_t end = std::min(first_wrong + 8, (matrix + 1) * g.M * g.N);
  for (std::int64_t i = first_wrong; i < end && wrong.size() < 3; ++i) {
    Element e = examine(device, g, c0, i);
    if (error_over_bound(e.value, e.reference, e.magnitude, tolerance) > 1) wrong.push_back(std::move(e));
  }
  if (wrong.empty()) return text;
  text += fmt::format(", should be {}; ", static_cast<float>(wrong.front().reference));
  if (std::isnan(value)) {
    if (g.lda != g.K && fits_dense_a(device, g, c0, tolerance, matrix, col)) return text + dense_a_text(g);
    if (bits_of(value) == poison_bits) return text + unwritten_elements(device, g, matrix);
    return text + origin_of_nan(value, device.info().kind == "cpu");
  }
  std::string mistake = Suspects(g, wrong, tolerance).name();
  if (mistake.empty()) mistake = changed_places(device, g, wrong, tolerance);
  return text + (mistake.empty() ? "fits no mistake known to this program" : mistake);
}

std::string diagnose_bias(double bias, double limit, Precision precision) {
  const PrecisionTraits& computed = traits(precision);
  std::string text = fmt::format("the product is {:.3f} % too {} as a whole, and rounding explains {:.3f} %",
                                 100 * std::fabs(bias), bias < 0 ? "small" : "large", 100 * limit);
  const double one = bias_of_cutting_one_operand_off(computed.arithmetic);
  if (std::fabs(bias + 2 * one) < one / 2) {
    text += fmt::format("; fits A and B cut off to {} instead of rounded", computed.name);
  } else if (std::fabs(bias + one) < one / 2) {
    text += fmt::format("; fits A or B cut off to {} instead of rounded", computed.name);
  }
  return text;
}

}  // namespace harness
