#pragma once

// What a step computes in, which is more than the type of its A and B: TF32 takes floats and rounds them. The
// name of the step's function says it; see unit.hpp. A new one is a value here, a row of the table, and a
// name there.

#include "common/harness/input.hpp"

namespace harness {

enum class Precision { fp32, tf32, tf32_cut_off, bf16 };

// How a kernel comes by its sums, as far as the error bound must know it; see verify.hpp.
struct Arithmetic {
  double unit_roundoff;    // the largest relative error of one operation of the accumulator
  double losses_per_term;  // how many such errors a term can cause
  bool exact_products;     // a product of two operands is a number of the accumulator's type
  double operand_error;    // the largest relative error of an element of A or B, rounded before it is used
  bool rounds_operands;    // to the nearest; otherwise they are as in memory, or cut off
};

struct PrecisionTraits {
  const char* name;
  Input input;  // the type of A and B
  Arithmetic arithmetic;
  bool tensor_cores;     // which take so much power that a GPU lowers its clock; see protocol.hpp
  const char* baseline;  // the name of what times are compared with
  const char* peak;      // and of what speeds are
  // The same at the head of a column.
  const char *of_baseline, *of_peak;
};

// Tensor cores add up exact products in float: those of two TF32 numbers have 11 + 11 bits of significand, of
// two BF16 numbers 8 + 8. But they cut off what does not fit where the FP32 units round: an error of up to a
// unit in the last place, 2^-23 (Fasi, Higham, Mikaitis and Pranesh, Numerical behavior of NVIDIA tensor
// cores, 2021). What is cut are the addends of an instruction, all but the largest, which the others are
// aligned with, and the sum: k + 1 times at most for k terms, where k is at least 4 in TF32 and 8 in BF16.
// Kernels that round stay below that, too.
//
// TF32 has 10 bits of significand behind its leading 1. Rounding to the nearest (cvt.rna) errs by half of the
// last one at most, 2^-11 of the number. Cutting off what is beyond errs by a whole one, and always towards
// zero: so much is granted to a kernel that says so, and to a library, which may hand its floats to the
// tensor cores as they are.
inline constexpr PrecisionTraits precision_traits[] = {
    {"FP32",
     Input::fp32,
     {0x1p-24, 1, false, 0, false},
     false,  //
     "cuBLAS FP32",
     "FP32 peak",
     "of cuBLAS",
     "of peak"},
    {"TF32",
     Input::fp32,
     {0x1p-23, 1.25, true, 0x1p-11, true},
     true,  //
     "cuBLAS TF32",
     "TF32 tensor peak",
     "of cuBLAS TF32",
     "of TF32 peak"},
    {"TF32",
     Input::fp32,
     {0x1p-23, 1.25, true, 0x1p-10, false},
     true,  //
     "cuBLAS TF32",
     "TF32 tensor peak",
     "of cuBLAS TF32",
     "of TF32 peak"},
    {"BF16",
     Input::bf16,
     {0x1p-23, 1.125, true, 0, false},
     true,  //
     "cuBLAS BF16",
     "BF16 tensor peak",
     "of cuBLAS BF16",
     "of BF16 peak"},
};
constexpr const PrecisionTraits& traits(Precision precision) {
  return precision_traits[static_cast<int>(precision)];
}

// What a step computes in whose function says no more than the type of its inputs.
constexpr Precision usual_precision(Input input) {
  return input == Input::bf16 ? Precision::bf16 : Precision::fp32;
}

// What a baseline may compute in, to be compared with a step in this precision.
constexpr Precision granted_to_baseline(Precision precision) {
  return precision == Precision::tf32 ? Precision::tf32_cut_off : precision;
}

// The most that a GPU computes in this precision, multiply-adds counted as two operations: for each
// multiprocessor in a cycle. 0: not known.
int peak_flops_per_cycle(Precision precision, int compute_capability);

}  // namespace harness
