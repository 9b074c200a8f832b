#pragma once

// The X-ray: what a kernel asks of global and of shared memory, source line by source line, counted as the
// hardware counts it (warp_request.hpp says how). Only for kernels compiled for observation; see
// cpu_device.hpp. The counts do not depend on how blocks are spread over the cores.
//
// Wavefronts of global memory are passes through the L1 cache, which shares its banks with shared memory.
//
// An asynchronous copy (cp.async) counts twice: what it reads from global memory, and what it writes to
// shared memory. The write takes as many wavefronts as the banks need, but at least as many as the read: seen
// on an H200 with 4-byte copies from 4 rows of A, which take 4 wavefronts where the banks of shared memory
// would need 1. "Ideal" and "conflicts" are about the banks of shared memory alone: a kernel without bank
// conflicts has conflicts == 0, yet its copies may have more wavefronts than ideal.
//
// A bulk copy has no lanes and no bank conflicts; each 128-byte line is taken for one wavefront. The same
// holds for the copy of a box, a part of a matrix: where it reads, its rows count one by one, and what it
// does not read, because it lies outside the matrix, does not count.

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

// Sums over requests, that is, over instructions that a warp executes.
struct XrayCounts {
  std::uint64_t requests = 0;
  std::uint64_t lanes = 0;  // that took part; none for bulk copies
  // Global memory only.
  std::uint64_t sectors = 0;     // 32-byte sectors that a request touches
  std::uint64_t bytes_used = 0;  // distinct bytes that a request wants
  std::uint64_t wavefronts = 0;  // of either memory; see above
  // Shared memory only.
  std::uint64_t ideal_wavefronts = 0;
  std::uint64_t conflicts = 0;            // wavefronts beyond the ideal, as the banks alone would take them
  std::uint64_t lanes_during_copies = 0;  // whose threads had asynchronous copies in flight; not for copies

  XrayCounts& operator+=(const XrayCounts& other);
};

// One request, as an example.
struct XrayExample {
  dim3 block{0, 0, 0};
  std::uint32_t warp = 0;
  std::uint64_t execution = 0;            // the n-th of this instruction by this warp in this block, from 0
  std::uint32_t active = 0;               // bit i: lane i takes part; 0: a bulk copy
  std::array<std::int64_t, 32> offset{};  // each lane's, in bytes from the array's first; [0] of a bulk copy
};

// A request as it was made; kept only if the Xray is asked to.
struct XrayRequest {
  XrayExample where;
  std::uint64_t sequence = 0;  // in the block, by its first access
  // What loads and ldmatrix read, and what a copy reads from global memory, in 4-byte words: all of lane 0,
  // then all of lane 1 ... (zeros for an inactive lane); for ldmatrix, the row that the lane points to. Empty
  // for stores, for the writing side of copies, and for bulk copies.
  std::vector<std::uint32_t> words;
};

// All accesses of one kind at one source line.
struct XrayRow {
  SourceLocation place;  // line 0: unknown
  std::string source;    // the line, stripped; "" if the file cannot be read
  Space space = Space::global;
  Operation operation = Operation::load;
  std::string array;   // "A", "As"; "" if nothing names it
  unsigned bytes = 0;  // per lane, or of a bulk copy
  XrayCounts counts;
  XrayExample example;  // the request with the most lanes; the first such by launch, block, warp and time
  std::vector<XrayRequest> requests;  // all of them, if they are kept: by launch, block and sequence
};

struct XrayKernel {
  std::string name;  // with template arguments
  unsigned threads_per_block = 0;
  std::vector<XrayRow> rows;  // by file, line, global before shared, operation, array, bytes
  XrayCounts totals(Space space) const;
};

struct XrayReport {
  std::uint64_t blocks = 0;           // of all launches
  std::uint64_t observed_blocks = 0;  // those selected by select_blocks()
  std::vector<XrayKernel> kernels;    // in the order of their first launch
};

// Groups what the lanes of a warp do into requests: between two barriers, the n-th accesses of all lanes at
// one instruction make up one request. (So a lane that skips an instruction, which others execute several
// times without a barrier, may be grouped with others' earlier executions.) Memory use grows with the
// accesses of a waiting warp between two barriers, not with the number of warps that run one after another.
// What arrives as a request is taken as it is.
class Xray : public AccessListener {
 public:
  // keep_requests: every request, not one example for each line; for a few blocks only, as it takes memory.
  explicit Xray(bool keep_requests = false) : keep_requests_(keep_requests) {}

