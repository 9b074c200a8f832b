#pragma once

// Finds the function of the kernel file that this unit compiles. Its name and what it takes say what it
// computes in:
//   sgemm(const Gemm&)              FP32
//   gemm_tf32(const Gemm&)          TF32, of floats that it rounds to the nearest
//   gemm_tf32_cut_off(const Gemm&)  TF32, of floats whose last bits it may leave to the tensor cores to cut
//   gemm(const GemmBf16&)           BF16

#include "common/harness/entry.hpp"

// Overloads that no file defines: all names exist, whichever of them the file has.
struct NoStep;
void sgemm(const NoStep&);
void gemm_tf32(const NoStep&);
void gemm_tf32_cut_off(const NoStep&);
void gemm(const NoStep&);

using Missing = void (*)(const NoStep&);
using StepOfFloats = void (*)(const Gemm&);
using StepOfBf16 = void (*)(const GemmBf16&);
constexpr harness::Entry find_entry(StepOfFloats step, Missing, Missing, Missing) { return step; }
constexpr harness::Entry find_entry(Missing, StepOfFloats step, Missing, Missing) {
  return {step, harness::Precision::tf32};
}
constexpr harness::Entry find_entry(Missing, Missing, StepOfFloats step, Missing) {
  return {step, harness::Precision::tf32_cut_off};
}
constexpr harness::Entry find_entry(Missing, Missing, Missing, StepOfBf16 step) { return step; }
