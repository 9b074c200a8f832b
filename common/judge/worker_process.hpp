#pragma once

#include <sys/types.h>

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "common/judge/wire.hpp"

namespace judge {

// A student's program, and the memory that it shares with the judge. The program, and whatever it has
// started, ends with this object.
class WorkerProcess {
 public:
  // command: the program and its sandbox. cpu_limit_s: processor time for one order; total_s: by the clock,
  // for all that it is told. Throws std::runtime_error.
  WorkerProcess(std::vector<std::string> command, double cpu_limit_s, double total_s);
  ~WorkerProcess();
  WorkerProcess(const WorkerProcess&) = delete;

  // At least that many bytes of shared memory. The pointer is valid until the next call.
  char* memory(std::size_t bytes);
  std::size_t memory_bytes() const { return bytes_; }

  // Returns the program's answer, always an object. more: goes with the order. Throws std::runtime_error,
  // with a line for the student, if it fails.
  nlohmann::json tell(const Order& order, const std::string& more = "");

 private:
  void send(const std::string& what);
  std::string receive(double limit_s);
  [[noreturn]] void fail(const std::string& why);
  void drain_words();
  void kill_all() noexcept;

  double cpu_limit_s_, ends_at_s_;
  pid_t pid_ = -1;
  int socket_ = -1, words_ = -1, memory_fd_ = -1;
  char* memory_ = nullptr;
  std::size_t bytes_ = 0;
  std::string last_words_;  // on its standard error
};

}  // namespace judge
