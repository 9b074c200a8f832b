#pragma once

namespace judge {

// From now on, where Linux has Landlock, this process, and what it starts, can neither write files nor (from
// Linux 6.7 on) use TCP, and reads the system's programs and its own folder only; and no other process of the
// same user can look into it. Beside the sandbox (isolation.py), for where there is none.
void raise_walls();

}  // namespace judge
