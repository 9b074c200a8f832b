#pragma once

// Gives the host compiler the words of CUDA C++ that the kernels use: a kernel file compiles as plain C++ and
// runs on the CPU device. Nothing here is needed to understand a kernel.

#include <cstddef>
// Without Bessel functions and the like in <cmath>: to read them takes as long as to compile a small kernel.
#undef _GLIBCXX_USE_STD_SPEC_FUNCS

#include <cmath>
#include <cstdint>
#include <cstring>

#include "common/cpu_device/atomics.hpp"
#include "common/cpu_device/dim3.hpp"
#include "common/cpu_device/launch_bounds.hpp"
#include "common/cpu_device/shuffle.hpp"
#include "common/cuda/launch_config.hpp"

// As CUDA has them, without std::; <algorithm> would take long to compile.
template <typename T>
constexpr const T& min(const T& a, const T& b) {
  return b < a ? b : a;
}
template <typename T>
constexpr const T& max(const T& a, const T& b) {
  return a < b ? b : a;
}

// A kernel must stay a function of its own: inlined into launch(), it would lose its name in reports and, in
// the observed build, its observation.
#define __global__ __attribute__((noipa))
#define __device__
#define __host__
#define __forceinline__ inline __attribute__((always_inline))
// One block runs at a time on an OS thread (kernels in clusters have no such variables), so the block's
// shared memory is that OS thread's own. constinit: otherwise an array of float4 would get a flag beside it,
// "has it been initialised?".
#define __shared__ constinit thread_local
#define __grid_constant__
#define __align__(bytes) __attribute__((aligned(bytes)))

// const for the kernel, so that the compiler can keep them in registers; the scheduler sets them (see there).
extern const __thread uint3 threadIdx;
extern const __thread uint3 blockIdx;
extern const __thread uint3 blockDim;
extern const __thread uint3 gridDim;
constexpr int warpSize = 32;

namespace cpu_device {

using KernelBody = void (*)(const void* arguments);

// Runs body(arguments), which calls the kernel, once per thread of the grid; see cpu_device.hpp.
void launch_body(const void* kernel, const LaunchConfig& config, KernelBody body, const void* arguments);

void barrier_block(int line);
void barrier_block(int line, const char* function);
void barrier_warp(unsigned mask, int line);

// What the next load reads must not be written during the launch.
void note_noncoherent_load(const void* address, unsigned bytes);

// Copies a vector of 8 or 16 bytes as one access, and has it observed as one: left to the compiler, copying a
// float4 may become four scalar accesses, and the observation would be wrong. Inline, so that a thread's own
// vectors and arrays stay unknown to other functions: accesses to these the compiler does not report. A
// misaligned address is a fault, as on a GPU, and must not be one of the host's.
void report_misaligned_copy(unsigned bytes);
// They may lie over any other type. Not one type of a template's parameter: GCC then forgets may_alias.
typedef unsigned Bits8 __attribute__((vector_size(8), aligned(8), may_alias));
typedef unsigned Bits16 __attribute__((vector_size(16), aligned(8), may_alias));
template <std::size_t bytes>
inline __attribute__((always_inline)) void copy_vector(void* to, const void* from) {
#ifndef __SANITIZE_THREAD__
  const auto bits = reinterpret_cast<std::uintptr_t>(from) | reinterpret_cast<std::uintptr_t>(to);
  if (bits % bytes != 0) [[unlikely]]
    report_misaligned_copy(bytes);
#endif
  static_assert(bytes == 8 || bytes == 16);
  if constexpr (bytes == 8) {
    *static_cast<Bits8*>(to) = *static_cast<const Bits8*>(from);
  } else {
    *static_cast<Bits16*>(to) = *static_cast<const Bits16*>(from);
  }
}

// memcpy() and memset() of a kernel, which report what they touch: the compiler reports nothing of its own.
void copy_bytes(void* to, const void* from, std::size_t bytes);
void fill_bytes(void* to, int value, std::size_t bytes);

// The block's dynamic shared memory, as many bytes as the launch asks for. A fault if it would lack this
// alignment on a GPU.
void* dynamic_shared(std::size_t alignment = 16);

// Names its parts for reports. `shape` lives as long as the program.
struct Shape;
void name_dynamic_shared(const Shape& shape);

}  // namespace cpu_device

// The line tells barriers apart: two barriers in two branches, merged by the compiler, would look like one.
// In the kernel itself, it is enough; see call_place.hpp.
#ifdef __SANITIZE_THREAD__  // for observation
inline __attribute__((always_inline)) void __syncthreads(int line = __builtin_LINE(),
                                                         const char* function = __builtin_FUNCTION()) {
  cpu_device::barrier_block(line, function);
}
#else
inline __attribute__((always_inline)) void __syncthreads(int line = __builtin_LINE()) {
  cpu_device::barrier_block(line);
}
#endif
inline
    __attribute__((always_inline)) void __syncwarp(unsigned mask = 0xffffffff, int line = __builtin_LINE()) {
  cpu_device::barrier_warp(mask, line);
}

