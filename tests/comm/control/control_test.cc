// The control channel between hubs and clients of one process, and connections without the secret.

#include "comm/control/control.h"

#include <gmock/gmock.h>
#include <sys/socket.h>

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <utility>

#include "comm/control/lookout.h"
#include "comm/control/message.h"
#include "comm/control/secret.h"
#include "comm/control/socket.h"
#include "tests/support/expect_error.h"

namespace trireme {
namespace {

using ::testing::HasSubstr;

/// Notifications of one end.
class Ending {
 public:
  ControlOptions options(double timeout = 10, const std::string& secret = "") {
    ControlOptions options;
    options.hang_timeout = timeout;
    options.secret = secret;
    options.on_loss = [this](const Loss& loss) {
      const std::lock_guard lock(mutex_);
      loss_ = loss;
    };
    options.leave = [this] {
      const std::lock_guard lock(mutex_);
      left_ = true;
      changed_.notify_all();
    };
    return options;
  }
  /// The loss after which this end left; empty if it did not within the limit.
  std::optional<Loss> wait(double limit_seconds = 20) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, std::chrono::duration<double>(limit_seconds), [&] { return left_; });
    return left_ ? loss_ : std::nullopt;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<Loss> loss_;
  bool left_ = false;
};

class Control : public ::testing::Test {
 protected:
  std::unique_ptr<ControlClient> client(const ControlHub& hub, int rank, Ending& ending, const Heartbeat& progress,
                                        double timeout = 10) {
    return std::make_unique<ControlClient>(hub.addresses(), hub.secret(), rank, "node" + std::to_string(rank),
                                           &progress, ending.options(timeout));
  }
  /// A connection like a rank's, without a rank.
  static Socket knock(const ControlHub& hub, int rank, const std::string& secret, int witness = -1) {
    std::string why;
    Socket socket = connect_to(hub.addresses()[0], 5, why);
    EXPECT_TRUE(socket) << why;
    const auto challenge = receive(socket);
    EXPECT_TRUE(challenge && challenge->kind == ControlKind::challenge);
    socket.send(hello(rank, secret, challenge ? challenge->text : "", witness));
    return socket;
  }
  static std::string hello(int rank, const std::string& secret, const std::string& nonce, int witness) {
    ControlMessage message;
    message.kind = ControlKind::hello;
    message.rank = rank;
    message.other = witness;
    message.host = "node" + std::to_string(rank);
    message.text = random_secret();
    Handshake handshake = handshake_of(message);
    handshake.secret = secret;
    handshake.server_nonce = nonce;
    message.text = hello_text(handshake.client_nonce, proof_of(handshake, Side::client));
    return encode(message);
  }
  /// The next message; empty if the connection is closed instead.
  static std::optional<ControlMessage> receive(const Socket& socket) {
    ControlStream stream;
    for (std::string bytes; socket.wait(20); bytes.clear()) {
      if (socket.receive(bytes) == Socket::Arrival::closed) return {};
      stream.append(bytes);
      if (auto message = stream.next()) return message;
    }
    ADD_FAILURE() << "no answer";
    return {};
  }
  static std::optional<ControlKind> answer(const Socket& socket) {
    const auto message = receive(socket);
    return message ? std::optional(message->kind) : std::nullopt;
  }
  Heartbeat heartbeat_;
  Ending hub_ending_, first_, second_;
};

TEST_F(Control, ADismissedHubIsNotALoss) {
  Ending of_hub, of_client;
  const Heartbeat own, other;
  auto hub = std::make_unique<ControlHub>(2, "node0", own, of_hub.options());
  const auto one = client(*hub, 1, of_client, other);
  hub->dismiss();
  hub->dismiss();
  hub.reset();
  EXPECT_FALSE(of_client.wait(0.5));
  EXPECT_FALSE(of_hub.wait(0));
}

TEST_F(Control, ADeadRankIsNamedToAllOthersImmediatelyWithWhatItWaitedFor) {
  ControlHub hub(3, "node0", heartbeat_, hub_ending_.options());
  const auto survivor = client(hub, 1, first_, heartbeat_);
  Socket dying = knock(hub, 2, hub.secret());
  ASSERT_EQ(answer(dying), ControlKind::welcome);
  ControlMessage beat;
  beat.state.phase = Phase::step;
  beat.state.step = 41;
  beat.state.collective = "the sum of gradients";
  dying.send(encode(beat));
  const auto start = Clock::now();
  dying = Socket();
  for (Ending* ending : {&hub_ending_, &first_}) {
    const auto loss = ending->wait();
    ASSERT_TRUE(loss);
    EXPECT_EQ(loss->rank, 2);
    EXPECT_EQ(loss->host, "node2");
    EXPECT_THAT(describe(*loss),
                ::testing::ContainsRegex("its connection closed [0-9.]+ s after its last heartbeat\\) in step 42, "
                                         "waiting for the sum of gradients"));
  }
  EXPECT_LT(seconds_since(start), 5) << "far below the 10 s of a silent heartbeat";
}

TEST_F(Control, ASilentRankIsGivenUpAfterTheTimeout) {
  ControlHub hub(2, "node0", heartbeat_, hub_ending_.options(1));
  const Socket silent = knock(hub, 1, hub.secret());
  const auto loss = hub_ending_.wait();
  ASSERT_TRUE(loss);
  EXPECT_EQ(loss->rank, 1);
  EXPECT_THAT(loss->reason, HasSubstr("no heartbeat for 1."));
}

TEST_F(Control, AHubThatDiesIsNamedByEveryClient) {
  // A listener that welcomes and then closes replaces rank 0.
  Socket listener = listen_on_free_port(true);
  const auto addresses = addresses_of(listener, true, "");
  std::thread hub([&] {
    listener.wait(20);
    Socket connection = accept_from(listener);
    connection.send(encode({.kind = ControlKind::challenge, .text = "nonce"}));
    const auto message = receive(connection);
    ASSERT_TRUE(message);
    Handshake handshake = handshake_of(*message);
    handshake.secret = "secret";
    handshake.server_nonce = "nonce";
    connection.send(encode({.kind = ControlKind::welcome, .host = "node0", .text = proof_of(handshake, Side::server)}));
  });
  ControlClient client(addresses, "secret", 1, "node1", &heartbeat_, first_.options());
  hub.join();
  const auto loss = first_.wait();
  ASSERT_TRUE(loss);
  EXPECT_EQ(loss->rank, 0);
  EXPECT_EQ(loss->host, "node0");
}

TEST_F(Control, WhoLeavesInOrderIsNotLost) {
  auto hub = std::make_unique<ControlHub>(3, "node0", heartbeat_, hub_ending_.options(1));
  auto one = client(*hub, 1, first_, heartbeat_, 1);
  const auto two = client(*hub, 2, second_, heartbeat_, 1);
  one.reset();
  EXPECT_FALSE(hub_ending_.wait(2)) << "rank 1 said bye";
  hub.reset();
  const auto loss = second_.wait(2);
  EXPECT_FALSE(loss) << "the hub said bye, but " << describe(*loss);
}

TEST_F(Control, ALauncherStopsTheJobAndLearnsOfLosses) {
  ControlHub hub(2, "node0", heartbeat_, hub_ending_.options());
  Ending launcher_ending;
  ControlClient launcher(hub.addresses(), hub.secret(), ControlClient::kLauncher, "login", nullptr,
                         launcher_ending.options());
  Socket rank = knock(hub, 1, hub.secret());
  ASSERT_EQ(answer(rank), ControlKind::welcome);
  EXPECT_EQ(hub.stop_request(), std::nullopt);
  launcher.request_stop({.why = "trireme launch"});
  for (const auto start = Clock::now(); !hub.stop_request() && seconds_since(start) < 20;) std::this_thread::yield();
  EXPECT_EQ(hub.stop_request(), (StopRequest{.why = "trireme launch", .stays_stopped = false}));
  rank = Socket();
  const auto loss = launcher_ending.wait();
  ASSERT_TRUE(loss);
  EXPECT_EQ(loss->rank, 1);
}

TEST_F(Control, StrangersAreRefused) {
  ControlHub hub(2, "node0", heartbeat_, hub_ending_.options());
  EXPECT_EQ(answer(knock(hub, 1, "guessed")), std::nullopt);
  EXPECT_EQ(answer(knock(hub, 1, "")), std::nullopt);
  EXPECT_EQ(answer(knock(hub, 0, hub.secret())), std::nullopt) << "the hub's own rank";
  EXPECT_EQ(answer(knock(hub, 2, hub.secret())), std::nullopt) << "no rank of this job";
  const Socket member = knock(hub, 1, hub.secret());
  EXPECT_EQ(answer(member), ControlKind::welcome);
  EXPECT_EQ(answer(knock(hub, 1, hub.secret())), std::nullopt) << "rank 1 is there already";
  std::string why;
  const Socket garbage = connect_to(hub.addresses()[0], 5, why);
  garbage.send("GET / HTTP/1.1\r\n\r\n");
  EXPECT_EQ(answer(garbage), ControlKind::challenge);
  EXPECT_EQ(answer(garbage), std::nullopt);
  EXPECT_FALSE(hub_ending_.wait(0)) << "none of that concerned a rank";
}

/// Passes bytes on between a client and the hub, and keeps them.
class Eavesdropper {
 public:
  explicit Eavesdropper(std::string hub) : hub_(std::move(hub)), listener_(listen_on_free_port(true)) {
    thread_ = std::thread([this] { run(); });
  }
  ~Eavesdropper() {
    ends_ = true;
    thread_.join();
  }
  std::vector<std::string> addresses() const { return addresses_of(listener_, true, ""); }
  /// What the client, and what the hub sent so far.
  std::pair<std::string, std::string> heard() const {
    const std::lock_guard lock(mutex_);
    return {up_, down_};
  }

