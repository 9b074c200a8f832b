// Asks a GPU what its tensor cores compute, and how fast: mma.sync of TF32 (m16n8k8) and BF16 (m16n8k16).
//
//   tensor_core_arithmetic --json FILE           all of it, about two minutes
//   tensor_core_arithmetic --examples NUMBER     the inputs, and what that model gives for them; needs no GPU
//
// README.md says what the parts of the record are. Every mma here is the kernels' own wrapper, and every
// fragment is loaded by the maps of common/cuda/fragments.hpp; a check with small integers, all of whose sums
// are exact, shows that the maps are right.

#include <unistd.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <numeric>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "common/cpu_device/tensor_core.hpp"
#include "common/cuda/check.hpp"
#include "common/cuda/fragments.hpp"
#include "common/cuda/mma.hpp"
#include "common/harness/telemetry.hpp"

namespace {

using cpu_device::TensorCoreArithmetic;
using nlohmann::json;
using Bits = std::uint32_t;

constexpr int M = 16, N = 8;  // of both shapes

// ---- On the GPU -------------------------------------------------------------------------------------------

// One warp, one mma: a [mmas][16][K], b [mmas][K][8] and c [mmas][16][8] as the bits of floats, of which BF16
// are the upper halves; d likewise.
template <typename Shape>
__global__ void multiply(const Bits* a, const Bits* b, const Bits* c, Bits* d) {
  const int lane = threadIdx.x;
  const std::size_t number = blockIdx.x;
  a += number * M * Shape::K;
  b += number * Shape::K * N;
  c += number * M * N;
  d += number * M * N;
  std::uint32_t a_bits[Shape::a_elements], b_bits[Shape::b_elements];
  float sums[Shape::c_elements];
  for (int i = 0; i < Shape::a_elements; ++i) {
    const Place at = Shape::a(lane, i);
    a_bits[i] = a[at.row * Shape::K + at.col];
  }
  for (int i = 0; i < Shape::b_elements; ++i) {
    const Place at = Shape::b(lane, i);
    b_bits[i] = b[at.row * N + at.col];
  }
  for (int i = 0; i < Shape::c_elements; ++i) {
    const Place at = Shape::c(lane, i);
    sums[i] = __uint_as_float(c[at.row * N + at.col]);
  }
  if constexpr (Shape::K == 8) {
    mma_tf32<Unrounded::cut_off>(sums, a_bits, b_bits);
  } else {
    std::uint32_t a_pairs[4], b_pairs[2];
    for (int i = 0; i < 4; ++i) a_pairs[i] = a_bits[2 * i] >> 16 | (a_bits[2 * i + 1] & 0xffff0000);
    for (int i = 0; i < 2; ++i) b_pairs[i] = b_bits[2 * i] >> 16 | (b_bits[2 * i + 1] & 0xffff0000);
    mma_bf16(sums, a_pairs, b_pairs);
  }
  for (int i = 0; i < Shape::c_elements; ++i) {
    const Place at = Shape::c(lane, i);
    d[at.row * N + at.col] = __float_as_uint(sums[i]);
  }
}

__global__ void round_to_tf32(const Bits* from, Bits* to, int count) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) to[i] = to_tf32(__uint_as_float(from[i]));
}

__device__ __forceinline__ long long nanoseconds() {
  long long now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  return now;
}

// Independent mma's: AS * BS chains, as in a warp's tile of AS * 16 rows and BS * 8 columns. operands: bits,
// of which every lane takes its own. sums: [threads of the grid], so that nothing is left out. times: [warps
// of the grid][start, stop in cycles of the SM, start, stop in nanoseconds].
template <typename Shape, int AS, int BS>
__global__ void multiply_much(const Bits* operands, float* sums, long long* times, int passes) {
  std::uint32_t a[AS][4], b[BS][2];
  float d[AS][BS][4];
  const int thread = blockIdx.x * blockDim.x + threadIdx.x;
  for (int i = 0; i < AS * 4; ++i) a[i / 4][i % 4] = operands[i * 32 + threadIdx.x % 32];
  for (int i = 0; i < BS * 2; ++i) b[i / 2][i % 2] = operands[(AS * 4 + i) * 32 + threadIdx.x % 32];
  for (int i = 0; i < AS * BS * 4; ++i) d[i / 4 / BS][i / 4 % BS][i % 4] = 0.0f;
  __syncthreads();
  const long long start_ns = nanoseconds(), start = clock64();
#pragma unroll 4
  for (int pass = 0; pass < passes; ++pass) {
#pragma unroll
    for (int i = 0; i < AS; ++i) {
#pragma unroll
      for (int j = 0; j < BS; ++j) {
        if constexpr (Shape::K == 8) {
          mma_tf32<Unrounded::cut_off>(d[i][j], a[i], b[j]);
        } else {
          mma_bf16(d[i][j], a[i], b[j]);
        }
      }
    }
  }
  const long long stop = clock64();  // the last ones may be under way: nothing beside so many passes
  const long long stop_ns = nanoseconds();
  float sum = 0.0f;
  for (int i = 0; i < AS * BS * 4; ++i) sum += d[i / 4 / BS][i / 4 % BS][i % 4];
  sums[thread] = sum;
  if (threadIdx.x % 32 == 0) {
    long long* to = times + thread / 32 * 4;
    to[0] = start;
    to[1] = stop;
    to[2] = start_ns;
    to[3] = stop_ns;
  }
}

