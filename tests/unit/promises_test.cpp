// What a launch owes a kernel and a warpgroup its warps: __launch_bounds__, __grid_constant__ and setmaxnreg.

#include "common/cpu_device/map_parameters.hpp"
#include "tests/unit/device_test.hpp"
#include "tests/unit/map_pair.hpp"

namespace {

class Promises : public BothBuilds {};
INSTANTIATE_TEST_SUITE_P(, Promises, testing::Values("plain", "observed"), name_of_build);

// ---- __launch_bounds__ -----------------------------------------------------------------------------------

TEST_P(Promises, AsManyThreadsAsTheBoundsAllow) {
  for (const unsigned threads : {1u, 63u, 64u}) run("bounded", 1, threads);
  run("bounded", 1, {8, 8});
  EXPECT_EQ(y[63], 1.0f);
  run("bounded_by_size", 1, 192);
  EXPECT_EQ(y[191], 2.0f);
  run("unbounded", 1, 1024);
  EXPECT_EQ(y[1023], 3.0f);
}

TEST_P(Promises, MoreThreadsThanTheBoundsAllow) {
  const auto refusal = [&](const std::string& name, dim3 block) -> std::string {
    try {
      run(name, 1, block);
    } catch (const std::invalid_argument& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(refusal("bounded", 65),
            "launch: a block has 65 threads, more than the 64 that the kernel's __launch_bounds__ allows");
  EXPECT_THAT(refusal("bounded", {8, 8, 2}), HasSubstr("a block has 128 threads, more than the 64"));
  EXPECT_THAT(refusal("bounded_by_size", 193), HasSubstr("more than the 192"));
}

// ---- setmaxnreg ------------------------------------------------------------------------------------------

TEST_P(Promises, OneWarpgroupHandsOnRegisters) {
  for (const int n : {0, 1}) run("hand_on_registers", 3, 384, n);
  EXPECT_EQ(y[383], 1.0f);
}

TEST_P(Promises, TheWarpsOfAGroupNeedNotMeet) {
  run("warp_by_warp", 1, 256);
  EXPECT_EQ(y[255], 1.0f);
}

TEST_P(Promises, AWholeWarpgroupGivesUpRegisters) { run("some_warps", 2, 256, 4); }

TEST_P(Promises, OnlySomeWarpsOfAGroupGiveUpRegisters) {
  run("some_warps", 1, 256, 7);
  expect(FaultKind::register_misuse, 224,
         "comes to warpgroup_reg_dealloc (24) with its warp, but the warp of thread (128,0,0), of the same "
         "four, does not; all four warps of a warpgroup must");
}

TEST_P(Promises, TheWarpsOfAGroupWantDifferentNumbers) {
  run("different_numbers", 1, 256);
  expect(FaultKind::register_misuse, 0,
         "but the warp of thread (32,0,0), of the same four, comes to "
         "warpgroup_reg_dealloc (32) at ");
}

TEST_P(Promises, MoreRegistersThanWereGivenUp) {
  run("too_many_registers", 1, 384);
  expect(FaultKind::deadlock, 352,
         "waits here for 240 registers for each thread of its warp, which has 168; of those that other warps "
         "of the block have given up 40 are left for each of its threads");
}

TEST_P(Promises, TheWrongDirection) {
  run("wrong_direction", 1, 384, 0);
  expect(FaultKind::register_misuse, 0, "gives up all but 176 registers per thread, but has no more than 168",
         "keeps_more");
  run("wrong_direction", 1, 384, 1);
  expect(FaultKind::register_misuse, 0, "takes up to 160 registers per thread, but has 168 already",
         "takes_less");
}

TEST_P(Promises, OneLaneDoesNotCome) {
  run("one_lane_late", 1, 128);
  expect(FaultKind::missing_lane, 1, "thread (0,0,0) at warpgroup_reg_dealloc, which has left the kernel");
}

// ---- Tensor maps -----------------------------------------------------------------------------------------

class MapPlaces : public BothBuilds {
 protected:
  MapPlaces() { y[0] = 0.0f; }
  TensorMap map() const { return tensor_map(x.data(), 8, 4, 4, 1, 32, 8, 4); }
  void run_map(const std::string& name) {
    using MapKernel = void (*)(float*, float*, TensorMap, int);
    run_as<MapKernel>(name, {.grid = 2, .block = 32}, x.data(), y.data(), map(), 0);
    EXPECT_EQ(y[0], 32.0f);
  }
  void run_pair(const std::string& name) {
    run_as<void (*)(MapPair, float*)>(name, {.grid = 1, .block = 32}, MapPair{map(), map()}, y.data());
    EXPECT_EQ(y[0], 32.0f);
  }
};
INSTANTIATE_TEST_SUITE_P(, MapPlaces, testing::Values("plain", "observed"), name_of_build);

TEST_P(MapPlaces, AParameterThatStaysWhereItIs) {
  run_map("map_as_it_should_be");
  run_pair("maps_in_a_struct");
}

TEST_P(MapPlaces, GlobalMemory) {
  const BufferOf<TensorMap> maps(1);
  new (maps.data()) TensorMap(map());
  const TensorMap* pointer = maps.data();
  run_as<void (*)(const TensorMap*, float*)>("map_in_global_memory", {.grid = 1, .block = 32}, pointer,
                                             y.data());
  EXPECT_EQ(y[0], 32.0f);
}

TEST_P(MapPlaces, ACopyMadeByTheKernel) {
  run_map("map_copied_in_the_kernel");
  const Fault fault =
      expect(FaultKind::tensor_map_misuse, 0, "copies by a tensor map in the thread's own memory", "fetch");
  EXPECT_EQ(fault.times, 2u);
}

TEST_P(MapPlaces, AParameterByValue) {
  run_map("map_by_value");
  if (!checked()) return;  // only the debug information tells where the parameters are declared
  expect(FaultKind::tensor_map_misuse, 0,
         "takes a tensor map in map, which is not const __grid_constant__: the compiler copies it into the "
         "thread's own memory");
  run_pair("maps_by_value");
  expect(FaultKind::tensor_map_misuse, 0, "takes a tensor map in maps, which");
}

TEST(MapParameters, AreReadFromTheSource) {
  const auto name = [](const std::string& parameters) {
    return cpu_device::parameter_without_grid_constant(
        "kernel", "__global__ void __launch_bounds__(f(1, 2)) kernel(" + parameters + ") {\n");
  };
  const std::string right = "const __grid_constant__ TensorMap";
  EXPECT_EQ(name(right + " map"), "");
  EXPECT_EQ(name(right + " a,\n  " + right + " b"), "");
  EXPECT_EQ(name("Gemm g, " + right + " a, const TensorMap b"), "b");
  EXPECT_EQ(name("Gemm g, TensorMap a"), "a");
  EXPECT_EQ(name("Gemm g, " + right + " a  // TensorMap b,\n"), "");
  EXPECT_EQ(name("TensorMap /* __grid_constant__ */ a"), "a");
  EXPECT_EQ(name("const TensorMap* a, " + right + " b"), "");
  EXPECT_EQ(name("std::pair<int, int> p, Maps maps"), "p");
  EXPECT_EQ(name("const __grid_constant__ Maps maps, Gemm g"), "");
  EXPECT_EQ(name("TensorMap a"), "a");
  EXPECT_EQ(cpu_device::parameter_without_grid_constant("kernel", "__global__ void kernel(TensorMap a, "),
            "");
  EXPECT_EQ(cpu_device::parameter_without_grid_constant("kernel",
                                                        "__global__ void other(TensorMap a) { kernel(a); }"),
            "");
}

}  // namespace
