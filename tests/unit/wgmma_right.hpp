#pragma once

// Right kernels with wgmma, of one warpgroup, for both devices: wgmma_test.cpp and gpu_wgmma_test.cu run them
// in every layout that a descriptor can describe.

#include <string>
#include <type_traits>
#include <vector>

#include "common/bf16.hpp"
#include "common/cuda/bulk_copy.hpp"
#include "common/cuda/dynamic_shared.hpp"
#include "common/cuda/fragments.hpp"
#include "common/cuda/wgmma.hpp"

struct OperandLayout {
  Swizzle swizzle;
  unsigned leading, stride;
  unsigned first;  // where the operand begins in its room
};
struct Layouts {
  OperandLayout a, b;
};

namespace {

enum class Narrow { bf16, fp16, tf32 };

// Small integers.
HOST_DEVICE float a_of(int row, int k) { return static_cast<float>((row * 7 + k * 3) % 13 - 6); }
HOST_DEVICE float b_of(int k, int col) { return static_cast<float>((k * 5 + col * 11) % 17 - 8); }
HOST_DEVICE float d_of(int row, int col) { return static_cast<float>((row + col) % 9); }

// An operand's distances: atoms side by side, or (apart) each followed by room for another.
inline OperandLayout layout_of(Major major, Swizzle swizzle, bool apart) {
  const unsigned line = bytes_of(swizzle), gap = apart ? 2 : 1;
  if (swizzle == Swizzle::none) return {swizzle, 128, 256 * gap, 0};
  if (major == Major::MN) return {swizzle, 16 * line * gap, 8 * line, 0};
  return {swizzle, 0, 8 * line * gap, apart ? line - 32 : 0};  // the last terms of its lines
}

struct alignas(1024) WgmmaRoom {
  unsigned char A[16 * 1024], B[64 * 1024];
};
constexpr int wgmma_threads = 128;

// matrix_descriptor.hpp, once more.
HOST_DEVICE unsigned place_of_element(const OperandLayout& layout, bool k_major, int element_bytes, int row,
                                      int k) {
  const bool plain = layout.swizzle == Swizzle::none;
  const unsigned line = plain ? 16 : bytes_of(layout.swizzle);
  const unsigned along = static_cast<unsigned>(k_major ? k : row) * element_bytes;
  const unsigned across = static_cast<unsigned>(k_major ? row : k);
  const unsigned of_atom = across % 8 * line + along % line;
  const bool exchanged = plain && !k_major;
  const unsigned atom = across / 8 * (exchanged ? layout.leading : layout.stride) +
                        along / line * (exchanged ? layout.stride : layout.leading);
  return static_cast<unsigned>(swizzled(layout.swizzle, layout.first + atom + of_atom));
}

template <Narrow TYPE>
using Stored = std::conditional_t<TYPE == Narrow::tf32, std::uint32_t, std::uint16_t>;

// A small integer as its type has it.
template <Narrow TYPE>
HOST_DEVICE Stored<TYPE> stored(float x) {
  const std::uint32_t bits = __builtin_bit_cast(std::uint32_t, x);
  if constexpr (TYPE == Narrow::tf32) return bits;
  if constexpr (TYPE == Narrow::bf16) return static_cast<std::uint16_t>(bits >> 16);
  if constexpr (TYPE == Narrow::fp16) {
    if (x == 0.0f) return 0;
    return static_cast<std::uint16_t>((bits >> 16 & 0x8000) | ((bits >> 23 & 255) - 127 + 15) << 10 |
                                      (bits >> 13 & 0x3ff));
  }
}

// d [64][N] = A * B + D, by one wgmma.
template <Narrow TYPE, Major A, Major B, int N, bool REGISTERS>
__global__ void __launch_bounds__(wgmma_threads) multiply_once(Layouts layouts, float* d) {
  auto& [room_a, room_b] = dynamic_shared<WgmmaRoom>();
  constexpr int M = 64, K = TYPE == Narrow::tf32 ? 8 : 16;
  using T = Stored<TYPE>;
  const int t = static_cast<int>(threadIdx.x);
  for (int i = t; i < M * K; i += wgmma_threads) {
    const unsigned place = place_of_element(layouts.a, A == Major::K, sizeof(T), i / K, i % K);
    *reinterpret_cast<T*>(room_a + place) = stored<TYPE>(a_of(i / K, i % K));
  }
  for (int i = t; i < N * K; i += wgmma_threads) {
    const unsigned place = place_of_element(layouts.b, B == Major::K, sizeof(T), i / K, i % K);
    *reinterpret_cast<T*>(room_b + place) = stored<TYPE>(b_of(i % K, i / K));
  }
  fence_async_proxy();
  __syncthreads();

  float sums[N / 2];
  for (int i = 0; i < N / 2; ++i) sums[i] = d_of(wgmma_place(t, i).row, wgmma_place(t, i).col);
  const MatrixDescriptor a =
      matrix_descriptor(room_a + layouts.a.first, layouts.a.swizzle, layouts.a.leading, layouts.a.stride);
  const MatrixDescriptor b =
      matrix_descriptor(room_b + layouts.b.first, layouts.b.swizzle, layouts.b.leading, layouts.b.stride);
  if constexpr (REGISTERS) {
    using Shape = std::conditional_t<TYPE == Narrow::tf32, MmaTf32Shape, MmaBf16Shape>;
    std::uint32_t fragment[4] = {};
    for (int i = 0; i < Shape::a_elements; ++i) {
      const Place at = Shape::a(t % 32, i);
      const std::uint32_t bits = stored<TYPE>(a_of(t / 32 * 16 + at.row, at.col));
      fragment[i / Shape::packed] |= bits << 16 * (i % Shape::packed);
    }
    wgmma_fence();
    if constexpr (TYPE == Narrow::bf16) wgmma_bf16<B>(sums, fragment, b);
    if constexpr (TYPE == Narrow::fp16) wgmma_fp16<B>(sums, fragment, b);
    if constexpr (TYPE == Narrow::tf32) wgmma_tf32(sums, fragment, b);
    wgmma_commit();
    wgmma_wait<0>(sums);
  } else {
    wgmma_fence();
    if constexpr (TYPE == Narrow::bf16) wgmma_bf16<A, B>(sums, a, b);
    if constexpr (TYPE == Narrow::fp16) wgmma_fp16<A, B>(sums, a, b);
    if constexpr (TYPE == Narrow::tf32) wgmma_tf32(sums, a, b);
    wgmma_commit();
    wgmma_wait<0>(sums);
  }
  for (int i = 0; i < N / 2; ++i) d[wgmma_place(t, i).row * N + wgmma_place(t, i).col] = sums[i];
}

constexpr auto bf16_k_k_64 = multiply_once<Narrow::bf16, Major::K, Major::K, 64, false>;
constexpr auto bf16_k_mn_128 = multiply_once<Narrow::bf16, Major::K, Major::MN, 128, false>;
constexpr auto bf16_mn_k_16 = multiply_once<Narrow::bf16, Major::MN, Major::K, 16, false>;
constexpr auto bf16_mn_k_32 = multiply_once<Narrow::bf16, Major::MN, Major::K, 32, false>;
constexpr auto bf16_mn_k_192 = multiply_once<Narrow::bf16, Major::MN, Major::K, 192, false>;
constexpr auto bf16_mn_mn_256 = multiply_once<Narrow::bf16, Major::MN, Major::MN, 256, false>;
constexpr auto bf16_registers_mn_256 = multiply_once<Narrow::bf16, Major::K, Major::MN, 256, true>;
constexpr auto fp16_k_mn_64 = multiply_once<Narrow::fp16, Major::K, Major::MN, 64, false>;
constexpr auto fp16_mn_k_8 = multiply_once<Narrow::fp16, Major::MN, Major::K, 8, false>;
constexpr auto fp16_registers_k_128 = multiply_once<Narrow::fp16, Major::K, Major::K, 128, true>;
constexpr auto tf32_k_k_256 = multiply_once<Narrow::tf32, Major::K, Major::K, 256, false>;
constexpr auto tf32_registers_k_64 = multiply_once<Narrow::tf32, Major::K, Major::K, 64, true>;
// The same, by name.
struct WgmmaForm {
  const char* name;
  Major a, b;
  int N, K;
};
constexpr WgmmaForm wgmma_forms[] = {{"bf16_k_k_64", Major::K, Major::K, 64, 16},
                                     {"bf16_k_mn_128", Major::K, Major::MN, 128, 16},
                                     {"bf16_mn_k_16", Major::MN, Major::K, 16, 16},
                                     {"bf16_mn_k_32", Major::MN, Major::K, 32, 16},
                                     {"bf16_mn_k_192", Major::MN, Major::K, 192, 16},
                                     {"bf16_mn_mn_256", Major::MN, Major::MN, 256, 16},
                                     {"bf16_registers_mn_256", Major::K, Major::MN, 256, 16},
                                     {"fp16_k_mn_64", Major::K, Major::MN, 64, 16},
                                     {"fp16_mn_k_8", Major::MN, Major::K, 8, 16},
                                     {"fp16_registers_k_128", Major::K, Major::K, 128, 16},
                                     {"tf32_k_k_256", Major::K, Major::K, 256, 8},
                                     {"tf32_registers_k_64", Major::K, Major::K, 64, 8}};

// Every layout that its descriptors can describe, but for other distances.
inline std::vector<Layouts> layouts_of(const WgmmaForm& form) {
  std::vector<Layouts> layouts;
  for (const Swizzle swizzle :
       {Swizzle::none, Swizzle::of_32_bytes, Swizzle::of_64_bytes, Swizzle::of_128_bytes}) {
    for (const bool apart : {false, true}) {
      layouts.push_back({layout_of(form.a, swizzle, apart), layout_of(form.b, swizzle, apart)});
    }
  }
  return layouts;
}

inline std::string text_of(const WgmmaForm& form, const Layouts& layouts) {
  return std::string(form.name) + ", swizzle of " + std::to_string(bytes_of(layouts.a.swizzle)) +
         " bytes, stride of B " + std::to_string(layouts.b.stride);
}

// The first element of d that is not right, as an index; -1: none.
inline int first_wrong(const float* d, int N, int K) {
  for (int i = 0; i < 64 * N; ++i) {
    float sum = d_of(i / N, i % N);
    for (int k = 0; k < K; ++k) sum += a_of(i / N, k) * b_of(k, i % N);
    if (d[i] != sum) return i;
  }
  return -1;
}

}  // namespace
