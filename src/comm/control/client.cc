#include <fmt/ranges.h>
#include <sys/socket.h>

#include <algorithm>
#include <iterator>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "base/error.h"
#include "comm/control/control.h"
#include "comm/control/lookout.h"
#include "comm/control/message.h"
#include "comm/control/socket.h"
#include "comm/control/thread.h"

namespace trireme {
namespace {

constexpr double kTrySeconds = 2;         // for one address
constexpr double kHubSeconds = 2;         // more than the hub needs to end a job
constexpr double kLastNewsSeconds = 0.5;  // for what is not sent yet at the end

/// The hub's next message within the limit.
std::optional<ControlMessage> next_message(const Socket& socket, ControlStream& stream, bool& closed) {
  for (const auto start = Clock::now(); seconds_since(start) < kTrySeconds;) {
    if (auto message = stream.next()) return message;
    if (closed || !socket.wait(kTrySeconds)) return {};
    std::string bytes;
    closed = socket.receive(bytes) == Socket::Arrival::closed;
    stream.append(bytes);
  }
  return {};
}

/// Proves to the hub that this end knows the secret, and waits for its proof; hub_host becomes the hub's. Returns an
/// empty socket and the reason if that fails.
Socket greet(const std::string& address, const std::string& secret, ControlMessage hello, ControlStream& stream,
             std::string& hub_host, std::string& why) {
  Socket socket = connect_to(address, kTrySeconds, why);
  if (!socket) return {};
  why = "it accepts connections but does not answer";
  bool closed = false;
  const auto challenge = next_message(socket, stream, closed);
  if (!challenge || challenge->kind != ControlKind::challenge) return {};
  hello.text = random_secret();
  Handshake handshake = handshake_of(hello);
  handshake.secret = secret;
  handshake.server_nonce = challenge->text;
  hello.text = hello_text(handshake.client_nonce, proof_of(handshake, Side::client));
  const std::string bytes = encode(hello);
  if (socket.send(bytes) != static_cast<ssize_t>(bytes.size())) return {};
  const auto welcome = next_message(socket, stream, closed);
  if (closed) why = "it does not accept this job's secret";
  if (!welcome || welcome->kind != ControlKind::welcome) return {};
  why = "it does not know this job's secret";
  hub_host = welcome->host;
  return proves(handshake, Side::server, welcome->text) ? std::move(socket) : Socket();
}

}  // namespace

class ControlClient::Loop {
 public:
  Loop(const std::vector<std::string>& addresses, const std::string& secret, int rank, const std::string& host,
       const Heartbeat* own, ControlOptions options, double limit)
      : rank_(rank), host_(host), own_(own), options_(std::move(options)) {
    if (own_) witness_.emplace(options_.one_host);
    connect(addresses, secret, limit);
    thread_.start(own_ ? &own_->cpu() : nullptr, [this] { run(); });
  }
  ~Loop() {
    thread_.stop();
    send({.kind = ControlKind::bye, .rank = rank_, .host = host_});
    const std::lock_guard lock(mutex_);
    for (const auto start = Clock::now(); !out_.empty() && seconds_since(start) < kLastNewsSeconds;) {
      pollfd item{socket_.fd(), POLLOUT, 0};
      if (poll(&item, 1, 100) < 0 || !out_.flush(socket_)) break;
    }
    // Unread bytes at the close could discard the bye before the hub reads it.
    shutdown(socket_.fd(), SHUT_WR);
    std::string ignored;
    while (socket_.receive(ignored) == Socket::Arrival::bytes) {
    }
  }

  void report_trouble() { send({.kind = ControlKind::trouble, .rank = rank_, .host = host_}); }

  void request_stop(const StopRequest& request) {
    const ControlKind kind = request.stays_stopped ? ControlKind::stop_for_good : ControlKind::stop;
    send({.kind = kind, .rank = rank_, .host = host_, .text = request.why});
  }

