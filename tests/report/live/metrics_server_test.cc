#include "report/live/metrics_server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <httplib.h>
#include <unistd.h>

#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/file.h"
#include "base/host.h"
#include "base/time.h"
#include "tests/support/expect_error.h"
#include "tests/support/temporary_folder.h"

namespace trireme {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::StartsWith;

std::shared_ptr<RunBoard> board() { return std::make_shared<RunBoard>("r", "", 1, 0); }

int port_of(const MetricsServer& server) {
  const std::string url = server.url();
  return std::stoi(url.substr(url.rfind(':') + 1));
}

/// A connection that sends `request` and reads nothing.
class Connection {
 public:
  Connection(int port, const std::string& request) : socket_(socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    connect(socket_, reinterpret_cast<sockaddr*>(&address), sizeof address);
    EXPECT_EQ(write(socket_, request.data(), request.size()), static_cast<ssize_t>(request.size()));
  }
  ~Connection() { close(socket_); }
  Connection(const Connection&) = delete;
  /// False: the server has closed it.
  bool send(const std::string& bytes) const {
    return ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(bytes.size());
  }

 private:
  int socket_;
};

TEST(MetricsServer, AnswersInTheFormatThatTheClientPrefers) {
  const MetricsServer server({}, "", board());
  EXPECT_THAT(server.url(), MatchesRegex("http://127\\.0\\.0\\.1:[0-9]+/"));
  httplib::Client client("127.0.0.1", port_of(server));
  const auto plain = client.Get("/metrics");
  ASSERT_TRUE(plain);
  EXPECT_EQ(plain->status, 200);
  EXPECT_EQ(plain->get_header_value("Content-Type"), "text/plain; version=0.0.4; charset=utf-8");
  EXPECT_THAT(plain->body, HasSubstr("trireme_running{run=\"r\"} 1\n"));
  const auto open = client.Get("/metrics", {{"Accept", "application/openmetrics-text;version=1.0.0"}});
  ASSERT_TRUE(open);
  EXPECT_THAT(open->get_header_value("Content-Type"), StartsWith("application/openmetrics-text; version=1.0.0"));
  EXPECT_THAT(open->body, EndsWith("# EOF\n"));
  const auto page = client.Get("/");
  ASSERT_TRUE(page);
  EXPECT_EQ(page->get_header_value("Content-Type"), "text/html; charset=utf-8");
  EXPECT_THAT(page->get_header_value("Content-Security-Policy"), HasSubstr("default-src 'none'"));
  EXPECT_THAT(page->body, HasSubstr("<title>r</title>"));
  EXPECT_EQ(client.Get("/else")->status, 404);
  EXPECT_EQ(client.Post("/metrics", "x", "text/plain")->status / 100, 4);
}

TEST(MetricsServer, WithATokenNobodyElseReads) {
  const MetricsServer server({}, "secret", board());
  httplib::Client client("127.0.0.1", port_of(server));
  for (const char* wrong : {"", "Bearer", "Bearer ", "Bearer secre", "Bearer secret2", "Bearer Secret", "secret"}) {
    const auto refused = client.Get("/metrics", {{"Authorization", wrong}});
    ASSERT_TRUE(refused);
    EXPECT_EQ(refused->status, 401) << wrong;
    EXPECT_THAT(refused->body, HasSubstr("Authorization: Bearer TOKEN"));
  }
  EXPECT_EQ(client.Get("/metrics", {{"Authorization", "Bearer secret"}})->status, 200);
  EXPECT_EQ(client.Get("/")->status, 401);
  EXPECT_EQ(client.Get("/body?token=secre")->status, 401);
  EXPECT_EQ(client.Get("/?token=secret")->status, 200);
  EXPECT_EQ(client.Get("/body?token=secret")->status, 200);
}

TEST(MetricsServer, ASecondOneOnThePortIsRefused) {
  const MetricsServer server({}, "", board());
  const int port = port_of(server);
  EXPECT_ERROR(MetricsServer({"127.0.0.1", port}, "", board()), ErrorKind::io,
               "cannot listen on 127.0.0.1:" + std::to_string(port));
  EXPECT_ERROR(MetricsServer({"192.0.2.1", 0}, "", board()), ErrorKind::io, "cannot listen on 192.0.2.1:0");
}

TEST(MetricsServer, EndsBesideClientsThatDoNotEndTheirRequests) {
  auto server = std::make_unique<MetricsServer>(ListenAddress(), "", board());
  const int port = port_of(*server);
  std::vector<std::unique_ptr<Connection>> slow;
  for (int i = 0; i < 8; ++i) slow.push_back(std::make_unique<Connection>(port, "GET /metrics HTTP/1.1\r\nX: "));
  const auto start = Clock::now();
  server.reset();
  EXPECT_LT(seconds_since(start), 60);  // not as long as they stay
}

TEST(MetricsServer, SlowClientsLeaveRoomForOthers) {
  const MetricsServer server({}, "", board());
  std::vector<std::unique_ptr<Connection>> slow;
  for (int i = 0; i < 100; ++i) {  // half of them never end their request, the others read no answer
    slow.push_back(
        std::make_unique<Connection>(port_of(server), i % 2 == 0 ? "GET /metrics HTTP" : "GET / HTTP/1.1\r\n\r\n"));
  }
  httplib::Client client("127.0.0.1", port_of(server));
  client.set_read_timeout(60, 0);
  const auto start = Clock::now();
  const auto answer = client.Get("/metrics");
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->status, 200);
  EXPECT_LT(seconds_since(start), 4) << "no slow client's time had to end first";
}

