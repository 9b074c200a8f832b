// Each place that a test expects in a report is marked by a comment "here: NAME".

#include "tests/unit/sync_kernels.hpp"

#include "common/cuda/async_copy.hpp"
#include "common/cuda/bulk_copy.hpp"
#include "common/cuda/named_barrier.hpp"
#include "tests/unit/sync_operations.hpp"

namespace {

constexpr unsigned all_lanes = 0xffffffff;

// ---- Shuffles --------------------------------------------------------------------------------------------

// Each lane brings x[lane]; y: what it gets by four operations, 32 values each. n: the width and the
// distance.
template <typename T>
__device__ void shuffle_values(float* x, float* y, int n) {
  const int lane = static_cast<int>(threadIdx.x), width = n / 100, by = n % 100;
  const T value = static_cast<T>(x[lane]);
  y[lane] = static_cast<float>(__shfl_sync(all_lanes, value, by, width));
  y[32 + lane] = static_cast<float>(__shfl_up_sync(all_lanes, value, by, width));
  y[64 + lane] = static_cast<float>(__shfl_down_sync(all_lanes, value, by, width));
  y[96 + lane] = static_cast<float>(__shfl_xor_sync(all_lanes, value, by, width));
}
__global__ void shuffle_floats(float* x, float* y, int n) { shuffle_values<float>(x, y, n); }
__global__ void shuffle_ints(float* x, float* y, int n) { shuffle_values<int>(x, y, n); }
__global__ void shuffle_doubles(float* x, float* y, int n) { shuffle_values<double>(x, y, n); }

// The lower n lanes rotate their values; the others are somewhere else, or gone.
__global__ void shuffle_in_part(float* x, float* y, int n) {
  const int lane = static_cast<int>(threadIdx.x);
  const unsigned mask = (1u << n) - 1;
  if (lane > n) return;
  if (lane < n) y[lane] = __shfl_sync(mask, x[lane], (lane + 1) % n);
}

// Lane n is gone, and the one below wants its value.
__global__ void shuffle_without_source(float* x, float* y, int n) {
  const int lane = static_cast<int>(threadIdx.x);
  if (lane == n) return;
  y[lane] = __shfl_down_sync(all_lanes, x[lane], 1);  // here: shuffle_without_source
}

__global__ void shuffle_elsewhere(float* x, float* y, int n) {
  const int lane = static_cast<int>(threadIdx.x);
  if (lane == n) {
    __syncthreads();  // here: elsewhere
  } else {
    y[lane] = __shfl_xor_sync(all_lanes, x[lane], 1);  // here: shuffle_elsewhere
  }
}

__global__ void syncwarp_without_itself(float*, float*, int n) {
  __syncwarp(all_lanes & ~(1u << n));  // here: syncwarp_without_itself
}

// Values go round, but memory is not ordered.
__global__ void shuffle_is_no_barrier(float* x, float* y, int n) {
  __shared__ float slots[32];
  const unsigned lane = threadIdx.x;
  slots[lane] = x[lane];
  const float value = __shfl_xor_sync(all_lanes, x[lane], n);
  y[lane] = value + slots[lane ^ static_cast<unsigned>(n)];  // here: shuffle_is_no_barrier
}

// ---- Operations that a wgmma or an ldmatrix will be like -------------------------------------------------

// Thread n leaves before. Two rounds; in between, the warps of the first warpgroup run apart.
__global__ void sums_of_warpgroups(float* x, float* y, int n) {
  const int t = static_cast<int>(threadIdx.x);
  if (t == n) return;
  float sum = x[t];
  warpgroup_sum(&sum, __LINE__);  // here: sums_of_warpgroups
  for (int i = 0; i < t / 32 && t < 128; ++i) __syncwarp();
  warpgroup_sum(&sum, __LINE__);
  y[t] = sum;
}

// Lane n's neighbour has not seen what lane n wrote.
__global__ void loads_of_warps(float* x, float* y, int n) {
  __shared__ float slots[64];
  const unsigned t = threadIdx.x;
  slots[t] = x[t];
  __syncthreads();
  if (static_cast<int>(t) == n) slots[t] = 0.0f;
  const float value = warp_load(&slots[t ^ 1], __LINE__);  // here: loads_of_warps
  y[t] = value;
}

// ---- Barriers of some threads ----------------------------------------------------------------------------

// Each half of a warp exchanges values, the upper half n times.
__global__ void halves_of_a_warp(float*, float* y, int n) {
  __shared__ float slots[64];
  const unsigned t = threadIdx.x, half = t / 16, lanes = half % 2 == 0 ? 0x0000ffff : 0xffff0000;
  int right = 0;
  for (int round = 0; round < (half % 2 == 0 ? 1 : n); ++round) {
    slots[t] = static_cast<float>(round);
    __syncwarp(lanes);
    right += slots[half * 16 + (t + 1) % 16] == static_cast<float>(round);
    __syncwarp(lanes);
  }
  y[t] = static_cast<float>(right);
}

// Thread n reads what thread 0 wrote; both halves of the warp have had a barrier, but not the same one.
__global__ void across_halves(float*, float* y, int n) {
  __shared__ float slots[1];
  const unsigned t = threadIdx.x;
  if (t == 0) slots[0] = 1.0f;
  __syncwarp(t % 32 < 16 ? 0x0000ffff : 0xffff0000);
  if (static_cast<int>(t) == n) y[0] = slots[0];  // here: across_halves
}

// Warp by warp: each adds one to all that the warp before it wrote, and lets the next one go on. n rounds.
__global__ void chain_of_named_barriers(float*, float* y, int n) {
  __shared__ float slots[32];
  const unsigned warp = threadIdx.x / 32, lane = threadIdx.x % 32, warps = blockDim.x / 32;
  for (int round = 0; round < n; ++round) {
    if (round > 0 || warp > 0) named_barrier_sync(1 + warp, 64);
    slots[31 - lane] = round == 0 && warp == 0 ? 1.0f : slots[31 - lane] + 1.0f;
    __syncwarp();
    if (round + 1 < n || warp + 1 < warps) named_barrier_arrive(1 + (warp + 1) % warps, 64);
  }
  if (warp + 1 == warps) y[lane] = slots[lane];
}

// Warp 1 only says that it has come, and does not wait for what warp 0 wrote before.
__global__ void arrive_is_no_wait(float*, float* y, int) {
  __shared__ float slots[1];
  const unsigned t = threadIdx.x;
  if (t == 0) slots[0] = 1.0f;
  if (t < 32) {
    named_barrier_sync(1, 64);
  } else {
    named_barrier_arrive(1, 64);
  }
  if (t == 40) y[0] = slots[0];  // here: arrive_is_no_wait
}

// A warp comes as a whole, even if some of its lanes are gone, or never were. y: what the other warp wrote.
__global__ void named_barrier_without_some(float* x, float* y, int n) {
  __shared__ float slots[64];
  const unsigned t = threadIdx.x;
  if (static_cast<int>(t % 32) >= n) return;
  slots[t] = x[t];
  named_barrier_sync(1, 64);
  y[t] = slots[t ^ 32];
}

// The same warp comes twice, and opens the barrier for the other one.
__global__ void named_barrier_twice(float*, float* y, int) {
  __shared__ float slots[1];
  const unsigned t = threadIdx.x;
  if (t == 0) slots[0] = 1.0f;
  if (t < 32) {
    __syncwarp();
    named_barrier_arrive(1, 96);
    named_barrier_arrive(1, 96);
  } else {
    named_barrier_sync(1, 96);
    y[t] = slots[0];
  }
}

__global__ void named_barrier_number(float*, float*, int n) {
  named_barrier_sync(static_cast<unsigned>(n), 64);  // here: named_barrier_number
}

__global__ void named_barrier_count(float*, float*, int n) {
  named_barrier_sync(1, static_cast<unsigned>(n));  // here: named_barrier_count
}

__global__ void named_barrier_too_few(float*, float*, int) {
  if (threadIdx.x < 32) named_barrier_sync(3, 64);  // here: named_barrier_too_few
}

__global__ void named_barrier_half_a_warp(float*, float*, int) {
  if (threadIdx.x % 32 < 16) named_barrier_sync(3, 32);  // here: named_barrier_half_a_warp
  __syncthreads();
}

// ---- Mbarriers -------------------------------------------------------------------------------------------

__device__ void init(std::uint64_t* barrier, unsigned count) {
  if (threadIdx.x == 0) {
    mbarrier_init(barrier, count);
    mbarrier_fence_init();
  }
  __syncthreads();
}

// n rounds: thread 0 writes for all others, who answer each in its place.
__global__ void phases(float*, float* y, int n) {
  __shared__ std::uint64_t go, done;
  __shared__ float question, answers[256];
  const unsigned t = threadIdx.x, others = blockDim.x - 1;
  if (t == 0) mbarrier_init(&done, others);
  init(&go, 1);
  float sum = 0.0f;
  for (int round = 0; round < n; ++round) {
    if (t == 0) {
      question = static_cast<float>(round);
      mbarrier_arrive(&go);
      mbarrier_wait(&done, round % 2);
      for (unsigned i = 1; i <= others; ++i) sum += answers[i];
    } else {
      mbarrier_wait(&go, round % 2);
      answers[t] = question;
      mbarrier_arrive(&done);
    }
  }
  if (t == 0) y[0] = sum;
}

// The only thread looks for a phase that it ends itself, when it has looked often enough.
__global__ void polls(float*, float* y, int n) {
  __shared__ std::uint64_t barrier;
  init(&barrier, 1);
  int tries = 0;
  while (!mbarrier_try_wait(&barrier, 0)) {
    if (++tries == n) mbarrier_arrive(&barrier);
  }
  y[0] = static_cast<float>(tries);
}

__global__ void hangs_polling(float*, float*, int) {
  __shared__ std::uint64_t barrier;
  init(&barrier, 2);
  if (threadIdx.x == 0) mbarrier_arrive(&barrier);
  while (!mbarrier_try_wait(&barrier, 0)) {  // here: hangs_polling
  }
}

// The memory of an mbarrier serves twice.
__global__ void invalidated(float*, float* y, int) {
  __shared__ std::uint64_t barrier;
  for (unsigned count = 1; count <= 2; ++count) {
    init(&barrier, count);
    if (threadIdx.x < count) mbarrier_arrive(&barrier);
    mbarrier_wait(&barrier, 0);
    __syncthreads();
    if (threadIdx.x == 0) mbarrier_invalidate(&barrier);
    __syncthreads();
  }
  y[threadIdx.x] = 1.0f;
}

__global__ void no_init(float*, float*, int) {
  __shared__ std::uint64_t barrier;
  mbarrier_arrive(&barrier);  // here: no_init
}

__global__ void init_twice(float*, float*, int) {
  __shared__ std::uint64_t barrier;
  init(&barrier, 1);
  if (threadIdx.x == 0) mbarrier_init(&barrier, 1);  // here: init_twice
}

__global__ void init_without_barrier(float*, float*, int n) {
  __shared__ std::uint64_t barrier;
  if (threadIdx.x == 0) mbarrier_init(&barrier, 64);
  if (static_cast<int>(threadIdx.x) == n) mbarrier_arrive(&barrier);  // here: init_without_barrier
}

__global__ void no_fence(float* x, float*, int) {
  __shared__ __align__(16) float slots[4];
  __shared__ std::uint64_t barrier;
  mbarrier_init(&barrier, 1);
  mbarrier_arrive_expect_tx(&barrier, 16);
  bulk_copy(slots, x, 16, &barrier);  // here: no_fence
  mbarrier_wait(&barrier, 0);
}

__global__ void bad_parity(float*, float*, int n) {
  __shared__ std::uint64_t barrier;
  init(&barrier, 1);
  mbarrier_wait(&barrier, static_cast<unsigned>(n));  // here: bad_parity
}

__global__ void too_many_arrivals(float*, float*, int) {
  __shared__ std::uint64_t barrier;
  init(&barrier, 1);
  mbarrier_expect_tx(&barrier, 16);
  mbarrier_arrive(&barrier);
  mbarrier_arrive(&barrier);  // here: too_many_arrivals
}

__global__ void too_many_bytes(float*, float*, int n) {
  __shared__ std::uint64_t barrier;
  init(&barrier, 1);
  mbarrier_expect_tx(&barrier, 1 << 19);
  mbarrier_expect_tx(&barrier, static_cast<unsigned>((1 << 19) - 1 + n));  // here: too_many_bytes
}

__global__ void overwritten_mbarrier(float*, float*, int) {
  __shared__ std::uint64_t barrier;
  init(&barrier, 1);
  barrier = 0;
  mbarrier_arrive(&barrier);  // here: overwritten_mbarrier
}

// Thread 1 waits for thread 0's arrival, and reads what that wrote after; or what thread 2 wrote, which did
// not arrive but only announced (n is 2).
__global__ void expect_is_no_arrive(float*, float* y, int n) {
  __shared__ std::uint64_t barrier;
  __shared__ float slots[1];
  init(&barrier, 1);
  const int t = static_cast<int>(threadIdx.x);
  if (t == 2) {
    if (n == 2) slots[0] = 1.0f;
    mbarrier_expect_tx(&barrier, 0);
  }
  if (t == 0) {
    mbarrier_arrive(&barrier);
    if (n == 0) slots[0] = 1.0f;
  }
  if (t == 1) {
    mbarrier_wait(&barrier, 0);
    mbarrier_wait(&barrier, 0);
  }
  if (t == 33) mbarrier_wait(&barrier, 0);
  if (t == 33) y[0] = slots[0];  // here: expect_is_no_arrive
}

// Thread 0 writes, its warp meets, lane 31 arrives, lane 40 waits, its warp meets, lane 63 reads.
__global__ void chain(float*, float* y, int) {
  __shared__ std::uint64_t barrier;
  __shared__ float slots[1];
  init(&barrier, 1);
  const unsigned t = threadIdx.x;
  if (t == 0) slots[0] = 3.0f;
  __syncwarp();
  if (t == 31) mbarrier_arrive(&barrier);
  if (t == 40) mbarrier_wait(&barrier, 0);
  __syncwarp();
  if (t == 63) y[0] = slots[0];
}

// Everybody reads one word, warp after warp, without a barrier of the block; at last thread 0 writes it.
// Thread n does not say that it has read; -1: everybody does.
__global__ void many_readers(float*, float* y, int n) {
  __shared__ std::uint64_t barrier, turn[32];
  __shared__ float slots[1];
  const unsigned t = threadIdx.x, warp = t / 32;
  if (t == 0) {
    slots[0] = 1.0f;
    for (unsigned i = 0; i < blockDim.x / 32; ++i) mbarrier_init(&turn[i], 1);
  }
  init(&barrier, blockDim.x - (n >= 0 ? 1 : 0));
  for (unsigned i = 0; i < warp; ++i) mbarrier_wait(&turn[i], 0);
  y[t] = slots[0];
  if (t % 32 == 0) mbarrier_arrive(&turn[warp]);
  if (static_cast<int>(t) != n) mbarrier_arrive(&barrier);
  if (t == 0) {
    mbarrier_wait(&barrier, 0);
    slots[0] = 2.0f;  // here: many_readers
  }
}

// ---- Bulk copies -----------------------------------------------------------------------------------------

// Two copies are asked for, and the source of the second is changed. y: what the slots hold when they are
// looked at without waiting, and after each of two waits.
__global__ void bulk_order(float* x, float* y, int) {
  __shared__ __align__(16) float slots[2][4];
  __shared__ std::uint64_t barriers[2];
  for (std::uint64_t& barrier : barriers) mbarrier_init(&barrier, 1);
  mbarrier_fence_init();
  for (int i = 0; i < 2; ++i) {
    mbarrier_arrive_expect_tx(&barriers[i], 16);
    bulk_copy(slots[i], x + 4 * i, 16, &barriers[i]);
  }
  x[4] += 10.0f;
  *y++ = slots[0][0];
  *y++ = slots[1][0];
  mbarrier_wait(&barriers[0], 0);
  *y++ = slots[0][0];
  *y++ = slots[1][0];
  mbarrier_wait(&barriers[1], 0);
  *y++ = slots[0][0];
  *y++ = slots[1][0];
}

// One thread waits for the copy, and a barrier lets all others know.
__global__ void bulk_after_syncthreads(float* x, float* y, int n) {
  __shared__ __align__(16) float slots[256];
  __shared__ std::uint64_t barrier;
  init(&barrier, 1);
  const unsigned t = threadIdx.x;
  for (int round = 0; round < n; ++round) {
    if (t == 0) {
      mbarrier_arrive_expect_tx(&barrier, 1024);
      bulk_copy(slots, x + 256 * round, 1024, &barrier);
      mbarrier_wait(&barrier, round % 2);
    }
    __syncthreads();
    y[256 * round + t] = slots[255 - t];
    __syncthreads();
  }
}

// A warp copies 32 rows of n floats at once, one by each lane, onto one mbarrier, at which lane 0 has
// announced all of their bytes; the others add up the rows. A buffer for two tiles, 5 tiles, each 4 floats
// further on in x.
__global__ void bulk_rows_by_lanes(float* x, float* y, int n) {
  __shared__ __align__(16) float rows[2][32][256 + 4];
  __shared__ std::uint64_t full[2], empty[2];
  const unsigned t = threadIdx.x, readers = blockDim.x - 32;
  const auto row_bytes = static_cast<unsigned>(n) * 4;
  if (t == 0) {
    for (int i = 0; i < 2; ++i) {
      mbarrier_init(&full[i], 1);
      mbarrier_init(&empty[i], readers);
    }
    mbarrier_fence_init();
  }
  __syncthreads();
  float sum = 0.0f;
  for (int tile = 0; tile < 5; ++tile) {
    const int buffer = tile % 2, phase = tile / 2 % 2;
    if (t >= readers) {
      const unsigned lane = t - readers;
      mbarrier_wait(&empty[buffer], phase ^ 1);
      if (lane == 0) mbarrier_arrive_expect_tx(&full[buffer], 32 * row_bytes);
      __syncwarp();
      bulk_copy(rows[buffer][lane], x + 4 * tile + 16 * lane, row_bytes, &full[buffer]);
    } else {
      mbarrier_wait(&full[buffer], phase);
      for (int i = 0; i < n; ++i) sum += rows[buffer][t % 32][i];
      mbarrier_arrive(&empty[buffer]);
    }
  }
  if (t < readers) y[t] = sum;
}

__global__ void copies_arrive(float* x, float* y, int) {
  __shared__ float slots[64];
  __shared__ std::uint64_t barrier;
  init(&barrier, 64);
  const unsigned t = threadIdx.x;
  async_copy<4>(&slots[t], &x[t], true);
  mbarrier_arrive_after_async_copies(&barrier);
  mbarrier_wait(&barrier, 0);
  y[t] = slots[63 - t];
}

__global__ void bulk_misaligned(float* x, float*, int n) {
  __shared__ __align__(16) float slots[8];
  __shared__ std::uint64_t barrier;
  init(&barrier, 1);
  mbarrier_arrive_expect_tx(&barrier, 16);
  bulk_copy(slots + n % 10, x + n / 10 % 10, 16 + 4 * (n / 100), &barrier);  // here: bulk_misaligned
  mbarrier_wait(&barrier, 0);
}

__global__ void bulk_outside(float* x, float*, int n) {
  __shared__ __align__(16) float slots[16];
  __shared__ std::uint64_t barrier;
  init(&barrier, 1);
  mbarrier_arrive_expect_tx(&barrier, 64);
  bulk_copy(slots + n % 100, x + n / 100, 64, &barrier);  // here: bulk_outside
  mbarrier_wait(&barrier, 0);
}

// Thread n still reads what thread 0's copy overwrites.
__global__ void bulk_overwrites(float* x, float* y, int n) {
  __shared__ __align__(16) float slots[4];
  __shared__ std::uint64_t barrier;
  init(&barrier, 1);
  const int t = static_cast<int>(threadIdx.x);
  if (t < 4) slots[t] = 0.0f;
  __syncthreads();
  if (t == n) y[0] = slots[1];  // here: bulk_overwrites_reader
  if (t == 63) {
    mbarrier_arrive_expect_tx(&barrier, 16);
    bulk_copy(slots, x, 16, &barrier);  // here: bulk_overwrites
  }
  mbarrier_wait(&barrier, 0);
}

// Another thread changes what is copied from; with a wait before (n is 1) or without.
__global__ void bulk_source_overwritten(float* x, float*, int n) {
  __shared__ __align__(16) float slots[4];
  __shared__ std::uint64_t barrier;
  init(&barrier, 1);
  if (threadIdx.x == 0) {
    mbarrier_arrive_expect_tx(&barrier, 16);
    bulk_copy(slots, x, 16, &barrier);
  }
  if (n == 1) mbarrier_wait(&barrier, 0);
  __syncthreads();
  if (threadIdx.x == 1) x[2] = 1.0f;  // here: bulk_source_overwritten
  mbarrier_wait(&barrier, 0);
}

// ---- Parts of words --------------------------------------------------------------------------------------

using Half = std::uint16_t;

// Neighbours write the halves of a word, and a byte each; then whole words are read.
__global__ void halves(float*, float* y, int) {
  __shared__ __align__(8) Half slots[64];
  __shared__ __align__(8) unsigned char bytes[64];
  const unsigned t = threadIdx.x;
  slots[t] = static_cast<Half>(t);
  bytes[t] = static_cast<unsigned char>(t);
  __syncthreads();
  const auto* words = reinterpret_cast<const std::uint32_t*>(slots);
  y[t] = static_cast<float>(words[t / 2] >> t % 2 * 16 & 0xffff) +
         static_cast<float>(reinterpret_cast<const std::uint32_t*>(bytes)[t / 4] >> t % 4 * 8 & 0xff);
  __syncthreads();
  if (t < 32) reinterpret_cast<std::uint32_t*>(slots)[t] = 0;
}

__global__ void unwritten_half(float*, float* y, int n) {
  __shared__ __align__(4) Half slots[2];
  slots[n] = 1;
  const auto* word = reinterpret_cast<const std::uint32_t*>(slots);
  y[0] = static_cast<float>(*word);  // here: unwritten_half
}

// Thread 0 writes a half, and thread n the half with its number modulo 2.
__global__ void half_race(float*, float* y, int n) {
  __shared__ __align__(4) Half slots[2];
  const int t = static_cast<int>(threadIdx.x);
  if (t == 0 || t == n) slots[t % 2] = 1;  // here: half_race
  __syncthreads();
  y[0] = slots[0];
}

// Halves of the words of y, seen as Half.
__global__ void global_halves(float*, float* y, int n) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < n) reinterpret_cast<Half*>(y)[i] = static_cast<Half>(i);  // here: global_halves
}

