// Runs the blocks of a grid: fibers for the threads, barriers, and what can go wrong with them.

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <new>
#include <optional>
#include <thread>
#include <utility>

#include "common/cpu_device/internal.hpp"

// The kernel's threadIdx and friends. Declared const there, hence the second name for the same object.
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

std::vector<LaunchShape>* noted_launches = nullptr;  // of launches_of(), while it runs
std::optional<std::vector<std::vector<std::uint64_t>>> selection;
std::size_t launches_since_selection = 0;

// Stacks for the fibers of one block, each with a guard page below. The mapping is kept between launches:
// making it costs more than a small launch.
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
    if (stack >= guarded_) {  // first use: the page below becomes a guard
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

// Stacks wait here between launches.
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

void leave_to_scheduler(Worker& worker) {
  worker.scheduler = context::jump_fcontext(worker.scheduler, nullptr).fctx;
}

void fiber_main(context::transfer_t from) {
  Worker& worker = *static_cast<Worker*>(from.data);
  worker.scheduler = from.fctx;
  worker.launch->body(worker.launch->arguments);
  worker.threads[worker.current].state = State::exited;
  leave_to_scheduler(worker);
  std::abort();  // an exited thread is never resumed
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
  if (thread.state == State::exited) {  // its stack serves the next thread that starts
    stacks.give_back(thread.stack);
    thread.stack = -1;
  }
}

// True if the threads [begin, end) that have not exited all wait at one barrier of this kind.
bool all_wait(const Worker& worker, unsigned begin, unsigned end, State barrier) {
  const Thread* first = nullptr;
  for (unsigned i = begin; i < end; ++i) {
    const Thread& thread = worker.threads[i];
    if (thread.state == State::exited) continue;
    if (thread.state != barrier) return false;
    if (first == nullptr) first = &thread;
    if (thread.barrier_line != first->barrier_line) return false;
  }
  return first != nullptr;
}

void open_barrier(Worker& worker, unsigned begin, unsigned end) {
  for (unsigned i = begin; i < end; ++i) {
    if (worker.threads[i].state != State::exited) worker.threads[i].state = State::ready;
  }
}

bool all_exited(const Worker& worker, unsigned begin, unsigned end) {
  return std::all_of(worker.threads.begin() + begin, worker.threads.begin() + end,
                     [](const Thread& thread) { return thread.state == State::exited; });
}

// Runs the lanes of a warp until each has exited or waits for other warps.
void run_warp(Worker& worker, Stacks& stacks, unsigned begin, unsigned end) {
  do {
    for (unsigned i = begin; i < end; ++i) {
      if (worker.threads[i].state == State::ready) resume(worker, stacks, i);
      if (worker.launch->stop) return;
    }
    if (!all_wait(worker, begin, end, State::at_warp_barrier)) break;
    if (worker.shadow) worker.shadow->warp_barrier(begin / warpSize);
    open_barrier(worker, begin, end);
  } while (true);
  if (worker.launch->checked && all_exited(worker, begin, end)) {
    tell_warp_end(worker.block, begin / warpSize);
  }
}

// No thread can run and the block is not done: says why.
void report_stuck_block(const Worker& worker) {
  const Thread* waiting = nullptr;
  unsigned waiting_index = 0, exited_index = 0;
  bool any_exited = false;
  for (unsigned i = 0; i < worker.threads.size(); ++i) {
    const Thread& thread = worker.threads[i];
    if (thread.state == State::exited) {
      if (!any_exited) exited_index = i;
      any_exited = true;
      continue;
    }
    if (waiting == nullptr) {
      waiting = &thread;
      waiting_index = i;
      continue;
    }
    if (thread.state != waiting->state) {
      report(FaultKind::deadlock, thread.barrier_pc,
             "waits here at a barrier of one kind, while " + thread_name(worker, waiting_index) +
                 " waits at one of another kind (" + place_of(waiting->barrier_pc) + "); neither can open",
             worker, i);
      return;
    }
    if (thread.barrier_line != waiting->barrier_line) {
      report(FaultKind::divergent_barrier, thread.barrier_pc,
             "waits here, while " + thread_name(worker, waiting_index) + " waits at " +
                 place_of(waiting->barrier_pc) + "; all threads must reach the same barrier",
             worker, i);
      return;
    }
  }
  if (any_exited) {
    report(FaultKind::exit_before_barrier, waiting->barrier_pc,
           "waits here for " + thread_name(worker, exited_index) + ", which has left the kernel", worker,
           waiting_index);
    return;
  }
  report(FaultKind::deadlock, waiting->barrier_pc, "waits here, and no thread can run", worker,
         waiting_index);
}

void run_block(Worker& worker, Stacks& stacks) {
  const unsigned count = worker.launch->threads_per_block;
  worker.threads.assign(count, Thread{});
  worker.async_copies.resize(count);
  for (AsyncCopies& copies : worker.async_copies) {
    copies.waiting.clear();
    copies.groups = 0;
  }
  current_block_index = unflatten(worker.block, worker.launch->grid);
  poison_shared(worker);
  if (worker.shadow) worker.shadow->new_block();
  while (true) {
    for (unsigned begin = 0; begin < count; begin += warpSize) {
      run_warp(worker, stacks, begin, min(begin + warpSize, count));
      if (worker.launch->stop) return;
    }
    bool any_alive = false, any_exited = false;
    for (const Thread& thread : worker.threads) {
      (thread.state == State::exited ? any_exited : any_alive) = true;
    }
    if (!any_alive) return;
    if (any_exited || !all_wait(worker, 0, count, State::at_block_barrier)) {
      report_stuck_block(worker);
      worker.launch->stop = true;
      return;
    }
    if (worker.shadow) worker.shadow->block_barrier();
    open_barrier(worker, 0, count);
  }
}

void work(Launch& launch, std::uint64_t blocks) {
  auto stacks = take_stacks();
  Worker worker;
  worker.launch = &launch;
  worker.dynamic_shared.resize(launch.shared_bytes + shared_slack);
  worker.tls = tls_base();
  if (launch.checked) {
    worker.shadow = std::make_unique<SharedShadow>((tls_bytes() + launch.shared_bytes) / 4 + 1,
                                                   launch.threads_per_block / warpSize + 1);
  }
  current_block_dim = {launch.block.x, launch.block.y, launch.block.z};
  current_grid_dim = {launch.grid.x, launch.grid.y, launch.grid.z};
  current_worker = &worker;
  for (std::uint64_t i; !launch.stop && (i = launch.next_block++) < blocks;) {
    worker.block = launch.all ? i : launch.selected[i];
    run_block(worker, *stacks);
    if (launch.checked) tell_block_end(worker.block);
  }
  poison_shared(worker);  // the host, which may go on in this OS thread, gets no sight of it
  current_worker = nullptr;
  keep_stacks(std::move(stacks));
}

// A wild access that nothing checked ends the program with one line instead of "Segmentation fault".
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

// Signal handlers need a stack of their own: the fiber's may be the problem.
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

void wait_at(State barrier, int line, const void* pc) {
  Worker& worker = *current_worker;
  Thread& thread = worker.threads[worker.current];
  thread.state = barrier;
  thread.barrier_line = line;
  thread.barrier_pc = pc;
  leave_to_scheduler(worker);
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

void select_blocks(std::optional<std::vector<std::vector<std::uint64_t>>> of_each_launch) {
  selection = std::move(of_each_launch);
  launches_since_selection = 0;
}

void barrier_block(int line) { wait_at(State::at_block_barrier, line, __builtin_return_address(0)); }
void barrier_warp(int line) { wait_at(State::at_warp_barrier, line, __builtin_return_address(0)); }

void stop_launch() {
  Worker& worker = *current_worker;
  worker.launch->stop = true;
  leave_to_scheduler(worker);
  std::abort();  // a stopped thread is never resumed
}

void launch_body(const void* kernel, const LaunchConfig& config, KernelBody body, const void* arguments) {
  check_limits(config);
  const auto& [grid, block, shared_bytes, cluster] = config;
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
    blocks = launch.selected.size();
  }
  if (checking) {
    forget_global_accesses();
    tell_launch(shape);
  }
  shared_variables();  // read the symbol table before the workers ask for it
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
}

}  // namespace cpu_device
