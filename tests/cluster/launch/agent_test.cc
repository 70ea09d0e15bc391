#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <functional>
#include <thread>

#include "base/error.h"
#include "base/file.h"
#include "base/time.h"
#include "cluster/launch/agent_channel.h"
#include "cluster/launch/node_session.h"
#include "cluster/launch/starter.h"
#include "cluster/subprocess.h"
#include "tests/support/expect_error.h"
#include "tests/support/temporary_folder.h"

namespace trireme::launch {
namespace {

using testing::HasSubstr;

const std::string kSecret = "0123456789abcdef0123456789abcdef";

void write_private(const std::string& file, const std::string& text) {
  write_text(file, text);
  std::filesystem::permissions(file, std::filesystem::perms(0600));
}

TEST(AgentSecret, IsReadFromAPrivateFile) {
  const TemporaryFolder folder;
  const std::string file = folder / "secret";
  write_agent_secret(file);
  EXPECT_EQ(std::filesystem::status(file).permissions(), std::filesystem::perms(0600));
  EXPECT_EQ(read_agent_secret(file).size(), 64u);
  EXPECT_ERROR(write_agent_secret(file), ErrorKind::io, "secret: it exists already; use it or remove it first");
  EXPECT_ERROR(write_agent_secret(folder / "none/secret"), ErrorKind::io, "No such file or directory");
  EXPECT_ERROR(read_agent_secret(folder / "missing"), ErrorKind::io, "missing");

  write_text(file, "  " + kSecret + " \r\n");
  std::filesystem::permissions(file, std::filesystem::perms(0400));
  EXPECT_EQ(read_agent_secret(file), kSecret);
  std::filesystem::permissions(file, std::filesystem::perms(0640));
  EXPECT_ERROR(read_agent_secret(file), ErrorKind::config,
               "its mode is 0640, so others may read it; expected 0600: `chmod 600 " + file +
                   "`, or set the secret in TRIREME_AGENT_SECRET");
  write_private(file, "hunter2\n");
  EXPECT_ERROR(read_agent_secret(file), ErrorKind::config,
               "it has 7 characters, expected at least 32; `trireme agent --new-secret FILE` creates a random one");
}

TEST(AgentSecret, IsReadFromTheEnvironmentWithoutAFile) {
  unsetenv(kAgentSecretVariable);
  EXPECT_ERROR(read_agent_secret(""), ErrorKind::config,
               "agents: the secret is missing: set --secret-file or TRIREME_AGENT_SECRET; `trireme agent --new-secret");
  setenv(kAgentSecretVariable, kSecret.c_str(), 1);
  EXPECT_EQ(read_agent_secret(""), kSecret);
  setenv(kAgentSecretVariable, "short", 1);
  EXPECT_ERROR(read_agent_secret(""), ErrorKind::config, "TRIREME_AGENT_SECRET: it has 5 characters");
  unsetenv(kAgentSecretVariable);
}

/// Another process that says one line on its standard error when it is ready, and is killed at the end.
class Forked {
 public:
  explicit Forked(const std::function<void()>& work) {
    int ends[2];
    EXPECT_EQ(pipe2(ends, O_CLOEXEC), 0);
    pid_ = fork();
    if (pid_ == 0) {
      setpgid(0, 0);
      dup2(ends[1], 2);
      work();
      _exit(0);
    }
    close(ends[1]);
    char buffer[512];
    const ssize_t got = read(ends[0], buffer, sizeof buffer);
    line_ = std::string(buffer, static_cast<size_t>(std::max<ssize_t>(got, 0)));
    messages_ = ends[0];
  }
  Forked(const Forked&) = delete;
  Forked& operator=(const Forked&) = delete;
  ~Forked() {
    if (pid_ > 0) {
      kill(pid_, SIGTERM);
      waitpid(pid_, nullptr, 0);
    }
    close(messages_);
  }
  pid_t pid() const { return pid_; }
  const std::string& line() const { return line_; }
  int port() const {
    const size_t at = line_.find("port ");
    return at == std::string::npos ? 0 : std::atoi(line_.c_str() + at + 5);
  }
  /// Its exit code.
  int end(int signal) {
    int status = 0;
    kill(pid_, signal);
    waitpid(pid_, &status, 0);
    pid_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }

