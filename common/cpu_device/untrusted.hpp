#pragma once

// For untrusted programs (common/judge): a launch as a message from their host code to another process, which
// runs the kernel and nothing else of theirs.

#include "common/cpu_device/cuda_on_cpu.hpp"

namespace cpu_device {

// From now on an observed kernel may write only to the device's memory and to its own variables, which lie
// below its frame; otherwise the program ends.
void confine();
// Ends the program with an error.
[[noreturn]] void refuse(const char* why);
// Refuses printf's %n, which writes where nobody looks.
void check_format(const char* format);

struct Request {
  const void* kernel;
  LaunchConfig config;
  const void* arguments;  // byte by byte
  std::size_t bytes;
};

// Launches the kernel: in each thread `spread` gets the Request, and calls the kernel with its arguments. If
// a kernel asks for a launch, the program ends.
void request_launch(const Request& request, KernelBody spread);

// From now on nothing is launched: `taker` gets the requests.
void set_request_taker(void (*taker)(const Request&));

}  // namespace cpu_device
