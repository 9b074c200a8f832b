#pragma once

#include <memory>
#include <string>
#include <vector>

#include "common/harness/device.hpp"

namespace judge {

// A device on which another process computes: `local` holds the matrices and checks the result, and the
// program `command` gets copies of them. Of what it writes, C and its surroundings are copied back.
std::unique_ptr<harness::Device> make_remote_device(std::unique_ptr<harness::Device> local,
                                                    std::vector<std::string> command, double cpu_limit_s,
                                                    double total_s);

}  // namespace judge