// For pointers to anything but void these are better matches than the C library's. <cstring> comes first:
// std::memcpy stays what it is.
template <typename T, typename U>
inline __attribute__((always_inline)) void* memcpy(T* to, const U* from, std::size_t bytes) {
  cpu_device::copy_bytes(to, from, bytes);
  return to;
}
template <typename T>
inline __attribute__((always_inline)) void* memset(T* to, int value, std::size_t bytes) {
  cpu_device::fill_bytes(to, value, bytes);
  return to;
}

struct alignas(8) float2 {
  float x, y;
  float2() = default;
  constexpr float2(float x_, float y_) : x(x_), y(y_) {}
  __forceinline__ float2(const float2& from) { cpu_device::copy_vector<sizeof(float2)>(this, &from); }
  __forceinline__ float2& operator=(const float2& from) {
    cpu_device::copy_vector<sizeof(float2)>(this, &from);
    return *this;
  }
};

struct alignas(16) float4 {
  float x, y, z, w;
  float4() = default;
  constexpr float4(float x_, float y_, float z_, float w_) : x(x_), y(y_), z(z_), w(w_) {}
  __forceinline__ float4(const float4& from) { cpu_device::copy_vector<sizeof(float4)>(this, &from); }
  __forceinline__ float4& operator=(const float4& from) {
    cpu_device::copy_vector<sizeof(float4)>(this, &from);
    return *this;
  }
};

// A load of what nobody writes during the launch; here an ordinary load, of which the check is told.
template <typename T>
__forceinline__ T __ldg(const T* pointer) {
#ifdef __SANITIZE_THREAD__
  cpu_device::note_noncoherent_load(pointer, sizeof(T));
#endif
  return *pointer;
}
// a * b + c, rounded once.
__forceinline__ float __fmaf_rn(float a, float b, float c) { return __builtin_fmaf(a, b, c); }

// a * b + c, rounded once, towards zero.
__forceinline__ float __fmaf_rz(float a, float b, float c) {
  const double product = static_cast<double>(a) * b;  // exact
  double sum = product + c;
  const double of_c = sum - product, lost = (product - (sum - of_c)) + (c - of_c);  // exact sum: sum + lost
  if ((sum > 0 && lost < 0) || (sum < 0 && lost > 0)) sum = std::nextafter(sum, 0.0);
  const float nearest = static_cast<float>(sum);
  return std::abs(static_cast<double>(nearest)) > std::abs(sum) ? std::nextafter(nearest, 0.0f) : nearest;
}

__forceinline__ std::uint32_t __float_as_uint(float x) { return __builtin_bit_cast(std::uint32_t, x); }
// The place of the lowest bit that is set, counted from 1; 0 if none is.
__forceinline__ int __ffs(int x) { return __builtin_ffs(x); }
__forceinline__ int __popc(unsigned x) { return __builtin_popcount(x); }
__forceinline__ float __uint_as_float(std::uint32_t x) { return __builtin_bit_cast(float, x); }

__forceinline__ float2 make_float2(float x, float y) { return float2(x, y); }
__forceinline__ float4 make_float4(float x, float y, float z, float w) { return float4(x, y, z, w); }

// The number for which persistent kernels size their grid. It is small, so that in a small problem blocks
// have several tiles and tiles several blocks; and it is not the number of the host's cores, so that a kernel
// does the same everywhere.
__forceinline__ int multiprocessors() { return 4; }

// The CPU device's launch(); the GPU's is in common/cuda/launch.hpp.
// Throws std::invalid_argument if no GPU could launch this.
template <typename... Params, typename... Args>
void launch(void (*kernel)(Params...), const LaunchConfig& config, const Args&... args) {
  // Reading the arguments is the launch's business, not the kernel's: it must not be observed.
  const auto call = [&]() __attribute__((no_sanitize("thread"))) { kernel(args...); };
  using Call = decltype(call);
  cpu_device::launch_body(
      reinterpret_cast<const void*>(kernel), config,
      [](const void* body) __attribute__((no_sanitize("thread"))) { (*static_cast<Call*>(body))(); }, &call);
}

// The short form.
template <typename... Params, typename... Args>
void launch(void (*kernel)(Params...), dim3 grid, dim3 block, std::size_t shared_bytes, const Args&... args) {
  launch(kernel, LaunchConfig{grid, block, shared_bytes}, args...);
}