 private:
  pid_t pid_ = -1;
  int messages_ = -1;
  std::string line_;
};

void run_agent() { serve_agent({.secret = kSecret, .address = "127.0.0.1", .port = 0, .version = "trireme 1.2.3"}); }

class HostAgent : public testing::Test {
 protected:
  void SetUp() override {
    write_private(file, kSecret);
    options.agents = true;
    options.secret_file = file;
    options.version = "trireme 1.2.3";
    options.connect_seconds = 3;
  }
  int run(const std::string& line, const std::string& host = "localhost") {
    return run_through_agent(options, host, line);
  }
  TemporaryFolder folder;
  const std::string file = folder / "secret";
  RemoteOptions options;
};

TEST_F(HostAgent, RunsALineAndGivesItsExitCode) {
  const Forked agent(run_agent);
  options.agent_port = agent.port();
  EXPECT_THAT(agent.line(), HasSubstr(" waits for `trireme launch --agents` on port "));
  EXPECT_THAT(agent.line(), HasSubstr(" of 127.0.0.1; stop it with TERM\n"));
  EXPECT_EQ(run("exit 3"), 3);
  EXPECT_EQ(run("no-such-program-anywhere 2>/dev/null"), 127);
  EXPECT_EQ(run("kill -KILL $$"), 137);
  const std::string note = folder / "note";
  EXPECT_EQ(run("echo \"$PWD ${TRIREME_AGENT_SECRET-unset} ${SHELL:+shell}\" >" + note), 0);
  EXPECT_EQ(read_text(note, 1000), std::string(std::getenv("HOME")) + " unset shell\n");
}

TEST_F(HostAgent, InputThatComesTogetherWithTheCommandReachesIt) {
  const Forked agent(run_agent);
  signal(SIGPIPE, SIG_IGN);
  std::string error;
  AgentChannel channel(connect_to(fmt::format("[127.0.0.1]:{}", agent.port()), 3, error), AgentChannel::Side::head,
                       kSecret);
  ASSERT_EQ(channel.shake_hands(5), AgentChannel::Greeting::done) << error;
  channel.queue(FrameKind::run, R"({"line": "cat", "user": ""})");
  channel.queue(FrameKind::input, "abc");
  channel.queue(FrameKind::input, "");
  std::string output, code;
  const auto start = Clock::now();
  for (bool open = true; open && code.empty() && seconds_since(start) < 60;) {
    open = channel.move();
    while (const auto frame = channel.next()) {
      if (frame->kind == FrameKind::output) output += frame->bytes;
      if (frame->kind == FrameKind::end) code = frame->bytes;
    }
    pollfd item = channel.awaited();
    if (open && code.empty()) poll(&item, 1, 1000);
  }
  EXPECT_EQ(output, "abc");
  EXPECT_EQ(code, "0");
}

TEST_F(HostAgent, ImpossibleRequestsAreReportedWithTheFix) {
  const Forked agent(run_agent);
  options.agent_port = agent.port();
  EXPECT_ERROR(run("exit 0", "nobody-else@localhost"), ErrorKind::comm,
               ", not as nobody-else; write the host without a user");
  EXPECT_ERROR(run("exit 0", "no-such-host.invalid"), ErrorKind::comm,
               "its name cannot be resolved on this host; correct the hostfile, or add no-such-host.invalid to DNS or "
               "/etc/hosts");
  options.version = "trireme 1.2.4";
  EXPECT_ERROR(run("exit 0"), ErrorKind::comm,
               "its agent is trireme 1.2.3, but this program is trireme 1.2.4; start an agent of the same build there");
  write_private(file, kSecret + "x");
  EXPECT_ERROR(run("exit 0"), ErrorKind::comm,
               "its agent has another secret; give the same secret to every agent and to launch");
  const Socket stranger = listen_on_free_port(true);
  const std::string address = addresses_of(stranger, true, "")[0];
  options.agent_port = std::atoi(address.c_str() + address.rfind(':') + 1);
  options.connect_seconds = 1;
  EXPECT_ERROR(run("exit 0"), ErrorKind::comm, " does not answer; check whether that is `trireme agent`");
}

TEST_F(HostAgent, AMissingAgentIsWaitedForAsLongAsAsked) {
  { options.agent_port = Forked(run_agent).port(); }  // free again
  options.ports = {{"localhost", options.agent_port}};
  EXPECT_ERROR(
      run("exit 0"), ErrorKind::comm,
      "; start `trireme agent` there, give its port (port= in the hostfile, --agent-port), or use --wait-for-agents");
  options.wait_seconds = 1;
  const auto start = Clock::now();
  EXPECT_ERROR(run("exit 0"), ErrorKind::comm,
               "no agent listens on its port " + std::to_string(options.agent_port) + " after 1 s; start");
  EXPECT_GE(seconds_since(start), 1);
  EXPECT_LT(seconds_since(start), 30);
}

TEST_F(HostAgent, ALostAgentEndsTheCallAndWhatItRan) {
  for (const int number : {SIGKILL, SIGTERM}) {
    Forked agent(run_agent);
    options.agent_port = agent.port();
    std::jthread killer([&] {
      while (processes_with("AGENT_TEST_MARK=17320.508").empty()) {
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
      }
      EXPECT_EQ(agent.end(number), number == SIGTERM ? 0 : 128 + SIGKILL);
    });
    EXPECT_ERROR(run("AGENT_TEST_MARK=17320.508 sleep 100"), ErrorKind::comm,
                 "the connection to its agent was lost; check that the host is up and its agent runs");
    killer.join();
    const auto start = Clock::now();
    while (!processes_with("AGENT_TEST_MARK=17320.508").empty() && seconds_since(start) < 60) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    EXPECT_TRUE(processes_with("AGENT_TEST_MARK=17320.508").empty()) << number;
  }
}

TEST_F(HostAgent, SilentStrangersDoNotLockOutWhoKnowsTheSecret) {
  const Forked agent(run_agent);
  options.agent_port = agent.port();
  options.connect_seconds = 60;  // only a limit: each stranger gets a process before
  std::vector<Socket> strangers;
  std::string error;
  for (int i = 0; i < 300; ++i) {
    strangers.push_back(connect_to(fmt::format("127.0.0.1:{}", agent.port()), 10, error));
    ASSERT_TRUE(strangers.back()) << error;
  }
  EXPECT_EQ(run("exit 3"), 3);
}

TEST_F(HostAgent, APortThatIsTakenIsAnError) {
  const Forked agent(run_agent);
  EXPECT_ERROR(
      serve_agent({.secret = kSecret, .address = "127.0.0.1", .port = agent.port(), .version = ""}), ErrorKind::comm,
      " of 127.0.0.1: Address already in use; another agent may be running here; choose another port with --port");
  EXPECT_ERROR(serve_agent({.secret = kSecret, .address = "no address", .port = 0, .version = ""}), ErrorKind::comm,
               "agent: --listen no address: ");
  sigset_t set;  // serve_agent() has blocked them
  sigemptyset(&set);
  sigprocmask(SIG_SETMASK, &set, nullptr);
}

TEST(RemoteShell, BothWaysAreOneCommandForMpirun) {
  RemoteOptions options{.host_key = "accept-new"};
  options.ports = {{"n2", 7000}};
  options.daemon_mark = "17";
  EXPECT_EQ(shell_join(remote_shell_command("/opt/trireme", options)),
            "/opt/trireme remote-shell --host-key accept-new --connect-timeout 10 --daemon-mark 17 --ports n2=7000 --");
  options.agents = true;
  options.secret_file = "/etc/secret";
  options.wait_seconds = 30;
  const auto words = remote_shell_command("/opt/trireme", options);
  EXPECT_EQ(shell_join(words),
            "/opt/trireme remote-shell --agents --secret-file /etc/secret --agent-port 7422 --wait-for-agents 30 "
            "--connect-timeout 10 --daemon-mark 17 --ports n2=7000 --");
  EXPECT_EQ(options.port_of("N2"), 7000);
  EXPECT_EQ(options.port_of("n3"), 7422);
  EXPECT_EQ(remote_command("/opt/trireme", options, "n3").back(), "n3");
  StartRequest request;
  request.placement = {{"n1", 1}, {"n2", 1}};
  request.agent = words;
  request.agent_script = "/tmp/x/agent";
  EXPECT_THAT(shell_join(start_command({StarterKind::open_mpi, "/usr/bin/mpirun", "", ""}, request).words),
              HasSubstr("--mca plm_rsh_agent '" + shell_join(words) + "'"));
  EXPECT_THAT(shell_join(start_command({StarterKind::hydra, "/usr/bin/mpiexec.hydra", "", ""}, request).words),
              HasSubstr("-launcher ssh -launcher-exec /tmp/x/agent "));
}

TEST(RemoteShell, ItsFailuresBecomeReasonsAndFixes) {
  RemoteOptions options;
  options.agents = true;
  const auto failure = explain_remote_failure(options, "h2", "noise\nerror: host h2: its agent has exited; start it\n");
  EXPECT_EQ(failure.reason, "its agent has exited");
  EXPECT_EQ(failure.fix, "start it");
  EXPECT_EQ(explain_remote_failure(options, "h2", "Killed\n").reason, "its remote shell says: Killed");
  options.agents = false;
  EXPECT_EQ(explain_remote_failure(options, "h2", "No route to host").reason, "there is no route to it");
}

}  // namespace
}  // namespace trireme::launch
