// Runs the blocks of a grid. Threads are fibers, which wait and are woken (sync.hpp).

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <new>
#include <optional>
#include <thread>
#include <utility>

#include "common/cpu_device/internal.hpp"

// The kernel's threadIdx and the like, which are const there: hence a second name for the same object.
__thread uint3 current_thread_index __asm__("threadIdx");
__thread uint3 current_block_index __asm__("blockIdx");
__thread uint3 current_block_dim __asm__("blockDim");
__thread uint3 current_grid_dim __asm__("gridDim");

namespace cpu_device {

namespace context = boost::context::detail;

constinit thread_local Worker* current_worker = nullptr;
std::atomic<void (*)()> crash_hook = nullptr;

namespace {

constexpr std::size_t stack_bytes = 64 * 1024;

bool checking = false;

std::vector<LaunchShape>* noted_launches = nullptr;  // for launches_of(), while it runs
std::optional<std::vector<std::vector<std::uint64_t>>> selection;
std::size_t launches_since_selection = 0;

// Stacks for the fibers of one block, each with a guard page below. The mapping is kept from launch to
// launch, as making it costs more than a small launch.
class Stacks {
 public:
  Stacks() : page_(static_cast<std::size_t>(sysconf(_SC_PAGESIZE))), pitch_(stack_bytes + page_) {
    void* mapping = mmap(nullptr, pitch_ * max_threads_per_block, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (mapping == MAP_FAILED) throw std::bad_alloc();
    base_ = static_cast<char*>(mapping);
    reset();
  }
  Stacks(const Stacks&) = delete;
  ~Stacks() { munmap(base_, pitch_ * max_threads_per_block); }

  void reset() {
    free_.clear();
    for (int i = max_threads_per_block - 1; i >= 0; --i) free_.push_back(i);
  }
  int take() {
    const int stack = free_.back();
    free_.pop_back();
    if (stack >= guarded_) {  // first use: makes the page below a guard
      mprotect(base_ + pitch_ * stack, page_, PROT_NONE);
      guarded_ = stack + 1;
    }
    return stack;
  }
  void give_back(int stack) { free_.push_back(stack); }
  char* bottom(int stack) const { return base_ + pitch_ * stack + page_; }
  char* top(int stack) const { return base_ + pitch_ * (stack + 1); }

 private:
  std::size_t page_, pitch_;
  char* base_ = nullptr;
  std::vector<int> free_;
  int guarded_ = 0;
};

// Stacks between launches.
std::mutex idle_mutex;
std::vector<std::unique_ptr<Stacks>> idle_stacks;

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

bool has_exited(const Worker& worker, unsigned thread) {
  return (worker.exited[thread / warpSize] >> thread % warpSize & 1) != 0;
}

// The block cannot go on, and those after it need not.
void end_launch(Worker& worker) {
  worker.ended = true;
  std::atomic<std::uint64_t>& stop = worker.launch->stop_after;
  for (std::uint64_t known = stop;
       worker.block < known && !stop.compare_exchange_weak(known, worker.block);) {
  }
}

void leave_to_scheduler(Worker& worker) {
  worker.scheduler = context::jump_fcontext(worker.scheduler, nullptr).fctx;
}

// Keeps nothing from before the kernel, as the registers saved then are on the thread's stack.
[[noreturn]] __attribute__((noinline)) void end_thread() {
  Worker& worker = *current_worker;
  Thread& thread = worker.threads[worker.current];
  const unsigned warp = worker.current / warpSize;
  worker.exited[warp] |= 1u << worker.current % warpSize;
  --worker.alive;
  ++worker.progress;
  leave_rendezvous(worker, worker.current);
  for (Barrier& barrier : worker.sync.barriers) barrier.thread_exited(worker, worker.current);
  if (worker.launch->checked && worker.exited[warp] == ~0u) tell_warp_end(worker.block, warp);
  thread.wait = {};
  leave_to_scheduler(worker);
  std::abort();  // an exited thread is never resumed
}

void fiber_main(context::transfer_t from) {
  Worker& worker = *static_cast<Worker*>(from.data);
  worker.scheduler = from.fctx;
  worker.launch->body(worker.launch->arguments);
  end_thread();
}

void resume(Worker& worker, Stacks& stacks, unsigned index) {
  Thread& thread = worker.threads[index];
  if (thread.stack < 0) {
    thread.stack = stacks.take();
    thread.context = context::make_fcontext(stacks.top(thread.stack), stack_bytes, fiber_main);
  }
  worker.current = index;
  worker.stack_bottom = stacks.bottom(thread.stack);
  worker.stack_top = stacks.top(thread.stack);
  current_thread_index = unflatten(index, worker.launch->block);
  thread.context = context::jump_fcontext(thread.context, &worker).fctx;
  if (has_exited(worker, index)) {  // its stack is for the next thread that starts
    stacks.give_back(thread.stack);
    thread.stack = -1;
  }
}

// Whether to give the block up because it, or one before it, cannot go on.
bool stopped(const Worker& worker) {
  return worker.ended || worker.launch->stop_after.load(std::memory_order_relaxed) < worker.block;
}

// Runs the lanes of a warp until each of them has exited or waits for other warps.
void run_warp(Worker& worker, Stacks& stacks, unsigned warp) {
  while (worker.ready[warp] != 0) {
    for (std::uint32_t lanes = std::exchange(worker.ready[warp], 0); lanes != 0; lanes &= lanes - 1) {
      resume(worker, stacks, warp * warpSize + static_cast<unsigned>(std::countr_zero(lanes)));
      if (stopped(worker)) return;
    }
  }
}

// If nothing else can happen, threads that can go on without what they wait for do so. If that changes
// nothing for long, nothing ever will.
bool give_up_waiting(Worker& worker, std::uint64_t& progress, unsigned& vain) {
  constexpr unsigned long_enough = 100;
  vain = worker.progress == progress ? vain + 1 : 0;
  progress = worker.progress;
  if (vain == long_enough) return false;
  bool any = false;
  for (unsigned i = 0; i < worker.threads.size(); ++i) {
    const Wait& wait = worker.threads[i].wait;
    if (wait.on == nullptr || !wait.may_fail) continue;
    wake(worker, i, false);
    any = true;
  }
  return any;
}

void begin_block(Worker& worker) {
  const unsigned count = worker.launch->threads_per_block;
  const unsigned warps = (count + warpSize - 1) / warpSize;
  worker.threads.assign(count, Thread{});
  worker.async_copies.resize(count);
  for (AsyncCopies& copies : worker.async_copies) {
    copies.waiting.clear();
    copies.groups = 0;
    copies.asked = 0;
  }
  worker.ready.assign(warps, 0);
  worker.ready_next.assign(warps, ~0u);
  worker.exited.assign(warps, 0);
  worker.passed.resize(warps);
  if (count % warpSize != 0) {
    worker.ready_next.back() = (1u << count % warpSize) - 1;
    worker.exited.back() = ~worker.ready_next.back();
  }
  worker.alive = count;
  worker.ended = false;
  worker.flag_waits = 0;
  worker.box = nullptr;
  worker.sync.new_block();
  worker.engine.new_block();
  current_block_index = unflatten(worker.block, worker.launch->grid);
  poison_shared(worker);
  if (!worker.clocks) return;
  if (worker.clocks->new_block()) worker.shadow->forget();
  worker.grid_order->new_block(worker.block);
}

void run_block(Worker& worker, Stacks& stacks) {
  begin_block(worker);
  std::uint64_t progress = 0;
  unsigned vain = 0;
  while (true) {
    bool any = false;
    for (unsigned warp = 0; warp < worker.ready.size(); ++warp) {
      worker.ready[warp] |= std::exchange(worker.ready_next[warp], 0);
      any = any || worker.ready[warp] != 0;
    }
    for (unsigned warp = 0; warp < worker.ready.size() && any; ++warp) {
      run_warp(worker, stacks, warp);
      if (stopped(worker)) return;
    }
    if (worker.alive == 0) {
      worker.engine.end_block(worker);
      return;
    }
    if (any || worker.engine.act(worker) || end_flag_waits(worker)) continue;
    if (stopped(worker)) return;  // by a block before it, while it waited for that
    if (give_up_waiting(worker, progress, vain)) continue;
    report_stuck_block(worker);
    end_launch(worker);
    return;
  }
}

void work(Launch& launch, std::uint64_t blocks) {
  auto stacks = take_stacks();
  Worker worker;
  worker.launch = &launch;
  worker.dynamic_shared.resize(launch.shared_bytes + shared_slack);
  worker.tls = tls_base();
  worker.tls_bytes = tls_bytes();
  worker.variables = &shared_variables();
  if (launch.checked) {
    worker.clocks = std::make_unique<Clocks>(launch.threads_per_block);
    worker.shadow =
        std::make_unique<SharedShadow>((tls_bytes() + launch.shared_bytes) / 4 + 1, *worker.clocks);
    worker.grid_order = std::make_unique<GridOrder>(*worker.clocks);
  }
  current_block_dim = {launch.block.x, launch.block.y, launch.block.z};
  current_grid_dim = {launch.grid.x, launch.grid.y, launch.grid.z};
  current_worker = &worker;
  while (next_block(worker, blocks)) {
    run_block(worker, *stacks);
    if (launch.checked) tell_block_end(worker.block);
    end_block_faults(worker);
  }
  poison_shared(worker);  // the host, which may go on in this OS thread, must not see it
  current_worker = nullptr;
  keep_stacks(std::move(stacks));
}

// A wild, unchecked access ends the program with one line instead of "Segmentation fault".
void on_crash(int signal, siginfo_t* info, void*) {
  char text[512];
  int length = 0;
  const Worker* worker = current_worker;
  if (worker == nullptr) {
    length = std::snprintf(text, sizeof text, "error: the program crashed (%s) outside any kernel\n",
                           signal == SIGSEGV ? "SIGSEGV" : "SIGBUS");
  } else {
    const auto* address = static_cast<const char*>(info->si_addr);
    const bool overflow = address < worker->stack_bottom && address + 4096 >= worker->stack_bottom;
    const uint3 t = current_thread_index, b = current_block_index;
    length = std::snprintf(
        text, sizeof text, "error: %s in the kernel, block (%u,%u,%u) thread (%u,%u,%u), address %p%s\n",
        overflow ? "stack overflow" : "invalid memory access", b.x, b.y, b.z, t.x, t.y, t.z, info->si_addr,
        worker->launch->checked ? "" : "; run with --check to see the line");
  }
  if (auto* const hook = crash_hook.load()) hook();
  if (write(STDERR_FILENO, text, static_cast<std::size_t>(length)) < 0) _exit(1);
  _exit(1);
}

// For signal handlers: the fiber's own stack may be the problem.
thread_local std::vector<char> handler_stack(64 * 1024);

void install_crash_handler() {
  stack_t stack{};
  stack.ss_sp = handler_stack.data();
  stack.ss_size = handler_stack.size();
  sigaltstack(&stack, nullptr);
  struct sigaction action{};
  action.sa_sigaction = on_crash;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  sigaction(SIGSEGV, &action, nullptr);
  sigaction(SIGBUS, &action, nullptr);
}

}  // namespace

void set_checking(bool on) { checking = on; }

std::vector<LaunchShape> launches_of(const std::function<void()>& body) {
  std::vector<LaunchShape> launches;
  noted_launches = &launches;
  const auto end = [](auto* noted) { *noted = nullptr; };  // even if `body` throws
  const std::unique_ptr<std::vector<LaunchShape>*, decltype(end)> guard(&noted_launches, end);
  body();
  return launches;
}

bool launches_are_noted() { return noted_launches != nullptr; }

void select_blocks(std::optional<std::vector<std::vector<std::uint64_t>>> of_each_launch) {
  selection = std::move(of_each_launch);
  launches_since_selection = 0;
}

void wait_for_wake(Worker& worker) { leave_to_scheduler(worker); }

void wake(Worker& worker, unsigned thread, bool at_once) {
  worker.threads[thread].wait.on = nullptr;
  (at_once ? worker.ready : worker.ready_next)[thread / warpSize] |= 1u << thread % warpSize;
}

void stop_launch() {
  Worker& worker = *current_worker;
  end_launch(worker);
  leave_to_scheduler(worker);
  std::abort();  // a stopped thread is never resumed
}

void launch_body(const void* kernel, const LaunchConfig& config, KernelBody body, const void* arguments) {
  check_limits(config);
  const auto& [grid, block, shared_bytes, cluster, overlaps_previous] = config;
  const unsigned threads = block.x * block.y * block.z;
  const LaunchShape shape{kernel, grid, block, shared_bytes, cluster};
  std::uint64_t blocks = shape.blocks();
  if (blocks == 0) return;
  if (noted_launches != nullptr) {
    noted_launches->push_back(shape);
    return;
  }

  Launch launch{kernel, grid, block, threads, shared_bytes, body, arguments, checking, {}};
  if (selection) {
    const std::size_t number = launches_since_selection++;
    if (number >= selection->size()) return;
    launch.all = false;
    launch.selected = (*selection)[number];
    std::sort(launch.selected.begin(), launch.selected.end());
    blocks = launch.selected.size();
  }
  if (checking) {
    forget_global_accesses();
    tell_launch(shape);
  }
  shared_variables();  // reads the symbol table before the workers need it
  const std::uint64_t cores = max(1u, std::thread::hardware_concurrency());
  std::vector<std::thread> others;
  for (std::uint64_t i = 1; i < min(cores, blocks); ++i) {
    others.emplace_back([&] {
      install_crash_handler();
      work(launch, blocks);
    });
  }
  install_crash_handler();
  work(launch, blocks);
  for (std::thread& other : others) other.join();
  launch.flags.end(launch);
  end_launch_faults(launch);
}

}  // namespace cpu_device
