#pragma once

#include <memory>
#include <string>

#include "common/gemm.hpp"

namespace harness {

// The baseline: for each problem the fastest of cublasSgemm and the algorithms that cublasLt's heuristic
// proposes. Full FP32: TF32 and emulation are off, which the constructor asserts; the harness also verifies
// the baseline's results like any step's. Errors throw std::runtime_error naming the call.
class Cublas {
 public:
  Cublas();
  ~Cublas();

  // Tries the candidates on this problem and keeps the fastest. C is overwritten.
  void choose(const Gemm& gemm);
  // Launches the chosen one on the default stream; the same problem as in choose(), in other memory maybe.
  void run(const Gemm& gemm);
  // "cublasSgemm", or "cublasLt heuristic 3 of 8".
  std::string chosen() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace harness
