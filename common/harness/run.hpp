#pragma once

#include "common/harness/device.hpp"

namespace harness {

// The program around a step: command line, device, problems, table, files. Returns the exit status: 0
// verified; 1 wrong result or fault; 2 bad usage or input; 3 the device cannot run this.
int run(const Step& step, int argc, const char* const* argv);

}  // namespace harness
