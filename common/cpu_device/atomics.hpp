#pragma once

// The CPU device's atomic operations on global and shared memory, fences, and accesses that bypass the L1
// cache. As in CUDA, an atomic operation by itself orders nothing; on global memory, with __threadfence() on
// both sides it does. Atomic operations do not race with each other, but with all other accesses.

namespace cpu_device {

// They return the old value.
int atomic_add(int* address, int value);
unsigned atomic_add(unsigned* address, unsigned value);
float atomic_add(float* address, float value);
int atomic_exchange(int* address, int value);
unsigned atomic_exchange(unsigned* address, unsigned value);
float atomic_exchange(float* address, float value);
int atomic_compare_and_swap(int* address, int expected, int value);
unsigned atomic_compare_and_swap(unsigned* address, unsigned expected, unsigned value);
int atomic_max(int* address, int value);
unsigned atomic_max(unsigned* address, unsigned value);
int atomic_min(int* address, int value);
unsigned atomic_min(unsigned* address, unsigned value);
unsigned atomic_and(unsigned* address, unsigned value);
unsigned atomic_or(unsigned* address, unsigned value);

void thread_fence();

}  // namespace cpu_device

#define CPU_DEVICE_ATOMICS(T)                                               \
  inline __attribute__((always_inline)) T atomicAdd(T* address, T value) {  \
    return cpu_device::atomic_add(address, value);                          \
  }                                                                         \
  inline __attribute__((always_inline)) T atomicExch(T* address, T value) { \
    return cpu_device::atomic_exchange(address, value);                     \
  }
CPU_DEVICE_ATOMICS(int)
CPU_DEVICE_ATOMICS(unsigned)
CPU_DEVICE_ATOMICS(float)
#undef CPU_DEVICE_ATOMICS
#define CPU_DEVICE_ATOMICS_OF_INTEGERS(T)                                              \
  inline __attribute__((always_inline)) T atomicCAS(T* address, T expected, T value) { \
    return cpu_device::atomic_compare_and_swap(address, expected, value);              \
  }                                                                                    \
  inline __attribute__((always_inline)) T atomicMax(T* address, T value) {             \
    return cpu_device::atomic_max(address, value);                                     \
  }                                                                                    \
  inline __attribute__((always_inline)) T atomicMin(T* address, T value) {             \
    return cpu_device::atomic_min(address, value);                                     \
  }
CPU_DEVICE_ATOMICS_OF_INTEGERS(int)
CPU_DEVICE_ATOMICS_OF_INTEGERS(unsigned)
#undef CPU_DEVICE_ATOMICS_OF_INTEGERS
inline __attribute__((always_inline)) unsigned atomicAnd(unsigned* address, unsigned value) {
  return cpu_device::atomic_and(address, value);
}
inline __attribute__((always_inline)) unsigned atomicOr(unsigned* address, unsigned value) {
  return cpu_device::atomic_or(address, value);
}

inline __attribute__((always_inline)) void __threadfence() { cpu_device::thread_fence(); }

// There are no caches here: these are ordinary accesses.
template <typename T>
inline __attribute__((always_inline)) T __ldcg(const T* pointer) {
  return *pointer;
}
template <typename T>
inline __attribute__((always_inline)) void __stcg(T* pointer, T value) {
  *pointer = value;
}
