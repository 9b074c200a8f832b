// The X-ray puts the accesses of lanes together to requests, and chooses one to be looked at.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "common/cpu_device/xray.hpp"
#include "tests/unit/xray_rows.hpp"

namespace {

using cpu_device::Access;
using cpu_device::Space;
using cpu_device::Xray;
using cpu_device::XrayReport;
using cpu_device::XrayRow;
using testing::ElementsAre;
using xray_test::access;
using xray_test::counts;
using xray_test::nowhere;
using xray_test::rows;

Access after_barrier(Access access, std::uint32_t epoch) {
  access.epoch = epoch;
  return access;
}

// Both sides of an asynchronous copy. from == 0: of zeros.
void copy(Xray& xray, unsigned place, unsigned thread, std::uintptr_t to, std::uintptr_t from,
          unsigned bytes) {
  if (from != 0)
    xray.on_access({nowhere(place), from, bytes, Space::global, false, 0, thread, 0, true, from});
  xray.on_access({nowhere(place), to, bytes, Space::shared, true, 0, thread, 0, true, from});
}

TEST(Grouping, LanesRunOneAfterAnother) {  // as fibers do, up to a barrier: the n-th accesses belong together
  Xray xray;
  for (unsigned lane = 0; lane < 32; ++lane) {
    for (unsigned n = 0; n < 3; ++n) xray.on_access(access(0, 0, lane, lane * (n == 1 ? 2 : 1)));
  }
  EXPECT_THAT(counts(xray), ElementsAre("shared load 4: 3 4 3"));
}

TEST(Grouping, WarpsBlocksPlacesAndKindsAreApart) {
  Xray xray;
  for (unsigned thread = 0; thread < 64; ++thread) {
    xray.on_access(access(0, 5, thread, thread / 32 * 32 + thread % 32 * 2));
    xray.on_access(access(0, 5, thread, thread, true));  // one instruction copies shared to shared
    xray.on_access(access(1, 5, thread, thread, false));
    xray.on_access(access(1, 5, thread, thread * 4, false, 16));
    xray.on_access(access(1, 5, thread, thread * 32, false, 4, Space::global));
  }
  for (unsigned thread = 0; thread < 64; ++thread) xray.on_access(access(0, 6, thread, thread));
  EXPECT_THAT(counts(xray),
              ElementsAre("shared load 4: 4 6 4", "shared store 4: 2 2 2", "global load 4: 2 64 256",
                          "shared load 4: 2 2 2", "shared load 16: 2 8 8"));
}

TEST(Grouping, MissingLanes) {
  Xray xray;
  const auto half_a_warp = [&](std::uint64_t block) {
    for (unsigned lane = 0; lane < 16; ++lane) {
      for (unsigned n = 0; n < 10; ++n) xray.on_access(access(0, block, lane, lane * 4));
    }
  };
  half_a_warp(0);
  half_a_warp(7);  // ends block 0
  EXPECT_THAT(counts(xray), ElementsAre("shared load 4: 20 40 20"));
  half_a_warp(7);  // of another launch
  EXPECT_THAT(counts(xray), ElementsAre("shared load 4: 30 60 30"));
  EXPECT_THAT(counts(xray), ElementsAre("shared load 4: 30 60 30"));  // asking changes nothing
  half_a_warp(7);
  xray.on_launch({nullptr, dim3(8), dim3(16)});  // the same block comes next, in another launch
  half_a_warp(7);
  xray.on_block_end(7);
  half_a_warp(7);
  EXPECT_THAT(counts(xray), ElementsAre("shared load 4: 60 120 60"));
}

// The last warp of 48 threads has 16 lanes: with these its requests are complete.
TEST(Grouping, WarpsOfFewThreads) {
  Xray xray;
  xray.on_launch({nullptr, dim3(1), dim3(6, 8)});
  for (unsigned thread = 0; thread < 48; ++thread) {
    for (unsigned n = 0; n < 3; ++n) xray.on_access(access(0, 0, thread, thread));
  }
  xray.on_warp_end(0, 0);
  xray.on_warp_end(0, 1);
  xray.on_warp_end(0, 2);  // accessed nothing
  xray.on_block_end(0);
  EXPECT_THAT(counts(xray), ElementsAre("shared load 4: 6 6 6"));
  ASSERT_EQ(rows(xray).size(), 1u);
  EXPECT_EQ(rows(xray)[0].counts.lanes, 48u * 3);
  EXPECT_EQ(rows(xray)[0].example.execution, 0u);
}

TEST(Grouping, OneLaneOftenerThanTheOthers) {
  Xray xray;
  for (unsigned lane = 0; lane < 32; ++lane) {
    for (unsigned n = 0; n <= lane % 4; ++n) xray.on_access(access(0, 0, lane, lane * 2));
  }
  // 32 lanes want two words of each even bank, then 24 do, then 16, then 8.
  EXPECT_THAT(counts(xray), ElementsAre("shared load 4: 4 8 4"));
}

// Lanes 16 to 31 skip the first execution. A barrier later all lanes execute the instruction together.
TEST(Grouping, BarriersSeparateRequests) {
  for (const bool barrier : {false, true}) {
    Xray xray;
    for (unsigned lane = 0; lane < 16; ++lane) xray.on_access(access(0, 0, lane, 0));
    for (unsigned lane = 0; lane < 32; ++lane) {
      xray.on_access(after_barrier(access(0, 0, lane, 32), barrier ? 1 : 0));
    }
    // Without: 16 lanes want word 0 and 16 word 32, of the same bank; then 16 want word 32.
    EXPECT_THAT(counts(xray), ElementsAre(barrier ? "shared load 4: 2 2 2" : "shared load 4: 2 3 2"));
  }
}

TEST(Copies, CountOnEitherSide) {
  Xray xray;
  // 8 elements each of 4 rows of A, stored to a transposed tile with rows of 132 floats: see step 09. The
  // banks would take one wavefront; the four lines of global memory take four.
  for (unsigned lane = 0; lane < 32; ++lane) {
    const unsigned row = lane / 8, k = lane % 8;
    copy(xray, 0, lane, (k * 132 + row) * 4, 0x10000 + row * 512 + k * 4, 4);
  }
  for (unsigned lane = 0; lane < 32; ++lane) copy(xray, 1, lane, lane * 16, 0x10000 + lane * 16, 16);
  for (unsigned lane = 0; lane < 32; ++lane) copy(xray, 2, lane, lane * 8, 0x10000 + lane * 4, 4);
  EXPECT_THAT(counts(xray), ElementsAre("global copy 4: 1 4 128", "shared copy 4: 1 4 1",     //
                                        "global copy 16: 1 16 512", "shared copy 16: 1 4 4",  //
                                        "global copy 4: 1 4 128", "shared copy 4: 1 2 1"));
  std::vector<std::uint64_t> conflicts;
  for (const XrayRow& row : rows(xray)) conflicts.push_back(row.counts.conflicts);
  EXPECT_THAT(conflicts, ElementsAre(0, 0, 0, 0, 0, 1));
}

// Lanes that write zeros read nothing, and are there all the same.
TEST(Copies, OfZeros) {
  Xray xray;
  for (unsigned lane = 0; lane < 32; ++lane) {
    copy(xray, 0, lane, lane * 4, lane < 8 ? 0 : 0x10000 + lane * 4, 4);
    copy(xray, 0, lane, lane * 4, 0x20000 + lane * 4, 4);
    copy(xray, 0, lane, lane * 4, 0, 4);
  }
  EXPECT_THAT(counts(xray), ElementsAre("global copy 4: 2 7 224", "shared copy 4: 3 3 3"));
  const std::vector<XrayRow> both = rows(xray);
  EXPECT_EQ(both[0].counts.lanes, 24u + 32u);
  EXPECT_EQ(both[1].counts.lanes, 96u);
  EXPECT_EQ(both[0].example.execution, 1u);  // the one in which all lanes read
  EXPECT_EQ(both[1].example.execution, 0u);
}

// The example is the request of most lanes; of several the first by block, warp and time.
TEST(Examples, FullestThenFirst) {
  const auto warp_loads = [](Xray& xray, std::uint64_t block, unsigned warp, unsigned lanes,
                             unsigned element) {
    for (unsigned lane = 0; lane < lanes; ++lane) {
      xray.on_access(access(0, block, warp * 32 + lane, element + lane, false, 4, Space::global));
    }
  };
  Xray xray;
  xray.on_launch({nullptr, dim3(4, 3), dim3(64)});
  warp_loads(xray, 7, 1, 32, 100);
  xray.on_block_end(7);
  warp_loads(xray, 6, 1, 32, 200);
  warp_loads(xray, 6, 1, 32, 300);
  xray.on_block_end(6);
  warp_loads(xray, 1, 0, 31, 400);  // one lane is missing
  xray.on_block_end(1);
  warp_loads(xray, 6 + 4, 0, 32, 500);
  xray.on_block_end(6 + 4);
  const XrayReport report = xray.report();
  EXPECT_EQ(report.blocks, 12u);
  EXPECT_EQ(report.observed_blocks, 4u);
  ASSERT_EQ(report.kernels.size(), 1u);
  EXPECT_EQ(report.kernels[0].threads_per_block, 64u);
  ASSERT_EQ(report.kernels[0].rows.size(), 1u);
  const cpu_device::XrayExample& example = report.kernels[0].rows[0].example;
  EXPECT_EQ(example.block.x, 2u);  // block 6 of 4 x 3
  EXPECT_EQ(example.block.y, 1u);
  EXPECT_EQ(example.block.z, 0u);
  EXPECT_EQ(example.warp, 1u);
  EXPECT_EQ(example.execution, 0u);
  EXPECT_EQ(example.active, ~0u);
  for (unsigned lane = 0; lane < 32; ++lane) EXPECT_EQ(example.offset[lane], (200 + lane) * 4);
}

TEST(Examples, ExecutionsCountAcrossBarriers) {
  Xray xray;
  for (std::uint32_t epoch = 0; epoch < 3; ++epoch) {
    for (unsigned lane = 0; lane < (epoch < 2 ? 16u : 20u); ++lane) {
      for (unsigned n = 0; n < 2; ++n) xray.on_access(after_barrier(access(0, 0, lane, lane), epoch));
    }
  }
  const std::vector<XrayRow> one = rows(xray);
  ASSERT_EQ(one.size(), 1u);
  EXPECT_EQ(one[0].counts.requests, 6u);
  EXPECT_EQ(one[0].counts.lanes, 16u * 4 + 20 * 2);
  EXPECT_EQ(one[0].example.execution, 4u);  // the first with 20 lanes
  EXPECT_EQ(one[0].example.active, 0xfffffu);
}

// As in a cluster: what one block does between does not end the other's requests, nor their numbers.
TEST(Examples, BlocksTakeTurns) {
  Xray xray(true);
  for (unsigned n = 0; n < 3; ++n) {
    for (const std::uint64_t block : {4, 5}) {
      for (unsigned lane = 0; lane < 16; ++lane) xray.on_access(access(0, block, lane, 32 * n + lane, true));
    }
    for (const std::uint64_t block : {4, 5}) {
      for (unsigned lane = 16; lane < 32; ++lane) xray.on_access(access(0, block, lane, 32 * n + lane, true));
    }
  }
  xray.on_block_end(4);
  const std::vector<XrayRow> one = rows(xray);
  ASSERT_EQ(one.size(), 1u);
  EXPECT_EQ(one[0].counts.requests, 6u);
  EXPECT_EQ(one[0].counts.lanes, 6u * 32);
  ASSERT_EQ(one[0].requests.size(), 6u);
  for (unsigned i = 0; i < 6; ++i) {
    EXPECT_EQ(one[0].requests[i].where.execution, i % 3);
    EXPECT_EQ(one[0].requests[i].sequence, i % 3);
  }
}

}  // namespace
