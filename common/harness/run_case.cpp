#include "common/harness/run_case.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "common/harness/error.hpp"
#include "common/harness/npy.hpp"

namespace harness {

namespace {

// Elements before and after every matrix that must keep the poison; a multiple of 256 bytes.
constexpr std::int64_t guard = 4096;

// A batch of matrices in device memory between guard zones.
class DeviceMatrix {
 public:
  DeviceMatrix(Device& device, const Extent& extent)
      : device_(device), extent_(extent), elements_(extent.elements() + 2 * guard) {
    buffer_ = static_cast<float*>(device.allocate(elements_ * sizeof(float)));
    device_.poison(buffer_, elements_);
  }
  DeviceMatrix(const DeviceMatrix&) = delete;
  DeviceMatrix(DeviceMatrix&& from) noexcept
      : device_(from.device_),
        extent_(from.extent_),
        elements_(from.elements_),
        buffer_(std::exchange(from.buffer_, nullptr)) {}
  ~DeviceMatrix() { device_.release(buffer_); }

  float* data() const { return buffer_ + guard; }
  const Extent& extent() const { return extent_; }
  void poison() { device_.poison(buffer_, elements_); }
  StrayWrites stray_writes() const { return device_.stray_writes(buffer_, elements_, data(), extent_); }

 private:
  Device& device_;
  Extent extent_;
  std::size_t elements_;
  float* buffer_ = nullptr;
};

// The buffers of one problem. C0 exists if the old C is read, baseline_c if there is a baseline.
struct Buffers {
  DeviceMatrix a, b, c;
  std::optional<DeviceMatrix> c0, baseline_c;
};

std::size_t bytes_of(const Gemm& g, bool timed_on_gpu) {
  const std::size_t c_copies = 1 + (g.beta != 0) + timed_on_gpu;
  const std::size_t elements =
      extent_a(g).elements() + extent_b(g).elements() + c_copies * extent_c(g).elements();
  return (elements + (2 + c_copies) * 2 * guard) * sizeof(float);
}

void check_memory(Device& device, std::size_t needed) {
  const std::size_t free = device.free_bytes() / 20 * 19;  // leave a little for everything else
  if (needed <= free) return;
  constexpr double gib = 1 << 30;
  throw InputError(
      fmt::format("the matrices need {:.1f} GiB and the device has {:.1f} GiB free; choose smaller sizes",
                  needed / gib, free / gib));
}

// Reads a file into a device matrix. The file holds the matrix as the user sees it; its lines are rows in
// row-major and columns in column-major layout, in either case what the steps see as rows.
void load(Device& device, const std::string& path, const DeviceMatrix& matrix) {
  const NpyHeader header = read_npy_header(path);
  std::vector<float> values(static_cast<std::size_t>(header.elements()));
  read_npy_data(path, header, values.data());
  const Extent& e = matrix.extent();
  for (std::int64_t line = 0; line < e.batch * e.rows; ++line) {
    float* to = matrix.data() + line / e.rows * e.stride + line % e.rows * e.leading_dimension;
    device.upload(to, values.data() + line * e.cols, static_cast<std::size_t>(e.cols) * sizeof(float));
  }
}

void save(Device& device, const Problem& problem, const DeviceMatrix& matrix, OutputFile& out) {
  std::vector<std::int64_t> shape{problem.m, problem.n};
  if (problem.batch != 1) shape.insert(shape.begin(), problem.batch);
  const std::string header = npy_header_bytes(shape, problem.layout == Layout::column_major);
  out.write(header.data(), header.size());
  const Extent& e = matrix.extent();
  std::vector<float> row(static_cast<std::size_t>(e.cols));
  for (std::int64_t line = 0; line < e.batch * e.rows; ++line) {
    const float* from = matrix.data() + line / e.rows * e.stride + line % e.rows * e.leading_dimension;
    device.download(row.data(), from, row.size() * sizeof(float));
    out.write(row.data(), row.size() * sizeof(float));
  }
  out.commit();
}

// One problem with its buffers: prepares, runs and judges.
class Case {
 public:
  Case(Device& device, const Step& step, const Request& request)
      : device_(device), step_(step), request_(request), gemm_(to_row_major(request.problem)) {
    result_.problem = request.problem;
    tolerance_ = request.files.a.empty() ? tolerance_random_data(gemm_.K) : tolerance_any_data(gemm_.K);
  }

  Result run(OutputFile* out) {
    const bool on_gpu = device_.info().kind == "gpu";
    const bool timed = on_gpu && request_.repeat > 0;
    check_memory(device_, bytes_of(gemm_, timed));
    add_buffers(timed);
    device_.describe(gemm(0));

    const auto start = std::chrono::steady_clock::now();
    if (request_.xray) {
      result_.xray = run_xray(device_, step_, gemm(0), *request_.xray);
    } else {
      device_.run(step_, gemm(0));
    }
    const std::chrono::duration<double, std::micro> first_run = std::chrono::steady_clock::now() - start;
    judge("");
    if (timed && result_.pass) {
      measure();
      if (gemm_.beta != 0) {  // every timed run changed C: start over for the second look
        device_.copy_matrix(sets_[0].c.data(), sets_[0].c0->data(), sets_[0].c.extent());
        device_.run(step_, gemm(0));
      }
      judge(" after timing");
    } else if (!on_gpu) {
      time_on_cpu(first_run.count());
    }
    if (out != nullptr && result_.pass) save(device_, request_.problem, sets_[0].c, *out);
    return std::move(result_);
  }

