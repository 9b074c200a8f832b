#pragma once

// "Global memory": the allocations, what may be accessed in them, and who has accessed it. cpu_device.hpp has
// what the host does with it.

#include <cstdint>
#include <optional>
#include <string>

#include "common/cpu_device/clocks.hpp"
#include "common/cpu_device/overlap.hpp"
#include "common/cpu_device/report.hpp"
#include "common/cpu_device/shared_memory.hpp"

namespace cpu_device {

// Checks an access of the running thread of an observed kernel: bounds, permissions, races between threads.
// Returns false if the address is in no allocation.
bool check_global(std::uintptr_t address, unsigned bytes, bool write, const void* pc);
// The same for an atomic or volatile operation on a word, which reads, writes or does both; these do not race
// with each other.
bool check_global_atomic(std::uintptr_t address, bool reads, bool writes, const void* pc);
// The same for what a copy (or store) that the running thread asks for reads (or writes) at any time until it
// is done, and for the moment when it is: see GlobalShadow.
bool request_global(std::uintptr_t address, unsigned bytes, bool write, bool by_bulk, const void* pc);
void finish_global(std::uintptr_t address, unsigned bytes, bool write, unsigned requester, unsigned actor,
                   Tick tick, const void* pc);
bool is_allocated(std::uintptr_t address, unsigned bytes);
// A non-coherent load (__ldg): what is loaded is what nobody writes during the launch.
void check_noncoherent(std::uintptr_t address, unsigned bytes, const void* pc);
// Who has written this word last in the latest launch; its kind and detail are left open. nullopt: nobody.
std::optional<Recorded> last_writer(std::uintptr_t address);
void begin_global_accesses(LaunchRecord& record);      // at the start of a launch
std::string describe_nearest(std::uintptr_t address);  // for an address in no allocation
// For signal handlers: writes ", 16 bytes past the end of packed" for an address that just misses an
// allocation; otherwise nothing.
void name_nearest(std::uintptr_t address, char* text, std::size_t size);
// Writes "past the end of packed" if something has been written there. Returns its length, 0: nothing has.
int name_overrun(char* text, std::size_t size);
std::string describe_global(std::uintptr_t address);  // "A[3][80]"

// The matrix or array, as the host has described it, at an address, or before or after it in its allocation.
NamedArray global_array_at(std::uintptr_t address);

}  // namespace cpu_device
