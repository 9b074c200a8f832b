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

#include "common/cuda/cluster.hpp"
#include "common/cuda/dependent_launch.hpp"
#include "common/cuda/dynamic_shared.hpp"
#include "common/cuda/float4.hpp"
#include "common/cuda/l2_line.hpp"
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

constexpr int TL = 4, TK = 8;          // a thread's lines, and their neighbouring terms
constexpr int ACROSS = 4;              // threads that have the same terms, side by side
constexpr int STRIP = ACROSS * TL;     // a block's lines
constexpr int GROUP = COUNTED_K / TK;  // threads that split what has one count
constexpr int MOST_BLOCKS = 8;         // of a cluster

template <int THREADS>
constexpr int SLICE = THREADS / ACROSS * TK;  // a block's terms of a line at a time

struct Shared {
  unsigned largest[STRIP];                 // bits of the largest magnitude in this block's share of a line
  unsigned lossy[STRIP], zeros[STRIP];     // elements in this block's share
  unsigned all_lossy[MOST_BLOCKS][STRIP];  // in each block's share: in the first block
  unsigned all_zeros[MOST_BLOCKS][STRIP];  // likewise
};

// x = from [line ...][k ...], zeros beyond the matrix. All loads are under way at the same time.
template <bool COLUMNS, bool ALIGNED>
__device__ __forceinline__ void load(float (&x)[TL][TK], const Lines& from, const float* data, int line,
                                     int k) {
#pragma unroll
  for (int i = 0; i < TL * TK; i += 4) {
    const int l = COLUMNS ? 0 : i / TK, e = COLUMNS ? i / TL : i % TK;
    const bool exists = line + l < from.lines && k + e < from.K;
    const std::int64_t at = COLUMNS ? (k + e) * from.ld + line : (line + l) * from.ld + k + e;
    const int behind = COLUMNS ? from.lines - line : from.K - k - e;
    float four[4] = {};
    if constexpr (ALIGNED) {
      if (exists) float4_at(four) = load_with_l2_line(reinterpret_cast<const float4*>(data + at));
    } else {
      for (int j = 0; j < 4; ++j) {
        if (exists && j < behind) four[j] = load_with_l2_line(data + at + j);
      }
    }
    for (int j = 0; j < 4; ++j) (COLUMNS ? x[j][e] : x[l][e + j]) = four[j];
  }
}
// Over so many threads of a warp that have the same lines.
template <int COUNT>
__device__ __forceinline__ unsigned sum_of(unsigned value) {
  for (int apart = ACROSS; apart < COUNT * ACROSS; apart *= 2) {
    value += __shfl_xor_sync(0xffffffff, value, apart);
  }
  return value;
}
__device__ __forceinline__ unsigned largest_of_warp(unsigned value) {
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

// The l-th of four numbers below 256 in one.
__device__ __forceinline__ unsigned byte_of(unsigned four, int l) { return four >> 8 * l & 0xff; }

// What a cluster does: splits STRIP lines. Each of its blocks has every gridDim-th slice of their terms, and
// reads it once if it has no more than one.
template <int THREADS, bool COLUMNS, bool ALIGNED>
__device__ __forceinline__ void split_strip(Shared& shared, const Lines& from, const SplitLines& to,
                                            int blocks) {
  auto& [largest, lossy, zeros, all_lossy, all_zeros] = shared;
  const int rank = blockIdx.x % blocks, line0 = blockIdx.x / blocks * STRIP, matrix = blockIdx.z;
  if (line0 >= from.lines) return;
  const float* data = from.data + matrix * from.stride;
  const int slices = ceil_div(ceil_div(from.K, SLICE<THREADS>), blocks);
  const int first = threadIdx.x % ACROSS * TL,
            line = line0 + first;                 // the thread's lines, in the strip and all
  const bool speaks = threadIdx.x % 32 < ACROSS;  // for the warp
  const auto k_of = [&](int slice) {
    return (slice * blocks + rank) * SLICE<THREADS> + static_cast<int>(threadIdx.x) / ACROSS * TK;
  };
  if (threadIdx.x < STRIP) largest[threadIdx.x] = lossy[threadIdx.x] = zeros[threadIdx.x] = 0;
  __syncthreads();

  float x[TL][TK];
  unsigned most[TL] = {};  // as bits, magnitudes are ordered; those of an infinity and of NaNs come last
#pragma unroll 1
  for (int slice = 0; slice < slices; ++slice) {
    load<COLUMNS, ALIGNED>(x, from, data, line, k_of(slice));
#pragma unroll
    for (int i = 0; i < TL * TK; ++i) {
      most[i / TK] = max(most[i / TK], __float_as_uint(x[i / TK][i % TK]) & 0x7fffffff);
    }
  }
#pragma unroll
  for (int l = 0; l < TL; ++l) {
    most[l] = largest_of_warp(most[l]);
    if (speaks) atomicMax(&largest[first + l], most[l]);
  }
  cluster_sync();
#pragma unroll 1
  for (int block = 0; block < blocks; ++block) {
#pragma unroll
    for (int l = 0; l < TL; ++l) most[l] = max(most[l], *cluster_map_shared(&largest[first + l], block));
  }

  // Parts take their elements' place: of a line, four pairs of hi and four of lo.
  const auto store = [&](int k) {
    const std::int64_t plane = from.lines * to.pitch;
#pragma unroll
    for (int l = 0; l < TL; ++l) {
      if (line + l >= from.lines || k >= from.K) continue;
      fp16* hi = to.parts + matrix * PARTS * plane + (line + l) * to.pitch + k;
      float4_at(reinterpret_cast<float*>(hi)) = make_float4(x[l][0], x[l][1], x[l][2], x[l][3]);
      float4_at(reinterpret_cast<float*>(hi + plane)) = make_float4(x[l][4], x[l][5], x[l][6], x[l][7]);
    }
  };
#pragma unroll 1
  for (int slice = slices - 1; slice >= 0; --slice) {  // the last one is still here
    const int k = k_of(slice);
    if (slice < slices - 1) {
      store(k_of(slice + 1));
      load<COLUMNS, ALIGNED>(x, from, data, line, k);
    }
    unsigned counts = 0, lost = 0, none = 0;  // of the four lines, a byte each
#pragma unroll
    for (int l = 0; l < TL; ++l) {
      const bool special = most[l] >= 0x7f800000;
      const int s = special ? 0 : scale_for(most[l]);
      // 2^s may be too large for a float, if the line lies below 2^-112: two steps.
      const float factor = special ? 0.0f : power_of_two(min(s, 126)), rest = power_of_two(max(s - 126, 0));
      float scaled[TK], taken[TK], smallest = LEAST_KEPT;  // as they are, and what hi takes of them
#pragma unroll
      for (int e = 0; e < TK; ++e) {
        taken[e] = scaled[e] = x[l][e] * factor;
        smallest = fminf(smallest, fabsf(scaled[e]));
      }
      if (special || s > 126 || smallest < LEAST_KEPT) {  // where all is well, one test has to do
#pragma unroll
        for (int e = 0; e < TK; ++e) {
          const float element = x[l][e];
          scaled[e] = special ? stand_in(element) : element * factor * rest;
          // Not zero unless the element is.
          const float magnitude = fabsf(scaled[e]);
          taken[e] = magnitude < LEAST_FP16 && element != 0.0f ? copysignf(LEAST_FP16, element) : scaled[e];
          if (magnitude < LEAST_KEPT && element != 0.0f) lost += 1 << 8 * l;
          if (element == 0.0f && k + e < from.K) none += 1 << 8 * l;
        }
      }
#pragma unroll
      for (int e = 0; e < TK; e += 2) {
        const unsigned hi = pack_fp16(taken[e], taken[e + 1]);
        const float rest0 = scaled[e] - first_fp16(hi), rest1 = scaled[e + 1] - second_fp16(hi);
        x[l][e / 2] = __uint_as_float(hi);
        x[l][TK / 2 + e / 2] = __uint_as_float(special ? 0 : pack_fp16(rest0 * LO_SCALE, rest1 * LO_SCALE));
        for (int i = e; i < e + 2; ++i) {
          if (fabsf(scaled[i]) >= COUNTED) counts += 1 << 8 * l;
        }
      }
    }
    counts = sum_of<GROUP>(counts);
    lost = sum_of<32 / ACROSS>(lost);
    none = sum_of<32 / ACROSS>(none);
#pragma unroll
    for (int l = 0; l < TL; ++l) {
      if (k % COUNTED_K == 0 && line + l < from.lines && k < from.K) {
        const std::int64_t at = static_cast<std::int64_t>(matrix) * from.lines + line + l;
        // Products with a line of zeros are zeros, however few.
        const bool all_count = most[l] == 0 || most[l] >= 0x7f800000;
        to.counts[at * to.counts_pitch + k / COUNTED_K] =
            fp16(static_cast<float>(all_count ? COUNTED_K : byte_of(counts, l)) * COUNT_SCALE);
      }
      if (speaks && lost != 0) atomicAdd(&lossy[first + l], byte_of(lost, l));
      if (speaks && none != 0) atomicAdd(&zeros[first + l], byte_of(none, l));
    }
  }

  __syncthreads();
  if (threadIdx.x < STRIP) {
    *cluster_map_shared(&all_lossy[rank][threadIdx.x], 0) = lossy[threadIdx.x];
    *cluster_map_shared(&all_zeros[rank][threadIdx.x], 0) = zeros[threadIdx.x];
  }
  cluster_arrive();
  // Behind the arrival, which waits until what was stored before it is visible to other blocks.
  store(k_of(0));
  cluster_wait();
  if (rank == 0 && threadIdx.x < ACROSS) {
#pragma unroll
    for (int l = 0; l < TL; ++l) {
      if (line + l >= from.lines) continue;
      const bool special = most[l] >= 0x7f800000;
      unsigned lost = 0, none = 0;
#pragma unroll 1
      for (int block = 0; block < blocks; ++block) {
        lost += all_lossy[block][first + l];
        none += all_zeros[block][first + l];
      }
      to.facts[static_cast<std::int64_t>(matrix) * from.lines + line + l] = {
          special ? 0 : -scale_for(most[l]), special ? SPECIAL : lost, most[l] == 0 ? 0 : none, 0};
    }
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
__global__ void __launch_bounds__(THREADS, 768 / THREADS)
    split_lines(const __grid_constant__ Operands operands, int blocks, Ledger* ledger) {
  auto& shared = dynamic_shared<Shared>();
  let_next_launch_begin();
  wait_for_previous_launch();  // it may write A or B, and read what is written here
  if (blockIdx.x == 0 && blockIdx.y == 0 && blockIdx.z == 0 && threadIdx.x == 0) *ledger = {};
  const auto& [from, to] = operands.a_and_b[blockIdx.y];
  if (from.columns) {
    split_strip<THREADS, true, ALIGNED>(shared, from, to, blocks);
  } else {
    split_strip<THREADS, false, ALIGNED>(shared, from, to, blocks);
  }
}

template <int THREADS>
void launch_split(const Lines& a, const SplitLines& a_to, const Lines& b, const SplitLines& b_to,
                  bool aligned, int batch, Ledger* ledger) {
  const int blocks = min(MOST_BLOCKS, ceil_div(a.K, SLICE<THREADS>));
  const unsigned strips = ceil_div(max(a.lines, b.lines), STRIP);
  launch(aligned ? split_lines<THREADS, true> : split_lines<THREADS, false>,
         LaunchConfig{.grid = dim3(strips * blocks, 2, batch),
                      .block = dim3(THREADS),
                      .shared_bytes = sizeof(Shared),
                      .cluster = dim3(blocks, 1, 1),
                      .overlaps_previous = true},
         Operands{{{a, a_to}, {b, b_to}}}, blocks, ledger);
}

}  // namespace splitting

// Splits A and B; aligned: both, to float4. The ledger is cleared on the way.
void split(const Lines& a, const SplitLines& a_to, const Lines& b, const SplitLines& b_to, bool aligned,
           int batch, Ledger* ledger) {
  using namespace splitting;
  // A block of 512 threads instead of a cluster of two blocks of 256, which would wait for each other. Longer
  // lines take clusters in any case; a multiprocessor has three of the smaller blocks, one of the larger.
  const bool large = a.K > SLICE<256> && a.K <= SLICE<512>;
  (large ? launch_split<512> : launch_split<256>)(a, a_to, b, b_to, aligned, batch, ledger);
}

}  // namespace
