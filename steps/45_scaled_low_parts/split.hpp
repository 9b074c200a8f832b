#pragma once

// The splitting pass: x * 2^scale = hi + lo / 2^11 for each element x of A and B, hi and lo FP16 numbers. The
// scale of a line, a row of A or a column of B, brings its largest element into [2^14, 2^15).
//
// A cluster of up to eight blocks has STRIP lines, and each block a slice of their terms, which it keeps in
// shared memory: there the elements wait until all blocks know the largest of each line, and from there they
// go out K-major, whatever they were in memory.

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

constexpr int STRIP = 32, THREADS = 256;  // lines of a cluster, threads of a block
constexpr int LANES = THREADS / STRIP;    // threads of a line
constexpr int AT_ONCE = 8;                // neighbouring elements that a thread splits
constexpr int MOST_BLOCKS = 8;            // of a cluster
static_assert(MOST_BLOCKS <= LANES);

template <int SLICE>
struct Shared {
  float x[STRIP][SLICE + 1];  // padded by one: a column lies in all banks
  unsigned largest[STRIP];    // bits of the largest magnitude in this block's share of a line
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
  for (int apart = 1; apart < LANES; apart *= 2) {
    value = max(value, __shfl_xor_sync(0xffffffff, value, apart));
  }
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

// Each of a cluster's `blocks` blocks has every so-many-th slice of its lines. A block that has no more than
// one slice reads it once.
template <bool COLUMNS, int SLICE>
__global__ void __launch_bounds__(THREADS, 1) split_lines(Lines from, SplitLines to, int blocks) {
  auto& [x, largest] = dynamic_shared<Shared<SLICE>>();
  const int rank = blockIdx.x % blocks, line0 = blockIdx.x / blocks * STRIP, matrix = blockIdx.z;
  const float* data = from.data + matrix * from.stride;
  const int slices = ceil_div(ceil_div(from.K, SLICE), blocks);
  const int here = threadIdx.x / LANES, lane = threadIdx.x % LANES, line = line0 + here;

  unsigned most = 0;  // as bits, magnitudes are ordered
  for (int slice = 0; slice < slices; ++slice) {
    if (slice > 0) __syncthreads();
    load_slice<COLUMNS, SLICE>(x, from, data, line0, (slice * blocks + rank) * SLICE);
    __syncthreads();
    for (int k = lane; k < SLICE; k += LANES) most = max(most, __float_as_uint(x[here][k]) & 0x7fffffff);
  }
  most = largest_of_line(most);
  if (blocks > 1) {
    if (lane == 0) largest[here] = most;
    cluster_sync();
    most = lane < blocks ? *cluster_map_shared(&largest[here], lane) : 0;
    most = largest_of_line(most);
    cluster_sync();  // nobody leaves while its memory is read
  }
  const int scale = scale_for(most);
  if (rank == 0 && lane == 0 && line < from.lines) {
    to.scales[static_cast<std::int64_t>(matrix) * from.lines + line] = scale;
  }

  const std::int64_t plane = from.lines * to.pitch;
  fp16* hi = to.parts + matrix * PARTS * plane + line * to.pitch;
  for (int slice = slices - 1; slice >= 0; --slice) {  // the last one is still here
    const int k0 = (slice * blocks + rank) * SLICE;
    if (slice < slices - 1) {
      __syncthreads();
      load_slice<COLUMNS, SLICE>(x, from, data, line0, k0);
      __syncthreads();
    }
    for (int k = lane * AT_ONCE; k < SLICE; k += LANES * AT_ONCE) {
      if (line >= from.lines || k0 + k >= to.pitch) break;
      unsigned pairs[PARTS][AT_ONCE / 2];
#pragma unroll
      for (int e = 0; e < AT_ONCE; e += 2) {
        const float x0 = scaled(x[here][k + e], scale), x1 = scaled(x[here][k + e + 1], scale);
        const unsigned both = pack_fp16(x0, x1);
        pairs[0][e / 2] = both;
        pairs[1][e / 2] = pack_fp16(LO_SCALE * (x0 - first_fp16(both)), LO_SCALE * (x1 - second_fp16(both)));
      }
      for (int part = 0; part < PARTS; ++part) {
        const unsigned (&p)[4] = pairs[part];
        float4_at(reinterpret_cast<float*>(hi + part * plane + k0 + k)) = make_float4(
            __uint_as_float(p[0]), __uint_as_float(p[1]), __uint_as_float(p[2]), __uint_as_float(p[3]));
      }
    }
  }
}

template <bool COLUMNS, int SLICE>
void launch_split(const Lines& from, const SplitLines& to, int batch) {
  const int blocks = min(MOST_BLOCKS, max(ceil_div(from.K, SLICE), 1));
  const unsigned strips = ceil_div(from.lines, STRIP);
  const dim3 grid(strips * blocks, 1, batch), cluster(blocks, 1, 1);
  launch(split_lines<COLUMNS, SLICE>, LaunchConfig{grid, dim3(THREADS), sizeof(Shared<SLICE>), cluster}, from,
         to, blocks);
}

}  // namespace splitting

// Splits rows of A, or columns of B.
template <bool COLUMNS>
void split(const Lines& from, const SplitLines& to, int batch) {
  constexpr int SHORT = 128, LONG = 1024;
  if (from.K <= SHORT * splitting::MOST_BLOCKS) {
    splitting::launch_split<COLUMNS, SHORT>(from, to, batch);
  } else {
    splitting::launch_split<COLUMNS, LONG>(from, to, batch);
  }
}

}  // namespace
