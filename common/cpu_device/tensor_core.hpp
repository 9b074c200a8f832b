#pragma once

// The arithmetic of the tensor cores: what one instruction adds up for one element of D, bit for bit. NVIDIA
// does not document it. The forms below are those that published studies found on several GPUs
// (Fasi, Higham, Mikaitis, Pranesh 2021, doi:10.7717/peerj-cs.330; Xie et al. 2025, arXiv:2511.10909;
// Khattak, Mikaitis 2025, arXiv:2512.07004); which one it is, experiments/tensor_core_arithmetic asks the
// GPU.

#include <cstdint>
#include <span>

namespace cpu_device {

// Products are exact. The products of one step, and C, are brought to the largest exponent among them and cut
// to a fixed number of bits; their sum, exact, becomes a float, which is the C of the next step.
struct TensorCoreArithmetic {
  enum class Rounding : std::uint8_t { to_zero, down, to_nearest };

  int products = 8;        // of a step; an instruction of K products has K / products steps, k ascending
  int fraction_bits = 25;  // kept below the place of the largest exponent
  Rounding terms = Rounding::to_zero;   // of what lies below those
  Rounding result = Rounding::to_zero;  // of the sum, to float
  bool c_with_products = true;          // false: C is added to the float that the products gave
  // The exponent of a product: the sum of its factors' exponents, as 1.5 * 1.5 = 2.25 * 2^0; or that of the
  // product, 1.125 * 2^1.
  bool normalised_products = false;
  bool zeros_have_exponents = false;  // true: a zero counts as 2^-126 when exponents are compared
  int least_exponent = -1000;         // where all exponents are less, this is taken for the largest
};

// How many bits below the leading one an operand may have. TF32 has 10; a float with more is cut off.
constexpr std::uint32_t tf32_mask = 0xffffe000;
constexpr std::uint32_t canonical_nan = 0x7fffffff;

// d = a[0] * b[0] + ... + c. Operands as the bits of floats with at most 11 bits of significand: BF16, or
// TF32 after tf32_mask. a.size() is a multiple of model.products. A NaN, infinities that cancel and zero
// times infinity give canonical_nan.
float multiply_add(const TensorCoreArithmetic& model, std::span<const std::uint32_t> a,
                   std::span<const std::uint32_t> b, float c);

// The same for each element of D: a [M][K], b [N][K] (a column of B in a row), d [M][N], C before and D
// after.
void multiply_add(const TensorCoreArithmetic& model, int M, int N, int K, const std::uint32_t* a,
                  const std::uint32_t* b, float* d);

// Of mma_tf32() and mma_bf16() on Hopper: measured on an H200.
constexpr TensorCoreArithmetic tf32_arithmetic{.products = 8, .fraction_bits = 25, .least_exponent = -133};
constexpr TensorCoreArithmetic bf16_arithmetic{.products = 16, .fraction_bits = 25, .least_exponent = -133};

}  // namespace cpu_device
