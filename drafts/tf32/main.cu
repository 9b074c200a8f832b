// Measures every design of the registry; see README.md. One JSON line per design and size on standard output.
//   main [--sizes 4096,8192] [--reps 9] [--idle 30] [--delay 500] [--sustain 0.1] [--only PART,PART]
//   [--no-peak] [--series NAME] [--list]
#include <cublas_v2.h>
#include <dlfcn.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>

#include "variants.hpp"

#define CHECK(x)                                                                  \
  do {                                                                            \
    const cudaError_t e_ = (x);                                                   \
    if (e_ != cudaSuccess) {                                                      \
      fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, cudaGetErrorString(e_)); \
      fflush(stdout);                                                             \
      _exit(9);                                                                   \
    }                                                                             \
  } while (0)

// ---- Passes beforehand
// -------------------------------------------------------------------------------------

__device__ float rna(float v) {
  uint32_t r;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(r) : "f"(v));
  return __uint_as_float(r);
}

__global__ void fill(float* p, size_t n, unsigned seed) {
  for (size_t i = blockIdx.x * static_cast<size_t>(blockDim.x) + threadIdx.x; i < n;
       i += static_cast<size_t>(gridDim.x) * blockDim.x) {
    unsigned x = static_cast<unsigned>(i) * 2654435761u + seed;
    x ^= x >> 16, x *= 0x7feb352du, x ^= x >> 15, x *= 0x846ca68bu, x ^= x >> 16;
    p[i] = (x >> 8) * (2.f / 16777216.f) - 1.f;
  }
}

__global__ void round_copy(const float4* from, float4* to, size_t n4) {
  for (size_t i = blockIdx.x * static_cast<size_t>(blockDim.x) + threadIdx.x; i < n4;
       i += static_cast<size_t>(gridDim.x) * blockDim.x) {
    const float4 v = from[i];
    to[i] = make_float4(rna(v.x), rna(v.y), rna(v.z), rna(v.w));
  }
}

// to[col][row] = rounded from[row][col]; 64 x 64 tiles, 256 threads.
__global__ void transpose_round(const float* from, float* to, int rows, int cols, bool rounded) {
  __shared__ float tile[64][65];
  const int row0 = blockIdx.y * 64, col0 = blockIdx.x * 64, x = threadIdx.x % 16 * 4, y = threadIdx.x / 16;
  for (int i = y; i < 64; i += 16) {
    const float4 v = *reinterpret_cast<const float4*>(from + static_cast<size_t>(row0 + i) * cols + col0 + x);
    tile[i][x] = v.x, tile[i][x + 1] = v.y, tile[i][x + 2] = v.z, tile[i][x + 3] = v.w;
  }
  __syncthreads();
  for (int i = y; i < 64; i += 16) {
    float4 v = make_float4(tile[x][i], tile[x + 1][i], tile[x + 2][i], tile[x + 3][i]);
    if (rounded) v = make_float4(rna(v.x), rna(v.y), rna(v.z), rna(v.w));
    *reinterpret_cast<float4*>(to + static_cast<size_t>(col0 + i) * rows + row0 + x) = v;
  }
}

// Fragment order: [M / BM][K / BK][BM / 16][BK / 8][lane][4], lane's a0..a3 of one m16n8k8.
__global__ void pack_a(const float* A, float4* to, int M, int K, int BM, int BK) {
  const size_t i = blockIdx.x * static_cast<size_t>(blockDim.x) + threadIdx.x;
  const int lane = i % 32, g = lane / 4, t = lane % 4;
  const int fragments = BM / 16 * (BK / 8);
  const size_t f = i / 32, tile = f / fragments;
  const int in = f % fragments, m16 = in / (BK / 8), s = in % (BK / 8), slabs = K / BK;
  const size_t row = tile / slabs * BM + m16 * 16 + g;
  const float* at = A + row * K + tile % slabs * BK + s * 8 + t;
  to[i] = make_float4(rna(at[0]), rna(at[8 * static_cast<size_t>(K)]), rna(at[4]),
                      rna(at[8 * static_cast<size_t>(K) + 4]));
}
// [N / BN][K / BK][BN / 16][BK / 8][lane][4]: lane's b0, b1 of columns 0..7, then of columns 8..15.
__global__ void pack_b(const float* Bm, float4* to, int N, int K, int BN, int BK) {
  const size_t i = blockIdx.x * static_cast<size_t>(blockDim.x) + threadIdx.x;
  const int lane = i % 32, g = lane / 4, t = lane % 4;
  const int fragments = BN / 16 * (BK / 8);
  const size_t f = i / 32, tile = f / fragments;
  const int in = f % fragments, n16 = in / (BK / 8), s = in % (BK / 8), slabs = K / BK;
  const size_t col = tile / slabs * BN + n16 * 16 + g, k = tile % slabs * BK + s * 8 + t;
  const float* at = Bm + k * N + col;
  to[i] = make_float4(rna(at[0]), rna(at[4 * static_cast<size_t>(N)]), rna(at[8]),
                      rna(at[4 * static_cast<size_t>(N) + 8]));
}

