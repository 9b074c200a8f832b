// Runs a kernel that emulates FP32 with narrower products on the CPU device, on matrices of many classes, and
// compares its largest componentwise error |c - exact| / (|A||B|) with that of FP32 summation, in units of
// 2^-24:
//
//   accuracy                      prints what came out; exit status 1 if a rule is broken
//   accuracy --rejected TEXT      wants a rule broken, with TEXT in the message: for planted bugs
//   accuracy --parts N            of a kernel that divides C into N parts, not 2
//
// The rules:
//   - never above FP32 summation plus 32; at K >= 1024 on dense data at most a quarter of FP32 summation
//   - NaNs and infinities are those of FP32 summation
//   - each part of C is computed in one way, as the class expects

#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "common/harness/entry.hpp"
#include "tests/accuracy/classes.hpp"
#include "tests/kernels/fp32_by_fp16/paths.hpp"

extern const harness::Entry run_on_cpu;

namespace {

using accuracy::Class;
using accuracy::Expected;
using accuracy::Problem;

constexpr double u = 0x1p-24;
constexpr double more_than_summation = 32;
constexpr int SHORTEST = 96, LONG = 1024;
constexpr int M = 100, N = 120;
unsigned parts_of_c = 2;

// C = A * B by FMA, k ascending.
std::vector<float> summed_in_fp32(const Problem& p) {
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
Exact exact(const Problem& p) {
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

// Over the elements that are numbers, in u.
double largest_error(const Exact& e, const std::vector<float>& C) {
  double largest = 0;
  for (std::size_t i = 0; i < C.size(); ++i) {
    if (!std::isfinite(e.product[i])) continue;
    const double error = std::fabs(C[i] - e.product[i]);
    if (error == 0) continue;
    largest = std::max(largest, std::isfinite(error) ? error / e.magnitudes[i] / u : INFINITY);
  }
  return largest;
}

bool same_special(float x, float y) {
  if (std::isnan(x) || std::isnan(y)) return std::isnan(x) && std::isnan(y);
  return !(std::isinf(x) || std::isinf(y)) || x == y;
}

struct Outcome {
  double ours, summation;
  Ledger ledger;
  std::string broken;  // the rule; "": none
};

Outcome run(const Class& of, int K, std::uint64_t seed) {
  Problem p{M, N, K, std::vector<float>(M * K), std::vector<float>(K * N)};
  accuracy::Draw draw(seed);
  of.fill(p, draw);
  std::vector<float> C(M * N, std::numeric_limits<float>::quiet_NaN());
  run_on_cpu(Gemm{M, N, K, 1, 1.0f, p.A.data(), K, 0, p.B.data(), N, 0, 0.0f, C.data(), N, 0});

  const Exact right = exact(p);
  const std::vector<float> fp32 = summed_in_fp32(p);
  Outcome o{largest_error(right, C), largest_error(right, fp32), *latest_ledger, ""};
  const auto taken = [&](Path path) { return o.ledger.taken[static_cast<int>(path)]; };
  unsigned parts = 0;
  for (const unsigned count : o.ledger.taken) parts += count;
  for (std::size_t i = 0; i < C.size() && o.broken.empty(); ++i) {
    if (!same_special(C[i], fp32[i])) {
      o.broken = fmt::format("C[{}][{}] is {}, FP32 summation gives {}", i / N, i % N, C[i], fp32[i]);
    }
  }
  const bool dense = of.name == "uniform" || of.name == "normal";
  if (!o.broken.empty()) return o;
  if (!(o.ours <= o.summation + more_than_summation)) {
    o.broken = "less accurate than FP32 summation";
  } else if (dense && K >= LONG && o.ours > o.summation / 4) {
    o.broken = "not four times as accurate as FP32 summation";
  } else if (parts != parts_of_c) {
    o.broken = fmt::format("the ledger has {} parts, not {}", parts, parts_of_c);
  } else if (K < SHORTEST ? taken(Path::short_k) != parts
                          : of.expected == Expected::all_fast && taken(Path::fast) != parts) {
    o.broken = "takes the slow path";
  } else if (of.expected == Expected::none_fast && taken(Path::fast) != 0) {
    o.broken = "takes the fast path";
  }
  return o;
}

}  // namespace

int main(int argc, char** argv) {
  const bool rejected = argc == 3 && std::strcmp(argv[1], "--rejected") == 0;
  const bool divided = argc == 3 && std::strcmp(argv[1], "--parts") == 0;
  if (argc != 1 && !rejected && !divided) {
    fmt::print(stderr, "usage: accuracy [--rejected TEXT | --parts N]\n");
    return 2;
  }
  if (divided) parts_of_c = static_cast<unsigned>(std::atoi(argv[2]));
  fmt::print("{:20} {:>5}  {:>7} {:>7}  fast few lossy special short\n", "class", "K", "ours", "FP32");
  int broken = 0;
  struct Case {
    const Class* of;
    int K;
  };
  const std::vector<Class> classes = accuracy::all_classes();
  std::vector<Case> cases;
  for (const Class& of : classes) {
    for (const int K : of.Ks) cases.push_back({&of, K});
  }
  if (rejected) std::ranges::stable_sort(cases, {}, &Case::K);  // most bugs show in small ones
  for (const auto& [of, K] : cases) {
    const Outcome o = run(*of, K, 1 + K);
    const auto& taken = o.ledger.taken;
    fmt::print("{:20} {:>5}  {:7.2f} {:7.2f}  {:4} {:3} {:5} {:7} {:5}  {}\n", of->name, K, o.ours,
               o.summation, taken[0], taken[1], taken[2], taken[3], taken[4], o.broken);
    broken += !o.broken.empty();
    if (rejected && o.broken.find(argv[2]) != std::string::npos) return 0;
  }
  if (rejected) fmt::print("error: no rule is broken with '{}'\n", argv[2]);
  return rejected || broken > 0;
}
