#include "common/cpu_device/async_engine.hpp"

#include <cstring>
#include <vector>

#include "common/cpu_device/bulk_copy.hpp"
#include "common/cpu_device/bulk_stores.hpp"
#include "common/cpu_device/cluster.hpp"
#include "common/cpu_device/global_memory.hpp"
#include "common/cpu_device/observe.hpp"
#include "common/cpu_device/orders.hpp"

namespace cpu_device {

namespace {

// As a TFLOAT32 tensor map does on an H200: to nearest, ties to even; every NaN becomes the same one.
void round_to_tf32(std::byte* floats, std::uint32_t bytes) {
  for (std::uint32_t at = 0; at < bytes; at += sizeof(float)) {
    std::uint32_t bits;
    std::memcpy(&bits, floats + at, sizeof bits);
    const bool is_nan = (bits & 0x7fffffff) > 0x7f800000;
    bits = is_nan ? 0x7fffe000 : (bits + 0xfff + (bits >> 13 & 1)) & 0xffffe000;
    std::memcpy(floats + at, &bits, sizeof bits);
  }
}

// Puts a copy's bytes where the swizzle has them; `shared` is aligned as it wants.
void put(void* shared, const CopiedRows& rows, const std::byte* bytes) {
  constexpr std::uint32_t group = 16;
  auto* to = static_cast<std::byte*>(shared);
  for (std::uint32_t at = 0; at < rows.bytes(); at += group) {
    std::memcpy(to + swizzled(rows.swizzle, at), bytes + at, group);
  }
}

}  // namespace

void AsyncEngine::new_block() {
  waiting_.clear();
  asked_.clear();
  started_by_.clear();
}

void AsyncEngine::copy(const CopyTarget& target, const CopiedRows& rows, unsigned thread, const void* pc) {
  add({target, rows, 0, thread, pc});
}

void AsyncEngine::arrive_after_copies(const CopyTarget& target, unsigned thread, std::uint64_t copies,
                                      const void* pc) {
  add({target, {}, copies, thread, pc});
}

void AsyncEngine::add(Work work) {
  if (const Orders* orders = current_block->cluster.orders) {
    work.number = asked_[work.thread]++;
    work.before = orders->past_of_running();
  }
  waiting_.push_back(std::move(work));
}

unsigned AsyncEngine::started_by(unsigned engine, Tick tick) const {
  const auto found = started_by_.find({engine, tick});
  return found == started_by_.end() ? 0 : found->second;
}

bool AsyncEngine::act(Block& block, std::size_t at) {
  if (waiting_.empty()) return false;
  const Work work = waiting_[at];
  waiting_.erase(waiting_.begin() + static_cast<std::ptrdiff_t>(at));
  block.current = work.thread;  // blame whoever issued it
  Block& target = *work.target.block;
  if (target.alive == 0) {
    report_outliving(work);
    return true;
  }
  const auto found = target.sync.mbarriers.find(work.target.mbarrier);
  if (found == target.sync.mbarriers.end()) {
    report(FaultKind::mbarrier_misuse, work.pc,
           "was to complete on an mbarrier that has been invalidated since");
    return true;
  }
  Mbarrier& b = found->second;
  Tick tick = 0;
  if (block.clocks) {
    tick = block.clocks->engine_release(b.engine, b.arrivals);
    target.engine.started_by_[{b.engine, tick}] = block.actor(work.thread);
  }
  if (work.target.shared == nullptr) {
    finish_copies(block, work.thread, work.copies, &b, tick);
    if (b.pending == 0) {
      report(FaultKind::mbarrier_misuse, work.pc,
             "has its copies arrive at " + b.name() + ", at which all arrivals of the phase have been");
      return true;
    }
    b.arrive(block, work.pc);
    return true;
  }
  const CopiedRows& rows = work.rows;
  const bool in_place = rows.swizzle == Swizzle::none;
  std::vector<std::byte> elsewhere(in_place ? 0 : rows.bytes());
  std::byte* to = in_place ? static_cast<std::byte*>(work.target.shared) : elsewhere.data();
  std::memset(to, 0, rows.bytes());
  rows.for_rows_read([&](std::size_t offset, const std::byte* source) {
    std::memcpy(to + offset, source, rows.read.row_bytes);
    if (rows.convert == Convert::to_tf32) round_to_tf32(to + offset, rows.read.row_bytes);
    if (block.clocks) {
      finish_global(reinterpret_cast<std::uintptr_t>(source), rows.read.row_bytes, false,
                    block.actor(work.thread), b.engine, tick, work.pc);
    }
  });
  if (!in_place) put(work.target.shared, rows, to);
  if (block.clocks) fill_shared(work.target.shared, rows.bytes(), b.engine, tick, false, work.pc);
  b.deliver(target, rows.bytes(), work.pc);
  return true;
}

void AsyncEngine::report_outliving(const Work& work) {
  report(FaultKind::copy_outlives_block, work.pc,
         "asked for " + std::to_string(work.rows.bytes()) +
             " bytes that nobody has waited for when the block ends; they may come into shared memory that "
             "is another block's by then");
}

void AsyncEngine::end_block(Block& block) const {
  for (const Work& work : waiting_) {
    if (work.target.shared == nullptr) continue;
    block.current = work.thread;
    report_outliving(work);
  }
}

CopiedRows bulk_rows(const void* shared, const void* global, std::uint32_t bytes, bool stores,
                     const void* pc) {
  const auto in_global = reinterpret_cast<std::uintptr_t>(global);
  const auto in_shared = reinterpret_cast<std::uintptr_t>(shared);
  const std::uintptr_t from = stores ? in_shared : in_global, to = stores ? in_global : in_shared;
  if ((from | to | bytes) % 16 != 0) {
    report(FaultKind::misaligned, pc,
           (stores ? "stores " : "copies ") + std::to_string(bytes) + " bytes in bulk" +
               (bytes % 16 != 0  ? "; the number must be a multiple of 16"
                : from % 16 != 0 ? " from an address that is no multiple of 16"
                                 : " to an address that is no multiple of 16"));
    stop_launch();
  }
  CopiedRows rows{1, bytes, {}};
  if (bytes > 0) rows.read = {0, 1, 0, bytes, static_cast<const std::byte*>(global), 0};
  return rows;
}

void bulk_copy(void* shared, const void* global, std::uint32_t bytes, std::uint64_t* barrier) {
  const void* pc = __builtin_return_address(0);
  start_copy({{current_block, shared, barrier}}, bulk_rows(shared, global, bytes, false, pc), pc);
}

void bulk_copy_multicast(void* shared, const void* global, std::uint32_t bytes, std::uint64_t* barrier,
                         std::uint16_t blocks) {
  const void* pc = __builtin_return_address(0);
  const CopiedRows rows = bulk_rows(shared, global, bytes, false, pc);
  start_copy(targets_of_multicast(shared, barrier, blocks, pc), rows, pc);
}

namespace {

// Makes the destination one that nobody may touch before the copy arrives.
void prepare(const CopyTarget& target, std::uint32_t bytes, const void* pc) {
  const Block& block = *current_block;
  const Mbarrier& b = mbarrier_of(*target.block, target.mbarrier, "completes a copy on", pc);
  if (!b.known_to_engine) {
    report(FaultKind::mbarrier_misuse, pc,
           "completes a copy on " + b.name() +
               ", which is not known to asynchronous copies yet: no mbarrier_fence_init() has followed its "
               "initialisation at " +
               place_of(b.init_pc));
  }
  if (block.launch.checked && bytes > 0) {
    CollectiveRequest request;
    request.pc = pc;
    request.operation = Operation::copy;
    request.bytes = bytes;
    request.block = target.block->number;
    request.warp = block.current / warpSize;
    request.space = Space::shared;
    request.addresses[0] = find_shared(target.shared, 1).offset;
    tell_request(request);
    // From here on the copy may happen at any time: to others it is a write now, and again when it is done.
    check_fenced(target.shared, bytes, "has a copy overwrite", pc);
    check_memory(reinterpret_cast<std::uintptr_t>(target.shared), bytes, true, pc);
    mark_pending(target.shared, bytes, true);
    target.block->tile_layout.fill(find_shared(target.shared, 1).offset, bytes, block.box, pc);
  }
  poison(target.shared, bytes);
}

}  // namespace

void start_copy(const std::vector<CopyTarget>& targets, const CopiedRows& rows, const void* pc) {
  Block& block = *current_block;
  const std::uint32_t bytes = rows.bytes();
  if (block.launch.checked && rows.read.rows > 0) {  // a copy of zeros reads nothing
    CollectiveRequest request;
    request.pc = pc;
    request.operation = Operation::copy;
    request.bytes = bytes;
    request.block = block.number;
    request.warp = block.current / warpSize;
    request.space = Space::global;
    request.addresses[0] = reinterpret_cast<std::uintptr_t>(rows.read.source);
    request.rows = {rows.read.rows, rows.read.row_bytes, rows.read.pitch};
    tell_request(request);
  }
  for (const CopyTarget& target : targets) {
    if (block.launch.checked) {
      rows.for_rows_read([&](std::size_t, const std::byte* source) {
        check_copy_source(reinterpret_cast<std::uintptr_t>(source), rows.read.row_bytes, pc);
      });
    }
    prepare(target, bytes, pc);
    block.engine.copy(target, rows, block.current, pc);
  }
}

}  // namespace cpu_device