// out: {max |a - b|, sum (a - b)^2, sum (a - b) sign(b), NaNs}
__global__ void compare(const float* a, const float* b, size_t n, double* out) {
  double most = 0, squares = 0, toward = 0, bad = 0;
  for (size_t i = blockIdx.x * static_cast<size_t>(blockDim.x) + threadIdx.x; i < n;
       i += static_cast<size_t>(gridDim.x) * blockDim.x) {
    const double d = static_cast<double>(a[i]) - b[i];
    if (!(fabs(d) < 1e30)) {
      bad += 1;
      continue;
    }
    most = fmax(most, fabs(d)), squares += d * d, toward += b[i] < 0 ? -d : d;
  }
  for (int o = 16; o; o /= 2) {
    most = fmax(most, __shfl_xor_sync(~0u, most, o));
    squares += __shfl_xor_sync(~0u, squares, o), toward += __shfl_xor_sync(~0u, toward, o),
        bad += __shfl_xor_sync(~0u, bad, o);
  }
  if (threadIdx.x % 32 == 0) {
    atomicMax(reinterpret_cast<unsigned long long*>(out),
              static_cast<unsigned long long>(__double_as_longlong(most)));
    atomicAdd(out + 1, squares), atomicAdd(out + 2, toward), atomicAdd(out + 3, bad);
  }
}

// Which rounding does a tensor map of type TFLOAT32 do? Counts, of 32 x 32 elements, those equal to
// `cvt.rna`, to round to nearest even, to truncation, and those copied unchanged.
__global__ void tma_rounding(const __grid_constant__ CUtensorMap map, const float* from, int* counts) {
  __shared__ __align__(1024) float tile[32][32];
  __shared__ __align__(8) unsigned long long barrier;
  const uint32_t b = dev::shared_address(&barrier);
  if (threadIdx.x == 0) {
    dev::barrier_init(b, 1);
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    dev::barrier_expect(b, 4096);
    dev::tma2(dev::shared_address(tile), map, 0, 0, b);
  }
  __syncthreads();
  dev::barrier_wait(b, 0);
  for (int i = threadIdx.x; i < 1024; i += blockDim.x) {
    const int row = i / 32, col = i % 32;
    const uint32_t got = __float_as_uint(tile[row][((col / 4) ^ (row & 7)) * 4 + col % 4]),
                   had = __float_as_uint(from[i]);
    const uint32_t even = (had + 0xfffu + (had >> 13 & 1)) & ~0x1fffu;
    if (got == (__float_as_uint(rna(from[i])) & ~0x1fffu)) atomicAdd(counts, 1);
    if (got == even) atomicAdd(counts + 1, 1);
    if (got == (had & ~0x1fffu)) atomicAdd(counts + 2, 1);
    if (got == had) atomicAdd(counts + 3, 1);
  }
}

// ---- Rates of single instructions
// ----------------------------------------------------------------------------

// Independent mma.sync m16n8k8 TF32 on registers, ACC accumulators a warp.
template <int ACC>
__global__ void peak(float* out, int rounds, long long* clock) {
  float acc[ACC][4];
  uint32_t x[4], y[2];
  for (int i = 0; i < 4; ++i) x[i] = __float_as_uint(rna(1e-3f * ((threadIdx.x * 7 + i * 13) % 101 - 50)));
  for (int i = 0; i < 2; ++i) y[i] = __float_as_uint(rna(1e-3f * ((threadIdx.x * 11 + i * 17) % 97 - 48)));
  for (int j = 0; j < ACC; ++j)
    for (int e = 0; e < 4; ++e) acc[j][e] = 0;
  const long long start = clock64();
  for (int r = 0; r < rounds; ++r) {
#pragma unroll
    for (int u = 0; u < 32 / ACC; ++u)
#pragma unroll
      for (int j = 0; j < ACC; ++j) dev::mma(acc[j], x, y);
  }
  const long long end = clock64();
  float sum = 0;
  for (int j = 0; j < ACC; ++j)
    for (int e = 0; e < 4; ++e) sum += acc[j][e];
  if (sum == 12345.678f) *out = sum;
  if (blockIdx.x == 0 && threadIdx.x == 0) *clock = end - start;
}

// Loads from shared memory, 8 in flight, no conflicts. KIND 0: ldmatrix.x4, 1: LDS.128, 2: LDS.64, 3: LDS.32.
template <int KIND>
__global__ void shared_rate(float* out, int rounds, long long* clock) {
  extern __shared__ __align__(1024) unsigned char raw[];
  for (int i = threadIdx.x; i < 8192; i += blockDim.x) reinterpret_cast<uint32_t*>(raw)[i] = i;
  __syncthreads();
  const int lane = threadIdx.x % 32;
  const uint32_t width = KIND <= 1 ? 16 : KIND == 2 ? 8 : 4;
  const uint32_t at = dev::shared_address(raw) + threadIdx.x / 32 % 8 * 2048 + lane * width;
  uint32_t v[8][4] = {}, sum = 0;
  const long long start = clock64();
  for (int r = 0; r < rounds; ++r) {
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      const uint32_t from =
          at + i * 512 + r % 64 * 64;  // another place each time: equal loads would be joined
      if constexpr (KIND == 0) dev::ldmatrix4(v[i], from);
      if constexpr (KIND == 1) dev::lds128(v[i][0], v[i][1], v[i][2], v[i][3], from);
      if constexpr (KIND == 2) dev::lds64(v[i][0], v[i][1], from);
      if constexpr (KIND == 3) dev::lds32(v[i][0], from);
    }
    for (int i = 0; i < 8; ++i)  // every loaded register is used, each once
      for (int e = 0; e < (KIND <= 1 ? 4 : KIND == 2 ? 2 : 1); ++e) sum ^= v[i][e];
  }
  const long long end = clock64();
  if (sum == 123456789u) *out = sum;
  if (blockIdx.x == 0 && threadIdx.x == 0) *clock = end - start;
}

