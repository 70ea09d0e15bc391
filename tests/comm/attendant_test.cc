// Who asks about a job from another terminal, and strangers who do.

#include "comm/attendant.h"

#include <gmock/gmock.h>
#include <sys/socket.h>

#include <atomic>
#include <thread>

#include "base/time.h"
#include "tests/support/expect_error.h"

namespace trireme {
namespace {

using ::testing::ElementsAre;

constexpr double kPlenty = 20;  // seconds; nothing waits for it to pass

std::string request(const std::string& secret, const std::string& what, const std::string& more = "") {
  return R"({"secret":")" + secret + R"(","do":")" + what + R"(","who":"ann on h1")" + more + "}";
}

class Attends : public ::testing::Test {
 protected:
  AttendantOptions options() {
    AttendantOptions options;
    options.status = [] { return R"({"step":7})"; };
    options.on_stop = [this](const std::string& who, bool now) {
      EXPECT_EQ(who, "trireme stop (ann on h1)");
      ++stops_;
      return now;
    };
    options.leave = [this] { left_ = true; };
    return options;
  }
  static std::unique_ptr<AttendantCall> ask(const Attendant& attendant, const std::string& what,
                                            const std::string& more = "") {
    return std::make_unique<AttendantCall>(attendant.addresses(), request(attendant.secret(), what, more));
  }
  static std::string next(AttendantCall& call) { return call.next(kPlenty).value_or("nothing"); }

  std::atomic<int> stops_ = 0;
  std::atomic<bool> left_ = false;
};

TEST_F(Attends, TellsTheStatusAndCloses) {
  const Attendant attendant(options());
  const auto call = ask(attendant, "status");
  EXPECT_EQ(next(*call), R"({"status":{"step":7}})");
  EXPECT_FALSE(call->next(kPlenty));
  EXPECT_TRUE(call->closed());
}

TEST_F(Attends, NobodyWithoutTheSecret) {
  const Attendant attendant(options());
  for (const std::string& wrong : {std::string(), std::string("0123"), std::string(64, '0')}) {
    EXPECT_ERROR(AttendantCall(attendant.addresses(), request(wrong, "stop")), ErrorKind::comm,
                 "what answers there does not know this job");
  }
  for (const char* bytes : {"GET / HTTP/1.1", "{", "[1]", R"({"secret": 7, "do": []})"}) {
    EXPECT_ERROR(AttendantCall(attendant.addresses(), bytes), ErrorKind::comm, "does not know this job");
  }
  EXPECT_EQ(stops_, 0);
  EXPECT_EQ(next(*ask(attendant, "status")), R"({"status":{"step":7}})") << "it goes on for those who know it";
}

TEST_F(Attends, AnEndlessRequestIsCutOff) {
  const Attendant attendant(options());
  std::string why, ignored;
  const Socket socket = connect_to(attendant.addresses()[0], kPlenty, why);
  ASSERT_TRUE(socket) << why;
  Socket::Arrival arrival = Socket::Arrival::nothing;
  for (const auto start = Clock::now(); arrival != Socket::Arrival::closed && seconds_since(start) < kPlenty;) {
    socket.send(std::string(1000, 'x'));
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    arrival = socket.receive(ignored);
  }
  EXPECT_EQ(arrival, Socket::Arrival::closed);
}

TEST_F(Attends, ManyStrangersKeepNobodyOut) {
  const Attendant attendant(options());
  std::vector<Socket> strangers;
  std::string why;
  for (int i = 0; i < 200; ++i) strangers.push_back(connect_to(attendant.addresses()[0], kPlenty, why));
  EXPECT_EQ(next(*ask(attendant, "status")), R"({"status":{"step":7}})");
}

TEST_F(Attends, AFollowerGetsTheLastLinesAndAllThatComeInTheirOrderAndTheEnd) {
  auto attendant = std::make_unique<Attendant>(options());
  for (int i = 0; i < 60; ++i) attendant->say("line " + std::to_string(i));
  EXPECT_EQ(attendant->last_line(), "line 59");
  const auto call = ask(*attendant, "attach");
  for (int i = 10; i < 60; ++i) EXPECT_EQ(next(*call), R"({"line":"line )" + std::to_string(i) + "\"}");
  attendant->say("a \"new\" one");
  EXPECT_EQ(next(*call), R"({"line":"a \"new\" one"})");
  attendant->say("the last");
  attendant->end("{\"state\": \"done\"}\n");  // as status.json has it
  attendant.reset();
  EXPECT_EQ(next(*call), R"({"line":"the last"})");
  EXPECT_EQ(next(*call), R"({"end":{"state":"done"}})");
  EXPECT_FALSE(call->next(kPlenty));
  EXPECT_TRUE(call->closed());
}

