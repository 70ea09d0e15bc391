// The control channel between hubs and clients of one process, and connections without the secret.

#include "comm/control/control.h"

#include <gmock/gmock.h>
#include <sys/socket.h>

#include <condition_variable>
#include <mutex>

#include "comm/control/message.h"
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
  static Socket knock(const ControlHub& hub, int rank, const std::string& secret) {
    std::string why;
    Socket socket = connect_to(hub.addresses()[0], 5, why);
    EXPECT_TRUE(socket) << why;
    ControlMessage hello;
    hello.kind = ControlKind::hello;
    hello.rank = rank;
    hello.host = "node" + std::to_string(rank);
    hello.text = secret;
    socket.send(encode(hello));
    return socket;
  }
  /// The kind of the first message; empty if the connection is closed instead.
  static std::optional<ControlKind> answer(const Socket& socket) {
    ControlStream stream;
    for (std::string bytes; socket.wait(20); bytes.clear()) {
      if (socket.receive(bytes) == Socket::Arrival::closed) return {};
      stream.append(bytes);
      if (const auto message = stream.next()) return message->kind;
    }
    ADD_FAILURE() << "no answer";
    return {};
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
    connection.wait(20);
    ControlMessage welcome;
    welcome.kind = ControlKind::welcome;
    welcome.host = "node0";
    connection.send(encode(welcome));
    std::string hello;
    connection.receive(hello);
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
  EXPECT_FALSE(second_.wait(2)) << "the hub said bye";
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
  EXPECT_EQ(answer(garbage), std::nullopt);
  EXPECT_FALSE(hub_ending_.wait(0)) << "none of that concerned a rank";
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
