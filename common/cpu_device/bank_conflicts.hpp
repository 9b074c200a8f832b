#pragma once

// Counts what shared memory needs to serve a kernel's accesses, as the hardware counts it: wavefronts, and
// how many there would be without bank conflicts. Only for kernels compiled for observation; see
// cpu_device.hpp.

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "common/cpu_device/cpu_device.hpp"

namespace cpu_device {

// One access to shared memory by the lanes of a warp at once, of equally many bytes each.
struct SharedRequest {
  std::uint32_t active = 0;                   // bit i: lane i takes part
  std::array<std::uint32_t, 32> addresses{};  // bytes
};

struct Wavefronts {
  std::uint64_t wavefronts = 0;
  std::uint64_t ideal = 0;  // without bank conflicts
};

// 32 banks, each of which delivers one 4-byte word per wavefront, to however many lanes want that word.
// Up to 4 bytes are served for the whole warp at once, 8 bytes in two half-warps, 16 bytes in four
// quarter-warps. Where every active lane i wants the same as lane i ^ 1 (or every lane i the same as lane
// i ^ 2), two parts become one; a lane that is not active hinders nobody. Measured on an H200.
Wavefronts wavefronts(const SharedRequest& request, unsigned bytes);

// The requests of one place in the source.
struct SharedTraffic {
  SourceLocation place;
  bool write = false;
  unsigned bytes = 0;  // of a lane
  std::uint64_t requests = 0;
  Wavefronts sum;  // over the requests
};

// Groups what the lanes of a warp do into requests: the n-th access of each lane at one instruction belongs
// to one request. (So lanes that skip an instruction which others execute several times may be grouped with
// others' earlier executions.) Memory use grows with the accesses of a block to places where not all
// 32 lanes take part; elsewhere with those between two barriers.
// An asynchronous copy counts as a write like any other. On the hardware it takes a wavefront for each
// 128-byte line of global memory that its lanes read, however well the banks are spread (seen: 4-byte copies
// from 4 rows of A take 4 wavefronts): that is no bank conflict and is not counted here.
class BankConflicts : public AccessListener {
 public:
  void on_access(const Access& access) override;

  // Everything since construction, in the order of file, line, writes last, bytes. Not during a launch. To be
  // called after each launch that has warps or requests of fewer than 32 lanes: the end of a block is seen
  // by another block's beginning, and the next launch may begin with the same block.
  std::vector<SharedTraffic> results();

 private:
  using Instruction = std::tuple<const void*, bool, unsigned>;  // pc, write, bytes

  struct Sum {
    std::uint64_t requests = 0;
    Wavefronts wavefronts;
    void add(const SharedRequest& request, unsigned bytes);
    void add(const Sum& other);
  };

  // One warp at one instruction.
  struct Stream {
    std::array<std::uint64_t, 32> executions{};  // of each lane, in this block
    std::uint64_t closed = 0;                    // requests, in this block
    std::deque<SharedRequest> open;              // the next ones, for which lanes are missing
    Sum sum;                                     // of all blocks
  };

  // One OS thread, with the block it runs. Only that thread touches it during a launch.
  struct Runner {
    std::uint64_t os_thread = 0;  // ids of std::thread are used again
    std::uint64_t block = 0;
    std::map<std::pair<std::uint32_t, Instruction>, Stream> streams;  // by warp and instruction
    void end_block();
  };
  Runner& runner_of_this_thread();

  static std::uint64_t new_identity();  // a number that nobody else has or had
  const std::uint64_t identity_ = new_identity();
  std::mutex mutex_;
  std::map<std::thread::id, std::unique_ptr<Runner>> runners_;
};

// The results as a table with one line for each place, read and write and width.
std::string to_table(const std::vector<SharedTraffic>& results);

}  // namespace cpu_device
