#pragma once

#include <optional>
#include <string>
#include <vector>

#include "common/harness/device.hpp"
#include "common/harness/output_file.hpp"
#include "common/harness/problem.hpp"
#include "common/harness/verify.hpp"
#include "common/harness/xray.hpp"

namespace harness {

// The files that a problem's matrices come from; an empty path: random.
struct Files {
  std::string a, b, c;
};

struct Request {
  Problem problem;
  std::uint64_t seed = 1;
  Files files;
  bool verify = true;
  int repeat = 0;  // 0: run once, no timing
  bool cold_cache = true;
  Protocol protocol = Protocol::in_turn;  // of timing on a GPU
  std::optional<XrayPlan> xray;           // observe the run; the device must be a checking CPU device
  // Of a checked run: under how many schedules at most; or only this one.
  int schedules = 1;
  std::optional<unsigned> schedule;
  bool all_orders = false;  // under as many orders at most
  Accuracy accuracy = Accuracy::checked;
};

struct Result {
  Problem problem;
  bool verified = false;  // compared with the reference
  bool pass = true;
  Input input = Input::fp32;
  Precision precision = Precision::fp32;
  std::optional<std::int64_t> rounded_inputs;  // elements of files that changed in rounding
  Verdict verdict;                             // the worse of those before and after timing
  std::optional<double> bias_limit;            // of verdict.bias(), if it is conclusive
  std::optional<Verdict> baseline;             // the baseline's result, if it was compared
  std::optional<Timing> timing;
  std::optional<Observation> xray;
  int schedules = 1;                    // under which it ran
  std::vector<std::string> complaints;  // why it failed, one line each
  std::string orders;                   // what has become of all orders
  std::vector<WayTaken> ways;           // of the last run; empty if the step has only one
  Accuracy accuracy = Accuracy::checked;
};

// Runs one problem on a device: fills the matrices (C and everything around it with a NaN), runs the step,
// compares, looks for stray writes, times, and compares again. If C passes, it is written to `out`, unless
// that is nullptr, as .npy. Throws InputError if the device does not have enough memory, before allocating
// any.
Result run_case(Device& device, const Step& step, const Request& request, OutputFile* out);

// Looks at up to three wrong elements and says which well-known mistake gives exactly these values, if any.
// `c0`: the old C, nullptr when beta is 0.
std::string diagnose(Device& device, const AnyGemm& gemm, const float* c0, double tolerance,
                     std::int64_t first_wrong);

// The same for a result that is too large or too small overall; see bias_limit().
std::string diagnose_bias(double bias, double limit, Precision precision);

}  // namespace harness
