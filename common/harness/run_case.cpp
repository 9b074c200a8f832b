#include "common/harness/run_case.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <utility>

#include "common/harness/error.hpp"
#include "common/harness/npy.hpp"

namespace harness {

namespace {

// How many elements before and after every matrix must keep the poison; a multiple of 256 bytes.
constexpr std::int64_t guard = 4096;

// `offset`: how many elements behind the first guard zone the matrix begins.
std::size_t buffer_bytes(Input type, const Extent& extent, std::int64_t offset) {
  const std::size_t bytes = (extent.elements() + 2 * guard + offset) * traits(type).bytes;
  return (bytes + 3) / 4 * 4;  // the poison comes in words
}

// How much memory the buffer takes on this device.
std::size_t memory_of(const Device& device, Input type, const Extent& extent) {
  const std::size_t bytes = buffer_bytes(type, extent, max_offset);
  if (bytes < device.sparse_from()) return bytes;
  constexpr std::size_t page = 4096;
  const std::size_t line = (extent.cols * traits(type).bytes + page - 1) / page * page + page;
  return std::min(bytes, extent.lines() * line);
}

// A batch of matrices in device memory between guard zones.
class DeviceMatrix {
 public:
  DeviceMatrix(Device& device, Input type, const Extent& extent, std::int64_t offset)
      : device_(device), type_(type), extent_(extent), origin_(guard + offset) {
    buffer_ = device.allocate(bytes());
    poison();
  }
  DeviceMatrix(const DeviceMatrix&) = delete;
  DeviceMatrix(DeviceMatrix&& from) noexcept
      : device_(from.device_),
        type_(from.type_),
        extent_(from.extent_),
        origin_(from.origin_),
        buffer_(std::exchange(from.buffer_, nullptr)) {}
  ~DeviceMatrix() { device_.release(buffer_); }

  void poison() { device_.poison(buffer_, bytes()); }
  Input type() const { return type_; }
  const Extent& extent() const { return extent_; }
  void* data() const { return at(0); }
  // Element `offset`, counted from element (0, 0).
  void* at(std::int64_t offset) const {
    return static_cast<char*>(buffer_) + (origin_ + offset) * static_cast<std::int64_t>(traits(type_).bytes);
  }
  StrayWrites stray_writes() const {
    return device_.stray_writes(buffer_, type_, extent_.elements() + origin_ + guard, origin_, extent_);
  }

 private:
  std::size_t bytes() const { return buffer_bytes(type_, extent_, origin_ - guard); }

