#pragma once

namespace cpu_device {

// From now on a wild, unchecked access of this OS thread, and whatever else ends a program by a signal, ends
// this one with one line instead of "Segmentation fault".
void install_crash_handler();

// After a launch: ends the program, with one line, if something has been written just past an end of device
// memory.
void end_if_overrun();

}  // namespace cpu_device
