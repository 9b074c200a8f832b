#pragma once

#include <memory>
#include <string>
#include <vector>

#include "common/harness/entry.hpp"

namespace harness {

// The baseline: for each problem the fastest of cuBLAS's plain call in this precision and the algorithms that
// cublasLt's heuristic proposes. FP32 means full FP32: TF32 and emulation are off. TF32 means that cuBLAS may
// round FP32 inputs to it, but need not. BF16 inputs are summed in FP32. The constructor checks that nothing
// in the environment changes this, and the harness also verifies the baseline's results like a step's. Errors
// throw a std::runtime_error that names the call.
class Cublas {
 public:
  explicit Cublas(Precision precision);
  ~Cublas();

  // Tries the candidates on these problems, which differ only in their memory, and keeps the fastest. The
  // problems are run in turn, as they will be timed: if they do not all fit into the L2 cache, another
  // candidate may be the fastest. Overwrites C.
  void choose(const std::vector<AnyGemm>& alike);
  // Launches the chosen candidate, on the default stream, on a problem like those given to choose().
  void run(const AnyGemm& gemm);
  // "cublasSgemm" or "cublasGemmEx" (BF16, TF32), or "cublasLt heuristic 3 of 8".
  std::string chosen() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace harness
