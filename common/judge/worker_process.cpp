#include "common/judge/worker_process.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <fstream>
#include <map>
#include <stdexcept>

extern char** environ;

namespace judge {

namespace {

constexpr std::size_t most_said = std::size_t{16} << 20;  // in an answer; an X-ray has some hundred KB
constexpr std::size_t most_words = 1 << 16;
constexpr std::size_t most_processes = 16;  // the sandbox and addr2line are some
constexpr int look_ms = 200;  // between two looks at the processor time, which takes milliseconds

double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// A process and all of its descendants, with the processor time of these and of those that have ended.
struct Family {
  std::vector<pid_t> members;
  double cpu_s = 0;
};
Family family_of(pid_t root) {
  struct Entry {
    pid_t parent;
    double ticks;
  };
  std::map<pid_t, Entry> all;
  DIR* folder = opendir("/proc");
  if (folder == nullptr) return {};
  while (const dirent* entry = readdir(folder)) {
    const pid_t pid = std::atoi(entry->d_name);
    if (pid <= 0) continue;
    std::ifstream file(fmt::format("/proc/{}/stat", pid));
    std::string text;
    std::getline(file, text);
    const std::size_t name_ends = text.rfind(')');
    if (name_ends == std::string::npos) continue;
    char state;
    int parent;
    unsigned long user, system;
    long waited_user, waited_system;
    if (std::sscanf(text.c_str() + name_ends + 1,
                    " %c %d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu %ld %ld", &state, &parent, &user,
                    &system, &waited_user, &waited_system) == 6) {
      all[pid] = {parent,
                  static_cast<double>(user + system) + static_cast<double>(waited_user + waited_system)};
    }
  }
  closedir(folder);
  Family family;
  for (const auto& [pid, entry] : all) {
    pid_t at = pid;
    for (int steps = 0; at != root && at > 1 && steps < 64; ++steps) {
      const auto found = all.find(at);
      at = found == all.end() ? 0 : found->second.parent;
    }
    if (at != root) continue;
    family.members.push_back(pid);
    family.cpu_s += entry.ticks / static_cast<double>(sysconf(_SC_CLK_TCK));
  }
  return family;
}

[[noreturn]] void fail_at(const char* call) {
  throw std::runtime_error(fmt::format("{}: {}", call, std::strerror(errno)));
}

}  // namespace

WorkerProcess::WorkerProcess(std::vector<std::string> command, double cpu_limit_s, double total_s)
    : cpu_limit_s_(cpu_limit_s), ends_at_s_(seconds_now() + total_s) {
  std::signal(SIGPIPE, SIG_IGN);
  prctl(PR_SET_CHILD_SUBREAPER, 1);  // orphans become our children, and are found
  int sockets[2], words[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets) != 0) fail_at("socketpair");
  if (pipe2(words, O_CLOEXEC) != 0) fail_at("pipe2");
  memory_fd_ = memfd_create("matrices", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  // Otherwise the program could pull the memory out from under us.
  if (memory_fd_ < 0 || fcntl(memory_fd_, F_ADD_SEALS, F_SEAL_SHRINK) != 0) fail_at("memfd_create");
  const timeval patience{20, 0};  // with a program that does not read
  setsockopt(sockets[0], SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
  socket_ = sockets[0];
  words_ = words[0];
  fcntl(words_, F_SETFL, O_NONBLOCK);

  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, words[1], 2);
  // Away from 3 and 4 first, as they may already have these numbers.
  const int far_socket = fcntl(sockets[1], F_DUPFD_CLOEXEC, 16),
            far_memory = fcntl(memory_fd_, F_DUPFD_CLOEXEC, 16);
  posix_spawn_file_actions_adddup2(&actions, far_socket, socket_fd);
  posix_spawn_file_actions_adddup2(&actions, far_memory, memory_fd);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSID);
  std::vector<char*> argv;
  for (std::string& word : command) argv.push_back(word.data());
  argv.push_back(nullptr);
  const int error = posix_spawnp(&pid_, argv[0], &actions, &attributes, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  for (const int fd : {sockets[1], words[1], far_socket, far_memory}) close(fd);
  if (error != 0)
    throw std::runtime_error(fmt::format("{} cannot be started: {}", command[0], std::strerror(error)));
}

WorkerProcess::~WorkerProcess() {
  kill_all();
  for (const int fd : {socket_, words_, memory_fd_}) close(fd);
  if (memory_ != nullptr) munmap(memory_, bytes_);
}

// Including processes that have left the session: orphaned descendants become our children.
void WorkerProcess::kill_all() noexcept {
  if (pid_ <= 0) return;
  try {
    for (int round = 0; round < 100; ++round) {
      pid_t ended;
      while ((ended = waitpid(-1, nullptr, WNOHANG)) > 0) {
      }
      if (ended < 0) break;  // there are no children, so no descendants
      for (const pid_t member : family_of(getpid()).members) {
        if (member != getpid()) kill(member, SIGKILL);
      }
      usleep(1000);
    }
  } catch (const std::exception&) {
    kill(-pid_, SIGKILL);
  }
  pid_ = -1;
}

char* WorkerProcess::memory(std::size_t bytes) {
  if (bytes > bytes_) {
    if (memory_ != nullptr) munmap(memory_, bytes_);
    memory_ = nullptr;
    if (ftruncate(memory_fd_, static_cast<off_t>(bytes)) != 0) fail_at("ftruncate");
    void* mapped = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, memory_fd_, 0);
    if (mapped == MAP_FAILED) fail_at("mmap");
    memory_ = static_cast<char*>(mapped);
    bytes_ = bytes;
  }
  return memory_;
}

