// The one file that is compiled for each program: it includes little. The build defines the step's name, what
// it needs, and for which devices there are units (unit.cpp, unit.cu).

#include "common/harness/program.hpp"

extern const harness::Entry run_on_cpu, run_on_cpu_observed, run_on_gpu;

const harness::Program program{
    STEP_NAME,
    STEP_NEEDS,
#ifdef BUILT_FOR
    BUILT_FOR,
#else
    nullptr,
#endif
#ifdef HAVE_GPU
    &run_on_gpu,
#else
    nullptr,
#endif
#ifdef ONLY_OBSERVED
    &run_on_cpu_observed,
#else
    &run_on_cpu,
#endif
#ifdef HAVE_OBSERVED
    &run_on_cpu_observed,
#else
    nullptr,
#endif
};
