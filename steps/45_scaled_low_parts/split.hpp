#pragma once

// The splitting pass: x * 2^scale = hi + lo / 2^11 for each element x of A and B, hi and lo FP16 numbers. The
// scale of a line, a row of A or a column of B, brings its largest element into [2^14, 2^15).
//
// A cluster of up to eight blocks has STRIP lines, and each block a slice of their terms, which it keeps in
// shared memory: there the elements wait until all blocks know the largest of each line, and from there they
// go out K-major, whatever they were in memory.

#include "common/cuda/async_copy.hpp"
#include "common/cuda/cluster.hpp"
#include "common/cuda/dynamic_shared.hpp"
#include "common/cuda/float4.hpp"
#include "common/fp16.hpp"
#include "common/step.hpp"

// In an unnamed namespace, as the kernel is: a program holds all this for both devices.
namespace {

constexpr int PARTS = 2;             // hi and lo
constexpr float LO_SCALE = 0x1p11f;  // lo has an exponent range of its own
constexpr int LARGEST = 14;          // exponent of a line's largest element, scaled

// Lines as they are in A or B.
struct Lines {
  const float* data;
  int lines, K;
  std::int64_t ld, stride;
  bool aligned;
};

// Where their parts go. The pitch is a multiple of 8 elements: 16 bytes.
struct SplitLines {
  fp16* parts;  // [batch][PARTS][lines][pitch]
  int* scales;  // [batch][lines]: exponents
  std::int64_t pitch;
};

// 2^exponent, which is a normal number.
__device__ __forceinline__ float power_of_two(int exponent) {
  return __uint_as_float(static_cast<unsigned>(exponent + 127) << 23);
}

// x * 2^exponent, with one rounding unless the result is subnormal; 2^exponent may be no float: two steps.
__device__ __forceinline__ float scaled(float x, int exponent) {
  const int first = min(max(exponent, -126), 127), second = min(max(exponent - first, -126), 127);
  return x * power_of_two(first) * power_of_two(second);
}

namespace splitting {

constexpr int THREADS = 256;    // of a block
constexpr int AT_ONCE = 8;      // neighbouring elements that a thread splits
constexpr int MOST_BLOCKS = 8;  // of a cluster

// STRIP lines of a cluster, of which a block has SLICE terms at a time.
template <int STRIP, int SLICE>
struct Shared {
  float x[STRIP * SLICE];   // as place() says
  unsigned largest[STRIP];  // bits of the largest magnitude in this block's share of a line
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

// The scale of a line whose largest magnitude has these bits.
__device__ __forceinline__ int scale_for(unsigned bits) {
  const float largest = __uint_as_float(bits);
  if (largest == 0.0f) return 0;
  const bool subnormal = largest < 0x1p-126f;
  const unsigned normal = subnormal ? __float_as_uint(largest * 0x1p24f) : bits;
  return LARGEST - (static_cast<int>(normal >> 23) - 127 - (subnormal ? 24 : 0));
}

// What a cluster does: splits STRIP lines. Each of its blocks has every gridDim-th slice of their terms, and
// reads it once if it has no more than one.
template <bool COLUMNS, int STRIP, int SLICE>
__device__ __forceinline__ void split_strip(Shared<STRIP, SLICE>& shared, const Lines& from,
                                            const SplitLines& to, int blocks) {
  constexpr int LANES = THREADS / STRIP, STEP = LANES * AT_ONCE;  // threads of a line, and their terms
  static_assert(LANES >= MOST_BLOCKS && 32 % LANES == 0 && SLICE % STEP == 0);
  auto& [x, largest] = shared;
  const int rank = blockIdx.x % blocks, line0 = blockIdx.x / blocks * STRIP, matrix = blockIdx.z;
  if (line0 >= from.lines) return;
  const float* data = from.data + matrix * from.stride;
  const int slices = ceil_div(ceil_div(from.K, SLICE), blocks);
  const int here = threadIdx.x / LANES, lane = threadIdx.x % LANES, line = line0 + here;

  unsigned most = 0;  // as bits, magnitudes are ordered
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
    cluster_sync();  // nobody leaves while its memory is read
  }
  const int scale = scale_for(most);
  if (rank == 0 && lane == 0 && line < from.lines) {
    to.scales[static_cast<std::int64_t>(matrix) * from.lines + line] = scale;
  }
  // 2^scale may be too large for a float, if the line lies below 2^-112: two steps.
  const float factor = power_of_two(min(scale, 126)), rest = power_of_two(max(scale - 126, 0));

  const std::int64_t plane = from.lines * to.pitch;
  fp16* hi = to.parts + matrix * PARTS * plane + line * to.pitch;
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
      unsigned pairs[PARTS][AT_ONCE / 2];
#pragma unroll
      for (int e = 0; e < AT_ONCE; e += 2) {
        const float x0 = v[e] * factor * rest, x1 = v[e + 1] * factor * rest;
        pairs[0][e / 2] = pack_fp16(x0, x1);
        const float rest0 = x0 - first_fp16(pairs[0][e / 2]), rest1 = x1 - second_fp16(pairs[0][e / 2]);
        pairs[1][e / 2] = pack_fp16(rest0 * LO_SCALE, rest1 * LO_SCALE);
      }
      if (line < from.lines && k0 + k < to.pitch) {
        for (int part = 0; part < PARTS; ++part) {
          const unsigned (&p)[4] = pairs[part];
          float4_at(reinterpret_cast<float*>(hi + part * plane + k0 + k)) = make_float4(
              __uint_as_float(p[0]), __uint_as_float(p[1]), __uint_as_float(p[2]), __uint_as_float(p[3]));
        }
      }
    }
  }
}

// Blocks with y = 0 split rows of A, those with y = 1 columns of B.
template <int STRIP, int SLICE>
__global__ void __launch_bounds__(THREADS, STRIP* SLICE < 16384 ? 4 : 3)
    split_lines(Lines rows, SplitLines rows_to, Lines columns, SplitLines columns_to, int blocks) {
  auto& shared = dynamic_shared<Shared<STRIP, SLICE>>();
  if (blockIdx.y == 0) {
    split_strip<false, STRIP, SLICE>(shared, rows, rows_to, blocks);
  } else {
    split_strip<true, STRIP, SLICE>(shared, columns, columns_to, blocks);
  }
}

template <int STRIP, int SLICE>
void launch_split(const Lines& rows, const SplitLines& rows_to, const Lines& columns,
                  const SplitLines& columns_to, int batch) {
  const int blocks = max(min(MOST_BLOCKS, ceil_div(rows.K, SLICE)), 1);
  const unsigned strips = ceil_div(max(rows.lines, columns.lines), STRIP);
  launch(split_lines<STRIP, SLICE>,
         LaunchConfig{.grid = dim3(strips * blocks, 2, batch),
                      .block = dim3(THREADS),
                      .shared_bytes = sizeof(Shared<STRIP, SLICE>),
                      .cluster = dim3(blocks, 1, 1)},
         rows, rows_to, columns, columns_to, blocks);
}

}  // namespace splitting

// Splits rows of A and columns of B.
void split(const Lines& rows, const SplitLines& rows_to, const Lines& columns, const SplitLines& columns_to,
           int batch) {
  using namespace splitting;
  const auto short_enough = [&](int slice) { return rows.K <= slice * MOST_BLOCKS; };
  const auto launch = short_enough(128)   ? launch_split<32, 128>
                      : short_enough(256) ? launch_split<32, 256>
                      : short_enough(512) ? launch_split<32, 512>
                                          : launch_split<16, 1024>;
  launch(rows, rows_to, columns, columns_to, batch);
}

}  // namespace
