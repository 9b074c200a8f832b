#pragma once

// CUDA's pairs and fours of integers, on the CPU device, for exercises: no step needs them. As with float4,
// copying one is one access.

#include <cstddef>

#include "common/cpu_device/cuda_on_cpu.hpp"

namespace cpu_device {

template <typename T, std::size_t N>
struct Components {
  T x, y, z, w;
};
template <typename T>
struct Components<T, 2> {
  T x, y;
};

template <typename T, std::size_t N>
struct alignas(N * sizeof(T)) Vector : Components<T, N> {
  Vector() = default;
  template <typename... U>
    requires(sizeof...(U) == N)
  constexpr Vector(U... values) : Components<T, N>{static_cast<T>(values)...} {}
  __forceinline__ Vector(const Vector& from) { copy_vector<sizeof(Vector)>(this, &from); }
  __forceinline__ Vector& operator=(const Vector& from) {
    copy_vector<sizeof(Vector)>(this, &from);
    return *this;
  }
};

}  // namespace cpu_device

using int2 = cpu_device::Vector<int, 2>;
using int4 = cpu_device::Vector<int, 4>;
using uint2 = cpu_device::Vector<unsigned, 2>;
using uint4 = cpu_device::Vector<unsigned, 4>;

__forceinline__ int2 make_int2(int x, int y) { return int2(x, y); }
__forceinline__ int4 make_int4(int x, int y, int z, int w) { return int4(x, y, z, w); }
__forceinline__ uint2 make_uint2(unsigned x, unsigned y) { return uint2(x, y); }
__forceinline__ uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return uint4(x, y, z, w); }