  void on_launch(const LaunchShape& shape) override;
  void on_access(const Access& access) override;
  void on_request(const CollectiveRequest& request) override;
  void on_warp_end(std::uint64_t block, std::uint32_t warp) override;
  void on_block_end(std::uint64_t block) override;
  // on_access(), inline: of all that the device does nothing is done more often.
  [[gnu::always_inline]] void take(const Access& access);

  // Everything since construction. Not to be called during a launch.
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

  // The accesses by one instruction to one array.
  struct Sum {
    XrayCounts counts;
    XrayExample example;
    std::array<std::uint64_t, 5> rank{};  // of the example: the lowest is the best
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
    std::uint32_t during_copies = 0;  // bit i: lane i has copies in flight
    std::uint32_t joined = 0;         // how many lanes have
  };

  // What a memory needs for a request.
  struct Cost {
    Wavefronts banks;
    unsigned sectors = 0, bytes_used = 0;  // of global memory
  };

  // One warp at one instruction. Lanes may run ahead of each other, up to a barrier, but a lane's accesses
  // come in order: its n-th since the barrier belongs to request n.
  struct Stream {
    // The requests since the barrier. Streams take turns with this memory, which so stays in the cache.
    struct Open {
      std::uint32_t lanes = 0, lane_count = 0;  // bit i: the warp has a lane i
      std::array<std::uint32_t, 32> joined{};   // how many of the requests, by lane
      std::vector<OpenRequest> requests;
      // Lane by lane, as a lane goes through its own without looking at the others': of each there is room
      // for so many requests, and so many places further on the next lane's begin.
      std::uint32_t room = 0, pitch = 0;
      std::vector<std::uintptr_t> addresses;
      std::vector<std::array<std::uintptr_t, 32>> sources;  // of copies: what they read; 0: they write zeros
      std::vector<std::vector<std::uint32_t>> words;        // see XrayRequest; if they are kept

      [[gnu::noinline]] void make_room(std::uint32_t requests);
      WarpRequest request(std::size_t index) const;  // of the lanes that have joined it
    };
    std::unique_ptr<Open> open;  // nullptr: there are none
    std::size_t complete = 0;    // how many have been counted, because no lane is missing
    std::uint32_t room = 1;      // for how many there had to be
    std::uint64_t before = 0;    // requests of this block before these
    std::uint32_t epoch = 0;
    // For each side: the sum to which the latest request was added, the array's first byte, and the request's
    // cost.
    struct Latest {
      Sum* sum = nullptr;
      std::uintptr_t begin = 0;
      WarpRequest request;
      Cost cost;
    };
    std::array<Latest, 2> latest;
    // What the warp accessed next, last time and before: most likely it does so again, which saves looking it
    // up.
    std::array<std::pair<const Key, Stream>*, 2> next{};
  };
  using Entry = std::pair<const Key, Stream>;

  // A block that has begun and not ended.
  struct Running {
    static constexpr std::uint64_t none = ~std::uint64_t{0};
    std::uint64_t block = none;
    std::uint64_t sequence = 0;  // requests so far
    using Streams = std::unordered_map<Key, Stream, Hash>;
    std::deque<Streams> warps;  // not a vector, which would move what is pointed to
    Entry* latest = nullptr;    // of the streams
  };

  // An OS thread, with the blocks that it is running, those of a cluster. Only that thread touches it during
  // a launch.
  struct Runner {
    std::uint64_t os_thread = 0;  // std::thread::ids are reused
    std::deque<Running> blocks;
    Running* running = nullptr;                        // that whose turn it is
    std::vector<std::unique_ptr<Stream::Open>> spare;  // emptied
    std::map<SumKey, Sum> sums;
  };

  // A request, or one side of a copy's, to be counted.
  struct Side {
    Space space;
    const WarpRequest& request;
    std::uint64_t execution, sequence;  // see XrayExample, OpenRequest
    Cost cost;
    std::uint64_t wavefronts;         // at least as many as the banks take
    std::uint32_t during_copies = 0;  // see OpenRequest
    const std::vector<std::uint32_t>* words = nullptr;
  };

