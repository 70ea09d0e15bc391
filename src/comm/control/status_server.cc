#include "comm/control/status_server.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <deque>
#include <list>
#include <mutex>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/error.h"
#include "base/json.h"
#include "base/json_text.h"
#include "base/printable.h"
#include "comm/control/secret.h"
#include "comm/control/thread.h"

namespace trireme {
namespace {

constexpr size_t kConnections = 64;  // the oldest unauthorized one is closed first
constexpr size_t kLongestRequest = 4096;
constexpr size_t kMostPending = size_t{1} << 20;    // unread bytes of a slow reader
constexpr size_t kHistory = 50;                     // lines sent at the start of an attach,
constexpr size_t kHistoryBytes = kMostPending / 4;  // and their bytes
constexpr double kRequestSeconds = 5;               // to prove that the secret is known
constexpr size_t kMostWhoBytes = 200;
constexpr double kTurnSeconds = 0.5;
constexpr double kLastWordSeconds = 1;

std::string line_of(const char* key, Json value) { return dump_json(Json{{key, std::move(value)}}) + "\n"; }

}  // namespace

class StatusServer::Loop {
 public:
  explicit Loop(StatusServerOptions options)
      : options_(std::move(options)), listener_(listen_on_free_port(options_.this_host_only)) {
    if (options_.secret.empty()) options_.secret = random_secret();
    const std::string own = addresses_of(listener_, true, "")[0];
    if (!options_.this_host_only) addresses_ = outer_addresses();
    addresses_.push_back(own);
    thread_.start(options_.cpu, [this] { run(); });
  }
  ~Loop() {
    thread_.stop();
    for (const auto start = Clock::now(); has_pending() && seconds_since(start) < kLastWordSeconds;) {
      wait(kLastWordSeconds / 10);
      for (Connection& c : connections_) flush(c);
    }
  }

  const std::string& secret() const { return options_.secret; }
  const std::vector<std::string>& addresses() const { return addresses_; }
  std::string last_line() const {
    const std::lock_guard lock(mutex_);
    return history_.empty() ? "" : history_.back();
  }
  void say(std::string_view line) {
    {
      const std::lock_guard lock(mutex_);
      history_.emplace_back(line);
      history_bytes_ += line.size();
      while (history_.size() > kHistory || (history_.size() > 1 && history_bytes_ > kHistoryBytes)) {
        history_bytes_ -= history_.front().size();
        history_.pop_front();
      }
      fresh_.emplace_back(line);
      if (fresh_.size() > kHistory) fresh_.pop_front();  // the thread gets no processor
    }
    thread_.wake();
  }
  void end(std::string json) {
    {
      const std::lock_guard lock(mutex_);
      end_ = std::move(json);
    }
    thread_.wake();
  }

 private:
  enum class Place { stranger, waits, follows, done };
  struct Connection {
    Socket socket;
    Place place = Place::stranger;
    Clock::time_point since = Clock::now();
    std::string nonce, request, pending;
    bool open = true;
  };

  /// Empty if the host has no other interface.
  std::vector<std::string> outer_addresses() const {
    try {
      return addresses_of(listener_, false, options_.interface);
    } catch (const Error&) {
      if (!options_.interface.empty()) throw;
      return {};
    }
  }

  void run() {
    while (!thread_.ending()) {
      wait(kTurnSeconds);
      accept_new();
      for (Connection& c : connections_) read(c);
      hand_out_news();
      for (Connection& c : connections_) flush(c);
      std::erase_if(connections_, [](const Connection& c) { return !c.open; });
      if (leaving_ && !has_pending()) options_.leave();
    }
    hand_out_news();
  }

  bool has_pending() const {
    return std::any_of(connections_.begin(), connections_.end(),
                       [](const Connection& c) { return c.open && !c.pending.empty(); });
  }

  void wait(double seconds) {
    std::vector<pollfd> items = {{listener_.fd(), POLLIN, 0}};
    for (const Connection& c : connections_) {
      const bool writes = !c.pending.empty();
      items.push_back({c.socket.fd(), static_cast<short>(writes ? POLLIN | POLLOUT : POLLIN), 0});
    }
    thread_.wait(items, seconds);
  }

  void accept_new() {
    while (Socket socket = accept_from(listener_)) {
      if (connections_.size() >= kConnections) drop_oldest_stranger();
      if (connections_.size() >= kConnections) return;
      Connection& c = connections_.emplace_back();
      c.socket = std::move(socket);
      c.nonce = random_secret();
      c.pending = line_of("challenge", c.nonce);
      flush(c);
    }
    for (Connection& c : connections_) {
      if (c.place == Place::stranger && seconds_since(c.since) > kRequestSeconds) c.open = false;
    }
  }

