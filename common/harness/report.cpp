#include "common/harness/report.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <nlohmann/json.hpp>
#include <system_error>

#include "common/harness/error.hpp"
#include "common/harness/xray.hpp"

namespace harness {

namespace {

constexpr const char* row_format = "{:<34} {:>12} {:>9} {:>{}} {:>{}} {:>11}  {}\n";

// The widths of the two columns that compare speeds.
std::size_t baseline_width(Input input) {
  return std::max<std::size_t>(10, std::strlen(traits(input).of_baseline));
}
std::size_t peak_width(Input input) { return std::max<std::size_t>(8, std::strlen(traits(input).of_peak)); }

double tflops(const Result& result) {
  const Problem& p = result.problem;
  const double flops = 2.0 * static_cast<double>(p.m) * static_cast<double>(p.n) * static_cast<double>(p.k) *
                       static_cast<double>(p.batch);
  return result.timing && result.timing->median_us > 0 ? flops / result.timing->median_us * 1e-6 : 0;
}

std::string duration(double us) {
  if (us >= 1e6) return fmt::format("{:.3f} s", us * 1e-6);
  if (us >= 1e3) return fmt::format("{:.3f} ms", us * 1e-3);
  return fmt::format("{:.2f} us", us);
}

std::string colored(const char* text, int color) {
  return isatty(STDOUT_FILENO) ? fmt::format("\033[{}m{}\033[0m", color, text) : text;
}

std::string now_utc() {
  const std::time_t now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  std::tm parts{};
  gmtime_r(&now, &parts);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

nlohmann::json number_or_null(double value) {
  return value > 0 && std::isfinite(value) ? nlohmann::json(value) : nlohmann::json(nullptr);
}

}  // namespace

void flush_stdout() {
  errno = 0;
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return;
  throw InputError(fmt::format("standard output cannot be written: {}",
                               std::generic_category().message(errno == 0 ? EIO : errno)));
}

void print_header(const DeviceInfo& device, Input input) {
  const bool gpu = device.kind == "gpu";
  const std::string type = input == Input::fp32 ? "" : fmt::format(", A and B {}", traits(input).name);
  fmt::print(row_format, "shape (M x N x K)" + type, gpu ? "time" : "simulated in", gpu ? "TFLOP/s" : "",
             gpu ? traits(input).of_baseline : "", baseline_width(input), gpu ? traits(input).of_peak : "",
             peak_width(input), "error/bound", "");
}

void print_result(const DeviceInfo& device, const Result& result) {
  const double rate = tflops(result);
  const bool gpu = device.kind == "gpu" && result.timing;
  const double peak = device.peak_tflops(result.input);
  fmt::print(row_format, to_string(result.problem), result.timing ? duration(result.timing->median_us) : "-",
             gpu ? fmt::format("{:.2f}", rate) : "",
             gpu && result.timing->ratio > 0 ? fmt::format("{:.1f} %", 100 * result.timing->ratio) : "",
             baseline_width(result.input), gpu && peak > 0 ? fmt::format("{:.1f} %", 100 * rate / peak) : "",
             peak_width(result.input),
             result.verified ? fmt::format("{:.4f}", result.verdict.max_error_over_bound) : "-",
             result.pass ? (result.verified ? colored("PASS", 32) : "not verified") : colored("FAIL", 31));
  if (result.rounded_inputs) {
    fmt::print("  A and B of the files were rounded to {}: {} elements changed\n", traits(result.input).name,
               *result.rounded_inputs);
  }
  for (const std::string& complaint : result.complaints) fmt::print("  {}\n", complaint);
  if (result.xray) print_xray(*result.xray, result.verified);
  flush_stdout();
}

void print_progress(std::size_t done, std::size_t total, const std::string& next) {
  if (!isatty(STDERR_FILENO)) return;
  constexpr std::size_t width = 30;
  const std::size_t filled = total == 0 ? width : width * done / total;
  if (done == total) {
    fmt::print(stderr, "\r\033[K");
  } else {
    fmt::print(stderr, "\r\033[K[{}{}] {}/{}  {}", std::string(filled, '#'), std::string(width - filled, '.'),
               done, total, next);
  }
  std::fflush(stderr);
}

std::string to_json(const std::string& step, const DeviceInfo& device, const std::vector<Result>& results) {
  nlohmann::json array = nlohmann::json::array();
  for (const Result& result : results) {
    const Problem& p = result.problem;
    nlohmann::json object{
        {"step", step},
        {"m", p.m},
        {"n", p.n},
        {"k", p.k},
        {"batch", p.batch},
        {"lda", p.lda},
        {"ldb", p.ldb},
        {"ldc", p.ldc},
        {"alpha", p.alpha},
        {"beta", p.beta},
        {"input", traits(result.input).name},
        {"layout", p.layout == Layout::row_major ? "row" : "col"},
        {"verified", result.verified},
        {"pass", result.pass},
        {"complaints", result.complaints},
        {"time_us", nullptr},
        {"tflops", nullptr},
        {"ratio_to_cublas", nullptr},
        {"max_error", nullptr},
        {"error_over_bound", nullptr},
        {"device", device.name},
        {"device_kind", device.kind},
        {"date", now_utc()},
    };
    if (result.verified) {
      object["max_error"] = result.verdict.max_error;
      const double over = result.verdict.max_error_over_bound;  // JSON knows no infinity
      object["error_over_bound"] = std::isfinite(over) ? nlohmann::json(over) : nlohmann::json("infinite");
    }
    if (result.timing) {
      const Timing& t = *result.timing;
      object["time_us"] = t.median_us;
      object["samples"] = t.samples;
      object["spread"] = t.spread;
    }
    if (result.rounded_inputs) object["rounded_inputs"] = *result.rounded_inputs;
    if (result.xray) object["xray"] = to_json(*result.xray, result.verified);
    if (device.kind == "gpu") {
      object["driver"] = device.driver;
      object["cuda"] = device.cuda;
      object["compute_capability"] = device.compute_capability;
      object["multiprocessors"] = device.multiprocessors;
      const double peak = device.peak_tflops(result.input);
      object["peak"] = traits(result.input).peak;
      object["peak_tflops"] = number_or_null(peak);
      object["max_sm_clock_mhz"] = number_or_null(device.max_clock_mhz);
      if (result.timing) {
        const Timing& t = *result.timing;
        object["tflops"] = tflops(result);
        object["fraction_of_peak"] = number_or_null(peak > 0 ? tflops(result) / peak : 0);
        object["baseline"] = traits(result.input).baseline;
        object["ratio_to_cublas"] = number_or_null(t.ratio);
        object["cublas_time_us"] = number_or_null(t.baseline_us);
        object["cublas_algorithm"] = t.baseline;
        object["launches_per_sample"] = t.launches_per_sample;
        object["sm_clock_mhz"] = number_or_null(t.telemetry.sm_clock_mhz);
        object["memory_clock_mhz"] = number_or_null(t.telemetry.memory_clock_mhz);
        object["power_watts"] = number_or_null(t.telemetry.power_watts);
        object["temperature_celsius"] = number_or_null(t.telemetry.temperature);
      }
    }
    array.push_back(std::move(object));
  }
  return array.dump(1) + "\n";
}

}  // namespace harness