 private:
  void run() {
    Socket client, hub;
    std::string why;
    while (!ends_) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      if (!client) {
        client = accept_from(listener_);
        if (client) hub = connect_to(hub_, 5, why);
        continue;
      }
      std::string up, down;
      client.receive(up);
      hub.receive(down);
      hub.send(up);
      client.send(down);
      const std::lock_guard lock(mutex_);
      up_ += up;
      down_ += down;
    }
  }

  const std::string hub_;
  Socket listener_;
  mutable std::mutex mutex_;
  std::string up_, down_;
  std::atomic<bool> ends_ = false;
  std::thread thread_;
};

TEST_F(Control, WhoListensGetsNoSecretAndCannotReplayWhatWasSent) {
  ControlHub hub(2, "node0", heartbeat_, hub_ending_.options());
  Eavesdropper ear(hub.addresses()[0]);
  {
    ControlClient launcher(ear.addresses(), hub.secret(), ControlClient::kLauncher, "login", nullptr, first_.options());
    launcher.request_stop({.why = "heard"});
    for (const auto start = Clock::now(); !hub.stop_request() && seconds_since(start) < 20;) std::this_thread::yield();
  }
  ASSERT_TRUE(hub.stop_request());
  const auto [up, down] = ear.heard();
  EXPECT_THAT(up, HasSubstr("heard")) << "the request itself was heard";
  EXPECT_THAT(up + down, ::testing::Not(HasSubstr(hub.secret())));

  ControlHub again(2, "node0", heartbeat_, second_.options(10, hub.secret()));
  std::string why;
  const Socket replayed = connect_to(again.addresses()[0], 5, why);
  replayed.send(up);
  EXPECT_EQ(answer(replayed), ControlKind::challenge);
  EXPECT_EQ(answer(replayed), std::nullopt) << "the proof is of another challenge";
  EXPECT_FALSE(again.stop_request());
}