TEST_F(Attends, AFollowerWhoDoesNotReadHoldsNobodyUp) {
  Attendant attendant(options());
  const auto sleeper = ask(attendant, "attach"), reader = ask(attendant, "attach");
  const std::string line(50000, 'x');
  for (int i = 0; i < 400; ++i) {  // 20 MB: more than any socket holds
    attendant.say(line);
    ASSERT_EQ(next(*reader).size(), line.size() + 11) << i;
  }
  // Cut off in the middle: what the system still held of it, then the end of the connection.
  while (sleeper->next(kPlenty)) {
  }
  EXPECT_TRUE(sleeper->closed());
}

TEST_F(Attends, AStopIsTakenOnceAndWhoAskedHearsTheEnd) {
  auto attendant = std::make_unique<Attendant>(options());
  const auto first = ask(*attendant, "stop"), second = ask(*attendant, "stop");
  EXPECT_EQ(stops_, 1);
  attendant->say("saving");
  attendant->end(R"({"state":"stopped"})");
  const auto late = ask(*attendant, "stop");
  for (AttendantCall* call : {first.get(), second.get(), late.get()})
    EXPECT_EQ(next(*call), R"({"end":{"state":"stopped"}})");
  EXPECT_FALSE(left_);
}

TEST_F(Attends, WhatIsToEndNowLeavesOnceAllHaveHeardOfIt) {
  AttendantOptions with_end = options();
  Attendant* self = nullptr;
  with_end.on_stop = [&](const std::string&, bool now) {
    if (now) self->end(R"({"state":"stopped"})");
    return now;
  };
  Attendant attendant(with_end);
  self = &attendant;
  const auto patient = ask(attendant, "stop"), hasty = ask(attendant, "stop", R"(,"now":true)");
  for (AttendantCall* call : {patient.get(), hasty.get()}) EXPECT_EQ(next(*call), R"({"end":{"state":"stopped"}})");
  for (const auto start = Clock::now(); !left_ && seconds_since(start) < kPlenty;)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_TRUE(left_);
}

TEST_F(Attends, WhoIsGoneIsNamedWithEveryAddress) {
  std::vector<std::string> addresses;
  {
    const Attendant attendant(options());
    addresses = attendant.addresses();
  }
  EXPECT_ERROR(AttendantCall(addresses, "{}"), ErrorKind::comm, addresses[0] + " (Connection refused)");
}

TEST_F(Attends, OtherHostsReachItWhereTheyMay) {
  const Attendant here(options());
  EXPECT_THAT(here.addresses(), ElementsAre(testing::StartsWith("127.0.0.1:")));
  AttendantOptions open = options();
  open.this_host_only = false;
  const Attendant everywhere(open);
  EXPECT_THAT(everywhere.addresses().back(), testing::StartsWith("127.0.0.1:"));
  for (const std::string& address : everywhere.addresses()) {
    AttendantCall call({address}, request(everywhere.secret(), "status"));
    EXPECT_EQ(next(call), R"({"status":{"step":7}})") << address;
  }
}

}  // namespace
}  // namespace trireme
