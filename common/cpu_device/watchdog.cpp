#include "common/cpu_device/watchdog.hpp"

#include <fmt/format.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include "common/cpu_device/cluster.hpp"
#include "common/cpu_device/global_memory.hpp"
#include "common/cpu_device/observe.hpp"

namespace cpu_device {

constinit thread_local Life life;
constinit thread_local volatile std::sig_atomic_t overdue = 0;

namespace {

double patience_seconds = 10;
constexpr int ticks_per_patience = 2;
// A loop without an end that passes barriers is noticed by nobody's leaving the kernel.
constexpr int exit_patience = 3;

// Of this OS thread: what it had seen of life, and for how many ticks nothing has changed.
struct Ticks {
  std::uint64_t switches = 0, exits = 0;
  int without_switch = 0, without_exit = 0;
};
constinit thread_local Ticks ticks;
constinit thread_local const void* interrupted_at = nullptr;

void report_interrupted() { report_overdue(interrupted_at); }

// As if the running fiber had called report_interrupted() where it is.
void redirect(ucontext_t& context, const Block& block) {
#if defined(__x86_64__)
  auto& stack = context.uc_mcontext.gregs[REG_RSP];
  auto& pc = context.uc_mcontext.gregs[REG_RIP];
  constexpr std::uintptr_t misaligned_by_call = 8;
#elif defined(__aarch64__)
  auto& stack = context.uc_mcontext.sp;
  auto& pc = context.uc_mcontext.pc;
  constexpr std::uintptr_t misaligned_by_call = 0;
#endif
#if defined(__x86_64__) || defined(__aarch64__)
  const auto top = static_cast<std::uintptr_t>(stack);
  const auto bottom = reinterpret_cast<std::uintptr_t>(block.stack_bottom);
  if (top - bottom >= reinterpret_cast<std::uintptr_t>(block.stack_top) - bottom) return;  // not in a fiber
  constexpr std::uintptr_t red_zone = 256;
  interrupted_at = reinterpret_cast<const void*>(static_cast<std::uintptr_t>(pc) + 1);
  stack =
      static_cast<std::remove_reference_t<decltype(stack)>>((top - red_zone) / 16 * 16 - misaligned_by_call);
  pc = static_cast<std::remove_reference_t<decltype(pc)>>(
      reinterpret_cast<std::uintptr_t>(&report_interrupted));
#else
  (void)context, (void)block;
#endif
}

void on_tick(int, siginfo_t*, void* context) {
  Block* block = current_block;
  if (block == nullptr) return;
  ticks.without_switch = life.switches == ticks.switches ? ticks.without_switch + 1 : 0;
  ticks.without_exit = life.exits == ticks.exits ? ticks.without_exit + 1 : 0;
  ticks.switches = life.switches;
  ticks.exits = life.exits;
  const int late =
      std::max(ticks.without_switch, ticks.without_exit - (exit_patience - 1) * ticks_per_patience);
  if (late == ticks_per_patience) {
    overdue = 1;
    block->watch = Watch::overdue;
  }
  if (late > ticks_per_patience) redirect(*static_cast<ucontext_t*>(context), *block);
}

}  // namespace

void set_watchdog(double seconds) { patience_seconds = seconds; }

Watchdog::Watchdog() {
  ticks = Ticks{life.switches, life.exits};
  overdue = 0;
  if (patience_seconds <= 0) return;
  struct sigaction action{};
  action.sa_sigaction = on_tick;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART;
  sigaction(SIGRTMIN, &action, nullptr);
  sigevent event{};
  event.sigev_notify = SIGEV_THREAD_ID;
  event.sigev_signo = SIGRTMIN;
#ifndef sigev_notify_thread_id  // glibc has no name for it
  event._sigev_un._tid = static_cast<pid_t>(syscall(SYS_gettid));
#else
  event.sigev_notify_thread_id = static_cast<pid_t>(syscall(SYS_gettid));
#endif
  if (timer_create(CLOCK_THREAD_CPUTIME_ID, &event, &timer_) != 0) return;  // then nobody watches
  armed_ = true;
  const double tick = patience_seconds / ticks_per_patience;
  itimerspec every{};
  every.it_interval.tv_sec = static_cast<time_t>(tick);
  every.it_interval.tv_nsec = static_cast<long>((tick - static_cast<double>(every.it_interval.tv_sec)) * 1e9);
  every.it_value = every.it_interval;
  timer_settime(timer_, 0, &every, nullptr);
}

Watchdog::~Watchdog() {
  if (armed_) timer_delete(timer_);
}

void report_overdue(const void* pc) {
  overdue = 0;
  current_block->watch = Watch::checked;
  const bool spins = ticks.without_switch > 0;
  report(FaultKind::no_progress, pc,
         spins
             ? fmt::format("has run for {} s without coming to a barrier or anything else that it could wait "
                           "at; if it only needs longer: --watchdog",
                           patience_seconds)
             : fmt::format("is among the threads of its block none of which has left the kernel in {} s; if "
                           "they only need longer: --watchdog",
                           exit_patience * patience_seconds));
  stop_launch();
}

std::string Spin::awaited_by(const Block&, unsigned) const {
  return "another value of what it reads again and again, which no thread that can still run will write";
}

void Spin::note_success() {
  resumed_ = false;
  ++current_block->cluster.progress;
}

void Spin::pause(const void* pc) {
  Block& block = *current_block;
  SpinState& state = block.threads[block.current].spin;
  if (state.key != key_ || state.progress != block.cluster.progress) state = {key_, 0, 0};
  constexpr unsigned most = 12;
  block.threads[block.current].wait = {this, pc, 0, 0, state.times < most};
  ++block.cluster.spins;
  block.note_turn(pc);
  resumed_ = false;
  wait_for_wake();
  resumed_ = true;
  key_ = state.key;
  state.progress = block.cluster.progress;
  left_ = patience << ++state.times;
}

}  // namespace cpu_device
