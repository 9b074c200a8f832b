#pragma once

// The CPU device: runs CUDA kernels that the host compiler has compiled. One fiber per CUDA thread, one
// block, or one cluster of blocks, at a time per OS thread, and these spread over the cores. Every memory
// access of a kernel that was compiled for observation (-fsanitize=thread, with callbacks of our own) is
// checked. The device shows what a kernel does to memory and whether it is correct; it knows nothing about
// time.

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "common/cpu_device/cuda_on_cpu.hpp"
#include "common/cpu_device/orders_run.hpp"

namespace cpu_device {

// ---- Memory -------------------------------------------------------------------------------------------

// "Global memory", aligned as by cudaMalloc (256 bytes); only what is touched takes room. Throws
// std::bad_alloc.
void* allocate(std::size_t bytes);
void release(void* pointer);

// What part of an allocation holds, so that checked runs can say "A[3][80], but A is 100 x 80".
struct MatrixView {
  std::string name;
  const void* data;  // element (0, 0) of the first matrix, inside one allocation
  std::int64_t rows, cols, leading_dimension, batch, stride;  // in elements
  bool readable;  // false: to read an element before the kernel has written it is a fault
  bool writable;
  unsigned element_bytes = 4;
  bool one_index = false;  // it is one row; messages say packed[12]
};

// From now on observed kernels may touch only the elements of the matrix; an access elsewhere in an
// allocation with a view (padding between rows, guard zones) is a fault. A view that begins where an earlier
// one does replaces it, and its elements count as not yet written. Throws std::invalid_argument if the view
// does not lie inside one allocation.
void describe(const MatrixView& view);

// ---- Launching -----------------------------------------------------------------------------------------

enum class FaultKind {
  out_of_bounds_global,
  out_of_bounds_shared,
  array_index,
  uninitialised_global,
  read_only,
  host_pointer,
  misaligned,
  uninitialised_shared,
  race_shared,
  race_global,
  noncoherent_load,
  launch_overlap,
  async_not_arrived,
  copy_outlives_block,
  divergent_barrier,
  missing_lane,
  barrier_misuse,
  mbarrier_misuse,
  flag_misuse,
  workspace_left,
  register_misuse,
  tensor_map_misuse,
  unrounded_operand,
  deadlock,
  no_progress,
  peer_gone,
  missing_proxy_fence,
  wgmma_misuse,
  descriptor_misuse,
};

// "data race on shared memory" and so on: the words that users and tests see.
const char* to_string(FaultKind kind);

struct Fault {
  FaultKind kind;
  std::string kernel;  // its name in the debug information; may be empty
  std::string where;   // file:line, relative to the project
  std::string detail;  // one line: what was touched, and by whom; for races also the other party
  dim3 block{0, 0, 0};
  dim3 thread{0, 0, 0};
  std::uint64_t times = 1;              // at this place
  std::vector<std::string> table = {};  // of a deadlock: a line for each place where threads wait
};

// One line: kind, place, kernel, block, thread, detail. The table follows, each line after "\n    ".
std::string describe(const Fault& fault);

// The faults since the last call, one for each kind and place, at most 20: those of the lowest cluster first
// (a block without a cluster counts as one), within a cluster in program order, whichever core was faster.
// (Of two clusters that race with each other, the later one is reported.) A fault after which the kernel
// cannot go on (a wild address, a barrier that can never open) ends the launch; the clusters before it run to
// completion.
std::vector<Fault> take_faults();

// Whether kernels compiled for observation report their accesses; otherwise they run unchecked.
void set_checking(bool on);

// The order in which the warps of a cluster take turns. Schedule 0 goes by their numbers; schedule S > 0
// starves warp S - 1 of the cluster (the warps of its second block follow those of the first), which runs
// only when nothing else in the cluster can happen. A GPU may do either, and everything in between.
void set_schedule(unsigned schedule);
// Schedules that between them starve each role once: of the warps that have met others at the same places in
// the checked launches since the last call, the first; then, of all these warps, the others. No schedule 0.
std::vector<unsigned> take_schedules();

// From now on checked launches run under one order after another of what the threads of a cluster and their
// copies do at mbarriers and named barriers, on one core: a run is all launches of a call.
void explore_orders(bool on);
// A run has ended. `enough`: no further schedules, except to shorten a bad one.
OrdersRun next_order(bool enough);

// How long a thread may run without reaching anything that it could wait at, in seconds of processor time,
// until that is reported as a fault (FaultKind::no_progress). 0: for ever. The default is 10.
void set_watchdog(double seconds);

// Everything that a call of a step's function has launched has ended: in checked runs, a workspace of
// Fill::zero that is not zero again is a fault, and is cleared.
void end_of_call();

// Called before a crash in a kernel ends the program, unless it is nullptr. Must be async-signal-safe.
extern std::atomic<void (*)()> crash_hook;

// What a launch asks for. The blocks of a cluster run together, in turns, on one OS thread.
struct LaunchShape {
  const void* kernel = nullptr;  // see function_name()
  dim3 grid, block;
  std::size_t shared_bytes = 0;  // dynamic shared memory
  dim3 cluster = {1, 1, 1};
  std::uint64_t blocks() const { return std::uint64_t{grid.x} * grid.y * grid.z; }
};

// The launches that `body` makes, in order, none of which is run. Launches without blocks do not count.
std::vector<LaunchShape> launches_of(const std::function<void()>& body);

// From now on the first launch runs only the blocks in the first list (linear, x fastest; inside its grid)
// and the rest of their clusters, the second launch those in the second list, and so on; launches beyond the
// last list run nothing. nullopt: all blocks run.
void select_blocks(std::optional<std::vector<std::vector<std::uint64_t>>> of_each_launch);

// ---- Observing -----------------------------------------------------------------------------------------

enum class Space : std::uint32_t { global, shared };

struct Access {
  const void* pc;          // return address of the access; source_locations() tells the source line
  std::uintptr_t address;  // shared: byte offset into the block's shared memory
  std::uint32_t bytes;
  Space space;
  bool write;
  std::uint64_t block;   // linear, x fastest
  std::uint32_t thread;  // linear, x fastest; lane = thread % 32, warp = thread / 32
  // Changes with each barrier that the thread passes, for all threads of its warp.
  std::uint32_t epoch = 0;
  // An asynchronous copy is two accesses: a read of global memory, unless it writes zeros, and then a write
  // to shared memory, which carries the address that the copy reads, or 0.
  bool copy = false;
  std::uintptr_t source = 0;
  bool during_copies = false;  // its thread has issued asynchronous copies and not yet waited for them
};

// matrix: ldmatrix, whose lanes each give the address of a row, and get elements of others.
enum class Operation : std::uint32_t { load, store, copy, matrix };

// What a bulk copy reads, if its bytes are not contiguous: so many rows, the first of which is where the copy
// begins. Together they may have fewer bytes than the copy, the rest of which is zeros.
struct RowsRead {
  std::uint32_t count = 0, bytes = 0;  // count 0: no such rows
  std::int64_t pitch = 0;              // bytes from row to row
};

// What a warp asks of a memory at once, where the device itself knows it: by a warp-wide instruction, or by
// an asynchronous copy of a whole tile. Everything else is reported lane by lane, as an Access. A copy is two
// requests: what it reads from global memory, then what it writes to shared memory.
struct CollectiveRequest {
  const void* pc = nullptr;
  Space space = Space::shared;
  Operation operation = Operation::load;
  std::uint32_t bytes = 0;  // of a lane
  std::uint64_t block = 0;  // linear, x fastest
  std::uint32_t warp = 0;
  // Bit i: lane i takes part. 0: a bulk copy, which has no lanes: of `bytes` contiguous bytes that begin at
  // addresses[0].
  std::uint32_t active = 0;
  std::array<std::uintptr_t, 32> addresses{};  // of each lane, as in an Access
  std::uint32_t during_copies = 0;             // bit i: lane i has asynchronous copies under way
  RowsRead rows = {};                          // of a bulk copy
};

// Is told of every access of an observed kernel, by several OS threads at once; the accesses of one block
// come from one OS thread, each CUDA thread's in program order.
class AccessListener {
 public:
  virtual ~AccessListener() = default;
  virtual void on_launch(const LaunchShape&) {}  // before its first block, by the thread that launches
  virtual void on_access(const Access& access) = 0;
  virtual void on_request(const CollectiveRequest&) {}
  // After the last access of a block (linear) or a warp of it; by the OS thread that ran it.
  virtual void on_warp_end(std::uint64_t, std::uint32_t) {}
  virtual void on_block_end(std::uint64_t) {}
};

// nullptr: none. Not to be called during a launch. Works only while checking is on.
void set_listener(AccessListener* listener);

struct SourceLocation {
  std::string function;  // without its parameters, but with template arguments: "sgemm<true>"
  std::string file;      // relative to the project
  int line = 0;
};

// The source locations of the return addresses `pcs`, from the program's debug information (through
// addr2line). For code inlined from common/, the place in the step that called it. Unknown places have line
// 0.
std::vector<SourceLocation> source_locations(const std::vector<const void*>& pcs);

// The name of the function that begins at this address, as in a SourceLocation; "" if it cannot be told.
std::string function_name(const void* function);

}  // namespace cpu_device
