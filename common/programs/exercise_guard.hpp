#pragma once

// Around a student's entry (sgemm(), gemm_tf32(), ...) on the CPU device: it gets addresses that cannot be
// touched in place of A, B and C, and launch() puts the true ones into the kernel's arguments, and lets none
// of the host's own addresses through. Work on the host crashes, as on a GPU. common/tools/grading/build.py
// compiles this before the student's file, and calls exercise_guard::call() behind it. What begins with "no
// CUDA: " the grader shows without that.

#include <sys/mman.h>

#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <type_traits>
#include <variant>  // for what comes behind: GCC has read all of these beforehand

#include "common/cpu_device/int_vectors.hpp"
#include "common/step.hpp"

namespace exercise_guard {

// Unnamed within: the plain and the observed file each have their own.
namespace {

constexpr std::uintptr_t PAGE = 4096;

// One matrix: where it is, and the place that the entry is told.
struct StandIn {
  std::uintptr_t told = 0;  // the first address of a mapping without rights, a page's slack at both ends
  std::size_t bytes = 0;
  std::uintptr_t shift = 0;  // from there to the truth

  template <typename T>
  T* make(T* matrix, std::int64_t elements) {
    if (matrix == nullptr) return matrix;
    const auto address = reinterpret_cast<std::uintptr_t>(matrix);
    bytes = (static_cast<std::size_t>(elements) * sizeof(T) / PAGE + 4) * PAGE;
    void* place = mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (place == MAP_FAILED) std::abort();
    told = reinterpret_cast<std::uintptr_t>(place);
    const std::uintptr_t stand_in = told + PAGE + address % PAGE;  // aligned as the matrix is
    shift = address - stand_in;
    return reinterpret_cast<T*>(stand_in);
  }
  void end() {
    if (bytes > 0) munmap(reinterpret_cast<void*>(told), bytes);
    bytes = 0;
  }
};

std::array<StandIn, 3> stand_ins;

// The argument with the true addresses, be it a pointer or a struct that holds some.
template <typename T>
__attribute__((no_sanitize("thread"))) T truth(const T& argument) {
  T copy = argument;
  for (std::size_t at = 0; alignof(T) % alignof(void*) == 0 && at + sizeof(void*) <= sizeof(T);
       at += sizeof(void*)) {
    std::uintptr_t word;
    std::memcpy(&word, reinterpret_cast<const char*>(&copy) + at, sizeof word);
    for (const StandIn& matrix : stand_ins) {
      if (word - matrix.told >= matrix.bytes) continue;
      word += matrix.shift;
      std::memcpy(reinterpret_cast<char*>(&copy) + at, &word, sizeof word);
      break;
    }
  }
  return copy;
}

std::uintptr_t stack_top = 0;  // the entry and what it calls lie below on the stack

// Whether a word of the argument is the address of a variable of the entry: the host could read afterwards
// what the kernel writes there, and a GPU cannot reach it.
template <typename T>
__attribute__((noinline, no_sanitize("thread"))) bool points_to_host(const T& argument) {
  const auto bottom = reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0));
  for (std::size_t at = 0; alignof(T) % alignof(void*) == 0 && at + sizeof(void*) <= sizeof(T);
       at += sizeof(void*)) {
    std::uintptr_t word;
    std::memcpy(&word, reinterpret_cast<const char*>(&argument) + at, sizeof word);
    if (word - bottom < stack_top - bottom) return true;
  }
  return false;
}

template <typename... Params, typename... Args>
void launch(void (*kernel)(Params...), const LaunchConfig& config, const Args&... args) {
  static_assert(
      (!std::is_reference_v<Params> && ...),
      "no CUDA: a parameter of the kernel is a reference, which a GPU cannot follow into the host's memory: "
      "parameters are copied");
  if ((points_to_host(args) || ...)) {
    cpu_device::refuse("launch: an argument points to a variable of the host, where no GPU reaches");
  }
  ::launch(kernel, config, truth(args)...);
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

template <typename T>
void call(void (*entry)(const GemmOf<T>&), const GemmOf<T>& g) {
  GemmOf<T> told = g;
  const std::int64_t last = g.batch > 0 ? g.batch - 1 : 0;
  told.A = stand_ins[0].make(g.A, last * g.strideA + g.M * g.lda + g.K);
  told.B = stand_ins[1].make(g.B, last * g.strideB + g.K * g.ldb + g.N);
  told.C = stand_ins[2].make(g.C, last * g.strideC + g.M * g.ldc + g.N);
  stack_top = reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0));
  __asm__("" : "+r"(entry));   // a function of its own, whatever the compiler knows
  cpu_device::confine(&told);  // what it may change lies below
  entry(told);
  cpu_device::confine(nullptr);
  for (StandIn& matrix : stand_ins) matrix.end();
}

// As printf, but for %n, which writes where nobody looks.
template <typename... Values>
__attribute__((noipa, no_sanitize("thread"))) int print(const char* format, const Values&... values) {
  for (const char* at = std::strchr(format, '%'); at != nullptr; at = std::strchr(at + 1, '%')) {
    at += 1 + std::strspn(at + 1, "-+ #0123456789.*'hlLqjzt");
    if (*at == 'n') cpu_device::refuse("printf: a GPU has no %n");
    if (*at == '\0') break;
  }
  return std::printf(format, values...);
}

}  // namespace

}  // namespace exercise_guard

#define launch exercise_guard::launch
#define printf exercise_guard::print
