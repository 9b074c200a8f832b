// The main program of every step. The build defines the step's name (STEP_NAME) and links its units for each
// device.

#include "common/harness/run.hpp"

extern const harness::Entry run_on_cpu, run_on_cpu_observed, run_on_gpu;  // from unit.cpp and unit.cu

int main(int argc, char** argv) {
  harness::Step step{STEP_NAME, {}, run_on_cpu, {}, STEP_NEEDS};
#ifdef HAVE_GPU
  step.gpu = run_on_gpu;
#elif defined(BUILT_FOR)
  step.gpu_built_for = BUILT_FOR;
#endif
#ifdef HAVE_OBSERVED
  step.cpu_observed = run_on_cpu_observed;
#endif
  return harness::run(step, argc, argv);
}
