#include "cluster/launch/agent_channel.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/socket.h>

#include <atomic>
#include <functional>
#include <thread>

#include "base/error.h"
#include "base/time.h"
#include "tests/support/expect_error.h"
#include "tests/support/https_server.h"

namespace trireme::launch {
namespace {

using Greeting = AgentChannel::Greeting;
using Side = AgentChannel::Side;

const std::string kSecret = "0123456789abcdef0123456789abcdef";

std::pair<Socket, Socket> socket_pair() {
  int ends[2];
  EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends), 0);
  return {Socket(ends[0]), Socket(ends[1])};
}

TEST(AgentFrames, AreCutWhereverTheBytesAre) {
  const std::string large(1 << 20, 'x');
  const std::string bytes =
      encode(FrameKind::hello, "trireme") + encode(FrameKind::input, "") + encode(FrameKind::output, large);
  for (const size_t piece : {size_t{1}, size_t{5}, size_t{7}, bytes.size()}) {
    FrameReader reader;
    std::vector<Frame> frames;
    for (size_t at = 0; at < bytes.size(); at += piece) {
      reader.append(std::string_view(bytes).substr(at, piece));
      while (auto frame = reader.next()) frames.push_back(std::move(*frame));
    }
    ASSERT_EQ(frames.size(), 3u);
    EXPECT_EQ(frames[0].bytes, "trireme");
    EXPECT_TRUE(frames[1].kind == FrameKind::input && frames[1].bytes.empty());
    EXPECT_EQ(frames[2].bytes, large);
  }
}

TEST(AgentFrames, AFrameThatIsCutShortIsNone) {
  const std::string bytes = encode(FrameKind::end, "17");
  for (size_t size = 0; size < bytes.size(); ++size) {
    FrameReader reader;
    reader.append(std::string_view(bytes).substr(0, size));
    EXPECT_FALSE(reader.next()) << size;
  }
}

TEST(AgentFrames, OtherKindsAndSizesAreErrors) {
  FrameReader web, large;
  web.append("GET / HTTP/1.1");
  EXPECT_ERROR(web.next(), ErrorKind::comm, "agent: byte 71 does not begin a frame");
  large.append(std::string("o\x7f\xff\xff\xff", 5));
  EXPECT_ERROR(large.next(), ErrorKind::comm, "agent: a frame of 2147483647 bytes, expected at most 1048576");
}

/// A head and an agent that have shaken hands or not, over sockets or through a man in the middle.
struct Pair {
  explicit Pair(std::pair<Socket, Socket> sockets, const std::string& secret_of_head = kSecret)
      : Pair(std::move(sockets.first), std::move(sockets.second), secret_of_head) {}
  Pair(Socket of_head, Socket of_agent, const std::string& secret_of_head = kSecret)
      : head(std::move(of_head), Side::head, secret_of_head), agent(std::move(of_agent), Side::agent, kSecret) {
    signal(SIGPIPE, SIG_IGN);
    std::jthread other([this] { agents = agent.shake_hands(10); });
    heads = head.shake_hands(10);
  }
  AgentChannel head, agent;
  Greeting heads = Greeting::silent, agents = Greeting::silent;
};

