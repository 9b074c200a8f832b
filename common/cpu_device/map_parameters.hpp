#pragma once

// Tensor maps as kernels take them: by value, as a parameter that stays where the launch has put it.

#include <string>

namespace cpu_device {

// The name of a kernel's parameter that is a tensor map, or holds one, without being const __grid_constant__;
// "" if there is none. That is no part of a type: it is read from the kernel's source, of whose place the
// debug information tells. "" if there is no such information, too.
const std::string& parameter_without_grid_constant(const void* kernel);

// The same in a text that holds the kernel's declaration.
std::string parameter_without_grid_constant(const std::string& kernel_name, std::string text);

}  // namespace cpu_device
