#include "common/harness/output_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <stdexcept>
#include <system_error>
#include <utility>

#include "common/harness/error.hpp"

namespace harness {
namespace {

std::string errno_text() { return std::generic_category().message(errno); }

// The existing temporary files, for a signal handler, which must not touch the heap. If the table is full, a
// crash leaves a file behind, no worse.
struct Temporary {
  std::atomic<bool> taken, exists;
  std::array<char, PATH_MAX> path;
};
std::array<Temporary, 4> temporaries;

void register_temporary(const std::string& path) {
  for (Temporary& entry : temporaries) {
    if (path.size() >= entry.path.size() || entry.taken.exchange(true)) continue;
    std::memcpy(entry.path.data(), path.c_str(), path.size() + 1);
    entry.exists = true;
    return;
  }
}

void forget_temporary(const std::string& path) {
  for (Temporary& entry : temporaries) {
    if (!entry.exists || path != entry.path.data()) continue;
    entry.exists = false;
    entry.taken = false;
  }
}

void on_fatal_signal(int signal) {
  remove_temporaries();
  raise(signal);  // delivered when this returns, and then ends the program: SA_RESETHAND
}

}  // namespace

OutputFile::OutputFile(std::string path) : path_(std::move(path)), target_(path_) {
  struct stat existing{};
  if (path_.empty()) throw InputError("the path of an output file is empty; give one");
  if (stat(path_.c_str(), &existing) != 0) {
    if (errno != ENOENT) fail(errno_text());
    // The rename would replace the link itself, for example /dev/stdout when standard output is closed.
    std::error_code ignored;
    if (std::filesystem::is_symlink(path_, ignored)) fail("Broken symbolic link");
    open_temporary();
    return;
  }
  if (S_ISDIR(existing.st_mode)) fail("Is a directory");
  for (const int standard : {STDOUT_FILENO, STDERR_FILENO}) {
    struct stat stream{};
    if (fstat(standard, &stream) != 0) continue;
    if (stream.st_dev != existing.st_dev || stream.st_ino != existing.st_ino) continue;
    std::fflush(standard == STDOUT_FILENO ? stdout : stderr);  // so that earlier output comes first
    fd_ = fcntl(standard, F_DUPFD_CLOEXEC, 0);
    if (fd_ < 0) fail(errno_text());
    return;
  }
  if (!S_ISREG(existing.st_mode)) {
    fd_ = open(path_.c_str(), O_WRONLY | O_CLOEXEC);
    if (fd_ < 0) fail(errno_text());
    return;
  }
  if (access(path_.c_str(), W_OK) != 0) fail(errno_text());  // rename() would not check
  std::error_code error;
  target_ = std::filesystem::canonical(path_, error).string();
  if (error) fail(error.message());
  open_temporary();
  // Fails only on a file system without permissions.
  static_cast<void>(fchmod(fd_, existing.st_mode & 0777));
}

OutputFile::~OutputFile() { discard(); }

void OutputFile::open_temporary() {
  const std::filesystem::path directory = std::filesystem::path(target_).parent_path();
  // Not mkstemp, which would ignore the umask.
  for (int attempt = 0; fd_ < 0; ++attempt) {
    temporary_ = (directory / fmt::format(".gemm-ladder-{}-{}.tmp", getpid(), attempt)).string();
    fd_ = open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd_ < 0 && (errno != EEXIST || attempt == 1000)) {
      fail(fmt::format("no file can be created in its directory: {}", errno_text()));
    }
  }
  register_temporary(temporary_);
}

void OutputFile::write(const void* bytes, std::size_t count) {
  if (fd_ < 0) throw std::logic_error("OutputFile::write after commit or a failure");
  const char* from = static_cast<const char*>(bytes);
  while (count > 0) {
    const ssize_t written = ::write(fd_, from, count);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) {
      const std::string reason = errno_text();
      discard();
      fail(reason);
    }
    from += written;
    count -= static_cast<std::size_t>(written);
  }
}

void OutputFile::commit() {
  if (fd_ < 0) throw std::logic_error("OutputFile::commit after commit or a failure");
  // A network file system may report an error as late as here.
  const bool closed = close(std::exchange(fd_, -1)) == 0;
  if (closed && temporary_.empty()) return;
  if (!closed || std::rename(temporary_.c_str(), target_.c_str()) != 0) {
    const std::string reason = errno_text();
    discard();
    fail(reason);
  }
  forget_temporary(temporary_);
  temporary_.clear();
}

void OutputFile::discard() noexcept {
  if (fd_ >= 0) close(std::exchange(fd_, -1));
  if (temporary_.empty()) return;
  unlink(temporary_.c_str());
  forget_temporary(temporary_);
  temporary_.clear();
}

void OutputFile::fail(const std::string& problem) const {
  throw InputError(fmt::format("{}: cannot write: {}; give a path that can be written", path_, problem));
}

void remove_temporaries() noexcept {
  for (const Temporary& entry : temporaries) {
    if (entry.exists) unlink(entry.path.data());
  }
}

void remove_temporaries_on_signals() {
  for (const int signal : {SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGPIPE, SIGXCPU, SIGXFSZ, SIGABRT, SIGFPE,
                           SIGILL, SIGSEGV, SIGBUS}) {
    struct sigaction action{};
    if (sigaction(signal, nullptr, &action) != 0 || action.sa_handler != SIG_DFL) continue;
    action.sa_handler = on_fatal_signal;
    action.sa_flags = static_cast<int>(SA_RESETHAND | SA_ONSTACK);
    sigaction(signal, &action, nullptr);
  }
}

}  // namespace harness
