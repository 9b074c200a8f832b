#pragma once

// The kernel of the splitting pass. A line is a row of A or a column of B; whatever it was in memory, its
// parts are K-major.

#include "common/cuda/async_copy.hpp"
#include "common/cuda/cluster.hpp"
#include "common/cuda/dependent_launch.hpp"
#include "common/cuda/dynamic_shared.hpp"
#include "common/cuda/float4.hpp"
#include "common/step.hpp"
#include "steps/47_every_shape/hi_lo.hpp"
#include "steps/47_every_shape/parts.hpp"

// In an unnamed namespace, as the kernel is: a program holds all this for both devices.
namespace {

// Lines as they are in A or B.
struct Lines {
  const float* data;
  int lines, K;
  std::int64_t ld, stride;
  bool columns;  // of the matrix as it lies in memory; otherwise they are its rows
};

// Where their parts go. A line's parts begin where a line of the L2 does: pitch is a multiple of 64 elements,
// counts_pitch of 8, as TMA needs it.
struct SplitLines {
  fp16* parts;   // [batch][PARTS][lines][pitch]
  fp16* counts;  // [batch][lines][counts_pitch]
  Line* facts;   // [batch][lines]
  std::int64_t pitch, counts_pitch;
};

namespace splitting {

constexpr int TL = 4;                  // lines of a thread, which has TK terms of each
constexpr int GROUP = COUNTED_K / TK;  // threads that share a count; all lie in one warp
constexpr int MOST_BLOCKS = 8;         // of a cluster
constexpr int KEPT = 2;                // slices of a block's terms that wait in shared memory

// How a block of THREADS threads splits STRIP lines: slice by slice, TERMS of each line. With few registers a
// thread, BLOCKS of them have room on a multiprocessor: while some compute, the elements of others are on
// their way.
template <int THREADS_, int STRIP_, int BLOCKS_>
struct FormOf {
  static constexpr int THREADS = THREADS_, STRIP = STRIP_, BLOCKS = BLOCKS_;
  static constexpr int ACROSS = STRIP / TL;            // threads that have the same terms, side by side
  static constexpr int TERMS = THREADS / ACROSS * TK;  // of a line, in a slice
  static_assert(32 % (GROUP * ACROSS) == 0);
  static_assert(STRIP * MOST_BLOCKS <= THREADS);
};

template <class Form>
struct Shared {
  static constexpr int STRIP = Form::STRIP;
  unsigned largest[STRIP];      // bits of the largest magnitude in this block's share of a line
  unsigned all_largest[STRIP];  // and in all of it, if the cluster has several blocks
  unsigned lossy[STRIP];        // elements in all of a line: in the first block
  unsigned zeros[STRIP];        // likewise
  unsigned sparse[STRIP];       // blocks, likewise
  alignas(16) float elements[KEPT][Form::TERMS / TK * (TK * STRIP + 4)];
};
// Where an element of a slice is in shared memory: in the order of global memory, with gaps, so that eight
// lanes that load 16 bytes each, or 32 that load four, use different banks (but with 8 lines in columns,
// two lanes share each).
template <bool COLUMNS, class Form>
__host__ __device__ constexpr int place(int line, int k) {
  return COLUMNS ? k / TK * (TK * Form::STRIP + 4) + k % TK * Form::STRIP + line
                 : line * (Form::TERMS + 4) + line / 2 * 8 + k;
}

// The sum over the threads with the same line and count.
template <int ACROSS>
__device__ __forceinline__ unsigned sum_of_group(unsigned value) {
  for (int apart = ACROSS; apart < ACROSS * GROUP; apart *= 2) {
    value += __shfl_xor_sync(0xffffffff, value, apart);
  }
  return value;
}
// The maximum over the threads of a warp with the same line.
template <int ACROSS>
__device__ __forceinline__ unsigned largest_of_warp(unsigned value) {
  for (int apart = ACROSS; apart < 32; apart *= 2) {
    value = max(value, __shfl_xor_sync(0xffffffff, value, apart));
  }
  return value;
}

__device__ __forceinline__ float4 as_floats(const unsigned (&words)[4]) {
  return make_float4(__uint_as_float(words[0]), __uint_as_float(words[1]), __uint_as_float(words[2]),
                     __uint_as_float(words[3]));
}

// What a cluster does: splits STRIP lines. Each of its blocks has every blocks-th slice of their terms.
// COUNTING: counts, too, for the guard.
template <class Form, bool COLUMNS, bool ALIGNED, bool COUNTING>
__device__ __forceinline__ void split_strip(Shared<Form>& shared, const Lines& from, const SplitLines& to,
                                            int blocks) {
  constexpr int THREADS = Form::THREADS, STRIP = Form::STRIP, ACROSS = Form::ACROSS, TERMS = Form::TERMS;
  auto& [largest, all_largest, lossy, zeros, sparse, elements] = shared;
  const int rank = blockIdx.x % blocks, line0 = blockIdx.x / blocks * STRIP, matrix = blockIdx.z;
  if (line0 >= from.lines) return;
  const float* data = from.data + matrix * from.stride;
  const int slices = ceil_div(ceil_div(from.K, TERMS), blocks);
  const auto in_first_block = [&](unsigned* count) {
    return blocks > 1 ? cluster_map_shared(count, 0) : count;
  };
  const auto first_k = [&](int slice) { return (slice * blocks + rank) * TERMS; };
  // Starts copying a slice; beyond the matrix there are zeros. Elements lie side by side in memory along
  // `near`, which as many threads share.
  const auto request = [&](int slice) {
    constexpr int WIDE = ALIGNED ? 4 : 1;  // elements at a time
    constexpr int NEAR = COLUMNS ? STRIP : TERMS, FAR = COLUMNS ? TERMS : STRIP;
    constexpr int SIDE = NEAR / WIDE < THREADS ? NEAR / WIDE : THREADS;
    constexpr int STEP = THREADS / SIDE;  // of a thread's copies, along the other direction
    static_assert(COLUMNS ? STEP % TK == 0 : STEP == 1 || STEP % 2 == 0);  // places add up
    const int k0 = first_k(slice), far0 = static_cast<int>(threadIdx.x) / SIDE;
    const int left = (COLUMNS ? from.K - k0 : from.lines - line0) - far0;
#pragma unroll 1
    for (int near = threadIdx.x % SIDE * WIDE; near < NEAR; near += SIDE * WIDE) {
      const bool there = (COLUMNS ? line0 : k0) + near < (COLUMNS ? from.lines : from.K);
      const float* source = data + ((COLUMNS ? k0 : line0) + far0) * from.ld + (COLUMNS ? line0 : k0) + near;
      float* to_here = &elements[slice % KEPT][COLUMNS ? place<COLUMNS, Form>(near, far0)
                                                       : place<COLUMNS, Form>(far0, near)];
#pragma unroll 8
      for (int far = 0; far < FAR; far += STEP) {
        const int further = COLUMNS ? place<COLUMNS, Form>(0, far) : place<COLUMNS, Form>(far, 0);
        async_copy<WIDE * sizeof(float)>(to_here + further, source, there && far < left);
        source += STEP * from.ld;
      }
    }
  };
  // The thread's first term and line.
  const int own_k = static_cast<int>(threadIdx.x) / ACROSS * TK, own_line = threadIdx.x % ACROSS;
  const int own_group = threadIdx.x / ACROSS % GROUP;  // among those with the same counts
  const auto load = [&](float (&own)[TK], int slice, int line) {
    float* from_here = &elements[slice % KEPT][place<COLUMNS, Form>(line, own_k)];
#pragma unroll
    for (int e = 0; e < TK; e += COLUMNS ? 1 : 4) {
      if constexpr (COLUMNS) {
        own[e] = from_here[e * STRIP];
      } else {
        float4_at(&own[e]) = float4_at(from_here + e);
      }
    }
  };

  const std::int64_t first_line = static_cast<std::int64_t>(matrix) * from.lines + line0 + own_line;
  const std::int64_t plane = from.lines * to.pitch;  // from hi to lo
  request(0);
  async_copy_commit();
  if (slices > 1) request(1);
  async_copy_commit();
  if (threadIdx.x < STRIP) {
    largest[threadIdx.x] = all_largest[threadIdx.x] = 0;
    lossy[threadIdx.x] = zeros[threadIdx.x] = sparse[threadIdx.x] = 0;
  }
  unsigned most[TL] = {};  // bits of magnitudes
#pragma unroll 1
  for (int slice = 0; slice < slices; ++slice) {
    async_copy_wait<1>();
    __syncthreads();
#pragma unroll
    for (int l = 0; l < TL; ++l) {
      float own[TK];
      load(own, slice, own_line + l * ACROSS);
#pragma unroll
      for (int e = 0; e < TK; ++e) most[l] = max(most[l], __float_as_uint(own[e]) & 0x7fffffff);
    }
    if (slice + KEPT < slices) {
      __syncthreads();  // all have read the slice
      request(slice + KEPT);
    }
    async_copy_commit();
  }
#pragma unroll
  for (int l = 0; l < TL; ++l) {
    most[l] = largest_of_warp<ACROSS>(most[l]);
    if (threadIdx.x % 32 < ACROSS) atomicMax(&largest[own_line + l * ACROSS], most[l]);
  }
  const unsigned (&of_all)[STRIP] = blocks > 1 ? all_largest : largest;
  if (blocks > 1) {
    cluster_sync();
    if (static_cast<int>(threadIdx.x) < STRIP * blocks) {
      const int l = threadIdx.x % STRIP;
      atomicMax(&all_largest[l], *cluster_map_shared(&largest[l], threadIdx.x / STRIP));
    }
  }
  __syncthreads();

#pragma unroll 1
  for (int slice = slices - 1; slice >= 0; --slice) {  // the last KEPT are still here
    if (slice < slices - KEPT) {
      async_copy_wait<1>();
      __syncthreads();
    }
    const int k = first_k(slice) + own_k;
    unsigned counted = 0, lost = 0;  // a byte for each of the thread's lines; lost: lossy elements, and zeros
    // Where the thread's terms of its first line go; advancing the pointer saves address arithmetic.
    fp16* parts = to.parts + (first_line + static_cast<std::int64_t>(matrix) * from.lines) * to.pitch + k;
#pragma unroll 1
    for (int l = 0; l < TL; ++l, parts += ACROSS * to.pitch) {
      const int in_strip = own_line + l * ACROSS, line = line0 + in_strip;
      float own[TK];
      load(own, slice, in_strip);
      const Terms terms = split_terms(own, of_all[in_strip], from.K - k);
      if constexpr (COUNTING) {
        counted |= count_of(terms.hi) << 8 * l;
        lost |= (terms.lossy | terms.zeros << 4) << 8 * l;
      }
      if (line >= from.lines || k >= from.K) continue;
      float4_at(reinterpret_cast<float*>(parts)) = as_floats(terms.hi);
      float4_at(reinterpret_cast<float*>(parts + plane)) = as_floats(terms.lo);
    }
    if constexpr (COUNTING) {
      // Of the group's terms: four sums at once, each at most 64.
      const unsigned counted_sums = sum_of_group<ACROSS>(counted),
                     lossy_sums = sum_of_group<ACROSS>(lost & 0x0f0f0f0f),
                     zeros_sums = sum_of_group<ACROSS>(lost >> 4 & 0x0f0f0f0f);
      if (own_group < TL) {  // a thread for each of the lines
        const auto own_of = [&](unsigned sums) { return sums >> 8 * own_group & 0xff; };
        const unsigned lossy_sum = own_of(lossy_sums), zeros_sum = own_of(zeros_sums);
        const int in_strip = own_line + own_group * ACROSS, first = k / COUNTED_K * COUNTED_K;
        // Products with a line of zeros are zeros, however few.
        const bool any = of_all[in_strip] != 0 && !is_special(of_all[in_strip]);
        const unsigned count = any ? own_of(counted_sums) : COUNTED_K;
        const bool few = count < DENSE && first + COUNTED_K <= from.K;
        if (lossy_sum > 0 || zeros_sum > 0 || few) {
          atomicAdd(in_first_block(&lossy[in_strip]), lossy_sum);
          atomicAdd(in_first_block(&zeros[in_strip]), zeros_sum);
          atomicAdd(in_first_block(&sparse[in_strip]), few ? 1u : 0u);
        }
        if (line0 + in_strip < from.lines && first < from.K) {
          to.counts[(first_line + own_group * ACROSS) * to.counts_pitch + first / COUNTED_K] =
              fp16(static_cast<float>(count) * COUNT_SCALE);
        }
      }
    }
    if (slice >= KEPT) {
      __syncthreads();
      request(slice - KEPT);
    }
    async_copy_commit();
  }

  // Where one block does, no thread waits until what it stored is visible to others.
  if (blocks > 1) {
    cluster_sync();
  } else {
    __syncthreads();
  }
  const int line = line0 + threadIdx.x;
  if (rank == 0 && threadIdx.x < STRIP && line < from.lines) {
    const unsigned largest_here = of_all[threadIdx.x];
    const bool special = is_special(largest_here);
    to.facts[static_cast<std::int64_t>(matrix) * from.lines + line] = {
        special ? 0 : -scale_for(largest_here), special ? SPECIAL : lossy[threadIdx.x],
        largest_here == 0 ? 0 : zeros[threadIdx.x], sparse[threadIdx.x]};
  }
}

// A matrix, and where its parts go.
struct Operand {
  Lines from;
  SplitLines to;
};
struct Operands {
  Operand a_and_b[2];
};

// Blocks with y = 0 split A, those with y = 1 B. ALIGNED: both, to float4.
template <class Form, bool ALIGNED, bool COUNTING>
__global__ void __launch_bounds__(Form::THREADS, Form::BLOCKS)
    split_lines(const __grid_constant__ Operands operands, int blocks, unsigned* refused /* [words] */,
                int words, Ledger* ledger) {
  auto& shared = dynamic_shared<Shared<Form>>();
  let_next_launch_begin();
  wait_for_previous_launch();  // it may write A or B, and read what is written here
  if (blockIdx.x == 0 && blockIdx.y == 0 && blockIdx.z == 0) {
    if (threadIdx.x == 0) *ledger = {};
    for (int i = threadIdx.x; i < words; i += Form::THREADS) refused[i] = 0;
  }
  const auto& [from, to] = operands.a_and_b[blockIdx.y];
  if (from.columns) {
    split_strip<Form, true, ALIGNED, COUNTING>(shared, from, to, blocks);
  } else {
    split_strip<Form, false, ALIGNED, COUNTING>(shared, from, to, blocks);
  }
}

}  // namespace splitting

}  // namespace
