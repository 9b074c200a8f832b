#pragma once

// The kernels of the CPU device's tests. Compiled twice, plain and observed, as a step's kernel is.

#include "common/cpu_device/cuda_on_cpu.hpp"

// What the parameters mean is the kernel's business.
using Kernel = void (*)(float* x, float* y, int n);

struct SharedOfHelpers {
  float helper[2];
  unsigned char bytes[3];
  float beside;
};

struct RunKernels {  // cpu_kernels_run.cpp
  Kernel record_indices, block_exchange, warp_exchange, reverse_in_dynamic_shared, look_before_writing,
      fill_shared, meet, lanes_leave_early, recurse;
  // The host's look at the shared memory of fill_shared: that of a helper, and that beside the kernels.
  SharedOfHelpers (*shared_of_helpers)();
};

struct MemoryKernels {  // cpu_kernels_memory.cpp
  Kernel copy_float4, copy_float2, copy_float, load_read_only, sum_float4, through_shared, float4_to_shared,
      write_at, read_at, write_static_shared_at, write_dynamic_shared_at, index_static_shared,
      misaligned_float4, misaligned_float, read_unwritten_shared, read_dynamic_tiles, read_dynamic_ring,
      read_dynamic_array, align_dynamic_shared, align_beside_static_shared;
};

struct OrderKernels {  // cpu_kernels_order.cpp
  Kernel read_barrier_write, write_own_element, add_neighbour_after_barrier, shared_write_then_read,
      shared_read_then_write, shared_write_twice, shared_readers_then_last_writes, syncwarp_between_warps,
      global_write_then_read, global_read_then_write, global_write_twice, global_add_neighbour,
      one_leaves_before_barrier, two_barriers, barriers_of_two_kinds;
};

struct AsyncKernels {  // cpu_kernels_async.cpp
  Kernel async_copy_steps, async_copy_not_committed, async_copy_zeros, async_copy_left_behind,
      async_double_buffer, async_warp_exchange, async_read_before_wait, async_read_of_second_copy,
      async_read_without_barrier, async_barrier_before_wait, async_overwrite_pending, async_copy_onto_pending,
      async_copy_onto_read, async_copy_from, async_copy_to;
};

using GridKernel = void (*)(unsigned* flags, float* data, float* y, int n);
struct GridKernels {  // cpu_kernels_grid.cpp
  GridKernel chain_of_blocks, wait_for_many, flag_inside_a_block, write_after_read, last_block_sums,
      add_atomically, bypass_l1, hand_over, wait_for_later_block, shuffle_while_waiting, set_flag_in_blocks,
      wait_twice, set_flag_at, wait_for_flag_at, add_to_shared, add_misaligned;
};

extern const RunKernels plain_run_kernels, observed_run_kernels;
extern const MemoryKernels plain_memory_kernels, observed_memory_kernels;
extern const OrderKernels plain_order_kernels, observed_order_kernels;
extern const AsyncKernels plain_async_kernels, observed_async_kernels;
extern const GridKernels plain_grid_kernels, observed_grid_kernels;

struct Kernels : RunKernels, MemoryKernels, OrderKernels, AsyncKernels {};

#ifdef BUILD
// The file's kernels have a name for each build: plain_memory_kernels, observed_memory_kernels.
#define OF_BUILD_(build, kernels) build##_##kernels
#define OF_BUILD(build, kernels) OF_BUILD_(build, kernels)
#else  // for the tests
inline const Kernels plain_kernels{plain_run_kernels, plain_memory_kernels, plain_order_kernels,
                                   plain_async_kernels};
#ifdef HAVE_OBSERVED
inline const Kernels observed_kernels{observed_run_kernels, observed_memory_kernels, observed_order_kernels,
                                      observed_async_kernels};
#endif
#endif
