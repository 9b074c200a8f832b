#pragma once

// What only the blocks of a cluster can do (compute capability 9.0 and newer): wait for each other, reach
// each other's shared memory, arrive at each other's mbarriers, and receive one copy together. A launch forms
// the clusters: LaunchConfig::cluster, 1 to 16 blocks, of which every GPU with clusters takes 8. The blocks
// of a cluster have ranks, x fastest.
//
// Another block's shared memory exists from when that block is known to run, as behind a first
// cluster_sync(), until it leaves the kernel: so it must not leave while others may still reach it.
//
// A kernel that runs in clusters has its shared memory through dynamic_shared(), and no __shared__ variables:
// the CPU device refuses them. PTX ISA, "barrier.cluster", "mapa", "mbarrier.arrive",
// "cp.async.bulk.tensor" (.multicast::cluster).

#include "common/cuda/bulk_copy.hpp"
#include "common/cuda/tensor_copy.hpp"

#ifdef __CUDACC__

#include <cstdint>

// Arrives at the barrier of all threads of the cluster. What the thread did before is visible to whoever has
// waited. A thread that has left the kernel counts as arrived. PTX ISA, "barrier.cluster".
__device__ __forceinline__ void cluster_arrive() {
#if HAVE_MBARRIER
  asm volatile("barrier.cluster.arrive.release;" ::: "memory");
#else
  __trap();
#endif
}

// Waits until all threads have arrived. Each thread waits once after each arrival, and before its next one.
__device__ __forceinline__ void cluster_wait() {
#if HAVE_MBARRIER
  asm volatile("barrier.cluster.wait.acquire;" ::: "memory");
#endif
}

// Arrives and waits.
__device__ __forceinline__ void cluster_sync() {
  cluster_arrive();
  cluster_wait();
}

// This block's rank in its cluster.
__device__ __forceinline__ unsigned cluster_block_rank() {
  unsigned rank = 0;
#if HAVE_MBARRIER
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
#endif
  return rank;
}

// The number of blocks in the cluster.
__device__ __forceinline__ unsigned cluster_size() {
  unsigned blocks = 1;
#if HAVE_MBARRIER
  asm("mov.u32 %0, %%cluster_nctarank;" : "=r"(blocks));
#endif
  return blocks;
}

// Where the block of that rank has what lies at `pointer` in this block's shared memory, for ordinary loads
// and stores. Not for the functions of mbarrier.hpp: they are for a block's own mbarriers. PTX ISA, "mapa".
template <typename T>
__device__ __forceinline__ T* cluster_map_shared(T* pointer, unsigned rank) {
#if HAVE_MBARRIER
  T* mapped;
  asm("mapa.u64 %0, %1, %2;" : "=l"(mapped) : "l"(pointer), "r"(rank));
  return mapped;
#else
  __trap();
  return pointer;
#endif
}

// Arrives at another block's mbarrier, that which lies where `barrier` does in this block. What the thread
// did before is visible to whoever has waited with mbarrier_wait_cluster(). PTX ISA, "mbarrier.arrive"
// (.release.cluster.shared::cluster).
__device__ __forceinline__ void mbarrier_arrive_remote(std::uint64_t* barrier, unsigned rank) {
#if HAVE_MBARRIER
  asm volatile(
      "{ .reg .b32 remote; mapa.shared::cluster.u32 remote, %0, %1;\n"
      "  mbarrier.arrive.release.cluster.shared::cluster.b64 _, [remote]; }" ::"r"(mbarrier_address(barrier)),
      "r"(rank)
      : "memory");
#else
  __trap();
#endif
}

// Likewise, where the arrival only says that memory has been read, and may be written to: what the thread has
// written need not be visible to whoever has waited. The release of mbarrier_arrive_remote() is a fence over
// all memory in the machine code (MEMBAR.ALL.GPU), for which the thread waits.
__device__ __forceinline__ void mbarrier_arrive_remote_after_reads(std::uint64_t* barrier, unsigned rank) {
#if HAVE_MBARRIER
  asm volatile(
      "{ .reg .b32 remote; mapa.shared::cluster.u32 remote, %0, %1;\n"
      "  mbarrier.arrive.shared::cluster.b64 _, [remote]; }" ::"r"(mbarrier_address(barrier)),
      "r"(rank)
      : "memory");
#else
  __trap();
#endif
}

// Like mbarrier_wait(), for arrivals from other blocks: that function makes visible only what the threads of
// the waiting block did, and what copies brought. PTX ISA, "mbarrier.try_wait" (.acquire.cluster).
__device__ __forceinline__ void mbarrier_wait_cluster(std::uint64_t* barrier, unsigned parity) {
#if HAVE_MBARRIER
  std::uint32_t complete = 0;
  while (complete == 0) {
    asm volatile(
        "{ .reg .pred p;\n"
        "  mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
        : "=r"(complete)
        : "r"(mbarrier_address(barrier)), "r"(parity)
        : "memory");
  }
#else
  __trap();
#endif
}

// bulk_copy() to every block whose rank is a bit of `blocks`, which may leave out this one. In each of them
// the bytes come to where `shared` is in this block, and count at the mbarrier that lies where `barrier`
// does: a thread of each must announce them there. PTX ISA, "cp.async.bulk" (.multicast::cluster).
__device__ __forceinline__ void bulk_copy_multicast(void* shared, const void* global, std::uint32_t bytes,
                                                    std::uint64_t* barrier, std::uint16_t blocks) {
#if HAVE_MBARRIER
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster "
      "[%0], [%1], %2, [%3], %4;" ::"r"(static_cast<std::uint32_t>(__cvta_generic_to_shared(shared))),
      "l"(global), "r"(bytes), "r"(mbarrier_address(barrier)), "h"(blocks)
      : "memory");
#else
  __trap();
#endif
}

// Likewise tensor_copy(). PTX ISA, "cp.async.bulk.tensor" (.multicast::cluster).
__device__ __forceinline__ void tensor_copy_multicast(void* shared, const TensorMap& map, int col, int row,
                                                      int matrix, std::uint64_t* barrier,
                                                      std::uint16_t blocks) {
#if HAVE_MBARRIER
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster "
      "[%0], [%1, {%2, %3, %4}], [%5], %6;" ::"r"(
          static_cast<std::uint32_t>(__cvta_generic_to_shared(shared))),
      "l"(&map), "r"(col), "r"(row), "r"(matrix), "r"(mbarrier_address(barrier)), "h"(blocks)
      : "memory");
#else
  __trap();
#endif
}

#else

#include "common/cpu_device/cluster_calls.hpp"

#endif
