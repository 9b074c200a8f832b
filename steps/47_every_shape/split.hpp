#pragma once

// The splitting pass: x * 2^s = hi + lo / 2^11 for each element x of A and B, hi and lo FP16 numbers. s is
// one for a row of A or a column of B, whose largest element it brings into [2^14, 2^15). An element keeps 22
// bits if it is at least 2^-27 times that one; smaller ones, if not zero, are counted as lossy. For each line
// and block of 64 k the pass also counts the elements that matter beside the largest.
//
// In a line with an infinity or a NaN, these stay as they are in hi, and everything else is its sign or zero:
// the tensor cores' sums of hi * hi are infinite, or NaN, just where FP32 sums are. That takes that no other
// line's hi is zero unless the element is. lo is zero there, and its products are NaNs to be left out.
//
// A line below is a row of A or a column of B. Whatever they were in memory, the parts of lines are K-major.

#include "common/cuda/async_copy.hpp"
#include "common/cuda/cluster.hpp"
#include "common/cuda/dependent_launch.hpp"
#include "common/cuda/dynamic_shared.hpp"
#include "common/cuda/float4.hpp"
#include "common/fp16.hpp"
#include "common/step.hpp"
#include "steps/47_every_shape/parts.hpp"

// In an unnamed namespace, as the kernel is: a program holds all this for both devices.
namespace {

constexpr int PARTS = 2;                // hi and lo
constexpr float LO_SCALE = 0x1p11f;     // lo has an exponent range of its own
constexpr int LARGEST = 14;             // exponent of a line's largest element, scaled
constexpr float LEAST_KEPT = 0x1p-13f;  // smaller ones are lossy: hi, or lo with it, may be subnormal
constexpr int COUNTED_K = 64;           // terms whose count is one number
constexpr float COUNTED = 0x1p2f;       // the least magnitude that counts: 2^-12 times the largest, roughly
// A block is sparse if fewer than DENSE of its elements count. If no row and no column has one, each element
// may expect DENSE * DENSE / COUNTED_K products or more that count.
constexpr unsigned DENSE = 32;
constexpr float COUNT_SCALE = 1.0f / 8;  // two counts, scaled, multiply to the count to expect of products
constexpr unsigned SPECIAL = 1u << 30;   // lossy elements, so to speak, of a line with an infinity or a NaN
constexpr float LEAST_FP16 = 0x1p-24f;   // above zero

// What the epilogue needs to know of a line.
struct alignas(16) Line {
  int exponent;  // -s
  unsigned lossy;
  unsigned zeros;   // elements; none if all are, as every sum is then exact
  unsigned sparse;  // blocks of COUNTED_K terms of which few count, but for an incomplete last one
};

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

// How much of these there is.
struct SplitSizes {
  SplitSizes(int lines, int K, int batch)
      : pitch(ceil_div(K, 64) * 64), counts_pitch(ceil_div(ceil_div(K, COUNTED_K), 8) * 8) {
    facts = static_cast<std::size_t>(lines) * batch;
    parts = facts * PARTS * pitch;
    counts = facts * counts_pitch;
  }
  std::size_t parts, counts, facts;  // elements
  std::int64_t pitch, counts_pitch;
};

namespace splitting {

constexpr int STRIP = 16;              // a block's lines
constexpr int TL = 4, TK = 8;          // lines of a thread, every fourth of them, and neighbouring terms
constexpr int ACROSS = STRIP / TL;     // threads that have the same terms, side by side
constexpr int GROUP = COUNTED_K / TK;  // threads that split what has one count: all of a warp
constexpr int MOST_BLOCKS = 8;         // of a cluster
constexpr int KEPT = 2;                // slices of a block's terms that wait in shared memory
static_assert(GROUP * ACROSS == 32);

template <int THREADS>
constexpr int SLICE = THREADS / ACROSS * TK;  // terms of a line

// At most so many have room on a multiprocessor: while some compute, the elements of others are on their way.
// For that a thread has few registers. With two slices each, three of the smaller ones have.
template <int THREADS>
constexpr int BLOCKS = THREADS == 256 ? 6 : 2;

template <int THREADS>
struct Shared {
  unsigned largest[STRIP];      // bits of the largest magnitude in this block's share of a line
  unsigned all_largest[STRIP];  // and in all of it, if the cluster has several blocks
  unsigned lossy[STRIP];        // elements in all of a line: in the first block
  unsigned zeros[STRIP];        // likewise
  unsigned sparse[STRIP];       // blocks, likewise
  alignas(16) float elements[KEPT][SLICE<THREADS> / TK * (TK * STRIP + 4)];
};
// Of one of `blocks` blocks, with so many slices. It asks for more than it needs where that keeps a
// multiprocessor from taking more than its share: blocks that begin early would crowd onto those that are
// free first.
template <int THREADS>
std::size_t shared_bytes(int slices, std::size_t blocks) {
  using S = Shared<THREADS>;
  constexpr std::size_t of_multiprocessor = 228 << 10, reserved = 1 << 10;  // for each block
  const std::size_t needed = sizeof(S) - (KEPT - (slices < KEPT ? slices : KEPT)) * sizeof(S::elements[0]);
  const std::size_t share = (blocks + multiprocessors() - 1) / multiprocessors();
  return max(needed + reserved, of_multiprocessor / (share + 1) + 1) - reserved;
}

// Where an element of a slice is in shared memory: in the order of global memory, with gaps, so that eight
// lanes that load 16 bytes each, or 32 that load four, use different banks.
template <bool COLUMNS, int TERMS>
__host__ __device__ constexpr int place(int line, int k) {
  return COLUMNS ? k / TK * (TK * STRIP + 4) + k % TK * STRIP + line : line * (TERMS + 4) + line / 2 * 8 + k;
}

// Over the threads of a warp that have the same line.
__device__ __forceinline__ unsigned sum_of(unsigned value) {
  for (int apart = ACROSS; apart < 32; apart *= 2) value += __shfl_xor_sync(0xffffffff, value, apart);
  return value;
}
__device__ __forceinline__ unsigned largest_of(unsigned value) {
  for (int apart = ACROSS; apart < 32; apart *= 2) {
    value = max(value, __shfl_xor_sync(0xffffffff, value, apart));
  }
  return value;
}

// s for a line whose largest magnitude has these bits.
__device__ __forceinline__ int scale_for(unsigned bits) {
  const float largest = __uint_as_float(bits);
  if (largest == 0.0f) return 0;
  const bool subnormal = largest < 0x1p-126f;
  const unsigned normal = subnormal ? __float_as_uint(largest * 0x1p24f) : bits;
  return LARGEST - (static_cast<int>(normal >> 23) - 127 - (subnormal ? 24 : 0));
}

// 2^exponent, which is a normal number.
__device__ __forceinline__ float power_of_two(int exponent) {
  return __uint_as_float(static_cast<unsigned>(exponent + 127) << 23);
}

// What hi is in a line with an infinity or a NaN.
__device__ __forceinline__ float stand_in(float x) {
  const bool finite = fabsf(x) < __uint_as_float(0x7f800000);
  return x == 0.0f || !finite ? x : copysignf(1.0f, x);
}

// How many of these FP16 numbers, in pairs, are COUNTED or more in magnitude. The upper byte, without its
// sign, decides: COUNTED's is 0x44, and its lower one is 0.
__device__ __forceinline__ unsigned count_of(const unsigned (&pairs)[TK / 2]) {
  static_assert(COUNTED == 4.0f && TK == 8);
  const auto upper_bytes = [](unsigned a, unsigned b) { return (a >> 8 & 0x007f007f) | (b & 0x7f007f00); };
  constexpr unsigned TO_80 = 0x80808080 - 0x44444444;  // enough to set a byte's uppermost bit
  const unsigned first = upper_bytes(pairs[0], pairs[1]) + TO_80,
                 second = upper_bytes(pairs[2], pairs[3]) + TO_80;
  return __popc((first & 0x80808080) | (second >> 1 & 0x40404040));
}

__device__ __forceinline__ float4 as_floats(const unsigned (&words)[4]) {
  return make_float4(__uint_as_float(words[0]), __uint_as_float(words[1]), __uint_as_float(words[2]),
                     __uint_as_float(words[3]));
}

// What a cluster does: splits STRIP lines. Each of its blocks has every blocks-th slice of their terms.
template <int THREADS, bool COLUMNS, bool ALIGNED>
__device__ __forceinline__ void split_strip(Shared<THREADS>& shared, const Lines& from, const SplitLines& to,
                                            int blocks) {
  constexpr int TERMS = SLICE<THREADS>;
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
    constexpr int APART = THREADS / SIDE;  // copies of a thread, along the other direction
    static_assert(COLUMNS ? APART % TK == 0 : APART == 1 || APART % 2 == 0);  // places add up
    const int k0 = first_k(slice), far0 = static_cast<int>(threadIdx.x) / SIDE;
    const int left = (COLUMNS ? from.K - k0 : from.lines - line0) - far0;
#pragma unroll 1
    for (int near = threadIdx.x % SIDE * WIDE; near < NEAR; near += SIDE * WIDE) {
      const bool there = (COLUMNS ? line0 : k0) + near < (COLUMNS ? from.lines : from.K);
      const float* source = data + ((COLUMNS ? k0 : line0) + far0) * from.ld + (COLUMNS ? line0 : k0) + near;
      float* to_here = &elements[slice % KEPT][COLUMNS ? place<COLUMNS, TERMS>(near, far0)
                                                       : place<COLUMNS, TERMS>(far0, near)];
#pragma unroll 8
      for (int far = 0; far < FAR; far += APART) {
        const int further = COLUMNS ? place<COLUMNS, TERMS>(0, far) : place<COLUMNS, TERMS>(far, 0);
        async_copy<WIDE * sizeof(float)>(to_here + further, source, there && far < left);
        source += APART * from.ld;
      }
    }
  };
  // The thread's first term and line.
  const int own_k = static_cast<int>(threadIdx.x) / ACROSS * TK, own_line = threadIdx.x % ACROSS;
  const bool speaks = threadIdx.x % 32 < ACROSS;  // for the warp
  const auto load = [&](float (&own)[TK], int slice, int line) {
    float* from_here = &elements[slice % KEPT][place<COLUMNS, TERMS>(line, own_k)];
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
  unsigned most[TL] = {};  // as bits, magnitudes are ordered; those of an infinity and of NaNs come last
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
    most[l] = largest_of(most[l]);
    if (speaks) atomicMax(&largest[own_line + l * ACROSS], most[l]);
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
    // Where the thread's terms of its first line go; advancing pointers saves address arithmetic.
    fp16* counts = to.counts + first_line * to.counts_pitch + k / COUNTED_K;
    fp16* parts = to.parts + (first_line + static_cast<std::int64_t>(matrix) * from.lines) * to.pitch + k;
#pragma unroll 1
    for (int l = 0; l < TL; ++l, counts += ACROSS * to.counts_pitch, parts += ACROSS * to.pitch) {
      const int in_strip = own_line + l * ACROSS, line = line0 + in_strip;
      const unsigned largest_here = of_all[in_strip];
      const bool special = largest_here >= 0x7f800000;
      const int s = special ? 0 : scale_for(largest_here);
      // 2^s may be too large for a float, if the line lies below 2^-112: two steps.
      const float factor = special ? 0.0f : power_of_two(min(s, 126)), rest = power_of_two(max(s - 126, 0));
      float own[TK], scaled[TK], smallest = LEAST_KEPT;
      load(own, slice, in_strip);
#pragma unroll
      for (int e = 0; e < TK; ++e) {
        scaled[e] = own[e] * factor;
        smallest = fminf(smallest, fabsf(scaled[e]));
      }
      unsigned hi[TK / 2], lo[TK / 2];  // pairs of FP16 numbers
#pragma unroll
      for (int e = 0; e < TK; e += 2) hi[e / 2] = pack_fp16(scaled[e], scaled[e + 1]);
      unsigned lost = 0, none = 0;  // elements
      // Where all is well, one test suffices.
      if (k < from.K && (special || s > 126 || smallest < LEAST_KEPT)) {
        float taken[TK];  // what hi takes of them
#pragma unroll
        for (int e = 0; e < TK; ++e) {
          scaled[e] = special ? stand_in(own[e]) : own[e] * factor * rest;
          // Not zero unless the element is.
          const float magnitude = fabsf(scaled[e]);
          taken[e] = magnitude < LEAST_FP16 && own[e] != 0.0f ? copysignf(LEAST_FP16, own[e]) : scaled[e];
          lost += magnitude < LEAST_KEPT && own[e] != 0.0f;
          none += own[e] == 0.0f && k + e < from.K;
        }
#pragma unroll
        for (int e = 0; e < TK; e += 2) hi[e / 2] = pack_fp16(taken[e], taken[e + 1]);
      }
#pragma unroll
      for (int e = 0; e < TK; e += 2) {
        const float rest0 = scaled[e] - first_fp16(hi[e / 2]), rest1 = scaled[e + 1] - second_fp16(hi[e / 2]);
        lo[e / 2] = special ? 0 : pack_fp16(rest0 * LO_SCALE, rest1 * LO_SCALE);
      }
      const unsigned sums = sum_of(count_of(hi) | lost << 8 | none << 16);  // of the warp, 64 of each at most
      // Products with a line of zeros are zeros, however few.
      const unsigned counted = largest_here == 0 || special ? COUNTED_K : sums & 0xff;
      const bool few = counted < DENSE && k + COUNTED_K <= from.K;
      if (speaks && (sums > 0xff || few)) {
        atomicAdd(in_first_block(&lossy[in_strip]), sums >> 8 & 0xff);
        atomicAdd(in_first_block(&zeros[in_strip]), sums >> 16);
        atomicAdd(in_first_block(&sparse[in_strip]), few ? 1u : 0u);
      }
      if (line >= from.lines || k >= from.K) continue;
      if (speaks) *counts = fp16(static_cast<float>(counted) * COUNT_SCALE);
      float4_at(reinterpret_cast<float*>(parts)) = as_floats(hi);
      float4_at(reinterpret_cast<float*>(parts + plane)) = as_floats(lo);
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
    const bool special = largest_here >= 0x7f800000;
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
template <int THREADS, bool ALIGNED>
__global__ void __launch_bounds__(THREADS, BLOCKS<THREADS>)
    split_lines(const __grid_constant__ Operands operands, int blocks, unsigned* refused /* [words] */,
                int words, Ledger* ledger) {
  auto& shared = dynamic_shared<Shared<THREADS>>();
  let_next_launch_begin();
  wait_for_previous_launch();  // it may write A or B, and read what is written here
  if (blockIdx.x == 0 && blockIdx.y == 0 && blockIdx.z == 0) {
    if (threadIdx.x == 0) *ledger = {};
    for (int i = threadIdx.x; i < words; i += THREADS) refused[i] = 0;
  }
  const auto& [from, to] = operands.a_and_b[blockIdx.y];
  if (from.columns) {
    split_strip<THREADS, true, ALIGNED>(shared, from, to, blocks);
  } else {
    split_strip<THREADS, false, ALIGNED>(shared, from, to, blocks);
  }
}

template <int THREADS>
void launch_split(const Lines& a, const SplitLines& a_to, const Lines& b, const SplitLines& b_to,
                  bool aligned, int batch, unsigned* refused, int words, Ledger* ledger) {
  const int blocks = min(MOST_BLOCKS, ceil_div(a.K, SLICE<THREADS>));
  const unsigned strips = ceil_div(max(a.lines, b.lines), STRIP);
  const int slices = ceil_div(a.K, blocks * SLICE<THREADS>);
  launch(aligned ? split_lines<THREADS, true> : split_lines<THREADS, false>,
         LaunchConfig{.grid = dim3(strips * blocks, 2, batch),
                      .block = dim3(THREADS),
                      .shared_bytes = shared_bytes<THREADS>(slices, std::size_t{strips} * blocks * 2 * batch),
                      .cluster = dim3(blocks, 1, 1),
                      .overlaps_previous = true},
         Operands{{{a, a_to}, {b, b_to}}}, blocks, refused, words, ledger);
}

}  // namespace splitting

// Splits A and B; aligned: both, to float4. The ledger and the refused parts are cleared on the way.
void split(const Lines& a, const SplitLines& a_to, const Lines& b, const SplitLines& b_to, bool aligned,
           int batch, unsigned* refused, int words, Ledger* ledger) {
  using namespace splitting;
  // Larger blocks instead of clusters of twice as many, which wait for each other. Of longer lines, so many
  // blocks are needed that it matters more how many fit.
  const bool large = a.K > SLICE<256> && a.K <= 2 * SLICE<512>;
  (large ? launch_split<512> : launch_split<256>)(a, a_to, b, b_to, aligned, batch, refused, words, ledger);
}

}  // namespace
