#pragma once

#include <memory>
#include <string>
#include <vector>

#include "common/harness/entry.hpp"

namespace harness {

// The baseline: for each problem the fastest of cuBLAS's plain call in this precision and the algorithms that
// cublasLt's heuristic proposes. FP32 means full FP32: TF32 and emulation are off. TF32 means that cuBLAS may
// round FP32 inputs to it, and need not. BF16 inputs are summed up in FP32. The constructor asserts that
// nothing in the environment changes that, and the harness also verifies the baseline's results like a
// step's. Errors throw std::runtime_error naming the call.
class Cublas {
 public:
  explicit Cublas(Precision precision);
  ~Cublas();

  // Tries the candidates on these problems, alike but for the memory they lie in, and keeps the fastest. They
  // run in turn, as they will be timed: where they do not all fit into the L2 cache, another candidate may be
  // the fastest. C is overwritten.
  void choose(const std::vector<AnyGemm>& alike);
  // Launches the chosen one on the default stream; a problem as in choose().
  void run(const AnyGemm& gemm);
  // "cublasSgemm" or "cublasGemmEx" (BF16, TF32), or "cublasLt heuristic 3 of 8".
  std::string chosen() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace harness
