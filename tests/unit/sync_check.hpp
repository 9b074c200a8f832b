#pragma once

// What the sync tests share: the fixtures, which fail on any fault that a test has not taken, and how a test
// says what fault it expects.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <ostream>
#include <string>
#include <vector>

#include "common/cpu_device/cpu_device.hpp"
#include "tests/unit/device_buffer.hpp"
#include "tests/unit/sync_kernels.hpp"

using cpu_device::Fault;
using cpu_device::FaultKind;
using testing::HasSubstr;

struct Build {
  const char* name;
  const SyncKernels* kernels;
};
inline void PrintTo(const Build& build, std::ostream* out) { *out << build.name; }

// The line of the kernels' files with the comment "here: NAME".
inline std::string here(const std::string& name) {
  for (const auto& entry : std::filesystem::directory_iterator(PROJECT_ROOT "/tests/unit")) {
    const std::string file = entry.path().filename().string();
    if (!file.starts_with("sync_kernels_")) continue;
    std::ifstream stream(entry.path());
    std::string line;
    for (int number = 1; std::getline(stream, line); ++number) {
      if (line.ends_with("// here: " + name)) return "tests/unit/" + file + ":" + std::to_string(number);
    }
  }
  return "no line is marked with " + name;
}

class SyncFixture : public testing::Test {
 protected:
  explicit SyncFixture(bool checked) {
    cpu_device::set_checking(checked);
    std::iota(x.data(), x.data() + x.size(), 1.0f);
    std::fill_n(y.data(), y.size(), -1.0f);
  }
  ~SyncFixture() override {
    cpu_device::set_listener(nullptr);
    for (const Fault& fault : cpu_device::take_faults()) ADD_FAILURE() << describe(fault);
    cpu_device::set_checking(false);
  }
  void run(Kernel kernel, unsigned threads, int n = 0, unsigned blocks = 1) {
    launch(kernel, dim3(blocks), dim3(threads), 0, x.data(), y.data(), n);
  }
  static cpu_device::MatrixView view(const char* name, float* data, std::int64_t cols, bool writable,
                                     unsigned element_bytes = 4) {
    return {name, data, 1, cols, cols, 1, cols, true, writable, element_bytes};
  }

  DeviceBuffer x{2048}, y{2048};
};

// Right kernels, by both builds, which sync_warps_test.cpp names.
class Sync : public SyncFixture, public testing::WithParamInterface<Build> {
 protected:
  Sync() : SyncFixture(GetParam().kernels != &plain_sync_kernels) {}
  const SyncKernels& kernels = *GetParam().kernels;
};

#ifdef HAVE_OBSERVED

// Wrong ones.
class SyncFault : public SyncFixture {
 protected:
  SyncFault() : SyncFixture(true) {}
  // One fault, at the line with the mark, by that thread.
  void expect(FaultKind kind, const std::string& mark, unsigned thread, const std::string& detail) {
    const std::vector<Fault> faults = cpu_device::take_faults();
    ASSERT_EQ(faults.size(), 1u) << (faults.size() < 2 ? "" : describe(faults[1]));
    EXPECT_EQ(faults[0].kind, kind) << describe(faults[0]);
    EXPECT_EQ(faults[0].where, here(mark));
    EXPECT_EQ(faults[0].thread.x, thread);
    EXPECT_THAT(faults[0].detail, HasSubstr(detail));
  }
  static std::string name(int thread) { return "thread (" + std::to_string(thread) + ",0,0)"; }
  const SyncKernels& kernels = observed_sync_kernels;
};

class Requests : public cpu_device::AccessListener {
 public:
  void on_access(const cpu_device::Access&) override {}
  void on_request(const cpu_device::CollectiveRequest& request) override { all.push_back(request); }
  std::vector<cpu_device::CollectiveRequest> all;
};

#endif
