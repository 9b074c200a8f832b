// What the harness knows of the types that A and B may have.

#include <gtest/gtest.h>

#include <cmath>

#include "common/harness/device.hpp"
#include "common/harness/precision.hpp"

namespace {

using harness::DeviceInfo;
using harness::Input;
using harness::input_of;
using harness::Precision;
using harness::traits;

TEST(Input, RowsSayWhatTheTypesAre) {
  EXPECT_EQ(input_of<float>, Input::fp32);
  EXPECT_EQ(input_of<bf16>, Input::bf16);
  for (const Input input : {Input::fp32, Input::bf16}) {
    harness::with_element(input, [&]<typename T>(T) {
      EXPECT_EQ(input_of<T>, input);
      EXPECT_EQ(traits(input).bytes, sizeof(T));
      // The last bit of a significand that has so many, and one bit more.
      const float last = 1 + std::ldexp(1.0f, 1 - traits(input).significand_bits);
      EXPECT_EQ(static_cast<float>(T(last)), last);
      if (traits(input).significand_bits < 24) {
        const float beyond = 1 + std::ldexp(1.0f, -traits(input).significand_bits);
        EXPECT_NE(static_cast<float>(T(beyond)), beyond);
      }
    });
  }
}

// Of products whose data sheets say it.
TEST(Input, Peaks) {
  DeviceInfo h100;
  h100.compute_capability = 90;
  h100.multiprocessors = 132;
  h100.max_clock_mhz = 1830;
  EXPECT_NEAR(h100.peak_tflops(Precision::bf16), 989.4, 0.1);
  EXPECT_NEAR(h100.peak_tflops(Precision::tf32), 494.7, 0.1);
  EXPECT_NEAR(h100.peak_tflops(Precision::fp32), 61.8, 0.1);
  DeviceInfo a100;
  a100.compute_capability = 80;
  a100.multiprocessors = 108;
  a100.max_clock_mhz = 1410;
  EXPECT_NEAR(a100.peak_tflops(Precision::bf16), 312, 0.5);
  EXPECT_NEAR(a100.peak_tflops(Precision::tf32), 156, 0.5);
  EXPECT_NEAR(a100.peak_tflops(Precision::fp32), 19.5, 0.05);
  a100.compute_capability = 75;  // has no BF16
  EXPECT_EQ(a100.peak_tflops(Precision::bf16), 0);
  EXPECT_EQ(DeviceInfo{}.peak_tflops(Precision::bf16), 0);  // the CPU device
}

}  // namespace