// ---- Memory -----------------------------------------------------------------------------------------------

template <typename T>
class Buffer {
 public:
  explicit Buffer(std::size_t count) : count_(count) { CUDA_CHECK(cudaMalloc(&data_, count * sizeof(T))); }
  explicit Buffer(const std::vector<T>& from) : Buffer(from.size()) {
    CUDA_CHECK(cudaMemcpy(data_, from.data(), count_ * sizeof(T), cudaMemcpyHostToDevice));
  }
  Buffer(const Buffer&) = delete;
  ~Buffer() { cudaFree(data_); }
  T* data() { return data_; }
  std::vector<T> read() const {
    std::vector<T> to(count_);
    CUDA_CHECK(cudaMemcpy(to.data(), data_, count_ * sizeof(T), cudaMemcpyDeviceToHost));
    return to;
  }

 private:
  T* data_ = nullptr;
  std::size_t count_;
};

// ---- What is asked ----------------------------------------------------------------------------------------

struct Type {
  const char* name;
  int K;
  int fraction_bits;  // of an operand
  Bits mask;          // of an operand's bits as a float's, that it has
};
constexpr Type tf32{"tf32", MmaTf32Shape::K, 10, cpu_device::tf32_mask};
constexpr Type bf16_type{"bf16", MmaBf16Shape::K, 7, 0xffff0000};

// The operands of mma's one after the other, as multiply() wants them.
struct Operands {
  std::vector<Bits> a, b, c;
  std::size_t count() const { return c.size() / (M * N); }
};

// One element of D: a row of A, a column of B, an element of C.
struct Element {
  std::vector<Bits> a, b;
  Bits c = 0;
  float by(const TensorCoreArithmetic& model, Bits mask) const {
    std::vector<Bits> x = a, y = b;
    for (Bits& bits : x) bits &= mask;
    for (Bits& bits : y) bits &= mask;
    return multiply_add(model, x, y, std::bit_cast<float>(c));
  }
};

Element element(const Operands& o, const Type& type, std::size_t mma, int row, int col) {
  Element e;
  for (int k = 0; k < type.K; ++k) {
    e.a.push_back(o.a[(mma * M + row) * type.K + k]);
    e.b.push_back(o.b[(mma * type.K + k) * N + col]);
  }
  e.c = o.c[(mma * M + row) * N + col];
  return e;
}

std::vector<Bits> run(const Operands& o, const Type& type) {
  Buffer<Bits> a(o.a), b(o.b), c(o.c), d(o.c.size());
  const auto kernel = type.K == 8 ? multiply<MmaTf32Shape> : multiply<MmaBf16Shape>;
  kernel<<<static_cast<unsigned>(o.count()), 32>>>(a.data(), b.data(), c.data(), d.data());
  CUDA_CHECK(cudaGetLastError());
  CUDA_CHECK(cudaDeviceSynchronize());
  return d.read();
}

Bits bits_of(float x) { return std::bit_cast<Bits>(x); }
std::string hex(Bits bits, int digits = 8) {
  char text[9];
  std::snprintf(text, sizeof text, "%0*x", digits, digits == 4 ? bits >> 16 : bits);
  return text;
}
std::string hex(const std::vector<Bits>& all, const Type& type) {
  std::string text;
  for (Bits bits : all) text += hex(bits, type.K == 8 ? 8 : 4);
  return text;
}

// ---- Chosen inputs: each asks one thing -------------------------------------------------------------------

struct Case {
  std::string name;
  Element element;
};