/// The next frame, or nothing once the connection is over.
std::optional<Frame> wait_for_frame(AgentChannel& channel, AgentChannel& other) {
  for (const auto start = Clock::now(); seconds_since(start) < 60;) {
    other.move();
    const bool open = channel.move();
    if (auto frame = channel.next()) return frame;
    if (!open) return std::nullopt;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  ADD_FAILURE() << "nothing came, and the connection is not over";
  return std::nullopt;
}

TEST(AgentChannel, ClientsWithTheSecretAreAnswered) {
  Pair pair(socket_pair());
  EXPECT_TRUE(pair.heads == Greeting::done && pair.agents == Greeting::done);
  const std::string large(1 << 20, 'x');
  for (int i = 0; i < 5; ++i) pair.head.queue(FrameKind::input, large);
  pair.agent.queue(FrameKind::end, "3");
  for (int i = 0; i < 5; ++i) EXPECT_EQ(wait_for_frame(pair.agent, pair.head)->bytes, large);
  EXPECT_EQ(wait_for_frame(pair.head, pair.agent)->bytes, "3");
}

TEST(AgentChannel, AnotherSecretIsRefusedOnBothSides) {
  std::string near = kSecret;
  near.back() ^= 1;
  Pair pair(socket_pair(), near);
  EXPECT_EQ(pair.agents, Greeting::wrong_secret);
  EXPECT_EQ(pair.heads, Greeting::wrong_secret);
}

TEST(AgentChannel, OtherProtocolsAndSilenceAreDistinguished) {
  const auto greeting_of = [](std::string_view bytes, bool closes) {
    auto [own, other] = socket_pair();
    other.send(bytes);
    if (closes) shutdown(other.fd(), SHUT_WR);
    return AgentChannel(std::move(own), Side::head, kSecret).shake_hands(0.2);
  };
  EXPECT_EQ(greeting_of("SSH-2.0-OpenSSH_9.2p1 Debian-2\r\n", false), Greeting::foreign);
  EXPECT_EQ(greeting_of("", true), Greeting::closed);
  EXPECT_EQ(greeting_of("", false), Greeting::silent);
}

TEST(AgentChannel, ACertificateDoesNotReplaceTheSecret) {
  const HttpsServer impostor([](const WebRequest&) { return WebReply(); });
  std::string why;
  Socket socket = connect_to("127.0.0.1:" + std::to_string(impostor.port()), 5, why);
  ASSERT_TRUE(socket) << why;
  EXPECT_EQ(AgentChannel(std::move(socket), Side::head, kSecret).shake_hands(10), Greeting::foreign);
}

/// Passes bytes between two sockets; what the head says as `change` makes it.
class Middle {
 public:
  Socket head, agent;  ///< to be taken by the two ends
  std::string said;    ///< by the head; read it after the end

  Middle() {
    std::tie(head, to_head_) = socket_pair();
    std::tie(agent, to_agent_) = socket_pair();
    thread_ = std::jthread([this](const std::stop_token& stop) {
      while (!stop.stop_requested()) {
        std::string up, down;
        to_head_.receive(up);
        to_agent_.receive(down);
        if (!up.empty()) {
          said += up;
          if (cut_) up.resize(up.size() / 2);
          if (flip_) up[up.size() / 2] ^= 1;
          to_agent_.send(up);
          if (twice_) to_agent_.send(up);
          if (cut_) shutdown(to_agent_.fd(), SHUT_WR);
        }
        if (!down.empty()) to_head_.send(down);
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
    });
  }
  void change(std::atomic<bool> Middle::*how) { this->*how = true; }
  void end() {
    thread_.request_stop();
    thread_.join();
  }
  std::atomic<bool> cut_ = false, flip_ = false, twice_ = false;

 private:
  Socket to_head_, to_agent_;
  std::jthread thread_;
};

TEST(AgentChannel, NothingIsTakenThatWasChangedRepeatedOrCutShort) {
  for (const auto how : {&Middle::flip_, &Middle::cut_, &Middle::twice_}) {
    Middle middle;
    Pair pair(std::move(middle.head), std::move(middle.agent));
    ASSERT_TRUE(pair.heads == Greeting::done && pair.agents == Greeting::done);
    pair.head.queue(FrameKind::input, "first");
    EXPECT_EQ(wait_for_frame(pair.agent, pair.head)->bytes, "first");
    middle.change(how);
    pair.head.queue(FrameKind::input, "second");
    if (how == &Middle::twice_) {
      EXPECT_EQ(wait_for_frame(pair.agent, pair.head)->bytes, "second");
    }
    EXPECT_FALSE(wait_for_frame(pair.agent, pair.head));
    EXPECT_FALSE(pair.agent.move()) << "the connection is over";
    middle.end();
  }
}

TEST(AgentChannel, ARecordedConversationCannotBeReplayed) {
  Middle middle;
  {
    Pair pair(std::move(middle.head), std::move(middle.agent));
    pair.head.queue(FrameKind::run, R"({"line": "echo RAN", "user": ""})");
    ASSERT_TRUE(wait_for_frame(pair.agent, pair.head));
  }
  middle.end();
  auto [replayer, socket] = socket_pair();
  ASSERT_TRUE(replayer.send(middle.said));
  AgentChannel agent(std::move(socket), Side::agent, kSecret);
  EXPECT_EQ(agent.shake_hands(0.5), Greeting::foreign);
}

}  // namespace
}  // namespace trireme::launch
