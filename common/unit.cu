// Compiles a kernel's file (STEP_SOURCE) for the GPU.

#include STEP_SOURCE

#include "common/unit.hpp"

extern constinit const harness::Entry run_on_gpu = find_entry(&sgemm, &gemm_tf32, &gemm_tf32_cut_off, &gemm);
