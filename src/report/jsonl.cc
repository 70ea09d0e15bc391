// RUN/metrics.jsonl.

#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/json.h"
#include "base/json_text.h"
#include "report/append_file.h"
#include "report/sink.h"

namespace trireme {
namespace {

bool ends_within_a_line(const std::string& path) {
  if (!std::filesystem::is_regular_file(path)) return false;
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  if (!file || file.tellg() <= 0) return false;
  file.seekg(-1, std::ios::end);
  return file.get() != '\n';
}

/// Adds the values of all GPUs, then lists by rank.
void add_gpus(Json& record, const Metrics& m) {
  record["gpu_busy"] = m.gpu->busy;
  record["gpu_watts"] = m.gpu->watts;
  record["gpu_celsius"] = m.gpu->celsius;
  record["gpu_uncorrected_errors"] = m.gpu->errors;
  Json& ranks = record["gpus"];
  for (const GpuReading& gpu : m.gpus) {
    ranks["busy"].push_back(gpu.busy);
    ranks["watts"].push_back(gpu.watts);
    ranks["celsius"].push_back(gpu.celsius);
    ranks["memory_bytes"].push_back(gpu.memory_used);
    ranks["memory_size"].push_back(gpu.memory_size);
    ranks["uncorrected_errors"].push_back(gpu.errors);
    ranks["slowdowns"].push_back(slowdown_names(gpu.slowdowns));
  }
}

class JsonlSink : public Sink {
 public:
  JsonlSink(const std::string& path, uint64_t bytes) : file_(path), bytes_(bytes) {}
  std::string name() const override { return file_.path(); }

  void start(const AttemptStart& attempt) override {
    Json record = begin("start");
    record["first_step"] = attempt.first_step;
    record["steps"] = attempt.steps;
    record["loss_unit"] = name_of(attempt.unit);
    record["facts"] = Json::object();
    for (const auto& [name, value] : attempt.facts) record["facts"][name] = value;
    if (!attempt.configuration.empty())
      record["configuration"] = parse_json(attempt.configuration, "the configuration");
    for (const OptionFact& option : attempt.options) record["origins"][option.name] = option.origin;
    // A killed attempt may have left a partial line: a line break closes it, readers skip lines that are not JSON.
    end(record, ends_within_a_line(file_.path()) ? "\n" : "");
  }
  void step(const Metrics& m) override {
    Json record = begin("step", m.step);
    record["loss"] = m.loss;
    record["mean_loss"] = m.interval_loss;
    if (m.epoch) record["epoch"] = *m.epoch;
    if (m.perplexity) record["perplexity"] = *m.perplexity;
    record["learning_rate"] = m.learning_rate;
    record["gradient_norm"] = m.gradient_norm;
    record["tokens_per_second"] = m.tokens_per_second;
    record["samples_per_second"] = m.samples_per_second;
    record["flops_per_second"] = m.flops_per_second;
    record["ups"] = m.updates_per_second;
    record["ms_per_step"] = m.ms_per_step;
    record["exposed_share"] = m.exposed_share;
    record["mfu"] = m.mfu;
    record["samples"] = m.samples;
    record["tokens"] = m.tokens;
    record["skipped"] = m.skipped;
    for (const auto& [name, value] : m.values) record["metrics"][name] = value;
    if (m.loss_scale) record["loss_scale"] = *m.loss_scale;
    if (m.memory_bytes > 0) record["memory_bytes"] = m.memory_bytes;
    if (m.gpu_memory_size > 0) {
      record["gpu_memory_bytes"] = m.gpu_memory_bytes;
      record["gpu_memory_size"] = m.gpu_memory_size;
    }
    for (const double seconds : m.rank_seconds) record["rank_ms"].push_back(std::round(seconds * 1e5) / 100);
    if (m.gpu) add_gpus(record, m);
    end(record);
  }
  void evaluation(const EvaluationMetrics& m) override {
    Json record = begin("evaluation", m.step);
    if (m.train_loss) record["train_loss"] = *m.train_loss;
    if (m.validation_loss) {
      record["validation_loss"] = *m.validation_loss;
      if (m.unit == LossUnit::token) record["perplexity"] = std::exp(*m.validation_loss);
    }
    if (m.epoch) record["epoch"] = *m.epoch;
    for (const auto& [name, value] : m.values) record["metrics"][name] = value;
    record["seconds"] = m.seconds;
    record["best"] = m.best;
    end(record);
  }
  void test(const TestMetrics& m) override {
    Json record = begin("test", m.step);
    record["loss"] = m.loss;
    record["perplexity"] = std::exp(m.loss);
    record["seconds"] = m.seconds;
    end(record);
  }
  void checkpoint(const CheckpointEvent& event) override {
    Json record = begin("checkpoint", event.step);
    record["path"] = event.path;
    record["seconds"] = event.seconds;
    record["best"] = event.best;
    if (!event.parameters.empty()) record["parameters"] = event.parameters;
    if (event.place == CheckpointEvent::Place::local_disks) record["place"] = "local disks";
    if (event.place == CheckpointEvent::Place::copied) record["place"] = "copied";
    end(record);
  }
  void sample(const SampleText& sample) override {
    Json record = begin("sample", sample.step);
    record["prompt"] = sample.prompt;
    record["text"] = sample.text;
    end(record);
  }
  void finish(std::string_view state, int64_t step) override {
    Json record = begin("finish", step);
    record["state"] = state;
    end(record);
  }

 private:
  static Json begin(const char* kind) { return {{"record", kind}, {"time", std::round(unix_time() * 1000) / 1000}}; }
  static Json begin(const char* kind, int64_t step) {
    Json record = begin(kind);
    record["step"] = step;
    return record;
  }
  void end(const Json& record, std::string_view before = "") {
    std::string line(before);
    line += dump_json(record);  // non-finite numbers become null
    if (file_.size() >= bytes_) file_.rotate();
    file_.append(line += '\n');
  }

  AppendFile file_;
  uint64_t bytes_;  ///< after which it rotates
};

}  // namespace

std::unique_ptr<Sink> make_jsonl_sink(const std::string& path, uint64_t bytes) {
  return std::make_unique<JsonlSink>(path, bytes);
}

}  // namespace trireme
