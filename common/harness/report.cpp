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
#include <functional>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>

#include "common/harness/error.hpp"
#include "common/harness/xray.hpp"

namespace harness {

namespace {

double tflops(const Problem& p, double us) {
  const double flops = 2.0 * static_cast<double>(p.m) * static_cast<double>(p.n) * static_cast<double>(p.k) *
                       static_cast<double>(p.batch);
  return us > 0 ? flops / us * 1e-6 : 0;
}
double tflops(const Result& result) {
  return result.timing ? tflops(result.problem, result.timing->median_us) : 0;
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

std::string percent(double fraction) { return fmt::format("{:.1f} %", 100 * fraction); }

// The current power or, if the driver does not tell, its average.
double power_now(const Telemetry& t) { return t.power_watts_now > 0 ? t.power_watts_now : t.power_watts; }

std::string clock_and_power(const Telemetry& t) {
  return fmt::format("{:.0f} MHz at {:.0f} W", t.sm_clock_mhz, power_now(t));
}

void print_sustained(const Result& result) {
  const PrecisionTraits& computed = traits(result.precision);
  const Sustained& s = *result.timing->sustained;
  std::string text = fmt::format("  sustained: {}, {:.2f} TFLOP/s", duration(s.median_us),
                                 tflops(result.problem, s.median_us));
  if (s.telemetry.sm_clock_mhz > 0) text += fmt::format(", {}", clock_and_power(s.telemetry));
  if (s.ratio > 0) {
    text += fmt::format("; {} {}", percent(s.ratio), computed.of_baseline);
    const Telemetry& t = s.baseline_telemetry;
    if (t.sm_clock_mhz > 0) text += fmt::format(", that at {}", clock_and_power(t));
  }
  fmt::print("{}\n", text);
}

// What the protocol adds to a record. Clock and power of a sustained run are those of its own half second.
void add_protocol(nlohmann::json& object, const Result& result) {
  const Timing& t = *result.timing;
  object["protocol"] = name_of(t.protocol);
  if (t.baseline_telemetry) {
    object["cublas_sm_clock_mhz"] = number_or_null(t.baseline_telemetry->sm_clock_mhz);
    object["cublas_power_watts"] = number_or_null(t.baseline_telemetry->power_watts);
    object["cublas_counted_clock_mhz"] = number_or_null(t.baseline_telemetry->counted_clock_mhz);
  }
  if (!t.sustained) return;
  const Sustained& s = *t.sustained;
  object["idle_ms"] = idle_ms;
  object["ratio_sustained"] = number_or_null(s.ratio);
  object["sustained_time_us"] = s.median_us;
  object["sustained_tflops"] = tflops(result.problem, s.median_us);
  object["sustained_cublas_time_us"] = number_or_null(s.baseline_us);
  object["sustained_seconds"] = s.least_seconds;
  object["sustained_rounds"] = sustained_rounds;
  object["sustained_sm_clock_mhz"] = number_or_null(s.telemetry.sm_clock_mhz);
  object["sustained_power_watts"] = number_or_null(power_now(s.telemetry));
  object["sustained_cublas_sm_clock_mhz"] = number_or_null(s.baseline_telemetry.sm_clock_mhz);
  object["sustained_cublas_power_watts"] = number_or_null(power_now(s.baseline_telemetry));
  object["sustained_counted_clock_mhz"] = number_or_null(s.telemetry.counted_clock_mhz);
  object["sustained_cublas_counted_clock_mhz"] = number_or_null(s.baseline_telemetry.counted_clock_mhz);
}

// A column of the table, and the JSON key for the same figure.
struct Column {
  std::string heading;
  std::size_t width;
  std::function<std::string(const Result&)> cell;
  const char* key = nullptr;                                // nullptr: several keys hold it
  std::function<nlohmann::json(const Result&)> value = {};  // discarded: the key is left out
};

std::vector<Column> columns_of(const DeviceInfo& device, Precision precision) {
  using nlohmann::json;
  const bool gpu = device.kind == "gpu";
  const double peak = device.peak_tflops(precision);
  const PrecisionTraits& computed = traits(precision);
  const auto timed_on_gpu = [=](const Result& r) { return gpu && r.timing; };
  const auto as_wide_as = [](const char* text, std::size_t least) {
    return std::max(least, std::strlen(text));
  };
  std::string inputs;
  if (computed.input != Input::fp32) {
    inputs = fmt::format(", A and B {}", traits(computed.input).name);
  } else if (precision != Precision::fp32) {
    inputs = fmt::format(", in {}", computed.name);
  }
  return {
      {"shape (M x N x K)" + inputs, 34, [](const Result& r) { return to_string(r.problem); }},
      {gpu ? "time" : "simulated in", 12,
       [](const Result& r) { return r.timing ? duration(r.timing->median_us) : "-"; },  //
       "time_us", [](const Result& r) { return r.timing ? json(r.timing->median_us) : json(); }},
      {gpu ? "TFLOP/s" : "", 9,
       [=](const Result& r) { return timed_on_gpu(r) ? fmt::format("{:.2f}", tflops(r)) : ""; },  //
       "tflops", [=](const Result& r) { return timed_on_gpu(r) ? json(tflops(r)) : json(); }},
      {gpu ? computed.of_baseline : "", as_wide_as(computed.of_baseline, 10),
       [=](const Result& r) {
         return timed_on_gpu(r) && r.timing->ratio > 0 ? percent(r.timing->ratio) : "";
       },
       "ratio_to_cublas",
       [=](const Result& r) { return timed_on_gpu(r) ? number_or_null(r.timing->ratio) : json(); }},
      {gpu ? computed.of_peak : "", as_wide_as(computed.of_peak, 8),
       [=](const Result& r) { return timed_on_gpu(r) && peak > 0 ? percent(tflops(r) / peak) : ""; },
       "fraction_of_peak",
       [=](const Result& r) {
         return timed_on_gpu(r) ? number_or_null(tflops(r) / peak) : json(json::value_t::discarded);
       }},
      {"relative error", 14,
       [](const Result& r) {
         const double error = r.verdict.max_relative_error;
         return !r.verified ? "-" : error == 0 ? "0" : fmt::format("{:.1e}", error);
       },
       "relative_error",
       [](const Result& r) { return r.verified ? json(r.verdict.max_relative_error) : json(); }},
      {"error/bound", 11,
       [](const Result& r) {
         return r.verified ? fmt::format("{:.4f}", r.verdict.max_error_over_bound) : "-";
       },
       "error_over_bound",
       [](const Result& r) {
         const double over = r.verdict.max_error_over_bound;  // JSON knows no infinity
         return !r.verified ? json() : std::isfinite(over) ? json(over) : json("infinite");
       }},
      {"", 0,
       [](const Result& r) {
         return !r.pass ? colored("FAIL", 31) : r.verified ? colored("PASS", 32) : "not verified";
       },
       "pass", [](const Result& r) { return r.pass; }},
  };
}

// The first and the last column are flush left, the others flush right.
void print_row(const std::vector<Column>& columns, const std::function<std::string(const Column&)>& text) {
  std::string row = fmt::format("{:<{}}", text(columns.front()), columns.front().width);
  for (std::size_t i = 1; i + 1 < columns.size(); ++i) {
    row += fmt::format(" {:>{}}", text(columns[i]), columns[i].width);
  }
  fmt::print("{}  {}\n", row, text(columns.back()));
}

}  // namespace

void flush_stdout() {
  errno = 0;
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return;
  throw InputError(fmt::format("standard output cannot be written: {}",
                               std::generic_category().message(errno == 0 ? EIO : errno)));
}

void print_header(const DeviceInfo& device, Precision precision) {
  print_row(columns_of(device, precision), [](const Column& column) { return column.heading; });
}

void print_result(const DeviceInfo& device, const Result& result) {
  print_row(columns_of(device, result.precision), [&](const Column& column) { return column.cell(result); });
  if (result.timing && result.timing->sustained) print_sustained(result);
  if (result.rounded_inputs) {
    fmt::print("  A and B of the files were rounded to {}: {} elements changed\n", traits(result.input).name,
               *result.rounded_inputs);
  }
  if (!result.ways.empty()) {
    std::string ways;
    for (const WayTaken& way : result.ways) {
      if (way.parts > 0) ways += fmt::format("{}{} {}", ways.empty() ? "" : ", ", way.parts, way.name);
    }
    fmt::print("  {}: parts of C: {}\n", accuracy_names[static_cast<int>(result.accuracy)],
               ways.empty() ? "none" : ways);
  }
  for (const std::string& complaint : result.complaints) fmt::print("  {}\n", complaint);
  if (!result.orders.empty()) fmt::print("  {}\n", result.orders);
  if (result.xray && result.xray->report) print_xray(*result.xray->report, result.verified);
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
        {"precision", traits(result.precision).name},
        {"layout", p.layout == Layout::row_major ? "row" : "col"},
        {"verified", result.verified},
        {"complaints", result.complaints},
        {"max_error", nullptr},
        {"bias", nullptr},
        {"device", device.name},
        {"device_kind", device.kind},
        {"schedules", result.schedules},
        {"date", now_utc()},
    };
    for (const Column& column : columns_of(device, result.precision)) {
      if (column.key == nullptr) continue;
      nlohmann::json value = column.value(result);
      if (!value.is_discarded()) object[column.key] = std::move(value);
    }
    if (result.verified) {
      object["max_error"] = result.verdict.max_error;
      if (result.verdict.product_squared > 0) object["bias"] = result.verdict.bias();
      if (result.bias_limit) object["bias_limit"] = *result.bias_limit;
    }
    if (const Arithmetic& arithmetic = traits(result.precision).arithmetic; arithmetic.operand_error > 0) {
      object["operands"] = arithmetic.rounds_operands ? "rounded" : "cut off";
    }
    if (result.timing) {
      const Timing& t = *result.timing;
      object["samples"] = t.samples;
      object["spread"] = t.spread;
    }
    Problem usual = p;
    usual.stride_a = usual.stride_b = usual.stride_c = std::nullopt;
    usual = checked(usual);
    const auto keep_unusual = [&](const char* key, std::optional<std::int64_t> value,
                                  std::optional<std::int64_t> usually) {
      if (value.value_or(*usually) != *usually) object[key] = *value;
    };
    keep_unusual("stride_a", p.stride_a, usual.stride_a);
    keep_unusual("stride_b", p.stride_b, usual.stride_b);
    keep_unusual("stride_c", p.stride_c, usual.stride_c);
    keep_unusual("offset_a", p.offset_a, 0);
    keep_unusual("offset_b", p.offset_b, 0);
    keep_unusual("offset_c", p.offset_c, 0);
    if (result.rounded_inputs) object["rounded_inputs"] = *result.rounded_inputs;
    if (!result.ways.empty()) {
      object["accuracy"] = accuracy_names[static_cast<int>(result.accuracy)];
      for (const WayTaken& way : result.ways) object["parts"][way.name] = way.parts;
    }
    if (result.xray) {
      const auto& [report, json] = *result.xray;
      object["xray"] = report ? to_json(*report, result.verified) : nlohmann::json::parse(json);
    }
    if (device.kind == "gpu") {
      object["driver"] = device.driver;
      object["cuda"] = device.cuda;
      object["compute_capability"] = device.compute_capability;
      object["multiprocessors"] = device.multiprocessors;
      object["peak"] = traits(result.precision).peak;
      object["peak_tflops"] = number_or_null(device.peak_tflops(result.precision));
      object["max_sm_clock_mhz"] = number_or_null(device.max_clock_mhz);
      if (result.timing) {
        const Timing& t = *result.timing;
        object["baseline"] = traits(result.precision).baseline;
        object["cublas_time_us"] = number_or_null(t.baseline_us);
        object["cublas_algorithm"] = t.baseline;
        if (result.baseline) {
          object["cublas_relative_error"] = result.baseline->max_relative_error;
          object["cublas_bias"] = result.baseline->bias();
        }
        object["launches_per_sample"] = t.launches_per_sample;
        object["sm_clock_mhz"] = number_or_null(t.telemetry.sm_clock_mhz);
        object["memory_clock_mhz"] = number_or_null(t.telemetry.memory_clock_mhz);
        object["power_watts"] = number_or_null(t.telemetry.power_watts);
        object["counted_clock_mhz"] = number_or_null(t.telemetry.counted_clock_mhz);
        object["temperature_celsius"] = number_or_null(t.telemetry.temperature);
        add_protocol(object, result);
      }
    }
    array.push_back(std::move(object));
  }
  return array.dump(1) + "\n";
}

}  // namespace harness
