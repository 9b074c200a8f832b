#pragma once

// The X-ray: what a kernel asks of global and of shared memory, line by line of its source, counted as the
// hardware counts it (warp_request.hpp says how). Only for kernels compiled for observation; see
// cpu_device.hpp. Counts do not depend on how blocks were spread over the cores.
//
// Wavefronts of global memory are passes through the L1 cache, which has the banks of shared memory.
//
// An asynchronous copy (cp.async) counts twice: what it reads of global memory, and what it writes to shared
// memory. The writing takes as many wavefronts as the banks need, but at least as many as the reading: seen
// on an H200 with 4-byte copies from 4 rows of A, which take 4 wavefronts where the banks of shared memory
// would need 1. "Ideal" and "conflicts" speak of the banks of shared memory alone: a kernel without bank
// conflicts has conflicts == 0, and its copies may still have more wavefronts than ideal.
//
// A bulk copy has no lanes and no bank conflicts; each line of 128 bytes is taken for one wavefront. So has
// the copy of a box, a part of a matrix, whose rows count one by one where it reads them; what it does not
// read, as it lies outside the matrix, does not count there.

#include <array>
#include <atomic>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "common/cpu_device/cpu_device.hpp"
#include "common/cpu_device/warp_request.hpp"

namespace cpu_device {

const char* to_string(Space space);          // "global", "shared"
const char* to_string(Operation operation);  // "load", "store", "copy", "ldmatrix"

// Sums over requests, that is, over instructions executed by a warp.
struct XrayCounts {
  std::uint64_t requests = 0;
  std::uint64_t lanes = 0;  // that took part; of bulk copies none
  // Global memory only.
  std::uint64_t sectors = 0;     // of 32 bytes, touched by a request
  std::uint64_t bytes_used = 0;  // distinct bytes wanted by a request
  std::uint64_t wavefronts = 0;  // of either memory; see above
  // Shared memory only.
  std::uint64_t ideal_wavefronts = 0;
  std::uint64_t conflicts = 0;            // wavefronts beyond the ideal that the banks alone would take
  std::uint64_t lanes_during_copies = 0;  // whose threads had asynchronous copies under way; not of copies

  XrayCounts& operator+=(const XrayCounts& other);
};

// One request, to be looked at.
struct XrayExample {
  dim3 block{0, 0, 0};
  std::uint32_t warp = 0;
  std::uint64_t execution = 0;            // the n-th of this instruction by this warp in this block, from 0
  std::uint32_t active = 0;               // bit i: lane i takes part; 0: a bulk copy
  std::array<std::int64_t, 32> offset{};  // of each lane, in bytes from the array's first; of a bulk copy [0]
};

// One request as it was made; kept only if the Xray was asked to.
struct XrayRequest {
  XrayExample where;
  std::uint64_t sequence = 0;  // in the block, by its first access
  // What loads and ldmatrix read, and what a copy reads of global memory, in words of 4 bytes: all of lane 0,
  // then all of lane 1 ... (zeros for a lane that takes no part); of ldmatrix, the row that the lane points
  // at. Empty for stores, for the writing side of copies, and for bulk copies.
  std::vector<std::uint32_t> words;
};

// All accesses of one kind at one line of the source.
struct XrayRow {
  SourceLocation place;  // line 0: unknown
  std::string source;    // the line, stripped; "" if the file cannot be read
  Space space = Space::global;
  Operation operation = Operation::load;
  std::string array;   // "A", "As"; "" if nothing names it
  unsigned bytes = 0;  // of a lane, or of a bulk copy
  XrayCounts counts;
  XrayExample example;  // the request of most lanes; the first of them by launch, block, warp and time
  std::vector<XrayRequest> requests;  // all, if they were to be kept: by launch, block and sequence
};

struct XrayKernel {
  std::string name;  // with template arguments
  unsigned threads_per_block = 0;
  std::vector<XrayRow> rows;  // by file, line, global before shared, operation, array, bytes
  XrayCounts totals(Space space) const;
};

struct XrayReport {
  std::uint64_t blocks = 0;           // of all launches
  std::uint64_t observed_blocks = 0;  // of these, as select_blocks() wanted
  std::vector<XrayKernel> kernels;    // in the order of their first launch
};

// Groups what the lanes of a warp do into requests: between two barriers, the n-th access of each lane at one
// instruction belongs to one request. (So lanes that skip an instruction which others execute several times
// without a barrier may be grouped with others' earlier executions.) Memory use grows with the accesses of a
// warp between two barriers, for warps that wait; not with the number of warps that run one after another.
// What comes as a request is taken as it is.
class Xray : public AccessListener {
 public:
  // keep_requests: every request, not one example of each line; for a few blocks, as it takes memory.
  explicit Xray(bool keep_requests = false) : keep_requests_(keep_requests) {}