std::vector<Case> cases_of(const Type& type) {
  std::vector<Case> cases;
  // Products in the order given, the others zero. A product is x * y.
  using Pairs = std::vector<std::pair<float, float>>;
  const auto ask_bits = [&](std::string name, const std::vector<std::pair<Bits, Bits>>& products, Bits c) {
    Element e{std::vector<Bits>(type.K, 0), std::vector<Bits>(type.K, 0), c};
    for (std::size_t k = 0; k < products.size(); ++k) std::tie(e.a[k], e.b[k]) = products[k];
    cases.push_back({std::move(name), std::move(e)});
  };
  const auto ask = [&](std::string name, const Pairs& products, float c) {
    std::vector<std::pair<Bits, Bits>> as_bits;
    for (const auto& [x, y] : products) as_bits.emplace_back(bits_of(x), bits_of(y));
    ask_bits(std::move(name), as_bits, bits_of(c));
  };
  const float almost_two = 2.0f - std::ldexp(1.0f, -type.fraction_bits);
  for (int j = 18; j <= 36; ++j) {
    const std::string n = std::to_string(j);
    const float small = std::ldexp(1.0f, -j);
    // 2^-j beside a 1 that is cancelled: is it kept? As a product, as C, and beside a C of 1.
    ask("product_kept_" + n, {{1, 1}, {-1, 1}, {small, 1}}, 0);
    ask("c_kept_" + n, {{1, 1}, {-1, 1}}, small);
    ask("kept_beside_c_" + n, {{-1, 1}, {small, 1}}, 1);
    // Beside 1.5 * 1.5 = 2.25, whose exponent is 0 by its factors and 1 by itself.
    ask("kept_beside_2.25_" + n, {{1.5, 1.5}, {-1.5, 1.5}, {small, 1}}, 0);
    // Almost 2^(1-j), and its negative: cut, rounded to nearest, or down?
    ask("rest_" + n, {{1, 1}, {-1, 1}, {almost_two * small, 1}}, 0);
    ask("negative_rest_" + n, {{1, 1}, {-1, 1}, {-almost_two * small, 1}}, 0);
    ask("c_rest_" + n, {{1, 1}, {-1, 1}}, almost_two * small);
    // Many that are each too small, together not: with all sums exact, 3 * 2^-j.
    ask("three_" + n, {{1, 1}, {-1, 1}, {small, 1}, {small, 1}, {small, 1}}, 0);
    // The result's own rounding: 1 + 2^-j, and with an odd last bit.
    ask("result_" + n, {{small, 1}}, 1);
    ask("result_three_" + n, {{small, 1}, {small, 1}, {small, 1}}, 1);
    ask("negative_result_three_" + n, {{-small, 1}, {-small, 1}, {-small, 1}}, -1);
    ask("result_odd_" + n, {{small, 1}, {small, 1}, {small, 1}}, 1 + 0x1p-23f);
    // A zero whose partner is large: does its exponent count?
    ask("zero_times_" + n, {{0, std::ldexp(1.0f, j)}, {1, 1}}, 0x1p-10f);
    ask("zero_times_c_" + n, {{0, std::ldexp(1.0f, j)}}, 1);
  }
  // Bits above: so many products of nearly 4, with what lies below.
  for (int count = 1; count <= type.K; count *= 2) {
    const std::string n = std::to_string(count);
    ask("carry_" + n, Pairs(count, {almost_two, almost_two}), 0);
    ask("carry_c_" + n, Pairs(count, {almost_two, almost_two}), 0x1.fffffep1f);
  }
  // Subnormal numbers.
  const float smallest = 0x1p-149f, least_normal = 0x1p-126f;
  ask("subnormal_a", {{least_normal / 4, 0x1p100f}}, 0);
  ask("subnormal_c", {}, smallest);
  ask("subnormal_c_large_product", {{0x1p-70f, 0x1p-60f}}, 0x1p-140f);
  for (int j = 145; j <= 155; ++j) {
    ask("subnormal_result_" + std::to_string(j), {{std::ldexp(1.0f, -70), std::ldexp(1.0f, 70 - j)}}, 0);
    ask("subnormal_sum_" + std::to_string(j),
        {{std::ldexp(1.0f, -70), std::ldexp(1.0f, 70 - j)},
         {std::ldexp(1.0f, -70), std::ldexp(1.0f, 70 - j)}},
        smallest);
  }
  // Terms that are all tiny, and exactly 2^-149 together. It is 2^-149 if all are kept, and also if the last
  // four are all lost; 0 where the first of these is kept, and those of half its size are not.
  for (int j = 1; j <= 30; ++j) {
    const auto term = [](float sign, int exponent) {
      return std::pair{sign * 0x1p-70f, std::ldexp(1.0f, exponent + 70)};
    };
    const auto large = term(1, -151), half = term(1, -151 - j);
    ask("tiny_terms_" + std::to_string(150 + j), {large, large, large, large, term(-1, -150 - j), half, half},
        0);
  }
  // Zeros and their signs.
  ask("zero", {}, 0);
  ask("negative_zero_c", {}, -0.0f);
  ask("negative_zeros", Pairs(type.K, {-0.0f, 1.0f}), -0.0f);
  ask("exact_cancellation", {{1, 1}, {-1, 1}}, 0);
  ask("exact_cancellation_negative_c", {{-1, 1}}, 1);
  ask("negative_underflow", {{-0x1p-100f, 0x1p-100f}}, 0);
  // Too large, infinite, no number.
  const float infinity = std::numeric_limits<float>::infinity(), largest = std::numeric_limits<float>::max();
  ask("overflow", {{0x1p64f, 0x1p64f}}, 0);
  ask("overflow_negative", {{-0x1p64f, 0x1p64f}}, 0);
  ask("overflow_cancelled", {{0x1p64f, 0x1p64f}, {-0x1p64f, 0x1p64f}}, 1);
  ask(
      "overflow_cancelled_late",
      [&] {
        Pairs p(type.K, {0, 0});
        p.front() = {0x1p64f, 0x1p64f};
        p.back() = {-0x1p64f, 0x1p64f};
        return p;
      }(),
      1);
  ask("largest_plus_half", {{0x1p52f, 0x1p51f}}, largest);
  ask("largest_plus_quarter", {{0x1p51f, 0x1p51f}}, largest);
  ask("infinity", {{infinity, 1}}, 0);
  ask("infinity_c", {{1, 1}}, -infinity);
  ask("infinities_cancel", {{infinity, 1}, {-infinity, 1}}, 0);
  ask("infinity_overflow", {{infinity, 1}, {-0x1p64f, 0x1p64f}}, 0);
  ask("infinity_times_zero", {{infinity, 0}}, 0);
  ask_bits("nan", {{0x7fc00000, bits_of(1)}}, 0);
  ask_bits("nan_negative_payload", {{0xffe10000, bits_of(1)}}, 0);
  ask_bits("nan_c", {}, 0x7fc12345);
  ask_bits("nan_c_signalling", {}, 0x7f812345);
  if (type.K == 8) {
    // More bits than TF32 has: all below cut off, or rounded?
    ask_bits("unrounded", {{bits_of(1) | 0x1fff, bits_of(1)}}, 0);
    ask_bits("unrounded_b", {{bits_of(1), bits_of(-1) | 0x1fff}}, 0);
    ask_bits("unrounded_zero", {{0x00001fff, bits_of(0x1p100f)}}, 0);
    ask_bits("nan_in_cut_bits", {{0x7f800001, bits_of(1)}}, 0);
  }
  return cases;
}

