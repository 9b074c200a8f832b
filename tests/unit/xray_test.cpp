// The X-ray: its model of the memories against what Nsight Compute counted on an H200, the grouping of
// accesses into requests, and the steps against what they say of themselves: 02 reads B in whole sectors, 06
// has bank conflicts in two places, the later ones have none.

#include "common/cpu_device/xray.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <functional>
#include <map>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "common/gemm.hpp"
#include "common/harness/entry.hpp"
#include "tests/unit/device_buffer.hpp"

#ifdef HAVE_OBSERVED
#include "common/cpu_device/member_names.hpp"

extern const harness::Entry step_01_naive, step_02_coalescing, step_03_shared_memory, step_04_1d_tiling,
    step_05_2d_tiling, step_06_vectorization, step_07_bank_conflicts, step_08_warp_tiling, step_09_async_copy,
    step_10_prefetch;
#endif

namespace cpu_device {
bool operator==(const Wavefronts& a, const Wavefronts& b) {
  return a.wavefronts == b.wavefronts && a.ideal == b.ideal;
}
void PrintTo(const Wavefronts& w, std::ostream* out) {
  *out << w.wavefronts << " wavefronts, ideal " << w.ideal;
}
}  // namespace cpu_device

namespace {

using cpu_device::Access;
using cpu_device::Operation;
using cpu_device::Space;
using cpu_device::WarpRequest;
using cpu_device::Wavefronts;
using cpu_device::Xray;
using cpu_device::XrayReport;
using cpu_device::XrayRow;
using testing::ElementsAre;
using testing::IsEmpty;

// ---- One request to shared memory -------------------------------------------------------------------------

// What a warp takes whose lanes access `bytes` bytes each at float number element(lane). In the shared memory
// of a block, whose first byte need not be in bank 0.
Wavefronts of_warp(unsigned bytes, const std::function<unsigned(unsigned)>& element,
                   std::uint32_t active = ~0u) {
  Wavefronts result;
  for (const unsigned base : {0u, 16u, 112u}) {
    WarpRequest request;
    request.active = active;
    for (unsigned lane = 0; lane < 32; ++lane) request.addresses[lane] = base + 4 * element(lane);
    const Wavefronts w = cpu_device::wavefronts(request, bytes);
    if (base == 0) result = w;
    EXPECT_EQ(w, result) << "from byte " << base << " on";
  }
  return result;
}

Wavefronts takes(std::uint64_t wavefronts, std::uint64_t ideal) { return {wavefronts, ideal}; }

// Counted by Nsight Compute on an H200.
TEST(Hardware, FloatsByStride) {
  EXPECT_EQ(of_warp(4, [](unsigned lane) { return lane; }), takes(1, 1));
  EXPECT_EQ(of_warp(4, [](unsigned lane) { return lane * 2; }), takes(2, 1));
  EXPECT_EQ(of_warp(4, [](unsigned lane) { return lane * 33; }), takes(1, 1));
}

TEST(Hardware, StoreOfATransposed) {  // As[k][row], rows of 128 floats
  EXPECT_EQ(of_warp(4, [](unsigned lane) { return lane % 2 * 4 * 128 + lane / 2; }), takes(2, 1));
}

TEST(Hardware, Float4FragmentsOfStep06) {
  // As[k][ty * 8]: two addresses in a warp. Textbooks say 4 wavefronts.
  EXPECT_EQ(of_warp(16, [](unsigned lane) { return lane / 16 * 8; }), takes(2, 2));
  // Bs[k][tx * 8]: 32 bytes apart
  EXPECT_EQ(of_warp(16, [](unsigned lane) { return lane % 16 * 8; }), takes(8, 4));
}

TEST(Hardware, Float4FragmentsOfLanesAs8x4) {
  EXPECT_EQ(of_warp(16, [](unsigned lane) { return lane / 4 * 4; }), takes(2, 2));
  EXPECT_EQ(of_warp(16, [](unsigned lane) { return lane % 4 * 4; }), takes(4, 4));
}

// What follows from the same rule.
TEST(Model, BroadcastAndWorstCase) {
  EXPECT_EQ(of_warp(4, [](unsigned) { return 0; }), takes(1, 1));
  EXPECT_EQ(of_warp(4, [](unsigned lane) { return lane * 32; }), takes(32, 1));
  EXPECT_EQ(of_warp(4, [](unsigned lane) { return lane % 2 * 32; }), takes(2, 1));
  EXPECT_EQ(of_warp(4, [](unsigned lane) { return lane * 2; }, 0xffff), takes(1, 1));
  EXPECT_EQ(of_warp(4, [](unsigned lane) { return lane * 32; }, 0), takes(0, 0));
}

TEST(Model, EightBytes) {
  EXPECT_EQ(of_warp(8, [](unsigned lane) { return lane * 2; }), takes(2, 2));
  EXPECT_EQ(of_warp(8, [](unsigned lane) { return lane * 4; }), takes(4, 2));
  EXPECT_EQ(of_warp(8, [](unsigned) { return 0; }), takes(1, 1));
  EXPECT_EQ(of_warp(8, [](unsigned lane) { return lane / 2 * 2; }), takes(1, 1));   // as lane ^ 1
  EXPECT_EQ(of_warp(8, [](unsigned lane) { return lane % 2 * 2; }), takes(1, 1));   // as lane ^ 2
  EXPECT_EQ(of_warp(8, [](unsigned lane) { return lane % 16 * 2; }), takes(2, 2));  // as lane ^ 16: no help
  EXPECT_EQ(of_warp(8, [](unsigned lane) { return lane / 2 * 4; }), takes(2, 1));
}

TEST(Model, SixteenBytes) {
  EXPECT_EQ(of_warp(16, [](unsigned lane) { return lane * 4; }), takes(4, 4));
  EXPECT_EQ(of_warp(16, [](unsigned) { return 0; }), takes(2, 2));
  EXPECT_EQ(of_warp(16, [](unsigned lane) { return lane % 2 * 4; }), takes(2, 2));
  EXPECT_EQ(of_warp(16, [](unsigned lane) { return lane * 32; }), takes(32, 4));
  EXPECT_EQ(of_warp(16, [](unsigned lane) { return lane / 2 * 32; }), takes(16, 2));
  // Only lanes that take part count. Where every second lane does, none has a neighbour that disagrees.
  EXPECT_EQ(of_warp(16, [](unsigned lane) { return lane * 4; }, 0xff), takes(1, 1));
  EXPECT_EQ(of_warp(16, [](unsigned lane) { return lane / 2 * 4; }, 0x55555555), takes(2, 2));
}

TEST(Model, OtherWidths) {
  EXPECT_EQ(of_warp(1, [](unsigned lane) { return lane; }), takes(1, 1));
  EXPECT_EQ(of_warp(12, [](unsigned lane) { return lane * 3; }), takes(3, 3));
  EXPECT_EQ(of_warp(32, [](unsigned lane) { return lane * 8; }), takes(64, 8));
}

// ---- One request to global memory -------------------------------------------------------------------------

struct Footprint {
  std::uint64_t sectors, wavefronts, bytes;
  bool operator==(const Footprint&) const = default;
};
void PrintTo(const Footprint& f, std::ostream* out) {
  *out << f.sectors << " sectors, " << f.wavefronts << " wavefronts, " << f.bytes << " bytes";
}

// What a warp touches whose lanes access `bytes` bytes each at byte(lane) of an aligned array.
Footprint touched(unsigned bytes, const std::function<std::uintptr_t(unsigned)>& byte,
                  std::uint32_t active = ~0u) {
  WarpRequest request{active, {}};
  for (unsigned lane = 0; lane < 32; ++lane) request.addresses[lane] = 0x7f0000000000 + byte(lane);
  return {cpu_device::sectors(request, bytes), cpu_device::wavefronts(request, bytes).wavefronts,
          cpu_device::distinct_bytes(request, bytes)};
}

TEST(Sectors, FloatsByStride) {
  EXPECT_EQ(touched(4, [](unsigned) { return 64; }), (Footprint{1, 1, 4}));  // all lanes want the same
  EXPECT_EQ(touched(4, [](unsigned lane) { return lane * 4; }), (Footprint{4, 1, 128}));
  EXPECT_EQ(touched(4, [](unsigned lane) { return lane * 8; }), (Footprint{8, 2, 128}));
  EXPECT_EQ(touched(4, [](unsigned lane) { return lane * 32; }), (Footprint{32, 8, 128}));
  EXPECT_EQ(touched(4, [](unsigned lane) { return lane * 4 * 33; }), (Footprint{32, 1, 128}));
  EXPECT_EQ(touched(4, [](unsigned lane) { return lane * std::uintptr_t{16384}; }), (Footprint{32, 32, 128}));
}

TEST(Sectors, AnyOrderOfLanes) {
  EXPECT_EQ(touched(4, [](unsigned lane) { return (31 - lane) * 4; }), (Footprint{4, 1, 128}));
  EXPECT_EQ(touched(4, [](unsigned lane) { return lane * 7 % 32 * 4; }), (Footprint{4, 1, 128}));
  EXPECT_EQ(touched(4, [](unsigned lane) { return lane % 2 * 4096 + lane / 2 * 4; }), (Footprint{4, 2, 128}));
}

TEST(Sectors, NotAligned) {  // a row that begins one float behind a boundary
  EXPECT_EQ(touched(4, [](unsigned lane) { return 4 + lane * 4; }), (Footprint{5, 1, 128}));
  EXPECT_EQ(touched(16, [](unsigned lane) { return 16 + lane * 16; }), (Footprint{17, 4, 512}));
  EXPECT_EQ(touched(4, [](unsigned lane) { return 30 + lane * 4; }),
            (Footprint{5, 2, 128}));  // across sectors
  EXPECT_EQ(touched(4, [](unsigned) { return 30; }), (Footprint{2, 1, 4}));
}

TEST(Sectors, PartOfAWarp) {
  EXPECT_EQ(touched(4, [](unsigned lane) { return lane * 4; }, 0xff), (Footprint{1, 1, 32}));
  EXPECT_EQ(touched(4, [](unsigned lane) { return lane * 4; }, 0x80000001), (Footprint{2, 1, 8}));
  EXPECT_EQ(touched(4, [](unsigned lane) { return lane * 4; }, 0), (Footprint{0, 0, 0}));
}

TEST(Sectors, Float4) {
  EXPECT_EQ(touched(16, [](unsigned lane) { return lane * 16; }), (Footprint{16, 4, 512}));
  // Counted on an H200: a tile of A, 16 rows of 32 bytes; C stored by 2 x 16 threads of 8 columns.
  EXPECT_EQ(touched(16, [](unsigned lane) { return lane / 2 * 4096 + lane % 2 * 16; }),
            (Footprint{16, 16, 512}));
  EXPECT_EQ(touched(16, [](unsigned lane) { return lane / 16 * 4096 + lane % 16 * 32; }),
            (Footprint{32, 8, 512}));
  EXPECT_EQ(touched(16, [](unsigned lane) { return lane / 4 * 16; }), (Footprint{4, 2, 128}));
  EXPECT_EQ(touched(8, [](unsigned lane) { return lane * 8; }), (Footprint{8, 2, 256}));
}

TEST(Sectors, OverlappingAndWide) {
  EXPECT_EQ(touched(8, [](unsigned lane) { return lane * 4; }), (Footprint{5, 2, 132}));
  EXPECT_EQ(touched(1, [](unsigned lane) { return lane; }), (Footprint{1, 1, 32}));
  EXPECT_EQ(touched(64, [](unsigned lane) { return lane * 64; }), (Footprint{64, 256, 2048}));
  EXPECT_EQ(touched(64, [](unsigned) { return 0; }), (Footprint{2, 16, 64}));
}

// ---- Requests out of accesses -----------------------------------------------------------------------------

// Places need not exist: unknown ones stay apart.
const char code[8] = {};
constexpr auto nowhere = [](unsigned i) -> const void* { return code + i; };

Access access(unsigned place, std::uint64_t block, unsigned thread, unsigned element, bool write = false,
              unsigned bytes = 4, Space space = Space::shared) {
  return {nowhere(place), element * std::uintptr_t{4}, bytes, space, write, block, thread};
}

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

std::vector<XrayRow> rows(Xray& xray) {
  std::vector<XrayRow> all;
  for (const cpu_device::XrayKernel& kernel : xray.report().kernels) {
    all.insert(all.end(), kernel.rows.begin(), kernel.rows.end());
  }
  return all;
}

// "requests wavefronts ideal", or "requests sectors bytes" of global memory, of each kind. Made-up addresses
// may lie in several arrays of this program: they count together.
std::vector<std::string> counts(Xray& xray) {
  std::vector<std::pair<std::string, cpu_device::XrayCounts>> sums;
  for (const XrayRow& row : rows(xray)) {
    const std::string kind =
        to_string(row.space) + std::string(" ") + to_string(row.operation) + " " + std::to_string(row.bytes);
    if (sums.empty() || sums.back().first != kind) sums.push_back({kind, {}});
    sums.back().second += row.counts;
  }
  std::vector<std::string> texts;
  for (const auto& [kind, c] : sums) {
    const bool global = kind.starts_with("global");
    texts.push_back(kind + ": " + std::to_string(c.requests) + " " +
                    std::to_string(global ? c.sectors : c.wavefronts) + " " +
                    std::to_string(global ? c.bytes_used : c.ideal_wavefronts));
  }
  return texts;
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

TEST(Grouping, EachListenerForItself) {
  Xray one, two;
  for (unsigned lane = 0; lane < 32; ++lane) {
    one.on_access(access(0, 0, lane, lane));
    two.on_access(access(0, 0, lane, 2 * lane));
  }
  EXPECT_THAT(counts(one), ElementsAre("shared load 4: 1 1 1"));
  EXPECT_THAT(counts(two), ElementsAre("shared load 4: 1 2 1"));
  Xray none;
  EXPECT_THAT(counts(none), IsEmpty());
}

TEST(Grouping, SeveralOsThreads) {
  Xray xray;
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (std::uint64_t block = t; block < 400; block += 4) {
        for (unsigned thread = 0; thread < 80; ++thread) {  // the third warp is half a warp
          for (unsigned n = 0; n < 5; ++n) xray.on_access(access(0, block, thread, thread * 2));
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(counts(xray), ElementsAre("shared load 4: 6000 10000 6000"));
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
  ASSERT_EQ(both.size(), 2u);
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

// ---- Choosing blocks --------------------------------------------------------------------------------------

void count_block(int* counts) { ++counts[blockIdx.z * 6 + blockIdx.y * 3 + blockIdx.x]; }

class Blocks : public testing::Test {
 protected:
  ~Blocks() override { cpu_device::select_blocks(std::nullopt); }
  void run() { launch(count_block, dim3(3, 2, 2), dim3(1), 0, counts.data()); }
  std::vector<int> counts = std::vector<int>(12);
};

TEST_F(Blocks, All) {
  run();
  EXPECT_THAT(counts, testing::Each(1));
}

TEST_F(Blocks, SomeOfEachLaunch) {
  cpu_device::select_blocks({{{0, 4, 11}, {}, {4}}});
  for (int i = 0; i < 5; ++i) run();  // nothing after the third
  EXPECT_THAT(counts, ElementsAre(1, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 1));
  cpu_device::select_blocks(std::nullopt);
  run();
  EXPECT_THAT(counts, ElementsAre(2, 1, 1, 1, 3, 1, 1, 1, 1, 1, 1, 2));
}

TEST_F(Blocks, LaunchesThatDoNotRun) {
  const std::vector<cpu_device::LaunchShape> launches = cpu_device::launches_of([&] {
    run();
    launch(count_block, dim3(0, 2), dim3(1), 0, counts.data());  // no blocks: no launch
    launch(count_block, dim3(5), dim3(32, 4), 100, counts.data());
  });
  EXPECT_THAT(counts, testing::Each(0));
  ASSERT_EQ(launches.size(), 2u);
  EXPECT_EQ(launches[0].blocks(), 12u);
  EXPECT_EQ(launches[1].grid.x, 5u);
  EXPECT_EQ(launches[1].block.y, 4u);
  EXPECT_EQ(launches[1].shared_bytes, 100u);
  EXPECT_THROW(cpu_device::launches_of([] { throw std::runtime_error("stop"); }), std::runtime_error);
  run();  // runs again
  EXPECT_THAT(counts, testing::Each(1));
}

#ifdef HAVE_OBSERVED

// ---- The names of members ---------------------------------------------------------------------------------

struct Pair {
  char first[3];
  double second[2][2];
};
struct Wide {
  int a, b, c, d, e;
};

TEST(Members, OfStructs) {
  const auto& pair = cpu_device::members<Pair>;
  ASSERT_EQ(pair.size(), 2u);
  EXPECT_EQ(pair[0].name, "Pair::first");
  EXPECT_EQ(pair[0].offset, offsetof(Pair, first));
  EXPECT_EQ(pair[0].bytes, sizeof(Pair::first));
  EXPECT_EQ(pair[1].name, "Pair::second");
  EXPECT_EQ(pair[1].offset, offsetof(Pair, second));
  EXPECT_EQ(pair[1].bytes, sizeof(Pair::second));
}

TEST(Members, OfWhatHasNoneOrTooMany) {
  EXPECT_EQ(cpu_device::members<float>.size(), 0u);
  EXPECT_EQ(cpu_device::members<float[8]>.size(), 0u);
  EXPECT_EQ(cpu_device::members<Wide>.size(), 0u);
  EXPECT_EQ(cpu_device::members<std::string>.size(), 0u);
}

// ---- The steps --------------------------------------------------------------------------------------------

struct StepUnderTest {
  std::string name;
  harness::Entry run;
};
void PrintTo(const StepUnderTest& step, std::ostream* out) { *out << step.name; }

// The lines of the step that contain `text`, e.g. {"steps/06_vectorization/kernel.cu:98"}.
std::set<std::string> lines_with(const StepUnderTest& step, const std::string& text) {
  const std::string path = "steps/" + step.name + "/kernel.cu";
  std::ifstream file(std::string(PROJECT_ROOT) + "/" + path);
  std::set<std::string> places;
  std::string line;
  for (int number = 1; std::getline(file, line); ++number) {
    if (line.find(text) != line.npos) places.insert(path + ":" + std::to_string(number));
  }
  EXPECT_THAT(places, testing::Not(IsEmpty())) << "no line of " << path << " contains " << text;
  return places;
}

std::string place_of(const XrayRow& r) { return r.place.file + ":" + std::to_string(r.place.line); }

// Runs the step with every access observed and returns the report. The product is of ones.
XrayReport report_of(const StepUnderTest& step, int M, int N, int K, int padding) {
  const std::int64_t lda = K + padding, ldb = N + padding, ldc = N + padding;
  DeviceBuffer A(M * lda), B(K * ldb), C(M * ldc);
  for (DeviceBuffer* x : {&A, &B, &C}) std::fill_n(x->data(), x->size(), 1.0f);
  cpu_device::describe({"A", A.data(), M, K, lda, 1, M * lda, true, false});
  cpu_device::describe({"B", B.data(), K, N, ldb, 1, K * ldb, true, false});
  cpu_device::describe({"C", C.data(), M, N, ldc, 1, M * ldc, false, true});
  Xray xray;
  cpu_device::set_checking(true);
  cpu_device::set_listener(&xray);
  step.run(
      Gemm{M, N, K, 1, 1.0f, A.data(), lda, M * lda, B.data(), ldb, K * ldb, 0.0f, C.data(), ldc, M * ldc});
  cpu_device::set_listener(nullptr);
  cpu_device::set_checking(false);
  for (const cpu_device::Fault& fault : cpu_device::take_faults()) ADD_FAILURE() << describe(fault);
  for (int i = 0; i < M; ++i) {
    for (int j = 0; j < N; ++j) {
      if (C[i * ldc + j] != static_cast<float>(K)) {
        ADD_FAILURE() << "C[" << i << "][" << j << "] is " << C[i * ldc + j] << ", not " << K;
        i = M, j = N;
      }
    }
  }
  XrayReport report = xray.report();
  EXPECT_EQ(report.observed_blocks, report.blocks);
  EXPECT_EQ(report.kernels.size(), 1u);
  return report;
}

// The rows of the one kernel.
std::vector<XrayRow> traffic_of(const StepUnderTest& step, int M, int N, int K, int padding) {
  const XrayReport report = report_of(step, M, N, K, padding);
  std::vector<XrayRow> rows;
  for (const cpu_device::XrayKernel& kernel : report.kernels) {
    rows.insert(rows.end(), kernel.rows.begin(), kernel.rows.end());
  }
  EXPECT_FALSE(rows.empty());
  for (const XrayRow& r : rows) {
    const cpu_device::XrayCounts& c = r.counts;
    EXPECT_GT(r.place.line, 0);
    EXPECT_TRUE(r.place.file.starts_with("steps/" + step.name + "/")) << place_of(r);
    EXPECT_FALSE(r.source.empty()) << place_of(r);
    EXPECT_GT(c.requests, 0u) << place_of(r);
    EXPECT_GT(c.lanes, 0u) << place_of(r);
    if (r.space == Space::shared) {
      EXPECT_GE(c.wavefronts, c.ideal_wavefronts + c.conflicts) << place_of(r);
      EXPECT_GE(c.ideal_wavefronts, c.requests) << place_of(r);
      EXPECT_EQ(c.sectors + c.bytes_used, 0u) << place_of(r);
      EXPECT_TRUE(r.operation == Operation::copy || c.wavefronts == c.ideal_wavefronts + c.conflicts);
    } else {
      EXPECT_GE(c.sectors, c.requests) << place_of(r);
      EXPECT_LE(c.bytes_used, c.sectors * 32) << place_of(r);
      EXPECT_GE(c.wavefronts, c.requests) << place_of(r);
      EXPECT_EQ(c.ideal_wavefronts + c.conflicts, 0u) << place_of(r);
      EXPECT_THAT(r.array, testing::AnyOf("A", "B", "C")) << place_of(r);
    }
  }
  return rows;
}

std::set<std::string> places_with_conflicts(const std::vector<XrayRow>& rows) {
  std::set<std::string> places;
  for (const XrayRow& r : rows) {
    if (r.counts.conflicts > 0) places.insert(place_of(r));
  }
  return places;
}

Wavefronts wavefronts_of(const XrayRow& r) { return {r.counts.wavefronts, r.counts.ideal_wavefronts}; }

// "global load A 4: 32 lanes, 32 sectors, 128 bytes" of each row, for a request on average.
std::vector<std::string> averages(const std::vector<XrayRow>& rows) {
  std::vector<std::string> texts;
  for (const XrayRow& r : rows) {
    const cpu_device::XrayCounts& c = r.counts;
    const auto average = [&](std::uint64_t sum) {
      return sum % c.requests == 0 ? std::to_string(sum / c.requests) : "a fraction";
    };
    const bool global = r.space == Space::global;
    texts.push_back(to_string(r.space) + std::string(" ") + to_string(r.operation) + " " + r.array + " " +
                    std::to_string(r.bytes) + ": " + average(c.lanes) + " lanes, " +
                    (global ? average(c.sectors) + " sectors, " + average(c.bytes_used) + " bytes"
                            : average(c.wavefronts) + " wavefronts, ideal " + average(c.ideal_wavefronts)));
  }
  return texts;
}

const StepUnderTest step01{"01_naive", step_01_naive};
const StepUnderTest step02{"02_coalescing", step_02_coalescing};

// 64 blocks of 32 warps, each with 128 terms. The table of the design, counted on an H200.
TEST(Step01, ReadsARowToALane) {
  const XrayReport report = report_of(step01, 256, 256, 128, 0);
  const std::vector<XrayRow> rows = traffic_of(step01, 256, 256, 128, 0);
  EXPECT_THAT(averages(rows), ElementsAre("global load A 4: 32 lanes, 32 sectors, 128 bytes",
                                          "global load B 4: 32 lanes, 1 sectors, 4 bytes",
                                          "global store C 4: 32 lanes, 32 sectors, 128 bytes"));
  for (const XrayRow& r : rows) {
    EXPECT_EQ(r.counts.requests, r.array == "C" ? 64u * 32 : 64u * 32 * 128);
    EXPECT_EQ(r.example.execution, 0u);
    EXPECT_EQ(r.example.warp, 0u);
    EXPECT_EQ(r.example.active, ~0u);
    const std::int64_t to_next_lane = r.array == "A" ? 128 * 4 : r.array == "B" ? 0 : 256 * 4;
    for (unsigned lane = 0; lane < 32; ++lane) EXPECT_EQ(r.example.offset[lane], lane * to_next_lane);
  }
  EXPECT_EQ(lines_with(step01, "sum += A["), std::set{place_of(rows[0])});
  EXPECT_EQ(rows[0].source, "sum += A[row * g.lda + k] * B[k * g.ldb + col];");
  ASSERT_EQ(report.kernels.size(), 1u);
  EXPECT_EQ(report.kernels[0].name, "sgemm_naive");
  EXPECT_EQ(report.kernels[0].threads_per_block, 1024u);
  EXPECT_EQ(report.blocks, 64u);
  const cpu_device::XrayCounts totals = report.kernels[0].totals(Space::global);
  EXPECT_EQ(totals.requests, 64u * 32 * (128 + 128 + 1));
  EXPECT_EQ(totals.sectors, 64u * 32 * (128 * 32 + 128 + 32));
  EXPECT_EQ(report.kernels[0].totals(Space::shared).requests, 0u);
}

TEST(Step02, ReadsNeighbours) {
  EXPECT_THAT(averages(traffic_of(step02, 256, 256, 128, 0)),
              ElementsAre("global load A 4: 32 lanes, 1 sectors, 4 bytes",
                          "global load B 4: 32 lanes, 4 sectors, 128 bytes",
                          "global store C 4: 32 lanes, 4 sectors, 128 bytes"));
}

// Rows of 67 + 3 floats begin anywhere in a sector, and the last warp of a row has 67 - 64 lanes.
TEST(Step02, RaggedShape) {
  const std::vector<XrayRow> rows = traffic_of(step02, 131, 67, 35, 3);
  ASSERT_EQ(rows.size(), 3u);
  EXPECT_EQ(rows[1].array, "B");
  EXPECT_EQ(rows[1].counts.requests, 131u * 35 * 3);
  EXPECT_EQ(rows[1].counts.lanes, 131u * 35 * 67);
  EXPECT_EQ(rows[1].counts.bytes_used, 131u * 35 * 67 * 4);
  std::uint64_t sectors = 0;  // a row begins 70 floats behind the one before
  for (unsigned k = 0; k < 35; ++k) {
    for (unsigned col = 0; col < 67; col += 32) {
      const unsigned first = k * 70 + col, last = k * 70 + std::min(col + 31, 66u);
      sectors += last / 8 - first / 8 + 1;
    }
  }
  EXPECT_EQ(rows[1].counts.sectors, 131 * sectors);
}

// Whatever thread runs which block when, and whatever else the machine does.
TEST(Steps, ReportIsTheSameEveryTime) {
  const StepUnderTest step{"04_1d_tiling", step_04_1d_tiling};
  const std::vector<XrayRow> first = traffic_of(step, 200, 130, 40, 0);
  for (int i = 0; i < 5; ++i) {
    const std::vector<XrayRow> again = traffic_of(step, 200, 130, 40, 0);
    ASSERT_EQ(averages(again), averages(first));
    for (std::size_t r = 0; r < first.size(); ++r) {
      EXPECT_EQ(again[r].example.offset, first[r].example.offset);
      EXPECT_EQ(again[r].example.execution, first[r].example.execution);
      EXPECT_EQ(again[r].counts.requests, first[r].counts.requests);
    }
  }
}

const StepUnderTest step06{"06_vectorization", step_06_vectorization};

// The stores of A, one line of the source for each of the four elements, and the fragments of B.
std::set<std::string> conflicts_of_step06() {
  std::set<std::string> places = lines_with(step06, "][a_row + i] = v.");
  EXPECT_EQ(places.size(), 4u);
  places.merge(lines_with(step06, "float4_at(&Bs[k][tx * TN + j])"));
  return places;
}

// 256 x 256 x 64 is 4 blocks of 8 warps and 4 tiles of 16 terms.
TEST(Step06, HasConflictsInTwoPlaces) {
  const std::vector<XrayRow> results = traffic_of(step06, 256, 256, 64, 0);
  EXPECT_EQ(places_with_conflicts(results), conflicts_of_step06());
  std::map<std::string, const XrayRow*> by_place;
  for (const XrayRow& r : results) {
    if (r.space == Space::shared) by_place[place_of(r)] = &r;
  }
  ASSERT_EQ(by_place.size(), 7u);
  const std::uint64_t tiles = 4 * 8 * 4;  // of all warps
  // Each thread stores two rows of A in each tile. Four lanes that copy from one row store to one bank.
  for (const std::string& place : lines_with(step06, "][a_row + i] = v.")) {
    ASSERT_TRUE(by_place.contains(place));
    const XrayRow& r = *by_place[place];
    EXPECT_TRUE(r.operation == Operation::store && r.bytes == 4 && r.array == "As");
    EXPECT_EQ(r.counts.requests, tiles * 2);
    EXPECT_EQ(wavefronts_of(r), takes(r.counts.requests * 4, r.counts.requests));
  }
  // Two float4 of B for each of 16 terms, at a stride of 32 bytes.
  const std::string b = *lines_with(step06, "float4_at(&Bs[k][tx * TN + j])").begin();
  ASSERT_TRUE(by_place.contains(b));
  EXPECT_TRUE(by_place[b]->operation == Operation::load && by_place[b]->bytes == 16);
  EXPECT_EQ(by_place[b]->array, "Bs");
  EXPECT_EQ(by_place[b]->counts.requests, tiles * 16 * 2);
  EXPECT_EQ(wavefronts_of(*by_place[b]), takes(tiles * 16 * 2 * 8, tiles * 16 * 2 * 4));
  // Of A likewise, but a warp wants two addresses only.
  const std::string a = *lines_with(step06, "float4_at(&As[k][ty * TM + i])").begin();
  ASSERT_TRUE(by_place.contains(a));
  EXPECT_TRUE(by_place[a]->operation == Operation::load && by_place[a]->bytes == 16);
  EXPECT_EQ(by_place[a]->array, "As");
  EXPECT_EQ(by_place[a]->counts.requests, tiles * 16 * 2);
  EXPECT_EQ(wavefronts_of(*by_place[a]), takes(tiles * 16 * 2 * 2, tiles * 16 * 2 * 2));
}

TEST(Step06, RaggedShape) {
  EXPECT_EQ(places_with_conflicts(traffic_of(step06, 131, 67, 35, 3)), conflicts_of_step06());
}

class LaterStep : public testing::TestWithParam<StepUnderTest> {};
INSTANTIATE_TEST_SUITE_P(, LaterStep,
                         testing::Values(StepUnderTest{"07_bank_conflicts", step_07_bank_conflicts},
                                         StepUnderTest{"08_warp_tiling", step_08_warp_tiling},
                                         StepUnderTest{"09_async_copy", step_09_async_copy},
                                         StepUnderTest{"10_prefetch", step_10_prefetch}),
                         [](const auto& info) { return "Step" + info.param.name; });

TEST_P(LaterStep, HasNoConflicts) {
  const std::vector<XrayRow> results = traffic_of(GetParam(), 256, 256, 64, 0);
  EXPECT_THAT(places_with_conflicts(results), IsEmpty());
  bool fragments = false;
  for (const XrayRow& r : results) {
    fragments = fragments || (r.space == Space::shared && r.operation == Operation::load && r.bytes == 16);
  }
  EXPECT_TRUE(fragments) << "no loads of 16 bytes were seen";
}

// Every access of the later steps, for a request on average: see the comments in their kernels.
TEST(Step09, CopiesPastTheRegisters) {
  const StepUnderTest step{"09_async_copy", step_09_async_copy};
  std::vector<std::string> texts = averages(traffic_of(step, 256, 256, 128, 0));
  EXPECT_THAT(texts, testing::UnorderedElementsAre("global copy A 4: 32 lanes, 4 sectors, 128 bytes",
                                                   "shared copy As 4: 32 lanes, 4 wavefronts, ideal 1",
                                                   "global copy B 16: 32 lanes, 16 sectors, 512 bytes",
                                                   "shared copy Bs 16: 32 lanes, 4 wavefronts, ideal 4",
                                                   "shared load As 16: 32 lanes, 2 wavefronts, ideal 2",
                                                   "shared load Bs 16: 32 lanes, 4 wavefronts, ideal 4",
                                                   "global store C 16: 32 lanes, 16 sectors, 512 bytes"));
}

// 8 tiles: while all but the last are computed, copies are under way.
TEST(Step09, LoadsDuringCopies) {
  const StepUnderTest step{"09_async_copy", step_09_async_copy};
  int loads = 0;
  for (const XrayRow& r : traffic_of(step, 256, 256, 128, 0)) {
    const bool load = r.space == Space::shared && r.operation == Operation::load;
    EXPECT_EQ(r.counts.lanes_during_copies, load ? r.counts.lanes / 8 * 7 : 0u) << place_of(r);
    loads += load;
  }
  EXPECT_GT(loads, 0);
}

TEST(Step10, NamesItsDynamicSharedMemory) {
  const StepUnderTest step{"10_prefetch", step_10_prefetch};
  std::map<std::string, std::set<std::string>> operations;  // by array
  for (const XrayRow& r : traffic_of(step, 256, 256, 128, 0)) {
    if (r.space == Space::shared) operations[r.array].insert(to_string(r.operation));
    if (r.array == "Tiles::B" && r.operation == Operation::copy) {
      for (unsigned lane = 0; lane < 32; ++lane) EXPECT_EQ(r.example.offset[lane], lane * 16);
    }
  }
  const std::set<std::string> both{"copy", "load"};
  EXPECT_THAT(operations, ElementsAre(std::pair{std::string("Tiles::A"), both},
                                      std::pair{std::string("Tiles::B"), both}));
}

// Where rows are not aligned, steps 09 and 10 copy B by single elements: four for each lane, so that the
// lanes of a warp are 16 bytes apart.
TEST_P(LaterStep, RaggedShape) {
  const std::vector<XrayRow> results = traffic_of(GetParam(), 131, 67, 35, 3);
  const bool copies_asynchronously = GetParam().name >= "09";
  EXPECT_EQ(places_with_conflicts(results), copies_asynchronously
                                                ? lines_with(GetParam(), "async_copy<4>(shared + j, ")
                                                : std::set<std::string>{});
}

#endif

}  // namespace
