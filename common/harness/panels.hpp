#pragma once

#include <algorithm>

#include "common/harness/entry.hpp"

namespace harness {

// A grid has at most 65535 blocks in y and in z. So that no step has to care, a problem is split into panels
// of at most 2^20 rows and 2^15 matrices: calls body(panel, the panel's first matrix, its first row).
template <typename Body>
void for_each_panel(const AnyGemm& gemm, const Body& body) {
  constexpr int max_rows = 1 << 20, max_matrices = 1 << 15;
  for (int matrix = 0; matrix < gemm.batch; matrix += max_matrices) {
    for (int row = 0; row < gemm.M; row += max_rows) {
      AnyGemm panel = gemm;
      panel.batch = std::min(max_matrices, gemm.batch - matrix);
      panel.M = std::min(max_rows, gemm.M - row);
      panel.A = gemm.behind(gemm.A, matrix * gemm.strideA + row * gemm.lda);
      panel.B = gemm.behind(gemm.B, matrix * gemm.strideB);
      panel.C += matrix * gemm.strideC + row * gemm.ldc;
      body(panel, matrix, row);
    }
  }
}

// `seen` is told how each panel's parts were computed; a GPU may still be computing them.
template <typename Seen>
void run_in_panels(const Entry& entry, const AnyGemm& gemm, const Seen& seen) {
  for_each_panel(gemm, [&](const AnyGemm& panel, int, int) { seen(entry(panel)); });
}
inline void run_in_panels(const Entry& entry, const AnyGemm& gemm) {
  run_in_panels(entry, gemm, [](const Ways&) {});
}

}  // namespace harness
