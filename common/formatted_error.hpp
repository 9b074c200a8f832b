#pragma once

#include <cstdarg>
#include <cstdio>
#include <exception>

// An exception whose message is formatted as by printf(); Kind tells one sort of error from the others. For
// what kernels' files include: to read <string> and <stdexcept> takes nvcc longer than to compile most
// kernels.
template <typename Kind>
class FormattedError : public std::exception {
 public:
  // Not printf: that is a macro where exercises are compiled.
  [[gnu::format(__printf__, 2, 3)]] explicit FormattedError(const char* format, ...) {
    std::va_list values;
    va_start(values, format);
    std::vsnprintf(text_, sizeof text_, format, values);
    va_end(values);
  }
  const char* what() const noexcept override { return text_; }

 private:
  char text_[1024];
};
