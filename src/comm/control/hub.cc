#include <sys/socket.h>

#include <array>
#include <list>
#include <mutex>

#include "base/error.h"
#include "base/log.h"
#include "comm/control/control.h"
#include "comm/control/message.h"
#include "comm/control/secret.h"
#include "comm/control/socket.h"
#include "comm/control/thread.h"

namespace trireme {
namespace {

constexpr size_t kStrangers = 64;         // connections without a hello; the oldest is closed first
constexpr double kHelloSeconds = 5;       // to send it
constexpr double kLastNewsSeconds = 0.5;  // for informing all others of a loss
constexpr int kReadsPerTurn = 16;         // so that a flooding peer cannot block the others

}  // namespace

class ControlHub::Loop {
 public:
  Loop(int ranks, const std::string& host, const Heartbeat& own, ControlOptions options)
      : ranks_(ranks),
        host_(host),
        own_(own),
        options_(std::move(options)),
        interval_(heartbeat_interval(options_.hang_timeout)),
        listener_(listen_on_free_port(options_.one_host)),
        addresses_(addresses_of(listener_, options_.one_host, options_.interface)),
        liveness_(ranks, options_.hang_timeout, Clock::now()) {
    if (options_.secret.empty()) options_.secret = random_secret();
    liveness_.join(0, host_, Clock::now());
    thread_.start(&own_.cpu(), [this] { run(); });
  }
  ~Loop() { dismiss(); }

  void dismiss() {
    std::call_once(dismissed_, [this] {
      thread_.stop();
      tell({.kind = ControlKind::bye, .rank = 0, .host = host_});
    });
  }

  const std::string& secret() const { return options_.secret; }
  const std::vector<std::string>& addresses() const { return addresses_; }
  std::optional<StopRequest> stop_request() const {
    const std::lock_guard lock(mutex_);
    return stop_;
  }
  std::vector<PeerView> views() const {
    const std::lock_guard lock(mutex_);
    return views_;
  }

 private:
  static constexpr int kStranger = -2;
  struct Connection {
    Socket socket;
    int rank = kStranger;
    Clock::time_point since = Clock::now();
    ControlStream stream;
    bool open = true;
  };

