#pragma once

// How accurate a kernel is asked to be that computes FP32 by narrower products, and what it says it did. Such
// a kernel's function takes the mode beside the problem:
//
//     Ways sgemm(const Gemm& g, Accuracy accuracy)

enum class Accuracy {
  fast,     // nothing is guarded
  checked,  // parts of C that the fast way may compute worse than FP32 summation are computed in FP32
  strict,   // and so are those of which it is not proved that FP32 summation's error bound holds
};
inline constexpr const char* accuracy_names[] = {"fast", "checked", "strict"};  // as --accuracy has them

// The ways in which the parts of C were computed in a call, and how many parts in each. The counts are in
// device memory, complete when the call has ended and valid until the next one.
struct Ways {
  const unsigned* counts = nullptr;    // [number]
  const char* const* names = nullptr;  // [number]
  int number = 0;                      // 0: there is only one way
};
