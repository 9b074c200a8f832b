#include "common/harness/options.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cmath>
#include <cstdio>
#include <fstream>

#include "common/harness/error.hpp"

namespace harness {

namespace {

void add_problem_options(CLI::App& app, Options& o) {
  const char* group = "Problem";
  app.add_option("--size", o.size, "M = N = K")->group(group);
  app.add_option("--m", o.m, "Rows of A and C")->group(group);
  app.add_option("--n", o.n, "Columns of B and C")->group(group);
  app.add_option("--k", o.k, "Columns of A, rows of B")->group(group);
  app.add_option("--lda", o.lda, "Elements from one row (column) of A to the next [dense]")->group(group);
  app.add_option("--ldb", o.ldb, "The same for B")->group(group);
  app.add_option("--ldc", o.ldc, "The same for C")->group(group);
  app.add_option("--alpha", o.alpha, "Factor of A * B [1]")->group(group);
  app.add_option("--beta", o.beta, "Factor of the old C; 0: C is not read [0]")->group(group);
  app.add_option("--batch", o.batch, "Number of products of this shape, one after the other in memory [1]")
      ->group(group);
  app.add_option("--stride-a", o.stride_a,
                 "Elements from one A of a batch to the next, 0: one for all [rows (columns) times --lda]")
      ->group(group);
  app.add_option("--stride-b", o.stride_b, "The same for B")->group(group);
  app.add_option("--stride-c", o.stride_c, "The same for C, but not 0")->group(group);
  app.add_option("--offset-a", o.offset_a, "Elements from a multiple of 256 bytes to A's first [0]")
      ->group(group);
  app.add_option("--offset-b", o.offset_b, "The same for B")->group(group);
  app.add_option("--offset-c", o.offset_c, "The same for C")->group(group);
  app.add_option("--layout", o.layout, "row (major) or col (major) [row]")->group(group);
  app.add_option("--seed", o.seed, "Seed of the random matrices; 0: zeros [1]")
      ->check(CLI::NonNegativeNumber)
      ->group(group);
}

void add_run_options(CLI::App& app, Options& o, std::vector<std::int64_t>& sweep) {
  const char* run = "Run";
  app.add_option("--device", o.device, "auto, gpu or cpu [auto: a GPU if one can run this]")->group(run);
  app.add_flag("--check", o.check, "CPU device: check every memory access and every barrier")->group(run);
  app.add_option("--schedules", o.schedules,
                 "With --check: under how many schedules, each of which starves another warp [4]")
      ->group(run);
  app.add_option("--schedule", o.schedule, "With --check: only under this one, as a report names it")
      ->group(run);
  app.add_flag("--all-orders", o.all_orders,
               "With --check: under every order of waits, arrivals and copies, --schedules at most [1000]; "
               "shows the shortest bad one")
      ->group(run);
  app.add_option("--watchdog", o.watchdog,
                 "CPU device: seconds of processor time that a thread may run without waiting; 0: any [10]")
      ->group(run);
  app.add_flag("--xray", o.xray, "CPU device: show what each line does to global and shared memory")
      ->group(run);
  app.add_option("--block", o.block, "With --xray: only this block, blockIdx.x,blockIdx.y[,blockIdx.z]")
      ->group(run);
  app.add_flag("--requests", o.requests, "With --xray --json: every request, not one of each line")
      ->group(run);
  app.add_flag("--verify,!--no-verify", o.verify, "Compare with a double-precision product [on]")->group(run);
  app.add_option("--repeat", o.repeat, "Timed repetitions; 0: run and verify only [GPU 20, CPU 1]")
      ->group(run);
  app.add_option("--cache", o.cache, "cold: inputs come from memory in every repetition; hot [cold]")
      ->group(run);
  app.add_option("--protocol", o.protocol,
                 "GPU, how to time: in-turn with cuBLAS; rested: idle before each run, then sustained, too; "
                 "rested-only: not sustained [auto: rested on tensor cores]")
      ->group(run);
  app.add_option(
         "--accuracy", o.accuracy,
         "Steps that emulate FP32: fast: nothing is guarded; checked: FP32 where that is less accurate; "
         "strict: and where it is not proved to keep FP32's bound [checked]")
      ->group(run);
  const char* many = "Several problems";
  app.add_option("--sweep", sweep, "Square sizes, e.g. 256,512,1024 [sizes that suit the device]")
      ->delimiter(',')
      ->expected(0, -1)
      ->group(many);
  app.add_option("--cases", o.cases, "A file with one problem a line, written as options")->group(many);
  const char* files = "Files";
  app.add_option("--a", o.a,
                 "Matrix A, a NumPy float32 array (.npy), rounded to the type that the step takes; needs --b")
      ->group(files);
  app.add_option("--b", o.b, "Matrix B, likewise")->group(files);
  app.add_option("--c", o.c, "The old C, likewise")->group(files);
  app.add_option("--out", o.out, "Where to write the result C (.npy)")->group(files);
  app.add_option("--json", o.json, "Where to write the results as JSON")->group(files);
}

// Some of CLI11's messages have hints on further lines; a user gets one line.
std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

// CLI11 takes an empty value, as in --size "$UNSET", for no value at all.
void check_no_empty_value(const CLI::App& app) {
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_name() == "--sweep") continue;  // may have no value
    for (const std::string& value : option->results()) {
      if (value.empty()) throw InputError(fmt::format("{} is empty; give a value", option->get_name()));
    }
  }
}

