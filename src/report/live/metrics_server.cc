#include "report/live/metrics_server.h"

#include <fmt/format.h>
#include <httplib.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <cstring>
#include <deque>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/file.h"

namespace trireme {
namespace {

constexpr size_t kThreads = 2;
constexpr auto kPause = std::chrono::milliseconds(20);  // after an answer: at most 100 per second, however many ask
constexpr int kSeconds = 2;                             // to send or receive the next bytes
constexpr auto kLastAnswer = std::chrono::seconds(1);
constexpr int kLowestPriority = 19;

/// Connections wait outside, in the kernel's queue, while all threads answer.
class FewThreads : public httplib::TaskQueue {
 public:
  FewThreads() {
    for (size_t i = 0; i < kThreads; ++i) threads_.emplace_back([this] { run(); });
  }
  // bool since version 0.15 of the library, void before.
  using Queued = decltype(std::declval<httplib::TaskQueue&>().enqueue(std::function<void()>()));
  Queued enqueue(std::function<void()> task) override {
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return tasks_.size() < kThreads; });
      tasks_.push_back(std::move(task));
    }
    changed_.notify_all();
    return Queued(true);
  }
  void shutdown() override {
    {
      const std::lock_guard lock(mutex_);
      ends_ = true;
    }
    changed_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }

 private:
  void run() {
    while (true) {
      std::function<void()> task;
      {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [this] { return ends_ || !tasks_.empty(); });
        if (tasks_.empty()) return;
        task = std::move(tasks_.front());
        tasks_.pop_front();
      }
      changed_.notify_all();
      task();
      std::this_thread::sleep_for(kPause);
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> tasks_;
  bool ends_ = false;
  std::vector<std::thread> threads_;
};

/// Takes the same time wherever the two differ.
bool equal_secrets(std::string_view a, std::string_view b) {
  unsigned different = a.size() == b.size() ? 0 : 1;
  for (size_t i = 0; i < a.size(); ++i)
    different |= static_cast<unsigned>(a[i] ^ b[b.empty() ? 0 : i % b.size()]) & 0xFFU;
  return different == 0;
}

}  // namespace

std::string read_token(const std::string& path, const std::string& option) {
  std::string token = read_text(path, 1 << 16);
  token = token.substr(0, token.find_first_of("\r\n"));
  // Blanks around it do not arrive: Prometheus sends its file's text without them, and HTTP drops them.
  token = token.substr(std::min(token.find_first_not_of(" \t"), token.size()));
  token.erase(token.find_last_not_of(" \t") + 1);
  require(!token.empty(), ErrorKind::config, "{}: the first line of {} is empty, expected the token", option, path);
  return token;
}

struct MetricsServer::Implementation {
  httplib::Server server;
  std::string host, token;
  int port = 0;
  std::shared_ptr<const RunBoard> board;
  std::mutex mutex;
  std::condition_variable changed;
  bool ended = false;

  bool admits(const httplib::Request& request) const {
    return token.empty() || equal_secrets(request.get_header_value("Authorization"), "Bearer " + token) ||
           equal_secrets(request.get_param_value("token"), token);  // a browser's way
  }

  void answer(const httplib::Request& request, httplib::Response& response) const {
    if (!admits(request)) {
      response.status = 401;
      response.set_header("WWW-Authenticate", "Bearer");
      response.set_content("a token is required: Authorization: Bearer TOKEN, or ?token=TOKEN in a browser\n",
                           "text/plain");
      return;
    }
    // The page's script and style are in it, and it asks this server only.
    response.set_header(
        "Content-Security-Policy",
        "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'");
    response.set_header("Cache-Control", "no-store");
    if (request.path == "/") return response.set_content(board->page(), "text/html; charset=utf-8");
    if (request.path == "/body") return response.set_content(board->page_body(), "text/html; charset=utf-8");
    const MetricFormat format = format_for(request.get_header_value("Accept"));
    response.set_content(board->exposition(format), content_type(format));
  }
};

MetricsServer::MetricsServer(const ListenAddress& address, std::string token, std::shared_ptr<const RunBoard> board)
    : implementation_(std::make_shared<Implementation>()) {
  Implementation& it = *implementation_;
  it.host = address.host;
  it.token = std::move(token);
  it.board = std::move(board);
  it.server.new_task_queue = [] { return new FewThreads; };
  it.server.set_keep_alive_max_count(1);
  it.server.set_read_timeout(kSeconds, 0);
  it.server.set_write_timeout(kSeconds, 0);
  it.server.set_payload_max_length(0);
  it.server.set_socket_options([](socket_t socket) {  // without SO_REUSEPORT, by which two jobs would share the port
    const int yes = 1;
    setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  });
  for (const char* path : {"/", "/body", "/metrics"}) {
    it.server.Get(
        path, [&it](const httplib::Request& request, httplib::Response& response) { it.answer(request, response); });
  }
  errno = 0;
  it.port = address.port != 0 ? (it.server.bind_to_port(it.host.c_str(), address.port) ? address.port : -1)
                              : it.server.bind_to_any_port(it.host.c_str());
  const int reason = errno;
  require(it.port > 0, ErrorKind::io, "cannot listen on {}:{}: {}", address.host, address.port,
          reason != 0 ? std::strerror(reason) : "no such address on this host");

  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  std::thread([shared = implementation_] {
    setpriority(PRIO_PROCESS, static_cast<id_t>(syscall(SYS_gettid)), kLowestPriority);  // its threads inherit it
    shared->server.listen_after_bind();
    const std::lock_guard lock(shared->mutex);
    shared->ended = true;
    shared->changed.notify_all();
  }).detach();
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  std::unique_lock lock(it.mutex);
  while (!it.ended && !it.server.is_running()) it.changed.wait_for(lock, std::chrono::milliseconds(1));
}

MetricsServer::~MetricsServer() {
  implementation_->server.stop();
  std::unique_lock lock(implementation_->mutex);
  // A client that sends or reads a byte at a time keeps its thread longer: it ends with the process.
  implementation_->changed.wait_for(lock, kLastAnswer, [this] { return implementation_->ended; });
}

std::string MetricsServer::url() const {
  const bool colons = implementation_->host.find(':') != std::string::npos;
  return fmt::format("http://{}:{}/", colons ? "[" + implementation_->host + "]" : implementation_->host,
                     implementation_->port);
}

}  // namespace trireme
