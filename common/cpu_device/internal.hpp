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

// The index that has number `linear`, x fastest.
inline dim3 unflatten(std::uint64_t linear, const dim3& extent) {
  return {static_cast<unsigned>(linear % extent.x), static_cast<unsigned>(linear / extent.x % extent.y),
          static_cast<unsigned>(linear / extent.x / extent.y)};
}

// ---- limits.cpp ------------------------------------------------------------------------------------------

constexpr unsigned max_threads_per_block = 1024;

// Throws std::invalid_argument, with the limit that is broken, if no GPU could launch this.
void check_limits(const LaunchConfig& config);

// ---- member_names.cpp ------------------------------------------------------------------------------------

// A part of dynamic shared memory that a kernel knows by a name: a member that is no struct itself, in each
// element of the arrays of structs around it.
struct DynamicPart {
  struct Index {
    std::size_t after;  // so many letters of the name
    std::size_t extent, pitch;
  };
  std::string name;            // "Tiles::A", "Ring::stages.A"
  std::vector<Index> indices;  // of the arrays of structs, outermost first
  std::size_t begin = 0;       // of the first of them
  std::size_t bytes = 0;       // of each

  // Where in the part a byte of dynamic shared memory lies, and in `which`; nullopt: elsewhere.
  std::optional<std::size_t> offset_of(std::size_t byte, std::vector<std::size_t>* which = nullptr) const;
  std::string name_with(const std::vector<std::size_t>& which) const;  // "Ring::stages[2].A"
};

std::vector<DynamicPart> parts_of(const Shape& shape);

// ---- scheduler.cpp ---------------------------------------------------------------------------------------

struct Thread {  // one CUDA thread
  boost::context::detail::fcontext_t context = nullptr;
  int stack = -1;  // index in the worker's stacks while the thread is alive
  Wait wait;
};

constexpr std::size_t shared_slack = 4096;

// The most that a kernel may want its dynamic shared memory to be aligned to.
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

// The asynchronous copies that a thread has asked for and not waited for, oldest first.
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

// A box that a tensor map's copy is about to fill: for reports.
struct BoxPlace {
  const TensorMap* map;
  int row, col, matrix;
  std::string text() const;  // "the box of 64 x 32 at row 128, column 256 of A"
};

// A __shared__ variable: on the CPU device a thread-local of the program, found in its symbol table.
struct SharedVariable {
  std::string name;        // "As"
  std::size_t tls_offset;  // from tls_base()
  std::size_t bytes;
};

// A fault whose place is still to be looked up.
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
  std::vector<std::uint64_t> selected;  // the blocks to run, if not `all`
  bool all = true;
  std::uint64_t next = 0;  // how many blocks have begun; see next_block()
  // The first block in which the kernel could not go on after a fault. Those before it run to their end, so
  // that what is reported does not depend on which core was faster.
  std::atomic<std::uint64_t> stop_after{~std::uint64_t{0}};
  GridFlags flags{};
  AtomicObjects atomic_objects{};  // checked launches only
};

struct Allocation;  // see memory.cpp

// One OS thread at work on a launch, with the block that it runs.
struct Worker {
  Launch* launch = nullptr;
  std::vector<Thread> threads;            // of the block
  std::vector<AsyncCopies> async_copies;  // of the threads
  boost::context::detail::fcontext_t scheduler = nullptr;
  unsigned current = 0;     // the running thread
  std::uint64_t block = 0;  // linear
  // Of each warp's lanes: bit i is lane i.
  std::vector<std::uint32_t> ready;       // can run, and do so before the next warp does
  std::vector<std::uint32_t> ready_next;  // can run, once all warps had their turn
  std::vector<std::uint32_t> exited;      // or never were
  std::vector<std::uint32_t> passed;      // barriers, all of the warp's lanes together; not bits
  unsigned alive = 0;                     // threads
  bool ended = false;                     // by a fault it cannot survive
  std::uint64_t progress = 0;             // synchronisations so far
  unsigned flag_waits = 0;                // threads that wait for a flag
  SyncObjects sync;
  AsyncEngine engine;
  // And some slack, so that an overrun stays harmless.
  std::vector<std::byte, SharedAllocator> dynamic_shared;
  const Shape* dynamic_shape = nullptr;  // what a kernel has seen there
  std::vector<DynamicPart> dynamic_parts;
  std::byte* tls = nullptr;                                // tls_base()
  std::size_t tls_bytes = 0;                               // tls_bytes()
  const std::vector<SharedVariable>* variables = nullptr;  // shared_variables()
  std::unique_ptr<Clocks> clocks;                          // checked launches only
  std::unique_ptr<SharedShadow> shadow;                    // likewise
  std::unique_ptr<GridOrder> grid_order;                   // likewise
  std::array<Allocation*, 4> allocations{};                // that were accessed, the latest first
  std::vector<Recorded> faults;                            // of the block, in its order
  const BoxPlace* box = nullptr;                           // that the running thread asks for: faults name it
  const char* stack_bottom = nullptr;                      // of the running fiber
  const char* stack_top = nullptr;
};

// nullptr outside a launch. constinit spares every use a look at whether it has been initialised.
extern constinit thread_local Worker* current_worker;

// Suspends the running thread, whose `wait` says for what, until it is woken; which may have happened
// already.
void wait_for_wake(Worker& worker);
// A thread that waits can run: at once, or when all warps have had their turn. The first is for lanes of a
// warp that wait for each other.
void wake(Worker& worker, unsigned thread, bool at_once);

// Whether launches_of() is at work: launches run nothing.
bool launches_are_noted();

// Ends the running CUDA thread, and with it the launch, after a fault it cannot survive.
[[noreturn]] void stop_launch();

