#pragma once

// How a step and cuBLAS are run on the GPU to be timed; protocol.hpp decides in which order.

#include <memory>
#include <vector>

#include "common/harness/cublas.hpp"
#include "common/harness/device.hpp"
#include "common/harness/telemetry.hpp"

namespace harness::gpu {

// Like Device::time(). `cublas` is made when first needed, as that takes a second.
Timing time(const Entry& step, const std::vector<AnyGemm>& sets, const std::vector<float*>& baseline_c,
            int repeat, Protocol protocol, Sampler& sampler, std::unique_ptr<Cublas>& cublas);

}  // namespace harness::gpu
