// The main program of every step.

#include "common/harness/program.hpp"
#include "common/harness/run.hpp"

int main(int argc, char** argv) {
  harness::Step step{program.name, {}, *program.cpu, {}, program.needs, program.gpu_built_for};
  if (program.gpu != nullptr) step.gpu = *program.gpu;
  if (program.cpu_observed != nullptr) step.cpu_observed = *program.cpu_observed;
  return harness::run(step, argc, argv);
}
