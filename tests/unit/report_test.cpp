// What the report makes of results that only a GPU gives: protocols, clocks, a baseline.

#include "common/harness/report.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

namespace {

using harness::DeviceInfo;
using harness::Precision;
using harness::Protocol;
using harness::Result;
using testing::HasSubstr;
using testing::Not;

DeviceInfo gpu() {
  DeviceInfo info;
  info.kind = "gpu";
  info.name = "Test GPU";
  info.compute_capability = 90;
  info.multiprocessors = 132;
  info.max_clock_mhz = 1980;
  return info;
}

// 2 * 1000^3 operations: in 10 us 200 TFLOP/s.
Result result_of(Precision precision, Protocol protocol) {
  Result result;
  result.problem = harness::checked({.m = 1000, .n = 1000, .k = 1000});
  result.precision = precision;
  result.verified = true;
  result.verdict.max_error = 0.5;
  result.verdict.max_relative_error = 0.00012345;
  result.verdict.max_error_over_bound = 0.25;
  result.verdict.error_along_product = -3;
  result.verdict.product_squared = 1e6;
  harness::Timing timing;
  timing.protocol = protocol;
  timing.samples = 20;
  timing.median_us = 10;
  timing.baseline_us = 8;
  timing.ratio = 0.8;
  timing.baseline = "cublasLt heuristic 2 of 8";
  timing.telemetry = {.sm_clock_mhz = 1980,
                      .memory_clock_mhz = 3201,
                      .power_watts = 200,
                      .temperature = 40,
                      .counted_clock_mhz = 1810};
  if (protocol == Protocol::rested) {
    timing.baseline_telemetry = {.sm_clock_mhz = 1965, .power_watts = 210};
    harness::Sustained sustained;
    sustained.median_us = 12.5;
    sustained.baseline_us = 10.5;
    sustained.ratio = 0.84;
    sustained.least_seconds = 0.55;
    sustained.telemetry = {
        .sm_clock_mhz = 1425, .power_watts = 500, .power_watts_now = 692, .counted_clock_mhz = 1390};
    sustained.baseline_telemetry = {.sm_clock_mhz = 1410, .power_watts = 690};  // an older driver
    timing.sustained = sustained;
    result.bias_limit = 1e-5;
  }
  result.timing = timing;
  return result;
}

nlohmann::json json_of(const Result& result) {
  return nlohmann::json::parse(harness::to_json("20_step", gpu(), {result})).at(0);
}

std::string printed(const Result& result) {
  testing::internal::CaptureStdout();
  harness::print_header(gpu(), result.precision);
  harness::print_result(gpu(), result);
  return testing::internal::GetCapturedStdout();
}

TEST(Report, RestedAndSustainedStandSideBySide) {
  const nlohmann::json json = json_of(result_of(Precision::tf32, Protocol::rested));
  const nlohmann::json expected{
      {"protocol", "rested"},
      {"precision", "TF32"},
      {"input", "FP32"},
      {"operands", "rounded"},
      {"baseline", "cuBLAS TF32"},
      {"peak", "TF32 tensor peak"},
      {"idle_ms", harness::idle_ms},
      {"time_us", 10},
      {"tflops", 200},
      {"ratio_to_cublas", 0.8},
      {"cublas_time_us", 8},
      {"sm_clock_mhz", 1980},
      {"power_watts", 200},
      {"cublas_sm_clock_mhz", 1965},
      {"cublas_power_watts", 210},
      {"counted_clock_mhz", 1810},
      {"ratio_sustained", 0.84},
      {"sustained_time_us", 12.5},
      {"sustained_tflops", 160},
      {"sustained_cublas_time_us", 10.5},
      {"sustained_seconds", 0.55},
      {"sustained_rounds", harness::sustained_rounds},
      {"sustained_sm_clock_mhz", 1425},
      {"sustained_power_watts", 692},
      {"sustained_counted_clock_mhz", 1390},
      {"sustained_cublas_sm_clock_mhz", 1410},
      {"sustained_cublas_power_watts", 690},
      {"relative_error", 0.00012345},
      {"bias", -3e-6},
      {"bias_limit", 1e-5},
  };
  for (const auto& [key, value] : expected.items()) {
    ASSERT_TRUE(json.contains(key)) << key;
    if (value.is_number()) {
      EXPECT_NEAR(json[key].get<double>(), value.get<double>(), 1e-9 * std::abs(value.get<double>())) << key;
    } else {
      EXPECT_EQ(json[key], value) << key;
    }
  }
  EXPECT_FALSE(json.contains("cublas_relative_error"));  // it was not compared
}

TEST(Report, InTurnHasNothingSustained) {
  const Result result = result_of(Precision::fp32, Protocol::in_turn);
  const nlohmann::json json = json_of(result);
  EXPECT_EQ(json["protocol"], "in turn");
  EXPECT_EQ(json["precision"], "FP32");
  for (const char* key : {"ratio_sustained", "idle_ms", "operands", "cublas_sm_clock_mhz"}) {
    EXPECT_FALSE(json.contains(key)) << key;
  }
  EXPECT_THAT(printed(result), Not(HasSubstr("sustained")));
}

TEST(Report, ErrorOfTheBaselineAndOperandsThatAreCutOff) {
  Result result = result_of(Precision::tf32_cut_off, Protocol::rested);
  result.baseline =
      harness::Verdict{.max_relative_error = 0.002, .error_along_product = 5, .product_squared = 10};
  const nlohmann::json json = json_of(result);
  EXPECT_EQ(json["cublas_relative_error"], 0.002);
  EXPECT_EQ(json["cublas_bias"], 0.5);
  EXPECT_EQ(json["precision"], "TF32");
  EXPECT_EQ(json["operands"], "cut off");
}

TEST(Report, ASecondLineSaysWhatLasts) {
  const std::string text = printed(result_of(Precision::tf32, Protocol::rested));
  EXPECT_THAT(text, HasSubstr("of cuBLAS TF32 of TF32 peak"));
  EXPECT_THAT(text, HasSubstr("80.0 %"));
  EXPECT_THAT(text, HasSubstr(" 1.2e-04      0.2500  PASS\n"));
  EXPECT_THAT(text,
              HasSubstr("\n  sustained: 12.50 us, 160.00 TFLOP/s, 1425 MHz at 692 W; 84.0 % of cuBLAS TF32, "
                        "that at 1410 MHz at 690 W\n"));
}

TEST(Report, AColumnHasTheFigureOfItsKey) {
  Result result = result_of(Precision::fp32, Protocol::in_turn);
  const nlohmann::json json = json_of(result);
  EXPECT_NEAR(json["fraction_of_peak"].get<double>(), 200 / 66.91, 1e-3);
  EXPECT_THAT(
      printed(result),
      testing::EndsWith("1000 x 1000 x 1000                     10.00 us    200.00     80.0 %  298.9 %   "
                        "     1.2e-04      0.2500  PASS\n"));
  result.timing.reset();
  EXPECT_FALSE(json_of(result).contains("fraction_of_peak"));
  EXPECT_TRUE(json_of(result)["time_us"].is_null());
}

// Where the driver says nothing of clocks, or there is no baseline, neither is made up.
TEST(Report, WhatIsNotKnownIsLeftOut) {
  Result result = result_of(Precision::tf32, Protocol::rested);
  result.timing->sustained->telemetry = result.timing->sustained->baseline_telemetry = {};
  EXPECT_THAT(printed(result), HasSubstr("sustained: 12.50 us, 160.00 TFLOP/s; 84.0 % of cuBLAS TF32\n"));
  EXPECT_TRUE(json_of(result)["sustained_sm_clock_mhz"].is_null());
  result.timing->sustained->ratio = result.timing->ratio = 0;
  EXPECT_THAT(printed(result), HasSubstr("sustained: 12.50 us, 160.00 TFLOP/s\n"));
  EXPECT_TRUE(json_of(result)["ratio_sustained"].is_null());
}

}  // namespace
