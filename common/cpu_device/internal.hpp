#pragma once

// What the parts of the CPU device share among themselves.

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

#include "common/cpu_device/cpu_device.hpp"
#include "common/cpu_device/member_names.hpp"

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

enum class State : std::uint8_t { ready, at_block_barrier, at_warp_barrier, exited };

struct Thread {  // one CUDA thread
  boost::context::detail::fcontext_t context = nullptr;
  int stack = -1;  // index in the worker's stacks while the thread is alive
  State state = State::ready;
  int barrier_line = 0;  // where it waits
  const void* barrier_pc = nullptr;
};

class SharedShadow;

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
  unsigned groups = 0;  // closed so far
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
  std::atomic<std::uint64_t> next_block{0};
  std::atomic<bool> stop{false};  // a fault after which the kernel cannot go on
};

// One OS thread at work on a launch, with the block that it runs.
struct Worker {
  Launch* launch = nullptr;
  std::vector<Thread> threads;            // of the block
  std::vector<AsyncCopies> async_copies;  // of the threads
  boost::context::detail::fcontext_t scheduler = nullptr;
  unsigned current = 0;     // the running thread
  std::uint64_t block = 0;  // linear
  // And some slack, so that an overrun stays harmless.
  std::vector<std::byte, SharedAllocator> dynamic_shared;
  const Shape* dynamic_shape = nullptr;  // what a kernel has seen there
  std::vector<DynamicPart> dynamic_parts;
  std::byte* tls = nullptr;              // tls_base()
  std::unique_ptr<SharedShadow> shadow;  // checked launches only
  const char* stack_bottom = nullptr;    // of the running fiber
  const char* stack_top = nullptr;
};

// nullptr outside a launch. constinit spares every use a look at whether it has been initialised.
extern constinit thread_local Worker* current_worker;

// Ends the running CUDA thread, and with it the launch, after a fault it cannot survive.
[[noreturn]] void stop_launch();

// ---- faults.cpp ------------------------------------------------------------------------------------------

// Records a fault of the running CUDA thread at the return address `pc`.
void report(FaultKind kind, const void* pc, std::string detail);
// The same for thread number `thread` of the block, where the running fiber is not the culprit.
void report(FaultKind kind, const void* pc, std::string detail, const Worker& worker, unsigned thread);

// True if this fault was reported at this place before, and counts it: spares making the message.
bool reported_before(FaultKind kind, const void* pc);

std::string thread_name(const Worker& worker, unsigned thread);  // "thread (3,0,0)"
std::string block_name(const dim3& grid, std::uint64_t linear);  // "block (1,0,0)"

// "file:line" of a return address.
std::string place_of(const void* pc);

// ---- shared_memory.cpp -----------------------------------------------------------------------------------

// A __shared__ variable: on the CPU device a thread-local of the program, found in its symbol table.
struct SharedVariable {
  std::string name;        // "As"
  std::size_t tls_offset;  // from tls_base()
  std::size_t bytes;
};

const std::vector<SharedVariable>& shared_variables();  // sorted by offset
std::byte* tls_base();                                  // of this OS thread
std::size_t tls_bytes();  // dynamic shared memory has the byte offsets from here on, as aligned as it is

// Fills the block's shared memory with a NaN pattern: what it held before is no concern of this block.
void poison_shared(Worker& worker);

// ---- observer.cpp ----------------------------------------------------------------------------------------

// Checks an access of the running CUDA thread, and tells the listener. Checked launches only.
void observe(std::uintptr_t address, unsigned bytes, bool write, const void* pc);
// The same for the start of an asynchronous copy. Not `valid`: it writes zeros and reads nothing.
void observe_copy(const void* shared, const void* global, unsigned bytes, bool valid, const void* pc);
void tell_launch(const LaunchShape& shape);
void tell_warp_end(std::uint64_t block, std::uint32_t warp);
void tell_block_end(std::uint64_t block);
// A write to shared memory that the listener was told of before.
void check_shared_write(const void* shared, unsigned bytes, const void* pc);
// Whether an asynchronous copy to this place is under way: then nobody may touch it.
void mark_pending(const void* shared, unsigned bytes, bool pending);

// ---- race.cpp --------------------------------------------------------------------------------------------

// Who touched each word of the block's shared memory since when; one per worker.
class SharedShadow {
 public:
  explicit SharedShadow(std::size_t words, unsigned warps);
  void new_block();                   // everything becomes uninitialised
  void block_barrier() { ++epoch_; }  // all threads passed a __syncthreads
  void warp_barrier(unsigned warp) { ++warp_epoch_[warp]; }
  std::uint32_t epoch_of_warp(unsigned warp) const { return epoch_ + warp_epoch_[warp]; }
  std::uint32_t barriers_passed() const { return epoch_ - first_epoch_; }

  // An access to word number `word` by `thread`. Reports races and reads of words nobody wrote.
  // `name` says what the word is, for the message; it is asked only in case of a fault.
  void access(std::size_t word, unsigned thread, bool write, const void* pc, std::size_t offset);

  void mark_pending(std::size_t word, bool pending) { words_[word].pending_in = pending ? first_epoch_ : 0; }

 private:
  struct Event {
    std::uint32_t epoch = 0;  // 0: none
    std::uint32_t warp_epoch = 0;
    std::uint32_t thread = 0;
    const void* pc = nullptr;
  };
  struct Word {
    Event write;
    Event reader;                  // the latest
    Event reader_same_warp;        // the latest by another thread of that warp
    Event reader_other_warp;       // the latest by another warp than that
    std::uint32_t pending_in = 0;  // first_epoch_ of the block that is copying here asynchronously
  };
  bool ordered(const Event& earlier, unsigned thread) const;
  void conflict(const Event& earlier, bool earlier_wrote, unsigned thread, bool write, const void* pc,
                std::size_t offset) const;

  std::vector<Word> words_;
  std::vector<std::uint32_t> warp_epoch_;
  std::uint32_t epoch_ = 0;
  std::uint32_t first_epoch_ = 1;  // of this block
};

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
void forget_global_accesses();                         // at the start of a launch
std::string describe_nearest(std::uintptr_t address);  // for an address in no allocation
// The matrix of describe() at an address, or before or after it in its allocation.
NamedArray global_array_at(std::uintptr_t address);

}  // namespace cpu_device
