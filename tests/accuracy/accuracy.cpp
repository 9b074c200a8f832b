// Runs a kernel that emulates FP32 with narrower products on the CPU device, on matrices of many classes, and
// compares its largest componentwise error |c - exact| / (|A||B|) with that of FP32 summation, in units of
// 2^-24:
//
//   accuracy MODE                 prints what came out; exit status 1 if a rule is broken
//   accuracy MODE --rejected TEXT wants a rule broken, with TEXT in the message: for planted bugs
//
// PARTS_OF_C: into how many the kernel divides C. PATHS_HEADER: where it says which ways a part can take.
//
// MODE is fast, checked or strict, as in common/accuracy.hpp. The rules:
//   - NaNs and infinities are those of FP32 summation
//   - at K >= 1024 on dense data the error is at most a quarter of FP32 summation's
//   - each part of C is computed in one way, in fast mode the fast one
//   - checked and strict: never above FP32 summation plus 32; ways as the class expects
//   - strict: each element errs by at most 1 for each of its products that is not zero

#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "common/harness/entry.hpp"
#include "tests/accuracy/classes.hpp"
#include "tests/accuracy/errors.hpp"
#include PATHS_HEADER

extern const harness::Entry run_on_cpu;

namespace {

using accuracy::Class;
using accuracy::Exact;
using accuracy::Expected;
using accuracy::largest_error;
using accuracy::Problem;
using accuracy::u;

constexpr double more_than_summation = 32;
constexpr int SHORTEST = 96, LONG = 1024;
constexpr int M = 100, N = 120;
constexpr int UNPROVED = 5;  // the number of that path

// The bound of FP32 summation, one rounding for each product that is not zero, where it is not kept: "" or
// the place.
std::string above_bound(const Problem& p, const Exact& e, const std::vector<float>& C) {
  for (int i = 0; i < p.M; ++i) {
    for (int j = 0; j < p.N; ++j) {
      const std::size_t at = static_cast<std::size_t>(i) * p.N + j;
      if (!std::isfinite(e.product[at])) continue;
      int terms = 0;
      for (int k = 0; k < p.K; ++k) terms += p.A[i * p.K + k] != 0 && p.B[k * p.N + j] != 0;
      const double error = std::fabs(C[at] - e.product[at]);
      if (error <= terms * u * (1 + 1e-6) * e.magnitudes[at]) continue;
      return fmt::format("C[{}][{}] errs by {:.2f}, FP32's bound for {} products is {}", i, j,
                         error / e.magnitudes[at] / u, terms, terms);
    }
  }
  return "";
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

Outcome run(const Class& of, int K, std::uint64_t seed, Accuracy accuracy) {
  Problem p{M, N, K, std::vector<float>(M * K), std::vector<float>(K * N)};
  accuracy::Draw draw(seed);
  of.fill(p, draw);
  std::vector<float> C(M * N, std::numeric_limits<float>::quiet_NaN());
  harness::AnyGemm gemm(Gemm{M, N, K, 1, 1.0f, p.A.data(), K, 0, p.B.data(), N, 0, 0.0f, C.data(), N, 0});
  gemm.accuracy = accuracy;
  run_on_cpu(gemm);

  const Exact right = accuracy::exact(p);
  const std::vector<float> fp32 = accuracy::summed_in_fp32(p);
  Outcome o{largest_error(right, C), largest_error(right, fp32), *latest_ledger, ""};
  const auto taken = [&](Path path) { return o.ledger.taken[static_cast<int>(path)]; };
  // The steps before the last one cannot ask for a proof.
  const unsigned unproved = PATHS > UNPROVED ? o.ledger.taken[std::min(UNPROVED, PATHS - 1)] : 0;
  unsigned parts = 0;
  for (const unsigned count : o.ledger.taken) parts += count;
  for (std::size_t i = 0; i < C.size() && o.broken.empty(); ++i) {
    if (!same_special(C[i], fp32[i])) {
      o.broken = fmt::format("C[{}][{}] is {}, FP32 summation gives {}", i / N, i % N, C[i], fp32[i]);
    }
  }
  const bool dense = of.name == "uniform" || of.name == "normal";
  if (!o.broken.empty()) return o;
  const bool fast = accuracy == Accuracy::fast, strict = accuracy == Accuracy::strict;
  if (!fast && !(o.ours <= o.summation + more_than_summation)) {
    o.broken = "less accurate than FP32 summation";
  } else if (dense && K >= LONG && o.ours > o.summation / 4) {
    o.broken = "not four times as accurate as FP32 summation";
  } else if (parts != PARTS_OF_C) {
    o.broken = fmt::format("the ledger has {} parts, not {}", parts, PARTS_OF_C);
  } else if (K < SHORTEST
                 ? taken(Path::short_k) != parts
                 : (fast || of.expected == Expected::all_fast) && taken(Path::fast) + unproved != parts) {
    o.broken = "takes the slow path";
  } else if (!strict && unproved != 0) {
    o.broken = "asks for a proof";
  } else if (!fast && of.expected == Expected::none_fast && taken(Path::fast) != 0) {
    o.broken = "takes the fast path";
  } else if (strict) {
    o.broken = above_bound(p, right, C);
  }
  return o;
}

}  // namespace

int main(int argc, char** argv) {
  const bool rejected = argc == 4 && std::strcmp(argv[2], "--rejected") == 0;
  const auto mode = std::ranges::find(accuracy_names, std::string(argc > 1 ? argv[1] : ""));
  if ((argc != 2 && !rejected) || mode == std::end(accuracy_names)) {
    fmt::print(stderr, "usage: accuracy fast|checked|strict [--rejected TEXT]\n");
    return 2;
  }
  const auto accuracy = static_cast<Accuracy>(mode - accuracy_names);
  fmt::print("{:20} {:>5}  {:>7} {:>7}  fast few lossy special short unproved\n", "class", "K", "ours",
             "FP32");
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
    const Outcome o = run(*of, K, 1 + K, accuracy);
    const auto& taken = o.ledger.taken;
    fmt::print("{:20} {:>5}  {:7.2f} {:7.2f}  {:4} {:3} {:5} {:7} {:5} {:8}  {}\n", of->name, K, o.ours,
               o.summation, taken[0], taken[1], taken[2], taken[3], taken[4], taken[5], o.broken);
    broken += !o.broken.empty();
    if (rejected && o.broken.find(argv[3]) != std::string::npos) return 0;
  }
  if (rejected) fmt::print("error: no rule is broken with '{}'\n", argv[3]);
  return rejected || broken > 0;
}
