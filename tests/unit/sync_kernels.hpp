#pragma once

// The kernels of sync_test.cpp: shuffles, partial barriers, mbarriers, bulk copies, halves of words. Compiled
// twice, plain and observed, as a step's kernel is.

#include "tests/unit/cpu_kernels.hpp"

struct SyncKernels {
  // Right ones.
  Kernel shuffle_floats, shuffle_ints, shuffle_doubles, shuffle_in_part, sums_of_warpgroups, loads_of_warps,
      halves_of_a_warp, chain_of_named_barriers, named_barrier_without_some, named_barrier_twice, phases,
      polls, invalidated, bulk_order, bulk_after_syncthreads, bulk_rows_by_lanes, copies_arrive, chain,
      halves, global_halves, many_readers;
  // Wrong ones.
  Kernel shuffle_without_source, shuffle_elsewhere, syncwarp_without_itself, across_halves,
      shuffle_is_no_barrier, arrive_is_no_wait, named_barrier_number, named_barrier_count,
      named_barrier_too_few, named_barrier_half_a_warp, no_init, init_twice, init_without_barrier, no_fence,
      bad_parity, too_many_arrivals, too_many_bytes, overwritten_mbarrier, expect_is_no_arrive, hangs_polling,
      bulk_misaligned, bulk_outside, bulk_overwrites, bulk_source_overwritten, unwritten_half, half_race,
      fault_in_blocks, stop_in_blocks, race_of_blocks;
};

extern const SyncKernels plain_sync_kernels;
extern const SyncKernels observed_sync_kernels;
