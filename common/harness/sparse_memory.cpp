#include "common/harness/sparse_memory.hpp"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <new>
#include <vector>

namespace harness {

namespace {

// A file in memory that holds nothing but the pattern. Mapped over and over, its pages are shared until they
// are written. The system allows a process 65530 mappings: these reach 2 TiB.
constexpr std::size_t file_bytes = 32 << 20;

int file_of(std::uint32_t pattern) {
  const int fd = memfd_create("pattern", MFD_CLOEXEC);
  if (fd < 0 || ftruncate(fd, file_bytes) != 0) throw std::bad_alloc();
  void* const mapped = mmap(nullptr, file_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (mapped == MAP_FAILED) throw std::bad_alloc();
  std::fill_n(static_cast<std::uint32_t*>(mapped), file_bytes / sizeof pattern, pattern);
  munmap(mapped, file_bytes);
  return fd;
}

// Of an entry of /proc/self/pagemap: whether the process has a page of its own there.
bool own_page(std::uint64_t entry) {
  const bool present = (entry >> 63 & 1) != 0, swapped = (entry >> 62 & 1) != 0,
             of_file = (entry >> 61 & 1) != 0;
  return (present && !of_file) || swapped;
}

// Linux's PAGEMAP_SCAN, since 6.7, tells the same without a look at every page of the gaps. Older headers
// lack it: Documentation/admin-guide/mm/pagemap.rst.
struct Region {
  std::uint64_t begin, end, categories;
};
struct Scan {
  std::uint64_t size, flags, begin, end, walked_to, regions, region_count, most_pages;
  std::uint64_t inverted, all_of, any_of, told;
};
constexpr std::uint64_t is_of_file = 1 << 2, is_present = 1 << 3, is_swapped = 1 << 4;

// Calls body(first, last), addresses, for the pages of its own that the process has in [begin, end). Returns
// up to where, which is `begin` if the system cannot tell.
template <typename Body>
std::uintptr_t scan_pages(int pagemap, std::uintptr_t begin, std::uintptr_t end, const Body& body) {
  std::vector<Region> regions(512);
  while (begin < end) {
    Scan scan{};
    scan.size = sizeof scan;
    scan.begin = begin;
    scan.end = end;
    scan.regions = reinterpret_cast<std::uintptr_t>(regions.data());
    scan.region_count = regions.size();
    scan.inverted = scan.all_of = is_of_file;  // not of a file
    scan.any_of = is_present | is_swapped;
    scan.told = is_present;
    const int count = ioctl(pagemap, _IOWR('f', 16, Scan), &scan);
    if (count < 0 || scan.walked_to <= begin) break;
    for (int i = 0; i < count; ++i) body(regions[i].begin, regions[i].end);
    begin = scan.walked_to;
  }
  return begin;
}

}  // namespace

void map_pattern(void* buffer, std::size_t bytes, std::uint32_t pattern) {
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  const auto address = reinterpret_cast<std::uintptr_t>(buffer);
  const std::size_t head = std::min((page - address % page) % page, bytes);
  const std::size_t whole = (bytes - head) / page * page;
  char* const first = static_cast<char*>(buffer) + head;
  const auto fill = [&](void* from, std::size_t count) {
    std::fill_n(static_cast<std::uint32_t*>(from), count / sizeof pattern, pattern);
  };
  fill(buffer, head);
  fill(first + whole, bytes - head - whole);
  const int fd = file_of(pattern);
  bool well = true;
  for (std::size_t at = 0; at < whole && well; at += file_bytes) {
    well = mmap(first + at, std::min(file_bytes, whole - at), PROT_READ | PROT_WRITE,
                MAP_PRIVATE | MAP_FIXED | MAP_NORESERVE, fd, 0) != MAP_FAILED;
  }
  close(fd);
  if (!well) throw std::bad_alloc();
}

void for_each_written(const void* buffer, std::size_t bytes,
                      const std::function<void(std::size_t, std::size_t)>& body) {
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  const std::size_t first_page = reinterpret_cast<std::uintptr_t>(buffer) / page;
  const std::size_t before = reinterpret_cast<std::uintptr_t>(buffer) % page;  // in the first page
  const std::size_t pages = (before + bytes + page - 1) / page;
  const auto from_buffer = [&](std::size_t pages_on) {
    return std::clamp(pages_on * page, before, before + bytes) - before;
  };
  const int pagemap = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
  const std::uintptr_t scanned =
      scan_pages(pagemap, first_page * page, (first_page + pages) * page,
                 [&](std::uintptr_t first, std::uintptr_t last) {
                   body(from_buffer(first / page - first_page), from_buffer(last / page - first_page));
                 });
  std::vector<std::uint64_t> entries(1 << 16);
  for (std::size_t done = scanned / page - first_page; done < pages;) {
    const std::size_t wanted = std::min(entries.size(), pages - done) * sizeof entries[0];
    const auto at = static_cast<off_t>((first_page + done) * sizeof entries[0]);
    if (pagemap < 0 || pread(pagemap, entries.data(), wanted, at) != static_cast<ssize_t>(wanted)) {
      body(from_buffer(done), bytes);
      break;
    }
    const std::size_t count = wanted / sizeof entries[0];
    for (std::size_t i = 0; i < count; ++i) {
      if (own_page(entries[i])) body(from_buffer(done + i), from_buffer(done + i + 1));
    }
    done += count;
  }
  if (pagemap >= 0) close(pagemap);
}

}  // namespace harness
