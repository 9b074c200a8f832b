// A kernel whose main loop the tool knows: for its tests, which compile it and never run it. C = A * B for
// whole tiles; A comes transposed. The tiles of both matrices go round in a ring of STEPS passes of BK terms.

#include "common/cuda/bulk_copy.hpp"
#include "common/cuda/dynamic_shared.hpp"

namespace {

constexpr int BM = 128, BN = 256, BK = 8;  // the block's tile, and terms in a pass of the innermost loop
constexpr int TM = 8, TN = 16;             // the thread's tile
constexpr int THREADS = BM * BN / (TM * TN);
constexpr int STEPS = 16, GROUP = 8;  // passes in the ring, and of these, how many one mbarrier is for
enum { NEVER, ALWAYS, AT_THE_END };
#ifndef WAIT
#define WAIT ALWAYS  // in which passes of a group to wait for the next one
#endif

struct alignas(128) Ring {
  float A[STEPS * BK][BM];
  float B[STEPS * BK][BN];
  std::uint64_t full[STEPS / GROUP];
};

__device__ float4& float4_at(float* p) { return *reinterpret_cast<float4*>(p); }

}  // namespace

__global__ void __launch_bounds__(THREADS)
    tiles(const float* A, const float* B, float* C, int M, int N, int groups, int never) {
  Ring& ring = dynamic_shared<Ring>();
  const int lane = threadIdx.x % 32, m = threadIdx.x / 32 * 16 + lane / 16 * 4, n = lane % 16 * 4;
  const auto copy = [&](int group) {  // by one thread
    std::uint64_t* barrier = &ring.full[group % (STEPS / GROUP)];
    mbarrier_arrive_expect_tx(barrier, sizeof(float) * GROUP * BK * (BM + BN));
    for (int k = 0; k < GROUP * BK; ++k) {
      const int slot = group * GROUP * BK % (STEPS * BK) + k;
      bulk_copy(ring.A[slot], A + (group * GROUP * BK + k) * M, sizeof(float) * BM, barrier);
      bulk_copy(ring.B[slot], B + (group * GROUP * BK + k) * N, sizeof(float) * BN, barrier);
    }
  };
  if (threadIdx.x == 0) {
    for (auto& barrier : ring.full) mbarrier_init(&barrier, 1);
    mbarrier_fence_init();
  }
  __syncthreads();
  if (threadIdx.x == 0) copy(0);

  __align__(16) float a[2][TM], b[2][TN];
  const auto load = [&](int set, int k) {
    for (int i = 0; i < TM; i += 4) float4_at(&a[set][i]) = float4_at(&ring.A[k][m + i * 2]);
    for (int j = 0; j < TN; j += 4) float4_at(&b[set][j]) = float4_at(&ring.B[k][n + j * 16]);
  };
  float sums[TM][TN] = {};
  unsigned k0 = 0;
  mbarrier_wait(&ring.full[0], 0);
  load(0, 0);
  for (int group = 1; group <= groups; ++group) {
    __syncthreads();
    if (threadIdx.x == 0 && group < groups) copy(group);
    int passes = GROUP;
#pragma unroll 1
    do {
      const unsigned here = k0 % (STEPS * BK);
      k0 += BK;
      const unsigned next = k0 % (STEPS * BK);
      const bool wait = WAIT == ALWAYS || (WAIT == AT_THE_END && passes == 1);
#pragma unroll
      for (int k = 0; k < BK; ++k) {
        if (k == BK - 1 && wait) mbarrier_wait(&ring.full[next / (GROUP * BK)], k0 / (STEPS * BK) % 2);
        load((k + 1) % 2, k + 1 < BK ? here + k + 1 : next);
        for (int j = 0; j < TN; ++j) {
          for (int i = 0; i < TM; ++i) {
            const int row = j % 2 == 0 ? i : TM - 1 - i;
            sums[row][j] += a[k % 2][row] * b[k % 2][j];
          }
        }
      }
    } while (--passes);
  }
#ifndef ANY_BANKS
  if (never) {  // asks for registers: sums[i][j] has an even one where a[i] has an odd one
    for (int j = 0; j < TN; ++j) {
      for (int i = 0; i < TM; i += 4) {
        float4_at(&C[(j * TM + i) * THREADS + threadIdx.x * 4]) =
            make_float4(sums[i + 1][j], sums[i][j], sums[i + 3][j], sums[i + 2][j]);
      }
    }
  }
#endif
  for (int i = 0; i < TM; ++i) {
    for (int j = 0; j < TN; ++j) C[(m + i / 4 * 8 + i % 4) * N + n + j / 4 * 64 + j % 4] = sums[i][j];
  }
}
