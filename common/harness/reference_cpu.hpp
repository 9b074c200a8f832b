#pragma once

#include "common/harness/entry.hpp"
#include "common/harness/verify.hpp"

namespace harness {

// Compares C with alpha * A * B + beta * C0, computed in double precision on all cores. All pointers are to
// host memory. C0 has C's layout; nullptr when beta is 0.
Verdict verify_on_host(const AnyGemm& gemm, const float* c0, double tolerance);

}  // namespace harness
