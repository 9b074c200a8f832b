#include "common/cpu_device/atomics.hpp"

#include <algorithm>
#include <atomic>
#include <type_traits>

#include "common/cpu_device/cluster.hpp"
#include "common/cpu_device/observe.hpp"

namespace cpu_device {

namespace {

template <typename T, typename Change>
T update(T* address, const Change& change, const void* pc) {
  Block& block = *current_block;
  block.note_turn(pc);
  if (overdue != 0) report_overdue(pc);
  block.spin.read(reinterpret_cast<std::uintptr_t>(address), block.current, pc);
  const std::unique_lock lock = observe_atomic(address, true, pc);
  if (lock) {
    block.grid_order->atomic(block.actor(block.current), reinterpret_cast<std::uintptr_t>(address),
                             block.launch.atomic_objects);
  }
  const std::atomic_ref<T> there(*address);
  T before = there.load();
  while (!there.compare_exchange_weak(before, change(before))) {
  }
  return before;
}

template <typename T>
T add(T* address, T value, const void* pc) {
  return update(
      address,
      [&](T before) {
        if constexpr (std::is_same_v<T, int>) {  // wraps around
          return static_cast<int>(static_cast<unsigned>(before) + static_cast<unsigned>(value));
        } else {
          return before + value;
        }
      },
      pc);
}

template <typename T>
T exchange(T* address, T value, const void* pc) {
  return update(address, [&](T) { return value; }, pc);
}

// These count as writes, too, where they leave the value as it was.
template <typename T>
T compare_and_swap(T* address, T expected, T value, const void* pc) {
  return update(address, [&](T before) { return before == expected ? value : before; }, pc);
}

template <typename T>
T maximum(T* address, T value, const void* pc) {
  return update(address, [&](T before) { return std::max(before, value); }, pc);
}

template <typename T>
T minimum(T* address, T value, const void* pc) {
  return update(address, [&](T before) { return std::min(before, value); }, pc);
}

}  // namespace

int atomic_add(int* address, int value) { return add(address, value, __builtin_return_address(0)); }
unsigned atomic_add(unsigned* address, unsigned value) {
  return add(address, value, __builtin_return_address(0));
}
float atomic_add(float* address, float value) { return add(address, value, __builtin_return_address(0)); }
int atomic_exchange(int* address, int value) { return exchange(address, value, __builtin_return_address(0)); }
unsigned atomic_exchange(unsigned* address, unsigned value) {
  return exchange(address, value, __builtin_return_address(0));
}
float atomic_exchange(float* address, float value) {
  return exchange(address, value, __builtin_return_address(0));
}

int atomic_compare_and_swap(int* address, int expected, int value) {
  return compare_and_swap(address, expected, value, __builtin_return_address(0));
}
unsigned atomic_compare_and_swap(unsigned* address, unsigned expected, unsigned value) {
  return compare_and_swap(address, expected, value, __builtin_return_address(0));
}
int atomic_max(int* address, int value) { return maximum(address, value, __builtin_return_address(0)); }
unsigned atomic_max(unsigned* address, unsigned value) {
  return maximum(address, value, __builtin_return_address(0));
}
int atomic_min(int* address, int value) { return minimum(address, value, __builtin_return_address(0)); }
unsigned atomic_min(unsigned* address, unsigned value) {
  return minimum(address, value, __builtin_return_address(0));
}
unsigned atomic_and(unsigned* address, unsigned value) {
  return update(address, [&](unsigned before) { return before & value; }, __builtin_return_address(0));
}
unsigned atomic_or(unsigned* address, unsigned value) {
  return update(address, [&](unsigned before) { return before | value; }, __builtin_return_address(0));
}

void thread_fence() {
  Block& block = *current_block;
  if (block.grid_order) block.grid_order->fence(block.actor(block.current), block.launch.atomic_objects);
}

}  // namespace cpu_device