  Device& device_;
  Input type_;
  Extent extent_;
  std::int64_t origin_;  // of element (0, 0), in elements from the buffer's first
  void* buffer_ = nullptr;
};

// For C, which is float whatever A and B are.
class FloatMatrix : public DeviceMatrix {
 public:
  FloatMatrix(Device& device, const Extent& extent, std::int64_t offset)
      : DeviceMatrix(device, Input::fp32, extent, offset) {}
  float* data() const { return static_cast<float*>(DeviceMatrix::data()); }
};

// The buffers of one problem. C0 exists if the old C is read, baseline_c if there is a baseline.
struct Buffers {
  DeviceMatrix a, b;
  FloatMatrix c;
  std::optional<FloatMatrix> c0, baseline_c;
};

std::size_t bytes_of(const Device& device, const AnyGemm& g, bool timed_on_gpu) {
  const std::size_t c_copies = 1 + (g.beta != 0) + timed_on_gpu;
  return memory_of(device, g.input, extent_a(g)) + memory_of(device, g.input, extent_b(g)) +
         c_copies * memory_of(device, Input::fp32, extent_c(g));
}

void check_memory(Device& device, std::size_t needed) {
  const std::size_t free = device.free_bytes() / 20 * 19;  // leaves a little for everything else
  if (needed <= free) return;
  constexpr double gib = 1 << 30;
  throw InputError(
      fmt::format("the matrices need {:.1f} GiB and the device has {:.1f} GiB free; choose smaller sizes",
                  needed / gib, free / gib));
}

// Reads a file into a device matrix. The file holds the matrix as the user sees it: its lines are rows in
// row-major and columns in column-major layout, in either case what the steps see as rows. Returns how many
// elements changed in rounding to the matrix's type.
std::int64_t load(Device& device, const std::string& path, const DeviceMatrix& matrix) {
  const NpyHeader header = read_npy_header(path);
  std::vector<float> values(static_cast<std::size_t>(header.elements()));
  read_npy_data(path, header, values.data());
  const Extent& e = matrix.extent();
  return with_element(matrix.type(), [&]<typename T>(T) {
    std::vector<T> row(static_cast<std::size_t>(e.cols));
    std::int64_t changed = 0;
    for (std::int64_t line = 0; line < e.lines(); ++line) {
      const float* from = values.data() + line * e.cols;
      for (std::size_t i = 0; i < row.size(); ++i) {
        row[i] = T(from[i]);
        changed += row[i] != from[i] && !std::isnan(from[i]);
      }
      device.upload(matrix.at(e.offset_of_line(line)), row.data(), row.size() * sizeof(T));
    }
    return changed;
  });
}

void save(Device& device, const Problem& problem, const FloatMatrix& matrix, OutputFile& out) {
  std::vector<std::int64_t> shape{problem.m, problem.n};
  if (problem.batch != 1) shape.insert(shape.begin(), problem.batch);
  const std::string header = npy_header_bytes(shape, problem.layout == Layout::column_major);
  out.write(header.data(), header.size());
  const Extent& e = matrix.extent();
  std::vector<float> row(static_cast<std::size_t>(e.cols));
  for (std::int64_t line = 0; line < e.lines(); ++line) {
    device.download(row.data(), matrix.at(e.offset_of_line(line)), row.size() * sizeof(float));
    out.write(row.data(), row.size() * sizeof(float));
  }
  out.commit();
}

// One problem with its buffers: prepares, runs and judges.
class Case {
 public:
  Case(Device& device, const Step& step, const Request& request)
      : device_(device), step_(step), request_(request), gemm_(to_row_major(request.problem, step.input())) {
    result_.problem = request.problem;
    result_.input = gemm_.input;
    gemm_.accuracy = result_.accuracy = request.accuracy;
    result_.precision = step.precision();
    const auto& tolerance = request.files.a.empty() ? tolerance_random_data : tolerance_any_data;
    const Arithmetic& arithmetic = traits(step.precision()).arithmetic;
    tolerance_ = tolerance(gemm_.K, arithmetic);
    baseline_tolerance_ = tolerance(gemm_.K, traits(granted_to_baseline(step.precision())).arithmetic);
    if (request.files.a.empty()) bias_limit_ = bias_limit(gemm_, arithmetic);
  }

  Result run(OutputFile* out) {
    const bool on_gpu = device_.info().kind == "gpu";
    const bool timed = on_gpu && request_.repeat > 0;
    check_memory(device_, bytes_of(device_, gemm_, timed));
    add_buffers(timed);
    device_.describe(gemm(0));
    if (request_.schedule) device_.set_schedule(*request_.schedule);
    if (request_.all_orders) device_.explore_orders(true);

    const auto start = std::chrono::steady_clock::now();
    if (request_.xray) {
      result_.xray = device_.observe(step_, gemm(0), *request_.xray);
    } else {
      device_.run(step_, gemm(0));
    }
    const std::chrono::duration<double, std::micro> first_run = std::chrono::steady_clock::now() - start;
    if (request_.all_orders) {
      judge_all_orders();
    } else {
      judge(under(request_.schedule.value_or(0)));
      if (!request_.schedule && !request_.xray) run_further_schedules();
    }
    if (timed && result_.pass) {
      measure();
      if (gemm_.beta != 0) {  // every timed run changed C: start over for the second comparison
        device_.copy_matrix(sets_[0].c.data(), sets_[0].c0->data(), sets_[0].c.extent());
        device_.run(step_, gemm(0));
      }
      judge(" after timing");
    } else if (!on_gpu) {
      time_on_cpu(first_run.count());
    }
    if (const auto measured = device_.last_run_us()) {
      result_.timing = Timing{};
      result_.timing->samples = 1;
      result_.timing->median_us = *measured;
    }
    result_.ways = device_.ways();
    if (out != nullptr && result_.pass) save(device_, request_.problem, sets_[0].c, *out);
    return std::move(result_);
  }

 private:
  static std::string under(unsigned schedule) {
    return schedule == 0 ? ""
                         : fmt::format(" under schedule {0} (warp {1} starved; --schedule {0} repeats it)",
                                       schedule, schedule - 1);
  }

  // Until one fails.
  void run_further_schedules() {
    for (const unsigned schedule : device_.take_schedules()) {
      if (!result_.pass || result_.schedules >= request_.schedules) break;
      device_.set_schedule(schedule);
      run_again();
      ++result_.schedules;
      judge(under(schedule));
    }
    device_.set_schedule(0);
  }

