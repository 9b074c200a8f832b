// The main program of every step. The build names the step (STEP_NAME) and links the devices it has.

#include "common/harness/run.hpp"

void run_on_cpu(const Gemm& gemm);
void run_on_cpu_observed(const Gemm& gemm);
void run_on_gpu(const Gemm& gemm);

int main(int argc, char** argv) {
  harness::Step step{STEP_NAME, nullptr, run_on_cpu, nullptr, 0};
#ifdef HAVE_GPU
  step.gpu = run_on_gpu;
#endif
#ifdef STEP_MIN_COMPUTE_CAPABILITY
  step.min_compute_capability = STEP_MIN_COMPUTE_CAPABILITY;
#endif
#ifdef HAVE_OBSERVED
  step.cpu_observed = run_on_cpu_observed;
#endif
  return harness::run(step, argc, argv);
}
