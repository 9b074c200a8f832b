#pragma once

// One mma at a time: operands as bits, the kernel that multiplies them on a GPU, and what a model makes of
// the same. Every mma here is the kernels' own wrapper, and every fragment is loaded by the maps of
// common/cuda/fragments.hpp.

#include <bit>
#include <cstdint>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "common/cpu_device/tensor_core.hpp"
#include "common/cuda/check.hpp"
#include "common/cuda/fragments.hpp"
#include "common/cuda/mma.hpp"
#include "experiments/tensor_core_arithmetic/buffer.hpp"
#include "experiments/tensor_core_arithmetic/operand_types.hpp"
#include "experiments/tensor_core_arithmetic/wgmma_once.hpp"

namespace tensor_core_arithmetic {

using nlohmann::json;

// One warp, one mma: a [mmas][16][K], b [mmas][K][8] and c [mmas][16][8] as the bits of floats, of which BF16
// are the upper halves; d likewise.
template <typename Shape>
__global__ void multiply(const Bits* a, const Bits* b, const Bits* c, Bits* d) {
  constexpr int M = Shape::M;
  const int lane = threadIdx.x;
  const std::size_t number = blockIdx.x;
  a += number * M * Shape::K;
  b += number * Shape::K * N;
  c += number * M * N;
  d += number * M * N;
  std::uint32_t a_bits[Shape::a_elements], b_bits[Shape::b_elements];
  float sums[Shape::c_elements];
  for (int i = 0; i < Shape::a_elements; ++i) {
    const Place at = Shape::a(lane, i);
    a_bits[i] = a[at.row * Shape::K + at.col];
  }
  for (int i = 0; i < Shape::b_elements; ++i) {
    const Place at = Shape::b(lane, i);
    b_bits[i] = b[at.row * N + at.col];
  }
  for (int i = 0; i < Shape::c_elements; ++i) {
    const Place at = Shape::c(lane, i);
    sums[i] = __uint_as_float(c[at.row * N + at.col]);
  }
  if constexpr (Shape::K == 8) {
    mma_tf32<Unrounded::cut_off>(sums, a_bits, b_bits);
  } else {
    std::uint32_t a_pairs[4], b_pairs[2];
    for (int i = 0; i < 4; ++i) a_pairs[i] = a_bits[2 * i] >> 16 | (a_bits[2 * i + 1] & 0xffff0000);
    for (int i = 0; i < 2; ++i) b_pairs[i] = b_bits[2 * i] >> 16 | (b_bits[2 * i + 1] & 0xffff0000);
    mma_bf16(sums, a_pairs, b_pairs);
  }
  for (int i = 0; i < Shape::c_elements; ++i) {
    const Place at = Shape::c(lane, i);
    d[at.row * N + at.col] = __float_as_uint(sums[i]);
  }
}

// The operands of mma's one after the other, as multiply() wants them.
struct Operands {
  std::vector<Bits> a, b, c;
  std::size_t count(const Type& type) const { return c.size() / static_cast<std::size_t>(type.M * N); }
};

// One element of D: a row of A, a column of B, an element of C.
struct Element {
  std::vector<Bits> a, b;
  Bits c = 0;
  float by(const TensorCoreArithmetic& model, Bits mask) const {
    std::vector<Bits> x = a, y = b;
    for (Bits& bits : x) bits &= mask;
    for (Bits& bits : y) bits &= mask;
    return multiply_add(model, x, y, std::bit_cast<float>(c));
  }
};

inline Element element(const Operands& o, const Type& type, std::size_t mma, int row, int col) {
  Element e;
  for (int k = 0; k < type.K; ++k) {
    e.a.push_back(o.a[(mma * type.M + row) * type.K + k]);
    e.b.push_back(o.b[(mma * type.K + k) * N + col]);
  }
  e.c = o.c[(mma * type.M + row) * N + col];
  return e;
}

inline std::vector<Bits> run(const Operands& o, const Type& type, Kernel kernel) {
  Buffer<Bits> a(o.a), b(o.b), c(o.c), d(o.c.size());
  kernel<<<static_cast<unsigned>(o.count(type)), type.by_warpgroup ? 128 : 32>>>(a.data(), b.data(), c.data(),
                                                                                 d.data());
  CUDA_CHECK(cudaGetLastError());
  CUDA_CHECK(cudaDeviceSynchronize());
  return d.read();
}

inline std::vector<Bits> run(const Operands& o, const Type& type) {
  return run(o, type,
             type.by_warpgroup ? wgmma_kernel<8, false>(type.operand)
             : type.K == 8     ? multiply<MmaTf32Shape>
                               : multiply<MmaBf16Shape>);
}

// wgmma with more columns, and with A from registers: elements that are not the same as with eight columns
// and A from shared memory.
inline std::size_t different_in_other_forms(const Operands& o, const Type& type, const std::vector<Bits>& d) {
  std::size_t different = 0;
  for (Kernel kernel : {wgmma_kernel<64, false>(type.operand), wgmma_kernel<256, false>(type.operand),
                        wgmma_kernel<8, true>(type.operand), wgmma_kernel<128, true>(type.operand)}) {
    const std::vector<Bits> other = run(o, type, kernel);
    for (std::size_t i = 0; i < d.size(); ++i) different += other[i] != d[i];
  }
  return different;
}

inline Bits bits_of(float x) { return std::bit_cast<Bits>(x); }
inline std::string hex(Bits bits, int digits = 8) {
  char text[9];
  std::snprintf(text, sizeof text, "%0*x", digits, bits);
  return text;
}
// Operands as their type has them in memory.
inline std::string hex(const std::vector<Bits>& all, const Type& type) {
  std::string text;
  for (Bits bits : all) text += hex(in_memory(type.operand, bits), type.operand == OperandType::tf32 ? 8 : 4);
  return text;
}

}  // namespace tensor_core_arithmetic
