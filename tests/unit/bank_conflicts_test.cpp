// Bank conflicts on the CPU device: the model against what Nsight Compute counted on an H200, and the steps
// against what they say of themselves: step 06 has conflicts in two places, the later ones none.

#include "common/cpu_device/bank_conflicts.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <functional>
#include <iostream>
#include <map>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "common/gemm.hpp"
#include "tests/unit/device_buffer.hpp"

#ifdef HAVE_OBSERVED
void step_06_vectorization(const Gemm& gemm);
void step_07_bank_conflicts(const Gemm& gemm);
void step_08_warp_tiling(const Gemm& gemm);
void step_09_async_copy(const Gemm& gemm);
void step_10_prefetch(const Gemm& gemm);
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
using cpu_device::BankConflicts;
using cpu_device::SharedTraffic;
using cpu_device::Space;
using cpu_device::Wavefronts;
using testing::ElementsAre;
using testing::IsEmpty;

// ---- One request ------------------------------------------------------------------------------------------

// What a warp takes whose lanes access `bytes` bytes each at float number element(lane). In the shared memory
// of a block, whose first byte need not be in bank 0.
Wavefronts of_warp(unsigned bytes, const std::function<unsigned(unsigned)>& element,
                   std::uint32_t active = ~0u) {
  Wavefronts result;
  for (const unsigned base : {0u, 16u, 112u}) {
    cpu_device::SharedRequest request;
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

// ---- Requests out of accesses -----------------------------------------------------------------------------

// Places need not exist: unknown ones stay apart.
const char code[8] = {};
constexpr auto nowhere = [](unsigned i) -> const void* { return code + i; };

Access access(unsigned place, std::uint64_t block, unsigned thread, unsigned element, bool write = false,
              unsigned bytes = 4, Space space = Space::shared) {
  return {nowhere(place), element * std::uintptr_t{4}, bytes, space, write, block, thread};
}

// "requests wavefronts ideal" of each kind.
std::vector<std::string> counts(BankConflicts& conflicts) {
  std::vector<std::string> texts;
  for (const SharedTraffic& r : conflicts.results()) {
    texts.push_back((r.write ? "write " : "read ") + std::to_string(r.bytes) + ": " +
                    std::to_string(r.requests) + " " + std::to_string(r.sum.wavefronts) + " " +
                    std::to_string(r.sum.ideal));
  }
  return texts;
}

TEST(Grouping, LanesRunOneAfterAnother) {  // as fibers do, up to a barrier: the n-th accesses belong together
  BankConflicts conflicts;
  for (unsigned lane = 0; lane < 32; ++lane) {
    for (unsigned n = 0; n < 3; ++n) conflicts.on_access(access(0, 0, lane, lane * (n == 1 ? 2 : 1)));
  }
  EXPECT_THAT(counts(conflicts), ElementsAre("read 4: 3 4 3"));
}

TEST(Grouping, WarpsBlocksPlacesAndKindsAreApart) {
  BankConflicts conflicts;
  for (unsigned thread = 0; thread < 64; ++thread) {
    conflicts.on_access(access(0, 5, thread, thread / 32 * 32 + thread % 32 * 2));
    conflicts.on_access(access(0, 5, thread, thread, true));  // one instruction copies shared to shared
    conflicts.on_access(access(1, 5, thread, thread, false));
    conflicts.on_access(access(1, 5, thread, thread * 4, false, 16));
    conflicts.on_access(access(1, 5, thread, thread * 32, false, 4, Space::global));
  }
  for (unsigned thread = 0; thread < 64; ++thread) conflicts.on_access(access(0, 6, thread, thread));
  EXPECT_THAT(counts(conflicts),
              ElementsAre("read 4: 4 6 4", "write 4: 2 2 2", "read 4: 2 2 2", "read 16: 2 8 8"));
}

TEST(Grouping, MissingLanes) {
  BankConflicts conflicts;
  const auto half_a_warp = [&](std::uint64_t block) {
    for (unsigned lane = 0; lane < 16; ++lane) {
      for (unsigned n = 0; n < 10; ++n) conflicts.on_access(access(0, block, lane, lane * 4));
    }
  };
  half_a_warp(0);
  half_a_warp(7);  // ends block 0
  EXPECT_THAT(counts(conflicts), ElementsAre("read 4: 20 40 20"));
  half_a_warp(7);  // of another launch
  EXPECT_THAT(counts(conflicts), ElementsAre("read 4: 30 60 30"));
  EXPECT_THAT(counts(conflicts), ElementsAre("read 4: 30 60 30"));  // asking changes nothing
}

TEST(Grouping, OneLaneOftenerThanTheOthers) {
  BankConflicts conflicts;
  for (unsigned lane = 0; lane < 32; ++lane) {
    for (unsigned n = 0; n <= lane % 4; ++n) conflicts.on_access(access(0, 0, lane, lane * 2));
  }
  // 32 lanes want two words of each even bank, then 24 do, then 16, then 8.
  EXPECT_THAT(counts(conflicts), ElementsAre("read 4: 4 8 4"));
}

TEST(Grouping, EachListenerForItself) {
  BankConflicts one, two;
  for (unsigned lane = 0; lane < 32; ++lane) {
    one.on_access(access(0, 0, lane, lane));
    two.on_access(access(0, 0, lane, 2 * lane));
  }
  EXPECT_THAT(counts(one), ElementsAre("read 4: 1 1 1"));
  EXPECT_THAT(counts(two), ElementsAre("read 4: 1 2 1"));
  BankConflicts none;
  EXPECT_THAT(counts(none), IsEmpty());
}

TEST(Grouping, SeveralOsThreads) {
  BankConflicts conflicts;
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (std::uint64_t block = t; block < 400; block += 4) {
        for (unsigned thread = 0; thread < 80; ++thread) {  // the third warp is half a warp
          for (unsigned n = 0; n < 5; ++n) conflicts.on_access(access(0, block, thread, thread * 2));
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(counts(conflicts), ElementsAre("read 4: 6000 10000 6000"));
}

// ---- The steps --------------------------------------------------------------------------------------------

#ifdef HAVE_OBSERVED

struct StepUnderTest {
  std::string name;
  void (*run)(const Gemm&);
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

std::string place_of(const SharedTraffic& r) { return r.place.file + ":" + std::to_string(r.place.line); }

// Runs the step with every access observed, prints the table and returns it.
std::vector<SharedTraffic> traffic_of(const StepUnderTest& step, int M, int N, int K, int padding) {
  const std::int64_t lda = K + padding, ldb = N + padding, ldc = N + padding;
  DeviceBuffer A(M * lda), B(K * ldb), C(M * ldc);
  for (DeviceBuffer* x : {&A, &B, &C}) std::fill_n(x->data(), x->size(), 1.0f);
  BankConflicts conflicts;
  cpu_device::set_checking(true);
  cpu_device::set_listener(&conflicts);
  step.run({M, N, K, 1, 1.0f, A.data(), lda, M * lda, B.data(), ldb, K * ldb, 0.0f, C.data(), ldc, M * ldc});
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
  const std::vector<SharedTraffic> results = conflicts.results();
  std::cout << step.name << ", M=" << M << " N=" << N << " K=" << K << ":\n" << to_table(results);
  EXPECT_FALSE(results.empty());
  for (const SharedTraffic& r : results) {
    EXPECT_GT(r.place.line, 0);
    EXPECT_TRUE(r.place.file.starts_with("steps/" + step.name + "/")) << place_of(r);
    EXPECT_GE(r.sum.wavefronts, r.sum.ideal) << place_of(r);
    EXPECT_GE(r.sum.ideal, r.requests) << place_of(r);
  }
  return results;
}

std::set<std::string> places_with_conflicts(const std::vector<SharedTraffic>& results) {
  std::set<std::string> places;
  for (const SharedTraffic& r : results) {
    if (r.sum.wavefronts != r.sum.ideal) places.insert(place_of(r));
  }
  return places;
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
  const std::vector<SharedTraffic> results = traffic_of(step06, 256, 256, 64, 0);
  EXPECT_EQ(places_with_conflicts(results), conflicts_of_step06());
  std::map<std::string, const SharedTraffic*> by_place;
  for (const SharedTraffic& r : results) by_place[place_of(r)] = &r;
  ASSERT_EQ(by_place.size(), 7u);
  const std::uint64_t tiles = 4 * 8 * 4;  // of all warps
  // Each thread stores two rows of A in each tile. Four lanes that copy from one row store to one bank.
  for (const std::string& place : lines_with(step06, "][a_row + i] = v.")) {
    ASSERT_TRUE(by_place.contains(place));
    const SharedTraffic& r = *by_place[place];
    EXPECT_TRUE(r.write && r.bytes == 4);
    EXPECT_EQ(r.requests, tiles * 2);
    EXPECT_EQ(r.sum, takes(r.requests * 4, r.requests));
  }
  // Two float4 of B for each of 16 terms, at a stride of 32 bytes.
  const std::string b = *lines_with(step06, "float4_at(&Bs[k][tx * TN + j])").begin();
  ASSERT_TRUE(by_place.contains(b));
  EXPECT_TRUE(!by_place[b]->write && by_place[b]->bytes == 16);
  EXPECT_EQ(by_place[b]->requests, tiles * 16 * 2);
  EXPECT_EQ(by_place[b]->sum, takes(by_place[b]->requests * 8, by_place[b]->requests * 4));
  // Of A likewise, but a warp wants two addresses only.
  const std::string a = *lines_with(step06, "float4_at(&As[k][ty * TM + i])").begin();
  ASSERT_TRUE(by_place.contains(a));
  EXPECT_TRUE(!by_place[a]->write && by_place[a]->bytes == 16);
  EXPECT_EQ(by_place[a]->requests, tiles * 16 * 2);
  EXPECT_EQ(by_place[a]->sum, takes(by_place[a]->requests * 2, by_place[a]->requests * 2));
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
  const std::vector<SharedTraffic> results = traffic_of(GetParam(), 256, 256, 64, 0);
  EXPECT_THAT(places_with_conflicts(results), IsEmpty());
  bool fragments = false;
  for (const SharedTraffic& r : results) fragments = fragments || (!r.write && r.bytes == 16);
  EXPECT_TRUE(fragments) << "no loads of 16 bytes were seen";
}

// Where rows are not aligned, steps 09 and 10 copy B by single elements: four for each lane, so that the
// lanes of a warp are 16 bytes apart.
TEST_P(LaterStep, RaggedShape) {
  const std::vector<SharedTraffic> results = traffic_of(GetParam(), 131, 67, 35, 3);
  const bool copies_asynchronously = GetParam().name >= "09";
  EXPECT_EQ(places_with_conflicts(results), copies_asynchronously
                                                ? lines_with(GetParam(), "async_copy<4>(shared + j, ")
                                                : std::set<std::string>{});
}

#endif

}  // namespace
