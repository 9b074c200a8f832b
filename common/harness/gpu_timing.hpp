#pragma once

// How a step is timed on the GPU, in turn with cuBLAS; docs/concepts/measuring.md says why so.

#include <memory>
#include <vector>

#include "common/harness/cublas.hpp"
#include "common/harness/device.hpp"
#include "common/harness/telemetry.hpp"

namespace harness::gpu {

// As Device::time(). `cublas` is made when it is first needed: that takes a second.
Timing time(const Entry& step, const std::vector<AnyGemm>& sets, const std::vector<float*>& baseline_c,
            int repeat, Sampler& sampler, std::unique_ptr<Cublas>& cublas);

}  // namespace harness::gpu
