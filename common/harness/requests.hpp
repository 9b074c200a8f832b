#pragma once

#include <vector>

#include "common/harness/options.hpp"
#include "common/harness/run_case.hpp"

namespace harness {

// Every problem of the command line, all checked before the first one runs. on_gpu: the device that they run
// on, which decides the sizes and repetitions that nobody has asked for. Throws InputError.
std::vector<Request> requests_of(const Options& o, const Step& step, bool on_gpu);

}  // namespace harness
