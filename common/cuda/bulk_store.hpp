#pragma once

// Asynchronous stores from shared to global memory (cp.async.bulk and cp.async.bulk.tensor; compute
// capability 9.0 and newer). One thread requests them, closes a group of those that it has requested, and
// waits for its groups: first until they have read their sources, which may then be written to again, and, if
// anybody wants to read what they write in the same launch, until they have written it. PTX ISA, "Data
// Movement and Conversion Instructions: cp.async.bulk", "cp.async.bulk.wait_group".
//
// A store finds what threads have written to shared memory only if each of them calls fence_async_proxy()
// before it synchronises with the thread that requests the store. A block must not end before its stores have
// read their sources: bulk_store_wait_read<0>(), by the thread that requested them.

#include "common/cuda/bulk_copy.hpp"
#include "common/cuda/tensor_copy.hpp"

#ifdef __CUDACC__

// Starts storing. Both addresses and the number of bytes are multiples of 16.
__device__ __forceinline__ void bulk_store(void* global, const void* shared, std::uint32_t bytes) {
#if HAVE_MBARRIER
  asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(global),
               "r"(static_cast<std::uint32_t>(__cvta_generic_to_shared(shared))), "r"(bytes)
               : "memory");
#else
  __trap();
#endif
}

inline namespace on_gpu {

// Starts storing the box whose upper left element becomes (row, col) of a matrix of the batch; in shared
// memory it lies as tensor_copy() would put it there. Alignment as for tensor_copy(). Two things PTX does not
// say, an H200 shows:
// - The part of the box beyond the matrix is not stored, but a row is stored in whole groups of 16 bytes: of
//   a matrix with 42 columns of floats, also what lies where columns 42 and 43 would.
// - Row, column and matrix must not be negative, as they may be for a copy: the kernel ends with an "illegal
//   instruction".
__device__ __forceinline__ void tensor_store(const TensorMap& map, int col, int row, int matrix,
                                             const void* shared) {
#if HAVE_MBARRIER
  asm volatile(
      "cp.async.bulk.tensor.3d.global.shared::cta.tile.bulk_group [%0, {%1, %2, %3}], [%4];" ::"l"(&map),
      "r"(col), "r"(row), "r"(matrix), "r"(static_cast<std::uint32_t>(__cvta_generic_to_shared(shared)))
      : "memory");
#else
  __trap();
#endif
}

}  // namespace on_gpu

// Closes a group: the stores that this thread has requested since the last one.
__device__ __forceinline__ void bulk_store_commit() {
#if HAVE_MBARRIER
  asm volatile("cp.async.bulk.commit_group;" ::: "memory");
#endif
}

// Waits until all of this thread's groups but the latest PENDING have read their sources.
template <int PENDING>
__device__ __forceinline__ void bulk_store_wait_read() {
#if HAVE_MBARRIER
  asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(PENDING) : "memory");
#endif
}

// Waits until all of this thread's groups but the latest PENDING have written: this thread, and who then
// synchronises with it, may read what they wrote.
template <int PENDING>
__device__ __forceinline__ void bulk_store_wait() {
#if HAVE_MBARRIER
  asm volatile("cp.async.bulk.wait_group %0;" ::"n"(PENDING) : "memory");
#endif
}

#else

#include "common/cpu_device/bulk_store.hpp"

#endif
