#include "report/sink.h"

#include <curl/curl.h>
#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <csignal>
#include <cstdlib>
#include <deque>
#include <filesystem>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#include "base/count.h"
#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/json_text.h"
#include "base/log.h"
#include "base/time.h"
#include "base/web_address.h"
#include "hub/http.h"

namespace trireme {
namespace {

constexpr size_t kMostQueued = 50'000;                             // numbers: hours of a usual run, 5 MB
constexpr size_t kPerRequest = 1000, kParametersPerRequest = 100;  // the API's limits
constexpr size_t kMostValueBytes = 500;                            // of a parameter, the least of the API's versions
constexpr long kConnectSeconds = 5, kAnswerSeconds = 10;
constexpr size_t kMostAnswerBytes = size_t{4} << 20;
constexpr double kWholeAnswerSeconds = 60;
constexpr double kMostRetrySeconds = 60;
constexpr int kLowestPriority = 19;

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

int64_t milliseconds() { return static_cast<int64_t>(unix_time() * 1000); }

/// JSON has no NaN; the API reads these texts.
Json number(double value) {
  if (std::isfinite(value)) return value;
  return std::isnan(value) ? "NaN" : value > 0 ? "Infinity" : "-Infinity";
}

/// At most kMostValueBytes, cut between characters.
std::string cut(std::string text) {
  if (text.size() <= kMostValueBytes) return text;
  size_t end = kMostValueBytes;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80U) --end;
  text.resize(end);
  return text;
}

/// A request that failed.
class Failure : public std::runtime_error {
 public:
  Failure(const std::string& what, int status) : std::runtime_error(what), status_(status) {}
  int status() const { return status_; }  ///< 0: no answer
  /// The same request would fail again.
  bool is_final() const { return status_ == 400 || status_ == 413 || status_ == 422; }

 private:
  int status_;
};

class Client {
 public:
  explicit Client(const MlflowOptions& options) : curl_(hub::open_curl()) {
    const HttpAddress address = parse_http_address(options.url).value();
    api_ = address.origin + address.path + "/api/2.0/mlflow/";
  }
  ~Client() { curl_easy_cleanup(curl_); }
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  /// Throws Failure.
  Json post(const std::string& call, const Json& body) {
    const std::string text = dump_json(body);
    return answer(call, &text);
  }
  Json get(const std::string& call) { return answer(call, nullptr); }

  /// For a place in a URL.
  std::string escaped(const std::string& text) const {
    const std::unique_ptr<char, decltype(&curl_free)> out(
        curl_easy_escape(curl_, text.data(), static_cast<int>(text.size())), &curl_free);
    return out ? out.get() : "";
  }

 private:
  struct Reply {
    std::chrono::steady_clock::time_point start = Clock::now();
    std::string body;
    bool too_much = false;
  };

  static size_t on_body(char* data, size_t, size_t size, void* to) {
    Reply& reply = *static_cast<Reply*>(to);
    reply.too_much = reply.body.size() + size > kMostAnswerBytes || seconds_since(reply.start) > kWholeAnswerSeconds;
    if (!reply.too_much) reply.body.append(data, size);
    return reply.too_much ? 0 : size;
  }