// ---- faults.cpp ------------------------------------------------------------------------------------------

// Records a fault of the running CUDA thread at the return address `pc`.
void report(FaultKind kind, const void* pc, std::string detail);
// The same for thread number `thread` of the block, where the running fiber is not the culprit.
void report(FaultKind kind, const void* pc, std::string detail, const Worker& worker, unsigned thread);
// The same for a thread of a later block that another OS thread runs or has run, or at the end of the launch.
void report_later_block(const Launch& launch, FaultKind kind, const void* pc, std::string detail,
                        std::uint64_t block, unsigned thread);

// True if this fault was reported at this place before, and counts it: spares making the message.
bool reported_before(FaultKind kind, const void* pc);

// What is reported is as if the blocks had run one after the other: what a block does wrong is kept apart
// until all blocks before it have come to their end. Gives the worker its next block; false: there is none,
// or none is needed as the launch has been ended.
bool next_block(Worker& worker, std::uint64_t blocks);
void end_block_faults(Worker& worker);
// All blocks with a lower number, as far as they run at all, have ended when it returns. None of them waits
// for this one.
void wait_for_blocks_before(const Worker& worker);
void end_launch_faults(const Launch& launch);

std::string thread_name(const Worker& worker, unsigned thread);  // "thread (3,0,0)"
std::string block_name(const dim3& grid, std::uint64_t linear);  // "block (1,0,0)"

// "file:line" of a return address.
std::string place_of(const void* pc);

// ---- shared_memory.cpp -----------------------------------------------------------------------------------

const std::vector<SharedVariable>& shared_variables();  // sorted by offset
std::byte* tls_base();                                  // of this OS thread
std::size_t tls_bytes();  // dynamic shared memory has the byte offsets from here on, as aligned as it is

// Fills the block's shared memory with a NaN pattern: what it held before is no concern of this block.
void poison_shared(Worker& worker);

// ---- observer.cpp ----------------------------------------------------------------------------------------

// Checks an access of the running CUDA thread, and tells the listener. Checked launches only.
void observe(std::uintptr_t address, unsigned bytes, bool write, const void* pc);
// The same for an access that the listener is told of otherwise, or not at all.
void check_memory(std::uintptr_t address, unsigned bytes, bool write, const void* pc);
// The same for the start of an asynchronous copy. Not `valid`: it writes zeros and reads nothing.
void observe_copy(const void* shared, const void* global, unsigned bytes, bool valid, const void* pc);
void tell_launch(const LaunchShape& shape);
void tell_warp_end(std::uint64_t block, std::uint32_t warp);
void tell_block_end(std::uint64_t block);
void tell_request(const CollectiveRequest& request);
// An atomic operation on 4 bytes, which reads before it writes, or only writes. True if it is one on global
// memory in a checked launch; false: there is nothing to observe. Ends the launch if it is not possible.
bool observe_atomic(const void* address, bool reads, const void* pc);
// A write to shared memory that the listener was told of before.
void check_shared_write(const void* shared, unsigned bytes, const void* pc);
// Whether an asynchronous copy to this place is under way: then nobody may touch it.
void mark_pending(const void* shared, unsigned bytes, bool pending);
// An engine has filled this place.
void fill_shared(const void* shared, unsigned bytes, unsigned engine, Tick tick, const void* pc);
// Whether an address lies in the block's shared memory, or right behind a part of it.
bool is_shared(const void* address);
// The byte offset of an address in shared memory, as an Access has it.
std::size_t shared_offset(const void* shared);
// What a running CUDA thread can read of `bytes` bytes at an address, of shared memory at a byte offset as an
// Access has it; nullptr if they are in no allocation.
const std::byte* readable(Space space, std::uintptr_t address, unsigned bytes);
// Fills memory with the NaN that stands for what has not arrived or was never written.
void poison(void* begin, std::size_t bytes);

// ---- async_copy.cpp --------------------------------------------------------------------------------------

// The thread's own copies up to this number arrive; by an engine, where one has waited for them.
void finish_copies(Worker& worker, unsigned thread, std::uint64_t number, const Mbarrier* by_engine,
                   Tick tick);

// ---- What shared memory holds ----------------------------------------------------------------------------

// What lies at a byte offset into shared memory (dynamic shared memory follows the variables).
std::string describe_shared(std::size_t offset);

// An array that a kernel knows by a name. The name lives as long as the array.
struct NamedArray {
  std::string_view name;     // "A", "As"
  std::uintptr_t begin = 0;  // as addresses in an Access
};
// The variable, or the part of dynamic shared memory ("dynamic" if it has no names). On a running CUDA
// thread.
NamedArray shared_array_at(std::size_t offset);

// ---- memory.cpp ------------------------------------------------------------------------------------------

// Checks one access to global memory of an observed kernel: bounds, permissions, races between threads.
// Returns false if the address is in no allocation.
bool check_global(std::uintptr_t address, unsigned bytes, bool write, const void* pc);
// The same for an atomic operation on a word, which does not race with others.
bool check_global_atomic(std::uintptr_t address, bool reads, const void* pc);
// An engine has read this; only what orders it is checked.
void note_engine_read(std::uintptr_t address, unsigned bytes, unsigned engine, Tick tick, const void* pc);
bool is_allocated(std::uintptr_t address, unsigned bytes);
void forget_global_accesses();                         // at the start of a launch
std::string describe_nearest(std::uintptr_t address);  // for an address in no allocation
std::string describe_global(std::uintptr_t address);   // what is there: "A[3][80]"
// The matrix of describe() at an address, or before or after it in its allocation.
NamedArray global_array_at(std::uintptr_t address);

}  // namespace cpu_device