json run_cases(const Type& type, const TensorCoreArithmetic& model) {
  const std::vector<Case> cases = cases_of(type);
  Operands o;
  for (const Case& c : cases) {  // in element (0, 0), all others zero
    o.a.insert(o.a.end(), c.element.a.begin(), c.element.a.end());
    o.a.resize(o.a.size() + static_cast<std::size_t>((M - 1) * type.K));
    for (Bits bits : c.element.b) {
      o.b.push_back(bits);
      o.b.resize(o.b.size() + N - 1);
    }
    o.c.push_back(c.element.c);
    o.c.resize(o.c.size() + M * N - 1);
  }
  const std::vector<Bits> d = run(o, type);
  json rows = json::array();
  int different = 0;
  for (std::size_t i = 0; i < cases.size(); ++i) {
    const Element& e = cases[i].element;
    const Bits got = d[i * M * N], expected = bits_of(e.by(model, type.mask));
    different += got != expected;
    rows.push_back({{"case", cases[i].name},
                    {"a", hex(e.a, type)},
                    {"b", hex(e.b, type)},
                    {"c", hex(e.c)},
                    {"d", hex(got)}});
    if (got != expected) {
      std::printf("  %s %-28s %s (%.9g), by the model %s (%.9g)\n", type.name, cases[i].name.c_str(),
                  hex(got).c_str(), std::bit_cast<float>(got), hex(expected).c_str(),
                  std::bit_cast<float>(expected));
    }
  }
  std::printf("%s: %zu chosen inputs, %d other than by the model\n", type.name, cases.size(), different);
  return rows;
}

// A pair of 2^40 and -2^40 at products 0 and j, and a 1 at product s (column K: at C): whether the 1
// survives, as only one that is added after both have met in a sum does. Rows j = 1 ... K-1, columns s = 0
// ... K.
json run_order(const Type& type) {
  Operands o;
  for (int j = 1; j < type.K; ++j) {
    for (int s = 0; s <= type.K; ++s) {
      std::vector<Bits> a(static_cast<std::size_t>(M * type.K)), b(static_cast<std::size_t>(type.K * N));
      std::vector<Bits> c(M * N);
      a[0] = bits_of(0x1p40f);
      a[j] = bits_of(-0x1p40f);
      if (s < type.K && s != 0 && s != j) a[s] = bits_of(1);
      for (int k = 0; k < type.K; ++k) b[k * N] = bits_of(1);
      if (s == type.K) c[0] = bits_of(1);
      o.a.insert(o.a.end(), a.begin(), a.end());
      o.b.insert(o.b.end(), b.begin(), b.end());
      o.c.insert(o.c.end(), c.begin(), c.end());
    }
  }
  const std::vector<Bits> d = run(o, type);
  json rows = json::array();
  std::size_t at = 0;
  for (int j = 1; j < type.K; ++j) {
    std::string row;
    for (int s = 0; s <= type.K; ++s) {
      const float got = std::bit_cast<float>(d[at++ * M * N]);
      row += s == 0 || s == j ? '-' : got == 1 ? '1' : got == 0 ? '0' : '?';
    }
    rows.push_back(row);
  }
  return rows;
}

// Small integers, so that every sum is exact: whether the maps of the fragments are right.
bool maps_are_right(const Type& type) {
  std::mt19937 random(1);
  Operands o;
  constexpr int mmas = 64;
  const auto fill = [&](std::vector<Bits>& to, int count) {
    for (int i = 0; i < count; ++i) to.push_back(bits_of(static_cast<float>(int(random() % 255) - 127)));
  };
  fill(o.a, mmas * M * type.K);
  fill(o.b, mmas * type.K * N);
  fill(o.c, mmas * M * N);
  const std::vector<Bits> d = run(o, type);
  for (std::size_t mma = 0; mma < mmas; ++mma) {
    for (int i = 0; i < M * N; ++i) {
      const Element e = element(o, type, mma, i / N, i % N);
      float sum = std::bit_cast<float>(e.c);
      for (int k = 0; k < type.K; ++k) sum += std::bit_cast<float>(e.a[k]) * std::bit_cast<float>(e.b[k]);
      if (std::bit_cast<float>(d[mma * M * N + i]) != sum) return false;
    }
  }
  return true;
}

// ---- Random inputs ----------------------------------------------------------------------------------------

struct Family {
  const char* name;
  int spread;        // exponents of A and B lie in [centre - spread / 2, centre + spread / 2]
  int c_from, c_to;  // exponents of C
  int centre = 0;
  enum { plain, cancelling, positive, zeros, unrounded, specials } kind = plain;
};

const std::vector<Family> families{
    {"spread_0", 0, 0, 3},
    {"spread_2", 2, -2, 4},
    {"spread_6", 6, -6, 8},
    {"spread_12", 12, -12, 14},
    {"spread_30", 30, -30, 32},
    {"c_large", 4, 8, 34},
    {"c_small", 4, -36, -4},
    {"cancelling", 6, -30, 4, 0, Family::cancelling},
    {"positive", 1, 0, 6, 0, Family::positive},
    {"zeros", 0, -110, -10, 0, Family::zeros},
    {"unrounded", 6, -6, 8, 0, Family::unrounded},
    {"tiny", 24, -160, -120, -68},
    {"tiniest", 20, -170, -140, -75},
    {"huge", 6, 118, 127, 62},
    {"specials", 12, -12, 14, 0, Family::specials},
};
constexpr std::size_t mmas_of_family = 1550, sampled_of_family = 320;

