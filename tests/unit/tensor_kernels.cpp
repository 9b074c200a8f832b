// Kernels that copy boxes of a matrix by TMA.

#include "common/cuda/bulk_copy.hpp"
#include "common/cuda/dynamic_shared.hpp"
#include "tests/unit/fetch_box.hpp"
#include "tests/unit/kernels.hpp"

namespace {

// By one thread of one block; the others need a barrier.
__forceinline__ void init(std::uint64_t* barrier) {
  mbarrier_init(barrier, 1);
  mbarrier_fence_init();
}

// Two boxes are asked for, of 4 x 4 from (0, 0) and (0, 4) of x, and the source of the second is changed. y:
// what has come before any wait, and after each of two.
__global__ void tensor_order(float* x, float* y, const __grid_constant__ TensorMap map, int) {
  __shared__ __align__(128) float slots[2][32];
  __shared__ std::uint64_t barriers[2];
  for (int i = 0; i < 2; ++i) {
    init(&barriers[i]);
    mbarrier_arrive_expect_tx(&barriers[i], 64);
    tensor_copy(slots[i], map, 4 * i, 0, 0, &barriers[i]);
  }
  x[4] += 100.0f;
  for (int round = 0; round < 3; ++round) {
    if (round > 0) mbarrier_wait(&barriers[round - 1], 0);
    *y++ = slots[0][0];
    *y++ = slots[1][0];
  }
}

__forceinline__ float beyond_alignment(const TensorMap& map) {
  return static_cast<float>(reinterpret_cast<std::uintptr_t>(&map) % 64);
}

// y: how far the map is from a multiple of 64 bytes.
__global__ void alignment_of_maps(float*, float* y, const __grid_constant__ TensorMap map, int n) {
  if (static_cast<int>(threadIdx.x) < n) y[threadIdx.x] = beyond_alignment(map);
}

__global__ void unused_map(float*, float* y, const __grid_constant__ TensorMap map, int) {
  prefetch_tensor_map(map);
  y[0] = 1.0f;
}

// Of a box of 64 bytes, n are announced.
__global__ void tensor_bytes(float*, float*, const __grid_constant__ TensorMap map, int n) {
  __shared__ __align__(128) float slots[16];
  __shared__ std::uint64_t barrier;
  init(&barrier);
  mbarrier_arrive_expect_tx(&barrier, static_cast<unsigned>(n));
  tensor_copy(slots, map, 8, 2, 0, &barrier);
  mbarrier_wait(&barrier, 0);  // here: tensor_bytes
}

// To element n % 100, from column n / 100.
__global__ void tensor_misaligned(float*, float*, const __grid_constant__ TensorMap map, int n) {
  __shared__ __align__(128) float slots[128];
  __shared__ std::uint64_t barrier;
  init(&barrier);
  mbarrier_arrive_expect_tx(&barrier, 64);
  tensor_copy(slots + n % 100, map, n / 100, 3, 1, &barrier);  // here: tensor_misaligned
  mbarrier_wait(&barrier, 0);
}

__global__ void tensor_outside_shared(float*, float*, const __grid_constant__ TensorMap map, int n) {
  __shared__ __align__(128) float slots[40];
  __shared__ std::uint64_t barrier;
  init(&barrier);
  mbarrier_arrive_expect_tx(&barrier, 64);
  tensor_copy(slots + n, map, 0, 0, 0, &barrier);  // here: tensor_outside_shared
  mbarrier_wait(&barrier, 0);
}

// Thread n still reads what another thread's copy overwrites.
__global__ void tensor_overwrites(float*, float* y, const __grid_constant__ TensorMap map, int n) {
  __shared__ __align__(128) float slots[16];
  __shared__ std::uint64_t barrier;
  const int t = static_cast<int>(threadIdx.x);
  if (t == 63) init(&barrier);
  if (t < 16) slots[t] = 0.0f;
  __syncthreads();
  if (t == n) y[0] = slots[1];  // here: tensor_overwrites_reader
  if (t == 63) {
    fence_async_proxy();
    mbarrier_arrive_expect_tx(&barrier, 64);
    tensor_copy(slots, map, 0, 36, 0, &barrier);  // here: tensor_overwrites
  }
  mbarrier_wait(&barrier, 0);
}

// Thread 1 changes element n of x while a box may be copied from there; or element -n, when that has come.
__global__ void tensor_source_overwritten(float* x, float*, const __grid_constant__ TensorMap map, int n) {
  __shared__ __align__(128) float slots[16];
  __shared__ std::uint64_t barrier;
  if (threadIdx.x == 0) {
    init(&barrier);
    mbarrier_arrive_expect_tx(&barrier, 64);
    tensor_copy(slots, map, 4, 1, 0, &barrier);  // here: source_copied
  }
  if (threadIdx.x == 1 && n >= 0) x[n] = 1.0f;  // here: tensor_source_overwritten
  __syncthreads();
  mbarrier_wait(&barrier, 0);
  if (threadIdx.x == 1 && n < 0) x[-n] = 1.0f;
}

// Thread n reads element n, a zero or not, without a wait.
__global__ void tensor_read_before_wait(float*, float* y, const __grid_constant__ TensorMap map, int n) {
  __shared__ __align__(128) float slots[16];
  __shared__ std::uint64_t barrier;
  if (threadIdx.x == 0) {
    init(&barrier);
    mbarrier_arrive_expect_tx(&barrier, 64);
    tensor_copy(slots, map, 40, 36, 0, &barrier);  // here: not_waited_for
  }
  __syncthreads();
  if (static_cast<int>(threadIdx.x) == n) y[0] = slots[n];  // here: tensor_read_before_wait
  mbarrier_wait(&barrier, 0);
}

__global__ void tensor_no_fence(float*, float*, const __grid_constant__ TensorMap map, int) {
  __shared__ __align__(128) float slots[16];
  __shared__ std::uint64_t barrier;
  mbarrier_init(&barrier, 1);
  mbarrier_arrive_expect_tx(&barrier, 64);
  tensor_copy(slots, map, 0, 0, 0, &barrier);  // here: tensor_no_fence
  mbarrier_wait(&barrier, 0);
}

// As much is announced as comes, but nobody waits.
__global__ void tensor_no_wait(float*, float*, const __grid_constant__ TensorMap map, int) {
  __shared__ __align__(128) float slots[16];
  __shared__ std::uint64_t barrier;
  init(&barrier);
  mbarrier_arrive_expect_tx(&barrier, 64);
  tensor_copy(slots, map, 0, 0, 0, &barrier);  // here: tensor_no_wait
}

// ---- Swizzled tiles --------------------------------------------------------------------------------------

// y: the n floats of a tile in dynamic shared memory, element i from where place(i) says.
template <typename Tile, typename Place>
__forceinline__ void read_tile(float* y, const TensorMap& map, int n, const Place& place) {
  auto& tile = dynamic_shared<Tile>();
  const int t = static_cast<int>(threadIdx.x);
  if (t == 0) {
    init(&tile.full);
    mbarrier_arrive_expect_tx(&tile.full, static_cast<unsigned>(n) * 4);
    tensor_copy(tile.values, map, 0, 0, 0, &tile.full);  // here: read_tile
  }
  __syncthreads();
  mbarrier_wait(&tile.full, 0);
  for (int i = t; i < n; i += 64) y[i] = tile.values[place(i)];
}
template <unsigned ALIGNMENT>
struct alignas(ALIGNMENT) SwizzledTile {
  float values[512];
  std::uint64_t full;
};

// As long as BYTES are the swizzle's: group g of 16 bytes, of line l of 128 bytes, lies in g XOR l % (BYTES /
// 16).
template <int BYTES>
__forceinline__ int swizzled_place(int i) {
  return i ^ i / 32 % (BYTES / 16) * 4;
}
template <int BYTES>
__global__ void swizzled_tile(float*, float* y, const __grid_constant__ TensorMap map, int n) {
  read_tile<SwizzledTile<8 * BYTES>>(y, map, n, swizzled_place<BYTES>);
}
// Whatever the map's swizzle is.
__global__ void swizzled_tile_of_128_bytes(float*, float* y, const __grid_constant__ TensorMap map, int n) {
  read_tile<SwizzledTile<1024>>(y, map, n, swizzled_place<128>);
}
template <int BYTES>
__global__ void half_aligned_tile(float*, float* y, const __grid_constant__ TensorMap map, int n) {
  read_tile<SwizzledTile<4 * BYTES>>(y, map, n, swizzled_place<BYTES>);
}

TEST_KERNELS(fetch_box<float>, fetch_box<bf16>, tensor_order, alignment_of_maps, unused_map, tensor_bytes,
             tensor_misaligned, tensor_outside_shared, tensor_overwrites, tensor_source_overwritten,
             tensor_read_before_wait, tensor_no_fence, tensor_no_wait, swizzled_tile<32>, swizzled_tile<64>,
             swizzled_tile<128>, swizzled_tile_of_128_bytes, half_aligned_tile<32>, half_aligned_tile<64>,
             half_aligned_tile<128>)

}  // namespace
