#pragma once

#include <cstddef>

#include "common/formatted_error.hpp"

// A kernel's block needs more shared memory than this GPU allows: it cannot run here.
struct TooLittleShared : FormattedError<TooLittleShared> {
  TooLittleShared(std::size_t bytes, int most)
      : FormattedError(
            "a block of this kernel takes %zu bytes of shared memory, and this GPU gives it %d at most",
            bytes, most) {}
};
