#include "comm/control/lookout.h"

#include <fmt/format.h>
#include <poll.h>

#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "base/time.h"

namespace trireme {
namespace {

constexpr size_t kAtOnce = 256;  // file descriptors
constexpr int kAnswersPerTurn = 64;

/// Whether a failed connection says that the host is not reached: not if a resource is missing here, or its process.
bool is_cut(int error) {
  for (const int other : {ECONNREFUSED, ECONNRESET, EMFILE, ENFILE, ENOBUFS, ENOMEM, EADDRNOTAVAIL, EAGAIN}) {
    if (error == other) return false;
  }
  return true;
}

struct Attempt {
  Sight* sight;
  Socket socket;
  bool connected = false;
  std::string answer = {};

  bool open() const { return static_cast<bool>(socket); }
  void fail(int error) {
    if (is_cut(error)) sight->failed = std::strerror(error);
    socket = Socket();
  }
  void advance() {
    if (!connected) {
      if (const int error = finish_connect(socket); error != 0) return fail(error);
      connected = true;
    }
    const Socket::Arrival arrival = socket.receive(answer);
    if (answer.find('\n') != std::string::npos) sight->answered = std::atof(answer.c_str());
    if (arrival == Socket::Arrival::closed || sight->answered || answer.size() > 64) socket = Socket();
  }
};

void look_at(const std::vector<LookoutTarget>& targets, size_t first, size_t last, double seconds,
             std::vector<Sight>& sights) {
  std::vector<Attempt> attempts;
  for (size_t i = first; i < last; ++i) {
    sights[i].rank = targets[i].rank;
    std::string why;
    int error = 0;
    Attempt attempt{&sights[i], begin_connect(targets[i].address, why, error)};
    if (!attempt.open()) attempt.fail(error);
    attempts.push_back(std::move(attempt));
  }
  for (const auto start = Clock::now(); seconds_since(start) < seconds;) {
    std::vector<pollfd> items;
    std::vector<Attempt*> polled;
    for (Attempt& attempt : attempts) {
      if (!attempt.open()) continue;
      items.push_back({attempt.socket.fd(), static_cast<short>(attempt.connected ? POLLIN : POLLOUT), 0});
      polled.push_back(&attempt);
    }
    if (items.empty()) return;
    poll(items.data(), items.size(), static_cast<int>((seconds - seconds_since(start)) * 1e3) + 1);
    for (size_t i = 0; i < items.size(); ++i) {
      if (items[i].revents != 0) polled[i]->advance();
    }
  }
  for (Attempt& attempt : attempts) {
    if (attempt.open() && !attempt.connected) attempt.fail(ETIMEDOUT);
  }
}

template <class Take>
void each_line(std::string_view lines, Take take) {
  while (!lines.empty()) {
    const size_t end = std::min(lines.find('\n'), lines.size());
    const std::string_view line = lines.substr(0, end);
    lines.remove_prefix(std::min(end + 1, lines.size()));
    int rank = -1;
    const auto [stop, error] = std::from_chars(line.data(), line.data() + line.size(), rank);
    const auto digits = static_cast<size_t>(stop - line.data());
    if (error == std::errc() && rank >= 0 && digits + 1 < line.size() && line[digits] == ' ')
      take(rank, line.substr(digits + 1));
  }
}

}  // namespace

void Witness::answer(double hub_silent) const {
  for (int i = 0; i < kAnswersPerTurn; ++i) {
    const Socket socket = accept_from(listener_);
    if (!socket) return;
    socket.send(fmt::format("{:.3f}\n", hub_silent));
  }
}

std::string to_lines(const std::vector<LookoutTarget>& targets) {
  std::string lines;
  for (const LookoutTarget& target : targets) lines += fmt::format("{} {}\n", target.rank, target.address);
  return lines;
}

std::vector<LookoutTarget> targets_in(std::string_view lines) {
  std::vector<LookoutTarget> targets;
  each_line(lines, [&](int rank, std::string_view rest) { targets.push_back({rank, std::string(rest)}); });
  return targets;
}

std::string to_lines(const std::vector<Sight>& sights) {
  std::string lines;
  for (const Sight& sight : sights) {
    if (sight.answered) {
      lines += fmt::format("{} a {:.3f}\n", sight.rank, *sight.answered);
    } else if (sight.failed.empty()) {
      lines += fmt::format("{} c\n", sight.rank);
    } else {
      lines += fmt::format("{} f {}\n", sight.rank, sight.failed);
    }
  }
  return lines;
}

std::vector<Sight> sights_in(std::string_view lines) {
  std::vector<Sight> sights;
  each_line(lines, [&](int rank, std::string_view rest) {
    Sight sight{rank, "", {}};
    const std::string word(rest.substr(std::min<size_t>(2, rest.size())));
    if (rest[0] == 'a') sight.answered = std::atof(word.c_str());
    if (rest[0] == 'f') sight.failed = word;
    sights.push_back(std::move(sight));
  });
  return sights;
}

std::vector<std::string> split_lines(const std::string& lines, size_t most_bytes) {
  std::vector<std::string> parts;
  for (size_t begin = 0; begin < lines.size();) {
    size_t end = lines.size();
    if (end - begin > most_bytes) {
      end = lines.rfind('\n', begin + most_bytes - 1);
      end = end == std::string::npos || end < begin ? begin + most_bytes : end + 1;
    }
    parts.push_back(lines.substr(begin, end - begin));
    begin = end;
  }
  return parts;
}

std::vector<Sight> look(const std::vector<LookoutTarget>& targets, double seconds) {
  std::vector<Sight> sights(targets.size());
  for (size_t first = 0; first < targets.size(); first += kAtOnce)
    look_at(targets, first, std::min(first + kAtOnce, targets.size()), seconds, sights);
  return sights;
}

Lookout::~Lookout() {
  if (thread_.joinable()) thread_.join();
}

void Lookout::begin(std::vector<LookoutTarget> targets, double seconds, std::function<void()> done) {
  ready_ = false;
  thread_ = std::thread([this, targets = std::move(targets), seconds, done = std::move(done)] {
    sights_ = look(targets, seconds);
    ready_ = true;
    done();
  });
}

std::optional<std::vector<Sight>> Lookout::take() {
  if (!thread_.joinable() || !ready_) return {};
  thread_.join();
  return std::exchange(sights_, {});
}

}  // namespace trireme
