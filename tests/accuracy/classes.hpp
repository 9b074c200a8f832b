#pragma once

// Matrices of many kinds, on which FP32 emulated by narrower products may fail: A [M][K] and B [K][N], drawn
// together where the class ties them.

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <random>
#include <string>
#include <vector>

namespace accuracy {

struct Problem {
  int M, N, K;
  std::vector<float> A, B;
};

// What the guard has to do with a problem whose K is not short.
enum class Expected {
  all_fast,
  none_fast,
  either,
};

class Draw {
 public:
  explicit Draw(std::uint64_t seed) : bits_(seed) {}
  double uniform() { return static_cast<double>(bits_() >> 11) * 0x1p-53; }
  double normal() {
    return std::sqrt(-2 * std::log(1 - uniform())) * std::cos(2 * std::acos(-1.0) * uniform());
  }
  int below(int n) { return static_cast<int>(uniform() * n); }

 private:
  std::mt19937_64 bits_;
};

struct Class {
  std::string name;
  Expected expected;
  std::vector<int> Ks;
  std::function<void(Problem&, Draw&)> fill;
};

// A[i][k] = a(i, k), B[k][j] = b(k, j).
template <typename OfA, typename OfB>
void fill(Problem& p, const OfA& a, const OfB& b) {
  for (int i = 0; i < p.M; ++i) {
    for (int k = 0; k < p.K; ++k) p.A[i * p.K + k] = static_cast<float>(a(i, k));
  }
  for (int k = 0; k < p.K; ++k) {
    for (int j = 0; j < p.N; ++j) p.B[k * p.N + j] = static_cast<float>(b(k, j));
  }
}

// One draw for each element, whatever its place.
template <typename OfA, typename OfB>
auto independent(const OfA& a, const OfB& b) {
  return
      [=](Problem& p, Draw& d) { fill(p, [&](int, int) { return a(d); }, [&](int, int) { return b(d); }); };
}

// A falls by 2^binades along k, B rises, or falls with it.
inline auto graded(int binades, bool both_fall = false) {
  return [=](Problem& p, Draw& d) {
    const auto exponent = [&](int k) { return binades * k / p.K; };
    fill(
        p, [&](int, int k) { return std::ldexp(d.normal(), -exponent(k)); },
        [&](int k, int) { return std::ldexp(d.normal(), both_fall ? -exponent(k) : exponent(k)); });
  };
}

// One k is 2^10 times as large as the others, in A and in B.
inline auto outlier(const std::function<int(int K, Draw&)>& where) {
  return [=](Problem& p, Draw& d) {
    const int large = where(p.K, d);
    const auto element = [&](int k) { return d.normal() * (k == large ? 1024 : 1); };
    fill(p, [&](int, int k) { return element(k); }, [&](int k, int) { return element(k); });
  };
}

// Zero but where `exists(row, k)`; B is dense.
inline auto pattern(const std::function<bool(const Problem&, int, int)>& exists) {
  return [=](Problem& p, Draw& d) {
    fill(
        p, [&](int i, int k) { return exists(p, i, k) ? d.normal() : 0.0; },
        [&](int, int) { return d.normal(); });
  };
}

// The elements of normal matrices that are no numbers: (row of A or -1, k, column of B or -1, what).
struct Special {
  int row, k, col;
  float value;
};
inline auto with(const std::vector<Special>& specials) {
  return [=](Problem& p, Draw& d) {
    fill(p, [&](int, int) { return d.normal(); }, [&](int, int) { return d.normal(); });
    for (const auto& [row, k, col, value] : specials) {
      if (row >= 0) p.A[row * p.K + k] = value;
      if (col >= 0) p.B[k * p.N + col] = value;
    }
  };
}

inline std::vector<Class> all_classes() {
  using enum Expected;
  const auto uniform = [](Draw& d) { return 2 * d.uniform() - 1; };
  const auto normal = [](Draw& d) { return d.normal(); };
  const auto positive = [](Draw& d) { return d.uniform(); };
  const auto relu = [](Draw& d) { return std::max(0.0, d.normal()); };
  const auto integer = [](Draw& d) { return d.below(65536) - 32768; };
  const auto spread = [](Draw& d) { return std::ldexp(d.normal(), d.below(25) - 12); };
  const auto times = [](int exponent) { return [=](Draw& d) { return std::ldexp(d.normal(), exponent); }; };
  const auto sparse = [](int one_in) {
    return [=](Draw& d) { return d.below(one_in) == 0 ? d.normal() : 0.0; };
  };
  const auto softmax = [](double logit) {
    return [=](Problem& p, Draw& d) {
      fill(p, [&](int, int) { return std::exp(logit * d.normal()); }, [&](int, int) { return d.normal(); });
      for (int i = 0; i < p.M; ++i) {
        float sum = 0;
        for (int k = 0; k < p.K; ++k) sum += p.A[i * p.K + k];
        for (int k = 0; k < p.K; ++k) p.A[i * p.K + k] /= sum;
      }
    };
  };
  const auto rows_and_columns = [](int spread, const auto& element) {
    return [=](Problem& p, Draw& d) {
      std::vector<int> row(p.M), col(p.N);
      for (int& e : row) e = d.below(2 * spread + 1) - spread;
      for (int& e : col) e = d.below(2 * spread + 1) - spread;
      fill(
          p, [&](int i, int) { return std::ldexp(element(d), row[i]); },
          [&](int, int j) { return std::ldexp(element(d), col[j]); });
    };
  };
  // The second half of k nearly undoes the first.
  const auto ill_conditioned = [](Problem& p, Draw& d) {
    fill(p, [&](int, int) { return d.normal(); }, [&](int, int) { return d.normal(); });
    const int half = p.K / 2;
    for (int k = 0; k < half; ++k) {
      for (int i = 0; i < p.M; ++i) p.A[i * p.K + half + k] = -p.A[i * p.K + k];
      for (int j = 0; j < p.N; ++j) {
        p.B[(half + k) * p.N + j] = p.B[k * p.N + j] * (1 + 1e-5f * static_cast<float>(d.normal()));
      }
    }
  };
  // Large at different k: of each two neighbours, or of the two halves. With a last k at which both are.
  const auto apart = [](bool halves, double small, bool last) {
    return [=](Problem& p, Draw& d) {
      const auto in_a = [&](int k) { return halves ? k < p.K / 2 : k % 2 == 1; };
      const auto element = [&](int k, bool large) {
        return d.normal() * (large || (last && k == p.K - 1) ? 1 : small);
      };
      fill(
          p, [&](int, int k) { return element(k, in_a(k)); },
          [&](int k, int) { return element(k, !in_a(k)); });
    };
  };
  // Just above a power of two: what hi and lo lose is as large as can be, and of one sign.
  const auto worst_mantissa = [](Draw& d) { return 1.0 + 0x1p-11 - 0x1p-23 * (1 + 2 * d.below(8)); };
  const auto lower = [](const Problem& p, int i, int k) { return k <= i * p.K / p.M; };
  const auto band = [](const Problem& p, int i, int k) { return std::abs(k - i * p.K / p.M) <= 4; };
  const auto identity = [](Problem& p, Draw& d) {
    fill(p, [&](int i, int k) { return k == i * 37 % p.K; }, [&](int, int) { return d.normal(); });
  };
  constexpr float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<int> usual{100, 512};
  return {
      {"uniform", all_fast, {1, 8, 16, 64, 96, 100, 512, 1024}, independent(uniform, uniform)},
      {"normal", all_fast, {1, 8, 16, 64, 128, 512, 1024, 9000}, independent(normal, normal)},
      {"positive", all_fast, usual, independent(positive, positive)},
      {"16-bit integers", all_fast, usual, independent(integer, integer)},
      {"ReLU x normal", all_fast, {128, 512}, independent(relu, normal)},
      {"ReLU x ReLU", all_fast, {256, 512}, independent(relu, relu)},
      {"softmax 1", all_fast, usual, softmax(1)},
      {"softmax 4", all_fast, {512, 2048}, softmax(4)},
      {"exponents +-12", all_fast, {512}, independent(spread, spread)},
      {"rows, columns +-30", all_fast, usual, rows_and_columns(30, normal)},
      {"rows, columns +-60", all_fast, {100}, rows_and_columns(60, uniform)},
      {"huge x tiny", all_fast, usual, independent(times(100), times(-100))},
      {"subnormal x large", all_fast, usual, independent(times(-130), times(60))},
      {"large x subnormal", all_fast, {100}, independent(times(110), times(-145))},
      {"ill-conditioned", all_fast, {128, 512}, ill_conditioned},
      {"worst mantissas", all_fast, usual, independent(worst_mantissa, worst_mantissa)},
      {"constant", all_fast, usual, independent([](Draw&) { return 0.7; }, [](Draw&) { return 0.3; })},
      {"one in 64", none_fast, usual, independent(sparse(64), sparse(64))},
      {"one in 64 x normal", none_fast, usual, independent(sparse(64), normal)},
      {"one in 8", none_fast, usual, independent(sparse(8), sparse(8))},
      {"one in 9", none_fast, {1000}, independent(sparse(9), sparse(9))},
      {"one in 12", none_fast, {2048}, independent(sparse(12), sparse(12))},
      {"triangular", either, usual, pattern(lower)},
      {"band", none_fast, usual, pattern(band)},
      {"identity", none_fast, usual, identity},
      {"outlier first", either, usual, outlier([](int, Draw&) { return 0; })},
      {"outlier last", either, usual, outlier([](int K, Draw&) { return K - 1; })},
      {"outlier", either, usual, outlier([](int K, Draw& d) { return d.below(K); })},
      {"graded 12", all_fast, {512}, graded(12)},
      {"graded 24", either, usual, graded(24)},
      {"graded 40", none_fast, usual, graded(40)},
      {"both graded 24", either, usual, graded(24, true)},
      {"apart, neighbours", either, usual, apart(false, 0x1p-15, true)},
      {"far apart", none_fast, usual, apart(false, 0x1p-44, false)},
      {"apart, zeros", either, usual, apart(false, 0, true)},
      {"apart, halves", none_fast, {128, 512}, apart(true, 0x1p-15, true)},
      {"zeros", all_fast, {100}, independent([](Draw&) { return 0; }, normal)},
      {"an infinity in A", either, {100}, with({{3, 70, -1, inf}})},
      {"a NaN in B", either, {100}, with({{-1, 99, 5, nan}})},
      {"infinities meet",
       none_fast,
       {100, 200},
       with({{70, 7, -1, inf}, {70, 8, 11, -inf}, {2, 9, -1, inf}})},
      {"infinity x 0", none_fast, {100}, with({{70, 7, -1, inf}, {-1, 7, 9, 0.0f}, {1, 4, 119, -inf}})},
  };
}

}  // namespace accuracy
