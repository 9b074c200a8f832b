#pragma once

// How a step and cuBLAS run on the GPU to be timed; in which order is the matter of protocol.hpp.

#include <memory>
#include <vector>

#include "common/harness/cublas.hpp"
#include "common/harness/device.hpp"
#include "common/harness/telemetry.hpp"

namespace harness::gpu {

// As Device::time(). `cublas` is made when it is first needed: that takes a second.
Timing time(const Entry& step, const std::vector<AnyGemm>& sets, const std::vector<float*>& baseline_c,
            int repeat, Protocol protocol, Sampler& sampler, std::unique_ptr<Cublas>& cublas);

}  // namespace harness::gpu