  void run_again() {
    FloatMatrix& c = sets_[0].c;
    c.poison();
    if (sets_[0].c0) device_.copy_matrix(c.data(), sets_[0].c0->data(), c.extent());
    device_.describe(gemm(0));
    device_.run(step_, gemm(0));
  }

  // The first order has been run.
  void judge_all_orders() {
    constexpr std::uint64_t after_bad = 30;  // schedules, among which a shorter bad one may be
    std::uint64_t most = static_cast<unsigned>(request_.schedules);
    std::vector<std::string> faults;  // of the shortest bad one
    cpu_device::OrdersRun run;
    while (true) {
      std::vector<std::string> now = device_.faults();
      if (!now.empty()) most = std::min(most, run.schedules + after_bad);
      run = device_.next_order(!result_.pass || run.schedules + 1 >= most);
      if (run.best) faults = now;
      if (run.whole && now.empty()) judge(fmt::format(" in schedule {} of all orders", run.schedules));
      if (!run.more) break;
      run_again();
    }
    device_.explore_orders(false);
    result_.schedules = static_cast<int>(run.schedules);
    const std::string schedules = fmt::format("{}{} schedule{}", run.all ? "" : "the first ", run.schedules,
                                              run.schedules == 1 && run.all ? "" : "s");
    const std::string of_more = run.all ? "" : " of more";
    for (const std::string& fault : faults) fail(fault);
    if (!faults.empty()) {
      result_.orders = fmt::format("{} of {}{} bad; the shortest of these:", run.bad, schedules, of_more);
      for (const std::string& line : run.table) result_.orders += "\n  " + line;
    } else if (result_.pass && run.steps == 0) {
      result_.orders = "nothing happens at mbarriers or named barriers: no order to vary";
    } else if (result_.pass) {
      result_.orders = fmt::format(
          "no deadlock, no race in {}{} (up to {} steps; {} other choices exchange only steps that commute)",
          schedules, of_more, run.steps, run.commuting);
    }
  }

  void add_buffers(bool with_baseline) {
    // Operands in the user's order: in column-major layout, our A is the user's B.
    const Problem& p = request_.problem;
    const bool swap = p.layout == Layout::column_major;
    Buffers set{{device_, gemm_.input, extent_a(gemm_), swap ? p.offset_b : p.offset_a},
                {device_, gemm_.input, extent_b(gemm_), swap ? p.offset_a : p.offset_b},
                {device_, extent_c(gemm_), p.offset_c},
                {},
                {}};
    if (gemm_.beta != 0) set.c0.emplace(device_, extent_c(gemm_), p.offset_c);
    if (with_baseline) set.baseline_c.emplace(device_, extent_c(gemm_), p.offset_c);

    const std::uint64_t seed = (request_.seed << 20) + 4 * sets_.size();
    std::int64_t rounded = 0;
    const auto fill = [&](const DeviceMatrix& matrix, const std::string& file, std::uint64_t number) {
      if (file.empty()) {
        device_.fill_uniform(matrix.data(), matrix.type(), matrix.extent(),
                             request_.seed == 0 ? 0 : seed + number);
      } else {
        rounded += load(device_, file, matrix);
      }
    };
    fill(set.a, swap ? request_.files.b : request_.files.a, 1);
    fill(set.b, swap ? request_.files.a : request_.files.b, 2);
    if (set.c0) {
      fill(*set.c0, request_.files.c, 3);
      device_.copy_matrix(set.c.data(), set.c0->data(), set.c.extent());
      if (set.baseline_c) device_.copy_matrix(set.baseline_c->data(), set.c0->data(), set.c.extent());
    }
    const bool narrow = traits(gemm_.input).significand_bits < traits(Input::fp32).significand_bits;
    if (!request_.files.a.empty() && narrow) result_.rounded_inputs = rounded;
    sets_.push_back(std::move(set));
  }

  AnyGemm gemm(std::size_t set) const {
    AnyGemm g = gemm_;
    g.A = sets_[set].a.data();
    g.B = sets_[set].b.data();
    g.C = sets_[set].c.data();
    return g;
  }

  void fail(std::string why) {
    result_.pass = false;
    result_.complaints.push_back(std::move(why));
  }