  /// body: of a POST, else nullptr.
  Json answer(const std::string& call, const std::string* body) {
    const std::string name = call.substr(0, call.find('?'));
    const auto set = [&](CURLoption option, auto value) { curl_easy_setopt(curl_, option, value); };
    curl_easy_reset(curl_);  // keeps the connection
    set(CURLOPT_URL, (api_ + call).c_str());
    set(CURLOPT_PROTOCOLS_STR, "http,https");
    set(CURLOPT_NOSIGNAL, 1L);
    set(CURLOPT_PROXY, "");
    set(CURLOPT_CONNECTTIMEOUT, kConnectSeconds);
    set(CURLOPT_LOW_SPEED_LIMIT, 1L);
    set(CURLOPT_LOW_SPEED_TIME, kAnswerSeconds);
    const std::string named = variable("SSL_CERT_FILE"), found = named.empty() ? hub::system_certificates() : named;
    if (!found.empty()) set(CURLOPT_CAINFO, found.c_str());
    if (const std::string token = variable("MLFLOW_TRACKING_TOKEN"); !token.empty()) {
      set(CURLOPT_HTTPAUTH, CURLAUTH_BEARER);
      set(CURLOPT_XOAUTH2_BEARER, token.c_str());
    } else if (const std::string user = variable("MLFLOW_TRACKING_USERNAME"); !user.empty()) {
      set(CURLOPT_HTTPAUTH, CURLAUTH_BASIC);
      set(CURLOPT_USERNAME, user.c_str());
      set(CURLOPT_PASSWORD, variable("MLFLOW_TRACKING_PASSWORD").c_str());
    }
    if (body != nullptr) {
      set(CURLOPT_POSTFIELDSIZE, static_cast<long>(body->size()));
      set(CURLOPT_POSTFIELDS, body->data());
    }
    curl_slist* headers = curl_slist_append(nullptr, "Content-Type: application/json");
    headers = curl_slist_append(headers, "Expect:");  // no server here wants to be asked first
    set(CURLOPT_HTTPHEADER, headers);
    Reply reply;
    set(CURLOPT_WRITEFUNCTION, &Client::on_body);
    set(CURLOPT_WRITEDATA, &reply);
    const CURLcode code = curl_easy_perform(curl_);
    curl_slist_free_all(headers);
    if (reply.too_much) {
      throw Failure(fmt::format("{}: the answer is longer than {} MiB or takes longer than {:.0f} s", name,
                                kMostAnswerBytes >> 20, kWholeAnswerSeconds),
                    0);
    }
    if (code != CURLE_OK) throw Failure(fmt::format("{}: no answer ({})", name, curl_easy_strerror(code)), 0);
    long status = 0;
    curl_easy_getinfo(curl_, CURLINFO_RESPONSE_CODE, &status);
    Json json;
    try {
      json = parse_json(reply.body, name);
    } catch (const Error&) {  // a proxy's page
    }
    if (status == 200) return json;
    const bool explained = json.is_object() && json.contains("message") && json["message"].is_string();
    throw Failure(fmt::format("{}: status {}{}", name, status,
                              explained ? ": " + json["message"].get<std::string>().substr(0, 300) : ""),
                  static_cast<int>(status));
  }

  std::string api_;
  CURL* curl_;
};

struct Point {
  std::string key;
  double value;
  int64_t time, step;
};

}  // namespace

/// Shared by the sink and its thread, which may outlive the sink while it waits for an answer.
struct MlflowQueue {
  explicit MlflowQueue(MlflowOptions of) : options(std::move(of)) {}

  const MlflowOptions options;
  std::mutex mutex;
  std::condition_variable changed;
  std::optional<AttemptStart> attempt;
  int64_t started = 0, ended = 0;
  std::deque<Point> points;
  size_t lost = 0;
  std::string end_status;  ///< empty: the run has not ended
  bool ends = false, finished = false;
  bool abandoned = false;  ///< the sink has reported what was not sent
};

namespace {

/// The thread's side.
class Sender {
 public:
  explicit Sender(std::shared_ptr<MlflowQueue> queue)
      : queue_(std::move(queue)), client_(queue_->options), pause_(queue_->options.retry_seconds) {}

  void run() {
    while (wait_for_work()) {
      try {
        if (run_id_.empty()) open();
        send_points();
        if (ready_to_close()) {
          close();
          break;
        }
      } catch (const std::exception& error) {  // Failure, the file of the id, an answer without an id
        if (!survive(error.what())) break;
      }
    }
    const std::lock_guard lock(queue_->mutex);
    queue_->finished = true;
    queue_->changed.notify_all();
  }

 private:
  /// False: the run has ended, and there is nothing to send.
  bool wait_for_work() {
    std::unique_lock lock(queue_->mutex);
    queue_->changed.wait(
        lock, [&] { return queue_->ends || (queue_->attempt && (run_id_.empty() || !queue_->points.empty())); });
    return queue_->attempt.has_value();
  }

  bool ready_to_close() {
    const std::lock_guard lock(queue_->mutex);
    return queue_->ends && queue_->points.empty();
  }

  std::string experiment_id() {
    const std::string name = queue_->options.experiment;
    try {
      return client_.get("experiments/get-by-name?experiment_name=" + client_.escaped(name))
          .at("experiment")
          .at("experiment_id")
          .get<std::string>();
    } catch (const Failure& failure) {
      if (failure.status() != 404) throw;
    }
    return client_.post("experiments/create", {{"name", name}}).at("experiment_id").get<std::string>();
  }

  /// The id that an earlier attempt kept for this server, if the server still has the run.
  std::string resumed_id() {
    const std::string& file = queue_->options.id_file;
    if (queue_->attempt->first_step == 0 || file.empty() || !std::filesystem::exists(file)) return "";
    const Json kept = read_json(file);
    if (kept.value("url", "") != queue_->options.url) return "";
    const std::string id = kept.value("run_id", "");
    try {
      client_.post("runs/update", {{"run_id", id}, {"status", "RUNNING"}});
    } catch (const Failure& failure) {
      if (failure.status() != 404 && failure.status() != 400) throw;
      return "";
    }
    return id;
  }

