// Compiles a kernel's file (STEP_SOURCE) for the CPU device and names its entry STEP_ENTRY. A program
// contains each step twice, plain and observed: hence the two names, and the unnamed namespaces in the steps.

#include STEP_SOURCE

#include "common/unit.hpp"

// Data only: no code that the linker could take from the observed build for the plain one.
extern constinit const harness::Entry STEP_ENTRY = find_step();
