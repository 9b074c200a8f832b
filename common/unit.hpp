#pragma once

// Finds the function of the kernel's file that this unit compiles. Its name says what it computes in, its
// parameter what A and B are; a second one, Accuracy, that it has several modes. harness/precision.hpp says
// what a new precision takes.

#include <initializer_list>

#include "common/harness/entry.hpp"

// Each name also has an overload that no file defines, so that find_step() can mention all of them, whichever
// the file has.
struct NoStep;
using Missing = void(const NoStep&);
Missing sgemm, gemm_tf32, gemm_tf32_cut_off, gemm, gemm_fp16x3, sgemm_emulated;

// If the file has the name, the first overload is chosen: it needs no conversion.
template <typename T>
constexpr harness::Entry step_if_any(void (*step)(const GemmOf<T>&), harness::Precision precision) {
  return {step, precision};
}
constexpr harness::Entry step_if_any(Ways (*step)(const Gemm&, Accuracy), harness::Precision precision) {
  return {step, precision};
}
struct None {
  constexpr None(Missing*) {}
};
constexpr harness::Entry step_if_any(None, harness::Precision) { return {}; }

namespace {

constexpr harness::Entry find_step() {
  using enum harness::Precision;
  harness::Entry step;
  int found = 0;
  for (const harness::Entry& entry : {
           step_if_any(&sgemm, fp32),
           step_if_any(&gemm_tf32, tf32),                  // rounds floats to the nearest TF32
           step_if_any(&gemm_tf32_cut_off, tf32_cut_off),  // may leave it to the tensor cores to cut them off
           step_if_any(&gemm, bf16),
           step_if_any(&gemm_fp16x3, fp16x3),            // three products of FP16 numbers for one of floats
           step_if_any(&sgemm_emulated, fp32_emulated),  // as accurate as FP32, by tensor cores
       }) {
    if (!entry) continue;
    step = entry;
    ++found;
  }
  return found == 1 ? step : throw "the kernel's file has to define exactly one of these functions";
}

}  // namespace
