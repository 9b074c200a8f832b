// What is observed of a kernel's accesses.

#include <set>

#include "tests/unit/device_test.hpp"

namespace {

class Observe : public Check {
 protected:
  Recorder& recorder = record();
  static std::string at(const std::string& mark, const std::string& what) { return here(mark) + ' ' + what; }
};

TEST_F(Observe, ScalarLoadAndStore) {
  run("copy_float", 2, 48);
  EXPECT_THAT(recorder.counts(), ElementsAre(at("load", "read 4 bytes of global memory x 96"),
                                             at("store", "write 4 bytes of global memory x 96")));
  std::set<std::pair<std::uint64_t, std::uint32_t>> loads;  // each thread has one
  for (const Access& access : recorder.accesses) {
    const std::uint64_t element = access.block * 48 + access.thread;
    EXPECT_EQ(access.address,
              reinterpret_cast<std::uintptr_t>((access.write ? y.data() : x.data()) + element));
    if (!access.write) loads.emplace(access.block, access.thread);
  }
  EXPECT_EQ(loads.size(), 96u);
}

TEST_F(Observe, ThreadsAreNumberedXFirst) {
  run("write_at", dim3(3, 2), dim3(4, 3, 2));
  ASSERT_EQ(recorder.accesses.size(), 1u);
  EXPECT_EQ(recorder.accesses[0].block, 5u);
  EXPECT_EQ(recorder.accesses[0].thread, 23u);
}

// Each vector is one access, whatever the kernel makes of it.
TEST_F(Observe, Vectors) {
  run("copy_float4", 1, 64, 32);
  run("copy_float2", 1, 32, 32);
  run("sum_float4", 1, 32);
  run("load_read_only", 1, 32);
  for (int i = 0; i < 32; ++i) EXPECT_EQ(y[i], (4 * i + 1) * 2 + (i + 1));
  run("float4_to_shared", 1, 32, 128);
  EXPECT_THAT(recorder.counts(),
              testing::UnorderedElementsAre(at("copy_float4", "read 16 bytes of global memory x 32"),
                                            at("copy_float4", "write 16 bytes of global memory x 32"),
                                            at("load_float2", "read 8 bytes of global memory x 32"),
                                            at("store_float2", "write 8 bytes of global memory x 32"),
                                            at("load_float4", "read 16 bytes of global memory x 32"),
                                            at("store_sum", "write 4 bytes of global memory x 32"),
                                            at("ldg_float4", "read 16 bytes of global memory x 32"),
                                            at("ldg_float", "read 4 bytes of global memory x 32"),
                                            at("ldg_float", "write 4 bytes of global memory x 32"),
                                            at("load_for_shared", "read 16 bytes of global memory x 32"),
                                            at("float4_to_shared", "write 16 bytes of shared memory x 32"),
                                            at("float_from_shared", "read 4 bytes of shared memory x 32"),
                                            at("float_from_shared", "write 4 bytes of global memory x 32")));
}

TEST_F(Observe, SharedMemoryByOffset) {
  run("through_shared", 1, 64, 64);
  EXPECT_THAT(recorder.counts(), ElementsAre(at("shared_store", "write 4 bytes of shared memory x 64"),
                                             at("shared_load", "read 4 bytes of shared memory x 64"),
                                             at("shared_load", "write 4 bytes of global memory x 64")));
  std::map<std::uint32_t, std::uintptr_t> stores, loads;
  for (const Access& access : recorder.accesses) {
    if (access.space == Space::shared) (access.write ? stores : loads)[access.thread] = access.address;
  }
  for (std::uint32_t t = 0; t < 64; ++t) {
    EXPECT_EQ(stores[t], stores[0] + 4 * t);
    EXPECT_EQ(loads[t], stores[63 - t]);
  }
  EXPECT_EQ(stores[0] % 64, 0u);  // as aligned as the variable, or banks would be wrong
}

TEST_F(Observe, NothingUnlessTheKernelIsObservedAndChecked) {
  launch(kernel_of("plain", "copy_float"), dim3(1), dim3(32), 0, x.data(), y.data(), 0);
  cpu_device::set_checking(false);
  run("copy_float", 1, 32);
  EXPECT_THAT(recorder.accesses, IsEmpty());
}

TEST_F(Observe, SourceLocations) {
  run("copy_float", 1, 1);
  ASSERT_EQ(recorder.accesses.size(), 2u);
  const int nowhere = 0;
  const auto places =
      cpu_device::source_locations({recorder.accesses[1].pc, &nowhere, recorder.accesses[0].pc});
  ASSERT_EQ(places.size(), 3u);
  EXPECT_EQ(places[0].function, "copy_float");
  EXPECT_EQ(places[0].file + ":" + std::to_string(places[0].line), here("store"));
  EXPECT_EQ(places[1].line, 0);
  EXPECT_EQ(places[2].function, "copy_float");
  EXPECT_EQ(places[2].file + ":" + std::to_string(places[2].line), here("load"));
  EXPECT_TRUE(cpu_device::source_locations({}).empty());
}

}  // namespace
