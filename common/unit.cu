// Compiles a step (STEP_SOURCE) for the GPU.

#include STEP_SOURCE

void run_on_gpu(const Gemm& gemm) { sgemm(gemm); }
