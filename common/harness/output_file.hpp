#pragma once

#include <cstddef>
#include <string>

namespace harness {

// An output file that appears only when it is complete. The bytes go to a temporary file in the directory of
// `path`, which commit() renames to `path`; without commit() the destructor removes it and `path` stays as it
// was. A new file gets the usual permissions (umask); one that is replaced keeps its own. Written to directly
// instead: a device or pipe (/dev/null), and whatever is this process's standard output or error, even when
// the shell redirected that to a regular file (/dev/stdout).
class OutputFile {
 public:
  // Throws InputError if `path` cannot be written, so that it is known before any work.
  explicit OutputFile(std::string path);
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  // Appends. Throws InputError (the disk is full, …) and then gives the file up, so that it cannot be
  // committed.
  void write(const void* bytes, std::size_t count);

  // Throws InputError if the system reports a late error. Neither write() nor commit() may follow.
  void commit();

 private:
  [[noreturn]] void fail(const std::string& problem) const;
  void open_temporary();
  void discard() noexcept;

  std::string path_;       // as the user gave it, for messages
  std::string target_;     // `path` with symbolic links resolved
  std::string temporary_;  // empty: written directly, or nothing left to remove
  int fd_ = -1;            // owned; -1 after commit() or a failure
};

// Removes the temporary files of all that is neither committed nor destroyed. Async-signal-safe.
void remove_temporaries() noexcept;

// Has the signals that end a program (Ctrl-C, kill, a crash, ...) remove them first. What is ignored stays
// so.
void remove_temporaries_on_signals();

}  // namespace harness
