#include "common/cpu_device/fibers.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <bit>
#include <cstdlib>
#include <mutex>
#include <new>
#include <utility>

#include "common/cpu_device/cluster.hpp"
#include "common/cpu_device/observe.hpp"
#include "common/cpu_device/orders.hpp"

// The kernel's threadIdx and the like, which are const there: hence a second name for the same object.
__thread uint3 current_thread_index __asm__("threadIdx");
__thread uint3 current_block_index __asm__("blockIdx");

namespace cpu_device {

namespace context = boost::context::detail;

constinit thread_local Block* current_block = nullptr;

namespace {

constexpr int stacks_per_mapping = max_threads_per_block;

thread_local context::fcontext_t scheduler = nullptr;  // whoever resumed the running fiber

std::mutex idle_mutex;
std::vector<std::unique_ptr<Stacks>> idle_stacks;  // between launches

void leave_to_scheduler() {
  life.switches = life.switches + 1;
  scheduler = context::jump_fcontext(scheduler, nullptr).fctx;
}

// Keeps nothing from before the kernel, as the registers saved then are on the thread's stack.
[[noreturn]] __attribute__((noinline)) void end_thread() {
  Block& block = *current_block;
  const unsigned thread = block.current, warp = thread / warpSize;
  if (!block.cluster.racing_writes.empty()) compare_racing_writes(block.cluster);
  block.exited[warp] |= 1u << thread % warpSize;
  --block.alive;
  life.exits = life.exits + 1;
  ++block.cluster.progress;
  leave_rendezvous(block, thread);
  for (Barrier& barrier : block.sync.barriers) barrier.thread_exited(block, thread);
  block.cluster.barrier.thread_exited(block, thread);
  block.visits.thread_exits(block, thread);
  abandon_copies(block, thread);
  if (block.launch.checked && block.exited[warp] == ~0u) tell_warp_end(block.number, warp);
  block.threads[thread].wait = {};
  leave_to_scheduler();
  std::abort();  // an exited thread is never resumed
}

void fiber_main(context::transfer_t from) {
  scheduler = from.fctx;
  const Launch& launch = current_block->launch;
  launch.body(launch.arguments);
  end_thread();
}

void resume(Block& block, Stacks& stacks, unsigned index) {
  Thread& thread = block.threads[index];
  if (thread.stack < 0) {
    thread.stack = stacks.take();
    char* const top = stacks.top(thread.stack);
    thread.stack_top = top;
    thread.index = unflatten(index, block.launch.block);
    thread.context = context::make_fcontext(top, Stacks::bytes, fiber_main);
  }
  block.current = index;
  block.stack_bottom = thread.stack_top - Stacks::bytes;
  block.stack_top = thread.stack_top;
  current_thread_index = thread.index;
  thread.context = context::jump_fcontext(thread.context, nullptr).fctx;
  if (block.has_exited(index)) {  // its stack is for the next thread that starts
    stacks.give_back(thread.stack);
    thread.stack = -1;
  }
}

}  // namespace

void run_warp(Block& block, Stacks& stacks, unsigned warp) {
  while (block.ready[warp] != 0) {
    for (std::uint32_t lanes = std::exchange(block.ready[warp], 0); lanes != 0; lanes &= lanes - 1) {
      resume(block, stacks, warp * warpSize + static_cast<unsigned>(std::countr_zero(lanes)));
      if (block.cluster.stopped()) return;
    }
  }
}

Stacks::Stacks() : page_(static_cast<std::size_t>(sysconf(_SC_PAGESIZE))), pitch_(bytes + page_) { reset(); }

Stacks::~Stacks() {
  for (char* mapping : mappings_) munmap(mapping, pitch_ * stacks_per_mapping);
}

void Stacks::reset() {
  free_.clear();
  for (int i = static_cast<int>(mappings_.size()) * stacks_per_mapping; i-- > 0;) free_.push_back(i);
}

void Stacks::add_mapping() {
  void* mapping = mmap(nullptr, pitch_ * stacks_per_mapping, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapping == MAP_FAILED) throw std::bad_alloc();
  const int first = static_cast<int>(mappings_.size()) * stacks_per_mapping;
  mappings_.push_back(static_cast<char*>(mapping));
  for (int i = stacks_per_mapping; i-- > 0;) free_.push_back(first + i);
}

int Stacks::take() {
  if (free_.empty()) add_mapping();
  const int stack = free_.back();
  free_.pop_back();
  for (; guarded_ <= stack; ++guarded_) {  // first use: makes the page below a guard
    mprotect(top(guarded_) - bytes - page_, page_, PROT_NONE);
  }
  return stack;
}

char* Stacks::top(int stack) const {
  const auto in_mapping = static_cast<std::size_t>(stack % stacks_per_mapping);
  return mappings_[static_cast<std::size_t>(stack / stacks_per_mapping)] + pitch_ * (in_mapping + 1);
}

std::unique_ptr<Stacks> take_stacks() {
  const std::lock_guard lock(idle_mutex);
  if (idle_stacks.empty()) return std::make_unique<Stacks>();
  auto stacks = std::move(idle_stacks.back());
  idle_stacks.pop_back();
  stacks->reset();
  return stacks;
}

void keep_stacks(std::unique_ptr<Stacks> stacks) {
  const std::lock_guard lock(idle_mutex);
  idle_stacks.push_back(std::move(stacks));
}

void wait_for_wake() {
  Block& block = *current_block;
  if (!block.cluster.racing_writes.empty()) compare_racing_writes(block.cluster);
  block.note_place(block.threads[block.current].wait.pc);
  if (overdue != 0) report_overdue(block.threads[block.current].wait.pc);
  leave_to_scheduler();
}

void make_current(Block& block) {
  current_block = &block;
  current_block_index = block.index;
}

void wake(Block& block, unsigned thread, bool at_once) {
  if (Orders* orders = block.cluster.orders) orders->wake(block, thread);
  block.threads[thread].wait.on = nullptr;
  (at_once ? block.ready : block.ready_next)[thread / warpSize] |= 1u << thread % warpSize;
}

void stop_launch() {
  Cluster& cluster = current_block->cluster;
  cluster.end_launch();
  leave_to_scheduler();
  std::abort();  // a stopped thread is never resumed
}

}  // namespace cpu_device