TEST_F(Control, AClientDoesNotBelieveAHubThatDoesNotKnowTheSecret) {
  ControlHub impostor(2, "node0", heartbeat_, hub_ending_.options(10, std::string(64, '0')));
  EXPECT_ERROR(ControlClient(impostor.addresses(), "secret", 1, "node1", &heartbeat_, first_.options(), 0),
               ErrorKind::comm, "it does not accept this job's secret");
}

TEST_F(Control, RanksThatAgreedOnKeysNeedTheirOwn) {
  ControlOptions options = hub_ending_.options();
  options.rank_secrets = {"zero", "one", "two"};
  ControlHub hub(3, "node0", heartbeat_, options);
  EXPECT_EQ(answer(knock(hub, 1, "two")), std::nullopt);
  EXPECT_EQ(answer(knock(hub, 1, hub.secret())), std::nullopt);
  const Socket one = knock(hub, 1, "one");
  EXPECT_EQ(answer(one), ControlKind::welcome);
  const Socket launcher = knock(hub, ControlClient::kLauncher, hub.secret());
  EXPECT_EQ(answer(launcher), ControlKind::welcome);
}

TEST(OutboxTest, KeepsWhatTheSystemDoesNotTake) {
  const Socket listener = listen_on_free_port(true);
  std::string why;
  const Socket writer = connect_to(addresses_of(listener, true, "")[0], 5, why);
  ASSERT_TRUE(listener.wait(5));
  Socket reader = accept_from(listener);
  Outbox out;
  const std::string message = encode({.kind = ControlKind::beat, .text = std::string(1000, 'x')});
  int sent = 0;
  for (; out.empty() && sent < 100'000; ++sent) {  // until the system's buffers are full, in the middle of a message
    out.add(message);
    ASSERT_TRUE(out.flush(writer));
  }
  ASSERT_FALSE(out.empty());
  ControlStream stream;
  int arrived = 0;
  for (const auto start = Clock::now(); arrived < sent && seconds_since(start) < 20;) {
    std::string bytes;
    reader.receive(bytes);
    stream.append(bytes);
    while (stream.next()) ++arrived;
    ASSERT_TRUE(out.flush(writer));
  }
  EXPECT_EQ(arrived, sent);
  reader = Socket();
  bool failed = false;
  for (int i = 0; i < 1000 && !failed; ++i) {
    out.add(message);
    failed = !out.flush(writer);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_TRUE(failed) << "the other end is closed";
}

TEST_F(Control, TwoHostsThatCannotReachEachOtherAreNamedToAll) {
  Heartbeat waiting;
  const Waiting forever(&waiting, "the sum of gradients", 0);
  ControlHub hub(3, "node0", waiting, hub_ending_.options(1));
  const auto one = client(hub, 1, first_, waiting, 1);
  const Witness witness(true);
  const Socket two = knock(hub, 2, hub.secret(), witness.port());
  std::atomic<bool> over = false;
  std::thread rank([&] {  // as rank 2, which others reach but which does not reach rank 1
    const std::string beat = encode({.kind = ControlKind::beat, .rank = 2, .state = waiting.state(), .host = "node2"});
    ControlStream stream;
    while (!over) {
      witness.answer(0);
      two.send(beat);
      std::string bytes;
      if (two.receive(bytes) == Socket::Arrival::bytes) stream.append(bytes);
      while (const auto message = stream.next()) {
        if (message->kind != ControlKind::probe || !message->text.empty()) continue;
        two.send(encode({.kind = ControlKind::probed, .rank = 2, .text = "1 f No route to host\n"}));
        two.send(encode({.kind = ControlKind::probed, .rank = 2}));
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
  });
  for (Ending* ending : {&hub_ending_, &first_}) {
    const auto loss = ending->wait();
    EXPECT_TRUE(loss);
    if (!loss) continue;
    EXPECT_EQ(std::pair(loss->rank, loss->other), std::pair(2, 1));
    EXPECT_THAT(describe(*loss), HasSubstr("rank 2 on node2 and rank 1 on node1 cannot reach each other (node2 cannot "
                                           "reach node1: No route to host) in start-up after step 0, waiting for "));
  }
  over = true;
  rank.join();
}

TEST_F(Control, NobodyIsNamedIfAllWaitAndAllHostsAreReached) {
  Heartbeat waiting;
  waiting.enter(Phase::step);
  const Waiting forever(&waiting, "the sum of gradients", 0);
  ControlHub hub(3, "node0", waiting, hub_ending_.options(1));
  const auto one = client(hub, 1, first_, waiting, 1), two = client(hub, 2, second_, waiting, 1);
  for (Ending* ending : {&hub_ending_, &first_, &second_}) {
    const auto loss = ending->wait();
    ASSERT_TRUE(loss);
    EXPECT_EQ(loss->rank, -1);
    EXPECT_THAT(describe(*loss), HasSubstr("no rank can be blamed: no rank has made progress for "));
  }
}

TEST_F(Control, TroubleOfARankLetsTheHostsTryTheirConnectionsAtOnce) {
  Heartbeat waiting;
  const Waiting forever(&waiting, "the reason", 0);
  ControlHub hub(3, "node0", waiting, hub_ending_.options(60));
  const auto one = client(hub, 1, first_, waiting, 60);
  const Witness witness(true);
  const Socket two = knock(hub, 2, hub.secret(), witness.port());
  const auto start = Clock::now();
  one->report_trouble();
  ControlStream stream;
  int begun = 0;
  while (begun == 0 && seconds_since(start) < 20) {
    std::string bytes;
    if (two.wait(0.1) && two.receive(bytes) == Socket::Arrival::bytes) stream.append(bytes);
    while (const auto message = stream.next()) begun += message->kind == ControlKind::probe && message->text.empty();
  }
  EXPECT_GE(begun, 1);
  two.send(encode({.kind = ControlKind::probed, .rank = 2, .text = "1 f Connection timed out\n"}));
  two.send(encode({.kind = ControlKind::probed, .rank = 2}));
  const auto loss = first_.wait();
  ASSERT_TRUE(loss);
  EXPECT_EQ(std::pair(loss->rank, loss->other), std::pair(2, 1));
  EXPECT_LT(seconds_since(start), 15) << "far below the 60 s of a silent heartbeat";
}

TEST_F(Control, AClientThatNoLongerHearsTheHubAsksOthersWhetherTheyDo) {
  for (const bool heard : {true, false}) {
    Ending ending;
    Socket listener = listen_on_free_port(true);
    const Witness witness(true);
    std::atomic<bool> over = false;
    std::thread hub([&] {
      listener.wait(20);
      const Socket connection = accept_from(listener);
      connection.send(encode({.kind = ControlKind::challenge, .text = "nonce"}));
      const auto message = receive(connection);
      if (!message) return;
      Handshake handshake = handshake_of(*message);
      handshake.secret = "secret";
      handshake.server_nonce = "nonce";
      connection.send(
          encode({.kind = ControlKind::welcome, .host = "node0", .text = proof_of(handshake, Side::server)}));
      const std::vector<LookoutTarget> targets = {{2, with_port("127.0.0.1", witness.port())}};
      connection.send(encode({.kind = ControlKind::witnesses, .rank = 0, .text = to_lines(targets)}));
      const auto start = Clock::now();
      while (!over) {
        witness.answer(heard ? 0.1 : seconds_since(start));
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
      }
    });
    const ControlClient client(addresses_of(listener, true, ""), "secret", 1, "node1", &heartbeat_, ending.options(1));
    const auto loss = ending.wait();
    over = true;
    hub.join();
    ASSERT_TRUE(loss);
    EXPECT_EQ(std::pair(loss->rank, loss->other), heard ? std::pair(1, 0) : std::pair(0, -1));
    EXPECT_EQ(loss->host, heard ? "node1" : "node0");
  }
}

TEST_F(Control, AFloodOfStrangersDoesNotBlockOthers) {
  ControlHub hub(3, "node0", heartbeat_, hub_ending_.options());
  const auto before = client(hub, 1, first_, heartbeat_);
  std::vector<Socket> flood;
  for (int i = 0; i < 500; ++i) {
    std::string why;
    flood.push_back(connect_to(hub.addresses()[0], 5, why));
    ASSERT_TRUE(flood.back()) << why;
    if (i % 2 == 0) flood.back().send(std::string(4096, 'x'));
  }
  const auto during = client(hub, 2, second_, heartbeat_);
  EXPECT_FALSE(hub_ending_.wait(1));
  EXPECT_FALSE(first_.wait(0));
  EXPECT_FALSE(second_.wait(0));
}

TEST_F(Control, AnUnreachableHubIsAnErrorWithTheReasonOfEachAddress) {
  EXPECT_ERROR(ControlClient({"127.0.0.1:1", "nowhere"}, "s", 3, "node3", &heartbeat_, first_.options(), 0),
               ErrorKind::comm,
               "rank 3 on node3 cannot reach rank 0's control channel at 127.0.0.1:1 (Connection refused), nowhere "
               "(\"nowhere\" is not an address");
  ControlHub hub(2, "node0", heartbeat_, hub_ending_.options());
  EXPECT_ERROR(ControlClient(hub.addresses(), "guessed", 1, "node1", &heartbeat_, first_.options(), 0), ErrorKind::comm,
               "it does not accept this job's secret");
}

TEST_F(Control, AnInterfaceThatIsNotThereIsAnErrorWithThoseThatAre) {
  ControlOptions options = hub_ending_.options();
  options.one_host = false;
  options.interface = "none0";
  EXPECT_ERROR(ControlHub(2, "node0", heartbeat_, options), ErrorKind::config,
               "comm.interface: interface \"none0\" is missing or has no address on this host; it has ");
  options.interface = "lo";
  const ControlHub hub(2, "node0", heartbeat_, options);
  EXPECT_THAT(hub.addresses().at(0), ::testing::StartsWith("127.0.0.1:"));
  const auto joined = client(hub, 1, first_, heartbeat_);
}

TEST_F(Control, AGroupOfOneHasAHubForItsLauncher) {
  const auto group = make_single();
  Scalars scalars(*group);
  const ControlChannel channel(scalars, "node0", heartbeat_, hub_ending_.options(10, "of-the-launcher"));
  ControlClient launcher(channel.addresses(), "of-the-launcher", ControlClient::kLauncher, "login", nullptr,
                         first_.options());
  launcher.request_stop({.why = "why", .stays_stopped = true});
  for (const auto start = Clock::now(); !channel.stop_request() && seconds_since(start) < 20;)
    std::this_thread::yield();
  EXPECT_EQ(channel.stop_request(), (StopRequest{.why = "why", .stays_stopped = true}));
}

}  // namespace
}  // namespace trireme
