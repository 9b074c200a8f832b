#pragma once

// What the tests of the CPU device share: fixtures that run kernels by name, in either build, and that fail
// on any fault that a test has not taken; and how a test says which fault it expects.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <mutex>
#include <numeric>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "common/cpu_device/cpu_device.hpp"
#include "tests/unit/kernels.hpp"

using cpu_device::Access;
using cpu_device::Fault;
using cpu_device::FaultKind;
using cpu_device::Space;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

AnyKernel find_kernel(const std::string& build, const std::string& name);
bool has_observed_kernels();

template <typename K = Kernel>
K kernel_of(const std::string& build, const std::string& name) {
  const AnyKernel found = find_kernel(build, name);
  if (*found.type != typeid(K)) throw std::logic_error(name + " has other parameters");
  return reinterpret_cast<K>(found.code);
}

// Elements in the CPU device's memory.
template <typename T>
class BufferOf {
 public:
  explicit BufferOf(std::size_t size)
      : data_(static_cast<T*>(cpu_device::allocate(size * sizeof(T)))), size_(size) {}
  BufferOf(const BufferOf&) = delete;
  ~BufferOf() { cpu_device::release(data_); }

  T* data() const { return data_; }
  std::size_t size() const { return size_; }
  T& operator[](std::size_t i) const { return data_[i]; }
  std::vector<T> values() const { return {data_, data_ + size_}; }

 private:
  T* data_;
  std::size_t size_;
};
using DeviceBuffer = BufferOf<float>;

// The line of the kernels' files with the comment "here: NAME", as "tests/unit/cpu_kernels_memory.cpp:123".
inline std::string here(const std::string& name) {
  static const std::map<std::string, std::string> marks = [] {
    std::map<std::string, std::string> found;
    for (const auto& entry : std::filesystem::directory_iterator(PROJECT_ROOT "/tests/unit")) {
      const std::string file = entry.path().filename().string(), mark = "// here: ";
      if (file.ends_with("_test.cpp")) continue;
      std::ifstream stream(entry.path());
      std::string line;
      for (int number = 1; std::getline(stream, line); ++number) {
        const std::size_t at = line.find(mark);
        if (at == line.npos) continue;
        found[line.substr(at + mark.size())] = "tests/unit/" + file + ":" + std::to_string(number);
      }
    }
    return found;
  }();
  const auto found = marks.find(name);
  return found == marks.end() ? "no line is marked with " + name : found->second;
}

inline std::string thread_name(int x) { return "thread (" + std::to_string(x) + ",0,0)"; }

inline cpu_device::MatrixView view(const char* name, float* data, std::int64_t rows, std::int64_t cols,
                                   std::int64_t ld, bool readable = true, bool writable = true) {
  return {name, data, rows, cols, ld, 1, rows * ld, readable, writable};
}

// A thread of a kernel, in block 0 unless a block is given.
struct Who {
  Who(unsigned x) : thread(x, 0, 0) {}
  Who(dim3 block_, dim3 thread_) : block(block_), thread(thread_) {}
  std::string text() const {
    std::ostringstream out;
    out << "block " << block.x << ',' << block.y << ',' << block.z << " thread " << thread.x << ','
        << thread.y << ',' << thread.z;
    return out.str();
  }
  dim3 block{0, 0, 0}, thread;
};

// Notes every access and every request.
class Recorder : public cpu_device::AccessListener {
 public:
  void on_access(const Access& access) override {
    const std::lock_guard lock(mutex_);
    accesses.push_back(access);
  }
  void on_request(const cpu_device::CollectiveRequest& request) override { requests.push_back(request); }

  // The accesses by place, in the order of the places: "FILE:LINE read 4 bytes of global memory x 64".
  std::vector<std::string> counts() const {
    std::map<std::string, int> count;
    for (const Access& access : accesses) ++count[text(access)];
    std::vector<std::string> texts;
    for (const auto& [text, times] : count) texts.push_back(text + " x " + std::to_string(times));
    return texts;
  }

  std::vector<Access> accesses;
  std::vector<cpu_device::CollectiveRequest> requests;

