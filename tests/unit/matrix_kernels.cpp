// Kernels that multiply matrices by mma and load them by ldmatrix.

#include "common/cuda/ldmatrix.hpp"
#include "common/cuda/mma.hpp"
#include "tests/unit/kernels.hpp"

namespace {

constexpr int WORDS = 4;  // of a row of 16 bytes

__forceinline__ int lane_of_thread() { return static_cast<int>(threadIdx.x) % 32; }

// y [16][8] = A [16][8] * B [8][8] + C [16][8], which lie one after the other in x. n == 0: rounded.
template <Unrounded UNROUNDED>
__forceinline__ void product(float* x, float* y, int n) {
  const float *A = x, *B = A + 16 * 8, *C = B + 8 * 8;
  const int g = lane_of_thread() / 4, t = lane_of_thread() % 4;
  const auto bits = [&](float value) {
    return n == 0 ? to_tf32(value) : __builtin_bit_cast(std::uint32_t, value);
  };
  const std::uint32_t a[4] = {bits(A[g * 8 + t]), bits(A[(g + 8) * 8 + t]), bits(A[g * 8 + t + 4]),
                              bits(A[(g + 8) * 8 + t + 4])};
  const std::uint32_t b[2] = {bits(B[t * 8 + g]), bits(B[(t + 4) * 8 + g])};
  float d[4] = {C[g * 8 + 2 * t], C[g * 8 + 2 * t + 1], C[(g + 8) * 8 + 2 * t], C[(g + 8) * 8 + 2 * t + 1]};
  mma_tf32<UNROUNDED>(d, a, b);
  y[g * 8 + 2 * t] = d[0];
  y[g * 8 + 2 * t + 1] = d[1];
  y[(g + 8) * 8 + 2 * t] = d[2];
  y[(g + 8) * 8 + 2 * t + 1] = d[3];
}
__global__ void product_tf32(float* x, float* y, int n) { product<Unrounded::fault>(x, y, n); }
__global__ void product_cut_off(float* x, float* y, int) { product<Unrounded::cut_off>(x, y, 1); }

// The same with A [16][16] and B [16][8], exact in BF16.
__global__ void product_bf16(float* x, float* y, int) {
  const float *A = x, *B = A + 16 * 16, *C = B + 16 * 8;
  const int g = lane_of_thread() / 4, t = lane_of_thread() % 4;
  const auto of_a = [&](int row, int col) {
    return pack_bf16(bf16(A[row * 16 + col]), bf16(A[row * 16 + col + 1]));
  };
  const auto of_b = [&](int row) { return pack_bf16(bf16(B[row * 8 + g]), bf16(B[(row + 1) * 8 + g])); };
  const std::uint32_t a[4] = {of_a(g, 2 * t), of_a(g + 8, 2 * t), of_a(g, 2 * t + 8), of_a(g + 8, 2 * t + 8)};
  const std::uint32_t b[2] = {of_b(2 * t), of_b(2 * t + 8)};
  float d[4] = {C[g * 8 + 2 * t], C[g * 8 + 2 * t + 1], C[(g + 8) * 8 + 2 * t], C[(g + 8) * 8 + 2 * t + 1]};
  mma_bf16(d, a, b);
  y[g * 8 + 2 * t] = d[0];
  y[g * 8 + 2 * t + 1] = d[1];
  y[(g + 8) * 8 + 2 * t] = d[2];
  y[(g + 8) * 8 + 2 * t + 1] = d[3];
}

// Writes x, n * 8 rows of four words, to shared memory, with a word of its own in each row's place. y
// [lane][n]: what a lane gets of n matrices. Lanes beyond 8 * n give an address that nobody may look at.
template <int COUNT, bool TRANS>
__forceinline__ void get_matrices(float* rows, float* x, float* y) {
  const int lane = lane_of_thread();
  for (int i = lane; i < COUNT * 8 * WORDS; i += 32) rows[i] = x[i];
  __syncwarp();
  std::uint32_t r[COUNT];
  const float* row = lane < 8 * COUNT ? rows + lane * WORDS : nullptr;
  if constexpr (TRANS) {
    ldmatrix_trans(r, row);
  } else {
    ldmatrix(r, row);
  }
  for (int m = 0; m < COUNT; ++m) y[lane * COUNT + m] = __builtin_bit_cast(float, r[m]);
}
__global__ void matrices(float* x, float* y, int n) {
  __shared__ __align__(16) float rows[32 * WORDS];
  if (n == 1) get_matrices<1, false>(rows, x, y);
  if (n == 2) get_matrices<2, false>(rows, x, y);
  if (n == 4) get_matrices<4, false>(rows, x, y);
}
__global__ void matrices_trans(float* x, float* y, int n) {
  __shared__ __align__(16) float rows[32 * WORDS];
  if (n == 1) get_matrices<1, true>(rows, x, y);
  if (n == 2) get_matrices<2, true>(rows, x, y);
  if (n == 4) get_matrices<4, true>(rows, x, y);
}

// Every row of the matrix is row n.
__global__ void rows_of_others(float* x, float* y, int n) {
  __shared__ __align__(16) float rows[8 * WORDS];
  rows[lane_of_thread()] = x[lane_of_thread()];
  __syncwarp();
  std::uint32_t r[1];
  ldmatrix(r, rows + n * WORDS);  // here: rows_of_others
  y[lane_of_thread()] = __builtin_bit_cast(float, r[0]);
}

// ---- Faulty kernels --------------------------------------------------------------------------------------

// Lane n leaves before.
__global__ void mma_of_some(float* x, float* y, int n) {
  if (lane_of_thread() == n) return;
  float d[4] = {0.0f, 0.0f, 0.0f, 0.0f};
  const std::uint32_t a[4] = {to_tf32(x[0]), 0, 0, 0}, b[2] = {0, 0};
  mma_tf32(d, a, b);  // here: mma_of_some
  y[threadIdx.x] = d[0];
}

// Lane n multiplies elsewhere than the others.
__global__ void mma_elsewhere(float*, float* y, int n) {
  float d[4] = {0.0f, 0.0f, 0.0f, 0.0f};
  const std::uint32_t a[4] = {0, 0, 0, 0}, b[2] = {0, 0};
  if (lane_of_thread() == n) {
    mma_bf16(d, a, b);  // here: mma_lane_elsewhere
  } else {
    mma_bf16(d, a, b);  // here: mma_elsewhere
  }
  y[threadIdx.x] = d[0];
}

// Register n / 100 of lane n % 100 has more bits.
__global__ void unrounded(float* x, float* y, int n) {
  float d[4] = {0.0f, 0.0f, 0.0f, 0.0f};
  std::uint32_t a[4] = {0, 0, 0, 0};
  const std::uint32_t b[2] = {to_tf32(1.0f), to_tf32(1.0f)};
  if (lane_of_thread() == n % 100) a[n / 100] = __builtin_bit_cast(std::uint32_t, x[0]);
  mma_tf32(d, a, b);  // here: unrounded
  y[threadIdx.x] = d[0];
}
__global__ void unrounded_b(float* x, float* y, int n) {
  float d[4] = {0.0f, 0.0f, 0.0f, 0.0f};
  const std::uint32_t a[4] = {0, 0, 0, 0};
  std::uint32_t b[2] = {0, 0};
  if (lane_of_thread() == n % 100) b[n / 100] = __builtin_bit_cast(std::uint32_t, x[0]);
  mma_tf32(d, a, b);  // here: unrounded_b
  y[threadIdx.x] = d[0];
}

__global__ void ldmatrix_of_some(float*, float* y, int n) {
  __shared__ __align__(16) float rows[8 * WORDS];
  rows[lane_of_thread()] = 1.0f;
  __syncwarp();
  std::uint32_t r[1] = {0};
  if (lane_of_thread() < n) ldmatrix(r, rows);  // here: ldmatrix_of_some
  __syncwarp();                                 // here: after_ldmatrix_of_some
  y[threadIdx.x] = __builtin_bit_cast(float, r[0]);
}

// Lane n / 100 gives an address n % 100 words further on.
__forceinline__ const float* row_of(const float* rows, int n) {
  return rows + lane_of_thread() % 8 * WORDS + (lane_of_thread() == n / 100 ? n % 100 : 0);
}
__global__ void ldmatrix_misaligned(float*, float* y, int n) {
  __shared__ __align__(16) float rows[16 * WORDS];
  for (int i = lane_of_thread(); i < 16 * WORDS; i += 32) rows[i] = 1.0f;
  __syncwarp();
  std::uint32_t r[1];
  ldmatrix(r, row_of(rows, n));  // here: ldmatrix_misaligned
  y[threadIdx.x] = __builtin_bit_cast(float, r[0]);
}
// Of eight rows in dynamic shared memory.
__global__ void ldmatrix_outside(float*, float* y, int n) {
  float* rows = static_cast<float*>(cpu_device::dynamic_shared());
  rows[lane_of_thread()] = 1.0f;
  __syncwarp();
  std::uint32_t r[1];
  ldmatrix(r, row_of(rows, n));  // here: ldmatrix_outside
  y[threadIdx.x] = __builtin_bit_cast(float, r[0]);
}
__global__ void ldmatrix_not_shared(float* x, float* y, int n) {
  __shared__ __align__(16) float rows[8 * WORDS];
  rows[lane_of_thread()] = 1.0f;
  __syncwarp();
  std::uint32_t r[2];
  const float* row = rows + lane_of_thread() % 8 * WORDS;
  ldmatrix(r, lane_of_thread() == n ? x : row);  // here: ldmatrix_not_shared
  y[threadIdx.x] = __builtin_bit_cast(float, r[0]);
}

// Row n has not been written.
__global__ void ldmatrix_unwritten(float*, float* y, int n) {
  __shared__ __align__(16) float rows[8 * WORDS];
  if (lane_of_thread() / WORDS != n) rows[lane_of_thread()] = 1.0f;
  __syncwarp();
  std::uint32_t r[1];
  ldmatrix_trans(r, rows + lane_of_thread() % 8 * WORDS);  // here: ldmatrix_unwritten
  y[threadIdx.x] = __builtin_bit_cast(float, r[0]);
}

// Of two warps the second loads what thread n writes at the same time.
__global__ void ldmatrix_race(float*, float* y, int n) {
  __shared__ __align__(16) float rows[32 * WORDS];
  for (int i = static_cast<int>(threadIdx.x); i < 32 * WORDS; i += 64) rows[i] = 1.0f;
  __syncthreads();
  if (static_cast<int>(threadIdx.x) == n) rows[n * WORDS + 3] = 2.0f;
  if (threadIdx.x < 32) return;
  std::uint32_t r[4];
  ldmatrix(r, rows + (31 - lane_of_thread()) * WORDS);  // here: ldmatrix_race
  y[threadIdx.x] = __builtin_bit_cast(float, r[0]);
}

TEST_KERNELS(product_tf32, product_bf16, product_cut_off, matrices, matrices_trans, rows_of_others,
             mma_of_some, mma_elsewhere, unrounded, unrounded_b, ldmatrix_of_some, ldmatrix_misaligned,
             ldmatrix_outside, ldmatrix_not_shared, ldmatrix_unwritten, ldmatrix_race)

}  // namespace