// The inner loop of a 64 x (8 J) warp tile without copies and barriers: I x J mma's a step of 8 k on distinct
// fragments. FEED 0: fragments stay in registers; 1: LDS.128 in fragment order; 2: LDSM for A, LDS.128 +
// moves for B as in B::lds128; 3: LDSM for both. The fragments of the next step are loaded before the mma's
// of this one. ORDER 0: along j in serpentine for each i; 1: along i for each j; 2: pairs of j.
template <int FEED, Round R, int ORDER, int J = 8>
__global__ void __launch_bounds__(256, 1) inner(float* out, int rounds, long long* clock) {
  extern __shared__ __align__(1024) unsigned char raw[];
  constexpr int I = 4;
  for (int i = threadIdx.x; i < 24576; i += blockDim.x) {
    unsigned v = i * 2654435761u;
    v ^= v >> 16, v *= 0x7feb352du, v ^= v >> 15;
    reinterpret_cast<float*>(raw)[i] = rna((v >> 8) * (2.f / 16777216.f) - 1.f);
  }
  __syncthreads();
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const uint32_t a_at = dev::shared_address(raw) + warp / 4 * 8192 + lane * 16;
  const uint32_t b_at = dev::shared_address(raw) + 32768 + warp % 4 * 8192 + lane * 16;
  uint32_t x[2][I][4], y[2][J][2];
  float acc[I][J][4] = {};
  auto load = [&](int f, int s) {
#pragma unroll
    for (int i = 0; i < I; ++i) {
      const uint32_t at = a_at + (i * 4 + s) * 512;
      if constexpr (FEED == 1) dev::lds128(x[f][i][0], x[f][i][1], x[f][i][2], x[f][i][3], at);
      if constexpr (FEED >= 2) dev::ldmatrix4(x[f][i], at);
    }
#pragma unroll
    for (int j = 0; j < J; j += 2) {
      const uint32_t at = b_at + (j / 2 * 4 + s) * 512;
      if constexpr (FEED == 1) dev::lds128(y[f][j][0], y[f][j][1], y[f][j + 1][0], y[f][j + 1][1], at);
      if constexpr (FEED == 2) {
        const int q = j / 4 * 4, e = j / 2 % 2;
        dev::lds128(y[f][q][e], y[f][q + 1][e], y[f][q + 2][e], y[f][q + 3][e], at);
      }
      if constexpr (FEED == 3) {
        uint32_t r[4];
        dev::ldmatrix4(r, at);
        y[f][j][0] = r[0], y[f][j][1] = r[1], y[f][j + 1][0] = r[2], y[f][j + 1][1] = r[3];
      }
    }
  };
  if constexpr (FEED == 0) {
    const uint32_t* from = reinterpret_cast<const uint32_t*>(raw) + threadIdx.x;
    for (int f = 0; f < 2; ++f) {
      for (int i = 0; i < I; ++i)
        for (int e = 0; e < 4; ++e) x[f][i][e] = from[(f * 16 + i * 4 + e) * 256];
      for (int j = 0; j < J; ++j)
        for (int e = 0; e < 2; ++e) y[f][j][e] = from[(40 + f * 16 + j * 2 + e) * 256];
    }
  } else {
    load(0, 0);
  }
  const long long start = clock64();
#pragma unroll 1
  for (int r = 0; r < rounds; ++r) {
#pragma unroll
    for (int s = 0; s < 4; ++s) {
      if constexpr (FEED) load((s + 1) & 1, (s + 1) & 3);
      const int f = s & 1;
      if constexpr (FEED && R != Round::none) {
#pragma unroll
        for (int i = 0; i < I; ++i)
          for (int e = 0; e < 4; ++e) dev::round_tf32<R>(x[f][i][e]);
#pragma unroll
        for (int j = 0; j < J; ++j)
          for (int e = 0; e < 2; ++e) dev::round_tf32<R>(y[f][j][e]);
      }
#pragma unroll
      for (int m = 0; m < I * J; ++m) {
        int i, j;
        if constexpr (ORDER == 0) i = m / J, j = i % 2 ? J - 1 - m % J : m % J;
        if constexpr (ORDER == 1) j = m / I, i = j % 2 ? I - 1 - m % I : m % I;
        if constexpr (ORDER == 2) j = m / (2 * I) * 2 + m % 2, i = m / 2 % I;
        dev::mma(acc[i][j], x[f][i], y[f][j]);
      }
    }
  }
  const long long end = clock64();
  float sum = 0;
  for (int i = 0; i < I; ++i)
    for (int j = 0; j < J; ++j)
      for (int e = 0; e < 4; ++e) sum += acc[i][j][e];
  if (sum == 12345.678f) *out = sum;
  if (blockIdx.x == 0 && threadIdx.x == 0) *clock = end - start;
}

// cvt.rna.tf32 and + 0x1000 on registers: instructions a cycle.
template <Round R>
__global__ void round_rate(float* out, int rounds, long long* clock) {
  uint32_t v[8];
  for (int i = 0; i < 8; ++i) v[i] = threadIdx.x * 77 + i;
  const long long start = clock64();
  for (int r = 0; r < rounds; ++r)
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      if constexpr (R == Round::add) asm volatile("add.u32 %0, %0, %1;" : "+r"(v[i]) : "r"(v[(i + 1) % 8]));
      if constexpr (R == Round::cvt) dev::round_tf32<R>(v[i]);
    }
  const long long end = clock64();
  uint32_t sum = 0;
  for (int i = 0; i < 8; ++i) sum += v[i];
  if (sum == 123456789u) *out = sum;
  if (blockIdx.x == 0 && threadIdx.x == 0) *clock = end - start;
}

// ---- Host
// ----------------------------------------------------------------------------------------------------

