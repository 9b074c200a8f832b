#pragma once

// What the tests of observed kernels share: how they say what fault they expect, and the fixtures, which fail
// on any fault that a test has not taken.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "common/cpu_device/cpu_device.hpp"
#include "tests/unit/cpu_kernels.hpp"
#include "tests/unit/device_buffer.hpp"

using cpu_device::Access;
using cpu_device::Fault;
using cpu_device::FaultKind;
using cpu_device::Space;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

inline const Kernels& kernels = observed_kernels;

// The line of the kernels' files with the comment "here: NAME", as "tests/unit/cpu_kernels_memory.cpp:123".
inline std::string here(const std::string& name) {
  for (const auto& entry : std::filesystem::directory_iterator(PROJECT_ROOT "/tests/unit")) {
    const std::string file = entry.path().filename().string();
    if (!file.starts_with("cpu_kernels_")) continue;
    std::ifstream stream(entry.path());
    std::string line;
    for (int number = 1; std::getline(stream, line); ++number) {
      if (line.ends_with("// here: " + name)) return "tests/unit/" + file + ":" + std::to_string(number);
    }
  }
  return "no line is marked with " + name;
}

inline std::string to_string(const dim3& index) {
  return std::to_string(index.x) + "," + std::to_string(index.y) + "," + std::to_string(index.z);
}

// What a test says about a fault: "out-of-bounds access to global memory at FILE:LINE in KERNEL, block 0,0,0
// thread 1,0,0".
inline std::string summary(const Fault& fault) {
  return std::string(cpu_device::to_string(fault.kind)) + " at " + fault.where + " in " + fault.kernel +
         ", block " + to_string(fault.block) + " thread " + to_string(fault.thread);
}
inline std::string summary(FaultKind kind, const std::string& mark, const std::string& kernel,
                           const std::string& block, const std::string& thread) {
  return std::string(cpu_device::to_string(kind)) + " at " + here(mark) + " in " + kernel + ", block " +
         block + " thread " + thread;
}

inline std::vector<std::string> summaries() {
  std::vector<std::string> texts;
  for (const Fault& fault : cpu_device::take_faults()) texts.push_back(summary(fault));
  return texts;
}

inline cpu_device::MatrixView view(const char* name, float* data, std::int64_t rows, std::int64_t cols,
                                   std::int64_t ld, bool readable = true, bool writable = true) {
  return {name, data, rows, cols, ld, 1, rows * ld, readable, writable};
}

class Check : public testing::Test {
 protected:
  Check() {
    cpu_device::set_checking(true);
    std::fill_n(x.data(), x.size(), 1.0f);
    std::fill_n(y.data(), y.size(), 1.0f);
  }
  ~Check() override {
    cpu_device::set_listener(nullptr);
    for (const Fault& fault : cpu_device::take_faults()) ADD_FAILURE() << describe(fault);
    cpu_device::set_checking(false);
  }
  void run(Kernel kernel, dim3 grid, dim3 block, int n, std::size_t shared_bytes = 0) {
    launch(kernel, grid, block, shared_bytes, x.data(), y.data(), n);
  }

  DeviceBuffer x{1024}, y{1024};
};

// Notes every access.
class Recorder : public cpu_device::AccessListener {
 public:
  void on_access(const Access& access) override {
    const std::lock_guard lock(mutex_);
    accesses_.push_back(access);
  }

  // The accesses by place, in the order of the places: "FILE:LINE read 4 bytes of global memory x 64".
  std::vector<std::string> counts() const {
    std::map<std::string, int> count;
    for (const Access& access : accesses_) ++count[text(access)];
    std::vector<std::string> texts;
    for (const auto& [text, times] : count) texts.push_back(text + " x " + std::to_string(times));
    return texts;
  }
  const std::vector<Access>& accesses() const { return accesses_; }

  static std::string text(const Access& access) {
    static std::map<const void*, cpu_device::SourceLocation> places;
    const auto [found, is_new] = places.try_emplace(access.pc);
    if (is_new) found->second = cpu_device::source_locations({access.pc})[0];
    const cpu_device::SourceLocation& place = found->second;
    return place.file + ":" + std::to_string(place.line) + " " + (access.write ? "write " : "read ") +
           std::to_string(access.bytes) + " bytes of " +
           (access.space == Space::global ? "global" : "shared") + " memory";
  }

 private:
  std::mutex mutex_;
  std::vector<Access> accesses_;
};

class Observe : public Check {
 protected:
  Observe() { cpu_device::set_listener(&recorder); }
  Recorder recorder;
};

// The other thread is in the same warp (1, 31) or in another (32, 63), and runs later than thread 0.
class Race : public Check, public testing::WithParamInterface<int> {
 protected:
  // Of a block of 64 x 1 threads.
  std::string thread() const { return std::to_string(GetParam()) + ",0,0"; }
  void expect(FaultKind kind, const std::string& name, const std::string& detail) {
    const std::vector<Fault> faults = cpu_device::take_faults();
    ASSERT_EQ(faults.size(), 1u);
    EXPECT_EQ(summary(faults[0]), summary(kind, name, name, "0,0,0", thread()));
    EXPECT_THAT(faults[0].detail, HasSubstr(detail));
  }
};
