#pragma once

// The types that A and B may have, and all that the harness must know of each.

#include <cstddef>
#include <type_traits>

#include "common/bf16.hpp"

namespace harness {

enum class Input { fp32, bf16 };

// How a kernel sums up the products, as far as the error bound must know it; see verify.hpp.
struct Accumulation {
  double unit_roundoff;  // the largest relative error of one operation
  bool exact_products;   // a product of two inputs is a number of the accumulator's type
};

struct InputTraits {
  const char* name;
  std::size_t bytes;     // of an element
  int significand_bits;  // of an element, the leading 1 among them
  Accumulation accumulation;
  const char* baseline;  // the name of what times are compared with
  const char* peak;      // and of what speeds are
  // The same at the head of a column.
  const char *of_baseline, *of_peak;
};

// Tensor cores add up exact products in float, but cut off what does not fit where the FP32 units round: an
// error of up to a unit in the last place, 2^-23 (Fasi, Higham, Mikaitis and Pranesh, Numerical behavior of
// NVIDIA tensor cores, 2021). Kernels that round their sums stay below that, too.
inline constexpr InputTraits input_traits[] = {
    {"FP32", 4, 24, {0x1p-24, false}, "cuBLAS FP32", "FP32 peak", "of cuBLAS", "of peak"},
    {"BF16", 2, 8, {0x1p-23, true}, "cuBLAS BF16", "BF16 tensor peak", "of cuBLAS BF16", "of BF16 peak"},
};
constexpr const InputTraits& traits(Input input) { return input_traits[static_cast<int>(input)]; }

// The Input whose elements are T.
template <typename T>
constexpr Input input_of = [] {
  static_assert(std::is_same_v<T, float> || std::is_same_v<T, bf16>);
  return std::is_same_v<T, float> ? Input::fp32 : Input::bf16;
}();

// Calls body(T{}) with the type of the elements.
template <typename Body>
decltype(auto) with_element(Input input, const Body& body) {
  switch (input) {
    case Input::bf16:
      return body(bf16{});
    case Input::fp32:
      break;
  }
  return body(float{});
}

// The most that a GPU computes with inputs of this type, multiply-adds counted as two operations: for each
// multiprocessor in a cycle. 0: not known.
int peak_flops_per_cycle(Input input, int compute_capability);

}  // namespace harness
