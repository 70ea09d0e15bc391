#include <fmt/ranges.h>

#include "base/error.h"
#include "base/time.h"
#include "comm/control/status_server.h"

namespace trireme {
namespace {

constexpr double kConnectSeconds = 2, kAnswerSeconds = 5;
constexpr size_t kLongestLine = size_t{1} << 20;

}  // namespace

StatusClient::StatusClient(const std::vector<std::string>& addresses, const std::string& request)
    : request_(request + "\n") {
  std::vector<std::string> tried;
  for (const std::string& address : addresses) {
    std::string why;
    socket_ = connect_to(address, kConnectSeconds, why);
    if (socket_ && greet(why)) return;
    tried.push_back(fmt::format("{} ({})", address, why));
  }
  fail(ErrorKind::comm, "{}", fmt::join(tried, ", "));
}

bool StatusClient::greet(std::string& why) {
  bytes_.clear();
  closed_ = false;
  const bool accepted = socket_.send(request_) && next(kAnswerSeconds) == "{\"accepted\":true}";
  if (!accepted) why = closed_ ? "the program there does not know this job" : "it does not answer";
  return accepted;
}

std::optional<std::string> StatusClient::take_line() {
  const size_t end = bytes_.find('\n');
  if (end == std::string::npos) return {};
  std::string line = bytes_.substr(0, end);
  bytes_.erase(0, end + 1);
  return line;
}

std::optional<std::string> StatusClient::next(double seconds) {
  const auto start = Clock::now();
  for (;;) {
    if (auto line = take_line()) return line;
    if (closed_ || bytes_.size() > kLongestLine) return {};
    const double left = seconds - seconds_since(start);
    if (left <= 0 || !socket_.wait(left)) return {};
    if (socket_.receive(bytes_) == Socket::Arrival::closed) closed_ = true;
  }
}

}  // namespace trireme
