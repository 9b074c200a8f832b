#pragma once

namespace cpu_device {

// From now on a wild, unchecked access of this OS thread ends the program with one line instead of
// "Segmentation fault".
void install_crash_handler();

}  // namespace cpu_device