struct Nvml {
  void* device = nullptr;
  int (*power)(void*, unsigned*) = nullptr;
  int (*clock)(void*, int, unsigned*) = nullptr;
  Nvml() {
    void* lib = dlopen("libnvidia-ml.so.1", RTLD_NOW);
    if (!lib) return;
    const auto init = reinterpret_cast<int (*)()>(dlsym(lib, "nvmlInit_v2"));
    const auto handle =
        reinterpret_cast<int (*)(unsigned, void**)>(dlsym(lib, "nvmlDeviceGetHandleByIndex_v2"));
    if (!init || !handle || init() || handle(0, &device)) {
      device = nullptr;
      return;
    }
    power = reinterpret_cast<int (*)(void*, unsigned*)>(dlsym(lib, "nvmlDeviceGetPowerUsage"));
    clock = reinterpret_cast<int (*)(void*, int, unsigned*)>(dlsym(lib, "nvmlDeviceGetClockInfo"));
  }
  double watts() const {
    unsigned mw = 0;
    return device && power && !power(device, &mw) ? mw * 1e-3 : -1;
  }
  int mhz() const {
    unsigned c = 0;
    return device && clock && !clock(device, 1, &c) ? static_cast<int>(c) : -1;  // 1: the SM's
  }
};

struct Options {
  std::vector<int> sizes{4096, 8192};
  int reps = 9, idle = 30, delay = 500;
  double sustain = 0.1;
  std::string only, series;
  bool peak = true;
} options;

using Encode = CUresult (*)(CUtensorMap*, CUtensorMapDataType, cuuint32_t, void*, const cuuint64_t*,
                            const cuuint64_t*, const cuuint32_t*, const cuuint32_t*, CUtensorMapInterleave,
                            CUtensorMapSwizzle, CUtensorMapL2promotion, CUtensorMapFloatOOBfill);
Encode encode;
cublasHandle_t blas;
cudaEvent_t event_a, event_b;
float *A, *Bm, *C, *R, *E, *A2, *B2;
double* stats;
long long* clocks;  // pinned host memory
float4* partial;
unsigned* ready;
unsigned launches = 0;
int sms = 132;

