#include "common/harness/run.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <new>

#include "common/harness/error.hpp"
#include "common/harness/needs.hpp"
#include "common/harness/options.hpp"
#include "common/harness/output_file.hpp"
#include "common/harness/report.hpp"
#include "common/harness/requests.hpp"
#include "common/harness/run_case.hpp"
#include "common/out_of_memory.hpp"
#include "common/too_little_shared.hpp"

namespace harness {

namespace {

// The device that `--device` names; prints a line that says which it is and why.
std::unique_ptr<Device> choose_device(const Options& o, const Step& step) {
  constexpr std::array known{"auto", "gpu", "cpu"};
  if (std::find(known.begin(), known.end(), o.device) == known.end()) {
    throw InputError(fmt::format("unknown device '{}'; use auto, gpu or cpu", o.device));
  }
  if (o.check && o.device == "gpu") {
    throw InputError("--check runs on the CPU device; on a GPU use compute-sanitizer, or leave out --device");
  }
  if (o.xray && o.device == "gpu") {
    throw InputError("--xray runs on the CPU device; on a GPU use Nsight Compute, or leave out --device");
  }
  if (o.xray && !step.cpu_observed) {
    throw DeviceUnavailable("this build cannot observe kernels; compile with GCC to have --xray");
  }
  std::string why_not;
  if (o.check || o.xray) {
    why_not = o.xray ? "--xray runs there" : "--check runs there";
  } else if (o.device == "cpu") {
    why_not = "as asked";
  } else {
    std::unique_ptr<Device> gpu = step.gpu ? make_gpu_device(why_not) : nullptr;
    if (!step.gpu && step.gpu_built_for != nullptr) {
      why_not = fmt::format("this step needs {}, and this build is for {} only", in_words(step.needs),
                            step.gpu_built_for);
    } else if (!step.gpu) {
      why_not = "this program was built without CUDA";
    }
    if (gpu != nullptr && !runs_on(step.needs, gpu->info().compute_capability)) {
      why_not = fmt::format("this step needs {}, and the {} has {}", in_words(step.needs), gpu->info().name,
                            dotted(gpu->info().compute_capability));
      gpu = nullptr;
    }
    if (gpu != nullptr) {
      fmt::print("{} on {}\n", step.name, gpu->info().name);
      return gpu;
    }
    if (o.device == "gpu") throw DeviceUnavailable("no GPU: " + why_not + "; use --device cpu");
    why_not = "no GPU: " + why_not;
  }
  if (!(o.watchdog >= 0 && o.watchdog <= 1e6)) {
    throw InputError(fmt::format("--watchdog is {}; give 0 to 1000000 seconds", o.watchdog));
  }
  auto cpu = make_cpu_device((o.check || o.xray) && !step.elsewhere, o.watchdog);
  fmt::print("{} on the {} ({})\n", step.name, cpu->info().name, why_not);
  return cpu;
}

int run_all(const Step& step, const Options& o) {
  // Everything the user may have got wrong is found before any work begins.
  std::unique_ptr<Device> device = choose_device(o, step);
  const std::vector<Request> requests = requests_of(o, step, device->info().kind == "gpu");
  if (step.elsewhere) device = step.elsewhere(std::move(device));
  std::optional<OutputFile> json, out;
  remove_temporaries_on_signals();
  if (!o.json.empty()) json.emplace(o.json);
  if (!o.out.empty()) out.emplace(o.out);

  print_header(device->info(), step.precision());
  std::vector<Result> results;
  for (const Request& request : requests) {
    if (requests.size() > 1) print_progress(results.size(), requests.size(), to_string(request.problem));
    Result result = run_case(*device, step, request, out ? &*out : nullptr);
    if (requests.size() > 1) print_progress(requests.size(), requests.size(), "");  // clears the bar
    print_result(device->info(), result);
    results.push_back(std::move(result));
  }
  const auto passed = std::count_if(results.begin(), results.end(), [](const Result& r) { return r.pass; });
  if (results.size() > 1) fmt::print("{} of {} passed\n", passed, results.size());
  if (json) {
    const std::string text = to_json(step.name, device->info(), results);
    json->write(text.data(), text.size());
    json->commit();
  }
  return passed == static_cast<std::ptrdiff_t>(results.size()) ? 0 : 1;
}

// One line, whatever the message contains: a path may have newlines and worse.
int complain(const std::string& message, int status) {
  std::string line;
  for (const char c : message) {
    if (c == '\n') {
      line += "\\n";
    } else if (static_cast<unsigned char>(c) < ' ' || c == 0x7f) {
      line += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    } else {
      line += c;
    }
  }
  std::fflush(stdout);
  fmt::print(stderr, "error: {}\n", line);
  return status;
}

// "FP32 inputs", or what becomes of them.
std::string inputs_of(const Step& step) {
  const PrecisionTraits& computed = traits(step.precision());
  const std::string inputs = fmt::format("{} inputs", traits(step.input()).name);
  const Arithmetic& arithmetic = computed.arithmetic;
  if (arithmetic.operand_error == 0) return inputs;
  return fmt::format("{} {} to {}", inputs, arithmetic.rounds_operands ? "rounded" : "cut off",
                     computed.name);
}

}  // namespace

int run(const Step& step, int argc, const char* const* argv) {
  try {
    Options options;
    std::optional<int> status = parse_command_line(argc, argv, step.name, inputs_of(step), options);
    if (!status) status = run_all(step, options);
    flush_stdout();
    return *status;
  } catch (const InputError& error) {
    return complain(error.what(), 2);
  } catch (const DeviceUnavailable& error) {
    return complain(error.what(), 3);
  } catch (const TooLittleShared& error) {
    return complain(std::string(error.what()) + "; use --device cpu", 3);
  } catch (const OutOfMemory& error) {
    return complain(error.what(), 2);
  } catch (const std::bad_alloc&) {
    return complain("not enough memory; choose smaller sizes", 2);
  } catch (const std::exception& error) {
    // Printing failed, or a kernel crashed, or a CUDA call failed.
    return complain(error.what(), std::ferror(stdout) != 0 ? 2 : 1);
  }
}

}  // namespace harness