Operands draw(const Type& type, const Family& family, unsigned seed) {
  std::mt19937_64 random(seed);
  const auto below = [&](std::uint64_t limit) { return static_cast<int>(random() % limit); };
  // A random number with this exponent, subnormal or zero where that is too small for a float.
  const auto number = [&](int exponent, Bits mask) {
    const float magnitude = 1.0f + static_cast<float>(random() >> 41) * 0x1p-23f;
    const Bits bits = bits_of(std::ldexp(magnitude, exponent)) & mask;
    return family.kind != Family::positive && (random() & 1) != 0 ? bits | 0x80000000 : bits;
  };
  const Bits mask = family.kind == Family::unrounded ? ~0u : type.mask;
  // Half of A is zero, and what it would be multiplied by is often larger than all others: if a zero had an
  // exponent, that of its product would be the largest.
  const auto a_of_zeros = [&]() -> Bits {
    return random() & 1 ? static_cast<Bits>(random() & 1) << 31 : number(-126 + below(14), mask);
  };
  const auto b_of_zeros = [&] { return below(10) == 0 ? 0 : number(20 + below(108), mask); };
  const auto operand = [&]() -> Bits {
    if (family.kind == Family::specials && below(100) < 2) {
      return (random() & 1 ? 0x7f800000u : 0xff800000u) | (below(3) == 0 ? 0x00410000u : 0u);
    }
    return number(family.centre - family.spread / 2 + below(family.spread + 1), mask);
  };
  Operands o;
  for (std::size_t mma = 0; mma < mmas_of_family; ++mma) {
    std::vector<Bits> a(static_cast<std::size_t>(M * type.K)), b(static_cast<std::size_t>(type.K * N));
    const bool zeros = family.kind == Family::zeros;
    for (Bits& bits : a) bits = zeros ? a_of_zeros() : operand();
    for (Bits& bits : b) bits = zeros ? b_of_zeros() : operand();
    if (family.kind == Family::cancelling) {  // most products have an opposite somewhere
      std::vector<int> order(type.K);
      std::iota(order.begin(), order.end(), 0);
      std::shuffle(order.begin(), order.end(), random);
      for (int pair = 0; pair + 1 < type.K / 2; ++pair) {
        const int k = order[2 * pair], other = order[2 * pair + 1];
        for (int row = 0; row < M; ++row) a[row * type.K + other] = a[row * type.K + k] ^ 0x80000000;
        for (int col = 0; col < N; ++col) b[other * N + col] = b[k * N + col];
      }
    }
    o.a.insert(o.a.end(), a.begin(), a.end());
    o.b.insert(o.b.end(), b.begin(), b.end());
    for (int i = 0; i < M * N; ++i) {
      const bool zero = family.kind == Family::zeros && below(10) < 3;
      o.c.push_back(zero ? 0 : number(family.c_from + below(family.c_to - family.c_from + 1), ~0u));
    }
  }
  return o;
}

// All models that are tried.
std::vector<TensorCoreArithmetic> all_models(int K) {
  using Rounding = TensorCoreArithmetic::Rounding;
  std::vector<TensorCoreArithmetic> models;
  for (int products = K; products >= 2; products /= 2) {
    for (int bits = 23; bits <= 30; ++bits) {
      for (Rounding terms : {Rounding::to_zero, Rounding::down, Rounding::to_nearest}) {
        for (Rounding result : {Rounding::to_zero, Rounding::to_nearest}) {
          for (int more = 0; more < 16; ++more) {
            models.push_back({products, bits, terms, result, (more & 1) == 0, (more & 2) != 0,
                              (more & 4) != 0, (more & 8) == 0 ? -133 : -1000});
          }
        }
      }
    }
  }
  return models;
}

const char* name_of(TensorCoreArithmetic::Rounding rounding) {
  using Rounding = TensorCoreArithmetic::Rounding;
  return rounding == Rounding::to_zero ? "to_zero" : rounding == Rounding::down ? "down" : "to_nearest";
}

json to_json(const TensorCoreArithmetic& m) {
  return {{"products", m.products},
          {"fraction_bits", m.fraction_bits},
          {"terms", name_of(m.terms)},
          {"result", name_of(m.result)},
          {"c_with_products", m.c_with_products},
          {"normalised_products", m.normalised_products},
          {"zeros_have_exponents", m.zeros_have_exponents},
          {"least_exponent", m.least_exponent}};
}

