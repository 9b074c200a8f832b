#include "common/cpu_device/crash.hpp"

#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <vector>

#include "common/cpu_device/block.hpp"
#include "common/cpu_device/global_memory.hpp"

namespace cpu_device {

std::atomic<void (*)()> crash_hook = nullptr;

namespace {

const char* what_happened(const Block& block, int signal, const siginfo_t& info) {
  switch (signal) {
    case SIGILL:
      return "illegal instruction";
    case SIGFPE:
      return info.si_code == FPE_INTDIV ? "integer division by zero" : "arithmetic error";
    case SIGABRT:
      return "abort";
    default:
      break;
  }
  const auto* address = static_cast<const char*>(info.si_addr);
  const bool overflow = address < block.stack_bottom && address + 4096 >= block.stack_bottom;
  return overflow ? "stack overflow" : "invalid memory access";
}

int describe_crash(char* text, std::size_t size, const Block& block, int signal, const siginfo_t& info) {
  char address[160] = "";
  if (signal == SIGSEGV || signal == SIGBUS) {
    const int length = std::snprintf(address, sizeof address, ", address %p", info.si_addr);
    name_nearest(reinterpret_cast<std::uintptr_t>(info.si_addr), address + length,
                 sizeof address - static_cast<std::size_t>(length));
  }
  const uint3 t = threadIdx, b = blockIdx;
  return std::snprintf(text, size, "error: %s in the kernel, block (%u,%u,%u) thread (%u,%u,%u)%s%s\n",
                       what_happened(block, signal, info), b.x, b.y, b.z, t.x, t.y, t.z, address,
                       block.launch.checked ? "" : "; run with --check to see the line");
}

[[noreturn]] void end_program(const char* text, int length) {
  if (auto* const hook = crash_hook.load()) hook();
  if (write(STDERR_FILENO, text, static_cast<std::size_t>(length)) < 0) _exit(1);
  _exit(1);
}

void on_crash(int signal, siginfo_t* info, void*) {
  char text[512];
  int length = 0;
  const Block* block = current_block;
  if (block != nullptr) {
    length = describe_crash(text, sizeof text, *block, signal, *info);
  } else if (signal == SIGABRT) {  // by the allocator, for example, which has said why
    length = std::snprintf(text, sizeof text,
                           "error: the program was aborted outside any kernel; if its memory is damaged, run "
                           "with --check to see which kernel writes where it must not\n");
  } else {
    length = std::snprintf(text, sizeof text, "error: the program crashed (%s) outside any kernel\n",
                           signal == SIGSEGV  ? "SIGSEGV"
                           : signal == SIGBUS ? "SIGBUS"
                           : signal == SIGILL ? "SIGILL"
                                              : "SIGFPE");
  }
  end_program(text, length);
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
  for (const int signal : {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT}) sigaction(signal, &action, nullptr);
}

void end_if_overrun() {
  char text[256] = "error: a kernel has written ";
  const int begin = static_cast<int>(std::strlen(text));
  const int length = name_overrun(text + begin, sizeof text - static_cast<std::size_t>(begin));
  if (length == 0) return;
  const int end = begin + length;
  const int rest = std::snprintf(text + end, sizeof text - static_cast<std::size_t>(end),
                                 "; run with --check to see the line\n");
  end_program(text, end + rest);
}

}  // namespace cpu_device
