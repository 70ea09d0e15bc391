// Clients that ask about a job from another terminal, with and without the secret.

#include "comm/control/status_server.h"

#include <gmock/gmock.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <thread>

#include "base/time.h"
#include "comm/control/secret.h"
#include "tests/support/expect_error.h"

namespace trireme {
namespace {

using ::testing::ElementsAre;

constexpr double kPlenty = 20;  // seconds; only a limit

std::string request(const std::string& what, const std::string& more = "") {
  return R"({"do":")" + what + R"(","who":"ann on h1")" + more + "}";
}

class Attends : public ::testing::Test {
 protected:
  StatusServerOptions options() {
    StatusServerOptions options;
    options.status = [] { return R"({"step":7})"; };
    options.on_stop = [this](const std::string& who, bool now) {
      EXPECT_EQ(who, "trireme stop (ann on h1)");
      ++stops_;
      return now;
    };
    options.leave = [this] { left_ = true; };
    return options;
  }
  static std::unique_ptr<StatusClient> ask(const StatusServer& server, const std::string& what,
                                           const std::string& more = "") {
    return std::make_unique<StatusClient>(server.addresses(), server.secret(), request(what, more));
  }
  /// What a server says until it closes to somebody who sends these bytes.
  static std::string everything_after(const StatusServer& server, const std::string& bytes) {
    std::string why, heard;
    const Socket socket = connect_to(server.addresses()[0], kPlenty, why);
    socket.send(bytes);
    shutdown(socket.fd(), SHUT_WR);
    while (socket.wait(kPlenty) && socket.receive(heard) == Socket::Arrival::bytes) {
    }
    return heard;
  }
  static std::string challenge_of(const StatusServer& server) {
    const std::string line = everything_after(server, "");
    return line.substr(14, 64);  // {"challenge":"..."}
  }
  static std::string next(StatusClient& call) { return call.next(kPlenty).value_or("nothing"); }

