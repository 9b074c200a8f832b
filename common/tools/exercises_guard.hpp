#pragma once

// Around a student's sgemm() on the CPU device: it gets addresses that cannot be touched in place of A, B and
// C, and launch() puts the true ones into the kernel's arguments. Work on the host crashes, as on a GPU.
// exercises_build.py compiles this before the student's file, and calls exercise_guard::call() behind it.

#include <sys/mman.h>

#include <array>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "common/step.hpp"

namespace exercise_guard {

// Unnamed within: the plain and the observed file each have their own.
namespace {

constexpr std::uintptr_t PAGE = 4096;

// One matrix: where it is, and the place that sgemm() is told.
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

template <typename... Params, typename... Args>
void launch(void (*kernel)(Params...), dim3 grid, dim3 block, std::size_t shared_bytes, const Args&... args) {
  ::launch(kernel, grid, block, shared_bytes, truth(args)...);
}

void call(void (*sgemm)(const Gemm&), const Gemm& g) {
  Gemm told = g;
  const std::int64_t last = g.batch > 0 ? g.batch - 1 : 0;
  told.A = stand_ins[0].make(g.A, last * g.strideA + g.M * g.lda + g.K);
  told.B = stand_ins[1].make(g.B, last * g.strideB + g.K * g.ldb + g.N);
  told.C = stand_ins[2].make(g.C, last * g.strideC + g.M * g.ldc + g.N);
  sgemm(told);
  for (StandIn& matrix : stand_ins) matrix.end();
}

}  // namespace

}  // namespace exercise_guard

#define launch exercise_guard::launch
