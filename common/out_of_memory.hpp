#pragma once

#include <cstddef>
#include <cstdio>
#include <new>
#include <string>

// Not enough memory for a workspace (cuda/workspace.hpp): what() gives its name and its size.
class OutOfMemory : public std::bad_alloc {
 public:
  OutOfMemory(const char* workspace, std::size_t elements, std::size_t element_bytes) {
    char size[64];
    std::snprintf(size, sizeof size, "%.2f GiB",
                  static_cast<double>(elements) * static_cast<double>(element_bytes) / (1 << 30));
    text_ = std::string("not enough memory for the workspace ") + workspace + ", " + size +
            "; choose smaller sizes";
  }
  const char* what() const noexcept override { return text_.c_str(); }

 private:
  std::string text_;
};
