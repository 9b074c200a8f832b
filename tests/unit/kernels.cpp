// The registry of the tests' kernels. Not compiled for observation, as it runs library code.

#include "tests/unit/kernels.hpp"

#include <map>
#include <sstream>
#include <stdexcept>
#include <string>

namespace {

std::map<std::string, AnyKernel>& registry() {  // by "build name"
  static std::map<std::string, AnyKernel> kernels;
  return kernels;
}

}  // namespace

bool add_kernels(const char* build, const char* names, const AnyKernel* kernels) {
  std::istringstream stream(names);
  for (std::string name; std::getline(stream >> std::ws, name, ',');) {
    if (!registry().try_emplace(build + (' ' + name), *kernels++).second) {
      throw std::logic_error("two kernels are called " + name);
    }
  }
  return true;
}

AnyKernel find_kernel(const std::string& build, const std::string& name) {
  return registry().at(build + ' ' + name);
}

bool has_observed_kernels() { return registry().contains("observed write_at"); }
