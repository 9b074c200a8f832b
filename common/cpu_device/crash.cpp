#include "common/cpu_device/crash.hpp"

#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdio>
#include <vector>

#include "common/cpu_device/block.hpp"

namespace cpu_device {

std::atomic<void (*)()> crash_hook = nullptr;

namespace {

void on_crash(int signal, siginfo_t* info, void*) {
  char text[512];
  int length = 0;
  const Block* block = current_block;
  if (block == nullptr) {
    length = std::snprintf(text, sizeof text, "error: the program crashed (%s) outside any kernel\n",
                           signal == SIGSEGV ? "SIGSEGV" : "SIGBUS");
  } else {
    const auto* address = static_cast<const char*>(info->si_addr);
    const bool overflow = address < block->stack_bottom && address + 4096 >= block->stack_bottom;
    const uint3 t = threadIdx, b = blockIdx;
    length = std::snprintf(
        text, sizeof text, "error: %s in the kernel, block (%u,%u,%u) thread (%u,%u,%u), address %p%s\n",
        overflow ? "stack overflow" : "invalid memory access", b.x, b.y, b.z, t.x, t.y, t.z, info->si_addr,
        block->launch.checked ? "" : "; run with --check to see the line");
  }
  if (auto* const hook = crash_hook.load()) hook();
  if (write(STDERR_FILENO, text, static_cast<std::size_t>(length)) < 0) _exit(1);
  _exit(1);
}

// For signal handlers: the fiber's own stack may be the problem.
thread_local std::vector<char> handler_stack(64 * 1024);

}  // namespace

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

}  // namespace cpu_device
