#pragma once

#include <cstddef>
#include <stdexcept>
#include <string>

// A kernel's block needs more shared memory than this GPU allows: it cannot run here.
struct TooLittleShared : std::runtime_error {
  TooLittleShared(std::size_t bytes, int most)
      : std::runtime_error("a block of this kernel takes " + std::to_string(bytes) +
                           " bytes of shared memory, and this GPU gives it " + std::to_string(most) +
                           " at most") {}
};