// ---- What is reported ------------------------------------------------------------------------------------

// The blocks from n on write where nobody may, each once; the last thread first, as the others wait.
__global__ void fault_in_blocks(float*, float* y, int n) {
  if (static_cast<int>(blockIdx.x) < n) return;
  if (threadIdx.x + 1 != blockDim.x) __syncwarp();
  y[blockIdx.x * blockDim.x + threadIdx.x] = 1.0f;  // here: fault_in_blocks
}

// Those from n on cannot go on; the one before does something wrong, late, and the last does so early.
__global__ void stop_in_blocks(float* x, float* y, int n) {
  const int block = static_cast<int>(blockIdx.x);
  if (block + 1 == n) {
    for (int i = 0; i < 1000; ++i) __syncthreads();
    x[block] = 1.0f;  // here: stop_late
  }
  if (block + 1 == static_cast<int>(gridDim.x)) x[block] = 1.0f;  // here: stop_after
  if (block >= n && threadIdx.x % 2 == 0) __syncthreads();        // here: stop_in_blocks
  y[block] = 1.0f;
}

// All blocks write the same.
__global__ void race_of_blocks(float*, float* y, int) {
  if (threadIdx.x == 0) y[0] = 1.0f;  // here: race_of_blocks
}

}  // namespace

extern const SyncKernels SYNC_KERNELS;
const SyncKernels SYNC_KERNELS{
    .shuffle_floats = shuffle_floats,
    .shuffle_ints = shuffle_ints,
    .shuffle_doubles = shuffle_doubles,
    .shuffle_in_part = shuffle_in_part,
    .sums_of_warpgroups = sums_of_warpgroups,
    .loads_of_warps = loads_of_warps,
    .halves_of_a_warp = halves_of_a_warp,
    .chain_of_named_barriers = chain_of_named_barriers,
    .named_barrier_without_some = named_barrier_without_some,
    .named_barrier_twice = named_barrier_twice,
    .phases = phases,
    .polls = polls,
    .invalidated = invalidated,
    .bulk_order = bulk_order,
    .bulk_after_syncthreads = bulk_after_syncthreads,
    .bulk_rows_by_lanes = bulk_rows_by_lanes,
    .copies_arrive = copies_arrive,
    .chain = chain,
    .halves = halves,
    .global_halves = global_halves,
    .many_readers = many_readers,
    .shuffle_without_source = shuffle_without_source,
    .shuffle_elsewhere = shuffle_elsewhere,
    .syncwarp_without_itself = syncwarp_without_itself,
    .across_halves = across_halves,
    .shuffle_is_no_barrier = shuffle_is_no_barrier,
    .arrive_is_no_wait = arrive_is_no_wait,
    .named_barrier_number = named_barrier_number,
    .named_barrier_count = named_barrier_count,
    .named_barrier_too_few = named_barrier_too_few,
    .named_barrier_half_a_warp = named_barrier_half_a_warp,
    .no_init = no_init,
    .init_twice = init_twice,
    .init_without_barrier = init_without_barrier,
    .no_fence = no_fence,
    .bad_parity = bad_parity,
    .too_many_arrivals = too_many_arrivals,
    .too_many_bytes = too_many_bytes,
    .overwritten_mbarrier = overwritten_mbarrier,
    .expect_is_no_arrive = expect_is_no_arrive,
    .hangs_polling = hangs_polling,
    .bulk_misaligned = bulk_misaligned,
    .bulk_outside = bulk_outside,
    .bulk_overwrites = bulk_overwrites,
    .bulk_source_overwritten = bulk_source_overwritten,
    .unwritten_half = unwritten_half,
    .half_race = half_race,
    .fault_in_blocks = fault_in_blocks,
    .stop_in_blocks = stop_in_blocks,
    .race_of_blocks = race_of_blocks,
};
