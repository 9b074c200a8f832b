// Small pipelines whose orders are tried out, and what may be wrong with them.

#include "common/cuda/named_barrier.hpp"
#include "tests/unit/kernels.hpp"

namespace {

// The first lane of warp 0 fills two stages in turn, those of the other two warps read them.
enum RingBug { none, count_too_small, arrives_before_last_read, refilled_too_early };

__global__ void ring(float*, float* y, int bug) {
  __shared__ std::uint64_t full[2], empty[2];
  __shared__ float tiles[2][2];
  if (threadIdx.x == 0) {
    for (int stage = 0; stage < 2; ++stage) {
      mbarrier_init(&full[stage], 1);
      mbarrier_init(&empty[stage], bug == count_too_small ? 1 : 2);
    }
  }
  __syncthreads();
  const unsigned warp = threadIdx.x / 32;
  if (threadIdx.x % 32 != 0) return;
  float sum = 0.0f;
  for (int tile = 0; tile < 4; ++tile) {
    const int stage = tile % 2, round = tile / 2;
    if (warp == 0) {
      if (bug != refilled_too_early || tile < 3) mbarrier_wait(&empty[stage], round % 2 ^ 1);
      tiles[stage][0] = tiles[stage][1] = static_cast<float>(tile);  // here: ring_fill
      mbarrier_arrive(&full[stage]);
    } else {
      mbarrier_wait(&full[stage], round % 2);
      sum += tiles[stage][0];  // here: ring_read
      if (bug == arrives_before_last_read) mbarrier_arrive(&empty[stage]);
      sum += tiles[stage][1];
      if (bug != arrives_before_last_read) mbarrier_arrive(&empty[stage]);
    }
  }
  y[warp] = sum;
}

// Warp 0 sends n signals, warp 1 waits for each; `answered`: warp 0 goes on only then.
template <bool ANSWERED>
__device__ void signals(float*, float* y, int n) {
  __shared__ std::uint64_t go, answer;
  if (threadIdx.x == 0) mbarrier_init(&answer, 1);
  init(&go, 1);
  if (threadIdx.x % 32 != 0) return;
  for (int i = 0; i < n; ++i) {
    if (threadIdx.x == 0) {
      mbarrier_arrive(&go);
      if (ANSWERED) mbarrier_wait(&answer, i % 2);
    } else {
      mbarrier_wait(&go, i % 2);  // here: signals
      if (ANSWERED) mbarrier_arrive(&answer);
    }
  }
  y[threadIdx.x] = 1.0f;
}
__global__ void answered_signals(float* x, float* y, int n) { signals<true>(x, y, n); }
__global__ void unanswered_signals(float* x, float* y, int n) { signals<false>(x, y, n); }

// Warps 1 and 2 arrive when they have written; warp 0 reads what warp 1 has. `arrivals`: what it waits for;
// if that is one, it takes warp 1 for the first.
__global__ void first_come(float*, float* y, int arrivals) {
  __shared__ std::uint64_t written;
  __shared__ float slots[3];
  init(&written, static_cast<unsigned>(arrivals));
  const unsigned warp = threadIdx.x / 32;
  if (threadIdx.x % 32 != 0) return;
  if (warp > 0) {
    slots[warp] = 1.0f;
    mbarrier_arrive(&written);
  } else {
    mbarrier_wait(&written, 0);  // here: first_come
    y[0] = slots[1];
  }
}

// Two pairs of warps share a named barrier; in each pair the second reads what the first has written.
__global__ void pairs(float*, float* y, int barriers) {
  __shared__ float slots[4];
  const unsigned warp = threadIdx.x / 32;
  if (warp % 2 == 0 && threadIdx.x % 32 == 0) slots[warp] = 1.0f;
  named_barrier_sync(barriers == 1 ? 1 : 1 + warp / 2, 64);
  if (warp % 2 == 1) y[threadIdx.x] = slots[warp - 1];  // here: pairs
}

}  // namespace

TEST_KERNELS(ring, answered_signals, unanswered_signals, first_come, pairs)