  [[gnu::noinline]] Runner& find_runner();  // of this thread
  Runner& runner_of_this_thread();
  Runner& runner_in(std::uint64_t block);
  static void switch_to(Runner& runner, std::uint64_t block);
  [[gnu::noinline]] static Entry* find_stream(Running& running, Key key);
  static Entry& entry_of(Running& running, const void* pc, std::uint32_t bytes, Space space,
                         Operation operation, std::uint32_t warp);
  const Cost& cost(Stream& stream, Space space, const WarpRequest& request, unsigned bytes);
  void count_side(Runner& runner, const Key& key, Stream& stream, const Side& side);
  void count(Runner& runner, const Key& key, Stream& stream, std::size_t index);
  void count_open(Runner& runner, const Key& key, Stream& stream);
  [[gnu::noinline]] void begin(Runner& runner, const Key& key, Stream& stream) const;
  [[gnu::noinline]] void begin_request(Runner& runner, const Key& key, Stream::Open& open) const;
  [[gnu::noinline]] static void add_words(Stream::Open& open, std::size_t index, const Access& access);
  void end_block(Runner& runner, Running& running);
  void end_blocks(Runner& runner);

  const bool keep_requests_;
  static std::uint64_t new_identity();  // a number that no other Xray has or had
  const std::uint64_t identity_ = new_identity();
  std::mutex mutex_;
  std::map<std::thread::id, std::unique_ptr<Runner>> runners_;
  std::uint64_t launches_ = 0;
  LaunchShape shape_;            // of the latest launch
  std::uint32_t threads_ = ~0u;  // of its blocks; no launch: nobody knows
  std::uint64_t blocks_ = 0;
  std::atomic<std::uint64_t> observed_blocks_{0};
};

// ---- Each access -----------------------------------------------------------------------------------------

[[gnu::always_inline]] inline Xray::Runner& Xray::runner_of_this_thread() {
  constinit thread_local static std::uint64_t instance = 0;  // to which `runner` belongs
  constinit thread_local static Runner* runner = nullptr;
  if (instance != identity_) [[unlikely]] {
    runner = &find_runner();
    instance = identity_;
  }
  return *runner;
}

[[gnu::always_inline]] inline Xray::Runner& Xray::runner_in(std::uint64_t block) {
  Runner& runner = runner_of_this_thread();
  if (runner.running == nullptr || runner.running->block != block) switch_to(runner, block);
  return runner;
}

// Of a key that is made only if it has to be looked up.
[[gnu::always_inline]] inline Xray::Entry& Xray::entry_of(Running& running, const void* pc,
                                                          std::uint32_t bytes, Space space,
                                                          Operation operation, std::uint32_t warp) {
  const auto is_it = [&](const Entry* entry) __attribute__((always_inline)) {
    if (entry == nullptr) return false;
    const auto& [i, its_warp] = entry->first;
    return i.pc == pc && i.bytes == bytes && i.space == space && i.operation == operation && its_warp == warp;
  };
  Entry* const latest = running.latest;
  Entry* entry = latest == nullptr ? nullptr : latest->second.next.data()[0];
  if (!is_it(entry)) [[unlikely]] {
    entry = latest == nullptr ? nullptr : latest->second.next.data()[1];
    if (!is_it(entry)) entry = find_stream(running, {{pc, bytes, space, operation}, warp});
  }
  running.latest = entry;
  return *entry;
}

[[gnu::always_inline]] inline void Xray::take(const Access& access) {
  if (access.copy && access.space == Space::global)
    return;  // the other side comes next, and includes this one
  Runner& runner = runner_in(access.block);
  const Operation operation = access.copy    ? Operation::copy
                              : access.write ? Operation::store
                                             : Operation::load;
  auto& [key, stream] =
      entry_of(*runner.running, access.pc, access.bytes, access.space, operation, access.thread / 32);
  if (stream.epoch != access.epoch) {  // all lanes have passed a barrier
    count_open(runner, key, stream);
    stream.epoch = access.epoch;
  }
  if (stream.open == nullptr) [[unlikely]]
    begin(runner, key, stream);
  Stream::Open& open = *stream.open.get();
  const unsigned lane = access.thread % 32;
  const std::size_t index = open.joined.data()[lane]++;
  if (open.requests.data() + index == std::to_address(open.requests.end())) begin_request(runner, key, open);
  OpenRequest& request = open.requests.data()[index];
  open.addresses.data()[lane * open.pitch + index] = access.address;
  if (access.during_copies) request.during_copies |= 1u << lane;
  if (access.copy) open.sources[index][lane] = access.source;
  if (keep_requests_ && access.bytes % 4 == 0) add_words(open, index, access);
  if (++request.joined != open.lane_count) return;
  count(runner, key, stream, stream.complete++);
  if (stream.complete == open.requests.size()) count_open(runner, key, stream);  // others use the memory
}

}  // namespace cpu_device
