// Which products a kernel that emulates FP32 spares itself, on the CPU device: matrices of many tiles, so
// that blocks have several in turn, where the guard refuses all parts, every second part, every second pair
// of parts, or those of single rows. Every part must be in the ledger, on its path, and C right. Exit status
// 1 if not.

#include <fmt/format.h>

#include "common/harness/entry.hpp"
#include "tests/accuracy/classes.hpp"
#include "tests/accuracy/errors.hpp"
#include PATHS_HEADER

extern const harness::Entry run_on_cpu;

int main() {
  constexpr int M = 500, N = 260, ROWS = 64, PARTS = 8 * 3;
  struct Case {
    const char* what;
    unsigned few;             // parts
    bool (*sparse)(int row);  // one in 32 elements is not zero
  };
  int broken = 0;
  for (const int K : {100, 200}) {  // as many k-tiles as are copied ahead, and more
    for (const auto& [what, few, sparse] : std::initializer_list<Case>{
             {"all", PARTS, [](int) { return true; }},
             {"every second part", PARTS / 2, [](int row) { return row / ROWS % 2 == 1; }},
             {"every second pair", PARTS / 2, [](int row) { return row / (2 * ROWS) % 2 == 1; }},
             {"those of two rows", 2 * 3, [](int row) { return row % 256 == 77; }},
         }) {
      accuracy::Problem p{M, N, K, std::vector<float>(M * K), std::vector<float>(K * N)};
      accuracy::Draw draw(K);
      for (int i = 0; i < M * K; ++i) {
        p.A[i] = sparse(i / K) && draw.below(32) > 0 ? 0.0f : static_cast<float>(draw.normal());
      }
      for (float& x : p.B) x = static_cast<float>(draw.normal());
      std::vector<float> C(M * N, std::numeric_limits<float>::quiet_NaN());
      run_on_cpu(Gemm{M, N, K, 1, 1.0f, p.A.data(), K, 0, p.B.data(), N, 0, 0.0f, C.data(), N, 0});
      const unsigned fast = latest_ledger->taken[static_cast<int>(Path::fast)];
      const unsigned refused = latest_ledger->taken[static_cast<int>(Path::few_terms)];
      const accuracy::Exact right = accuracy::exact(p);
      const double ours = accuracy::largest_error(right, C);
      const double fp32 = accuracy::largest_error(right, accuracy::summed_in_fp32(p));
      const bool wrong = fast + refused != PARTS || refused != few || !(ours <= fp32 + 8);
      fmt::print("{:18} K = {}: {:2} fast, {:2} in FP32, error {:.2f}, FP32 {:.2f}{}\n", what, K, fast,
                 refused, ours, fp32, wrong ? "  wrong" : "");
      broken += wrong;
    }
  }
  return broken > 0;
}