nlohmann::json WorkerProcess::tell(const Order& order, const std::string& more) {
  Order told = order;
  told.follow = more.size();
  send(std::string(reinterpret_cast<const char*>(&told), sizeof told) + more);
  const nlohmann::json answer = nlohmann::json::parse(receive(cpu_limit_s_), nullptr, false);
  if (answer.is_null()) return nlohmann::json::object();
  if (!answer.is_object()) fail("it answered what nobody understands");
  if (const auto error = answer.find("error"); error != answer.end()) {
    fail(error->is_string() ? error->get<std::string>() : "an error without words");
  }
  return answer;
}

void WorkerProcess::send(const std::string& what) {
  for (std::size_t at = 0; at < what.size();) {
    const ssize_t sent = write(socket_, what.data() + at, what.size() - at);
    if (sent <= 0) fail("");
    at += static_cast<std::size_t>(sent);
  }
}

std::string WorkerProcess::receive(double limit_s) {
  // If it sleeps, or waits for a processor.
  const double wall_limit = std::min(seconds_now() + 20 * limit_s + 20, ends_at_s_);
  double cpu_before = -1;  // unknown: most orders are done before the first look
  std::string said;
  std::uint64_t wanted = sizeof wanted;
  bool header = true;
  double look_at_s = seconds_now() + look_ms / 1000.0;  // a look takes as long as a small problem
  while (said.size() < wanted) {
    pollfd ready[2] = {{socket_, POLLIN, 0}, {words_, POLLIN, 0}};
    if (poll(ready, 2, look_ms) < 0 && errno != EINTR) fail_at("poll");
    if (ready[1].revents != 0) drain_words();
    if (ready[0].revents != 0) {
      char piece[1 << 16];
      const ssize_t got = read(socket_, piece, std::min<std::size_t>(sizeof piece, wanted - said.size()));
      if (got <= 0) fail("");
      said.append(piece, static_cast<std::size_t>(got));
      if (header && said.size() == wanted) {
        std::memcpy(&wanted, said.data(), sizeof wanted);
        if (wanted > most_said) fail("its answer is too long");
        header = false;
        said.clear();
      }
    }
    if (seconds_now() < look_at_s) continue;
    look_at_s = seconds_now() + look_ms / 1000.0;
    const Family family = family_of(pid_);
    if (family.members.size() > most_processes) fail("it starts too many processes");
    if (cpu_before < 0) cpu_before = family.cpu_s;
    if (family.cpu_s - cpu_before > limit_s || seconds_now() > wall_limit) {
      kill_all();
      throw std::runtime_error("did not finish in time");
    }
  }
  return said;
}

void WorkerProcess::drain_words() {
  char piece[4096];
  ssize_t got;
  // Not for ever, if it goes on writing.
  for (int pieces = 0; pieces < 16 && (got = read(words_, piece, sizeof piece)) > 0; ++pieces)
    last_words_.append(piece, static_cast<std::size_t>(got));
  if (last_words_.size() > most_words) last_words_.erase(0, last_words_.size() - most_words);
}

// why: the reason if it is known; otherwise it is in how the program ended, and in its last words.
void WorkerProcess::fail(const std::string& why) {
  std::string text = why;
  if (text.empty()) {
    int status = 0;
    bool ended = false;  // it may have closed the socket and go on
    for (int i = 0; i < 100 && !ended; ++i, usleep(10'000)) ended = waitpid(pid_, &status, WNOHANG) == pid_;
    drain_words();
    const std::size_t at = last_words_.rfind("error: ");
    if (at != std::string::npos) {
      text = last_words_.substr(at + 7, last_words_.find('\n', at) - at - 7);
    } else if (ended && WIFSIGNALED(status)) {
      text = fmt::format("it ended with signal {}", WTERMSIG(status));
    } else {
      const int code = ended ? WEXITSTATUS(status) : -1;  // the sandbox reports signals as a shell does
      text = code > 128 ? fmt::format("it ended with signal {}", code - 128)
                        : fmt::format("it ended with status {}", code);
    }
  }
  kill_all();
  throw std::runtime_error(text);
}

}  // namespace judge
