// The X-ray's model of the memories, against what Nsight Compute counted on an H200.

#include "common/cpu_device/warp_request.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <functional>
#include <ostream>
#include <string>
#include <vector>

namespace cpu_device {
void PrintTo(const Wavefronts& w, std::ostream* out) {
  *out << w.wavefronts << " wavefronts, ideal " << w.ideal;
}
}  // namespace cpu_device

namespace {

using cpu_device::WarpRequest;
using cpu_device::Wavefronts;
using testing::ElementsAre;
using testing::IsEmpty;

Wavefronts takes(std::uint64_t wavefronts, std::uint64_t ideal) { return {wavefronts, ideal}; }

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

// Of an ldmatrix of so many matrices, whose lanes give rows at float number element(lane).
Wavefronts of_matrices(int count, const std::function<unsigned(unsigned)>& element) {
  WarpRequest request;
  request.active = count == 4 ? ~0u : (1u << 8 * count) - 1;
  for (unsigned lane = 0; lane < 32; ++lane) request.addresses[lane] = 4 * element(lane);
  return cpu_device::matrix_wavefronts(request);
}

TEST(Matrices, RowsOfATileByTheirPitch) {
  // Rows of 32 floats: all eight of a matrix begin in one bank. Four more floats, or four fewer, and none do.
  for (const int count : {1, 2, 4}) {
    const auto matrices = static_cast<std::uint64_t>(count);
    EXPECT_EQ(of_matrices(count, [](unsigned lane) { return lane * 32; }), takes(8 * matrices, matrices));
    EXPECT_EQ(of_matrices(count, [](unsigned lane) { return lane * 36; }), takes(matrices, matrices));
    EXPECT_EQ(of_matrices(count, [](unsigned lane) { return lane * 28; }), takes(matrices, matrices));
    EXPECT_EQ(of_matrices(count, [](unsigned lane) { return lane * 16; }), takes(4 * matrices, matrices));
    EXPECT_EQ(of_matrices(count, [](unsigned lane) { return lane * 8; }), takes(2 * matrices, matrices));
  }
}

TEST(Matrices, RowsSwizzled) {  // group g of four floats of row r stands at g ^ r % 8
  EXPECT_EQ(of_matrices(4, [](unsigned lane) { return lane % 8 * 32 + (lane / 8 ^ lane % 8) * 4; }),
            takes(4, 4));
}

// Unlike lanes with 16 bytes each, of which two parts may become one: no two matrices do.
TEST(Matrices, OfOneRow) {
  EXPECT_EQ(of_matrices(4, [](unsigned) { return 0u; }), takes(4, 4));
}

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

// ---- The parts that are served at once --------------------------------------------------------------------

// "lanes 0 to 7, bytes 0 to 15: 2" of each part; the number is its wavefronts.
std::vector<std::string> parts_of(unsigned bytes, const std::function<unsigned(unsigned)>& element,
                                  std::uint32_t active = ~0u) {
  WarpRequest request{active, {}};
  for (unsigned lane = 0; lane < 32; ++lane) request.addresses[lane] = 4 * element(lane);
  std::vector<std::string> texts;
  std::uint64_t wavefronts = 0;
  for (const cpu_device::Part& part : cpu_device::parts(request, bytes)) {
    texts.push_back(fmt::format("lanes {} to {}, bytes {} to {}: {}", part.first_lane, part.last_lane,
                                part.first_byte, part.last_byte, part.wavefronts()));
    wavefronts += part.wavefronts();
  }
  EXPECT_EQ(cpu_device::wavefronts(request, bytes), takes(wavefronts, texts.size()));
  return texts;
}

TEST(Parts, ByWidth) {
  EXPECT_THAT(parts_of(4, [](unsigned lane) { return lane * 2; }),
              ElementsAre("lanes 0 to 31, bytes 0 to 3: 2"));
  EXPECT_THAT(parts_of(8, [](unsigned lane) { return lane * 4; }),
              ElementsAre("lanes 0 to 15, bytes 0 to 7: 2", "lanes 16 to 31, bytes 0 to 7: 2"));
  EXPECT_THAT(parts_of(8, [](unsigned lane) { return lane / 2 * 4; }),
              ElementsAre("lanes 0 to 31, bytes 0 to 7: 2"));
  EXPECT_THAT(parts_of(16, [](unsigned lane) { return lane < 8 ? lane * 8 : lane * 4; }),
              ElementsAre("lanes 0 to 7, bytes 0 to 15: 2", "lanes 8 to 15, bytes 0 to 15: 1",
                          "lanes 16 to 23, bytes 0 to 15: 1", "lanes 24 to 31, bytes 0 to 15: 1"));
  EXPECT_THAT(parts_of(16, [](unsigned lane) { return lane / 4 * 4; }),
              ElementsAre("lanes 0 to 15, bytes 0 to 15: 1", "lanes 16 to 31, bytes 0 to 15: 1"));
  EXPECT_THAT(parts_of(6, [](unsigned lane) { return lane * 2; }),
              ElementsAre("lanes 0 to 31, bytes 0 to 3: 2", "lanes 0 to 31, bytes 4 to 5: 2"));
}

TEST(Parts, WithoutALaneAreNone) {
  EXPECT_THAT(parts_of(
                  16, [](unsigned lane) { return lane * 4; }, 0x00ff0001),
              ElementsAre("lanes 0 to 7, bytes 0 to 15: 1", "lanes 16 to 23, bytes 0 to 15: 1"));
  EXPECT_THAT(parts_of(16, [](unsigned lane) { return lane * 4; }, 0), IsEmpty());
}

TEST(Parts, CountTheWordsOfEachBank) {
  WarpRequest request{0x7, {0, 3 * 128 + 4, 8}};
  const std::vector<cpu_device::Part> parts = cpu_device::parts(request, 8);
  ASSERT_EQ(parts.size(), 1u);
  std::array<unsigned, 32> expected{};
  expected[0] = 1, expected[1] = 2, expected[2] = 2, expected[3] = 1;
  EXPECT_EQ(parts[0].words, expected);
}

TEST(Parts, SectorsByAddress) {
  WarpRequest request{0x7, {100, 40, 56}};
  EXPECT_THAT(cpu_device::sector_addresses(request, 16), ElementsAre(32u, 64u, 96u));
  EXPECT_EQ(cpu_device::sectors(request, 16), 3u);
}

// A bulk copy has no lanes: as many wavefronts as it touches lines of 128 bytes.
TEST(Parts, OfABulkCopy) {
  EXPECT_EQ(cpu_device::bulk_wavefronts({0, 1, 128, 0}), takes(1, 1));
  EXPECT_EQ(cpu_device::bulk_wavefronts({16, 1, 128, 0}), takes(2, 2));
  EXPECT_EQ(cpu_device::bulk_wavefronts({1024, 1, 8192, 0}), takes(64, 64));
  EXPECT_EQ(cpu_device::bulk_wavefronts({112, 1, 16, 0}), takes(1, 1));
}

// Rows of a box: a line of 128 bytes counts for each row that touches it, a sector or a byte only once.
TEST(Parts, OfRows) {
  const auto counts = [](const cpu_device::MemoryRows& rows) {
    return std::vector<std::uint64_t>{cpu_device::bulk_wavefronts(rows).wavefronts, cpu_device::sectors(rows),
                                      cpu_device::distinct_bytes(rows)};
  };
  EXPECT_THAT(counts({4096, 8, 128, 1024}), ElementsAre(8, 32, 1024));
  EXPECT_THAT(counts({4096 + 16, 8, 128, 1024}), ElementsAre(16, 40, 1024));  // across lines and sectors
  EXPECT_THAT(counts({4096, 4, 16, 16}), ElementsAre(4, 2, 64));              // two rows in a sector
  EXPECT_THAT(counts({4096, 3, 48, 64}), ElementsAre(3, 6, 144));
  EXPECT_THAT(counts({4096, 3, 48, 48}), ElementsAre(4, 5, 144));
  EXPECT_THAT(counts({4096, 5, 64, 0}), ElementsAre(5, 2, 64));  // all rows are one
  EXPECT_THAT(counts({4096, 1, 4096, 0}), ElementsAre(32, 128, 4096));
}

}  // namespace
