// Requests that the device knows as such count in the X-ray like those that it puts together from lanes.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "common/cpu_device/xray.hpp"
#include "tests/unit/xray_rows.hpp"

namespace {

using cpu_device::Operation;
using cpu_device::Space;
using cpu_device::Xray;
using cpu_device::XrayRow;
using testing::ElementsAre;
using xray_test::access;
using xray_test::counts;
using xray_test::nowhere;
using xray_test::rows;

cpu_device::CollectiveRequest request(unsigned place, std::uint64_t block, unsigned warp, unsigned bytes,
                                      unsigned stride, std::uint32_t active = ~0u,
                                      Space space = Space::shared, Operation operation = Operation::load) {
  cpu_device::CollectiveRequest request{nowhere(place), space, operation, bytes, block, warp, active, {}};
  for (unsigned lane = 0; lane < 32; ++lane) request.addresses[lane] = lane * stride * std::uintptr_t{4};
  return request;
}

void by_lanes(Xray& xray, const cpu_device::CollectiveRequest& request) {
  for (unsigned lane = 0; lane < 32; ++lane) {
    if ((request.active >> lane & 1) == 0) continue;
    xray.on_access({request.pc, request.addresses[lane], request.bytes, request.space,
                    request.operation == Operation::store, request.block, request.warp * 32 + lane});
  }
}

// Everything that a row says.
std::vector<std::string> texts(Xray& xray) {
  std::vector<std::string> all;
  for (const XrayRow& row : rows(xray)) {
    const cpu_device::XrayCounts& c = row.counts;
    std::string text = to_string(row.space) + std::string(" ") + to_string(row.operation) + " " +
                       std::to_string(row.bytes) + ":";
    for (const std::uint64_t number :
         {c.requests, c.lanes, c.sectors, c.bytes_used, c.wavefronts, c.ideal_wavefronts, c.conflicts,
          std::uint64_t{row.example.block.x}, std::uint64_t{row.example.warp}, row.example.execution,
          std::uint64_t{row.example.active}}) {
      text += ' ' + std::to_string(number);
    }
    for (const std::int64_t offset : row.example.offset) text += ' ' + std::to_string(offset);
    all.push_back(text);
  }
  return all;
}

// Each matrix of an ldmatrix is served separately; lanes that give no row do not count.
TEST(Requests, OfMatrices) {
  Xray xray;
  xray.on_request(request(0, 0, 0, 16, 0, ~0u, Space::shared, Operation::matrix));
  xray.on_request(request(0, 0, 1, 16, 36, 0xffff, Space::shared, Operation::matrix));
  EXPECT_THAT(counts(xray), ElementsAre("shared ldmatrix 16: 2 6 6"));
  EXPECT_EQ(rows(xray)[0].counts.lanes, 48u);
  EXPECT_EQ(rows(xray)[0].counts.conflicts, 0u);
}

// Counted as the same request put together from lanes: as LDS.128 where a lane has 16 bytes.
TEST(Requests, AreCountedAsThoseOfLanes) {
  Xray known, from_lanes;
  for (Xray* xray : {&known, &from_lanes}) xray->on_launch({nullptr, dim3(9), dim3(64)});
  unsigned place = 0;
  for (const Space space : {Space::shared, Space::global}) {
    for (const Operation operation : {Operation::load, Operation::store}) {
      for (const auto& [bytes, stride] :
           {std::pair{4u, 1u}, {4u, 2u}, {4u, 32u}, {8u, 4u}, {16u, 4u}, {16u, 8u}, {16u, 32u}, {16u, 0u}}) {
        for (const std::uint32_t active : {~0u, 0xffu, 0x10204081u}) {
          const auto r = request(place % 8, 5, 1, bytes, stride, active, space, operation);
          known.on_request(r);
          by_lanes(from_lanes, r);
          from_lanes.on_warp_end(5, 1);  // no lane is missing any more
          ++place;
        }
      }
    }
  }
  EXPECT_GE(texts(known).size(), 12u);
  EXPECT_EQ(texts(known), texts(from_lanes));
}

// Between lanes of the same and of other instructions, in one warp and in several.
TEST(Requests, AmongThoseOfLanes) {
  Xray xray;
  xray.on_launch({nullptr, dim3(9), dim3(64)});
  for (unsigned lane = 0; lane < 16; ++lane) xray.on_access(access(0, 3, lane, lane));  // half a request
  for (unsigned lane = 0; lane < 20; ++lane) xray.on_access(access(1, 3, lane, lane));
  xray.on_request(request(1, 3, 0, 4, 2, 0x3fffff));
  for (unsigned lane = 16; lane < 32; ++lane) xray.on_access(access(0, 3, lane, lane));  // the other half
  for (unsigned lane = 0; lane < 24; ++lane) xray.on_access(access(1, 3, lane, lane));
  xray.on_request(request(1, 3, 1, 4, 1));  // the other warp's
  const std::vector<XrayRow> all = rows(xray);
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0].counts.requests, 1u);
  EXPECT_EQ(all[0].counts.lanes, 32u);
  EXPECT_EQ(all[1].counts.requests, 4u);
  EXPECT_EQ(all[1].counts.lanes, 20u + 22 + 24 + 32);
  EXPECT_EQ(all[1].counts.wavefronts, 1u + 2 + 1 + 1);
  EXPECT_EQ(all[1].example.warp, 1u);
  EXPECT_EQ(all[1].example.execution, 0u);
}