  void open() {
    std::string id = resumed_id();
    if (id.empty()) {
      Json tags = Json::array({{{"key", "mlflow.source.name"}, {"value", "trireme"}}});
      for (const auto& [name, value] : queue_->attempt->facts)
        tags.push_back({{"key", "trireme." + name}, {"value", cut(value)}});
      const Json made = client_.post("runs/create", {{"experiment_id", experiment_id()},
                                                     {"run_name", queue_->options.run_name},
                                                     {"start_time", queue_->started},
                                                     {"tags", tags}});
      id = made.at("run").at("info").at("run_id").get<std::string>();
      send_parameters(id);  // they cannot be changed later
      if (!queue_->options.id_file.empty())
        write_text(queue_->options.id_file, dump_json({{"url", queue_->options.url}, {"run_id", id}}) + "\n");
    }
    run_id_ = id;
    log::info("MLflow: run {} of experiment {} at {}", id, queue_->options.experiment, queue_->options.url);
  }

  void send_parameters(const std::string& id) {
    if (queue_->attempt->configuration.empty()) return;
    Json parameters = Json::array();
    const auto flush = [&] {
      if (!parameters.empty()) client_.post("runs/log-batch", {{"run_id", id}, {"params", parameters}});
      parameters = Json::array();
    };
    const Json configuration = parse_json(queue_->attempt->configuration, "the configuration");
    for (const auto& [group, members] : configuration.items()) {
      for (const auto& [name, value] : members.items()) {
        const std::string text = value.is_string() ? value.get<std::string>() : dump_json(value);
        if (text.empty()) continue;  // the API has no empty values
        parameters.push_back({{"key", group + "." + name}, {"value", cut(text)}});
        if (parameters.size() == kParametersPerRequest) flush();
      }
    }
    flush();
  }

  void send_points() {
    while (true) {
      std::vector<Point> batch;
      {
        const std::lock_guard lock(queue_->mutex);
        const auto count = static_cast<std::ptrdiff_t>(std::min(queue_->points.size(), kPerRequest));
        batch.assign(queue_->points.begin(), queue_->points.begin() + count);
      }
      if (batch.empty()) return;
      Json metrics = Json::array();
      for (const Point& point : batch)
        metrics.push_back(
            {{"key", point.key}, {"value", number(point.value)}, {"timestamp", point.time}, {"step", point.step}});
      try {
        client_.post("runs/log-batch", {{"run_id", run_id_}, {"metrics", metrics}});
      } catch (const Failure& failure) {
        if (failure.is_final()) drop(batch.size(), true);
        throw;
      }
      drop(batch.size(), false);
      recovered();
    }
  }

  void drop(size_t count, bool lost) {
    const std::lock_guard lock(queue_->mutex);
    count = std::min(count, queue_->points.size());  // a full queue has dropped some meanwhile
    queue_->points.erase(queue_->points.begin(), queue_->points.begin() + static_cast<std::ptrdiff_t>(count));
    if (lost) queue_->lost += count;
  }

  void close() {
    client_.post("runs/update", {{"run_id", run_id_},
                                 {"status", queue_->end_status.empty() ? "FAILED" : queue_->end_status},
                                 {"end_time", queue_->ended == 0 ? milliseconds() : queue_->ended}});
  }

  /// Warns once, waits. False: the run has ended, so it does not try again.
  bool survive(const std::string& reason) {
    bool reported = false;
    {
      const std::lock_guard lock(queue_->mutex);
      reported = queue_->abandoned;
    }
    if (!warned_ && !reported)  // without the lock, for which a step would wait
      log::warning("log.mlflow: {}: {}; training continues without it; what is missing is sent when it answers",
                   queue_->options.url, reason);
    warned_ = failing_ = true;
    std::unique_lock lock(queue_->mutex);
    if (queue_->ends) return false;
    queue_->changed.wait_for(lock, std::chrono::duration<double>(pause_), [&] { return queue_->ends; });
    pause_ = std::min(2 * pause_, kMostRetrySeconds);
    return true;
  }

