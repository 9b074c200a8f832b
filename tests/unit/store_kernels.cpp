// Kernels with bulk and tensor stores that lack something, and what may look like it and does not.

#include "common/cuda/grid_flag.hpp"
#include "tests/unit/kernels.hpp"
#include "tests/unit/store_right.hpp"

namespace {

// A tile of 64 elements is written and stored. n is 0: nothing is wrong; 1: no fence; 2: the fence comes
// before the writes; 3: the requester writes to the tile again, the same value, before it has waited; 4:
// another thread does so, behind a barrier; 5: nobody waits; 6: the store is in no group; 7: a group too few
// is waited for; 8: a copy comes into the tile; 9: the fence is the requester's, behind the barrier; 10: the
// tile is only read before the wait; 11: a thread has not written yet.
__global__ void store_tile(float* x, float* y, int n) {
  __shared__ __align__(16) float tile[64];
  __shared__ std::uint64_t full;
  init(&full, 1);
  const int t = static_cast<int>(threadIdx.x);
  if (n == 2) fence_async_proxy();
  if (n != 11 || t != 63) tile[t] = x[t];  // here: tile_written
  if (n != 1 && n != 2 && n != 9) fence_async_proxy();
  if (n != 11 || t == 63) __syncthreads();
  if (n == 11 && t == 63) tile[t] = x[t];  // here: tile_written_late
  if (t == 0) {
    if (n == 9) fence_async_proxy();
    bulk_store(y, tile, 256);  // here: store_tile
    if (n != 6) bulk_store_commit();
    if (n == 3) tile[5] = x[5];  // here: store_tile_overwritten_by_requester
    if (n == 8) {
      mbarrier_arrive_expect_tx(&full, 256);
      bulk_copy(tile, x, 256, &full);  // here: store_tile_refilled
      mbarrier_wait(&full, 0);
    }
    if (n == 7) bulk_store_wait_read<1>();
    if (n != 4 && n != 5 && n != 7) bulk_store_wait_read<0>();
  }
  if (n == 4 || n == 10) __syncthreads();
  if (n == 4 && t == 40) tile[7] = x[7];  // here: store_tile_overwritten_by_another
  if (n == 10) y[64 + t] = tile[63 - t];
  if (n == 4) __syncthreads();
  if (n == 4 && t == 0) bulk_store_wait_read<0>();
}

// What a store writes is looked at. n is 0: by all when its thread has waited until it has written; 1: by its
// thread when it has only been read; 2: by another thread then, behind a barrier; 3: it is written to by
// another thread instead.
__global__ void store_seen(float* x, float* y, int n) {
  __shared__ __align__(16) float tile[64];
  const int t = static_cast<int>(threadIdx.x);
  tile[t] = x[t];
  fence_async_proxy();
  __syncthreads();
  if (t == 0) {
    bulk_store(y, tile, 256);  // here: store_seen
    bulk_store_commit();
    if (n == 0) bulk_store_wait<0>();
    bulk_store_wait_read<0>();
    if (n == 1) y[64] = y[3];  // here: store_seen_by_requester
  }
  __syncthreads();
  if (n == 0) y[64 + t] = y[63 - t];
  if (n == 2 && t == 9) y[64] = y[3];  // here: store_seen_by_another
  if (n == 3 && t == 9) y[3] = 1.0f;   // here: store_overwritten
}

// A thread writes to global memory where the block then stores, n: 1: without a fence.
__global__ void store_over_write(float* x, float* y, int n) {
  __shared__ __align__(16) float tile[64];
  const int t = static_cast<int>(threadIdx.x);
  y[t] = 0.0f;  // here: written_under_store
  tile[t] = x[t];
  fence_async_proxy();
  if (n == 0) fence_async_proxy_global();
  __syncthreads();
  if (t != 0) return;
  bulk_store(y, tile, 256);  // here: store_over_write
  bulk_store_commit();
  bulk_store_wait_read<0>();
}

// A store whose box of 64 floats lies outside its matrix. n: 1: nobody waits; 2: its source is overwritten
// before that; 3: its source has not been written, of which nothing is stored.
__global__ void store_beyond(float* x, const __grid_constant__ TensorMap map, int n) {
  __shared__ __align__(128) float tile[64];
  const int t = static_cast<int>(threadIdx.x);
  if (n != 3) tile[t] = x[t];
  fence_async_proxy();
  __syncthreads();
  if (t != 0) return;
  tensor_store(map, 64, 0, 0, tile);  // here: store_beyond
  bulk_store_commit();
  if (n == 2) tile[5] = 0.0f;  // here: store_beyond_overwritten
  if (n != 1) bulk_store_wait_read<0>();
}

// Block 0 packs what block 1 copies in bulk: x[64 ...]; its first element is a flag. The fence: n is 0: by
// those that pack, 1: by the thread that copies, when it has waited; 2: nowhere; 3: of shared memory; 4: by
// the thread that copies, before it waits; 5: block 0 stores in bulk, and needs none.
__global__ void pack_for_next_block(float* x, float* y, int n) {
  __shared__ __align__(16) float tile[64];
  __shared__ std::uint64_t full;
  init(&full, 1);
  auto* flag = reinterpret_cast<unsigned*>(x);
  float* packed = x + 64;
  const int t = static_cast<int>(threadIdx.x);
  if (blockIdx.x == 0) {
    if (n == 5) {
      tile[t] = 3.0f;
      fence_async_proxy();
      __syncthreads();
      if (t == 0) {
        bulk_store(packed, tile, 256);
        bulk_store_commit();
        bulk_store_wait<0>();
      }
    } else {
      packed[t] = 3.0f;  // here: packed_for_next_block
    }
    if (n == 0) fence_async_proxy_global();
    if (n == 3) fence_async_proxy();
    __syncthreads();
    if (t == 0) flag_set(flag);
  } else if (t == 0) {
    if (n == 4) fence_async_proxy_global();
    flag_wait_and_clear(flag);
    if (n == 1) fence_async_proxy_global();
    mbarrier_arrive_expect_tx(&full, 256);
    bulk_copy(tile, packed, 256, &full);  // here: pack_for_next_block
    mbarrier_wait(&full, 0);
    y[0] = tile[5];
  }
}

__global__ void store_misaligned(float* x, float* y, int n) {
  __shared__ __align__(16) float tile[64];
  tile[threadIdx.x] = x[threadIdx.x];
  fence_async_proxy();
  __syncthreads();
  if (threadIdx.x != 0) return;
  bulk_store(y + n % 10, tile + n / 10 % 10, 16 + 4 * (n / 100));  // here: store_misaligned
  bulk_store_commit();
  bulk_store_wait_read<0>();
}

__global__ void store_outside(float* x, float* y, int n) {
  __shared__ __align__(16) float tile[64];
  tile[threadIdx.x] = x[threadIdx.x];
  fence_async_proxy();
  __syncthreads();
  if (threadIdx.x != 0) return;
  bulk_store(y + n, tile, 64);  // here: store_outside
  bulk_store_commit();
  bulk_store_wait_read<0>();
}

TEST_KERNELS(store_rows, store_copied, store_box<float>, store_box<bf16>, store_lines, store_tile, store_seen,
             store_over_write, pack_for_next_block, store_beyond, store_misaligned, store_outside)

}  // namespace
