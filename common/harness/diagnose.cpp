// Names the mistake behind a wrong element where its value gives it away: recomputes the element as
// well-known bugs would, and looks for the bug that fits all the elements examined.

#include "common/harness/diagnose.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "common/harness/run_case.hpp"

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
  if (std::isnan(value)) return text + diagnose_nan(device, g, c0, tolerance, matrix, col, value);
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
