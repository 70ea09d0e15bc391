#include <fmt/ranges.h>
#include <sys/socket.h>

#include <mutex>
#include <thread>

#include "base/error.h"
#include "comm/control/control.h"
#include "comm/control/message.h"
#include "comm/control/socket.h"
#include "comm/control/thread.h"

namespace trireme {
namespace {

constexpr double kTrySeconds = 2;  // for one address

/// Sends hello and waits for the welcome, whose host is the hub's. Returns an empty socket and the reason if none
/// arrives.
Socket greet(const std::string& address, const std::string& hello, ControlStream& stream, std::string& hub_host,
             std::string& why) {
  Socket socket = connect_to(address, kTrySeconds, why);
  if (!socket) return {};
  why = "it does not accept this job's secret";
  if (!socket.send(hello)) return {};
  for (const auto start = Clock::now(); seconds_since(start) < kTrySeconds;) {
    if (!socket.wait(kTrySeconds)) break;
    std::string bytes;
    if (socket.receive(bytes) == Socket::Arrival::closed) return {};
    stream.append(bytes);
    if (const auto message = stream.next()) {
      hub_host = message->host;
      return message->kind == ControlKind::welcome ? std::move(socket) : Socket();
    }
  }
  why = "it accepts connections but does not answer";
  return {};
}

}  // namespace

class ControlClient::Loop {
 public:
  Loop(const std::vector<std::string>& addresses, const std::string& secret, int rank, const std::string& host,
       const Heartbeat* own, ControlOptions options, double limit)
      : rank_(rank), host_(host), own_(own), options_(std::move(options)) {
    connect(addresses, secret, limit);
    thread_.start(own_ ? &own_->cpu() : nullptr, [this] { run(); });
  }
  ~Loop() {
    thread_.stop();
    send({.kind = ControlKind::bye, .rank = rank_, .host = host_});
    // Unread bytes at the close could discard the bye before the hub reads it.
    shutdown(socket_.fd(), SHUT_WR);
    std::string ignored;
    while (socket_.receive(ignored) == Socket::Arrival::bytes) {
    }
  }

  void request_stop(const StopRequest& request) {
    const ControlKind kind = request.stays_stopped ? ControlKind::stop_for_good : ControlKind::stop;
    send({.kind = kind, .rank = rank_, .host = host_, .text = request.why});
  }

 private:
  void connect(const std::vector<std::string>& addresses, const std::string& secret, double limit) {
    const std::string hello = encode({.kind = ControlKind::hello, .rank = rank_, .host = host_, .text = secret});
    const auto start = Clock::now();
    std::vector<std::string> reasons(addresses.size());
    while (true) {
      for (size_t i = 0; i < addresses.size(); ++i) {
        stream_ = {};
        try {
          socket_ = greet(addresses[i], hello, stream_, hub_.host, reasons[i]);
        } catch (const Error&) {
          reasons[i] = "another program answers there";
        }
        if (socket_) return;
      }
      if (seconds_since(start) > limit) break;
      std::this_thread::sleep_for(std::chrono::milliseconds(100));  // the hub may be busy with many
    }
    std::vector<std::string> tried;
    for (size_t i = 0; i < addresses.size(); ++i) tried.push_back(addresses[i] + " (" + reasons[i] + ")");
    fail(ErrorKind::comm,
         "rank {} on {} cannot reach rank 0's control channel at {}; open TCP between the hosts, or name the interface "
         "that they share with --comm.interface",
         rank_, host_, fmt::join(tried, ", "));
  }

  void run() {
    const double interval = heartbeat_interval(options_.hang_timeout);
    auto last = heard_ = Clock::now();
    while (!thread_.ending()) {
      beat();
      std::vector<pollfd> items = {{socket_.fd(), POLLIN, 0}};
      thread_.wait(items, interval);
      const auto now = Clock::now();
      const Clock::duration late =
          now - last - std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(2 * interval));
      if (late > Clock::duration::zero()) heard_ += late;  // this process itself did not run
      last = now;
      switch (read()) {
        case News::none:
          break;
        case News::beat:
          heard_ = now;
          break;
        case News::bye:
          return;
        case News::loss:
          return end();
      }
      if (const double silent = seconds_since(heard_); silent > options_.hang_timeout) {
        hub_.reason = fmt::format("no heartbeat for {:.1f} s", silent);
        return end();
      }
    }
  }

  /// At most one per turn; the hub's own heartbeats wake this thread about as often.
  void beat() {
    if (own_) send({.kind = ControlKind::beat, .rank = rank_, .state = own_->state(), .host = host_});
  }

  enum class News { none, beat, bye, loss };

  /// Handles the hub's messages; hub_ records a loss, whichever rank is lost.
  News read() {
    std::string bytes;
    const Socket::Arrival arrival = socket_.receive(bytes);
    if (arrival == Socket::Arrival::nothing) return News::none;
    try {
      stream_.append(bytes);
      while (const auto message = stream_.next()) {
        if (message->kind == ControlKind::bye) return News::bye;
        if (message->kind == ControlKind::beat) hub_.last = message->state;
        if (message->kind != ControlKind::loss) continue;
        hub_ = {message->rank, message->host, message->state, message->text};
        return News::loss;
      }
    } catch (const Error& e) {
      hub_.reason = e.what();
      return News::loss;
    }
    if (arrival == Socket::Arrival::bytes) return News::beat;
    hub_.reason = connection_closed(seconds_since(heard_));
    return News::loss;
  }

  void end() {
    // A hub that resumes after all must not mistake the others' leaving for their loss.
    if (hub_.rank == 0)
      send({.kind = ControlKind::loss, .rank = 0, .state = hub_.last, .host = hub_.host, .text = hub_.reason});
    options_.on_loss(hub_);
    options_.leave();
  }

  void send(const ControlMessage& message) {
    const std::lock_guard lock(mutex_);
    socket_.send(encode(message));
  }

  const int rank_;
  const std::string host_;
  const Heartbeat* own_;
  ControlOptions options_;
  Socket socket_;
  ControlStream stream_;
  Loss hub_;                 ///< last known state of rank 0
  Clock::time_point heard_;  ///< when that was
  std::mutex mutex_;         ///< of what is sent
  ControlThread thread_;
};

ControlClient::ControlClient(const std::vector<std::string>& addresses, const std::string& secret, int rank,
                             const std::string& host, const Heartbeat* own, ControlOptions options, double limit)
    : loop_(std::make_unique<Loop>(addresses, secret, rank, host, own, std::move(options), limit)) {}

ControlClient::~ControlClient() = default;

void ControlClient::request_stop(const StopRequest& request) { loop_->request_stop(request); }

}  // namespace trireme
