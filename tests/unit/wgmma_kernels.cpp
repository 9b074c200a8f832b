// Kernels with wgmma that lack something, and what may look like it and does not.

#include "common/cuda/tensor_copy.hpp"
#include "tests/unit/kernels.hpp"
#include "tests/unit/wgmma_right.hpp"

namespace {

constexpr int M = 64, N = 64;

struct alignas(1024) TwoTiles {
  bf16 A[2 * M][64], B[2][N][64];  // [row][k] and [stage][col][k], 128 bytes swizzled
  std::uint64_t full;
};

__device__ void write_tile(bf16 (*tile)[64]) {
  for (int i = static_cast<int>(threadIdx.x); i < M * 64; i += static_cast<int>(blockDim.x)) {
    const std::size_t byte = swizzled(Swizzle::of_128_bytes, static_cast<std::size_t>(i) * 2);
    (&tile[0][0])[byte / 2] = bf16(1.0f);  // here: wgmma_tile_written
  }
}

__device__ MatrixDescriptor tile_of(const void* tile) {
  return matrix_descriptor(tile, Swizzle::of_128_bytes, 0, 1024);
}

// One product of tiles of ones. n is 0: nothing is wrong; 1: no fence for wgmma; 2: none between proxies; 3:
// that fence comes before the writes; 4: no commit; 5: no wait; 6: a thread reads a sum before the wait; 7:
// it writes to one; 8: a tile is written to before the wait; 9: behind it, by another warpgroup's thread
// without a barrier; 10: behind a barrier, which is right; 11: one lane's descriptor is another; 12: two
// warps stay away; 13: the sums are written to between two wgmma without a fence; 14: with one, which is
// right; 15: a second wgmma adds to the same sums without a fence, which is right; 16: a group too few is
// waited for; 17: the sums are read, not written to, between two wgmma without a fence; 18: a warp waits for
// its group only when another one has, which is right; 19: a tile is written to long after, which nothing
// orders.
__global__ void one_product(float* x, float* y, int n) {
  auto& [As, Bs, full] = dynamic_shared<TwoTiles>();
  const int t = static_cast<int>(threadIdx.x);
  init(&full, 1);
  if (n == 3) fence_async_proxy();
  write_tile(As);
  write_tile(Bs[0]);
  write_tile(Bs[1]);
  if (n != 2 && n != 3) fence_async_proxy();
  __syncthreads();
  float sums[N / 2];
  for (float& sum : sums) sum = x[0];
  if (t < 128) {
    if (n != 1) wgmma_fence();
    const MatrixDescriptor a = tile_of(As), b = tile_of(Bs[n == 11 && t == 70]);
    if (n != 12 || t < 64) {
      wgmma_bf16(sums, a, b);  // here: one_product
    }
    if (n == 13 || n == 14 || n == 15 || n == 17) {
      if (n != 15) {
        wgmma_commit();
        wgmma_wait<0>(sums);
      }
      if (n == 17 && sums[3] == -5.0f) y[0] = 1.0f;
      if (n == 13 || n == 14) {
        for (float& sum : sums) sum *= 2.0f;
      }
      if (n == 14) wgmma_fence();
      wgmma_bf16(sums, a + 32, b + 32);  // here: second_product
    }
    if (n != 4) wgmma_commit();
    if (n == 6 && t == 65) y[0] = sums[3];        // here: sum_read
    if (n == 7 && t == 65) sums[3] = 1.0f;        // here: sum_written
    if (n == 8 && t == 0) As[0][5] = bf16(1.0f);  // here: wgmma_tile_overwritten
    if (n == 16) wgmma_wait<1>(sums);
    if (n == 18 && t < 32) mbarrier_wait(&full, 0);
    if (n != 5 && n != 16) wgmma_wait<0>(sums);
    if (n == 18 && t == 96) mbarrier_arrive(&full);
  }
  if (n == 10) __syncthreads();
  if (n == 19 && t == 130) mbarrier_try_wait(&full, 0);  // in vain: nothing completes it
  if ((n == 9 || n == 10 || n == 19) && t == 130)
    As[0][5] = bf16(1.0f);  // here: wgmma_tile_overwritten_behind
  if (n == 4 || n == 5 || n == 16) return;
  for (int i = 0; t < 128 && i < N / 2; ++i) {
    y[wgmma_place(t, i).row * N + wgmma_place(t, i).col] = sums[i];
  }
}

// The descriptor of A or B is not that of the tile that tensor copies have brought, with 128 bytes swizzled:
// A [128][64], K-major, of which 64 rows are multiplied, and B [64][128], MN-major, in two boxes. n is 0: it
// is; 1: another swizzle for A; 2: for B; 3: the stride of A is half of what it is; 4: B's; 5: the second box
// of B is said to follow 1024 bytes behind the first; 6: B is advanced by 32 bytes along k; 7: every other
// eight rows of A, which is right; 8: A begins at no multiple of 16; 9: in the fifth line of the swizzle's
// eight; 10: its stride is no multiple of 16; 11: a distance is too large.
__global__ void described(const __grid_constant__ TensorMap map_a, const __grid_constant__ TensorMap map_b,
                          float* y, int n) {
  auto& [As, Bs, full] = dynamic_shared<TwoTiles>();
  const int t = static_cast<int>(threadIdx.x);
  init(&full, 1);
  if (t == 0) {
    mbarrier_arrive_expect_tx(&full, sizeof As + sizeof Bs);
    tensor_copy(As, map_a, 0, 0, 0, &full);
    tensor_copy(Bs[0], map_b, 0, 0, 0, &full);
    tensor_copy(Bs[1], map_b, 64, 0, 0, &full);
  }
  mbarrier_wait(&full, 0);
  const Swizzle swizzle = Swizzle::of_128_bytes;
  const unsigned stride_of_a = n == 3 ? 512 : n == 7 ? 2048 : n == 10 ? 1000 : 1024;
  const unsigned from = n == 8 ? 8 : n == 9 ? 512 : 0;  // bytes
  const MatrixDescriptor a = matrix_descriptor(reinterpret_cast<const char*>(As) + from,
                                               n == 1 ? Swizzle::of_64_bytes : swizzle, 0, stride_of_a);
  MatrixDescriptor b = matrix_descriptor(Bs[0], n == 2 ? Swizzle::of_32_bytes : swizzle,
                                         n == 5    ? 1024
                                         : n == 11 ? 1 << 18
                                                   : sizeof Bs[0],
                                         n == 4 ? 512 : 1024);
  if (n == 6) b = b + 32;
  float sums[64] = {};
  wgmma_fence();
  wgmma_bf16<Major::K, Major::MN>(sums, a, b);  // here: described
  wgmma_commit();
  wgmma_wait<0>(sums);
  for (int i = 0; i < 64; ++i) y[wgmma_place(t, i).row * 128 + wgmma_place(t, i).col] = sums[i];
}

TEST_KERNELS(bf16_k_k_64, bf16_k_mn_128, bf16_mn_k_16, bf16_mn_k_32, bf16_mn_k_192, bf16_mn_mn_256,
             bf16_registers_mn_256, fp16_k_mn_64, fp16_mn_k_8, fp16_registers_k_128, tf32_k_k_256,
             tf32_registers_k_64, one_product, described)

}  // namespace
