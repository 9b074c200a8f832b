#pragma once

// The declared types of the kernels' __shared__ variables, from the debug information of the kernels compiled
// for observation: a report says As[3][12] where the symbol table knows 132 bytes from As.

#include <cstddef>
#include <optional>
#include <string>

namespace cpu_device {

// What the byte at `offset` in a variable is, to be put after the variable's name: "[3][12]", ".full[1]", ""
// for the first byte of a scalar, "[3] + 2 bytes" for a later byte of an element. The variable is the
// thread_local at `tls_offset` in the program's TLS segment or, if the debug information does not say what
// lies there, any with this name and size. nullopt: the program has no debug information about it, or
// several such variables of different types. Reads the program's file at the first call.
std::optional<std::string> element_of_shared(const std::string& name, std::size_t tls_offset,
                                             std::size_t bytes, std::size_t offset);

// "" or " + 2 bytes".
std::string plus_bytes(std::size_t bytes);

}  // namespace cpu_device