// The n-th of an instruction in its warp and block, whether it came as one or by lanes.
TEST(Requests, CountTheirExecutions) {
  for (unsigned fullest = 0; fullest < 6; ++fullest) {
    Xray xray;
    xray.on_launch({nullptr, dim3(9), dim3(64)});
    xray.on_request(request(0, 2, 0, 16, 4, 1));
    xray.on_block_end(2);
    for (unsigned n = 0; n < 6; ++n) {
      const std::uint32_t active = n == fullest ? 0xff : 0xf;
      if (n % 2 == 0) {
        xray.on_request(request(0, 3, 0, 16, 4, active));
      } else {
        by_lanes(xray, request(0, 3, 0, 16, 4, active));
      }
    }
    xray.on_block_end(3);
    const std::vector<XrayRow> one = rows(xray);
    ASSERT_EQ(one.size(), 1u);
    EXPECT_EQ(one[0].counts.requests, 7u);
    EXPECT_EQ(one[0].example.execution, fullest);
    EXPECT_EQ(one[0].example.block.x, 3u);
  }
}

TEST(Requests, DuringCopies) {
  Xray xray;
  auto load = request(0, 0, 0, 16, 4);
  load.during_copies = 0xf;
  xray.on_request(load);
  load.operation = Operation::copy;
  xray.on_request(load);
  const std::vector<XrayRow> both = rows(xray);
  ASSERT_EQ(both.size(), 2u);
  EXPECT_EQ(both[0].counts.lanes_during_copies, 4u);
  EXPECT_EQ(both[1].counts.lanes_during_copies, 0u);
}

// What it reads and what it writes come one after the other.
TEST(Requests, BulkCopies) {
  Xray xray;
  cpu_device::CollectiveRequest bulk = request(0, 4, 2, 4096, 0, 0, Space::global, Operation::copy);
  bulk.addresses[0] = 0x10010;  // not at a sector's beginning
  xray.on_launch({nullptr, dim3(9), dim3(128)});
  for (int i = 0; i < 3; ++i) xray.on_request(bulk);
  bulk.space = Space::shared;
  bulk.addresses[0] = 2048;
  for (int i = 0; i < 3; ++i) xray.on_request(bulk);
  EXPECT_THAT(counts(xray), ElementsAre("global copy 4096: 3 387 12288", "shared copy 4096: 3 96 96"));
  const std::vector<XrayRow> both = rows(xray);
  EXPECT_EQ(both[0].counts.lanes, 0u);
  EXPECT_EQ(both[1].counts.conflicts, 0u);
  EXPECT_EQ(both[1].example.active, 0u);
  EXPECT_EQ(both[1].example.warp, 2u);
}

// Boxes at the edge of a matrix read less, and stand in the same row as the others.
TEST(Requests, Boxes) {
  Xray xray;
  cpu_device::CollectiveRequest box = request(0, 0, 0, 4096, 0, 0, Space::global, Operation::copy);
  box.addresses[0] = 0x10000;
  xray.on_launch({nullptr, dim3(1), dim3(128)});
  for (const unsigned rows : {32u, 32u, 5u}) {
    box.rows = {rows, 128, 1024};
    xray.on_request(box);
  }
  box.rows = {};
  box.space = Space::shared;
  for (int i = 0; i < 3; ++i) xray.on_request(box);
  EXPECT_THAT(counts(xray), ElementsAre("global copy 4096: 3 276 8832", "shared copy 4096: 3 96 96"));
  EXPECT_EQ(rows(xray)[0].counts.wavefronts, 69u);
}

}  // namespace