 private:
  void connect(const std::vector<std::string>& addresses, const std::string& secret, double limit) {
    const ControlMessage hello = {
        .kind = ControlKind::hello, .rank = rank_, .other = witness_ ? witness_->port() : -1, .host = host_};
    const auto start = Clock::now();
    std::vector<std::string> reasons(addresses.size());
    while (true) {
      for (size_t i = 0; i < addresses.size(); ++i) {
        stream_ = {};
        try {
          socket_ = greet(addresses[i], secret, hello, stream_, hub_.host, reasons[i]);
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
      std::vector<pollfd> items = {{socket_.fd(), has_pending() ? short{POLLIN | POLLOUT} : short{POLLIN}, 0}};
      if (witness_) items.push_back({witness_->fd(), POLLIN, 0});
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
      const double silent = seconds_since(heard_);
      if (witness_) witness_->answer(silent);
      report_sights(silent);
      if (silent > options_.hang_timeout && !lookout_.busy() && blame_hub(silent)) return end();
    }
  }

  /// Passes on what the hub has asked for, and asks others when the hub has not been heard for half of the timeout.
  void report_sights(double silent) {
    const bool is_silent = own_ && silent > options_.hang_timeout / 2;
    if (auto sights = lookout_.take()) {
      if (!asks_about_hub_) {
        for (std::string& part : split_lines(to_lines(*sights), kLongestControlText))
          send({.kind = ControlKind::probed, .rank = rank_, .text = std::move(part)});
        send({.kind = ControlKind::probed, .rank = rank_});
      } else {
        sights_ = std::move(sights);
      }
    }
    if (!is_silent) sights_.reset();
    if (!is_silent || sights_ || witnesses_.empty() || lookout_.busy()) return;
    asks_about_hub_ = true;
    silent_when_asked_ = silent;
    lookout_.begin(witnesses_, lookout_seconds(options_.hang_timeout), [this] { thread_.wake(); });
  }

  /// False: not yet. If only the connection to the hub is lost, the hub ends the job: to leave before would look like
  /// the loss of this rank to those who do not hear why.
  bool blame_hub(double silent) {
    std::vector<WitnessReport> reports;
    for (const Sight& sight : sights_.value_or(std::vector<Sight>()))
      reports.push_back({sight.answered.has_value(), sight.answered.value_or(0)});
    Blame found = blame_for_silent_hub(rank_, silent, silent_when_asked_, reports);
    if (found.other == 0 && silent < options_.hang_timeout + lookout_seconds(options_.hang_timeout) + kHubSeconds)
      return false;
    if (found.rank != 0) {
      hub_ = {.rank = rank_,
              .host = host_,
              .last = own_->state(),
              .other = found.other,
              .other_host = found.other == 0 ? hub_.host : ""};
    }
    hub_.reason = std::move(found.reason);
    return true;
  }

  /// The hub's messages about other hosts.
  void take(const ControlMessage& message) {
    if (message.kind == ControlKind::witnesses) witnesses_ = targets_in(message.text);
    if (message.kind != ControlKind::probe) return;
    std::ranges::move(targets_in(message.text), std::back_inserter(targets_));
    if (!message.text.empty()) return;
    std::vector<LookoutTarget> targets = std::exchange(targets_, {});
    if (lookout_.busy()) return;
    asks_about_hub_ = false;
    lookout_.begin(std::move(targets), lookout_seconds(options_.hang_timeout), [this] { thread_.wake(); });
  }

  /// At most one per turn; the hub's own heartbeats wake this thread about as often.
  void beat() {
    if (own_ && !has_pending()) send({.kind = ControlKind::beat, .rank = rank_, .state = own_->state(), .host = host_});
  }

  enum class News { none, beat, bye, loss };

  /// Handles the hub's messages; hub_ records a loss, whichever rank is lost.
  News read() {
    std::string bytes;
    const Socket::Arrival arrival = socket_.receive(bytes);
    try {
      stream_.append(bytes);
      while (const auto message = stream_.next()) {
        if (message->kind == ControlKind::bye) return News::bye;
        if (message->kind == ControlKind::beat) hub_.last = message->state;
        take(*message);
        if (message->kind != ControlKind::loss) continue;
        hub_ = loss_in(*message);
        return News::loss;
      }
    } catch (const Error& e) {
      hub_.reason = e.what();
      return News::loss;
    }
    if (arrival == Socket::Arrival::nothing) return News::none;
    if (arrival == Socket::Arrival::bytes) return News::beat;
    hub_.reason = connection_closed(seconds_since(heard_));
    hub_.ended = true;
    return News::loss;
  }

  void end() {
    // A hub that resumes after all must not mistake the others' leaving for their loss.
    if (hub_.rank == 0) send(message_of(hub_));
    options_.on_loss(hub_);
    options_.leave();
  }

  /// A connection that fails is noticed where it is read.
  void send(const ControlMessage& message) {
    const std::lock_guard lock(mutex_);
    out_.add(encode(message));
    out_.flush(socket_);
  }

  /// After it has sent what the system takes now.
  bool has_pending() {
    const std::lock_guard lock(mutex_);
    out_.flush(socket_);
    return !out_.empty();
  }

  const int rank_;
  const std::string host_;
  const Heartbeat* own_;
  ControlOptions options_;
  Socket socket_;
  ControlStream stream_;
  Loss hub_;                 ///< last known state of rank 0; at the end, who is lost
  Clock::time_point heard_;  ///< when that was
  std::optional<Witness> witness_;
  std::vector<LookoutTarget> witnesses_, targets_;  ///< whom to ask about the hub; whom the hub asks for
  std::optional<std::vector<Sight>> sights_;        ///< of the witnesses, since the hub has been silent
  bool asks_about_hub_ = false;
  double silent_when_asked_ = 0;  ///< seconds since the hub was heard then
  std::mutex mutex_;              ///< of what is sent
  Outbox out_;
  ControlThread thread_;
  Lookout lookout_;  ///< wakes the thread
};

ControlClient::ControlClient(const std::vector<std::string>& addresses, const std::string& secret, int rank,
                             const std::string& host, const Heartbeat* own, ControlOptions options, double limit)
    : loop_(std::make_unique<Loop>(addresses, secret, rank, host, own, std::move(options), limit)) {}

ControlClient::~ControlClient() = default;

void ControlClient::request_stop(const StopRequest& request) { loop_->request_stop(request); }
void ControlClient::report_trouble() { loop_->report_trouble(); }

}  // namespace trireme
