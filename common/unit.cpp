// Compiles a kernel's file (STEP_SOURCE) for the CPU device and gives its entry the name STEP_ENTRY. A
// program holds each step twice, plain and observed: hence two names, and hence the steps' anonymous
// namespaces.

#include STEP_SOURCE

#include "common/unit.hpp"

// Data only, and no code that the observed build could lend to the plain one.
extern constinit const harness::Entry STEP_ENTRY = find_step();
