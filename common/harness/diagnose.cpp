// Names the mistake behind a wrong element, where the value gives it away: recomputes the element the way
// that well-known bugs do and looks which bug fits all the elements examined.

#include <fmt/format.h>

#include <cmath>
#include <cstring>

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
  double reference = 0, magnitude = 0;
};

float fetch(Device& device, const float* from) {
  float value = 0;
  device.download(&value, from, sizeof value);
  return value;
}

Element examine(Device& device, const Gemm& g, const float* c0, std::int64_t index) {
  Element e;
  e.matrix = index / g.N / g.M;
  e.row = index / g.N % g.M;
  e.col = index % g.N;
  const std::int64_t offset = e.matrix * g.strideC + e.row * g.ldc + e.col;
  e.value = fetch(device, g.C + offset);
  if (c0 != nullptr) e.old = fetch(device, c0 + offset);
  const float* A = g.A + e.matrix * g.strideA;
  const float* B = g.B + e.matrix * g.strideB;
  double sum = 0, magnitude = 0;
  for (int k = 0; k < g.K; ++k) {
    const double a = fetch(device, A + e.row * g.lda + k), b = fetch(device, B + k * g.ldb + e.col);
    e.terms.push_back(a * b);
    e.wrong_lda.push_back(g.lda == g.K ? NAN : fetch(device, A + e.row * g.K + k) * b);
    e.wrong_ldb.push_back(g.ldb == g.N ? NAN : a * fetch(device, B + std::int64_t{k} * g.N + e.col));
    sum += a * b;
    magnitude += std::fabs(a * b);
  }
  e.reference = g.alpha * sum + g.beta * e.old;
  e.magnitude = std::fabs(g.alpha) * magnitude + std::fabs(g.beta * e.old);
  return e;
}

double sum_of(const std::vector<double>& terms, std::size_t begin, std::size_t end) {
  double sum = 0;
  for (std::size_t k = begin; k < end; ++k) sum += terms[k];
  return sum;
}

class Suspects {
 public:
  Suspects(const Gemm& g, std::vector<Element> elements, double tolerance)
      : g_(g), elements_(std::move(elements)), tolerance_(tolerance) {}

  std::string name() const {
    const Element& first = elements_.front();
    std::uint32_t bits;
    std::memcpy(&bits, &first.value, sizeof bits);
    if (bits == poison_bits) return "the element was never written";
    if (std::isnan(first.value)) {
      return "NaN, which the kernel read outside the matrices, from an unwritten C, or made itself";
    }
    if (g_.K > 0) {
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
        return fmt::format("fits a leading dimension of A of {} (its row length) instead of {}", g_.K,
                           g_.lda);
      }
      if (fits([&](const Element& e) { return g_.alpha * sum_of(e.wrong_ldb, 0, g_.K) + g_.beta * e.old; })) {
        return fmt::format("fits a leading dimension of B of {} (its row length) instead of {}", g_.N,
                           g_.ldb);
      }
      for (std::size_t gap = 1; gap <= 64 && gap <= static_cast<std::size_t>(g_.K); ++gap) {
        const std::size_t end = g_.K - gap;
        if (fits([&](const Element& e) { return g_.alpha * sum_of(e.terms, 0, end) + g_.beta * e.old; })) {
          return fmt::format("fits a sum that stops at k = {} instead of {}: the last {} terms are missing",
                             end, g_.K, gap);
        }
        if (fits([&](const Element& e) { return g_.alpha * sum_of(e.terms, gap, g_.K) + g_.beta * e.old; })) {
          return fmt::format("fits a sum that starts at k = {}: the first {} terms are missing", gap, gap);
        }
      }
      if (const std::string stale = stale_tile(); !stale.empty()) return stale;
    }
    return "fits no mistake known to this program";
  }

 private:
  double sum(const Element& e) const { return sum_of(e.terms, 0, e.terms.size()); }

  template <typename Formula>
  bool fits(const Formula& formula) const {
    for (const Element& e : elements_) {
      const double value = formula(e);
      if (!(std::fabs(value - e.value) <= tolerance_ * e.magnitude)) return false;
      if (std::fabs(value - e.reference) <= tolerance_ * e.magnitude) return false;  // tells nothing
    }
    return true;
  }

  // One tile of K counted in another's place, as with a stale buffer.
  std::string stale_tile() const {
    for (const int width : {8, 16, 32, 64}) {
      const int tiles = (g_.K + width - 1) / width;
      if (tiles > 64) continue;
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

  const Gemm& g_;
  std::vector<Element> elements_;
  double tolerance_;
};

}  // namespace

std::string diagnose(Device& device, const Gemm& g, const float* c0, double tolerance,
                     std::int64_t first_wrong) {
  constexpr int max_k = 4096;  // element by element from the device: keep it short
  const std::int64_t matrix = first_wrong / g.N / g.M, row = first_wrong / g.N % g.M, col = first_wrong % g.N;
  const float value = fetch(device, g.C + matrix * g.strideC + row * g.ldc + col);
  std::string text = fmt::format("first C[{}][{}]{} = {}", row, col,
                                 g.batch > 1 ? fmt::format(" of matrix {}", matrix) : "", value);
  if (g.K > max_k) return text;
  // The neighbours in its row are most likely wrong in the same way; those that are right are left out.
  std::vector<Element> wrong;
  for (std::int64_t i = first_wrong; i < first_wrong - col + g.N && i < first_wrong + 8 && wrong.size() < 3;
       ++i) {
    Element e = examine(device, g, c0, i);
    if (error_over_bound(e.value, e.reference, e.magnitude, tolerance) > 1) wrong.push_back(std::move(e));
  }
  if (wrong.empty()) return text;
  text += fmt::format(", should be {}; ", static_cast<float>(wrong.front().reference));
  return text + Suspects(g, std::move(wrong), tolerance).name();
}

}  // namespace harness
