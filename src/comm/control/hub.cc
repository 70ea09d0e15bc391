#include <sys/socket.h>

#include <algorithm>
#include <list>
#include <map>
#include <mutex>
#include <set>

#include "base/error.h"
#include "base/log.h"
#include "comm/control/control.h"
#include "comm/control/lookout.h"
#include "comm/control/message.h"
#include "comm/control/secret.h"
#include "comm/control/socket.h"
#include "comm/control/thread.h"

namespace trireme {
namespace {

constexpr size_t kStrangers = 64;                 // connections without a hello; the oldest is closed first
constexpr double kHelloSeconds = 5;               // to send it
constexpr double kLastNewsSeconds = 0.5;          // for informing all others of a loss
constexpr int kReadsPerTurn = 16;                 // so that a flooding peer cannot block the others
constexpr size_t kMostPending = size_t{1} << 20;  // unread bytes of a slow reader
constexpr size_t kWitnesses = 8;                  // whom a rank asks that no longer hears the hub
constexpr double kLookoutGrace = 1;               // for the answers after a look

Clock::duration duration(double seconds) {
  return std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
}

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
  void report_trouble() {
    own_trouble_ = true;
    thread_.wake();
  }

 private:
  static constexpr int kStranger = -2;
  struct Connection {
    Socket socket;
    int rank = kStranger;
    Clock::time_point since = Clock::now();
    ControlStream stream;
    Outbox out;
    std::string nonce, witness;  ///< the challenge; where the rank's Witness is
    bool open = true;
  };
  /// All hosts try their connections to each other.
  struct Look {
    bool open = false;
    Clock::time_point begun;
    std::set<int> missing;  ///< ranks that have not said what they found
    std::map<int, Sighting> found;
  };

  void run() {
    auto last = Clock::now(), next_beat = last;
    while (!thread_.ending()) {
      wait();
      const auto now = Clock::now();
      const double late = std::chrono::duration<double>(now - last).count() - 2 * interval_;
      if (late > 0) liveness_.slept(duration(late));
      last = now;
      accept_new();
      std::optional<Loss> loss = read_all(now);
      liveness_.heard(0, own_.state(), now);
      if (!loss) loss = judge(now);
      if (loss) return end(*loss);
      for (Connection& c : connections_) flush(c);
      if (now < next_beat) continue;
      next_beat = now + duration(interval_);
      tell({.kind = ControlKind::beat, .rank = 0, .state = own_.state(), .host = host_});
      std::vector<PeerView> views = liveness_.views();
      const std::lock_guard lock(mutex_);
      views_ = std::move(views);
    }
  }

  void wait() {
    std::vector<pollfd> items = {{listener_.fd(), POLLIN, 0}};
    for (const Connection& c : connections_)
      items.push_back({c.socket.fd(), static_cast<short>(c.out.empty() ? POLLIN : POLLIN | POLLOUT), 0});
    thread_.wait(items, interval_);
  }

  /// What is known of the ranks, and what the hosts have found out about each other since it has been doubtful.
  std::optional<Loss> judge(Clock::time_point now) {
    Evidence evidence = liveness_.evidence(now);
    evidence.trouble = trouble_ = trouble_ || own_trouble_.exchange(false);
    const bool doubtful = trouble_ || liveness_.suspects(evidence);
    if (!doubtful && !look_.open) sightings_.reset();
    if (doubtful && !look_.open && (!sightings_ || now - look_.begun > duration(options_.hang_timeout / 2)))
      begin_look(now);
    take_own_sights();
    const bool over =
        look_.missing.empty() || now - look_.begun > duration(lookout_seconds(options_.hang_timeout) + kLookoutGrace);
    if (look_.open && over) end_look();
    if (!doubtful || !sightings_) return {};
    evidence.sightings = *sightings_;
    if (std::ranges::any_of(liveness_.views(), [](const PeerView& view) { return view.state.phase != Phase::start; }))
      evidence.never = never_;
    trouble_ = trouble_ && look_.open;
    return liveness_.judge(evidence);
  }

