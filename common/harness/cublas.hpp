#pragma once

#include <memory>
#include <string>
#include <vector>

#include "common/harness/entry.hpp"

namespace harness {

// The baseline: for each problem the fastest of cuBLAS's plain call for its inputs and the algorithms that
// cublasLt's heuristic proposes. FP32 inputs mean full FP32: TF32 and emulation are off, which the
// constructor asserts; BF16 inputs are summed up in FP32. The harness also verifies the baseline's results
// like any step's. Errors throw std::runtime_error naming the call.
class Cublas {
 public:
  Cublas();
  ~Cublas();

  // Tries the candidates on these problems, alike but for the memory they lie in, and keeps the fastest. They
  // run in turn, as they will be timed: where they do not all fit into the L2 cache, another candidate may be
  // the fastest. C is overwritten.
  void choose(const std::vector<AnyGemm>& alike);
  // Launches the chosen one on the default stream; a problem as in choose().
  void run(const AnyGemm& gemm);
  // "cublasSgemm" or "cublasGemmEx", or "cublasLt heuristic 3 of 8".
  std::string chosen() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace harness
