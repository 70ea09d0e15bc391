#include "comm/start_watch.h"

#include <fmt/ranges.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>

#include "base/count.h"
#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "comm/rank_record.h"

namespace trireme {
namespace {

constexpr double kFirstWord = 30;                     // seconds; a large job needs some to start
constexpr auto kLastWords = std::chrono::seconds(1);  // so that the reporting rank stays visible

/// Nearest ancestor that is not a rank: the starter, or its agent on this host. Shells between it and the rank have the
/// rank's environment; another user's process is unreadable and not a rank of this job.
pid_t starter_process(const std::string& variable) {
  pid_t process = getppid();
  while (process > 1 &&
         ('\0' + read_text_if_there(fmt::format("/proc/{}/environ", process))).find('\0' + variable + '=') !=
             std::string::npos) {
    const std::string stat = read_text_if_there(fmt::format("/proc/{}/stat", process));
    const size_t end = stat.rfind(')');
    process = end == std::string::npos || end + 4 > stat.size() ? 0 : std::atoi(stat.c_str() + end + 4);
  }
  return process;
}

/// Equal in all ranks of a job on one host, different in every other job.
std::string job_of(const Launcher& launcher) {
  for (const char* name : {"PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid"}) {
    if (const char* job = std::getenv(name)) return job;
  }
  const char *job = std::getenv("SLURM_JOB_ID"), *step = std::getenv("SLURM_STEP_ID");
  if (launcher.kind == Launcher::Kind::slurm && job && step) return fmt::format("{}.{}", job, step);
  return fmt::format("process-{}", starter_process(launcher.variable));
}

/// Ranks whose sockets have this name.
std::vector<int> ranks_that_hold(const std::string& name) {
  std::vector<int> ranks;
  std::ifstream file("/proc/net/unix");
  const std::string shown = " @" + name;
  for (std::string line; std::getline(file, line);) {
    const size_t at = line.find(shown);
    if (at == std::string::npos) continue;
    int rank = -1;
    std::from_chars(line.data() + at + shown.size(), line.data() + line.size(), rank);
    if (rank >= 0) ranks.push_back(rank);
  }
  std::ranges::sort(ranks);
  return ranks;
}

std::string missing(const Arrivals& arrivals) {
  std::vector<int> absent;
  for (int rank = 0; rank < arrivals.ranks; ++rank) {
    if (!std::ranges::binary_search(arrivals.here, rank)) absent.push_back(rank);
  }
  constexpr size_t kNamed = 16;
  const size_t named = std::min(absent.size(), kNamed);
  const std::string rest = absent.size() > named ? fmt::format(" and {} more", absent.size() - named) : "";
  absent.resize(named);
  return absent.size() == 1 ? fmt::format("rank {} has not: it has ended or runs another program", absent[0])
                            : fmt::format("ranks {}{} have not: they have ended or run another program",
                                          fmt::join(absent, ", "), rest);
}

}  // namespace

std::string describe(const Arrivals& arrivals, double seconds) {
  const auto here = static_cast<int>(arrivals.here.size());
  if (arrivals.host_ranks == 0) return fmt::format("waiting in MPI_Init for {:.0f} s", seconds);
  if (arrivals.host_ranks < arrivals.ranks) {
    return fmt::format("waiting in MPI_Init for {:.0f} s: {} of this host's {} {} reached it, {}", seconds, here,
                       count_text(arrivals.host_ranks, "rank"), arrivals.host_ranks == 1 ? "has" : "have",
                       here < arrivals.host_ranks ? "the others have ended or run another program"
                                                  : "so ranks of another host have not, or a connection to them fails");
  }
  if (here == arrivals.ranks)
    return fmt::format("all {} have reached MPI_Init but have not connected in {:.0f} s", count_text(here, "rank"),
                       seconds);
  return fmt::format("{} of {} have reached MPI_Init in {:.0f} s; {}", here, count_text(arrivals.ranks, "rank"),
                     seconds, missing(arrivals));
}

StartWatch::StartWatch(const Launcher& launcher, const StartLimit& limit) : launcher_(launcher), limit_(limit) {
  if (launcher_.size == 1) return;
  announce();
  thread_ = std::thread([this] { watch(); });
}

StartWatch::~StartWatch() {
  {
    const std::lock_guard lock(mutex_);
    ended_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
  if (socket_ >= 0) close(socket_);
}

void StartWatch::announce() {
  tell_launch({.kind = RankRecord::Kind::arrived});
  if (launcher_.rank < 0) return;
  name_ = fmt::format("trireme-start/{}/{}/", getuid(), job_of(launcher_));
  const std::string name = name_ + std::to_string(launcher_.rank);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (name.size() + 1 > sizeof address.sun_path) return;
  std::memcpy(address.sun_path + 1, name.data(), name.size());  // the leading zero makes it abstract: not a file
  socket_ = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  if (socket_ >= 0 && bind(socket_, reinterpret_cast<const sockaddr*>(&address), size) == 0) return;
  if (socket_ >= 0) close(socket_);
  socket_ = -1;
}

Arrivals StartWatch::arrivals() const {
  Arrivals out{.ranks = launcher_.size, .host_ranks = launcher_.host_size, .here = {}};
  if (socket_ >= 0) out.here = ranks_that_hold(name_);
  // Ranks that do not see each other, as in containers, cannot be counted.
  if (!std::ranges::binary_search(out.here, launcher_.rank)) out.host_ranks = 0;
  return out;
}

bool StartWatch::speaks() const {
  const std::vector<int> here = arrivals().here;
  return here.empty() || here[0] == launcher_.rank;
}

bool StartWatch::ended_within(double seconds) {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, std::chrono::duration<double>(seconds), [this] { return ended_; });
}

void StartWatch::watch() {
  const double first = std::min(kFirstWord, limit_.seconds);
  if (ended_within(first)) return;
  if (first < limit_.seconds) {
    if (speaks()) log::warning("{}; waiting for at most {:.0f} s", describe(arrivals(), first), limit_.seconds);
    if (ended_within(limit_.seconds - first)) return;
  }
  const int code = exit_code(ErrorKind::peer);
  if (!speaks()) {
    if (ended_within(2 * std::chrono::duration<double>(kLastWords).count())) return;
    std::_Exit(code);
  }
  const std::string slow = *limit_.option ? fmt::format("; if they are slow, raise {}", limit_.option) : "";
  log::error("{}; start the same command on all ranks, on hosts that reach each other{}; exiting with code {}",
             describe(arrivals(), limit_.seconds), slow, code);
  if (ended_within(std::chrono::duration<double>(kLastWords).count()))
    return;  // ranks whose limit ends later still see it
  std::_Exit(code);
}

}  // namespace trireme
