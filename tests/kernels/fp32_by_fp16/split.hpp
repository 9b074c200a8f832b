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
#include "common/cuda/dynamic_shared.hpp"
#include "common/cuda/float4.hpp"
#include "common/fp16.hpp"
#include "common/step.hpp"
#include "tests/kernels/fp32_by_fp16/paths.hpp"

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

constexpr int STRIP = 32, THREADS = 256;    // lines of a cluster, threads of a block
constexpr int LANES = THREADS / STRIP;      // threads of a line
constexpr int AT_ONCE = COUNTED_K / LANES;  // neighbouring elements that a thread splits
constexpr int MOST_BLOCKS = 8;              // of a cluster
static_assert(AT_ONCE == 8 && MOST_BLOCKS <= LANES);

template <int SLICE>
struct Shared {
  float x[STRIP][SLICE + 1];  // padded by one: a column lies in all banks
  unsigned largest[STRIP];    // bits of the largest magnitude in this block's share of a line
  unsigned lossy[STRIP];      // elements there
  unsigned zeros[STRIP];      // likewise
};

// x = from [lines line0 ...][k0 ...], zeros beyond the matrix.
template <bool COLUMNS, int SLICE>
__device__ __forceinline__ void load_slice(float (&x)[STRIP][SLICE + 1], const Lines& from, const float* data,
                                           int line0, int k0) {
  constexpr int ACROSS = (COLUMNS ? STRIP : SLICE) / 4;
#pragma unroll 8
  for (int i = threadIdx.x; i < STRIP * SLICE / 4; i += THREADS) {
    const int first = i % ACROSS * 4, other = i / ACROSS;
    const int line = COLUMNS ? first : other, k = COLUMNS ? other : first;
    const std::int64_t at = COLUMNS ? (k0 + k) * from.ld + line0 + line : (line0 + line) * from.ld + k0 + k;
    const int in_row = COLUMNS ? from.lines - line0 - line : from.K - k0 - k;
    const int valid = (COLUMNS ? k0 + k < from.K : line0 + line < from.lines) ? in_row : 0;
    const float4 v = from.aligned ? load4<true>(data + at, valid) : load4<false>(data + at, valid);
    x[line][k] = v.x;
    x[COLUMNS ? line + 1 : line][COLUMNS ? k : k + 1] = v.y;
    x[COLUMNS ? line + 2 : line][COLUMNS ? k : k + 2] = v.z;
    x[COLUMNS ? line + 3 : line][COLUMNS ? k : k + 3] = v.w;
  }
}

// Over the threads of a line, which are neighbours in a warp.
__device__ __forceinline__ unsigned largest_of_line(unsigned value) {
  for (int apart = 1; apart < LANES; apart *= 2)
    value = max(value, __shfl_xor_sync(0xffffffff, value, apart));
  return value;
}
__device__ __forceinline__ unsigned sum_of_line(unsigned value) {
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

// A cluster splits STRIP lines; each of its blocks every gridDim-th slice of their terms. A block that has no
// more than one slice reads it once.
template <bool COLUMNS, int SLICE>
__global__ void __launch_bounds__(THREADS)
    split_lines(Lines from, SplitLines to, int blocks, Ledger* ledger) {
  auto& [x, largest, lossy, zeros] = dynamic_shared<Shared<SLICE>>();
  const int rank = blockIdx.x % blocks, line0 = blockIdx.x / blocks * STRIP, matrix = blockIdx.z;
  const float* data = from.data + matrix * from.stride;
  const int slices = ceil_div(ceil_div(from.K, SLICE), blocks);
  const int here = threadIdx.x / LANES, lane = threadIdx.x % LANES, line = line0 + here;

  if (ledger != nullptr && blockIdx.x == 0 && matrix == 0 && threadIdx.x == 0) *ledger = {};

  unsigned most = 0;  // as bits, magnitudes are ordered; those of an infinity and of NaNs come last
  for (int slice = 0; slice < slices; ++slice) {
    if (slice > 0) __syncthreads();
    load_slice<COLUMNS, SLICE>(x, from, data, line0, (slice * blocks + rank) * SLICE);
    __syncthreads();
    for (int k = lane * AT_ONCE; k < SLICE; k += COUNTED_K) {
      for (int e = 0; e < AT_ONCE; ++e) most = max(most, __float_as_uint(x[here][k + e]) & 0x7fffffff);
    }
  }
  most = largest_of_line(most);
  if (blocks > 1) {
    if (lane == 0) largest[here] = most;
    cluster_sync();
    most = lane < blocks ? *cluster_map_shared(&largest[here], lane) : 0;
    most = largest_of_line(most);
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
      load_slice<COLUMNS, SLICE>(x, from, data, line0, k0);
      __syncthreads();
    }
    for (int block = 0; block < SLICE && k0 + block < from.K; block += COUNTED_K) {
      const int k = block + lane * AT_ONCE;
      unsigned pairs[PARTS][AT_ONCE / 2], count = 0;
#pragma unroll
      for (int e = 0; e < AT_ONCE; e += 2) {
        float scaled[2], first[2];  // as they are, and what hi takes of them: not zero unless they are
        for (int i = 0; i < 2; ++i) {
          const float element = x[here][k + e + i];
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
      count = sum_of_line(count);
      if (lane == 0 && line < from.lines) {
        // Products with a line of zeros are zeros, however few.
        counts[(k0 + block) / COUNTED_K] = fp16((zero || special ? COUNTED_K : count) * COUNT_SCALE);
      }
    }
  }
  lost = sum_of_line(lost);
  none = sum_of_line(none);
  if (blocks > 1) {
    if (lane == 0) lossy[here] = lost, zeros[here] = none;
    cluster_sync();
    if (rank == 0) {
      lost = sum_of_line(lane < blocks ? *cluster_map_shared(&lossy[here], lane) : 0);
      none = sum_of_line(lane < blocks ? *cluster_map_shared(&zeros[here], lane) : 0);
    }
    cluster_sync();  // nobody leaves while its memory is read
  }
  if (rank == 0 && lane == 0 && line < from.lines) {
    to.facts[static_cast<std::int64_t>(matrix) * from.lines + line] = {-s, special ? SPECIAL : lost,
                                                                       zero ? 0 : none, 0};
  }
}

template <bool COLUMNS, int SLICE>
void launch_split(const Lines& from, const SplitLines& to, int batch, Ledger* ledger) {
  const int blocks = min(MOST_BLOCKS, ceil_div(from.K, SLICE));
  const unsigned strips = ceil_div(from.lines, STRIP);
  const dim3 grid(strips * blocks, 1, batch), cluster(blocks, 1, 1);
  launch(split_lines<COLUMNS, SLICE>, LaunchConfig{grid, dim3(THREADS), sizeof(Shared<SLICE>), cluster}, from,
         to, blocks, ledger);
}

}  // namespace splitting

// Splits lines that are rows in memory, as those of A are, or columns, as those of B. A ledger is cleared on
// the way.
template <bool COLUMNS>
void split(const Lines& from, const SplitLines& to, int batch, Ledger* ledger) {
  constexpr int SHORT = 128, LONG = 1024;
  if (from.K <= SHORT * splitting::MOST_BLOCKS) {
    splitting::launch_split<COLUMNS, SHORT>(from, to, batch, ledger);
  } else {
    splitting::launch_split<COLUMNS, LONG>(from, to, batch, ledger);
  }
}

}  // namespace