CUtensorMap map2(const float* p, int inner, int outer, int box_inner, int box_outer, CUtensorMapDataType type,
                 bool swizzle = true) {
  CUtensorMap m;
  const cuuint64_t sizes[] = {static_cast<cuuint64_t>(inner), static_cast<cuuint64_t>(outer)},
                   pitch[] = {static_cast<cuuint64_t>(inner) * 4};
  const cuuint32_t box[] = {static_cast<cuuint32_t>(box_inner), static_cast<cuuint32_t>(box_outer)},
                   one[] = {1, 1};
  const CUresult r =
      encode(&m, type, 2, const_cast<float*>(p), sizes, pitch, box, one, CU_TENSOR_MAP_INTERLEAVE_NONE,
             !swizzle          ? CU_TENSOR_MAP_SWIZZLE_NONE
             : box_inner == 32 ? CU_TENSOR_MAP_SWIZZLE_128B
                               : CU_TENSOR_MAP_SWIZZLE_64B,
             CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (r) fprintf(stderr, "tensor map 2: error %d\n", static_cast<int>(r));
  return m;
}
// A row-major [rows][cols] as [cols / 32][rows][32].
CUtensorMap map3(const float* p, int rows, int cols, int box_rows, int box_panels, CUtensorMapDataType type,
                 bool swizzle) {
  CUtensorMap m;
  const cuuint64_t sizes[] = {32, static_cast<cuuint64_t>(rows), static_cast<cuuint64_t>(cols / 32)},
                   pitch[] = {static_cast<cuuint64_t>(cols) * 4, 128};
  const cuuint32_t box[] = {32, static_cast<cuuint32_t>(box_rows), static_cast<cuuint32_t>(box_panels)},
                   one[] = {1, 1, 1};
  const CUresult r =
      encode(&m, type, 3, const_cast<float*>(p), sizes, pitch, box, one, CU_TENSOR_MAP_INTERLEAVE_NONE,
             swizzle ? CU_TENSOR_MAP_SWIZZLE_128B : CU_TENSOR_MAP_SWIZZLE_NONE,
             CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (r) fprintf(stderr, "tensor map 3: error %d\n", static_cast<int>(r));
  return m;
}

// One thread waits: what follows in the stream is queued by then, and the host's time for a launch is not
// measured.
__global__ void delay(int microseconds) {
  const long long start = dev::nanoseconds();
  while (dev::nanoseconds() - start < microseconds * 1000ll) {
  }
}

double milliseconds(const std::function<void()>& f) {
  if (options.delay > 0) delay<<<1, 1>>>(options.delay);
  cudaEventRecord(event_a);
  f();
  cudaEventRecord(event_b);
  CHECK(cudaEventSynchronize(event_b));
  float ms;
  cudaEventElapsedTime(&ms, event_a, event_b);
  return ms;
}
void rest() { usleep(options.idle * 1000); }
double median(std::vector<double> v) {
  if (v.empty()) return -1;
  std::sort(v.begin(), v.end());
  return v[v.size() / 2];
}
void cublas(int n, float* to, bool tf32, float alpha, float beta) {
  cublasGemmEx(blas, CUBLAS_OP_N, CUBLAS_OP_N, n, n, n, &alpha, Bm, CUDA_R_32F, n, A, CUDA_R_32F, n, &beta,
               to, CUDA_R_32F, n, tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F,
               CUBLAS_GEMM_DEFAULT);
}
struct Error {
  double most, rms, toward, bad;
};
Error error_of(const float* c, const float* exact, int n) {
  const size_t count = static_cast<size_t>(n) * n;
  CHECK(cudaMemset(stats, 0, 32));
  compare<<<1056, 256>>>(c, exact, count, stats);
  double s[4];
  CHECK(cudaMemcpy(s, stats, 32, cudaMemcpyDeviceToHost));
  return {s[0], std::sqrt(s[1] / count), s[2] / count, s[3]};
}

struct Run {  // one design at one size
  const Variant& v;
  int n;
  Params p{};
  dim3 grid;
  Run(const Variant& variant, int size) : v(variant), n(size) {
    const Design& d = v.design;
    const bool packed = d.b == B::packed, pass = d.round == Round::pass;
    p.A = packed || pass ? A2 : A;
    p.B = packed || pass || d.b == B::ldmatrix ? B2 : Bm;
    p.C = C, p.M = p.N = p.K = n;
    p.partial = partial, p.ready = ready;
    if (d.load == Load::tma && !packed) {
      const auto type =
          d.round == Round::tma ? CU_TENSOR_MAP_DATA_TYPE_TFLOAT32 : CU_TENSOR_MAP_DATA_TYPE_FLOAT32;
      p.map_a = map2(p.A, n, n, d.BK, d.BM, type, d.swizzle);
      p.map_b = d.b == B::ldmatrix ? map2(p.B, n, n, d.BK, d.BN, type)
                                   : map3(p.B, n, n, d.BK, d.BN / 32 / d.cluster, type, d.swizzle);
    }
    const int tiles = ((n + d.BM - 1) / d.BM) * ((n + d.BN - 1) / d.BN);
    grid = dim3(d.blocks == Blocks::plain ? tiles : std::min(tiles, sms * d.per_sm));
  }
  void passes() const {
    const Design& d = v.design;
    const size_t quads = static_cast<size_t>(n) * n / 4;
    if (d.b == B::packed) {
      pack_a<<<quads / 256, 256>>>(A, reinterpret_cast<float4*>(A2), n, n, d.BM, d.BK);
      pack_b<<<quads / 256, 256>>>(Bm, reinterpret_cast<float4*>(B2), n, n, d.BN, d.BK);
      return;
    }
    if (d.round == Round::pass)
      round_copy<<<sms * 8, 256>>>(reinterpret_cast<const float4*>(A), reinterpret_cast<float4*>(A2), quads);
    if (d.b == B::ldmatrix) {
      transpose_round<<<dim3(n / 64, n / 64), 256>>>(Bm, B2, n, n, d.round == Round::pass);
    } else if (d.round == Round::pass) {
      round_copy<<<sms * 8, 256>>>(reinterpret_cast<const float4*>(Bm), reinterpret_cast<float4*>(B2), quads);
    }
  }
  bool has_pass() const {
    return v.design.round == Round::pass || v.design.b == B::packed || v.design.b == B::ldmatrix;
  }
  void kernel(float alpha, float beta, bool timed = true) {
    p.alpha = alpha, p.beta = beta, p.launch = ++launches, p.clock = timed ? clocks : nullptr;
    cudaLaunchConfig_t config{};
    config.gridDim = grid, config.blockDim = dim3(v.design.threads()),
    config.dynamicSmemBytes = v.design.shared_bytes();
    cudaLaunchAttribute attribute[1];
    attribute[0].id = cudaLaunchAttributeClusterDimension;
    attribute[0].val.clusterDim.x = v.design.cluster,
    attribute[0].val.clusterDim.y = attribute[0].val.clusterDim.z = 1;
    config.attrs = attribute, config.numAttrs = v.design.cluster > 1 ? 1 : 0;
    CHECK(cudaLaunchKernelEx(&config, v.kernel, p));
  }
};

// Runs f for `seconds` back to back; milliseconds a call over the second half.
double sustained(const std::function<void()>& f, double seconds, double estimate_ms, const Nvml& nvml,
                 double& watts, int& mhz) {
  const int calls = std::max(4, static_cast<int>(seconds * 1e3 / estimate_ms) + 1), half = calls / 2;
  for (int i = 0; i < half; ++i) f();
  cudaEventRecord(event_a);
  for (int i = half; i < calls; ++i) f();
  cudaEventRecord(event_b);
  usleep(static_cast<int>(seconds * 0.8e6));  // in the second half by now
  watts = nvml.watts(), mhz = nvml.mhz();
  CHECK(cudaEventSynchronize(event_b));
  float ms;
  cudaEventElapsedTime(&ms, event_a, event_b);
  return ms / (calls - half);
}

void measure(const Variant& v, const Nvml& nvml) {
  cudaFuncAttributes fa;
  CHECK(cudaFuncGetAttributes(&fa, v.kernel));
  CHECK(cudaFuncSetAttribute(v.kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, v.design.shared_bytes()));
  int fit = 0;
  CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&fit, v.kernel, v.design.threads(),
                                                      v.design.shared_bytes()));
  for (const int n : options.sizes) {
    Run run(v, n);
    const size_t count = static_cast<size_t>(n) * n;
    const double work = 2.0 * n * n * n * 1e-9;
    // Right? Against SGEMM, with an alpha and a beta; cuBLAS TF32's own error beside it.
    const float alpha = 1.25f, beta = -0.5f;
    fill<<<1056, 256>>>(C, count, 3);
    fill<<<1056, 256>>>(R, count, 3);
    fill<<<1056, 256>>>(E, count, 3);
    cublas(n, E, false, alpha, beta);
    cublas(n, R, true, alpha, beta);
    CHECK(cudaMemset(A2, 0xff, count * 4));
    CHECK(cudaMemset(B2, 0xff, count * 4));
    run.passes();
    run.kernel(alpha, beta);
    CHECK(cudaDeviceSynchronize());
    const Error ours = error_of(C, E, n), theirs = error_of(R, E, n);
    const bool right = ours.bad == 0 && ours.most < 4 * theirs.most && ours.rms < 3 * theirs.rms;
    // Rested.
    std::vector<double> total, alone, library, mhz;
    for (int i = 0; i < options.reps + 1; ++i) {
      rest();
      const double x = milliseconds([&] { run.passes(), run.kernel(1, 0); });
      const double f = clocks[1] ? clocks[0] * 1e3 / clocks[1] : -1;
      rest();
      const double y = milliseconds([&] { cublas(n, R, true, 1, 0); });
      if (i == 0) continue;
      total.push_back(x), library.push_back(y), mhz.push_back(f);
    }
    if (run.has_pass())
      for (int i = 0; i < 5; ++i) {
        rest();
        alone.push_back(milliseconds([&] { run.kernel(1, 0); }));
      }
    const double ms = median(total), blas_ms = median(library);
    double ms_hot = -1, blas_hot = -1, watts = -1, blas_watts = -1;
    int hot_mhz = -1, blas_mhz = -1;
    if (options.sustain > 0) {
      ms_hot = sustained([&] { run.passes(), run.kernel(1, 0); }, options.sustain, ms, nvml, watts, hot_mhz);
      hot_mhz = clocks[1] ? static_cast<int>(clocks[0] * 1000 / clocks[1]) : -1;  // of the last launch
      rest();
      blas_hot =
          sustained([&] { cublas(n, R, true, 1, 0); }, options.sustain, blas_ms, nvml, blas_watts, blas_mhz);
    }
    printf(
        "{\"variant\": \"%s\", \"n\": %d, \"ok\": %s, \"tflops\": %.1f, \"cublas\": %.1f, \"ratio\": %.4f, "
        "\"kernel_only_tflops\": %.1f, "
        "\"ms\": %.4f, \"ms_min\": %.4f, \"mhz\": %.0f, \"sustained_tflops\": %.1f, \"sustained_cublas\": "
        "%.1f, \"ratio_sustained\": %.4f, "
        "\"sustained_mhz\": %d, \"watts\": %.0f, \"cublas_mhz\": %d, \"cublas_watts\": %.0f, \"regs\": %d, "
        "\"local_bytes\": %zu, \"blocks_per_sm\": %d, "
        "\"error_max\": %.3e, \"error_rms\": %.3e, \"error_toward\": %.3e, \"cublas_error_max\": %.3e, "
        "\"cublas_error_rms\": %.3e, "
        "\"cublas_error_toward\": %.3e}\n",
        v.name.c_str(), n, right ? "true" : "false", work / ms, work / blas_ms, blas_ms / ms,
        alone.empty() ? work / ms : work / median(alone), ms, *std::min_element(total.begin(), total.end()),
        median(mhz), work / ms_hot, work / blas_hot, blas_hot / ms_hot, hot_mhz, watts, blas_mhz, blas_watts,
        fa.numRegs, fa.localSizeBytes, fit, ours.most, ours.rms, ours.toward, theirs.most, theirs.rms,
        theirs.toward);
    fflush(stdout);
  }
}

