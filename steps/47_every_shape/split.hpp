#pragma once

// The splitting pass: x * 2^s = hi + lo / 2^11 for each element x of A and B, hi and lo FP16 numbers. s is
// one for a row of A or a column of B, whose largest element it brings into [2^14, 2^15). An element keeps 22
// bits if it is at least 2^-27 times that one; smaller ones, if not zero, are counted as lossy. For each row
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

constexpr int PARTS = 2;                 // hi and lo
constexpr float LO_SCALE = 0x1p11f;      // lo has an exponent range of its own
constexpr int LARGEST = 14;              // exponent of a line's largest element, scaled
constexpr float LEAST_KEPT = 0x1p-13f;   // smaller ones are lossy: hi, or lo with it, may be subnormal
constexpr int COUNTED_K = 64;            // terms whose count is one number
constexpr float COUNTED = 0x1p2f;        // the least magnitude that counts: 2^-12 times the largest, roughly
constexpr float COUNT_SCALE = 1.0f / 8;  // two counts, scaled, multiply to the count to expect of products
constexpr unsigned SPECIAL = 1u << 30;   // lossy elements, so to speak, of a line with an infinity or a NaN
constexpr float LEAST_FP16 = 0x1p-24f;   // above zero

// What the epilogue needs to know of a line.
struct alignas(16) Line {
  int exponent;  // -s
  unsigned lossy;
  unsigned zeros;   // elements; none if all are, as every sum is then exact
  unsigned filler;  // makes it 16 bytes, which are loaded at once
};

// Lines as they are in A or B.
struct Lines {
  const float* data;
  int lines, K;
  std::int64_t ld, stride;
  bool columns;  // of the matrix as it lies in memory; otherwise they are its rows
  bool aligned;
};

// Where their parts go. Pitches are multiples of 8 elements: 16 bytes.
struct SplitLines {
  fp16* parts;   // [batch][PARTS][lines][pitch]
  fp16* counts;  // [batch][lines][counts_pitch]
  Line* facts;   // [batch][lines]
  std::int64_t pitch, counts_pitch;
};

// How much of these there is.
struct SplitSizes {
  SplitSizes(int lines, int K, int batch)
      : pitch(ceil_div(K, 8) * 8), counts_pitch(ceil_div(ceil_div(K, COUNTED_K), 8) * 8) {
    facts = static_cast<std::size_t>(lines) * batch;
    parts = facts * PARTS * pitch;
    counts = facts * counts_pitch;
  }
  std::size_t parts, counts, facts;  // elements
  std::int64_t pitch, counts_pitch;
};

