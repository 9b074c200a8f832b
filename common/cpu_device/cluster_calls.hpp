#pragma once

// What kernels in clusters call; common/cuda/cluster.hpp says what the functions mean. Here the threads of
// all blocks of a cluster take turns (cluster.hpp).

#include <cstdint>

#include "common/cpu_device/cuda_on_cpu.hpp"
#include "common/cpu_device/tensor_copy.hpp"

namespace cpu_device {

// ---- cluster_barrier.cpp
// -----------------------------------------------------------------------------------

void cluster_arrive();
void cluster_wait();
void cluster_sync();

// ---- cluster_memory.cpp
// ------------------------------------------------------------------------------------

unsigned cluster_block_rank();
unsigned cluster_size();
const void* map_shared(const void* pointer, unsigned rank);

// ---- mbarrier.cpp, async_engine.cpp, tensor_copy.cpp
// -------------------------------------------------------

void mbarrier_arrive_remote(std::uint64_t* barrier, unsigned rank);
void mbarrier_wait_cluster(std::uint64_t* barrier, unsigned parity);
void bulk_copy_multicast(void* shared, const void* global, std::uint32_t bytes, std::uint64_t* barrier,
                         std::uint16_t blocks);
void copy_box_multicast(void* shared, const TensorMap& map, int col, int row, int matrix,
                        std::uint64_t* barrier, std::uint16_t blocks);

}  // namespace cpu_device

__forceinline__ void cluster_arrive() { cpu_device::cluster_arrive(); }
__forceinline__ void cluster_wait() { cpu_device::cluster_wait(); }
__forceinline__ void cluster_sync() { cpu_device::cluster_sync(); }
__forceinline__ unsigned cluster_block_rank() { return cpu_device::cluster_block_rank(); }
__forceinline__ unsigned cluster_size() { return cpu_device::cluster_size(); }
template <typename T>
__forceinline__ T* cluster_map_shared(T* pointer, unsigned rank) {
  return static_cast<T*>(const_cast<void*>(cpu_device::map_shared(pointer, rank)));
}
__forceinline__ void mbarrier_arrive_remote(std::uint64_t* barrier, unsigned rank) {
  cpu_device::mbarrier_arrive_remote(barrier, rank);
}
__forceinline__ void mbarrier_arrive_remote_after_reads(std::uint64_t* barrier, unsigned rank) {
  cpu_device::mbarrier_arrive_remote(barrier, rank);
}
__forceinline__ void mbarrier_wait_cluster(std::uint64_t* barrier, unsigned parity) {
  cpu_device::mbarrier_wait_cluster(barrier, parity);
}
__forceinline__ void bulk_copy_multicast(void* shared, const void* global, std::uint32_t bytes,
                                         std::uint64_t* barrier, std::uint16_t blocks) {
  cpu_device::bulk_copy_multicast(shared, global, bytes, barrier, blocks);
}
__forceinline__ void tensor_copy_multicast(void* shared, const TensorMap& map, int col, int row, int matrix,
                                           std::uint64_t* barrier, std::uint16_t blocks) {
  cpu_device::copy_box_multicast(shared, map, col, row, matrix, barrier, blocks);
}
