#pragma once

// What the parts of the CPU device share among themselves.

#include <array>
#include <atomic>
#include <boost/context/detail/fcontext.hpp>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/cpu_device/async_engine.hpp"
#include "common/cpu_device/clocks.hpp"
#include "common/cpu_device/cpu_device.hpp"
#include "common/cpu_device/grid_flags.hpp"
#include "common/cpu_device/grid_order.hpp"
#include "common/cpu_device/member_names.hpp"
#include "common/cpu_device/race.hpp"
#include "common/cpu_device/sync.hpp"

namespace cpu_device {

// The index of element `linear`, x fastest.
inline dim3 unflatten(std::uint64_t linear, const dim3& extent) {
  return {static_cast<unsigned>(linear % extent.x), static_cast<unsigned>(linear / extent.x % extent.y),
          static_cast<unsigned>(linear / extent.x / extent.y)};
}

// ---- limits.cpp ------------------------------------------------------------------------------------------

constexpr unsigned max_threads_per_block = 1024;

// Throws a std::invalid_argument that names the exceeded limit if no GPU could launch this.
void check_limits(const LaunchConfig& config);

// ---- member_names.cpp ------------------------------------------------------------------------------------

// A part of dynamic shared memory for which a kernel has a name: a member that is not itself a struct, in
// every element of the arrays around it, or the elements of a member that is an array.
struct DynamicPart {
  struct Index {
    std::size_t after;  // that many characters of the name
    std::size_t extent, pitch;
  };
  std::string name;            // "Tiles::A", "Ring::stages.A"
  std::vector<Index> indices;  // into the arrays, outermost first
  std::size_t begin = 0;       // of the first of them
  std::size_t bytes = 0;       // of each

