#pragma once

// Finds the function of the kernel file that this unit compiles. Its name and what it takes say what it
// computes in:
//   sgemm(const Gemm&)      FP32
//   gemm_tf32(const Gemm&)  TF32, of floats that it rounds
//   gemm(const GemmBf16&)   BF16

#include "common/harness/entry.hpp"

// Overloads that no file defines: all names exist, whichever of them the file has.
struct NoStep;
void sgemm(const NoStep&);
void gemm_tf32(const NoStep&);
void gemm(const NoStep&);

constexpr harness::Entry find_entry(void (*step)(const Gemm&), void (*)(const NoStep&),
                                    void (*)(const NoStep&)) {
  return step;
}
constexpr harness::Entry find_entry(void (*)(const NoStep&), void (*step)(const Gemm&),
                                    void (*)(const NoStep&)) {
  return {step, harness::Precision::tf32};
}
constexpr harness::Entry find_entry(void (*)(const NoStep&), void (*)(const NoStep&),
                                    void (*step)(const GemmBf16&)) {
  return step;
}
