// What is observed of a kernel's accesses.

#include <numeric>
#include <set>
#include <utility>

#include "tests/unit/cpu_check.hpp"

namespace {

TEST_F(Observe, ScalarLoadAndStore) {
  run(kernels.copy_float, dim3(2), dim3(48), 0);
  EXPECT_THAT(recorder.counts(), ElementsAre(here("load") + " read 4 bytes of global memory x 96",
                                             here("store") + " write 4 bytes of global memory x 96"));
  std::set<std::pair<std::uint64_t, std::uint32_t>> loads;  // each thread has one
  for (const Access& access : recorder.accesses()) {
    const std::uint64_t element = access.block * 48 + access.thread;
    EXPECT_EQ(access.address,
              reinterpret_cast<std::uintptr_t>((access.write ? y.data() : x.data()) + element));
    if (!access.write) loads.emplace(access.block, access.thread);
  }
  EXPECT_EQ(loads.size(), 96u);
}

TEST_F(Observe, ThreadsAreNumberedXFirst) {
  run(kernels.write_at, dim3(3, 2), dim3(4, 3, 2), 0);
  ASSERT_EQ(recorder.accesses().size(), 1u);
  EXPECT_EQ(recorder.accesses()[0].block, 5u);
  EXPECT_EQ(recorder.accesses()[0].thread, 23u);
}

TEST_F(Observe, Float4IsOneAccess) {
  run(kernels.sum_float4, dim3(1), dim3(32), 0);
  const std::vector<std::string> counts = recorder.counts();
  ASSERT_EQ(counts.size(), 2u);
  EXPECT_EQ(counts[0], here("load_float4") + " read 16 bytes of global memory x 32");
  EXPECT_THAT(counts[1], HasSubstr(" write 4 bytes of global memory x 32"));
  for (const Access& access : recorder.accesses()) {
    if (access.write) continue;
    EXPECT_EQ(access.address, reinterpret_cast<std::uintptr_t>(x.data() + 4 * access.thread));
  }
}

TEST_F(Observe, LoadsOfWhatIsReadOnly) {
  std::iota(x.data(), x.data() + 128, 1.0f);
  run(kernels.load_read_only, dim3(1), dim3(32), 0);
  EXPECT_THAT(recorder.counts(), ElementsAre(here("ldg_float4") + " read 16 bytes of global memory x 32",
                                             here("ldg_float") + " read 4 bytes of global memory x 32",
                                             here("ldg_float") + " write 4 bytes of global memory x 32"));
  for (int i = 0; i < 32; ++i) EXPECT_EQ(y[i], (4 * i + 1) * 2 + (i + 1));
}

TEST_F(Observe, Float4CopyIsOneLoadAndOneStore) {
  run(kernels.copy_float4, dim3(1), dim3(64), 32);
  EXPECT_THAT(recorder.counts(), ElementsAre(here("copy_float4") + " read 16 bytes of global memory x 32",
                                             here("copy_float4") + " write 16 bytes of global memory x 32"));
}

TEST_F(Observe, Float2) {
  run(kernels.copy_float2, dim3(1), dim3(32), 32);
  std::vector<std::string> counts = recorder.counts();
  ASSERT_EQ(counts.size(), 2u);
  EXPECT_THAT(counts[0], HasSubstr(" read 8 bytes of global memory x 32"));
  EXPECT_THAT(counts[1], HasSubstr(" write 8 bytes of global memory x 32"));
}

TEST_F(Observe, SharedMemoryByOffset) {
  run(kernels.through_shared, dim3(1), dim3(64), 64);
  const std::vector<std::string> counts = recorder.counts();
  EXPECT_THAT(counts, ElementsAre(here("shared_store") + " write 4 bytes of shared memory x 64",
                                  here("shared_load") + " read 4 bytes of shared memory x 64",
                                  here("shared_load") + " write 4 bytes of global memory x 64"));
  std::map<std::uint32_t, std::uintptr_t> stores, loads;
  for (const Access& access : recorder.accesses()) {
    if (access.space == Space::shared) (access.write ? stores : loads)[access.thread] = access.address;
  }
  for (std::uint32_t t = 0; t < 64; ++t) {
    EXPECT_EQ(stores[t], stores[0] + 4 * t);
    EXPECT_EQ(loads[t], stores[63 - t]);
  }
  EXPECT_EQ(stores[0] % 64, 0u);  // as aligned as the variable, or banks would be wrong
}

TEST_F(Observe, Float4ToSharedMemory) {
  run(kernels.float4_to_shared, dim3(1), dim3(32), 128);
  std::map<std::string, int> kinds;
  for (const Access& access : recorder.accesses()) {
    const std::string text = Recorder::text(access);
    ++kinds[text.substr(text.find(' ') + 1)];
  }
  EXPECT_THAT(kinds, ElementsAre(std::pair("read 16 bytes of global memory", 32),
                                 std::pair("read 4 bytes of shared memory", 32),
                                 std::pair("write 16 bytes of shared memory", 32),
                                 std::pair("write 4 bytes of global memory", 32)));
}

TEST_F(Observe, NothingWhenCheckingIsOff) {
  cpu_device::set_checking(false);
  run(kernels.copy_float, dim3(1), dim3(32), 0);
  EXPECT_THAT(recorder.accesses(), IsEmpty());
}

TEST_F(Observe, NothingFromThePlainBuild) {
  run(plain_kernels.copy_float, dim3(1), dim3(32), 0);
  EXPECT_THAT(recorder.accesses(), IsEmpty());
}

TEST_F(Observe, SourceLocations) {
  run(kernels.copy_float, dim3(1), dim3(1), 0);
  ASSERT_EQ(recorder.accesses().size(), 2u);
  const int nowhere = 0;
  const auto places =
      cpu_device::source_locations({recorder.accesses()[1].pc, &nowhere, recorder.accesses()[0].pc});
  ASSERT_EQ(places.size(), 3u);
  EXPECT_EQ(places[0].function, "copy_float");
  EXPECT_EQ(places[0].file + ":" + std::to_string(places[0].line), here("store"));
  EXPECT_EQ(places[1].line, 0);
  EXPECT_EQ(places[2].function, "copy_float");
  EXPECT_EQ(places[2].file + ":" + std::to_string(places[2].line), here("load"));
  EXPECT_TRUE(cpu_device::source_locations({}).empty());
}

}  // namespace