namespace splitting {

constexpr int THREADS = 256;                // of a block
constexpr int AT_ONCE = 8;                  // neighbouring elements that a thread splits
constexpr int GROUP = COUNTED_K / AT_ONCE;  // threads that split what has one count, neighbours in a warp
constexpr int MOST_BLOCKS = 8;              // of a cluster

// STRIP lines of a cluster, of which a block has SLICE terms at a time.
template <int STRIP, int SLICE>
struct Shared {
  float x[STRIP * SLICE];              // as place() says
  unsigned largest[STRIP];             // bits of the largest magnitude in this block's share of a line
  unsigned lossy[MOST_BLOCKS][STRIP];  // elements in each block's share: in the first block
  unsigned zeros[MOST_BLOCKS][STRIP];  // likewise
};

// Where an element lies in x: as in memory, but groups of four change places so that both copies and the
// threads that split find all banks.
template <bool COLUMNS, int STRIP, int SLICE>
__device__ __forceinline__ int place(int line, int k) {
  const int at = COLUMNS ? k * STRIP + line : line * SLICE + k;
  return at ^ (COLUMNS ? k / AT_ONCE % 8 : k / 32 % 2) * 4;
}

// x = from [lines line0 ...][k0 ...], zeros beyond the matrix.
template <bool COLUMNS, int STRIP, int SLICE, bool ALIGNED>
__device__ __forceinline__ void copy_slice(float (&x)[STRIP * SLICE], const Lines& from, const float* data,
                                           int line0, int k0) {
  constexpr int AT_A_TIME = ALIGNED ? 4 : 1, ACROSS = (COLUMNS ? STRIP : SLICE) / AT_A_TIME;
#pragma unroll 2
  for (int i = threadIdx.x; i < STRIP * SLICE / AT_A_TIME; i += THREADS) {
    const int first = i % ACROSS * AT_A_TIME, other = i / ACROSS;
    const int line = COLUMNS ? first : other, k = COLUMNS ? other : first;
    const std::int64_t at = COLUMNS ? (k0 + k) * from.ld + line0 + line : (line0 + line) * from.ld + k0 + k;
    async_copy<4 * AT_A_TIME>(&x[place<COLUMNS, STRIP, SLICE>(line, k)], data + at,
                              line0 + line < from.lines && k0 + k < from.K);
  }
}

template <bool COLUMNS, int STRIP, int SLICE>
__device__ __forceinline__ void load_slice(float (&x)[STRIP * SLICE], const Lines& from, const float* data,
                                           int line0, int k0) {
  if (from.aligned) {
    copy_slice<COLUMNS, STRIP, SLICE, true>(x, from, data, line0, k0);
  } else {
    copy_slice<COLUMNS, STRIP, SLICE, false>(x, from, data, line0, k0);
  }
  async_copy_commit();
  async_copy_wait<0>();
  __syncthreads();
}

// AT_ONCE neighbours of a line.
template <bool COLUMNS, int STRIP, int SLICE>
__device__ __forceinline__ void read(float (&v)[AT_ONCE], float (&x)[STRIP * SLICE], int line, int k) {
  if constexpr (COLUMNS) {
#pragma unroll
    for (int e = 0; e < AT_ONCE; ++e) v[e] = x[place<COLUMNS, STRIP, SLICE>(line, k + e)];
  } else {
#pragma unroll
    for (int e = 0; e < AT_ONCE; e += 4) {
      const float4 four = float4_at(&x[place<COLUMNS, STRIP, SLICE>(line, k + e)]);
      v[e] = four.x, v[e + 1] = four.y, v[e + 2] = four.z, v[e + 3] = four.w;
    }
  }
}

// Over so many threads, which are neighbours in a warp.
template <int LANES>
__device__ __forceinline__ unsigned largest_of(unsigned value) {
  for (int apart = 1; apart < LANES; apart *= 2)
    value = max(value, __shfl_xor_sync(0xffffffff, value, apart));
  return value;
}
template <int LANES>
__device__ __forceinline__ unsigned sum_of(unsigned value) {
  for (int apart = 1; apart < LANES; apart *= 2) value += __shfl_xor_sync(0xffffffff, value, apart);
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

// What a cluster does: splits STRIP lines. Each of its blocks has every gridDim-th slice of their terms, and
// reads it once if it has no more than one.
template <bool COLUMNS, int STRIP, int SLICE>
__device__ __forceinline__ void split_strip(Shared<STRIP, SLICE>& shared, const Lines& from,
                                            const SplitLines& to, int blocks) {
  constexpr int LANES = THREADS / STRIP, STEP = LANES * AT_ONCE;  // threads of a line, and their terms
  static_assert(LANES >= MOST_BLOCKS && LANES % GROUP == 0 && 32 % LANES == 0 && SLICE % STEP == 0);
  auto& [x, largest, lossy, zeros] = shared;
  const int rank = blockIdx.x % blocks, line0 = blockIdx.x / blocks * STRIP, matrix = blockIdx.z;
  if (line0 >= from.lines) return;
  const float* data = from.data + matrix * from.stride;
  const int slices = ceil_div(ceil_div(from.K, SLICE), blocks);
  const int here = threadIdx.x / LANES, lane = threadIdx.x % LANES, line = line0 + here;

  unsigned most = 0;  // as bits, magnitudes are ordered; those of an infinity and of NaNs come last
  for (int slice = 0; slice < slices; ++slice) {
    if (slice > 0) __syncthreads();
    load_slice<COLUMNS, STRIP, SLICE>(x, from, data, line0, (slice * blocks + rank) * SLICE);
#pragma unroll 2
    for (int k = lane * AT_ONCE; k < SLICE; k += STEP) {
      float v[AT_ONCE];
      read<COLUMNS, STRIP, SLICE>(v, x, here, k);
#pragma unroll
      for (int e = 0; e < AT_ONCE; ++e) most = max(most, __float_as_uint(v[e]) & 0x7fffffff);
    }
  }
  most = largest_of<LANES>(most);
  if (blocks > 1) {
    if (lane == 0) largest[here] = most;
    cluster_sync();
    most = lane < blocks ? *cluster_map_shared(&largest[here], lane) : 0;
    most = largest_of<LANES>(most);
  }
  const bool special = most >= 0x7f800000, zero = most == 0;
  const int s = special ? 0 : scale_for(most);
  // 2^s may be too large for a float, if the line lies below 2^-112: two steps.
  const float factor = special ? 0.0f : power_of_two(min(s, 126)), rest = power_of_two(max(s - 126, 0));

  unsigned lost = 0, none = 0;
  const std::int64_t plane = from.lines * to.pitch;
  fp16* hi = to.parts + matrix * PARTS * plane + line * to.pitch;
  fp16* counts = to.counts + (static_cast<std::int64_t>(matrix) * from.lines + line) * to.counts_pitch;
  for (int slice = slices - 1; slice >= 0; --slice) {  // the last one is still here
    const int k0 = (slice * blocks + rank) * SLICE;
    if (slice < slices - 1) {
      __syncthreads();
      load_slice<COLUMNS, STRIP, SLICE>(x, from, data, line0, k0);
    }
#pragma unroll 1
    for (int step = 0; step < SLICE; step += STEP) {
      if (k0 + step >= from.K) break;
      const int k = step + lane * AT_ONCE;
      float v[AT_ONCE];
      read<COLUMNS, STRIP, SLICE>(v, x, here, k);
      unsigned pairs[PARTS][AT_ONCE / 2], count = 0;
#pragma unroll
      for (int e = 0; e < AT_ONCE; e += 2) {
        float scaled[2], first[2];  // as they are, and what hi takes of them: not zero unless they are
        for (int i = 0; i < 2; ++i) {
          const float element = v[e + i];
          scaled[i] = special ? stand_in(element) : element * factor * rest;
          const float magnitude = fabsf(scaled[i]);
          count += magnitude >= COUNTED;
          lost += magnitude < LEAST_KEPT && element != 0.0f;
          none += element == 0.0f && k0 + k + e + i < from.K;
          first[i] = magnitude < LEAST_FP16 && element != 0.0f ? copysignf(LEAST_FP16, element) : scaled[i];
        }
        pairs[0][e / 2] = pack_fp16(first[0], first[1]);
        const float rest0 = scaled[0] - first_fp16(pairs[0][e / 2]);
        const float rest1 = scaled[1] - second_fp16(pairs[0][e / 2]);
        pairs[1][e / 2] = special ? 0 : pack_fp16(rest0 * LO_SCALE, rest1 * LO_SCALE);
      }
      if (line < from.lines && k0 + k < to.pitch) {
        for (int part = 0; part < PARTS; ++part) {
          const unsigned (&p)[4] = pairs[part];
          float4_at(reinterpret_cast<float*>(hi + part * plane + k0 + k)) = make_float4(
              __uint_as_float(p[0]), __uint_as_float(p[1]), __uint_as_float(p[2]), __uint_as_float(p[3]));
        }
      }
      count = sum_of<GROUP>(count);
      if (lane % GROUP == 0 && line < from.lines && k0 + k < from.K) {
        // Products with a line of zeros are zeros, however few.
        const unsigned counted = zero || special ? COUNTED_K : count;
        counts[(k0 + k) / COUNTED_K] = fp16(static_cast<float>(counted) * COUNT_SCALE);
      }
    }
  }
  lost = sum_of<LANES>(lost);
  none = sum_of<LANES>(none);
  if (blocks > 1) {
    if (lane == 0) {
      *cluster_map_shared(&lossy[rank][here], 0) = lost;
      *cluster_map_shared(&zeros[rank][here], 0) = none;
    }
    cluster_sync();
    if (rank == 0) {
      lost = sum_of<LANES>(lane < blocks ? lossy[lane][here] : 0);
      none = sum_of<LANES>(lane < blocks ? zeros[lane][here] : 0);
    }
  }
  if (rank == 0 && lane == 0 && line < from.lines) {
    to.facts[static_cast<std::int64_t>(matrix) * from.lines + line] = {-s, special ? SPECIAL : lost,
                                                                       zero ? 0 : none, 0};
  }
}

// Blocks with y = 0 split A, those with y = 1 B.
template <int STRIP, int SLICE>
__global__ void __launch_bounds__(THREADS, STRIP* SLICE < 16384 ? 4 : 3)
    split_lines(Lines a, SplitLines a_to, Lines b, SplitLines b_to, int blocks, Ledger* ledger) {
  auto& shared = dynamic_shared<Shared<STRIP, SLICE>>();
  let_next_launch_begin();
  wait_for_previous_launch();  // it may write A or B, and read what is written here
  if (blockIdx.x == 0 && blockIdx.y == 0 && blockIdx.z == 0 && threadIdx.x == 0) *ledger = {};
  const Lines from = blockIdx.y == 0 ? a : b;
  const SplitLines to = blockIdx.y == 0 ? a_to : b_to;
  if (from.columns) {
    split_strip<true, STRIP, SLICE>(shared, from, to, blocks);
  } else {
    split_strip<false, STRIP, SLICE>(shared, from, to, blocks);
  }
}

template <int STRIP, int SLICE>
void launch_split(const Lines& a, const SplitLines& a_to, const Lines& b, const SplitLines& b_to, int batch,
                  Ledger* ledger) {
  const int blocks = min(MOST_BLOCKS, ceil_div(a.K, SLICE));
  const unsigned strips = ceil_div(max(a.lines, b.lines), STRIP);
  launch(split_lines<STRIP, SLICE>,
         LaunchConfig{.grid = dim3(strips * blocks, 2, batch),
                      .block = dim3(THREADS),
                      .shared_bytes = sizeof(Shared<STRIP, SLICE>),
                      .cluster = dim3(blocks, 1, 1),
                      .overlaps_previous = true},
         a, a_to, b, b_to, blocks, ledger);
}

}  // namespace splitting

// Splits A and B. The ledger is cleared on the way.
void split(const Lines& a, const SplitLines& a_to, const Lines& b, const SplitLines& b_to, int batch,
           Ledger* ledger) {
  using namespace splitting;
  const auto short_enough = [&](int slice) { return a.K <= slice * MOST_BLOCKS; };
  const auto launch = short_enough(128)   ? launch_split<32, 128>
                      : short_enough(256) ? launch_split<32, 256>
                      : short_enough(512) ? launch_split<32, 512>
                                          : launch_split<16, 1024>;
  launch(a, a_to, b, b_to, batch, ledger);
}

}  // namespace