void check_finite(const Options& o) {
  if (!std::isfinite(o.alpha)) throw InputError("--alpha must be a finite number");
  if (!std::isfinite(o.beta)) throw InputError("--beta must be a finite number");
}

}  // namespace

std::optional<int> parse_command_line(int argc, const char* const* argv, const std::string& step,
                                      const std::string& inputs, Options& o) {
  CLI::App app{fmt::format("Step {}: C = alpha * A * B + beta * C, {}, FP32 sums; runs, verifies, times.",
                           step, inputs)};
  app.get_formatter()->column_width(28);
  add_problem_options(app, o);
  std::vector<std::int64_t> sweep;
  add_run_options(app, o, sweep);
  app.footer(
      "\nExamples:\n"
      "  run                              the default problem on the device at hand\n"
      "  run --m 35 --n 79 --k 19         a ragged shape\n"
      "  run --device cpu --check         look for races, stray accesses, missing barriers\n"
      "  run --xray                       memory accesses line by line: coalescing, bank conflicts\n"
      "  run --sweep 1024,2048,4096       several sizes\n"
      "  run --a A.npy --b B.npy --out C.npy\n"
      "\nExit status: 0 verified, 1 wrong result, 2 bad usage or input, 3 the device cannot run this.");
  try {
    app.parse(argc, argv);
    if (const CLI::Option* option = app.get_option("--sweep"); option->count() > 0) {
      // Without a value CLI11 passes an empty one.
      const bool without = option->results().size() == 1 &&
                           option->results()[0].find_first_of("0123456789") == std::string::npos;
      o.sweep = without ? std::vector<std::int64_t>{} : sweep;
    }
  } catch (const CLI::CallForHelp&) {
    fmt::print("{}", app.help());
    return 0;
  } catch (const CLI::ParseError& error) {
    throw InputError(first_line(error.what()) + "; --help lists the options");
  }
  check_no_empty_value(app);
  check_finite(o);
  return std::nullopt;
}

std::vector<Options> read_cases(const std::string& path, const Options& defaults) {
  std::ifstream file(path);
  if (!file) throw InputError(fmt::format("{}: cannot be read; give --cases a text file", path));
  std::vector<Options> cases;
  std::string line;
  for (int number = 1; std::getline(file, line); ++number) {
    line = line.substr(0, line.find('#'));
    if (line.find_first_not_of(" \t\r") == line.npos) continue;
    Options options = defaults;
    options.origin = fmt::format("{}:{}: ", path, number);
    CLI::App app;
    app.set_help_flag();
    add_problem_options(app, options);
    try {
      app.parse(line, false);
      check_no_empty_value(app);
      check_finite(options);
    } catch (const std::exception& error) {
      throw InputError(options.origin + first_line(error.what()));
    }
    cases.push_back(options);
  }
  if (cases.empty())
    throw InputError(fmt::format("{}: holds no problem; write one a line, as options", path));
  return cases;
}

}  // namespace harness
