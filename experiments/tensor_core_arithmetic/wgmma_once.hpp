#pragma once

// One wgmma at a time, in all its forms.

#include <cstddef>
#include <cstdint>

#include "common/cuda/wgmma.hpp"
#include "experiments/tensor_core_arithmetic/operand_types.hpp"

namespace tensor_core_arithmetic {

// A row of K elements, in memory without a swizzle: core matrices of 8 rows of 16 bytes, those along k side
// by side.
template <typename T, int K>
__device__ std::size_t core_matrix_index(int row, int k) {
  constexpr int of_line = 16 / sizeof(T);
  return static_cast<std::size_t>(row / 8 * 8 * K + k / of_line * 8 * of_line + row % 8 * of_line +
                                  k % of_line);
}

// One warpgroup, one wgmma with COLS columns: a [wgmmas][64][K], b [wgmmas][K][8] and c [wgmmas][64][8] as
// the bits of floats; d likewise. The 8 columns are there COLS / 8 times; where these differ, d is a NaN of
// its own.
template <OperandType TYPE, int COLS, bool REGISTERS>
__global__ void multiply_by_warpgroup(const Bits* a, const Bits* b, const Bits* c, Bits* d) {
  constexpr bool is_tf32 = TYPE == OperandType::tf32;
  constexpr int M = 64, K = is_tf32 ? 8 : 16, SUMS = COLS / 2;
  using T = std::conditional_t<is_tf32, std::uint32_t, std::uint16_t>;
  using Shape = std::conditional_t<is_tf32, MmaTf32Shape, MmaBf16Shape>;
  __shared__ __align__(128) T As[M * K], Bs[COLS * K];
  const int thread = threadIdx.x;
  const std::size_t number = blockIdx.x;
  a += number * M * K;
  b += number * K * N;
  c += number * M * N;
  d += number * M * N;
  for (int i = thread; i < M * K; i += 128) {
    As[core_matrix_index<T, K>(i / K, i % K)] = static_cast<T>(in_memory(TYPE, a[i]));
  }
  for (int i = thread; i < COLS * K; i += 128) {
    Bs[core_matrix_index<T, K>(i / K, i % K)] = static_cast<T>(in_memory(TYPE, b[i % K * N + i / K % N]));
  }
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  __syncthreads();

  float sums[SUMS];
  for (int i = 0; i < SUMS; ++i) {
    const WgmmaPlace at = wgmma_place(thread, i);
    sums[i] = __uint_as_float(c[at.row * N + at.col % N]);
  }
  const MatrixDescriptor b_tile = matrix_descriptor(Bs, Swizzle::none, 128, 8 * K * sizeof(T));
  wgmma_fence();
  if constexpr (REGISTERS) {
    std::uint32_t registers[4] = {};
    for (int i = 0; i < Shape::a_elements; ++i) {
      const Place at = Shape::a(thread % 32, i);
      const Bits bits = in_memory(TYPE, a[(thread / 32 * 16 + at.row) * K + at.col]);
      registers[i / Shape::packed] |= bits << 16 * (i % Shape::packed);
    }
    wgmma_fence();
    if constexpr (is_tf32) wgmma_tf32(sums, registers, b_tile);
    if constexpr (TYPE == OperandType::bf16) wgmma_bf16(sums, registers, b_tile);
    if constexpr (TYPE == OperandType::fp16) wgmma_fp16(sums, registers, b_tile);
  } else {
    const MatrixDescriptor a_tile = matrix_descriptor(As, Swizzle::none, 128, 8 * K * sizeof(T));
    if constexpr (is_tf32) wgmma_tf32(sums, a_tile, b_tile);
    if constexpr (TYPE == OperandType::bf16) wgmma_bf16(sums, a_tile, b_tile);
    if constexpr (TYPE == OperandType::fp16) wgmma_fp16(sums, a_tile, b_tile);
  }
  wgmma_commit();
  wgmma_wait<0>(sums);

  for (int i = 0; i < 4; ++i) {
    const WgmmaPlace at = wgmma_place(thread, i);
    bool same = true;
    for (int j = i; j < SUMS; j += 4) same = same && __float_as_uint(sums[j]) == __float_as_uint(sums[i]);
    d[at.row * N + at.col] = same ? __float_as_uint(sums[i]) : 0x7fc0dead;
  }
}

using Kernel = void (*)(const Bits*, const Bits*, const Bits*, Bits*);
template <int COLS, bool REGISTERS>
Kernel wgmma_kernel(OperandType type) {
  return type == OperandType::tf32   ? multiply_by_warpgroup<OperandType::tf32, COLS, REGISTERS>
         : type == OperandType::bf16 ? multiply_by_warpgroup<OperandType::bf16, COLS, REGISTERS>
                                     : multiply_by_warpgroup<OperandType::fp16, COLS, REGISTERS>;
}

}  // namespace tensor_core_arithmetic
