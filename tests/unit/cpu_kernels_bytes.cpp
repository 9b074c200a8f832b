// Kernels that copy and fill memory by memcpy() and memset().

#include "tests/unit/kernels.hpp"

namespace {

struct Row {
  float values[6];
};

// Each thread brings a row of six floats to shared memory and takes another thread's out. n: 1: without a
// barrier, 2: from behind the end of x, 3: a row too many in shared memory.
__global__ void rows_by_memcpy(float* x, float* y, int n) {
  __shared__ Row rows[8];
  const int t = static_cast<int>(threadIdx.x);
  const int row = n == 3 && t == 7 ? 8 : t;
  memcpy(&rows[row], x + 6 * t + (n == 2 && t == 7 ? 1020 : 0), sizeof(Row));  // here: rows_by_memcpy
  if (n != 1) __syncthreads();
  memcpy(y + 6 * t, &rows[7 - t], sizeof(Row));  // here: rows_taken_out
}

// n: 1: of what nobody has filled.
__global__ void zeros_by_memset(float*, float* y, int n) {
  __shared__ float sums[64];
  const unsigned t = threadIdx.x;
  if (n != 1) memset(&sums[t], 0, sizeof sums[t]);
  sums[t] += 2.0f;  // here: zeros_by_memset
  y[t] = sums[t];
}

template <int FLOATS>
struct Floats {
  float values[FLOATS];
};

// Structs of 16 and 64 bytes, which are aligned as floats are: copied to places 4 bytes behind a multiple of
// 16, through shared memory. n: 1: the last one reaches beyond x.
__global__ void structs_in_between(float* x, float* y, int n) {
  __shared__ __align__(16) float small[4 * 32 + 1], large[16 * 32 + 1];
  const int t = static_cast<int>(threadIdx.x), skip = n == 1 && t == 31 ? 520 : 0;
  auto* in_small = reinterpret_cast<Floats<4>*>(small + 1) + t;
  auto* in_large = reinterpret_cast<Floats<16>*>(large + 1) + t;
  *in_small = *(reinterpret_cast<const Floats<4>*>(x + 1) + t);
  *in_large = *(reinterpret_cast<const Floats<16>*>(x + 1 + skip) + t);  // here: structs_in_between
  __syncthreads();
  *(reinterpret_cast<Floats<4>*>(y + 1) + t) = *(in_small + 31 - 2 * t);
  *(reinterpret_cast<Floats<16>*>(y + 129) + t) = *(in_large + 31 - 2 * t);
}

TEST_KERNELS(rows_by_memcpy, zeros_by_memset, structs_in_between);

}  // namespace
