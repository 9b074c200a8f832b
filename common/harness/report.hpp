#pragma once

#include <string>
#include <vector>

#include "common/harness/run_case.hpp"

namespace harness {

// "PASS" in green and so on; plain where standard output is no terminal.
void print_header(const DeviceInfo& device, Precision precision);
void print_result(const DeviceInfo& device, const Result& result);

// Throws InputError if what was printed cannot all be written: the disk is full, or the like.
void flush_stdout();

// A bar on standard error, where that is a terminal: how many of the problems are done.
void print_progress(std::size_t done, std::size_t total, const std::string& next);

// An array with one object per result; each object carries the device and the date too, so that results of
// several runs can be put together. Times in microseconds; ratio_to_cublas = cuBLAS time / step time, cuBLAS
// and the peak in the same precision (the keys "precision", "baseline" and "peak" name the three).
// relative_error is the largest |c - reference| / (|alpha| |A||B| + |beta C|), bias the fraction by which the
// product is too large as a whole, bias_limit what rounding explains of it. "protocol" says how times were
// taken; rested, ratio_to_cublas is of rested runs and ratio_sustained of those that last; see protocol.hpp.
// With --xray the key "xray" holds what the kernels did to memory; see xray.hpp.
std::string to_json(const std::string& step, const DeviceInfo& device, const std::vector<Result>& results);

}  // namespace harness
