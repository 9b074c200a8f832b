#pragma once

// Finds the function of the kernel file that this unit compiles: sgemm(const Gemm&), or for inputs of another
// type gemm(const GemmBf16&) and so on. What it takes says the type.

#include "common/harness/entry.hpp"

// Overloads that no file defines: both names exist, whichever of them the file has.
struct NoStep;
void sgemm(const NoStep&);
void gemm(const NoStep&);

template <typename T>
constexpr harness::Entry find_entry(void (*step)(const GemmOf<T>&), void (*)(const NoStep&)) {
  return step;
}
template <typename T>
constexpr harness::Entry find_entry(void (*)(const NoStep&), void (*step)(const GemmOf<T>&)) {
  return step;
}
