#pragma once

// What a kernel's __launch_bounds__ promises. The compiler leaves so many bytes free before the kernel and
// lists where they begin (GCC's patchable_function_entry): so the promise can be told from the kernel's
// address, whatever constants it was made of.

namespace cpu_device {

struct LaunchBounds {
  unsigned threads = 0;  // of a block at most; 0: the kernel promises nothing, or the compiler cannot say
  unsigned blocks = 1;   // that shall fit on an SM
};

LaunchBounds launch_bounds_of(const void* kernel);

}  // namespace cpu_device

#if defined(__GNUC__) && !defined(__clang__)
#define CPU_DEVICE_LAUNCH_BOUNDS(threads, blocks, ...) \
  __attribute__((                                      \
      patchable_function_entry(((blocks) - 1) * 1024 + (threads), ((blocks) - 1) * 1024 + (threads))))
#else
#define CPU_DEVICE_LAUNCH_BOUNDS(...)
#endif
// The third argument, if there is one, is about clusters.
#define __launch_bounds__(...) CPU_DEVICE_LAUNCH_BOUNDS(__VA_ARGS__, 1, )
