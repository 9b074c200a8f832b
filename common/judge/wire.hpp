#pragma once

// What the judge and a student's program say to each other. The judge draws the problem and checks the
// result; the program computes, as on a GPU in two parts. The host is a process without data: where the
// matrices lie it has reserved addresses that nobody can touch, and a launch is a request. The device has the
// matrices, and executes the kernels that it is asked for: functions that the compiler has marked as kernels,
// found by their symbols. (With a real GPU, there is only one process.) Each shares with the judge the
// descriptors 3, a socket, and 4, memory for the matrices, which the host's does not hold.
//
// The judge sends an Order, the program obeys and answers with a number of bytes and then a JSON object:
//   {"device": "...", "kind": "cpu"}   to the first, Do::hello
//   {"buffers": [...]}                 the device's addresses of the three buffers, to Do::load
//   {"launches": [...]}                what the host asks for, to Do::call, and what Do::run does
//   {"faults": ["..."], "xray": {...}, "schedules": [...]}  to Do::run, run_observed; as --json of a step's
//                                      program, and which other schedules would show more
//   {"error": "...", "status": 1}      whatever went wrong
// A program that ends, or does not answer in time, has failed. Nothing that it says makes a result right.

#include <cstddef>
#include <cstdint>

#include "common/harness/entry.hpp"

namespace judge {

constexpr int socket_fd = 3, memory_fd = 4;

enum class Do : int {
  hello,
  load,          // the device takes over the three buffers
  call,          // the host calls the student's function, with the device's addresses
  lead,          // once, into another C: a GPU takes longer right after a rest
  run,           // once, on what was loaded: the launches of a JSON array that follows the order
  run_observed,  // the same, and reports every access
  fetch,         // gives the three buffers back
};

// Where a matrix lies: the buffer around it in shared memory, and its first element in the buffer.
struct Place {
  std::uint64_t buffer = 0, bytes = 0;  // from the start of the memory; for Do::call the device's address
  std::uint64_t first = 0;              // from the start of the buffer
};

struct Order {
  Do what = Do::hello;
  std::uint64_t memory = 0;      // how many bytes are shared now
  Place a = {}, b = {}, c = {};  // of load and call
  harness::AnyGemm gemm = {};    // its pointers mean something to Do::call only
  unsigned schedule = 0;         // of run: see cpu_device::set_schedule()
  std::uint64_t follow = 0;      // bytes of JSON behind this order
};

}  // namespace judge
