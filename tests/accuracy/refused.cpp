// Which products a kernel that emulates FP32 spares itself, on the CPU device: matrices of many tiles, so
// that blocks have several in turn, where the guard refuses all parts, every second part, every second pair
// of parts, or those of single rows. Every part must be in the ledger, on its path, and C right. Exit status
// 1 if not.

#include <fmt/format.h>

#include <limits>
#include <set>
#include <vector>

#include "common/harness/entry.hpp"
#include "tests/accuracy/classes.hpp"
#include "tests/accuracy/errors.hpp"
#include PATHS_HEADER

extern const harness::Entry run_on_cpu;

int main() {
  constexpr int ROWS = 64, COLS = 128;  // of a part
  struct Case {
    const char* what;
    bool (*sparse)(int row);  // one in 32 elements is not zero
  };
  const Case cases[] = {
      {"all", [](int) { return true; }},
      {"every second part", [](int row) { return row / ROWS % 2 == 1; }},
      {"every second pair", [](int row) { return row / (2 * ROWS) % 2 == 1; }},
      {"those of two rows", [](int row) { return row % 256 == 77; }},
  };
  struct Shape {
    int M, N, K;
  };
  // Tiles of two parts, then of one; each with as many k-tiles as are copied ahead, with fewer and with more.
  const Shape shapes[] = {
      {500, 260, 100}, {500, 260, 200}, {192, 512, 100}, {192, 512, 192}, {192, 512, 300}};
  int broken = 0;
  for (const auto& [M, N, K] : shapes) {
    const auto across = static_cast<unsigned>((N + COLS - 1) / COLS);
    for (const auto& [what, sparse] : cases) {
      accuracy::Problem p{M, N, K, std::vector<float>(M * K), std::vector<float>(K * N)};
      accuracy::Draw draw(K);
      std::set<int> down;  // parts with a row that is sparse
      for (int i = 0; i < M * K; ++i) {
        const int row = i / K;
        if (sparse(row)) down.insert(row / ROWS);
        p.A[i] = sparse(row) && draw.below(32) > 0 ? 0.0f : static_cast<float>(draw.normal());
      }
      for (float& x : p.B) x = static_cast<float>(draw.normal());
      const unsigned few = static_cast<unsigned>(down.size()) * across;
      const unsigned parts = static_cast<unsigned>((M + ROWS - 1) / ROWS) * across;
      const accuracy::Exact right = accuracy::exact(p);
      const double fp32 = accuracy::largest_error(right, accuracy::summed_in_fp32(p));
      for (const float beta : {0.0f, 1.0f}) {  // an element that is not written, or twice
        std::vector<float> C(M * N, beta == 0.0f ? std::numeric_limits<float>::quiet_NaN() : 0.0f);
        run_on_cpu(Gemm{M, N, K, 1, 1.0f, p.A.data(), K, 0, p.B.data(), N, 0, beta, C.data(), N, 0});
        const unsigned fast = latest_ledger->taken[static_cast<int>(Path::fast)];
        const unsigned refused = latest_ledger->taken[static_cast<int>(Path::few_terms)];
        const double ours = accuracy::largest_error(right, C);
        const bool wrong = fast + refused != parts || refused != few || !(ours <= fp32 + 8);
        fmt::print("{} x {} x {}, {}: {} fast, {} in FP32, error {:.2f}, FP32 {:.2f}{}\n", M, N, K, what,
                   fast, refused, ours, fp32, wrong ? "  wrong" : "");
        broken += wrong;
      }
    }
  }
  return broken > 0;
}
