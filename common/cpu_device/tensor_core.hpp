#pragma once

// The arithmetic of the tensor cores: how one instruction computes one element of D, bit for bit. NVIDIA does
// not document it. The variants below are those that published studies found on several GPUs (Fasi, Higham,
// Mikaitis, Pranesh 2021, doi:10.7717/peerj-cs.330; Xie et al. 2025, arXiv:2511.10909; Khattak, Mikaitis
// 2025, arXiv:2512.07004); experiments/tensor_core_arithmetic finds out which one a GPU has.

#include <cstdint>
#include <span>

#include "common/cpu_device/operand.hpp"

namespace cpu_device {

// Products are exact. The products of one step, and C, are aligned to the largest exponent among them and
// truncated to a fixed number of bits; their exact sum is converted to a float, the C of the next step.
struct TensorCoreArithmetic {
  enum class Rounding : std::uint8_t { to_zero, down, to_nearest };

  int products = 8;        // in a step; an instruction with K products has K / products steps, k ascending
  int fraction_bits = 25;  // kept below the largest exponent
  Rounding terms = Rounding::to_zero;   // of what lies below these
  Rounding result = Rounding::to_zero;  // of the sum, to float
  bool c_with_products = true;          // false: C is added to the float that the products sum up to
  // The exponent of a product is the sum of its factors' exponents, as in 1.5 * 1.5 = 2.25 * 2^0; or, if this
  // is true, that of the product itself, 1.125 * 2^1.
  bool normalised_products = false;
  bool zeros_have_exponents = false;  // true: a zero counts as 2^-126 when exponents are compared
  int least_exponent = -1000;         // stands in for the largest exponent if all are less
  int least_factor_exponent =
      -126;  // a factor's exponent is at least this one: that of its subnormal numbers

  constexpr bool operator==(const TensorCoreArithmetic&) const = default;
};

constexpr std::uint32_t canonical_nan = 0x7fffffff;

// d = a[0] * b[0] + ... + c. Operands as the bits of floats with at most 11 bits of significand, as
// float_bits() gives them. a.size() is a multiple of model.products. A NaN, infinities that cancel and zero
// times infinity give canonical_nan.
float multiply_add(const TensorCoreArithmetic& model, std::span<const std::uint32_t> a,
                   std::span<const std::uint32_t> b, float c);

// Terms of an instruction, at most: 32 bytes of 16-bit operands.
constexpr int max_terms = 16;

// The same for every element of D, of any size: A [M][K] and B [N][K] (each row a column of B), both of
// `type`, and d [M][N], which holds C before and D after. K is a multiple of model.products, and at most
// max_terms.
void multiply_add(const TensorCoreArithmetic& model, OperandType type, int M, int N, int K, const Operand& a,
                  const Operand& b, float* d);

// Hopper's, measured on an H200 by experiments/tensor_core_arithmetic: of mma.sync in TF32 and BF16, and of
// wgmma, which is the same, in these and FP16.
constexpr TensorCoreArithmetic tf32_arithmetic{.products = 8, .fraction_bits = 25, .least_exponent = -133};
constexpr TensorCoreArithmetic bf16_arithmetic{.products = 16, .fraction_bits = 25, .least_exponent = -133};
constexpr TensorCoreArithmetic fp16_arithmetic{
    .products = 16, .fraction_bits = 25, .least_exponent = -133, .least_factor_exponent = -14};

constexpr const TensorCoreArithmetic& arithmetic_of(OperandType type) {
  return type == OperandType::tf32   ? tf32_arithmetic
         : type == OperandType::bf16 ? bf16_arithmetic
                                     : fp16_arithmetic;
}

}  // namespace cpu_device
