// Which way step 46 computes each part of one C, on the CPU device: as JSON, for a picture. Each part is
// multiplied alone, from its rows of A and its columns of B, and the ledger then says how.

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <vector>

#include "common/harness/entry.hpp"
#include "steps/46_guard/paths.hpp"
#include "tests/accuracy/classes.hpp"

extern const harness::Entry run_on_cpu;

namespace {

constexpr int ROWS = 64, COLS = 128, DOWN = 6, ACROSS = 6;  // a part; parts of C
constexpr const char* WAYS[PATHS] = {"FP16", "few products", "lossy operands", "an infinity", "short K"};
constexpr int M = DOWN * ROWS, N = ACROSS * COLS, K = 256;

}  // namespace

int main() {
  std::vector<float> A(M * K), B(K * N);
  accuracy::Draw draw(46);
  for (float& x : A) x = static_cast<float>(draw.normal());
  for (float& x : B) x = static_cast<float>(draw.normal());

  // One row or column of the parts with these numbers is no ordinary one.
  constexpr int infinite = 1, uneven = 3, sparse = 2, odd = 4;
  A[(infinite * ROWS + 17) * K + 100] = std::numeric_limits<float>::infinity();
  for (int k = 0; k < K; ++k) {
    if (k % 2 == 0) {
      A[(uneven * ROWS + 40) * K + k] *= 0x1p30f;
      B[k * N + odd * COLS + 5] = 0.0f;
    }
    if (k % 64 > 0) B[k * N + sparse * COLS + 77] = 0.0f;
  }

  fmt::print("{{\"rows\": {{\"{}\": \"with an infinity\", \"{}\": \"2^30 larger at even k\"}},\n", infinite,
             uneven);
  fmt::print(
      " \"cols\": {{\"{}\": \"with 63 zeros in 64 terms\", \"{}\": \"with zeros at even k\"}},\n \"ways\": [",
      sparse, odd);
  for (int row = 0; row < DOWN; ++row) {
    for (int col = 0; col < ACROSS; ++col) {
      std::vector<float> C(ROWS * COLS);
      run_on_cpu(Gemm{ROWS, COLS, K, 1, 1.0f, &A[row * ROWS * K], K, 0, &B[col * COLS], N, 0, 0.0f, C.data(),
                      COLS, 0});
      const auto& taken = latest_ledger->taken;
      const auto path = std::ranges::find_if(taken, [](unsigned parts) { return parts > 0; }) - taken;
      fmt::print("{}\"{}\"", col > 0 ? ", " : row > 0 ? "],\n  [" : "[", WAYS[path]);
    }
  }
  fmt::print("]]}}\n");
  return 0;
}
