#pragma once

#include <string>
#include <vector>

#include "common/harness/run_case.hpp"

namespace harness {

// "PASS" in green and so on; plain if standard output is not a terminal.
void print_header(const DeviceInfo& device, Precision precision);
void print_result(const DeviceInfo& device, const Result& result);

// Throws InputError if the output could not be written in full, for example because the disk is full.
void flush_stdout();

// A progress bar on standard error, if that is a terminal.
void print_progress(std::size_t done, std::size_t total, const std::string& next);

// An array with one object per result; each object also has the device and the date, so that the results of
// several runs can be put together. Times are in microseconds; ratio_to_cublas = cuBLAS time / step time,
// with cuBLAS and the peak in the same precision (the keys "precision", "baseline" and "peak" name the
// three). relative_error is the largest |c - reference| / (|alpha| |A||B| + |beta C|), bias the fraction by
// which the product is too large overall, bias_limit how much of it rounding explains. "protocol" says
// how times were taken: if rested, ratio_to_cublas is that of rested runs and ratio_sustained that of
// sustained ones; see protocol.hpp. With --xray the key "xray" holds what the kernels did to memory; see
// xray.hpp.
std::string to_json(const std::string& step, const DeviceInfo& device, const std::vector<Result>& results);

}  // namespace harness
