#pragma once

// What the tests on a GPU share. Exit status: 0 all is right, 1 something is not, 77 no GPU can run the test.

#include <cstdio>
#include <exception>
#include <string>

#include "common/cuda/launch.hpp"

inline int failures = 0;

inline void expect(bool right, const std::string& what) {
  if (!right) std::printf("FAILED: %s\n", what.c_str());
  failures += !right;
}

// test(major) runs on a GPU of compute capability `least_major` or newer.
inline int test_gpu(void (*test)(int major), int least_major = 0) {
  int devices = 0, major = 0;
  if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0 ||
      cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 0) != cudaSuccess ||
      major < least_major) {
    std::printf("skipped: no GPU of compute capability %d.0 or newer\n", least_major);
    return 77;
  }
  try {
    test(major);
  } catch (const std::exception& error) {
    expect(false, error.what());
  }
  return failures == 0 ? 0 : 1;
}
