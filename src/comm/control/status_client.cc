#include <fmt/ranges.h>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json.h"
#include "base/json_text.h"
#include "base/time.h"
#include "comm/control/secret.h"
#include "comm/control/status_server.h"

namespace trireme {
namespace {

constexpr double kConnectSeconds = 2, kAnswerSeconds = 5;
constexpr size_t kLongestLine = size_t{1} << 20;

}  // namespace

StatusClient::StatusClient(const std::vector<std::string>& addresses, const std::string& secret, std::string request) {
  std::vector<std::string> tried;
  for (const std::string& address : addresses) {
    std::string why;
    socket_ = connect_to(address, kConnectSeconds, why);
    if (socket_) why = greet(secret, request);
    if (socket_ && why.empty()) return;
    tried.push_back(fmt::format("{} ({})", address, why));
  }
  fail(ErrorKind::comm, "{}", fmt::join(tried, ", "));
}

std::string StatusClient::greet(const std::string& secret, const std::string& request) {
  bytes_.clear();
  closed_ = false;
  const auto word = [&](const char* key) -> std::string {
    const auto line = next(kAnswerSeconds);
    try {
      return line ? parse_json(*line, key).at(key).get<std::string>() : "";
    } catch (const std::exception&) {
      return "";
    }
  };
  constexpr const char* kStranger = "the program there does not know this job";
  Handshake handshake{
      .secret = secret, .server_nonce = word("challenge"), .client_nonce = random_secret(), .said = request};
  if (handshake.server_nonce.empty()) return bytes_.empty() && !closed_ ? "it does not answer" : kStranger;
  const Json proof{{"nonce", handshake.client_nonce}, {"proof", proof_of(handshake, Side::client)}};
  const std::string bytes = dump_json(proof) + "\n" + request + "\n";
  if (socket_.send(bytes) != static_cast<ssize_t>(bytes.size())) return "it does not answer";
  const std::string accepted = word("accepted");
  if (proves(handshake, Side::server, accepted)) return "";
  return accepted.empty() && !closed_ ? "it does not answer" : kStranger;
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