  void begin_look(Clock::time_point now) {
    look_ = {.open = true, .begun = now, .missing = {}, .found = {}};
    std::vector<LookoutTarget> targets;
    const std::vector<int> firsts = liveness_.first_of_hosts();
    for (const Connection& c : connections_) {
      if (c.rank > 0 && !c.witness.empty() && std::ranges::find(firsts, c.rank) != firsts.end())
        targets.push_back({c.rank, c.witness});
    }
    if (targets.empty()) return;
    for (Connection& c : connections_) {
      if (std::ranges::find(targets, c.rank, &LookoutTarget::rank) == targets.end()) continue;
      std::vector<LookoutTarget> others = targets;
      std::erase_if(others, [&](const LookoutTarget& target) { return target.rank == c.rank; });
      for (std::string& part : split_lines(to_lines(others), kLongestControlText))
        send(c, {.kind = ControlKind::probe, .rank = 0, .text = std::move(part)});
      send(c, {.kind = ControlKind::probe, .rank = 0});
      look_.missing.insert(c.rank);
    }
    look_.missing.insert(0);
    if (!lookout_.busy())
      lookout_.begin(std::move(targets), lookout_seconds(options_.hang_timeout), [this] { thread_.wake(); });
  }

  void take_own_sights() {
    const auto sights = lookout_.take();
    if (!sights || !look_.open) return;
    note(0, *sights);
    look_.missing.erase(0);
  }

  void note(int from, const std::vector<Sight>& sights) {
    Sighting& sighting = look_.found[from];
    sighting.from = from;
    for (const Sight& sight : sights) {
      if (sight.rank >= ranks_) continue;
      if (sight.answered) sighting.answered.push_back(sight.rank);
      if (!sight.failed.empty()) sighting.failed.emplace_back(sight.rank, sight.failed);
    }
  }

  void end_look() {
    look_.open = false;
    sightings_.emplace();
    for (auto& [from, sighting] : look_.found) sightings_->push_back(std::move(sighting));
    if (!first_look_) return;
    first_look_ = false;
    for (const Sighting& sighting : *sightings_) {
      for (const auto& [to, why] : sighting.failed) never_.insert({sighting.from, to});
    }
  }

  /// All ranks have joined: tells each whom it can ask when it no longer hears this one, and lets the hosts try their
  /// connections once: what fails now and does not keep the job from its first step is not evidence later.
  void complete(Clock::time_point now) {
    const std::vector<int> firsts = liveness_.first_of_hosts();
    const std::vector<PeerView> views = liveness_.views();
    const auto host_of = [&](int rank) { return views[static_cast<size_t>(rank)].host; };
    std::vector<LookoutTarget> all;
    for (const Connection& c : connections_) {
      if (c.rank > 0 && std::ranges::find(firsts, c.rank) != firsts.end()) all.push_back({c.rank, c.witness});
    }
    for (Connection& c : connections_) {
      if (c.rank <= 0) continue;
      std::vector<LookoutTarget> witnesses;
      for (const LookoutTarget& target : all) {
        if (witnesses.size() < kWitnesses && host_of(target.rank) != host_of(c.rank)) witnesses.push_back(target);
      }
      send(c, {.kind = ControlKind::witnesses, .rank = 0, .text = to_lines(witnesses)});
    }
    begin_look(now);
  }

