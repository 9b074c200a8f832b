// The X-ray of the steps, against what they say of themselves: 02 reads B in whole sectors, 06 has bank
// conflicts in two places, the later ones have none; 08 to 11 read their fragments of B in half the
// wavefronts.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <map>
#include <ostream>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "common/cpu_device/xray.hpp"
#include "common/gemm.hpp"
#include "common/harness/entry.hpp"
#include "tests/unit/device_buffer.hpp"
#include "tests/unit/wavefronts.hpp"

extern const harness::Entry step_01_naive, step_02_coalescing, step_03_shared_memory, step_04_1d_tiling,
    step_05_2d_tiling, step_06_vectorization, step_07_bank_conflicts, step_08_warp_tiling, step_09_async_copy,
    step_10_prefetch, step_11_operand_banks, step_12_larger_tiles;

namespace {

using cpu_device::Operation;
using cpu_device::Space;
using cpu_device::Wavefronts;
using cpu_device::Xray;
using cpu_device::XrayReport;
using cpu_device::XrayRow;
using testing::ElementsAre;
using testing::IsEmpty;

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
  std::set<std::string> places = lines_with(step06, "][a_row] = a4.");
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
  // Each thread stores two float4 of A in each tile. Two lanes that copy from one row store to one bank.
  for (const std::string& place : lines_with(step06, "][a_row] = a4.")) {
    ASSERT_TRUE(by_place.contains(place));
    const XrayRow& r = *by_place[place];
    EXPECT_TRUE(r.operation == Operation::store && r.bytes == 4 && r.array == "As");
    EXPECT_EQ(r.counts.requests, tiles * 2);
    EXPECT_EQ(wavefronts_of(r), takes(r.counts.requests * 2, r.counts.requests));
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
                                         StepUnderTest{"10_prefetch", step_10_prefetch},
                                         StepUnderTest{"11_operand_banks", step_11_operand_banks},
                                         StepUnderTest{"12_larger_tiles", step_12_larger_tiles}),
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

// A load of a fragment of A takes two wavefronts. One of B takes two in the steps from 08 to 11, whose lanes
// are numbered such that the hardware joins quarters of it; in steps 07 and 12 lanes lie row by row, and it
// takes four.
TEST_P(LaterStep, WavefrontsOfFragments) {
  const bool in_pairs = GetParam().name >= "08" && GetParam().name < "12";
  std::set<std::string> arrays;
  for (const XrayRow& r : traffic_of(GetParam(), 256, 256, 64, 0)) {
    if (r.space != Space::shared || r.operation != Operation::load) continue;
    arrays.insert(r.array);
    const std::uint64_t for_a_request = r.array.find('B') == r.array.npos || in_pairs ? 2 : 4;
    EXPECT_EQ(wavefronts_of(r), takes(r.counts.requests * for_a_request, r.counts.requests * for_a_request))
        << place_of(r);
  }
  EXPECT_EQ(arrays.size(), 2u);
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
                                                   "shared load Bs 16: 32 lanes, 2 wavefronts, ideal 2",
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

// load4_now() stands in common/, loads in a way of its own on a GPU, and counts for the line that calls it.
TEST(Step12, LoadsItsFragmentsWhereTheyAreWritten) {
  const StepUnderTest step{"12_larger_tiles", step_12_larger_tiles};
  std::map<std::string, std::string> arrays;  // by place
  for (const XrayRow& r : traffic_of(step, 256, 256, 128, 0)) {
    if (r.space != Space::shared || r.operation != Operation::load) continue;
    EXPECT_EQ(r.bytes, 16u) << place_of(r);
    EXPECT_EQ(r.counts.lanes, r.counts.requests * 32) << place_of(r);
    EXPECT_TRUE(arrays.emplace(place_of(r), r.array).second) << place_of(r);
  }
  std::map<std::string, std::string> expected;
  for (const std::string array : {"A", "B"}) {
    for (const std::string& place : lines_with(step, "= load4_now(&" + array + "s[")) {
      expected[place] = "Tiles::" + array;
    }
  }
  EXPECT_EQ(expected.size(), 2u);
  EXPECT_EQ(arrays, expected);
}

TEST(Step12, NamesItsDynamicSharedMemory) {
  const StepUnderTest step{"12_larger_tiles", step_12_larger_tiles};
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

// Where rows are not aligned, the steps from 09 on copy B by single elements: four for each lane, so that the
// lanes of a warp are 16 bytes apart. From 10 on copy4() stands in common/, and counts for the line that
// calls it.
TEST_P(LaterStep, RaggedShape) {
  const std::vector<XrayRow> results = traffic_of(GetParam(), 131, 67, 35, 3);
  std::set<std::string> places;
  if (GetParam().name >= "09") {
    places =
        lines_with(GetParam(), GetParam().name < "10" ? "async_copy<4>(shared + j, " : "copy4<ALIGNED>(&Bs[");
  }
  EXPECT_EQ(places_with_conflicts(results), places);
}

}  // namespace