// How the time of a launch depends on the idling before: gaps of some milliseconds, then launches back to
// back, each timed by its own events. What "rested" means for short kernels.
void series(const Variant& v, int n) {
  CHECK(cudaFuncSetAttribute(v.kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, v.design.shared_bytes()));
  Run run(v, n);
  constexpr int COUNT = 24;
  cudaEvent_t events[COUNT + 1];
  for (auto& e : events) cudaEventCreate(&e);
  long long* many;
  CHECK(cudaMallocHost(&many, COUNT * 16));
  long long* const one = clocks;
  const double work = 2.0 * n * n * n * 1e-9;
  for (const int spin : {0, options.delay})
    for (const int gap : {0, 2, 10, 30, 60})
      for (const bool library : {false, true}) {
        std::vector<double> rates[COUNT], mhz[COUNT], block[COUNT];
        for (int repeat = 0; repeat < (gap > 60 ? 3 : 5); ++repeat) {
          CHECK(cudaDeviceSynchronize());
          usleep(gap * 1000);
          if (spin > 0) delay<<<1, 1>>>(spin);
          cudaEventRecord(events[0]);
          for (int i = 0; i < COUNT; ++i) {
            clocks = many + 2 * i;
            if (library)
              cublas(n, R, true, 1, 0);
            else
              run.kernel(1, 0);
            cudaEventRecord(events[i + 1]);
          }
          CHECK(cudaEventSynchronize(events[COUNT]));
          for (int i = 0; i < COUNT; ++i) {
            float ms;
            cudaEventElapsedTime(&ms, events[i], events[i + 1]);
            rates[i].push_back(work / ms),
                mhz[i].push_back(library ? 0 : many[2 * i] * 1e3 / many[2 * i + 1]),
                block[i].push_back(many[2 * i + 1] * 1e-3);
          }
        }
        printf("{\"series\": \"%s\", \"n\": %d, \"delay_us\": %d, \"idle_ms\": %d, \"tflops\": [",
               library ? "cublas" : v.name.c_str(), n, spin, gap);
        for (int i = 0; i < COUNT; ++i) printf("%s%.0f", i ? ", " : "", median(rates[i]));
        printf("], \"mhz\": [");
        for (int i = 0; i < COUNT && !library; ++i) printf("%s%.0f", i ? ", " : "", median(mhz[i]));
        printf("], \"us_of_block_0\": [");
        for (int i = 0; i < COUNT && !library; ++i) printf("%s%.0f", i ? ", " : "", median(block[i]));
        printf("]}\n");
        fflush(stdout);
      }
  clocks = one;
}

