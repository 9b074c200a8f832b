#pragma once

// Launches on their way from the host's process to the device's. CPU device only.

#include <nlohmann/json.hpp>

#include "common/judge/wire.hpp"

namespace judge {

// Calls the student's function with the addresses that the device has told, which nobody can touch here, and
// returns what it launches, as a JSON array. Throws what the function throws, and std::runtime_error if it
// launches what is no kernel.
nlohmann::json launches_of(const harness::Entry& entry, const Order& order);

// A function in the place of the student's, which launches what was given to set_launches() last, once: only
// kernels, which are found by their symbols. Throws std::exception if there is no such kernel, or no GPU
// could launch it so.
harness::Entry launcher(harness::Input input);
void set_launches(nlohmann::json launches);

}  // namespace judge
