#pragma once

#include <memory>
#include <string>
#include <vector>

#include "common/harness/device.hpp"

namespace judge {

// A device on which another process computes: `local` holds the matrices and looks at the result, the program
// `command` is given copies of them. Of what it writes, C and what lies around it are taken over.
std::unique_ptr<harness::Device> make_remote_device(std::unique_ptr<harness::Device> local,
                                                    std::vector<std::string> command, double cpu_limit_s);

}  // namespace judge
