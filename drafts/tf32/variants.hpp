// The registry of designs: each file of variants adds its own before main() begins.
#pragma once
#include <string>
#include <vector>

#include "gemm.cuh"

struct Variant {
  std::string name;
  Design design;
  void (*kernel)(Params);
};
inline std::vector<Variant>& variants() {
  static std::vector<Variant> all;
  return all;
}
template <Design D>
bool add(const char* name) {
  variants().push_back({name, D, reinterpret_cast<void (*)(Params)>(&gemm<D>)});
  return true;
}
