// The GPU as the harness sees it.

#include <algorithm>
#include <chrono>
#include <cmath>
#include <functional>
#include <stdexcept>

#include "common/cuda/check.hpp"
#include "common/harness/cublas.hpp"
#include "common/harness/device.hpp"
#include "common/harness/random.hpp"
#include "common/harness/telemetry.hpp"
#include "common/harness/verify.hpp"

namespace harness {

namespace {

// ---- Small kernels
// ------------------------------------------------------------------------------------------

constexpr int threads = 256;

// Enough blocks of `threads` for `count` elements; the kernels below stride over the rest.
int blocks_for(std::int64_t count) {
  return static_cast<int>(std::min<std::int64_t>((count + threads - 1) / threads, 1 << 16));
}

__device__ std::int64_t first_index() { return std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; }
__device__ std::int64_t index_step() { return std::int64_t{gridDim.x} * blockDim.x; }

__global__ void poison_kernel(std::uint32_t* words, std::int64_t count) {
  for (std::int64_t i = first_index(); i < count; i += index_step()) words[i] = poison_bits;
}

// Where element number i of the dense matrix lies.
__device__ std::int64_t offset_of(const Extent& e, std::int64_t i) {
  const std::int64_t line = i / e.cols;
  return line / e.rows * e.stride + line % e.rows * e.leading_dimension + i % e.cols;
}

__global__ void fill_kernel(float* data, Extent e, std::uint64_t seed) {
  for (std::int64_t i = first_index(); i < e.batch * e.rows * e.cols; i += index_step()) {
    data[offset_of(e, i)] = uniform(seed, i);
  }
}

__global__ void copy_kernel(float* to, const float* from, Extent e) {
  for (std::int64_t i = first_index(); i < e.batch * e.rows * e.cols; i += index_step()) {
    to[offset_of(e, i)] = from[offset_of(e, i)];
  }
}

// result[0]: how many words changed; result[1]: the first of them.
__global__ void stray_kernel(const std::uint32_t* words, std::int64_t count, std::int64_t origin, Extent e,
                             unsigned long long* result) {
  for (std::int64_t i = first_index(); i < count; i += index_step()) {
    if (words[i] == poison_bits) continue;
    const std::int64_t at = i - origin;
    const bool inside = at >= 0 && e.stride > 0 && at / e.stride < e.batch &&
                        at % e.stride / e.leading_dimension < e.rows &&
                        at % e.stride % e.leading_dimension < e.cols;
    if (inside) continue;
    atomicAdd(&result[0], 1ull);
    atomicMin(&result[1], static_cast<unsigned long long>(i));
  }
}

struct DeviceVerdict {
  unsigned long long max_error_bits;  // of doubles >= 0, whose bits order as they do
  unsigned long long max_over_bits;
  unsigned long long wrong;
  unsigned long long first_wrong;
};

constexpr int VT = 32;  // the verifying block's tile

// One thread computes one element of the reference in double precision and judges C's. Simple tiles in
// shared memory: fast enough, and independent of everything that it verifies.
__global__ void verify_kernel(Gemm g, const float* c0, double tolerance, DeviceVerdict* verdict) {
  __shared__ double a_tile[VT][VT + 1];  // [row][k]
  __shared__ double b_tile[VT][VT];      // [k][col]
  const float* A = g.A + blockIdx.z * g.strideA;
  const float* B = g.B + blockIdx.z * g.strideB;
  const int tx = threadIdx.x, ty = threadIdx.y;
  const std::int64_t row = std::int64_t{blockIdx.y} * VT + ty;
  const std::int64_t col = std::int64_t{blockIdx.x} * VT + tx;
  double sum = 0, magnitude = 0;
  for (int k0 = 0; k0 < g.K; k0 += VT) {
    a_tile[ty][tx] = row < g.M && k0 + tx < g.K ? A[row * g.lda + k0 + tx] : 0.0;
    b_tile[ty][tx] = k0 + ty < g.K && col < g.N ? B[(k0 + ty) * g.ldb + col] : 0.0;
    __syncthreads();
    const int depth = min(VT, g.K - k0);  // beyond it 0 * NaN could arise from a NaN in the matrix
    for (int k = 0; k < depth; ++k) {
      const double product = a_tile[ty][k] * b_tile[k][tx];
      sum += product;
      magnitude += fabs(product);
    }
    __syncthreads();
  }
  if (row >= g.M || col >= g.N) return;
  const std::int64_t offset = blockIdx.z * g.strideC + row * g.ldc + col;
  const double old = c0 == nullptr ? 0.0 : static_cast<double>(g.beta) * c0[offset];
  const double reference = static_cast<double>(g.alpha) * sum + old;
  const float c = g.C[offset];
  const double over =
      error_over_bound(c, reference, {magnitude, fabs(static_cast<double>(g.alpha)), fabs(old)}, tolerance);
  const double error = fabs(c - reference);
  if (!isnan(error))
    atomicMax(&verdict->max_error_bits, static_cast<unsigned long long>(__double_as_longlong(error)));
  atomicMax(&verdict->max_over_bits, static_cast<unsigned long long>(__double_as_longlong(over)));
  if (over <= 1) return;
  atomicAdd(&verdict->wrong, 1ull);
  atomicMin(&verdict->first_wrong,
            static_cast<unsigned long long>((blockIdx.z * std::int64_t{g.M} + row) * g.N + col));
}

double as_double(unsigned long long bits) {
  double value;
  static_assert(sizeof value == sizeof bits);
  std::copy_n(reinterpret_cast<const char*>(&bits), sizeof value, reinterpret_cast<char*>(&value));
  return value;
}

// ---- The device
// -----------------------------------------------------------------------------------------------

// FP32 units in a multiprocessor: each does one FFMA a cycle. CUDA programming guide, arithmetic throughput.
int fp32_lanes(int compute_capability) {
  switch (compute_capability) {
    case 60:
    case 70:
    case 72:
    case 75:
    case 80:
      return 64;
    default:
      return 128;
  }
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

class Event {
 public:
  Event() { CUDA_CHECK(cudaEventCreate(&event_)); }
  Event(const Event&) = delete;
  ~Event() { cudaEventDestroy(event_); }
  void record() { CUDA_CHECK(cudaEventRecord(event_)); }
  // Waits for both; in microseconds.
  static double between(const Event& start, const Event& stop) {
    float ms = 0;
    CUDA_CHECK(cudaEventSynchronize(stop.event_));
    CUDA_CHECK(cudaEventElapsedTime(&ms, start.event_, stop.event_));
    return ms * 1e3;
  }

 private:
  cudaEvent_t event_ = nullptr;
};

// A kernel that takes seconds (the naive one at 16384 takes 18) needs no 20 repetitions to be timed to a
// fraction of a percent.
constexpr int enough_samples = 3;
constexpr double enough_seconds = 10;

class GpuDevice : public Device {
 public:
  explicit GpuDevice(int device) {
    CUDA_CHECK(cudaSetDevice(device));
    cudaDeviceProp properties{};
    CUDA_CHECK(cudaGetDeviceProperties(&properties, device));
    int clock_khz = 0, runtime = 0;
    CUDA_CHECK(cudaDeviceGetAttribute(&clock_khz, cudaDevAttrClockRate, device));
    CUDA_CHECK(cudaRuntimeGetVersion(&runtime));
    char bus_id[32];
    CUDA_CHECK(cudaDeviceGetPCIBusId(bus_id, sizeof bus_id, device));
    sampler_ = std::make_unique<Sampler>(bus_id);
    info_.kind = "gpu";
    info_.name = properties.name;
    info_.compute_capability = properties.major * 10 + properties.minor;
    info_.multiprocessors = properties.multiProcessorCount;
    info_.max_clock_mhz = clock_khz * 1e-3;
    info_.peak_tflops =
        2.0 * info_.multiprocessors * fp32_lanes(info_.compute_capability) * info_.max_clock_mhz * 1e-6;
    info_.l2_bytes = static_cast<std::size_t>(properties.l2CacheSize);
    info_.driver = sampler_->driver_version();
    info_.cuda = std::to_string(runtime / 1000) + "." + std::to_string(runtime % 1000 / 10);
  }

  const DeviceInfo& info() const override { return info_; }

  std::size_t free_bytes() override {
    std::size_t free = 0, total = 0;
    CUDA_CHECK(cudaMemGetInfo(&free, &total));
    return free;
  }
  void* allocate(std::size_t bytes) override {
    void* pointer = nullptr;
    CUDA_CHECK(cudaMalloc(&pointer, bytes));
    return pointer;
  }
  void release(void* pointer) noexcept override { cudaFree(pointer); }
  void upload(void* to, const void* from, std::size_t bytes) override {
    CUDA_CHECK(cudaMemcpy(to, from, bytes, cudaMemcpyHostToDevice));
  }
  void download(void* to, const void* from, std::size_t bytes) override {
    CUDA_CHECK(cudaMemcpy(to, from, bytes, cudaMemcpyDeviceToHost));
  }

  void poison(float* buffer, std::size_t elements) override {
    poison_kernel<<<blocks_for(elements), threads>>>(reinterpret_cast<std::uint32_t*>(buffer), elements);
    CUDA_CHECK(cudaGetLastError());
  }
  void fill_uniform(float* data, const Extent& e, std::uint64_t seed) override {
    if (e.batch * e.rows * e.cols == 0) return;
    fill_kernel<<<blocks_for(e.batch * e.rows * e.cols), threads>>>(data, e, seed);
    CUDA_CHECK(cudaGetLastError());
  }
  void copy_matrix(float* to, const float* from, const Extent& e) override {
    if (e.batch * e.rows * e.cols == 0) return;
    copy_kernel<<<blocks_for(e.batch * e.rows * e.cols), threads>>>(to, from, e);
    CUDA_CHECK(cudaGetLastError());
  }

  StrayWrites stray_writes(const float* buffer, std::size_t elements, const float* data,
                           const Extent& e) override {
    const unsigned long long none[2] = {0, ~0ull};
    unsigned long long found[2];
    auto* result = static_cast<unsigned long long*>(allocate(sizeof none));
    upload(result, none, sizeof none);
    stray_kernel<<<blocks_for(elements), threads>>>(reinterpret_cast<const std::uint32_t*>(buffer), elements,
                                                    data - buffer, e, result);
    CUDA_CHECK(cudaGetLastError());
    download(found, result, sizeof found);
    release(result);
    if (found[0] == 0) return {};
    return {static_cast<std::int64_t>(found[0]), static_cast<std::int64_t>(found[1]) - (data - buffer)};
  }

  void run(const Step& step, const Gemm& gemm) override {
    run_in_panels(step.gpu, gemm);
    CUDA_CHECK(cudaDeviceSynchronize());
  }

  Verdict verify(const Gemm& g, const float* c0, double tolerance) override {
    const DeviceVerdict none{0, 0, 0, ~0ull};
    DeviceVerdict sum{};
    auto* device = static_cast<DeviceVerdict*>(allocate(sizeof none));
    Verdict verdict;
    // Panels as for the steps; the indices of wrong elements are relative to the panel.
    constexpr int max_rows = 1 << 20, max_matrices = 1 << 15;
    for (int matrix = 0; matrix < g.batch; matrix += max_matrices) {
      for (int row = 0; row < g.M; row += max_rows) {
        Gemm panel = g;
        panel.batch = std::min(max_matrices, g.batch - matrix);
        panel.M = std::min(max_rows, g.M - row);
        panel.A += matrix * g.strideA + row * g.lda;
        panel.B += matrix * g.strideB;
        const std::int64_t offset = matrix * g.strideC + row * g.ldc;
        panel.C += offset;
        if (g.N == 0) continue;
        upload(device, &none, sizeof none);
        const dim3 grid((panel.N + VT - 1) / VT, (panel.M + VT - 1) / VT, panel.batch);
        verify_kernel<<<grid, dim3(VT, VT)>>>(panel, c0 == nullptr ? nullptr : c0 + offset, tolerance,
                                              device);
        CUDA_CHECK(cudaGetLastError());
        download(&sum, device, sizeof sum);
        verdict.max_error = std::max(verdict.max_error, as_double(sum.max_error_bits));
        verdict.max_error_over_bound = std::max(verdict.max_error_over_bound, as_double(sum.max_over_bits));
        verdict.wrong += static_cast<std::int64_t>(sum.wrong);
        if (sum.wrong > 0 && verdict.first_wrong < 0) {
          const auto index = static_cast<std::int64_t>(sum.first_wrong);
          const std::int64_t line = index / g.N;
          const std::int64_t whole = (matrix + line / panel.M) * g.M + row + line % panel.M;
          verdict.first_wrong = whole * g.N + index % g.N;
        }
      }
    }
    release(device);
    return verdict;
  }

  Timing time(const Step& step, const std::vector<Gemm>& sets, const std::vector<float*>& baseline_c,
              const TimingRequest& request) override {
    Timing timing;
    const bool empty = sets[0].M == 0 || sets[0].N == 0;
    const bool baseline = request.baseline && !empty && sets[0].K > 0;
    const auto baseline_problem = [&](std::size_t set) {
      Gemm g = sets[set];
      g.C = baseline_c[set];
      return g;
    };
    if (baseline) {
      if (cublas_ == nullptr) cublas_ = std::make_unique<Cublas>();
      cublas_->choose(baseline_problem(0));
      timing.baseline = cublas_->chosen();
    }
    std::size_t next = 0;  // the set whose turn it is
    const auto run_step = [&](int launches) {
      for (int i = 0; i < launches; ++i) run_in_panels(step.gpu, sets[(next + i) % sets.size()]);
    };
    const auto run_baseline = [&](int launches) {
      for (int i = 0; i < launches; ++i) cublas_->run(baseline_problem((next + i) % sets.size()));
    };
    Event start, stop;
    const auto sample = [&](const auto& run, int launches) {
      start.record();
      run(launches);
      stop.record();
      const double us = Event::between(start, stop) / launches;
      return us;
    };

    sampler_->start();
    const double first = sample(run_step, 1);
    // Several launches to a sample where one is short against the resolution of events (about 1 us).
    timing.launches_per_sample = std::clamp(static_cast<int>(300 / std::max(first, 1.0)), 1, 50);
    warm_up([&] {
      const double us = sample(run_step, timing.launches_per_sample);
      if (baseline) sample(run_baseline, timing.launches_per_sample);
      return us;
    });
    std::vector<double> step_us, baseline_us, ratios;
    const auto timing_start = std::chrono::steady_clock::now();
    for (int i = 0; i < request.repeat; ++i) {
      const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - timing_start;
      if (i >= enough_samples && elapsed.count() > enough_seconds) break;
      step_us.push_back(sample(run_step, timing.launches_per_sample));
      next += timing.launches_per_sample;
      if (!baseline) continue;
      baseline_us.push_back(sample(run_baseline, timing.launches_per_sample));
      next += timing.launches_per_sample;
      ratios.push_back(baseline_us.back() / step_us.back());
    }
    const Telemetry telemetry = sampler_->stop();
    timing.samples = static_cast<int>(step_us.size());
    timing.median_us = median(step_us);
    std::sort(step_us.begin(), step_us.end());
    timing.spread = (step_us[step_us.size() * 3 / 4] - step_us[step_us.size() / 4]) / timing.median_us;
    if (baseline) {
      timing.baseline_us = median(baseline_us);
      timing.ratio = median(ratios);
    }
    timing.sm_clock_mhz = telemetry.sm_clock_mhz;
    timing.memory_clock_mhz = telemetry.memory_clock_mhz;
    timing.power_watts = telemetry.power_watts;
    timing.temperature = telemetry.temperature;
    return timing;
  }

 private:
  // Runs `sample` until the last five times agree within 2 %, for 0.2 s at least and 2 s at most.
  template <typename Sample>
  static void warm_up(const Sample& sample) {
    const auto start = std::chrono::steady_clock::now();
    std::vector<double> last;
    while (true) {
      last.push_back(sample());
      if (last.size() > 5) last.erase(last.begin());
      const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
      const auto [low, high] = std::minmax_element(last.begin(), last.end());
      const bool settled = last.size() == 5 && *high <= 1.02 * *low && elapsed.count() > 0.2;
      if (settled || elapsed.count() > 2) return;
    }
  }

  DeviceInfo info_;
  std::unique_ptr<Sampler> sampler_;
  std::unique_ptr<Cublas> cublas_;  // made when first needed: it takes a second
};

}  // namespace

std::unique_ptr<Device> make_gpu_device(std::string& why_not) {
  int count = 0;
  cudaError_t status = cudaGetDeviceCount(&count);
  if (status == cudaSuccess && count == 0) status = cudaErrorNoDevice;
  if (status != cudaSuccess) {
    // CUDA reports a machine without a driver as one with an old driver.
    why_not = status == cudaErrorInsufficientDriver
                  ? "there is no NVIDIA driver, or one older than this program's CUDA"
                  : cudaGetErrorString(status);
    return nullptr;
  }
  // Whether this program holds code for the GPU shows when a kernel is looked up.
  cudaFuncAttributes attributes{};
  status = cudaFuncGetAttributes(&attributes, poison_kernel);
  if (status != cudaSuccess) {
    cudaDeviceProp properties{};
    cudaGetDeviceProperties(&properties, 0);
    why_not = std::string("this program holds no code for the ") + properties.name + " (compute capability " +
              std::to_string(properties.major) + "." + std::to_string(properties.minor) +
              "); configure with -Dgpu_arch=" + std::to_string(properties.major * 10 + properties.minor);
    cudaGetLastError();
    return nullptr;
  }
  return std::make_unique<GpuDevice>(0);
}

}  // namespace harness
