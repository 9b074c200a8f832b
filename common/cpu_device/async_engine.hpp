#pragma once

// Asynchronous work that belongs to the block: what is asked for is done at the latest moment that the rules
// allow, when no thread can go on without it, the oldest first.

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <utility>

#include "common/cpu_device/clocks.hpp"
#include "common/cuda/tensor_shape.hpp"

namespace cpu_device {

struct Worker;
class Mbarrier;

// What a copy brings to shared memory: rows of bytes, one right behind the other. A part of them, a
// rectangle, is read from global memory; the others become zeros.
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
  // Calls f(its first byte's offset in the copy, where it is read) for each row of the part that is read.
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
  // Copies to shared memory, then tells the mbarrier how many bytes have come.
  void copy(void* shared, const CopiedRows& rows, const void* mbarrier, unsigned thread, const void* pc);
  // Arrives at the mbarrier when all that the thread has asked async_copy() for has come.
  void arrive_after_copies(const void* mbarrier, unsigned thread, std::uint64_t copies, const void* pc);

  // Does the oldest of what it was asked for; false: there is nothing to do.
  bool act(Worker& worker);

  // All threads have exited: copies to shared memory that nobody has waited for are reported. They would come
  // into memory that may be another block's by then.
  void end_block(Worker& worker) const;

  // The thread that has asked for what an engine did at this tick.
  unsigned started_by(unsigned engine, Tick tick) const;

 private:
  struct Work {
    void* shared;  // nullptr: only arrives
    CopiedRows rows;
    std::uint64_t copies;  // of the thread's own, that must have come
    const void* mbarrier;
    unsigned thread;
    const void* pc;
  };
  std::deque<Work> waiting_;
  std::map<std::pair<unsigned, Tick>, unsigned> started_by_;  // checked launches only
};

// The running thread asks for a copy to shared memory that completes on an mbarrier; what is wrong with it is
// reported.
void start_copy(void* shared, const CopiedRows& rows, std::uint64_t* barrier, const void* pc);

}  // namespace cpu_device