// The elements of all random mma's, the sampled ones, and the models that come nearest: by how many families
// they give wholly, bit for bit, and then by how many elements they get wrong.
json run_random(const Type& type) {
  struct Drawn {
    const Family* family;
    Operands operands;
    std::vector<Bits> d;
  };
  std::vector<Drawn> all;
  json samples = json::array();
  unsigned seed = 1;
  for (const Family& family : families) {
    if (family.kind == Family::unrounded && type.K != 8) continue;
    Drawn drawn{&family, draw(type, family, seed++), {}};
    drawn.d = run(drawn.operands, type);
    std::mt19937 random(seed);
    for (std::size_t n = 0; n < sampled_of_family; ++n) {
      const std::size_t mma = random() % mmas_of_family;
      const int at = static_cast<int>(random() % (M * N));
      const Element e = element(drawn.operands, type, mma, at / N, at % N);
      samples.push_back({family.name, hex(e.a, type), hex(e.b, type), hex(e.c),
                         hex(drawn.d[mma * M * N + static_cast<std::size_t>(at)])});
    }
    all.push_back(std::move(drawn));
  }
  const std::size_t of_family = mmas_of_family * M * N;
  // How many of the first `elements` a model gets wrong, up to `enough`; `some`: the first of them.
  const auto wrong = [&](const TensorCoreArithmetic& model, const Drawn& drawn, std::size_t elements,
                         std::size_t enough, json* some = nullptr) {
    constexpr std::size_t to_show = 3;
    std::size_t found = 0;
    for (std::size_t n = 0; n < elements && found < enough; ++n) {
      const Element e = element(drawn.operands, type, n / (M * N), static_cast<int>(n % (M * N)) / N,
                                static_cast<int>(n % N));
      if (bits_of(e.by(model, type.mask)) == drawn.d[n]) continue;
      if (some != nullptr && found < to_show) {
        some->push_back({drawn.family->name, hex(e.a, type), hex(e.b, type), hex(e.c), hex(drawn.d[n])});
      }
      ++found;
    }
    return found;
  };
  struct Ranked {
    TensorCoreArithmetic model;
    std::size_t families = 0, wrong = 0;
    json by_family, some = json::array();  // some: as a sample is
  };
  // By some of the elements first, the nearest then by all.
  std::vector<Ranked> ranked;
  for (const TensorCoreArithmetic& model : all_models(type.K)) {
    Ranked r{.model = model, .by_family = {}};
    for (const Drawn& drawn : all) {
      r.wrong += wrong(model, drawn, 100, 100);
      r.families += wrong(model, drawn, 2000, 1) == 0;
    }
    ranked.push_back(std::move(r));
  }
  const auto nearer = [](const Ranked& x, const Ranked& y) {
    return x.families != y.families ? x.families > y.families : x.wrong < y.wrong;
  };
  std::stable_sort(ranked.begin(), ranked.end(), nearer);
  ranked.resize(12);
  for (Ranked& r : ranked) {
    r.families = r.wrong = 0;
    for (const Drawn& drawn : all) {
      const std::size_t found = wrong(r.model, drawn, of_family, of_family, &r.some);
      r.by_family[drawn.family->name] = found;
      r.wrong += found;
      r.families += found == 0;
    }
  }
  std::stable_sort(ranked.begin(), ranked.end(), nearer);
  json models = json::array();
  for (const Ranked& r : ranked) {
    json row{{"model", to_json(r.model)},
             {"families_right", r.families},
             {"wrong", r.wrong},
             {"wrong_by_family", r.by_family},
             {"some_wrong", r.some}};
    std::printf("%s: %zu of %zu families, %zu of %zu elements wrong: %s\n", type.name, r.families, all.size(),
                r.wrong, of_family * all.size(), to_json(r.model).dump().c_str());
    models.push_back(std::move(row));
  }
  return {{"mmas", mmas_of_family * all.size()},       {"elements", of_family * all.size()},
          {"columns", {"family", "a", "b", "c", "d"}}, {"samples", std::move(samples)},
          {"models_tried", all_models(type.K).size()}, {"nearest_models", std::move(models)}};
}

// ---- Rounding to TF32 -------------------------------------------------------------------------------------

json run_rounding() {
  std::vector<Bits> from{0,          0x80000000, 0x3f800000, 0x3f800fff, 0x3f801000, 0x3f801001,
                         0x3f802000, 0x3f803000, 0xbf801000, 0xbf803000, 0x3fffffff, 0x00000001,
                         0x00001000, 0x007fffff, 0x80001000, 0x7f7fffff, 0x7f7fefff, 0x7f7ff000,
                         0x7f800000, 0xff800000, 0x7fc00000, 0x7f800001, 0x7f801000, 0xffffffff};
  std::mt19937 random(7);
  while (from.size() < 256) from.push_back(random());
  const int count = static_cast<int>(from.size());
  Buffer<Bits> in(from), out(from.size());
  round_to_tf32<<<1, 256>>>(in.data(), out.data(), count);
  CUDA_CHECK(cudaGetLastError());
  const std::vector<Bits> to = out.read();
  json rows = json::array();
  for (int i = 0; i < count; ++i) rows.push_back({hex(from[i]), hex(to[i])});
  return rows;
}

// ---- Rates ------------------------------------------------------------------------------------------------

using Much = void (*)(const Bits*, float*, long long*, int);
struct Rate {
  int chains;
  Much kernel;
};

template <typename Shape>
std::vector<Rate> rates_of() {
  return {{1, multiply_much<Shape, 1, 1>},
          {2, multiply_much<Shape, 1, 2>},
          {4, multiply_much<Shape, 2, 2>},
          {8, multiply_much<Shape, 2, 4>},
          {16, multiply_much<Shape, 4, 4>}};
}

class Events {
 public:
  Events() {
    CUDA_CHECK(cudaEventCreate(&start_));
    CUDA_CHECK(cudaEventCreate(&stop_));
  }
  ~Events() {
    cudaEventDestroy(start_);
    cudaEventDestroy(stop_);
  }
  template <typename Work>
  double seconds(const Work& work) {
    CUDA_CHECK(cudaEventRecord(start_));
    work();
    CUDA_CHECK(cudaGetLastError());
    CUDA_CHECK(cudaEventRecord(stop_));
    CUDA_CHECK(cudaEventSynchronize(stop_));
    float milliseconds = 0;
    CUDA_CHECK(cudaEventElapsedTime(&milliseconds, start_, stop_));
    return milliseconds * 1e-3;
  }