TEST(MetricsServer, AClientThatSendsAByteAtATimeIsClosedAfterItsTime) {
  const MetricsServer server({}, "", board());
  const Connection slow(port_of(server), "GET /");
  const auto start = Clock::now();
  while (slow.send("x") && seconds_since(start) < 60) std::this_thread::sleep_for(std::chrono::milliseconds(100));
  EXPECT_LT(seconds_since(start), 30);
  const Connection endless(port_of(server), "GET /");
  const std::string part(4096, 'x');
  int parts = 0;
  for (; endless.send(part) && parts < 100'000; ++parts) {
  }
  EXPECT_LT(parts, 100'000) << "a request has a limit";
}

TEST(MetricsServer, WithoutATokenItAnswersOnlyToNamesOfItsHost) {
  const MetricsServer server({}, "", board()), guarded({}, "secret", board());
  const std::string port = std::to_string(port_of(server));
  const auto status = [](const MetricsServer& asked, const std::string& host, const char* path) {
    httplib::Client client("127.0.0.1", port_of(asked));
    const auto answer = client.Get(path, {{"Host", host}});
    return answer ? answer->status : -1;
  };
  for (const std::string& own :
       {"127.0.0.1:" + port, std::string("localhost:9464"), std::string("[::1]:80"), std::string("10.1.2.3"),
        std::string("node7"), host_name(), host_name() + ":" + port}) {
    EXPECT_EQ(status(server, own, "/"), 200) << own;
  }
  for (const std::string& foreign : {"evil.example:" + port, std::string("127.0.0.1.evil.example"),
                                     std::string("localhost.evil.example"), std::string("a.b:1")}) {
    for (const char* path : {"/", "/body", "/metrics", "/else"})
      EXPECT_EQ(status(server, foreign, path), 403) << foreign;
    EXPECT_EQ(status(guarded, foreign, "/?token=secret"), 200) << "a page of another site does not know the token";
  }
}

TEST(MetricsServer, TheTokenIsTheFirstLineOfItsFile) {
  const TemporaryFolder folder;
  write_text(folder / "token", "abc def\r\nsecond\n");
  EXPECT_EQ(read_token(folder / "token", "log.metrics-token"), "abc def");
  write_text(folder / "blanks", " \tabc def \t\n");
  EXPECT_EQ(read_token(folder / "blanks", "log.metrics-token"), "abc def") << "as Prometheus reads and sends it";
  write_text(folder / "only-blanks", " \n");
  EXPECT_ERROR(read_token(folder / "only-blanks", "log.metrics-token"), ErrorKind::config,
               "log.metrics-token: the first line of " + folder / "only-blanks" + " is empty, expected the token");
  write_text(folder / "empty", "\nabc\n");
  EXPECT_ERROR(read_token(folder / "empty", "log.metrics-token"), ErrorKind::config,
               "log.metrics-token: the first line of " + folder / "empty" + " is empty, expected the token");
  EXPECT_ERROR(read_token(folder / "none", "log.metrics-token"), ErrorKind::io, folder / "none");
}

}  // namespace
}  // namespace trireme
