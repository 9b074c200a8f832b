// The GPU as the harness sees it.

#include "common/cuda/check.hpp"
#include "common/harness/cublas.hpp"
#include "common/harness/device.hpp"
#include "common/harness/gpu_matrices.hpp"
#include "common/harness/gpu_timing.hpp"
#include "common/harness/panels.hpp"
#include "common/harness/telemetry.hpp"

namespace harness {

namespace {

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

  void poison(void* buffer, std::size_t bytes) override { gpu::poison(buffer, bytes); }
  void fill_uniform(void* data, Input type, const Extent& extent, std::uint64_t seed) override {
    gpu::fill_uniform(data, type, extent, seed);
  }
  void copy_matrix(float* to, const float* from, const Extent& extent) override {
    gpu::copy_matrix(to, from, extent);
  }
  StrayWrites stray_writes(const void* buffer, Input type, std::size_t elements, std::int64_t origin,
                           const Extent& extent) override {
    return gpu::stray_writes(buffer, type, elements, origin, extent);
  }

  void run(const Step& step, const AnyGemm& gemm) override {
    run_and_count(step.gpu, gemm, [] { CUDA_CHECK(cudaDeviceSynchronize()); });
  }

  Verdict verify(const AnyGemm& gemm, const float* c0, double tolerance) override {
    return gpu::verify(gemm, c0, tolerance);
  }
  Timing time(const Step& step, const std::vector<AnyGemm>& sets, const std::vector<float*>& baseline_c,
              int repeat, Protocol protocol) override {
    return gpu::time(step.gpu, sets, baseline_c, repeat, protocol, *sampler_, cublas_);
  }

 private:
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
    // To CUDA a machine without a driver is one with an old driver.
    why_not = status == cudaErrorInsufficientDriver
                  ? "there is no NVIDIA driver, or one older than this program's CUDA"
                  : cudaGetErrorString(status);
    return nullptr;
  }
  cudaFuncAttributes attributes{};
  status = cudaFuncGetAttributes(&attributes, gpu::some_kernel());
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
