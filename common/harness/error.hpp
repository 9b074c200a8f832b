#pragma once

#include <stdexcept>

namespace harness {

// Bad usage or input; exit status 2. The message is one line that names the problem and the remedy.
struct InputError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// This device, or this build, cannot run what was asked for; exit status 3.
struct DeviceUnavailable : std::runtime_error {
  using std::runtime_error::runtime_error;
};

}  // namespace harness