  void recovered() {
    if (!std::exchange(failing_, false)) return;
    pause_ = queue_->options.retry_seconds;
    size_t lost = 0;
    {
      const std::lock_guard lock(queue_->mutex);
      lost = std::exchange(queue_->lost, 0);
    }
    log::info("log.mlflow: {} answers again{}", queue_->options.url,
              lost > 0 ? fmt::format("; {} lost", count_text(lost, "number")) : "");
  }

  std::shared_ptr<MlflowQueue> queue_;
  Client client_;
  std::string run_id_;
  double pause_;
  bool warned_ = false, failing_ = false;
};

class MlflowSink : public Sink {
 public:
  explicit MlflowSink(MlflowOptions options) : queue_(std::make_shared<MlflowQueue>(std::move(options))) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    std::thread([queue = queue_, identity = log::identity()] {
      const log::ThreadIdentity as_starter(identity);
      setpriority(PRIO_PROCESS, static_cast<id_t>(syscall(SYS_gettid)), kLowestPriority);
      Sender(queue).run();
    }).detach();
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
  }
  ~MlflowSink() override {
    std::unique_lock lock(queue_->mutex);
    queue_->ends = true;
    queue_->changed.notify_all();
    // A server that answers a byte at a time keeps the thread longer: it ends with the process.
    queue_->changed.wait_for(lock, std::chrono::duration<double>(queue_->options.last_seconds),
                             [&] { return queue_->finished; });
    queue_->abandoned = true;
    const size_t unsent = queue_->points.size() + queue_->lost;
    lock.unlock();
    if (unsent > 0)
      log::warning("log.mlflow: {} of this run were not sent to {}; RUN/metrics.jsonl has all",
                   count_text(unsent, "number"), queue_->options.url);
  }
  std::string name() const override { return queue_->options.url; }

  void start(const AttemptStart& attempt) override {
    const std::lock_guard lock(queue_->mutex);
    queue_->attempt = attempt;
    queue_->started = milliseconds();
    queue_->changed.notify_all();
  }
  void step(const Metrics& m) override {
    NamedValues values{{"loss", m.loss},
                       {"learning_rate", m.learning_rate},
                       {"gradient_norm", m.gradient_norm},
                       {"tokens_per_second", m.tokens_per_second},
                       {"samples_per_second", m.samples_per_second},
                       {"ms_per_step", m.ms_per_step},
                       {"exposed_share", m.exposed_share},
                       {"mfu", m.mfu},
                       {"samples", static_cast<double>(m.samples)},
                       {"tokens", static_cast<double>(m.tokens)},
                       {"skipped", static_cast<double>(m.skipped)},
                       {"memory_bytes", static_cast<double>(m.memory_bytes)}};
    if (m.gpu) {
      values.insert(values.end(), {{"gpu_busy", m.gpu->busy},
                                   {"gpu_watts", m.gpu->watts},
                                   {"gpu_celsius", m.gpu->celsius},
                                   {"gpu_uncorrected_errors", m.gpu->errors}});
    }
    for (const auto& [name, value] : m.values) values.emplace_back("train/" + name, value);
    add(m.step, values);
  }
  void evaluation(const EvaluationMetrics& m) override {
    NamedValues values = m.values;
    if (m.train_loss) values.emplace_back("train_loss", *m.train_loss);
    if (m.validation_loss) values.emplace_back("validation_loss", *m.validation_loss);
    if (m.epoch) values.emplace_back("epoch", *m.epoch);
    add(m.step, values);
  }
  void test(const TestMetrics& m) override { add(m.step, {{"test_loss", m.loss}}); }
  void checkpoint(const CheckpointEvent& event) override { add(event.step, {{"checkpoint_seconds", event.seconds}}); }
  void sample(const SampleText&) override {}  // a number is what the API has
  void finish(std::string_view state, int64_t) override {
    const std::lock_guard lock(queue_->mutex);
    queue_->end_status = state == "done" ? "FINISHED" : state == "stopped" ? "KILLED" : "FAILED";
    queue_->ended = milliseconds();
  }

 private:
  void add(int64_t step, const NamedValues& values) {
    const int64_t now = milliseconds();
    const std::lock_guard lock(queue_->mutex);
    for (const auto& [name, value] : values) queue_->points.push_back({name, value, now, step});
    while (queue_->points.size() > kMostQueued) {
      queue_->points.pop_front();
      ++queue_->lost;
    }
    queue_->changed.notify_all();
  }

  std::shared_ptr<MlflowQueue> queue_;
};

}  // namespace

std::unique_ptr<Sink> make_mlflow_sink(MlflowOptions options) {
  return std::make_unique<MlflowSink>(std::move(options));
}

}  // namespace trireme