template <typename Launch>
std::pair<double, double> rate(Launch launch) {  // {milliseconds, cycles of one warp}, medians of rested runs
  std::vector<double> ms, cycles;
  for (int i = 0; i < 5; ++i) {
    rest();
    ms.push_back(milliseconds(launch));
    cycles.push_back(static_cast<double>(*clocks));
  }
  CHECK(cudaGetLastError());
  return {median(ms), median(cycles)};
}
template <int ACC>
void peak_of(int warps) {
  const int rounds = 3000;
  const auto [ms, cycles] = rate([&] { peak<ACC><<<sms, warps * 32>>>(C, rounds, clocks); });
  const double mmas = static_cast<double>(rounds) * (32 / ACC) * ACC;
  printf(
      "{\"peak\": \"mma.sync.m16n8k8.tf32\", \"warps_per_sm\": %d, \"accumulators\": %d, \"tflops\": %.1f, "
      "\"mhz\": %.0f, "
      "\"cycles_per_mma_of_a_scheduler\": %.3f}\n",
      warps, ACC, mmas * warps * sms * 2048 / ms * 1e-9, cycles / ms * 1e-3,
      cycles / mmas / std::max(1.0, warps / 4.0));
  fflush(stdout);
}
template <int KIND>
void shared_of(const char* name, int bytes) {
  const int rounds = 4000, warps = 8;
  CHECK(cudaFuncSetAttribute(shared_rate<KIND>, cudaFuncAttributeMaxDynamicSharedMemorySize, 65536));
  const auto [ms, cycles] = rate([&] { shared_rate<KIND><<<sms, warps * 32, 65536>>>(C, rounds, clocks); });
  printf("{\"peak\": \"%s\", \"warps_per_sm\": %d, \"bytes_per_cycle_of_an_sm\": %.1f}\n", name, warps,
         8.0 * rounds * warps * 32 * bytes / cycles);
  fflush(stdout);
}
template <Round R>
void round_of(const char* name) {
  const int rounds = 8000, warps = 8;
  const auto [ms, cycles] = rate([&] { round_rate<R><<<sms, warps * 32>>>(C, rounds, clocks); });
  printf("{\"peak\": \"%s\", \"warps_per_sm\": %d, \"cycles_per_instruction_of_a_scheduler\": %.3f}\n", name,
         warps, cycles / (8.0 * rounds * warps / 4));
  fflush(stdout);
}

template <int FEED, Round R, int ORDER, int J = 8>
void inner_of(const char* name, int warps = 8) {
  const int rounds = 1500;
  CHECK(cudaFuncSetAttribute(inner<FEED, R, ORDER, J>, cudaFuncAttributeMaxDynamicSharedMemorySize, 98304));
  cudaFuncAttributes fa;
  CHECK(cudaFuncGetAttributes(&fa, inner<FEED, R, ORDER, J>));
  const auto [ms, cycles] =
      rate([&] { inner<FEED, R, ORDER, J><<<sms, warps * 32, 98304>>>(C, rounds, clocks); });
  const double mmas = 16.0 * J * rounds;
  printf(
      "{\"inner\": \"%s\", \"order\": %d, \"j\": %d, \"warps_per_sm\": %d, \"tflops\": %.1f, "
      "\"cycles_per_mma_of_a_scheduler\": %.3f, "
      "\"mhz\": %.0f, \"regs\": %d, \"local_bytes\": %zu}\n",
      name, ORDER, J, warps, mmas * warps * sms * 2048 / ms * 1e-9,
      cycles / mmas / std::max(1.0, warps / 4.0), cycles / ms * 1e-3, fa.numRegs, fa.localSizeBytes);
  fflush(stdout);
}

void rounding_of_tma() {
  float host[1024];
  for (int i = 0; i < 1024; ++i) {  // every second one a tie between two TF32 numbers
    uint32_t bits = 0x3f800000u + static_cast<uint32_t>(i) * 0x2345u * 7u % 0x400000u;
    if (i % 2) bits = (bits & ~0x1fffu) | 0x1000u;
    if (i % 3 == 0) bits |= 0x80000000u;
    memcpy(&host[i], &bits, 4);
  }
  CHECK(cudaMemcpy(E, host, 4096, cudaMemcpyHostToDevice));
  CHECK(cudaMemset(stats, 0, 64));
  for (const auto type : {CU_TENSOR_MAP_DATA_TYPE_FLOAT32, CU_TENSOR_MAP_DATA_TYPE_TFLOAT32,
                          CU_TENSOR_MAP_DATA_TYPE_TFLOAT32_FTZ}) {
    CHECK(cudaMemset(stats, 0, 16));
    tma_rounding<<<1, 128>>>(map2(E, 32, 32, 32, 32, type), E, reinterpret_cast<int*>(stats));
    int counts[4];
    CHECK(cudaMemcpy(counts, stats, 16, cudaMemcpyDeviceToHost));
    printf(
        "{\"tma_rounding\": \"%s\", \"of\": 1024, \"as_rna\": %d, \"as_nearest_even\": %d, "
        "\"as_truncation\": %d, \"unchanged\": %d}\n",
        type == CU_TENSOR_MAP_DATA_TYPE_FLOAT32    ? "FLOAT32"
        : type == CU_TENSOR_MAP_DATA_TYPE_TFLOAT32 ? "TFLOAT32"
                                                   : "TFLOAT32_FTZ",
        counts[0], counts[1], counts[2], counts[3]);
  }
  fflush(stdout);
}

volatile int* progress;  // shared with the parent: the next design

