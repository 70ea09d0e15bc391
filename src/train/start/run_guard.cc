#include "train/start/run_claim.h"

#include <fcntl.h>
#include <linux/fs.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <utility>

#include "base/stop.h"
#include "checkpoint/run_folder/run_status.h"

namespace trireme {
namespace {

constexpr char kEnded = 'e';

/// What the guard needs, prepared before the fork: other threads may hold any lock of the C library at the fork, so the
/// guard makes system calls only.
struct WatchedJob {
  int pipe;
  const char *reserve, *status;
  std::string running, killed, stopping;
};

long call(long number, long a = 0, long b = 0, long c = 0, long d = 0, long e = 0) {
  return syscall(number, a, b, c, d, e);
}
template <class T>
long address(const T* pointer) {
  return reinterpret_cast<long>(pointer);
}

bool holds(const char* path, const std::string& text, char* buffer) {
  const long fd = call(SYS_openat, AT_FDCWD, address(path), O_RDONLY | O_NONBLOCK);
  if (fd < 0) return false;
  const long n = call(SYS_read, fd, address(buffer), static_cast<long>(kMostStatusBytes));
  call(SYS_close, fd);
  return n == static_cast<long>(text.size()) && std::memcmp(buffer, text.data(), text.size()) == 0;
}

bool write_reserve(const WatchedJob& job, const std::string& text) {
  const long fd = call(SYS_openat, AT_FDCWD, address(job.reserve), O_WRONLY | O_CREAT | O_NOFOLLOW | O_NONBLOCK, 0644);
  if (fd < 0) return false;
  const bool written =
      call(SYS_pwrite64, fd, address(text.data()), static_cast<long>(text.size()), 0) == static_cast<long>(text.size());
  call(SYS_fsync, fd);
  call(SYS_close, fd);
  return written;
}

/// Another rank may write at the same time, and its status takes precedence: swaps both files atomically, and swaps
/// them back if the replaced one is not the expected one.
void tell_end(const WatchedJob& job, const std::string& text, char* buffer) {
  if (!holds(job.status, job.running, buffer) || !write_reserve(job, text)) return;
  const auto exchange = [&](long flags) {
    return call(SYS_renameat2, AT_FDCWD, address(job.reserve), AT_FDCWD, address(job.status), flags) == 0;
  };
  if (!exchange(RENAME_EXCHANGE)) {
    exchange(0);  // network file systems cannot swap
    return;
  }
  if (!holds(job.reserve, job.running, buffer)) exchange(RENAME_EXCHANGE);
  call(SYS_unlinkat, AT_FDCWD, address(job.reserve), 0);
}

void close_all_but(int kept) {
  const bool below = kept == 0 || call(SYS_close_range, 0, kept - 1, 0) == 0;
  if (below && call(SYS_close_range, kept + 1, ~0u, 0) == 0) return;
  for (int fd = 0; fd < 1024; ++fd) {  // kernels before 5.9
    if (fd != kept) call(SYS_close, fd);
  }
}

[[noreturn]] void watch(const WatchedJob& job) {
  static char buffer[kMostStatusBytes];
  call(SYS_setsid);
  close_all_but(job.pipe);
  prctl(PR_SET_NAME, "trireme-guard");
  char said = 0;
  while (true) {
    char byte = 0;
    const long n = call(SYS_read, job.pipe, address(&byte), 1);
    if (n < 0 && errno == EINTR) continue;
    if (n != 1) break;
    said = byte;
    if (said == kEnded) break;
  }
  if (said != kEnded) tell_end(job, said == 0 ? job.killed : job.stopping, buffer);
  while (true) call(SYS_exit_group, 0);
}

/// Pads the JSON with spaces to exactly the size of the reserve.
std::string padded(std::string text) {
  text.resize(kMostStatusBytes, ' ');
  return text;
}

}  // namespace

RunGuard::RunGuard(const std::string& run_dir, Texts texts) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return;
  const std::string reserve = run_dir + "/status.reserve", status = status_path(run_dir);
  const WatchedJob job{ends[0],
                       reserve.c_str(),
                       status.c_str(),
                       std::move(texts.running),
                       padded(std::move(texts.killed)),
                       padded(std::move(texts.stopping))};
  // fork() without its handlers: MPI's handler warns, and none is needed here. Signals go to the rank only.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  const long child = call(SYS_clone);
  if (child == 0) watch(job);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  close(ends[0]);
  if (child < 0) {
    close(ends[1]);
    return;
  }
  process_ = static_cast<int>(child);
  pipe_ = ends[1];
  stop::tell(pipe_);
}

RunGuard::~RunGuard() {
  if (pipe_ < 0) return;
  stop::tell(-1);
  close(pipe_);
  waitpid(process_, nullptr, __WALL);
}

void RunGuard::dismiss() {
  if (pipe_ >= 0) static_cast<void>(!write(pipe_, &kEnded, 1));
}

}  // namespace trireme
