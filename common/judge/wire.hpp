#pragma once

// What the judge and a student's program say to each other. The judge draws the problem and looks at the
// result; the program computes. They share the descriptors 3, a socket, and 4, memory for the matrices, and
// nothing else.
//
// The judge sends an Order; the program does it and answers with the number of bytes and then a JSON object:
//   {"device": "...", "kind": "cpu"}   to the first, Do::hello
//   {"faults": ["..."], "xray": {...}} to Do::run, run_observed; what --json of a step's program has, too
//   {"error": "...", "status": 1}      whatever went wrong
// A program that ends or says nothing in time has failed. Nothing that it says makes a result right.

#include <cstddef>
#include <cstdint>

#include "common/harness/entry.hpp"

namespace judge {

constexpr int socket_fd = 3, memory_fd = 4;

enum class Do : int {
  hello,
  load,          // the three buffers become the device's
  lead,          // once, into another C: a GPU that has just rested would take longer
  run,           // once, on what was loaded
  run_observed,  // and tells of every access
  fetch,         // the three buffers come back
};

// Where a matrix lies: the buffer around it in the shared memory, and its first element in that.
struct Place {
  std::uint64_t buffer = 0, bytes = 0;  // from the beginning of the memory
  std::uint64_t first = 0;              // from the beginning of the buffer
};

struct Order {
  Do what = Do::hello;
  std::uint64_t memory = 0;      // bytes that are shared now
  Place a = {}, b = {}, c = {};  // of load; the pointers of the problem mean nothing
  harness::AnyGemm gemm = {};
};

}  // namespace judge
