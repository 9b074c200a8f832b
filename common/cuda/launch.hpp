#pragma once

#include <cuda_runtime.h>

#include <cstddef>

#include "common/cuda/check.hpp"
#include "common/cuda/launch_config.hpp"
#include "common/too_little_shared.hpp"

// A program holds a step for both devices. Functions that are not the same on both need another name for the
// linker, or it would take one of them for both.
inline namespace on_gpu {

// Of the current device, which is queried once. Throws CudaError.
template <cudaDeviceAttr ATTRIBUTE>
int device_attribute() {
  static const int value = [] {
    int device = 0, asked = 0;
    CUDA_CHECK(cudaGetDevice(&device));
    CUDA_CHECK(cudaDeviceGetAttribute(&asked, ATTRIBUTE, device));
    return asked;
  }();
  return value;
}

// The stream of this thread's launches to come: the default stream, unless a library that launches a step's
// kernels says otherwise.
inline thread_local cudaStream_t launch_stream = nullptr;

// Throws a CudaError that says so if the kernel cannot have blocks of this size.
inline void check_launch_bounds(const void* kernel, dim3 block) {
  cudaFuncAttributes attributes{};
  CUDA_CHECK(cudaFuncGetAttributes(&attributes, kernel));
  const unsigned threads = block.x * block.y * block.z;
  const auto most = static_cast<unsigned>(attributes.maxThreadsPerBlock);
  if (threads > most) {
    throw CudaError(
        "launch: a block has %u threads, more than the %u that the kernel's __launch_bounds__ and its "
        "registers "
        "allow",
        threads, most);
  }
}

// kernel<<<grid, block, shared_bytes>>>(args...) on launch_stream, checked. The CPU device has functions
// of the same name, which is why the steps do not write <<<>>>. A grid without blocks (an empty matrix) is no
// work; <<<>>> would report an error.
// Throws TooLittleShared, and CudaError if the launch is refused; what goes wrong while the kernel runs shows
// at the next synchronisation.
template <typename... Params, typename... Args>
void launch(void (*kernel)(Params...), const LaunchConfig& config, const Args&... args) {
  const auto& [grid, block, shared_bytes, cluster, overlaps_previous] = config;
  if (grid.x == 0 || grid.y == 0 || grid.z == 0) return;
  constexpr std::size_t without_asking = 48 * 1024;  // a block gets more shared memory only on request
  if (shared_bytes > without_asking) {
    const int most = device_attribute<cudaDevAttrMaxSharedMemoryPerBlockOptin>();
    if (shared_bytes > static_cast<std::size_t>(most)) throw TooLittleShared(shared_bytes, most);
    CUDA_CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                    static_cast<int>(shared_bytes)));
  }
  constexpr unsigned portable_cluster = 8;
  if (cluster.x * cluster.y * cluster.z > portable_cluster) {
    CUDA_CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeNonPortableClusterSizeAllowed, 1));
  }
  cudaLaunchAttribute attributes[2] = {};
  unsigned count = 0;
  if (cluster.x != 1 || cluster.y != 1 || cluster.z != 1) {  // which GPUs before Hopper refuse
    cudaLaunchAttribute& attribute = attributes[count++];
    attribute.id = cudaLaunchAttributeClusterDimension;
    attribute.val.clusterDim.x = cluster.x;
    attribute.val.clusterDim.y = cluster.y;
    attribute.val.clusterDim.z = cluster.z;
  }
  if (overlaps_previous && device_attribute<cudaDevAttrComputeCapabilityMajor>() >= 9) {
    cudaLaunchAttribute& attribute = attributes[count++];
    attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attribute.val.programmaticStreamSerializationAllowed = 1;
  }
  if (count == 0) {
    kernel<<<grid, block, shared_bytes, launch_stream>>>(args...);
  } else {
    cudaLaunchConfig_t launch_config{};
    launch_config.gridDim = grid;
    launch_config.blockDim = block;
    launch_config.dynamicSmemBytes = shared_bytes;
    launch_config.stream = launch_stream;
    launch_config.attrs = attributes;
    launch_config.numAttrs = count;
    cudaLaunchKernelEx(&launch_config, kernel, args...);  // its error is the last one, below
  }
  const cudaError_t status = cudaGetLastError();
  if (status == cudaErrorInvalidValue) check_launch_bounds(reinterpret_cast<const void*>(kernel), block);
  CUDA_CHECK(status);
}

// The short form.
template <typename... Params, typename... Args>
void launch(void (*kernel)(Params...), dim3 grid, dim3 block, std::size_t shared_bytes, const Args&... args) {
  launch(kernel, LaunchConfig{grid, block, shared_bytes}, args...);
}

// How many multiprocessors the device has: so many blocks can run at the same time even if each fills one, as
// those of persistent kernels do, among which the work is dealt out. Throws CudaError.
inline int multiprocessors() { return device_attribute<cudaDevAttrMultiProcessorCount>(); }

}  // namespace on_gpu