int child() {
  CHECK(cudaSetDevice(0));
  cudaDeviceProp prop;
  CHECK(cudaGetDeviceProperties(&prop, 0));
  sms = prop.multiProcessorCount;
  if (*progress < 0) printf("{\"device\": \"%s\", \"sms\": %d}\n", prop.name, sms);
  const Nvml nvml;
  cublasCreate(&blas);
  cudaEventCreate(&event_a), cudaEventCreate(&event_b);
  cudaDriverEntryPointQueryResult found;
  CHECK(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", reinterpret_cast<void**>(&encode), 12000,
                                         cudaEnableDefault, &found));
  const size_t n = *std::max_element(options.sizes.begin(), options.sizes.end()), bytes = n * n * 4;
  for (float** p : {&A, &Bm, &C, &R, &E, &A2, &B2}) CHECK(cudaMalloc(p, bytes));
  CHECK(cudaMalloc(&stats, 64));
  CHECK(cudaMalloc(&partial, static_cast<size_t>(sms) * 256 * 256 * 4));
  CHECK(cudaMalloc(&ready, 65536));
  CHECK(cudaMemset(ready, 0, 65536));
  CHECK(cudaMallocHost(&clocks, 64));
  fill<<<1056, 256>>>(A, n * n, 1);
  fill<<<1056, 256>>>(Bm, n * n, 2);
  CHECK(cudaDeviceSynchronize());
  if (*progress < 0) {
    *progress = 0;
    if (options.peak) {
      rounding_of_tma();
      for (const int warps : {4, 8, 16})
        peak_of<1>(warps), peak_of<2>(warps), peak_of<4>(warps), peak_of<8>(warps), peak_of<16>(warps);
      shared_of<0>("ldmatrix.x4", 16), shared_of<1>("LDS.128", 16), shared_of<2>("LDS.64", 8),
          shared_of<3>("LDS.32", 4);
      inner_of<0, Round::none, 0>("registers"), inner_of<0, Round::none, 0>("registers", 4);
      inner_of<0, Round::none, 1>("registers"), inner_of<0, Round::none, 2>("registers");
      inner_of<1, Round::none, 0>("LDS.128 in fragment order"),
          inner_of<1, Round::none, 0>("LDS.128 in fragment order", 4);
      inner_of<1, Round::none, 1>("LDS.128 in fragment order"),
          inner_of<1, Round::none, 2>("LDS.128 in fragment order");
      inner_of<3, Round::none, 0>("LDSM for A and B"), inner_of<3, Round::none, 1>("LDSM for A and B");
      inner_of<2, Round::none, 0>("LDSM, LDS.128 and moves"),
          inner_of<2, Round::add, 0>("LDSM, LDS.128, + 0x1000"),
          inner_of<2, Round::add, 1>("LDSM, LDS.128, + 0x1000");
      inner_of<2, Round::cvt, 0>("LDSM, LDS.128, cvt.rna"),
          inner_of<3, Round::add, 0>("LDSM for A and B, + 0x1000");
      round_of<Round::add>("IADD"), round_of<Round::cvt>("cvt.rna.tf32");
    }
  }
  if (!options.series.empty() && !*(progress + 1)) {
    *(progress + 1) = 1;
    for (const Variant& v : variants())
      if (v.name == options.series) series(v, options.sizes.front());
  }
  auto wanted = [](const std::string& name) {
    if (options.only.empty()) return true;
    for (size_t at = 0; at <= options.only.size();) {
      const size_t comma = std::min(options.only.find(',', at), options.only.size());
      const std::string part = options.only.substr(at, comma - at);
      if (!part.empty() && (part.back() == '$' ? name + "$" : name).find(part) != std::string::npos)
        return true;
      at = comma + 1;
    }
    return false;
  };
  while (*progress < static_cast<int>(variants().size())) {
    const Variant& v = variants()[*progress];
    if (wanted(v.name)) measure(v, nvml);
    *progress = *progress + 1;
  }
  fflush(stdout);
  _exit(0);
}

int main(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    const std::string a = argv[i];
    const char* value = i + 1 < argc ? argv[i + 1] : "";
    if (a == "--list") {
      for (const Variant& v : variants()) printf("%s\n", v.name.c_str());
      return 0;
    } else if (a == "--no-peak") {
      options.peak = false;
    } else if (a == "--sizes") {
      options.sizes.clear();
      for (const char* s = value; *s;) {
        char* end;
        options.sizes.push_back(static_cast<int>(strtol(s, &end, 10)));
        s = *end ? end + 1 : end;
      }
      ++i;
    } else if (a == "--reps") {
      options.reps = atoi(value), ++i;
    } else if (a == "--idle") {
      options.idle = atoi(value), ++i;
    } else if (a == "--sustain") {
      options.sustain = atof(value), ++i;
    } else if (a == "--series") {
      options.series = value, ++i;
    } else if (a == "--delay") {
      options.delay = atoi(value), ++i;
    } else if (a == "--only") {
      options.only = value, ++i;
    } else {
      fprintf(stderr, "unknown option %s\n", a.c_str());
      return 2;
    }
  }
  progress = static_cast<volatile int*>(
      mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  *progress = -1;
  // A design that fails or hangs costs itself only: the rest goes on in another process.
  for (;;) {
    fflush(stdout);
    const pid_t pid = fork();
    if (pid == 0) child();
    int last = *progress, status = 0;
    auto since = std::chrono::steady_clock::now();
    bool hung = false;
    while (waitpid(pid, &status, WNOHANG) == 0) {
      usleep(20000);
      if (*progress != last) last = *progress, since = std::chrono::steady_clock::now();
      if (std::chrono::steady_clock::now() - since > std::chrono::seconds(*progress < 0 ? 40 : 20)) {
        hung = true;
        kill(pid, SIGKILL);
        waitpid(pid, &status, 0);
        break;
      }
    }
    if (!hung && WIFEXITED(status) && WEXITSTATUS(status) == 0) return 0;
    const int at = *progress;
    if (at < 0) return 1;  // not even the start succeeded
    printf("{\"variant\": \"%s\", \"failed\": \"%s\"}\n",
           at < static_cast<int>(variants().size()) ? variants()[at].name.c_str() : "?",
           hung ? "hung" : "error");
    *progress = at + 1;
  }
}
