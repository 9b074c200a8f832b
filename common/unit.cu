// Compiles a kernel's file (STEP_SOURCE) for the GPU.

#include STEP_SOURCE

#include "common/unit.hpp"

extern constinit const harness::Entry run_on_gpu = find_step();
