#include "base/peer_process.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/affinity.h"
#include "base/error.h"

extern char** environ;

namespace trireme {

PeerProcess::PeerProcess(std::vector<std::string> command) {
  for (const std::string& word : command) name_ += (name_.empty() ? "" : " ") + word;
  int to[2], from[2];
  const bool made = pipe2(to, O_CLOEXEC) == 0 && pipe2(from, O_CLOEXEC) == 0;
  require(made, ErrorKind::io, "cannot create a pipe: {}", std::strerror(errno));
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, to[0], STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, from[1], STDOUT_FILENO);
  std::vector<char*> words;
  for (std::string& word : command) words.push_back(word.data());
  words.push_back(nullptr);
  const AsBeforeBinding all_cores;
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF);
  sigset_t as_usual;
  sigemptyset(&as_usual);
  for (const int number : {SIGPIPE, SIGXFSZ}) sigaddset(&as_usual, number);
  posix_spawnattr_setsigdefault(&attributes, &as_usual);
  const int error = posix_spawnp(&process_, words[0], &actions, &attributes, words.data(), environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  close(to[0]);
  close(from[1]);
  to_ = fdopen(to[1], "w");
  from_ = fdopen(from[0], "r");
  if (error != 0) process_ = -1;
  const bool ready = error == 0 && read_line() == "ready";
  require(ready, ErrorKind::io, "cannot start {}: {}; `scripts/bootstrap --peers` installs it", name_,
          error != 0 ? std::strerror(error) : "it did not report that it is ready");
}

PeerProcess::~PeerProcess() {
  std::fclose(to_);  // it ends at the end of its input
  std::fclose(from_);
  if (process_ > 0) waitpid(process_, nullptr, 0);
}

std::string PeerProcess::read_line() {
  char line[256];
  if (!std::fgets(line, sizeof line, from_)) return "";
  std::string text(line);
  while (text.ends_with('\n')) text.pop_back();
  return text;
}

PeerProcess::Result PeerProcess::measure() {
  std::fputs("go\n", to_);
  std::fflush(to_);
  const std::string line = read_line();
  Result result;
  unsigned long long tokens = 0, peak_rss = 0, counted = 0, computed = 0;
  const int fields = std::sscanf(line.c_str(), "%lf %llu %llu %lf %llu %llu", &result.seconds, &tokens, &peak_rss,
                                 &result.loss, &counted, &computed);
  require(fields >= 2, ErrorKind::io, "{} answered \"{}\", expected seconds and tokens", name_, line);
  result.tokens = tokens;
  result.peak_rss = peak_rss;
  result.counted = counted;
  result.computed = computed;
  return result;
}

}  // namespace trireme