  std::atomic<int> stops_ = 0;
  std::atomic<bool> left_ = false;
};

TEST_F(Attends, SendsTheStatusAndCloses) {
  const StatusServer server(options());
  const auto call = ask(server, "status");
  EXPECT_EQ(next(*call), R"({"status":{"step":7}})");
  EXPECT_FALSE(call->next(kPlenty));
  EXPECT_TRUE(call->closed());
}

TEST_F(Attends, RefusesClientsWithoutTheSecret) {
  const StatusServer server(options());
  for (const std::string& wrong : {std::string(), std::string("0123"), std::string(64, '0')}) {
    EXPECT_ERROR(StatusClient(server.addresses(), wrong, request("stop")), ErrorKind::comm,
                 "the program there does not know this job");
  }
  for (const char* wrong : {"{", "[1]", R"({"do": []})"}) {  // from somebody who knows the secret
    EXPECT_ERROR(StatusClient(server.addresses(), server.secret(), wrong), ErrorKind::comm, "does not know this job");
  }
  for (const char* bytes : {"GET / HTTP/1.1\r\n\r\n", "\n\n", "[1]\n{}\n", "{\"nonce\":7,\"proof\":[]}\n{}\n"}) {
    const std::string heard = everything_after(server, bytes);
    EXPECT_THAT(heard, testing::StartsWith("{\"challenge\":\""));
    EXPECT_EQ(std::ranges::count(heard, '\n'), 1) << heard;
  }
  EXPECT_EQ(stops_, 0);
  EXPECT_EQ(next(*ask(server, "status")), R"({"status":{"step":7}})") << "it goes on for those who know it";
}

TEST_F(Attends, WhoListensGetsNoSecretAndCannotReplayWhatWasSent) {
  const StatusServer server(options());
  const Handshake first{server.secret(), challenge_of(server), "client-nonce", request("stop")};
  const std::string said =
      R"({"nonce":"client-nonce","proof":")" + proof_of(first, Side::client) + "\"}\n" + first.said + "\n";
  const std::string heard = everything_after(server, said);
  EXPECT_EQ(std::ranges::count(heard, '\n'), 1) << "the proof is of another challenge: " << heard;
  EXPECT_EQ(stops_, 0);
  EXPECT_THAT(heard + said, testing::Not(testing::HasSubstr(server.secret())));
}

TEST_F(Attends, TextFromOutsideIsPrintedEscaped) {
  StatusServerOptions with_name = options();
  std::string who;
  with_name.on_stop = [&](const std::string& name, bool) {
    who = name;
    return false;
  };
  StatusServer server(with_name);
  const StatusClient call(server.addresses(), server.secret(),
                          R"({"do":"stop","who":"\u001b[31mann\u001b[0m\nerror: all is lost\u0007"})");
  EXPECT_EQ(who, "trireme stop (ann error: all is lost\\x07)");
}

TEST_F(Attends, AnEndlessRequestIsCutOff) {
  const StatusServer server(options());
  std::string why, ignored;
  const Socket socket = connect_to(server.addresses()[0], kPlenty, why);
  ASSERT_TRUE(socket) << why;
  Socket::Arrival arrival = Socket::Arrival::nothing;
  for (const auto start = Clock::now(); arrival != Socket::Arrival::closed && seconds_since(start) < kPlenty;) {
    socket.send(std::string(1000, 'x'));
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    arrival = socket.receive(ignored);
  }
  EXPECT_EQ(arrival, Socket::Arrival::closed);
}

TEST_F(Attends, ManyStrangersDoNotBlockOthers) {
  const StatusServer server(options());
  std::vector<Socket> strangers;
  std::string why;
  for (int i = 0; i < 200; ++i) strangers.push_back(connect_to(server.addresses()[0], kPlenty, why));
  EXPECT_EQ(next(*ask(server, "status")), R"({"status":{"step":7}})");
}

TEST_F(Attends, AFollowerGetsTheLastLinesAndAllThatComeInTheirOrderAndTheEnd) {
  auto server = std::make_unique<StatusServer>(options());
  for (int i = 0; i < 60; ++i) server->say("line " + std::to_string(i));
  EXPECT_EQ(server->last_line(), "line 59");
  const auto call = ask(*server, "attach");
  for (int i = 10; i < 60; ++i) EXPECT_EQ(next(*call), R"({"line":"line )" + std::to_string(i) + "\"}");
  server->say("a \"new\" one");
  EXPECT_EQ(next(*call), R"({"line":"a \"new\" one"})");
  server->say("the last");
  server->end("{\"state\": \"done\"}\n");  // as in status.json
  server.reset();
  EXPECT_EQ(next(*call), R"({"line":"the last"})");
  EXPECT_EQ(next(*call), R"({"end":{"state":"done"}})");
  EXPECT_FALSE(call->next(kPlenty));
  EXPECT_TRUE(call->closed());
}

TEST_F(Attends, AFollowerThatDoesNotReadBlocksNobody) {
  StatusServer server(options());
  const auto sleeper = ask(server, "attach"), reader = ask(server, "attach");
  const std::string line(50000, 'x');
  for (int i = 0; i < 400; ++i) {  // 20 MB: more than any socket holds
    server.say(line);
    ASSERT_EQ(next(*reader).size(), line.size() + 11) << i;
  }
  // Closed in the middle: the rest buffered by the system, then the end of the connection.
  while (sleeper->next(kPlenty)) {
  }
  EXPECT_TRUE(sleeper->closed());
}

TEST_F(Attends, AStopIsAcceptedOnceAndTheCallerLearnsTheEnd) {
  auto server = std::make_unique<StatusServer>(options());
  const auto first = ask(*server, "stop"), second = ask(*server, "stop");
  EXPECT_EQ(stops_, 1);
  server->say("saving");
  server->end(R"({"state":"stopped"})");
  const auto late = ask(*server, "stop");
  for (StatusClient* call : {first.get(), second.get(), late.get()})
    EXPECT_EQ(next(*call), R"({"end":{"state":"stopped"}})");
  EXPECT_FALSE(left_);
}

TEST_F(Attends, AnImmediateEndWaitsUntilAllRanksKnow) {
  StatusServerOptions with_end = options();
  StatusServer* self = nullptr;
  with_end.on_stop = [&](const std::string&, bool now) {
    if (now) self->end(R"({"state":"stopped"})");
    return now;
  };
  StatusServer server(with_end);
  self = &server;
  const auto patient = ask(server, "stop"), hasty = ask(server, "stop", R"(,"now":true)");
  for (StatusClient* call : {patient.get(), hasty.get()}) EXPECT_EQ(next(*call), R"({"end":{"state":"stopped"}})");
  for (const auto start = Clock::now(); !left_ && seconds_since(start) < kPlenty;)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_TRUE(left_);
}

TEST_F(Attends, AMissingServerIsNamedWithEveryAddress) {
  std::vector<std::string> addresses;
  {
    const StatusServer server(options());
    addresses = server.addresses();
  }
  EXPECT_ERROR(StatusClient(addresses, "secret", "{}"), ErrorKind::comm, addresses[0] + " (Connection refused)");
}

TEST_F(Attends, OtherHostsReachItWhereTheyMay) {
  const StatusServer here(options());
  EXPECT_THAT(here.addresses(), ElementsAre(testing::StartsWith("127.0.0.1:")));
  StatusServerOptions open = options();
  open.this_host_only = false;
  const StatusServer everywhere(open);
  EXPECT_THAT(everywhere.addresses().back(), testing::StartsWith("127.0.0.1:"));
  for (const std::string& address : everywhere.addresses()) {
    StatusClient call({address}, everywhere.secret(), request("status"));
    EXPECT_EQ(next(call), R"({"status":{"step":7}})") << address;
  }
}

}  // namespace
}  // namespace trireme