 private:
  cudaEvent_t start_ = nullptr, stop_ = nullptr;
};

json run_rates(const Type& type, int multiprocessors, harness::Sampler& sampler) {
  constexpr int schedulers = 4, most_warps = 16, passes = 4000, rested_runs = 7;
  json rows = json::array();
  std::vector<Bits> random_operands(24 * 32), zeros(24 * 32);
  std::mt19937 random(3);
  for (Bits& bits : random_operands) {  // of [1, 2) or (-2, -1], in both halves of a register
    bits = (static_cast<Bits>(random()) & 0x807f807f) | 0x3f803f80;
    if (type.K == 8) bits &= type.mask;
  }
  const double flop = 2.0 * M * N * type.K;
  Buffer<float> sums(static_cast<std::size_t>(multiprocessors) * most_warps * 32);
  Buffer<long long> times(static_cast<std::size_t>(multiprocessors) * most_warps * 4);
  Events events;
  // What the SMs' clocks say of the latest launch: cycles per mma and scheduler, sorted by SM, and the clock,
  // as cycles by nanoseconds.
  struct Clocks {
    std::vector<double> cycles;
    double mhz;
    double median() const { return cycles[cycles.size() / 2]; }
  };
  const auto read_clocks = [&](int warps, double mmas_of_warp) {
    const std::vector<long long> t = times.read();
    Clocks clocks;
    std::vector<double> mhz;
    for (int block = 0; block < multiprocessors; ++block) {
      const long long* first = &t[static_cast<std::size_t>(block * warps) * 4];
      long long start = first[0], stop = first[1];
      for (int warp = 1; warp < warps; ++warp) {
        start = std::min(start, first[warp * 4]);
        stop = std::max(stop, first[warp * 4 + 1]);
      }
      clocks.cycles.push_back(double(stop - start) * schedulers / (warps * mmas_of_warp));
      mhz.push_back(double(first[1] - first[0]) / double(first[3] - first[2]) * 1e3);
    }
    std::sort(clocks.cycles.begin(), clocks.cycles.end());
    std::sort(mhz.begin(), mhz.end());
    clocks.mhz = mhz[mhz.size() / 2];
    return clocks;
  };
  const auto with = [&](const char* data, const Rate& rate, int warps) {
    Buffer<Bits> operands(std::strcmp(data, "zeros") == 0 ? zeros : random_operands);
    const auto launch = [&](int passes) {
      rate.kernel<<<multiprocessors, warps * 32>>>(operands.data(), sums.data(), times.data(), passes);
    };
    const double mmas = double(multiprocessors) * warps * rate.chains * passes;
    const double of_warp = double(rate.chains) * passes;
    // Rested: one launch after an idle gap.
    std::vector<double> seconds, cycles, slowest, mhz;
    for (int run = -1; run < rested_runs; ++run) {
      std::this_thread::sleep_for(std::chrono::milliseconds(40));
      const double s = events.seconds([&] { launch(passes); });
      if (run < 0) continue;
      const Clocks clocks = read_clocks(warps, of_warp);
      seconds.push_back(s);
      cycles.push_back(clocks.median());
      slowest.push_back(clocks.cycles.back());
      mhz.push_back(clocks.mhz);
    }
    const auto median = [](std::vector<double>& values) {
      std::sort(values.begin(), values.end());
      return values[values.size() / 2];
    };
    const double s = median(seconds);
    json row{{"type", type.name},
             {"data", data},
             {"chains", rate.chains},
             {"warps_per_scheduler", warps / schedulers},
             {"mmas", mmas},
             {"seconds", s},
             {"tflops", mmas * flop / s * 1e-12},
             {"cycles_per_mma_and_scheduler", median(cycles)},
             {"cycles_of_slowest_sm", median(slowest)},
             {"sm_clock_by_counters_mhz", median(mhz)}};
    std::printf(
        "%s %-7s %2d chains, %d warps per scheduler: %6.1f TFLOP/s, %6.2f cycles per mma (%.2f) at %.0f MHz",
        type.name, data, rate.chains, warps / schedulers, row["tflops"].get<double>(),
        row["cycles_per_mma_and_scheduler"].get<double>(), row["cycles_of_slowest_sm"].get<double>(),
        row["sm_clock_by_counters_mhz"].get<double>());
    if (rate.chains >= 8) {
      // Sustained: back to back, a second for the power to settle, and then another one. Each launch ten
      // times as long, so that what is between launches does not count.
      constexpr int longer = 10;
      const int launches = std::max(1, static_cast<int>(1.0 / (s * longer)));
      const auto work = [&] {
        for (int n = 0; n < launches; ++n) launch(passes * longer);
      };
      events.seconds(work);
      sampler.start();
      const double all = events.seconds(work);
      const harness::Telemetry t = sampler.stop();
      const Clocks clocks = read_clocks(warps, of_warp * longer);
      const double tflops = mmas * longer * launches * flop / all * 1e-12;
      row["sustained"] = {{"seconds", all},
                          {"launches", launches},
                          {"tflops", tflops},
                          {"cycles_per_mma_and_scheduler", clocks.median()},
                          {"cycles_of_slowest_sm", clocks.cycles.back()},
                          {"sm_clock_by_counters_mhz", clocks.mhz},
                          {"sm_clock_mhz", t.sm_clock_mhz},
                          {"power_watts", t.power_watts},
                          {"temperature_celsius", t.temperature}};
      std::printf("; sustained %6.1f TFLOP/s, %.2f cycles (%.2f) at %.0f MHz, by NVML %.0f, %.0f W", tflops,
                  clocks.median(), clocks.cycles.back(), clocks.mhz, t.sm_clock_mhz, t.power_watts);
    }
    std::printf("\n");
    rows.push_back(std::move(row));
  };
  const std::vector<Rate> rates = type.K == 8 ? rates_of<MmaTf32Shape>() : rates_of<MmaBf16Shape>();
  for (const Rate& rate : rates) {
    for (int warps_per_scheduler : {1, 2, 4}) {
      if (rate.chains * warps_per_scheduler > 32) continue;
      with("random", rate, warps_per_scheduler * schedulers);
    }
  }
  with("zeros", rates[3], 2 * schedulers);
  return rows;
}