  // Where in the part a byte of dynamic shared memory lies, with its indices in `which`; nullopt: elsewhere.
  std::optional<std::size_t> offset_of(std::size_t byte, std::vector<std::size_t>* which = nullptr) const;
  std::string name_with(const std::vector<std::size_t>& which) const;  // "Ring::stages[2].A[7][96]"
};

std::vector<DynamicPart> parts_of(const Shape& shape);

// ---- scheduler.cpp ---------------------------------------------------------------------------------------

struct Thread {  // one CUDA thread
  boost::context::detail::fcontext_t context = nullptr;
  int stack = -1;  // its index in the worker's stacks while the thread is alive
  Wait wait;
};

constexpr std::size_t shared_slack = 4096;

// The largest alignment that a kernel may ask of its dynamic shared memory.
constexpr std::size_t shared_alignment = 1024;

struct SharedAllocator {
  using value_type = std::byte;
  template <typename>
  struct rebind {
    using other = SharedAllocator;
  };
  std::byte* allocate(std::size_t bytes) {
    return static_cast<std::byte*>(::operator new(bytes, std::align_val_t{shared_alignment}));
  }
  void deallocate(std::byte* memory, std::size_t) {
    ::operator delete(memory, std::align_val_t{shared_alignment});
  }
  bool operator==(const SharedAllocator&) const = default;
};

// The asynchronous copies that a thread has issued and not waited for, oldest first.
struct AsyncCopies {
  struct Copy {
    void* shared;
    const void* global;  // nullptr: zeros
    unsigned bytes;
    unsigned group;
    const void* pc;
  };
  std::vector<Copy> waiting;
  unsigned groups = 0;      // closed so far
  std::uint64_t asked = 0;  // copies so far
};

struct TensorMap;  // see tensor_copy.hpp

// The box that a tensor map's copy is about to fill, for reports.
struct BoxPlace {
  const TensorMap* map;
  int row, col, matrix;
  std::string text() const;  // "the box of 64 x 32 at row 128, column 256 of A"
};

// A __shared__ variable: on the CPU device a thread_local of the program, found in its symbol table.
struct SharedVariable {
  std::string name;        // "As"
  std::size_t tls_offset;  // from tls_base()
  std::size_t bytes;
};

// A fault whose place has yet to be looked up.
struct Recorded {
  Fault fault;
  const void* pc;
  const void* kernel;
  unsigned thread;
};

struct Launch {
  const void* kernel;
  dim3 grid, block;
  unsigned threads_per_block;
  std::size_t shared_bytes;
  KernelBody body;
  const void* arguments;
  bool checked;
  std::vector<std::uint64_t> selected;  // the blocks to run, unless `all`
  bool all = true;
  std::uint64_t next = 0;  // how many blocks have been started; see next_block()
  // The first block in which the kernel could not go on after a fault. Those before it run to completion, so
  // that reports do not depend on which core was faster.
  std::atomic<std::uint64_t> stop_after{~std::uint64_t{0}};
  GridFlags flags{};
  AtomicObjects atomic_objects{};  // checked launches only
};

struct Allocation;  // see memory.cpp

// An OS thread that works on a launch, with the block that it is running.
struct Worker {
  Launch* launch = nullptr;
  std::vector<Thread> threads;            // of the block
  std::vector<AsyncCopies> async_copies;  // of the threads
  boost::context::detail::fcontext_t scheduler = nullptr;
  unsigned current = 0;     // the running thread
  std::uint64_t block = 0;  // linear
  // For each warp; bit i is lane i.
  std::vector<std::uint32_t> ready;       // can run, before the next warp does
  std::vector<std::uint32_t> ready_next;  // can run when all warps have had their turn
  std::vector<std::uint32_t> exited;      // or never existed
  std::vector<std::uint32_t> passed;  // not bits: barriers that all of the warp's lanes have passed together
  unsigned alive = 0;                 // threads
  bool ended = false;                 // by a fault that it cannot survive
  std::uint64_t progress = 0;         // synchronisations so far
  unsigned flag_waits = 0;            // threads waiting for a flag
  SyncObjects sync;
  AsyncEngine engine;
  // With some slack, so that an overrun stays harmless.
  std::vector<std::byte, SharedAllocator> dynamic_shared;
  const Shape* dynamic_shape = nullptr;  // as which a kernel sees it
  std::vector<DynamicPart> dynamic_parts;
  std::byte* tls = nullptr;                                // tls_base()
  std::size_t tls_bytes = 0;                               // tls_bytes()
  const std::vector<SharedVariable>* variables = nullptr;  // shared_variables()
  std::unique_ptr<Clocks> clocks;                          // checked launches only
  std::unique_ptr<SharedShadow> shadow;                    // likewise
  std::unique_ptr<GridOrder> grid_order;                   // likewise
  std::array<Allocation*, 4> allocations{};                // the latest accessed, most recent first
  std::vector<Recorded> faults;                            // of the block, in program order
  const BoxPlace* box = nullptr;                           // that the running thread asks for; faults name it
  const char* stack_bottom = nullptr;                      // of the running fiber
  const char* stack_top = nullptr;
};

// nullptr outside a launch. constinit saves every use a check whether it has been initialised.
extern constinit thread_local Worker* current_worker;

// Suspends the running thread, whose `wait` says what for, until it is woken, which may have happened
// already.
void wait_for_wake(Worker& worker);
// Makes a waiting thread ready to run: at once, or when all warps have had their turn. The former is for
// lanes of a warp that wait for each other.
void wake(Worker& worker, unsigned thread, bool at_once);

// Whether launches_of() is running, so that launches run nothing.
bool launches_are_noted();

// Ends the running CUDA thread, and with it the launch, after a fault that it cannot survive.
[[noreturn]] void stop_launch();

// ---- faults.cpp ------------------------------------------------------------------------------------------

// Records a fault of the running CUDA thread at the return address `pc`.
void report(FaultKind kind, const void* pc, std::string detail);
// The same for thread `thread` of the block, when the running fiber is not the culprit.
void report(FaultKind kind, const void* pc, std::string detail, const Worker& worker, unsigned thread);
// The same for a thread of a later block, which another OS thread runs or has run; also at the end of the
// launch.
void report_later_block(const Launch& launch, FaultKind kind, const void* pc, std::string detail,
                        std::uint64_t block, unsigned thread);

// Whether this fault has been reported at this place before; if so, counts it. Saves making the message.
bool reported_before(FaultKind kind, const void* pc);

// Faults are reported as if the blocks had run one after the other: a block's faults are held back until all
// blocks before it have finished. Gives the worker its next block; returns false if there is none, or the
// launch has been ended.
bool next_block(Worker& worker, std::uint64_t blocks);
void end_block_faults(Worker& worker);
// When it returns, all blocks with a lower number that run at all have finished. None of them waits for this
// one.
void wait_for_blocks_before(const Worker& worker);
void end_launch_faults(const Launch& launch);

std::string thread_name(const Worker& worker, unsigned thread);  // "thread (3,0,0)"
std::string block_name(const dim3& grid, std::uint64_t linear);  // "block (1,0,0)"

// "file:line" of a return address.
std::string place_of(const void* pc);

// ---- shared_memory.cpp -----------------------------------------------------------------------------------

const std::vector<SharedVariable>& shared_variables();  // sorted by offset
std::byte* tls_base();                                  // of this OS thread
std::size_t tls_bytes();  // byte offsets from here on are those of dynamic shared memory, with its alignment

// Fills the block's shared memory with a NaN pattern, as this block must not see what it held before.
void poison_shared(Worker& worker);

// ---- observer.cpp ----------------------------------------------------------------------------------------

// Checks an access of the running CUDA thread and tells the listener. Checked launches only.
void observe(std::uintptr_t address, unsigned bytes, bool write, const void* pc);
// Only checks: the listener is told in another way, or not at all.
void check_memory(std::uintptr_t address, unsigned bytes, bool write, const void* pc);
// Like observe(), for the start of an asynchronous copy. Not `valid`: it writes zeros and reads nothing.
void observe_copy(const void* shared, const void* global, unsigned bytes, bool valid, const void* pc);
void tell_launch(const LaunchShape& shape);
void tell_warp_end(std::uint64_t block, std::uint32_t warp);
void tell_block_end(std::uint64_t block);
void tell_request(const CollectiveRequest& request);
// An atomic operation on 4 bytes, which reads before it writes, or only writes. Returns true if it is on
// global memory in a checked launch; otherwise there is nothing to observe. Ends the launch if the operation
// is not possible.
bool observe_atomic(const void* address, bool reads, const void* pc);
// A write to shared memory of which the listener has been told.
void check_shared_write(const void* shared, unsigned bytes, const void* pc);
// Marks that an asynchronous copy to this place is in flight, so that nobody may touch it, or no longer is.
void mark_pending(const void* shared, unsigned bytes, bool pending);
// An engine has filled this place.
void fill_shared(const void* shared, unsigned bytes, unsigned engine, Tick tick, const void* pc);
// Whether an address lies in the block's shared memory, or just past the end of a part of it.
bool is_shared(const void* address);
// The byte offset of an address in shared memory, as in an Access.
std::size_t shared_offset(const void* shared);
// Where the running CUDA thread finds `bytes` bytes at an address (in shared memory a byte offset, as in an
// Access); nullptr if they are in no allocation.
const std::byte* readable(Space space, std::uintptr_t address, unsigned bytes);
// Fills memory with the NaN that stands for what has not arrived or has never been written.
void poison(void* begin, std::size_t bytes);

// ---- async_copy.cpp --------------------------------------------------------------------------------------

// The thread's own copies up to this number arrive; `by_engine`: for an mbarrier that waits for them.
void finish_copies(Worker& worker, unsigned thread, std::uint64_t number, const Mbarrier* by_engine,
                   Tick tick);

// ---- What shared memory holds ----------------------------------------------------------------------------

// Describes a byte offset in shared memory (dynamic shared memory follows the variables).
std::string describe_shared(std::size_t offset);

// An array for which a kernel has a name. The name lives as long as the array.
struct NamedArray {
  std::string_view name;     // "A", "As"
  std::uintptr_t begin = 0;  // like addresses in an Access
};
// The variable, or the part of dynamic shared memory ("dynamic" if it has no names). Only in a running CUDA
// thread.
NamedArray shared_array_at(std::size_t offset);

// ---- memory.cpp ------------------------------------------------------------------------------------------

// Checks an access of an observed kernel to global memory: bounds, permissions, races between threads.
// Returns false if the address is in no allocation.
bool check_global(std::uintptr_t address, unsigned bytes, bool write, const void* pc);
// The same for an atomic operation on a word; these do not race with each other.
bool check_global_atomic(std::uintptr_t address, bool reads, const void* pc);
// An engine has read this; checks only for races.
void note_engine_read(std::uintptr_t address, unsigned bytes, unsigned engine, Tick tick, const void* pc);
bool is_allocated(std::uintptr_t address, unsigned bytes);
void forget_global_accesses();                         // at the start of a launch
std::string describe_nearest(std::uintptr_t address);  // for an address in no allocation
std::string describe_global(std::uintptr_t address);   // "A[3][80]"
// The described matrix at an address, or before or after it in its allocation.
NamedArray global_array_at(std::uintptr_t address);

}  // namespace cpu_device
