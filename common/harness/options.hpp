#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/harness/problem.hpp"

namespace harness {

// The command line as typed; run.cpp decides what it means. Absent options are empty.
struct Options {
  // The problem.
  std::optional<std::int64_t> size, m, n, k;
  std::int64_t lda = 0, ldb = 0, ldc = 0, batch = 1;
  std::optional<std::int64_t> stride_a, stride_b, stride_c;
  std::int64_t offset_a = 0, offset_b = 0, offset_c = 0;
  float alpha = 1.0f, beta = 0.0f;
  std::string layout = "row";
  std::uint64_t seed = 1;
  // Several problems.
  std::optional<std::vector<std::int64_t>> sweep;  // empty: the device's default sizes
  std::string cases;
  std::string origin;                  // of a problem from a --cases file: "FILE:LINE: "
  const char* size_option = "--size";  // the one that gave `size`
  // How to run.
  std::string device = "auto";
  bool check = false;
  std::optional<int> schedules, schedule;
  bool all_orders = false;
  double watchdog = 10;  // seconds
  bool xray = false;
  bool requests = false;
  std::string block;  // --block, as typed
  bool verify = true;
  std::optional<int> repeat;
  std::string cache = "cold";
  std::string protocol = "auto";
  std::string accuracy;  // --accuracy, as typed
  // Files.
  std::string a, b, c, out, json;
};

// Parses the command line; --help mentions `step` and `inputs`. Returns the exit status after --help,
// otherwise nothing. Throws InputError, with one line, for what it cannot understand.
std::optional<int> parse_command_line(int argc, const char* const* argv, const std::string& step,
                                      const std::string& inputs, Options& options);

// The problems of a --cases file: one per line, written as options; `#` starts a comment. Options that a line
// does not give keep the command line's values. Throws an InputError that names file and line.
std::vector<Options> read_cases(const std::string& path, const Options& defaults);

}  // namespace harness
