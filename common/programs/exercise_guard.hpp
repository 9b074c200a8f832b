#pragma once

// Around a student's file on the CPU device: launch() gives the kernel's address and its arguments byte by
// byte to whoever runs it, which may be another process (common/judge/worker.cpp). build.py compiles this
// before the student's file. What begins with "no CUDA: " the grader shows without that.

#include <array>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <type_traits>
#include <utility>

#include "common/cpu_device/int_vectors.hpp"
#include "common/cpu_device/untrusted.hpp"
#include "common/harness/entry.hpp"
#include "common/step.hpp"

namespace cpu_device {
struct TensorMap;
}

namespace exercise_guard {

// Unnamed within: the plain and the observed file each have their own.
namespace {

constexpr std::size_t MOST_BYTES = 4096;  // of a kernel's parameters; CUDA's limit

// Where each parameter lies among the bytes of all, and where these end.
template <typename... Params>
constexpr auto places() {
  std::array<std::size_t, sizeof...(Params) + 1> at{};
  std::size_t end = 0, i = 0;
  ((at[i++] = end = (end + alignof(Params) - 1) / alignof(Params) * alignof(Params), end += sizeof(Params)),
   ...);
  at[i] = end;
  return at;
}

// What a function gets for a parameter of this type: a copy, or the address of one if copying takes more than
// its bytes. So no constructor of the student's is called.
template <typename P>
using Passed =
    std::conditional_t<std::is_trivially_copy_constructible_v<P> &&
                           std::is_trivially_move_constructible_v<P> && std::is_trivially_destructible_v<P>,
                       P, P&>;

template <typename P>
__attribute__((always_inline, no_sanitize("thread"))) inline P& parameter(std::byte* at) {
  P& here = *reinterpret_cast<P*>(at);
  if constexpr (std::is_same_v<P, cpu_device::TensorMap>) here.owner = P::Owner::parameter;
  return here;
}

template <typename... Params, std::size_t... I>
__attribute__((always_inline, no_sanitize("thread"))) inline void call(const cpu_device::Request& request,
                                                                       std::index_sequence<I...>) {
  constexpr auto at = places<Params...>();
  alignas(64) std::byte own[at.back() + 1];  // this thread's
  __builtin_memcpy(own, request.arguments, at.back());
  reinterpret_cast<void (*)(Passed<Params>...)>(const_cast<void*>(request.kernel))(
      parameter<Params>(own + at[I])...);
}

// Calls the kernel of a Request. build.py finds this by its name, one for each list of parameters.
template <typename... Params>
__attribute__((noipa, no_sanitize("thread"))) void spread(const void* request) {
  call<Params...>(*static_cast<const cpu_device::Request*>(request), std::index_sequence_for<Params...>());
}

template <typename... Params, typename... Args>
void launch(void (*kernel)(Params...), const LaunchConfig& config, const Args&... args) {
  static_assert(
      (!std::is_reference_v<Params> && ...),
      "no CUDA: a parameter of the kernel is a reference, which a GPU cannot follow into the host's memory: "
      "parameters are copied");
  constexpr auto at = places<Params...>();
  static_assert(at.back() <= MOST_BYTES, "no CUDA: the parameters of a kernel take 4096 bytes at most");
  alignas(64) std::byte bytes[at.back() + 1] = {};
  std::size_t i = 0;
  ([&](Params value) { std::memcpy(bytes + at[i++], &value, sizeof value); }(args), ...);
  cpu_device::request_launch({reinterpret_cast<const void*>(kernel), config, bytes, at.back()},
                             spread<Params...>);
}
template <typename... Params, typename... Args>
void launch(void (*kernel)(Params...), dim3 grid, dim3 block, std::size_t shared_bytes, const Args&... args) {
  // With its namespace, as ::launch would fit, too.
  exercise_guard::launch(kernel, LaunchConfig{grid, block, shared_bytes}, args...);
}

template <typename Lambda, typename... Rest>
  requires std::is_class_v<Lambda>
void launch(const Lambda&, const Rest&...) {
  static_assert(!std::is_class_v<Lambda>,
                "no CUDA: a lambda is launched, but a GPU runs kernels only: functions "
                "with __global__ before them");
}

// As CUDA's printf: the kernel copies the values, observed.
template <typename... Values>
__attribute__((noipa, no_sanitize("thread"))) int print(const char* format, Values... values) {
  static_assert((std::is_scalar_v<Values> && ...), "no CUDA: printf takes numbers and pointers");
  cpu_device::check_format(format);
  std::printf(format, values...);
  return sizeof...(values);
}

}  // namespace

}  // namespace exercise_guard

#define launch exercise_guard::launch
#define printf exercise_guard::print
