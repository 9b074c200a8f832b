// Stands in for device_gpu.cpp in a build without CUDA.

#include "common/harness/device.hpp"

namespace harness {

std::unique_ptr<Device> make_gpu_device(std::string& why_not) {
  why_not = "this program was built without CUDA";
  return nullptr;
}

}  // namespace harness
