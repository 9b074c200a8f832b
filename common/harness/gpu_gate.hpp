#pragma once

// Holds the GPU back while the host queues what is to be timed. Without it, the time from the first event to
// the first kernel's start is measured, too, wherever the host is slower than the GPU: some 5 to 80 us, which
// are not the same for a step and for cuBLAS.

#include <cstdint>

namespace harness::gpu {

class Gate {
 public:
  Gate();
  Gate(const Gate&) = delete;
  ~Gate();

  // What is queued on the default stream from here on begins after open(), or after 0.2 s: should the host
  // wait for the GPU in between, it waits that long, and no longer. Queue few launches: a host that finds the
  // queue full waits for the GPU.
  void close();
  void open();

 private:
  volatile std::uint32_t* opened_ = nullptr;  // the last gate to be open; host memory that the GPU can read
  std::uint32_t closed_ = 0;                  // gates so far
};

// Launches that the queue takes, with room to spare: some steps launch several kernels each.
constexpr int most_gated = 100;

}  // namespace harness::gpu
