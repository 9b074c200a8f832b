#pragma once

// Asynchronous work of a block: it is done at the latest moment that the rules allow, when no thread of the
// cluster can go on without it, oldest first. Bulk stores are elsewhere: bulk_stores.hpp.

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <utility>

#include "common/cpu_device/clocks.hpp"
#include "common/cpu_device/cluster_memory.hpp"
#include "common/cpu_device/order_tree.hpp"
#include "common/cuda/tensor_shape.hpp"

namespace cpu_device {

struct Block;
class Mbarrier;

// What a copy brings to shared memory: contiguous rows of bytes. A part of them, a rectangle, is read from
// global memory; the rest becomes zeros.
struct CopiedRows {
  std::uint32_t rows = 1, row_bytes = 0;
  struct Part {
    std::uint32_t first_row = 0, rows = 0, first_byte = 0, row_bytes = 0;
    const std::byte* source = nullptr;  // its first byte
    std::int64_t pitch = 0;             // bytes from row to row in global memory
  } read;
  Swizzle swizzle = Swizzle::none;
  Convert convert = Convert::nothing;

  std::uint32_t bytes() const { return rows * row_bytes; }
  // Calls f(offset in the copy, address in global memory) for each row of the part that is read.
  template <typename F>
  void for_rows_read(F f) const {
    for (std::uint32_t i = 0; i < read.rows; ++i) {
      f(std::size_t{read.first_row + i} * row_bytes + read.first_byte,
        read.source + static_cast<std::int64_t>(i) * read.pitch);
    }
  }
};

class AsyncEngine {
 public:
  void new_block();
  // Copies to shared memory, then tells the mbarrier how many bytes have arrived.
  void copy(const CopyTarget& target, const CopiedRows& rows, unsigned thread, const void* pc);
  // Arrives at the mbarrier when everything that the thread has issued with async_copy() has arrived.
  void arrive_after_copies(const CopyTarget& target, unsigned thread, std::uint64_t copies, const void* pc);

  // Does a pending work, the oldest first; returns false if there is none.
  bool act(Block& block, std::size_t at = 0);

  // All threads have exited: reports copies to shared memory that nobody has waited for. They would arrive in
  // memory that may belong to another block by then.
  void end_block(Block& block) const;

  // The thread, as an actor, that issued what one of the block's engines did at this tick.
  unsigned started_by(unsigned engine, Tick tick) const;

  struct Work {
    CopyTarget target;  // no `shared`: only arrives
    CopiedRows rows;
    std::uint64_t copies;  // of the thread's own that must have arrived
    unsigned thread;
    const void* pc;
    // Where orders are explored:
    unsigned number = 0;  // of those of its thread
    Moves before = {};    // its request
  };
  const std::deque<Work>& waiting() const { return waiting_; }

 private:
  void add(Work work);
  static void report_outliving(const Work& work);
  std::deque<Work> waiting_;
  std::map<unsigned, unsigned> asked_;                        // by thread
  std::map<std::pair<unsigned, Tick>, unsigned> started_by_;  // checked launches only
};

// ---- async_copy.cpp --------------------------------------------------------------------------------------

// The thread's own copies up to this number arrive; `by_engine`: for an mbarrier that waits for them.
void finish_copies(Block& block, unsigned thread, std::uint64_t number, const Mbarrier* by_engine, Tick tick);

// The thread leaves the kernel: what it has not waited for reads nothing later than this.
void abandon_copies(Block& block, unsigned thread);

// ---- async_engine.cpp ------------------------------------------------------------------------------------

// The running thread issues a copy to shared memory that completes on an mbarrier. Reports what is wrong with
// it.
void start_copy(const std::vector<CopyTarget>& targets, const CopiedRows& rows, const void* pc);

}  // namespace cpu_device
