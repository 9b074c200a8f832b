#pragma once

// Rounding to TF32.

#include <random>
#include <vector>

#include "common/cuda/check.hpp"
#include "common/cuda/tf32.hpp"
#include "experiments/tensor_core_arithmetic/mma_once.hpp"

namespace tensor_core_arithmetic {

__global__ void round_to_tf32(const Bits* from, Bits* to, int count) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) to[i] = to_tf32(__uint_as_float(from[i]));
}

inline json run_rounding() {
  std::vector<Bits> from{0,          0x80000000, 0x3f800000, 0x3f800fff, 0x3f801000, 0x3f801001,
                         0x3f802000, 0x3f803000, 0xbf801000, 0xbf803000, 0x3fffffff, 0x00000001,
                         0x00001000, 0x007fffff, 0x80001000, 0x7f7fffff, 0x7f7fefff, 0x7f7ff000,
                         0x7f800000, 0xff800000, 0x7fc00000, 0x7f800001, 0x7f801000, 0xffffffff};
  std::mt19937 random(7);
  while (from.size() < 256) from.push_back(random());
  const int count = static_cast<int>(from.size());
  Buffer<Bits> in(from), out(from.size());
  round_to_tf32<<<1, 256>>>(in.data(), out.data(), count);
  CUDA_CHECK(cudaGetLastError());
  const std::vector<Bits> to = out.read();
  json rows = json::array();
  for (int i = 0; i < count; ++i) rows.push_back({hex(from[i]), hex(to[i])});
  return rows;
}

}  // namespace tensor_core_arithmetic
