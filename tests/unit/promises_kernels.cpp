// Kernels that keep or break what a launch owes them, and they the launch.

#include "common/cuda/warpgroup_registers.hpp"
#include "tests/unit/kernels.hpp"
#include "tests/unit/map_pair.hpp"

namespace {

struct Size {
  static constexpr int THREADS = 96;
};

__global__ void __launch_bounds__(64) bounded(float*, float* y, int) { y[threadIdx.x] = 1.0f; }

template <typename S>
__global__ void __launch_bounds__(S::THREADS * 2, 3) bounded_by_constant(float*, float* y, int) {
  y[threadIdx.x] = 2.0f;
}

// Right behind one that has bounds, in the program.
__global__ void unbounded(float*, float* y, int) { y[threadIdx.x] = 3.0f; }

// Of three warpgroups the first gives up registers, and the others take them: 128 x 24 + 256 x 240 is what
// 384 x 168 was. n: 1: the others do not wait for it to come first, and it comes late.
__global__ void __launch_bounds__(384, 1) hand_on_registers(float*, float* y, int n) {
  if (threadIdx.x < 128) {
    if (n == 1) asm volatile("");
    warpgroup_reg_dealloc<24>();
  } else {
    warpgroup_reg_alloc<240>();
  }
  y[threadIdx.x] = 1.0f;
}

// Each warp at a moment of its own, with a barrier of its group in between.
__global__ void __launch_bounds__(256, 1) warp_by_warp(float*, float* y, int) {
  const unsigned warp = threadIdx.x / 32;
  for (unsigned turn = 0; turn < 8; ++turn) {
    if (turn == 7 - warp) {
      if (warp >= 4)
        warpgroup_reg_dealloc<40>();
      else
        warpgroup_reg_alloc<256>();
    }
    __syncthreads();
  }
  y[threadIdx.x] = 1.0f;
}

// Warps from number n on give up registers.
__global__ void __launch_bounds__(256, 1) some_warps(float*, float*, int n) {
  if (static_cast<int>(threadIdx.x / 32) >= n) warpgroup_reg_dealloc<24>();  // here: some_warps
}

__global__ void __launch_bounds__(256, 1) different_numbers(float*, float*, int) {
  if (threadIdx.x < 32)
    warpgroup_reg_dealloc<24>();  // here: different_numbers
  else if (threadIdx.x < 128)
    warpgroup_reg_dealloc<32>();
}

__global__ void __launch_bounds__(384, 1) too_many_registers(float*, float*, int) {
  if (threadIdx.x < 128)
    warpgroup_reg_dealloc<32>();
  else
    warpgroup_reg_alloc<240>();  // here: too_many_registers
}

__global__ void __launch_bounds__(384, 1) wrong_direction(float*, float*, int n) {
  if (n == 0)
    warpgroup_reg_dealloc<176>();  // here: keeps_more
  else
    warpgroup_reg_alloc<160>();  // here: takes_less
}

__global__ void __launch_bounds__(128, 1) one_lane_late(float*, float*, int) {
  if (threadIdx.x != 0) warpgroup_reg_dealloc<24>();  // here: one_lane_late
}

// ---- Tensor maps -----------------------------------------------------------------------------------------

__forceinline__ void fetch(float* y, const TensorMap& map, int line = __builtin_LINE()) {
  __shared__ __align__(128) float slots[32];
  __shared__ std::uint64_t barrier;
  init(&barrier, 1);
  if (threadIdx.x != 0) return;
  mbarrier_arrive_expect_tx(&barrier, sizeof slots);
  tensor_copy(slots, map, 0, 0, 0, &barrier);  // here: fetch
  mbarrier_wait(&barrier, 0);
  y[0] = slots[31] + 0.0f * static_cast<float>(line);
}

__global__ void map_as_it_should_be(float*, float* y, const __grid_constant__ TensorMap map, int) {
  fetch(y, map);
}

__global__ void map_by_value(float*, float* y, const TensorMap map, int) {  // here: map_by_value
  fetch(y, map);
}

__global__ void map_copied_in_the_kernel(float*, float* y, const __grid_constant__ TensorMap map, int) {
  TensorMap own = map;
  fetch(y, own);
}

// The host has put it there.
__global__ void map_in_global_memory(const TensorMap* map, float* y) { fetch(y, *map); }

__global__ void maps_in_a_struct(const __grid_constant__ MapPair maps, float* y) { fetch(y, maps.b); }

__global__ void maps_by_value(MapPair maps, float* y) { fetch(y, maps.b); }  // here: maps_by_value

constexpr auto bounded_by_size = bounded_by_constant<Size>;
TEST_KERNELS(bounded, bounded_by_size, unbounded, hand_on_registers, warp_by_warp, some_warps,
             different_numbers, too_many_registers, wrong_direction, one_lane_late, map_as_it_should_be,
             map_by_value, map_copied_in_the_kernel, map_in_global_memory, maps_in_a_struct, maps_by_value)

}  // namespace