  void on_launch(const LaunchShape& shape) override;
  void on_access(const Access& access) override;
  void on_request(const CollectiveRequest& request) override;
  void on_warp_end(std::uint64_t block, std::uint32_t warp) override;
  void on_block_end(std::uint64_t block) override;

  // Everything since construction. Not during a launch.
  XrayReport report();

 private:
  struct Instruction {
    const void* pc = nullptr;
    std::uint32_t bytes = 0;
    Space space = Space::global;
    Operation operation = Operation::load;
    auto operator<=>(const Instruction&) const = default;
  };
  struct Key {
    Instruction instruction;
    std::uint32_t warp = 0;
    bool operator==(const Key&) const = default;
  };
  struct Hash {
    std::size_t operator()(const Key& key) const;
  };

  // What happened at one instruction in one array.
  struct Sum {
    XrayCounts counts;
    XrayExample example;
    std::array<std::uint64_t, 5> rank{};  // of the example: the least is the best
    std::uint64_t first_launch = 0;
    unsigned threads_per_block = 0;
    std::vector<std::pair<std::array<std::uint64_t, 3>, XrayRequest>> requests;  // by launch, block, sequence
    void add(const Sum& other);
  };
  struct SumKey {
    const void* kernel = nullptr;
    Instruction instruction;
    Space side = Space::global;  // of a copy: where it reads (global) or writes (shared)
    std::string array;
    auto operator<=>(const SumKey&) const = default;
  };

  struct OpenRequest {
    std::uint64_t sequence = 0;       // in the block, by first access
    std::uint32_t active = 0;         // bit i: lane i takes part
    std::uint32_t during_copies = 0;  // bit i: lane i has copies under way
  };

  // What a memory makes of a request.
  struct Cost {
    Wavefronts banks;
    unsigned sectors = 0, bytes_used = 0;  // of global memory
  };

  // One warp at one instruction. Lanes get ahead of each other, up to a barrier, but a lane's accesses come
  // in order: its n-th since the barrier belongs to request n.
  struct Stream {
    using Addresses = std::array<std::vector<std::uintptr_t>, 32>;  // of each lane
    Addresses addresses;
    std::unique_ptr<Addresses> sources;             // of a copy: what it reads; 0: it writes zeros
    std::vector<OpenRequest> requests;              // since the barrier
    std::vector<std::vector<std::uint32_t>> words;  // of these, see XrayRequest; if they are kept
    std::size_t complete = 0;                       // how many are counted, as no lane is missing
    std::uint64_t before = 0;                       // requests of this block before these
    std::uint32_t epoch = 0;
    // By side: the sums that the latest request was added to, the array's first byte, and its cost.
    struct Latest {
      Sum* sum = nullptr;
      std::uintptr_t begin = 0;
      WarpRequest request;
      Cost cost;
    };
    std::array<Latest, 2> latest;
    // What the warp accessed next, the last time: most likely it does so again, and need not be looked up.
    std::pair<const Key, Stream>* next = nullptr;
  };

  // One OS thread, with the block it runs. Only that thread touches it during a launch.
  struct Runner {
    std::uint64_t os_thread = 0;  // ids of std::thread are used again
    std::uint64_t block = 0;
    std::uint64_t sequence = 0;  // requests of this block so far
    using Streams = std::unordered_map<Key, Stream, Hash>;
    std::deque<Streams> warps;              // no vector: it would move what is pointed to
    Streams::value_type* latest = nullptr;  // of the streams
    std::map<SumKey, Sum> sums;
  };

  // A request, or one side of it if it copies, as it is counted.
  struct Side {
    Space space;
    const WarpRequest& request;
    std::uint64_t execution, sequence;  // see XrayExample, OpenRequest
    Cost cost;
    std::uint64_t wavefronts;         // no fewer than the banks take
    std::uint32_t during_copies = 0;  // see OpenRequest
    const std::vector<std::uint32_t>* words = nullptr;
  };

  Runner& runner_of_this_thread();
  Runner& runner_in(std::uint64_t block);
  Stream& stream_of(Runner& runner, const Key& key);
  const Cost& cost(Stream& stream, Space space, const WarpRequest& request, unsigned bytes);
  void count_side(Runner& runner, const Key& key, Stream& stream, const Side& side);
  void count(Runner& runner, const Key& key, Stream& stream, std::size_t index);
  void count_open(Runner& runner, const Key& key, Stream& stream);
  void end_block(Runner& runner);
  std::uint32_t lanes_of(std::uint32_t warp) const;  // bit i: the warp has a lane i

  const bool keep_requests_;
  static std::uint64_t new_identity();  // a number that nobody else has or had
  const std::uint64_t identity_ = new_identity();
  std::mutex mutex_;
  std::map<std::thread::id, std::unique_ptr<Runner>> runners_;
  std::uint64_t launches_ = 0;
  LaunchShape shape_;  // of the latest launch
  std::uint64_t blocks_ = 0;
  std::atomic<std::uint64_t> observed_blocks_{0};
};

}  // namespace cpu_device