  void drop_oldest_stranger() {
    const auto oldest = std::find_if(connections_.begin(), connections_.end(),
                                     [](const Connection& c) { return c.place == Place::stranger; });
    if (oldest != connections_.end()) connections_.erase(oldest);
  }

  void read(Connection& c) {
    std::string bytes;
    const Socket::Arrival arrival = c.socket.receive(bytes);
    if (arrival == Socket::Arrival::closed) c.open = false;
    if (arrival != Socket::Arrival::bytes || c.place != Place::stranger) return;  // one request each
    c.request += bytes;
    const size_t proof_end = c.request.find('\n');
    const size_t end = proof_end == std::string::npos ? proof_end : c.request.find('\n', proof_end + 1);
    if (end != std::string::npos) {
      answer(c, c.request.substr(0, proof_end), c.request.substr(proof_end + 1, end - proof_end - 1));
    } else if (c.request.size() > kLongestRequest) {
      c.open = false;
    }
  }

  void answer(Connection& c, const std::string& proof, const std::string& text) {
    c.open = false;
    try {
      const Json proven = parse_json(proof, "proof");
      const Handshake handshake{options_.secret, c.nonce, proven.at("nonce").get<std::string>(), text};
      if (!proves(handshake, Side::client, proven.at("proof").get<std::string>())) return;
      const Json request = parse_json(text, "request");
      const std::string what = request.value("do", ""), who = request.value("who", "");
      c.open = true;
      c.pending += line_of("accepted", proof_of(handshake, Side::server));
      if (what == "status") {
        c.pending += line_of("status", parse_json(options_.status(), "status"));
        c.place = Place::done;
      } else if (what == "stop") {
        c.place = Place::waits;
        stop(who, request.value("now", false));
      } else if (what == "attach") {
        c.place = Place::follows;
        const std::lock_guard lock(mutex_);
        // Newer lines follow below.
        for (size_t i = 0; i + fresh_.size() < history_.size(); ++i) c.pending += line_of("line", history_[i]);
      } else {
        c.open = false;
      }
      if (sent_end_ && c.place != Place::done) c.pending += last_word_;
    } catch (const std::exception&) {
      c.open = false;  // not a valid request
    }
  }

  void stop(const std::string& who, bool now) {
    if (stopped_ && (!now || stopped_now_)) return;
    stopped_ = true;
    stopped_now_ = now;
    // It goes to logs and terminals.
    std::string shown = printable(who, kMostWhoBytes);
    std::ranges::replace(shown, '\n', ' ');
    if (options_.on_stop(fmt::format("trireme stop ({})", shown), now)) leaving_ = true;
  }

  void hand_out_news() {
    std::deque<std::string> lines;
    std::string end;
    {
      const std::lock_guard lock(mutex_);
      lines.swap(fresh_);
      end = end_;
    }
    std::string news;
    for (const std::string& line : lines) news += line_of("line", line);
    const bool ends = !end.empty() && !std::exchange(sent_end_, true);
    if (ends) last_word_ = line_of("end", parse_json(end, "the last word"));
    for (Connection& c : connections_) {
      if (c.place == Place::follows) c.pending += news;
      if (ends && (c.place == Place::follows || c.place == Place::waits)) c.pending += last_word_;
      if (c.pending.size() > kMostPending) c.open = false;
    }
  }

  static void flush(Connection& c) {
    if (!c.open || c.pending.empty()) return;
    const ssize_t sent = ::send(c.socket.fd(), c.pending.data(), c.pending.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent > 0) c.pending.erase(0, static_cast<size_t>(sent));
    if (sent < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR) c.open = false;
    if (c.pending.empty() && c.place == Place::done) c.open = false;
  }

  StatusServerOptions options_;
  Socket listener_;
  std::vector<std::string> addresses_;
  std::list<Connection> connections_;
  bool sent_end_ = false, leaving_ = false, stopped_ = false, stopped_now_ = false;
  std::string last_word_;
  mutable std::mutex mutex_;  ///< of what follows
  std::deque<std::string> history_, fresh_;
  size_t history_bytes_ = 0;
  std::string end_;
  ControlThread thread_;
};

StatusServer::StatusServer(StatusServerOptions options) : loop_(std::make_unique<Loop>(std::move(options))) {}

StatusServer::~StatusServer() = default;

const std::string& StatusServer::secret() const { return loop_->secret(); }
std::vector<std::string> StatusServer::addresses() const { return loop_->addresses(); }
void StatusServer::say(std::string_view line) { loop_->say(line); }
std::string StatusServer::last_line() const { return loop_->last_line(); }
void StatusServer::end(std::string json) { loop_->end(std::move(json)); }

}  // namespace trireme
