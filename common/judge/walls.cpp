#include "common/judge/walls.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <filesystem>

#if __has_include(<linux/landlock.h>)
#include <linux/landlock.h>
#define HAVE_LANDLOCK
#endif

namespace judge {

#ifdef HAVE_LANDLOCK

namespace {

constexpr __u64 reading =
    LANDLOCK_ACCESS_FS_EXECUTE | LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR;
constexpr __u64 all_of_first_version = (LANDLOCK_ACCESS_FS_MAKE_SYM << 1) - 1;

void allow(int rules, const char* path, __u64 what) {
  const int fd = open(path, O_PATH | O_CLOEXEC);
  if (fd < 0) return;
  landlock_path_beneath_attr rule{};
  rule.allowed_access = what;
  rule.parent_fd = fd;
  syscall(SYS_landlock_add_rule, rules, LANDLOCK_RULE_PATH_BENEATH, &rule, 0);
  close(fd);
}

void restrict_files_and_network() {
  const long version = syscall(SYS_landlock_create_ruleset, nullptr, 0, 1 << 0 /* the version */);
  if (version < 1) return;
  // What later versions know is said in numbers: the header may be older than the system.
  struct {
    __u64 files, network;
  } handled = {all_of_first_version | (version >= 3 ? 1 << 14 /* truncate */ : 0), 3 /* bind, connect */};
  const int rules = static_cast<int>(syscall(SYS_landlock_create_ruleset, &handled,
                                             version >= 4 ? sizeof handled : sizeof handled.files, 0));
  if (rules < 0) return;
  for (const char* path : {"/usr", "/bin", "/lib", "/lib64", "/opt", "/nix", "/etc", "/proc", "/sys"}) {
    allow(rules, path, reading);
  }
  allow(rules, "/dev/null", LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_WRITE_FILE);
  std::error_code error;
  allow(rules, std::filesystem::read_symlink("/proc/self/exe", error).parent_path().c_str(), reading);
  prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  syscall(SYS_landlock_restrict_self, rules, 0);
  close(rules);
}

}  // namespace

#endif

void raise_walls() {
  prctl(PR_SET_DUMPABLE, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);  // it ends with the judge
#ifdef HAVE_LANDLOCK
  restrict_files_and_network();
#endif
}

}  // namespace judge
