// Judges a student's program without linking any of it: draws the problems, has the program compute them, and
// checks the results with matrices that only the judge has. Like a step's program, it prints a table and
// writes --json.
//
//   judge PRECISION SECONDS TOTAL OPTIONS... -- PROGRAM...
//
// PRECISION: what the kernel computes in, as harness::Precision names it; SECONDS: processor time for one
// problem; TOTAL: seconds by the clock for all of them; OPTIONS: those of a step's program; PROGRAM: a worker
// (worker.cpp), and its sandbox.

#include <fmt/format.h>
#include <sys/prctl.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <string_view>

#include "common/harness/error.hpp"
#include "common/harness/run.hpp"
#include "common/judge/remote_device.hpp"

namespace {

// Never called: the function is in another process.
harness::Entry entry_of(std::string_view precision) {
  using Floats = void (*)(const Gemm&);
  if (precision == "bf16") return static_cast<void (*)(const GemmBf16&)>(nullptr);
  if (precision == "tf32") return {static_cast<Floats>(nullptr), harness::Precision::tf32};
  if (precision == "tf32_cut_off") return {static_cast<Floats>(nullptr), harness::Precision::tf32_cut_off};
  if (precision == "fp16x3") return {static_cast<Floats>(nullptr), harness::Precision::fp16x3};
  if (precision == "fp32_emulated") return {static_cast<Floats>(nullptr), harness::Precision::fp32_emulated};
  if (precision == "fp32") return static_cast<Floats>(nullptr);
  throw harness::InputError("unknown precision '" + std::string(precision) + "'");
}

}  // namespace

int main(int argc, char** argv) {
  char** const end = argv + argc;
  char** const dashes =
      std::find_if(argv, end, [](const char* word) { return std::strcmp(word, "--") == 0; });
  double seconds = 0, total = 0;
  if (argc >= 4) {
    std::from_chars(argv[2], argv[2] + std::strlen(argv[2]), seconds);
    std::from_chars(argv[3], argv[3] + std::strlen(argv[3]), total);
  }
  if (end - dashes < 2 || dashes - argv < 4 || seconds <= 0 || total <= 0) {
    fmt::print(stderr, "usage: judge PRECISION SECONDS TOTAL OPTIONS... -- PROGRAM...\n");
    return 2;
  }
  prctl(PR_SET_DUMPABLE, 0);  // no program of the same user may look into it
  try {
    harness::Step step{"judge", {}, entry_of(argv[1])};
    step.cpu_observed = step.gpu = step.cpu;
    const std::vector<std::string> command(dashes + 1, end);
    step.elsewhere = [=](std::unique_ptr<harness::Device> local) {
      return judge::make_remote_device(std::move(local), command, seconds, total);
    };
    return harness::run(step, static_cast<int>(dashes - argv) - 3, argv + 3);
  } catch (const std::exception& error) {
    fmt::print(stderr, "error: {}\n", error.what());
    return 2;
  }
}
