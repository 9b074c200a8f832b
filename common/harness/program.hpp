#pragma once

namespace harness {

class Entry;

// What a program is made of, as the build says (program.cpp). An entry that this build has not is null.
struct Program {
  const char* name;           // the step's
  const char* needs;          // of a GPU; see needs.hpp
  const char* gpu_built_for;  // GPUs that all lack the step's instructions, or null
  const Entry *gpu, *cpu, *cpu_observed;
};

}  // namespace harness

extern const harness::Program program;
