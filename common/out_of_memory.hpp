#pragma once

#include <cstddef>
#include <cstdio>
#include <new>

// Not enough memory for a workspace (cuda/workspace.hpp): what() gives its name and its size.
class OutOfMemory : public std::bad_alloc {
 public:
  OutOfMemory(const char* workspace, std::size_t elements, std::size_t element_bytes) {
    std::snprintf(text_, sizeof text_,
                  "not enough memory for the workspace %s, %.2f GiB; choose smaller sizes", workspace,
                  static_cast<double>(elements) * static_cast<double>(element_bytes) / (1 << 30));
  }
  const char* what() const noexcept override { return text_; }

 private:
  char text_[256];
};