 private:
  static std::string text(const Access& access) {
    static std::map<const void*, cpu_device::SourceLocation> places;
    const auto [found, is_new] = places.try_emplace(access.pc);
    if (is_new) found->second = cpu_device::source_locations({access.pc})[0];
    const cpu_device::SourceLocation& place = found->second;
    return place.file + ":" + std::to_string(place.line) + (access.write ? " write " : " read ") +
           std::to_string(access.bytes) + " bytes of " +
           (access.space == Space::global ? "global" : "shared") + " memory";
  }

  std::mutex mutex_;
};

class DeviceTest : public testing::Test {
 protected:
  explicit DeviceTest(std::string build) : build_(std::move(build)) {
    cpu_device::set_checking(checked());
    std::iota(x.data(), x.data() + x.size(), 1.0f);
    std::fill_n(y.data(), y.size(), -1.0f);
  }
  ~DeviceTest() override {
    cpu_device::set_listener(nullptr);
    for (const Fault& fault : cpu_device::take_faults()) ADD_FAILURE() << describe(fault);
    cpu_device::set_checking(false);
  }
  void SetUp() override {
    if (checked() && !has_observed_kernels()) GTEST_SKIP() << "this compiler cannot observe kernels";
  }
  bool checked() const { return build_ == "observed"; }

  template <typename K, typename... Args>
  void run_as(const std::string& name, const LaunchConfig& config, Args... args) {
    name_ = name;
    last_ = Who({config.grid.x - 1, config.grid.y - 1, config.grid.z - 1},
                {config.block.x - 1, config.block.y - 1, config.block.z - 1});
    ::launch(kernel<K>(name), config, args...);
  }
  void run_on(float* in, float* out, const std::string& name, dim3 grid, dim3 block, int n,
              std::size_t shared_bytes = 0) {
    run_as<Kernel>(name, {.grid = grid, .block = block, .shared_bytes = shared_bytes}, in, out, n);
  }
  void run(const std::string& name, dim3 grid, dim3 block, int n = 0, std::size_t shared_bytes = 0) {
    run_on(x.data(), y.data(), name, grid, block, n, shared_bytes);
  }
  template <typename K>
  K kernel(const std::string& name) const {
    return kernel_of<K>(build_, name);
  }

  // The last thread of the last launch.
  Who last() const { return last_; }
  // Takes the only fault. It must be of this kind, by this thread of the kernel that ran last, at the line
  // that `mark` marks (the kernel's name unless given), and its text must contain `detail`.
  Fault expect(FaultKind kind, const Who& who, const std::string& detail = "", const std::string& mark = "") {
    const std::vector<Fault> faults = cpu_device::take_faults();
    if (faults.size() != 1) {
      ADD_FAILURE() << name_ << ": " << faults.size() << " faults";
      for (const Fault& fault : faults) ADD_FAILURE() << describe(fault);
      return {};
    }
    const Fault& fault = faults[0];
    const std::string kernel = name_.substr(0, name_.find('<'));
    EXPECT_EQ(fault.kind, kind) << describe(fault);
    EXPECT_EQ(fault.kernel, kernel);
    if (checked()) {  // the plain build knows no lines
      EXPECT_EQ(fault.where, here(mark.empty() ? kernel : mark));
    }
    EXPECT_EQ(Who(fault.block, fault.thread).text(), who.text());
    EXPECT_THAT(fault.detail, HasSubstr(detail));
    return fault;
  }
  void expect_none() { EXPECT_THAT(cpu_device::take_faults(), IsEmpty()) << name_; }

  Recorder& record() {
    recorder_ = std::make_unique<Recorder>();
    cpu_device::set_listener(recorder_.get());
    return *recorder_;
  }

  DeviceBuffer x{2048}, y{2048};

 private:
  std::string build_, name_;
  Who last_{0};
  std::unique_ptr<Recorder> recorder_;
};

// Kernels that behave alike with and without observation.
class BothBuilds : public DeviceTest, public testing::WithParamInterface<const char*> {
 protected:
  BothBuilds() : DeviceTest(GetParam()) {}
};

inline std::string name_of_build(const testing::TestParamInfo<const char*>& info) { return info.param; }

class Check : public DeviceTest {
 protected:
  Check() : DeviceTest("observed") {}
};