// ---- All of it --------------------------------------------------------------------------------------------

json describe_device(std::string& bus) {
  cudaDeviceProp properties{};
  int runtime = 0, clock_khz = 0;
  char bus_id[32], date[32];
  CUDA_CHECK(cudaGetDeviceProperties(&properties, 0));
  CUDA_CHECK(cudaRuntimeGetVersion(&runtime));
  CUDA_CHECK(cudaDeviceGetAttribute(&clock_khz, cudaDevAttrClockRate, 0));
  CUDA_CHECK(cudaDeviceGetPCIBusId(bus_id, sizeof bus_id, 0));
  const std::time_t now = std::time(nullptr);
  std::strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%SZ", std::gmtime(&now));
  bus = bus_id;
  return {{"device", properties.name},
          {"device_kind", "gpu"},
          {"multiprocessors", properties.multiProcessorCount},
          {"compute_capability", properties.major * 10 + properties.minor},
          {"cuda", std::to_string(runtime / 1000) + "." + std::to_string(runtime % 1000 / 10)},
          {"max_sm_clock_mhz", clock_khz * 1e-3},
          {"date", date}};
}

int measure(const std::string& path) {
  std::ofstream file(path);
  if (!file) throw std::runtime_error(path + " cannot be written");
  std::string bus;
  json record = describe_device(bus);
  harness::Sampler sampler(bus);
  record["driver"] = sampler.driver_version();
  bool pass = true;
  for (const Type* type : {&tf32, &bf16_type}) {
    const bool right = maps_are_right(*type);
    std::printf("%s: the maps of the fragments are %s\n", type->name, right ? "right" : "WRONG");
    pass = pass && right;
    json& part = record["types"][type->name];
    part["maps_right"] = right;
    part["k"] = type->K;
    part["order"] = run_order(*type);
    part["cases"] =
        run_cases(*type, type->K == 8 ? cpu_device::tf32_arithmetic : cpu_device::bf16_arithmetic);
    part["random"] = run_random(*type);
    std::fflush(stdout);
  }
  record["to_tf32"] = run_rounding();
  record["rates"] = json::array();
  for (const Type* type : {&tf32, &bf16_type}) {
    for (json& row : run_rates(*type, record["multiprocessors"], sampler)) {
      record["rates"].push_back(std::move(row));
    }
    std::fflush(stdout);
  }
  record["pass"] = pass;
  if (!(file << record.dump() << std::endl)) throw std::runtime_error(path + " cannot be written");
  std::printf("%s\n", pass ? "PASS" : "FAIL");
  return pass ? 0 : 1;
}

// The same inputs without a GPU: what the tests of the tools read. `by`: the number of a model.
int print_examples(std::size_t number) {
  json rows = json::array();
  for (const Type* type : {&tf32, &bf16_type}) {
    const TensorCoreArithmetic model = all_models(type->K).at(number);
    json row{{"type", type->name}, {"model", to_json(model)}, {"samples", json::array()}};
    for (const Case& c : cases_of(*type)) {
      row["samples"].push_back({c.name, hex(c.element.a, *type), hex(c.element.b, *type), hex(c.element.c),
                                hex(bits_of(c.element.by(model, type->mask)))});
    }
    unsigned seed = 1;
    for (const Family& family : families) {
      if (family.kind == Family::unrounded && type->K != 8) continue;
      const Operands o = draw(*type, family, seed++);
      for (std::size_t n = 0; n < 40; ++n) {
        const Element e = element(o, *type, n, static_cast<int>(n) % M, static_cast<int>(n) % N);
        row["samples"].push_back(
            {family.name, hex(e.a, *type), hex(e.b, *type), hex(e.c), hex(bits_of(e.by(model, type->mask)))});
      }
    }
    rows.push_back(std::move(row));
  }
  std::printf("%s\n", rows.dump().c_str());
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const std::vector<std::string> words(argv + 1, argv + argc);
    if (words.size() == 2 && words[0] == "--json") return measure(words[1]);
    if (words.size() == 2 && words[0] == "--examples") return print_examples(std::stoul(words[1]));
    throw std::runtime_error("usage: tensor_core_arithmetic --json FILE | --examples NUMBER_OF_A_MODEL");
  } catch (const std::exception& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return 2;
  }
}
