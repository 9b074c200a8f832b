#pragma once

// The kernels of the sync tests: shuffles, partial barriers, mbarriers, bulk copies, halves of words.
// Compiled twice, plain and observed, as a step's kernel is.

#include "tests/unit/cpu_kernels.hpp"

struct WarpKernels {  // sync_kernels_warps.cpp
  // Right ones.
  Kernel shuffle_floats, shuffle_ints, shuffle_doubles, shuffle_in_part, sums_of_warpgroups, loads_of_warps,
      halves_of_a_warp, chain_of_named_barriers, named_barrier_without_some, named_barrier_twice;
  // Wrong ones.
  Kernel shuffle_without_source, shuffle_elsewhere, syncwarp_without_itself, across_halves,
      shuffle_is_no_barrier, arrive_is_no_wait, named_barrier_number, named_barrier_count,
      named_barrier_too_few, named_barrier_half_a_warp;
};

struct MbarrierKernels {  // sync_kernels_mbarrier.cpp
  // Right ones.
  Kernel phases, polls, invalidated, chain, many_readers;
  // Wrong ones.
  Kernel no_init, init_twice, init_without_barrier, no_fence, bad_parity, too_many_arrivals, too_many_bytes,
      overwritten_mbarrier, expect_is_no_arrive, hangs_polling;
};

struct BulkKernels {  // sync_kernels_bulk.cpp
  // Right ones.
  Kernel bulk_order, bulk_after_syncthreads, bulk_rows_by_lanes, copies_arrive;
  // Wrong ones.
  Kernel bulk_misaligned, bulk_outside, bulk_overwrites, bulk_source_overwritten;
};

struct ReportKernels {  // sync_kernels_reports.cpp
  // Right ones.
  Kernel halves, global_halves;
  // Wrong ones.
  Kernel unwritten_half, half_race, fault_in_blocks, stop_in_blocks, race_of_blocks;
};

extern const WarpKernels plain_warp_kernels, observed_warp_kernels;
extern const MbarrierKernels plain_mbarrier_kernels, observed_mbarrier_kernels;
extern const BulkKernels plain_bulk_kernels, observed_bulk_kernels;
extern const ReportKernels plain_report_kernels, observed_report_kernels;

struct SyncKernels : WarpKernels, MbarrierKernels, BulkKernels, ReportKernels {};

#ifndef BUILD
inline const SyncKernels plain_sync_kernels{plain_warp_kernels, plain_mbarrier_kernels, plain_bulk_kernels,
                                            plain_report_kernels};
#ifdef HAVE_OBSERVED
inline const SyncKernels observed_sync_kernels{observed_warp_kernels, observed_mbarrier_kernels,
                                               observed_bulk_kernels, observed_report_kernels};
#endif
#endif
