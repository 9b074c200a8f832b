// Compiles a step (STEP_SOURCE) for the CPU device and gives its entry the name STEP_ENTRY. A program holds
// each step twice, plain and observed: hence two names, and hence the steps' anonymous namespaces.

#include STEP_SOURCE

void STEP_ENTRY(const Gemm& gemm) { sgemm(gemm); }
