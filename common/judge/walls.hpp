#pragma once

namespace judge {

// From now on this process, and what it starts, can neither write files nor use the network, and reads
// the system's programs and its own folder only, where Linux has Landlock; and no other process of the same
// user can look into it. Beside the sandbox (isolation.py), for where there is none.
void raise_walls();

}  // namespace judge
