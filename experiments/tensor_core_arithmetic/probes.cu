// Asks a GPU what its tensor cores compute, and how fast: mma.sync of TF32 (m16n8k8) and BF16 (m16n8k16).
//
//   tensor_core_arithmetic --json FILE           all of it, about two minutes
//   tensor_core_arithmetic --wgmma FILE          of wgmma, with FP16, too, what is computed, half a minute
//   tensor_core_arithmetic --examples NUMBER     the inputs, and what that model gives for them; needs no GPU
//
// README.md says what the parts of the record are. A check with small integers, all of whose sums are exact,
// shows that the maps of the fragments are right.

#include <cstdio>
#include <ctime>
#include <fstream>
#include <future>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "experiments/tensor_core_arithmetic/chosen_inputs.hpp"
#include "experiments/tensor_core_arithmetic/mma_once.hpp"
#include "experiments/tensor_core_arithmetic/random_inputs.hpp"
#include "experiments/tensor_core_arithmetic/rates.hpp"
#include "experiments/tensor_core_arithmetic/rounding.hpp"

namespace {

using namespace tensor_core_arithmetic;

json describe_device(std::string& bus) {
  cudaDeviceProp properties{};
  int runtime = 0, clock_khz = 0;
  char bus_id[32], date[32];
  CUDA_CHECK(cudaGetDeviceProperties(&properties, 0));
  CUDA_CHECK(cudaRuntimeGetVersion(&runtime));
  CUDA_CHECK(cudaDeviceGetAttribute(&clock_khz, cudaDevAttrClockRate, 0));
  CUDA_CHECK(cudaDeviceGetPCIBusId(bus_id, sizeof bus_id, 0));
  const std::time_t now = std::time(nullptr);
  std::strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%SZ", std::gmtime(&now));
  bus = bus_id;
  return {{"device", properties.name},
          {"device_kind", "gpu"},
          {"multiprocessors", properties.multiProcessorCount},
          {"compute_capability", properties.major * 10 + properties.minor},
          {"cuda", std::to_string(runtime / 1000) + "." + std::to_string(runtime % 1000 / 10)},
          {"max_sm_clock_mhz", clock_khz * 1e-3},
          {"date", date}};
}

// What an instruction computes. Returns whether the maps of the fragments are right.
bool ask(const Type& type, json& part) {
  const bool right = maps_are_right(type);
  std::printf("%s: the maps of the fragments are %s\n", type.name, right ? "right" : "WRONG");
  part["maps_right"] = right;
  part["k"] = type.K;
  part["order"] = run_order(type);
  part["cases"] = run_cases(type, cpu_device::arithmetic_of(type.operand));
  part["random"] = run_random(type);
  std::fflush(stdout);
  return right;
}

int finish(json& record, bool pass, std::ofstream& file) {
  record["pass"] = pass;
  if (!(file << record.dump() << std::endl)) throw std::runtime_error("the file cannot be written");
  std::printf("%s\n", pass ? "PASS" : "FAIL");
  return pass ? 0 : 1;
}

int ask_wgmma(const std::string& path) {
  std::ofstream file(path);
  if (!file) throw std::runtime_error(path + " cannot be written");
  std::string bus;
  json record = describe_device(bus);
  record["driver"] = harness::Sampler(bus).driver_version();
  // Most of the time goes to the models, on the CPU.
  std::vector<std::future<std::pair<bool, json>>> parts;
  const auto types = {&wgmma_tf32_type, &wgmma_bf16_type, &wgmma_fp16_type};
  for (const Type* type : types) {
    parts.push_back(std::async(std::launch::async, [type] {
      json part;
      const bool right = ask(*type, part);
      return std::pair{right, std::move(part)};
    }));
  }
  bool pass = true;
  std::size_t at = 0;
  for (const Type* type : types) {
    auto [right, part] = parts[at++].get();
    pass = pass && right;
    record["types"][type->name] = std::move(part);
  }
  return finish(record, pass, file);
}

int measure(const std::string& path) {
  std::ofstream file(path);
  if (!file) throw std::runtime_error(path + " cannot be written");
  std::string bus;
  json record = describe_device(bus);
  harness::Sampler sampler(bus);
  record["driver"] = sampler.driver_version();
  bool pass = true;
  for (const Type* type : {&tf32, &bf16_type}) pass = ask(*type, record["types"][type->name]) && pass;
  record["to_tf32"] = run_rounding();
  record["rates"] = json::array();
  for (const Type* type : {&tf32, &bf16_type}) {
    for (json& row : run_rates(*type, record["multiprocessors"], sampler)) {
      record["rates"].push_back(std::move(row));
    }
    std::fflush(stdout);
  }
  return finish(record, pass, file);
}

// The same inputs without a GPU: what the tests of the tools read. `by`: the number of a model.
int print_examples(std::size_t number) {
  json rows = json::array();
  for (const Type* type : {&tf32, &bf16_type, &wgmma_fp16_type}) {
    const TensorCoreArithmetic model = all_models(*type).at(number);
    json row{{"type", type->name}, {"model", to_json(model)}, {"samples", json::array()}};
    for (const Case& c : cases_of(*type)) {
      row["samples"].push_back({c.name, hex(c.element.a, *type), hex(c.element.b, *type), hex(c.element.c),
                                hex(bits_of(c.element.by(model, type->mask)))});
    }
    unsigned seed = 1;
    for (const Family& family : families_of(*type)) {
      if (family.kind == Family::unrounded && type->K != 8) continue;
      const Operands o = draw(*type, family, seed++);
      for (std::size_t n = 0; n < 40; ++n) {
        const Element e = element(o, *type, n, static_cast<int>(n) % type->M, static_cast<int>(n) % N);
        row["samples"].push_back(
            {family.name, hex(e.a, *type), hex(e.b, *type), hex(e.c), hex(bits_of(e.by(model, type->mask)))});
      }
    }
    rows.push_back(std::move(row));
  }
  std::printf("%s\n", rows.dump().c_str());
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const std::vector<std::string> words(argv + 1, argv + argc);
    if (words.size() == 2 && words[0] == "--json") return measure(words[1]);
    if (words.size() == 2 && words[0] == "--wgmma") return ask_wgmma(words[1]);
    if (words.size() == 2 && words[0] == "--examples") return print_examples(std::stoul(words[1]));
    throw std::runtime_error(
        "usage: tensor_core_arithmetic --json FILE | --wgmma FILE | --examples NUMBER_OF_A_MODEL");
  } catch (const std::exception& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return 2;
  }
}