 private:
  void add_buffers(bool with_baseline) {
    Buffers set{{device_, extent_a(gemm_)}, {device_, extent_b(gemm_)}, {device_, extent_c(gemm_)}, {}, {}};
    if (gemm_.beta != 0) set.c0.emplace(device_, extent_c(gemm_));
    if (with_baseline) set.baseline_c.emplace(device_, extent_c(gemm_));

    // Operands in the order of the user, who in column-major layout calls our A "B".
    const bool swap = request_.problem.layout == Layout::column_major;
    const std::uint64_t seed = (request_.seed << 20) + 4 * sets_.size();
    const auto fill = [&](const DeviceMatrix& matrix, const std::string& file, std::uint64_t number) {
      if (file.empty()) {
        device_.fill_uniform(matrix.data(), matrix.extent(), seed + number);
      } else {
        load(device_, file, matrix);
      }
    };
    fill(set.a, swap ? request_.files.b : request_.files.a, 1);
    fill(set.b, swap ? request_.files.a : request_.files.b, 2);
    if (set.c0) {
      fill(*set.c0, request_.files.c, 3);
      device_.copy_matrix(set.c.data(), set.c0->data(), set.c.extent());
      if (set.baseline_c) device_.copy_matrix(set.baseline_c->data(), set.c0->data(), set.c.extent());
    }
    sets_.push_back(std::move(set));
  }

  Gemm gemm(std::size_t set) const {
    Gemm g = gemm_;
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
    for (const std::string& fault : device_.faults()) fail(fault);
    const bool whole = !request_.xray || request_.xray->all;  // all of C was computed
    if (!request_.verify || !whole) return;
    result_.verified = true;
    const Gemm g = gemm(0);
    const float* c0 = sets_[0].c0 ? sets_[0].c0->data() : nullptr;
    const Verdict verdict = device_.verify(g, c0, tolerance_);
    result_.verdict.max_error = std::max(result_.verdict.max_error, verdict.max_error);
    result_.verdict.max_error_over_bound =
        std::max(result_.verdict.max_error_over_bound, verdict.max_error_over_bound);
    if (verdict.wrong > 0) {
      fail(fmt::format("wrong result{}: {} of {} elements; {}", when, verdict.wrong,
                       std::int64_t{g.batch} * g.M * g.N,
                       diagnose(device_, g, c0, tolerance_, verdict.first_wrong)));
    }
    for (const auto& [name, matrix] : {std::pair{"A", &sets_[0].a}, {"B", &sets_[0].b}, {"C", &sets_[0].c}}) {
      const StrayWrites stray = matrix->stray_writes();
      if (stray.count == 0) continue;
      fail(fmt::format(
          "write outside of a matrix{}: {} words around {} changed, the first {} elements {} {}[0][0]", when,
          stray.count, name, std::abs(stray.first), stray.first < 0 ? "before" : "after", name));
    }
  }

  // Enough copies of the problem that the L2 cache holds none of the next one's inputs.
  void measure() {
    const std::size_t bytes = bytes_of(gemm_, true);
    if (request_.cold_cache && request_.files.a.empty()) {
      const std::size_t wanted = std::min<std::size_t>(256, 2 * device_.info().l2_bytes / bytes + 1);
      const std::size_t possible = device_.free_bytes() / 2 / bytes;
      while (sets_.size() < std::min(wanted, 1 + possible)) add_buffers(true);
    }
    std::vector<Gemm> gemms;
    std::vector<float*> baseline_c;
    for (std::size_t i = 0; i < sets_.size(); ++i) {
      gemms.push_back(gemm(i));
      baseline_c.push_back(sets_[i].baseline_c->data());
    }
    result_.timing = device_.time(step_, gemms, baseline_c, {request_.repeat, request_.cold_cache, true});

    // A baseline in reduced precision would be no baseline: it has to pass the same test.
    if (!request_.verify || result_.timing->baseline.empty() || gemm_.beta != 0) return;
    Gemm baseline = gemm(0);
    baseline.C = sets_[0].baseline_c->data();
    const Verdict verdict = device_.verify(baseline, nullptr, tolerance_);
    if (verdict.wrong > 0)
      fail(fmt::format("the baseline {} is not FP32-exact: error over bound {:.2g}", result_.timing->baseline,
                       verdict.max_error_over_bound));
  }

  void time_on_cpu(double first_run_us) {
    if (request_.repeat > 1) {
      result_.timing = device_.time(step_, {gemm(0)}, {}, {request_.repeat, false, false});
    } else {
      result_.timing = Timing{};
      result_.timing->samples = 1;
      result_.timing->median_us = first_run_us;
    }
  }

  Device& device_;
  const Step& step_;
  const Request& request_;
  Gemm gemm_;  // row-major, without pointers
  double tolerance_ = 0;
  std::vector<Buffers> sets_;
  Result result_;
};

}  // namespace

Result run_case(Device& device, const Step& step, const Request& request, OutputFile* out) {
  return Case(device, step, request).run(out);
}

}  // namespace harness
