#pragma once

// What a step computes in. The type of A and B does not tell: TF32 takes floats and rounds them. The name of
// the step's function does; see unit.hpp. A new precision is a value here, a row of the table and a peak in
// precision.cpp, a name in unit.hpp, and what cuBLAS calls it, in cublas.cpp; the report follows from the
// row.

#include "common/harness/input.hpp"

namespace harness {

enum class Precision { fp32, tf32, tf32_cut_off, bf16, fp16x3, fp32_emulated };

// How a kernel computes its sums, as far as it matters to the error bound; see verify.hpp.
struct Arithmetic {
  double unit_roundoff;    // the largest relative error of one operation of the accumulator
  double losses_per_term;  // how many such errors one term can cause
  bool exact_products;     // the accumulator's type represents a product of two operands exactly
  double operand_error;    // the largest relative error of rounding an element of A or B before use
  bool rounds_operands;    // to nearest; otherwise they are used as they are, or truncated
};

struct PrecisionTraits {
  const char* name;
  Input input;  // the type of A and B
  Arithmetic arithmetic;
  bool tensor_cores;     // they draw so much power that a GPU lowers its clock; see protocol.hpp
  const char* baseline;  // what times are compared with
  const char* peak;      // what speeds are compared with
  // The two as headings of columns.
  const char *of_baseline, *of_peak;
};

// Tensor cores add up exact products in float: a product of two TF32 numbers has 11 + 11 bits of significand,
// of two BF16 numbers 8 + 8. But where the FP32 units round, they truncate: an error of up to a unit in the
// last place, 2^-23 (Fasi, Higham, Mikaitis and Pranesh, Numerical behavior of NVIDIA tensor cores, 2021). An
// instruction truncates its addends, except for the largest, with which the others are aligned, and its sum:
// at most k + 1 times for k terms, where k is at least 4 in TF32 and 8 in BF16. Kernels that round stay below
// that, too.
//
// TF32 has 10 bits of significand after its leading 1. Rounding to nearest (cvt.rna) errs by at most half of
// the last one, 2^-11 of the number. Truncation errs by up to a whole one, and always towards zero: a kernel
// that says it truncates is allowed this, and so is a library, which may pass its floats to the tensor cores
// as they are.
//
// FP16x3 is three products of FP16 numbers, each element being the sum of two of them. These have 11 bits of
// significand and the sign of the second: what is left of an element is at most 2^-23 of it, and the product
// of two second ones, at most 2^-22 of that of the elements, is not computed. So a product of elements is off
// by up to 2^-21, twice the operand_error below. It makes three terms. As above, this holds for elements
// whose second number is a normal FP16 number after scaling. A kernel that emulates FP32 promises FP32's own
// bound.
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
    {"FP16x3",
     Input::fp32,
     {0x1p-23, 3 * 1.125, true, 0x1p-22, false},
     true,  //
     "cuBLAS FP32",
     "third of FP16 peak",
     "of cuBLAS FP32",
     "of third peak"},
    {"FP16x3",
     Input::fp32,
     {0x1p-24, 1, false, 0, false},
     true,  //
     "cuBLAS FP32",
     "third of FP16 peak",
     "of cuBLAS FP32",
     "of third peak"},
};
constexpr const PrecisionTraits& traits(Precision precision) {
  return precision_traits[static_cast<int>(precision)];
}

// What a step computes in if its function tells only the type of its inputs.
constexpr Precision usual_precision(Input input) {
  return input == Input::bf16 ? Precision::bf16 : Precision::fp32;
}

// What a baseline may compute in when it is compared with a step in this precision.
constexpr Precision granted_to_baseline(Precision precision) {
  return precision == Precision::tf32 ? Precision::tf32_cut_off : precision;
}

// Peak throughput in this precision: operations per multiprocessor and cycle, a multiply-add counting as two.
// 0: not known.
int peak_flops_per_cycle(Precision precision, int compute_capability);

}  // namespace harness