  void accept_new() {
    for (int i = 0; i < kReadsPerTurn; ++i) {
      Socket socket = accept_from(listener_);
      if (!socket) break;
      Connection& c = connections_.emplace_back();
      c.socket = std::move(socket);
      c.nonce = random_secret();
      send(c, {.kind = ControlKind::challenge, .rank = 0, .text = c.nonce});
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
    if (reported_loss_) loss = reported_loss_;  // the rank that reported it has left because of it
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
    Handshake handshake = handshake_of(message);
    const auto own_secret = static_cast<size_t>(message.rank);
    handshake.secret =
        launcher || own_secret >= options_.rank_secrets.size() ? options_.secret : options_.rank_secrets[own_secret];
    handshake.server_nonce = c.nonce;
    c.open = message.kind == ControlKind::hello && (launcher || free_rank) &&
             proves(handshake, Side::client, proof_in(message));
    if (!c.open) return;
    c.rank = message.rank;
    if (message.other > 0) c.witness = with_port(peer_address(c.socket), message.other);
    send(c, {.kind = ControlKind::welcome,
             .rank = 0,
             .state = own_.state(),
             .host = host_,
             .text = proof_of(handshake, Side::server)});
    if (launcher) return;
    liveness_.join(message.rank, message.host, now);
    if (++ranks_joined_ == ranks_) complete(now);
  }

  void take(Connection& c, const ControlMessage& message, Clock::time_point now) {
    if (message.kind == ControlKind::beat && c.rank > 0) liveness_.heard(c.rank, message.state, now);
    if (message.kind == ControlKind::loss && !reported_loss_) reported_loss_ = loss_in(message);
    if (message.kind == ControlKind::trouble) trouble_ = true;
    if (message.kind == ControlKind::probed && look_.open && c.rank > 0) {
      note(c.rank, sights_in(message.text));
      if (message.text.empty()) look_.missing.erase(c.rank);
    }
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
    for (Connection& c : connections_) {
      if (c.rank == kStranger) continue;
      // A peer that reads nothing is judged by its own silence.
      if (message.kind == ControlKind::beat && !c.out.empty()) continue;
      send(c, message);
    }
  }

  static void send(Connection& c, const ControlMessage& message) {
    c.out.add(encode(message));
    flush(c);
  }

  /// A connection that fails is noticed where it is read, because a bye may be left there; one that takes nothing for
  /// long is closed.
  static void flush(Connection& c) {
    const bool sends = c.out.flush(c.socket);
    if (sends && c.out.size() <= kMostPending) return;
    if (sends) shutdown(c.socket.fd(), SHUT_RDWR);
    c.out = {};
  }

  void end(const Loss& loss) {
    tell(message_of(loss));
    options_.on_loss(loss);
    // Closing a socket with unread bytes can discard what was sent on it before the receiver reads it.
    std::erase_if(connections_, [&](const Connection& c) { return c.rank == kStranger || c.rank == loss.rank; });
    for (const auto start = Clock::now(); !connections_.empty() && seconds_since(start) < kLastNewsSeconds;) {
      std::vector<pollfd> items;
      for (Connection& c : connections_) {
        flush(c);
        if (c.out.empty()) shutdown(c.socket.fd(), SHUT_WR);
        items.push_back({c.socket.fd(), static_cast<short>(c.out.empty() ? POLLIN : POLLIN | POLLOUT), 0});
      }
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
  int ranks_joined_ = 1;               ///< so far, those that have left again, too
  std::optional<Loss> reported_loss_;  ///< a client reported it
  Look look_;
  bool first_look_ = true, trouble_ = false;
  std::optional<std::vector<Sighting>> sightings_;  ///< of the last look since it has been doubtful
  std::set<std::pair<int, int>> never_;             ///< failed in the first look
  std::atomic<bool> own_trouble_ = false;
  mutable std::mutex mutex_;  ///< guards stop_ and views_
  std::optional<StopRequest> stop_;
  std::vector<PeerView> views_;
  std::once_flag dismissed_;
  ControlThread thread_;
  Lookout lookout_;  ///< wakes the thread
};

ControlHub::ControlHub(int ranks, const std::string& host, const Heartbeat& own, ControlOptions options)
    : loop_(std::make_unique<Loop>(ranks, host, own, std::move(options))) {}

ControlHub::~ControlHub() = default;

void ControlHub::dismiss() { loop_->dismiss(); }
const std::string& ControlHub::secret() const { return loop_->secret(); }
std::vector<std::string> ControlHub::addresses() const { return loop_->addresses(); }
std::optional<StopRequest> ControlHub::stop_request() const { return loop_->stop_request(); }
std::vector<PeerView> ControlHub::views() const { return loop_->views(); }
void ControlHub::report_trouble() { loop_->report_trouble(); }

}  // namespace trireme