  void judge(const std::string& when) {
    for (std::string& fault : device_.faults()) {
      fail(fault.insert(std::min(fault.find('\n'), fault.size()), when));
    }
    const bool whole = !request_.xray || request_.xray->all;  // the whole of C was computed
    if (!request_.verify || !whole) return;
    result_.verified = true;
    const AnyGemm g = gemm(0);
    const float* c0 = sets_[0].c0 ? sets_[0].c0->data() : nullptr;
    const Verdict verdict = device_.verify(g, c0, tolerance_);
    Verdict& worst = result_.verdict;
    worst.max_error = std::max(worst.max_error, verdict.max_error);
    worst.max_relative_error = std::max(worst.max_relative_error, verdict.max_relative_error);
    worst.max_error_over_bound = std::max(worst.max_error_over_bound, verdict.max_error_over_bound);
    if (std::fabs(verdict.bias()) >= std::fabs(worst.bias())) {
      worst.error_along_product = verdict.error_along_product;
      worst.product_squared = verdict.product_squared;
    }
    if (std::isfinite(bias_limit_)) result_.bias_limit = bias_limit_;
    if (verdict.wrong > 0) {
      fail(fmt::format("wrong result{}: {} of {} elements; {}", when, verdict.wrong,
                       std::int64_t{g.batch} * g.M * g.N,
                       diagnose(device_, g, c0, tolerance_, verdict.first_wrong)));
    }
    // A missing term causes a bias, too, but then the elements say more.
    const bool rounding = verdict.max_error_over_bound * tolerance_ <= baseline_tolerance_;
    if (rounding && std::fabs(verdict.bias()) > bias_limit_) {
      fail(fmt::format("wrong result{}: {}", when,
                       diagnose_bias(verdict.bias(), bias_limit_, step_.precision())));
    }
    const std::pair<const char*, const DeviceMatrix*> matrices[] = {
        {"A", &sets_[0].a}, {"B", &sets_[0].b}, {"C", &sets_[0].c}};
    for (const auto& [name, matrix] : matrices) {
      const StrayWrites stray = matrix->stray_writes();
      if (stray.count == 0) continue;
      fail(fmt::format(
          "write outside of a matrix{}: {} words around {} changed, the first {} elements {} {}[0][0]", when,
          stray.count, name, std::abs(stray.first), stray.first < 0 ? "before" : "after", name));
    }
  }

  // With enough copies of the problem that none of the next one's inputs are in the L2 cache.
  void measure() {
    const std::size_t bytes = bytes_of(device_, gemm_, true);
    if (request_.cold_cache && request_.files.a.empty()) {
      const std::size_t wanted = std::min<std::size_t>(256, 2 * device_.info().l2_bytes / bytes + 1);
      const std::size_t possible = device_.free_bytes() / 2 / bytes;
      while (sets_.size() < std::min(wanted, 1 + possible)) add_buffers(true);
    }
    std::vector<AnyGemm> gemms;
    std::vector<float*> baseline_c;
    for (std::size_t i = 0; i < sets_.size(); ++i) {
      gemms.push_back(gemm(i));
      baseline_c.push_back(sets_[i].baseline_c->data());
    }
    result_.timing = device_.time(step_, gemms, baseline_c, request_.repeat, request_.protocol);

    // A less precise baseline would be no baseline: it has to pass the same test, except that it may truncate
    // its operands. The record has its error.
    if (!request_.verify || result_.timing->baseline.empty() || gemm_.beta != 0) return;
    AnyGemm baseline = gemm(0);
    baseline.C = sets_[0].baseline_c->data();
    const Verdict verdict = device_.verify(baseline, nullptr, baseline_tolerance_);
    result_.baseline = verdict;
    if (verdict.wrong > 0)
      fail(fmt::format("the baseline {} is not {}-exact: error over bound {:.2g}", result_.timing->baseline,
                       traits(step_.precision()).name, verdict.max_error_over_bound));
  }

  void time_on_cpu(double first_run_us) {
    if (request_.repeat > 1) {
      result_.timing = device_.time(step_, {gemm(0)}, {}, request_.repeat, Protocol::in_turn);
    } else {
      result_.timing = Timing{};
      result_.timing->samples = 1;
      result_.timing->median_us = first_run_us;
    }
  }

  Device& device_;
  const Step& step_;
  const Request& request_;
  AnyGemm gemm_;  // row-major, not yet with pointers
  double tolerance_ = 0, baseline_tolerance_ = 0;
  double bias_limit_ = INFINITY;
  std::vector<Buffers> sets_;
  Result result_;
};

}  // namespace

Result run_case(Device& device, const Step& step, const Request& request, OutputFile* out) {
  return Case(device, step, request).run(out);
}

}  // namespace harness