  void run() {
    auto last = Clock::now(), next_beat = last;
    while (!thread_.ending()) {
      wait();
      const auto now = Clock::now();
      const double late = std::chrono::duration<double>(now - last).count() - 2 * interval_;
      if (late > 0) liveness_.slept(std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(late)));
      last = now;
      accept_new();
      std::optional<Loss> loss = read_all(now);
      liveness_.heard(0, own_.state(), now);
      if (!loss) loss = liveness_.judge(now);
      if (loss) return end(*loss);
      if (now < next_beat) continue;
      next_beat = now + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(interval_));
      tell({.kind = ControlKind::beat, .rank = 0, .state = own_.state(), .host = host_});
      std::vector<PeerView> views = liveness_.views();
      const std::lock_guard lock(mutex_);
      views_ = std::move(views);
    }
  }

  void wait() {
    std::vector<pollfd> items = {{listener_.fd(), POLLIN, 0}};
    for (const Connection& c : connections_) items.push_back({c.socket.fd(), POLLIN, 0});
    thread_.wait(items, interval_);
  }

  void accept_new() {
    for (int i = 0; i < kReadsPerTurn; ++i) {
      Socket socket = accept_from(listener_);
      if (!socket) break;
      connections_.emplace_back().socket = std::move(socket);
    }
    const auto is_stranger = [](const Connection& c) { return c.rank == kStranger; };
    auto strangers = static_cast<size_t>(std::count_if(connections_.begin(), connections_.end(), is_stranger));
    std::erase_if(connections_, [&](const Connection& c) {
      if (!is_stranger(c)) return false;
      const bool drop = strangers > kStrangers || seconds_since(c.since) > kHelloSeconds;
      if (drop) --strangers;
      return drop;
    });
  }

  /// The first member that disconnected without a bye.
  std::optional<Loss> read_all(Clock::time_point now) {
    std::optional<Loss> loss;
    for (Connection& c : connections_) {
      for (int i = 0; i < kReadsPerTurn && c.open && read(c, now); ++i) {
      }
      if (!c.open && c.rank > 0 && !loss) loss = liveness_.closed(c.rank, now);
    }
    if (told_loss_) loss = told_loss_;  // the rank that reported it has left because of it
    std::erase_if(connections_, [](const Connection& c) { return !c.open; });
    return loss;
  }

  /// False if there is nothing more to read for now.
  bool read(Connection& c, Clock::time_point now) {
    std::string bytes;
    const Socket::Arrival arrival = c.socket.receive(bytes);
    if (arrival == Socket::Arrival::closed) c.open = false;
    if (arrival != Socket::Arrival::bytes) return false;
    try {
      c.stream.append(bytes);
      while (c.open) {
        const auto message = c.stream.next();
        if (!message) break;
        c.rank == kStranger ? greet(c, *message, now) : take(c, *message, now);
      }
    } catch (const Error&) {
      c.open = false;  // not a rank, or a rank whose memory is corrupt
    }
    return c.open;
  }

  void greet(Connection& c, const ControlMessage& message, Clock::time_point now) {
    const bool launcher = message.rank == ControlClient::kLauncher;
    const bool free_rank = message.rank > 0 && message.rank < ranks_ && !liveness_.joined(message.rank);
    c.open =
        message.kind == ControlKind::hello && same_secret(message.text, options_.secret) && (launcher || free_rank);
    if (!c.open) return;
    c.rank = message.rank;
    if (!launcher) liveness_.join(message.rank, message.host, now);
    c.socket.send(encode({.kind = ControlKind::welcome, .rank = 0, .state = own_.state(), .host = host_}));
  }

  void take(Connection& c, const ControlMessage& message, Clock::time_point now) {
    if (message.kind == ControlKind::beat && c.rank > 0) liveness_.heard(c.rank, message.state, now);
    if (message.kind == ControlKind::loss && !told_loss_)
      told_loss_ = Loss{message.rank, message.host, message.state, message.text};
    if (message.kind == ControlKind::stop || message.kind == ControlKind::stop_for_good) {
      const std::lock_guard lock(mutex_);
      if (!stop_) stop_ = StopRequest{message.text, message.kind == ControlKind::stop_for_good};
    }
    if (message.kind != ControlKind::bye) return;
    if (c.rank > 0) liveness_.leave(c.rank);
    c.rank = kStranger;
    c.open = false;
  }

  void tell(const ControlMessage& message) {
    const std::string bytes = encode(message);
    // A peer that reads nothing is judged by its own silence.
    for (const Connection& c : connections_) {
      if (c.rank != kStranger) c.socket.send(bytes);
    }
  }

  void end(const Loss& loss) {
    tell({.kind = ControlKind::loss, .rank = loss.rank, .state = loss.last, .host = loss.host, .text = loss.reason});
    options_.on_loss(loss);
    // Closing a socket with unread bytes can discard what was sent on it before the receiver reads it.
    for (const Connection& c : connections_) shutdown(c.socket.fd(), SHUT_WR);
    std::erase_if(connections_, [&](const Connection& c) { return c.rank == kStranger || c.rank == loss.rank; });
    for (const auto start = Clock::now(); !connections_.empty() && seconds_since(start) < kLastNewsSeconds;) {
      std::vector<pollfd> items;
      for (const Connection& c : connections_) items.push_back({c.socket.fd(), POLLIN, 0});
      thread_.wait(items, kLastNewsSeconds / 10);
      std::string ignored;
      std::erase_if(connections_,
                    [&](const Connection& c) { return c.socket.receive(ignored) == Socket::Arrival::closed; });
    }
    options_.leave();
  }

  const int ranks_;
  const std::string host_;
  const Heartbeat& own_;
  ControlOptions options_;
  const double interval_;
  Socket listener_;
  const std::vector<std::string> addresses_;
  Liveness liveness_;
  std::list<Connection> connections_;
  std::optional<Loss> told_loss_;  ///< a client reported the loss of this rank
  mutable std::mutex mutex_;       ///< guards stop_ and views_
  std::optional<StopRequest> stop_;
  std::vector<PeerView> views_;
  std::once_flag dismissed_;
  ControlThread thread_;
};

ControlHub::ControlHub(int ranks, const std::string& host, const Heartbeat& own, ControlOptions options)
    : loop_(std::make_unique<Loop>(ranks, host, own, std::move(options))) {}

ControlHub::~ControlHub() = default;

void ControlHub::dismiss() { loop_->dismiss(); }
const std::string& ControlHub::secret() const { return loop_->secret(); }
std::vector<std::string> ControlHub::addresses() const { return loop_->addresses(); }
std::optional<StopRequest> ControlHub::stop_request() const { return loop_->stop_request(); }
std::vector<PeerView> ControlHub::views() const { return loop_->views(); }

}  // namespace trireme
