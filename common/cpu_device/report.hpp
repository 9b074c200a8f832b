#pragma once

// Faults: what went wrong in a kernel, collected so that reports do not depend on which core was faster.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "common/cpu_device/cpu_device.hpp"

namespace cpu_device {

struct Block;
struct Cluster;
struct Launch;

// Of a race of two writes, whether they leave the same value; `different` as soon as it has once been so.
enum class Values : std::uint8_t { unknown, equal, different };

// A fault whose place has yet to be looked up.
struct Recorded {
  Fault fault;
  const void* pc;
  const void* kernel;
  unsigned thread;
  Values values = Values::unknown;
};

// A word whose running thread is about to write some of its bytes (bit i: byte i), in a race with another's
// write.
struct RacingWrite {
  const void* pc;
  const std::byte* word;
  unsigned bytes;
  std::uint32_t before;  // what the other has left
};

// ---- report.cpp ------------------------------------------------------------------------------------------

// Records a fault of the running CUDA thread at the return address `pc`.
void report(FaultKind kind, const void* pc, std::string detail);
// The same for thread `thread` of a block that runs with it, when the running fiber is not the culprit.
void report(FaultKind kind, const void* pc, std::string detail, const Block& block, unsigned thread);
// The same for a thread of a later cluster, which another OS thread runs or has run; also at the end of the
// launch. `block` is the number of the thread's block.
void report_later_block(const Launch& launch, FaultKind kind, const void* pc, std::string detail,
                        std::uint64_t block, unsigned thread);

// Remembers to compare the values of a race of writes to shared memory, reported at `pc`.
void note_racing_write(const void* pc, const std::byte* word, unsigned bytes);
// The running thread stops, so that it is known what it leaves where it wrote.
void compare_racing_writes(Cluster& cluster);

// The same when no launch is running.
void report_after_launch(Recorded fault);

// Whether this fault has been reported at this place before; if so, counts it. Saves making the message.
bool reported_before(FaultKind kind, const void* pc);

// Faults are reported as if the clusters had run one after the other: a cluster's faults are held back until
// all clusters before it have finished. begin_next_cluster() gives the number of the next one to run; it
// returns false if there is none, or the launch has been ended.
bool begin_next_cluster(Launch& launch, std::uint64_t& number);
void end_cluster_faults(Cluster& cluster);
// When it returns, all clusters with a lower number that run at all have finished. None of them waits for
// this one.
void wait_for_clusters_before(const Cluster& cluster);
void end_launch_faults(const Launch& launch);

std::string thread_name(const Block& block, unsigned thread);    // "thread (3,0,0)"
std::string block_name(const dim3& grid, std::uint64_t linear);  // "block (1,0,0)"

// ---- source_locations.cpp --------------------------------------------------------------------------------

// "file:line" of a return address.
std::string place_of(const void* pc);
// A call by its return address, and the calls around it that the compiler has inlined, innermost first.
std::vector<SourceLocation> inlined_calls(const void* pc);
// An address for which source_locations(), which looks at the byte before it, finds the function.
const void* after_entry(const void* function);

}  // namespace cpu_device
