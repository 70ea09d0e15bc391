#include "report/run_log.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/count.h"
#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/json_text.h"
#include "report/append_file.h"

namespace trireme {
namespace {

double number(const Json& record, const char* key) {
  const Json& value = record.at(key);
  return value.is_null() ? std::numeric_limits<double>::quiet_NaN() : value.get<double>();
}

/// Drops an earlier attempt's records of steps after `step`.
template <class Records>
void drop_after(Records& records, int64_t step) {
  std::erase_if(records, [&](const auto& record) { return record.step > step; });
}

std::string plain_text(const Json& value) {
  return value.is_string() ? value.get<std::string>() : dump_valid_json(value);
}

/// A record's "configuration" as ("group.option", value).
RunFacts flattened(const Json& configuration) {
  RunFacts options;
  for (const auto& [group, members] : configuration.items()) {
    for (const auto& [name, value] : members.items()) options.emplace_back(group + "." + name, plain_text(value));
  }
  return options;
}

void read_start(const Json& record, RunLog& log) {
  AttemptLog attempt;
  attempt.first_step = attempt.last_step = record.at("first_step").get<int64_t>();
  attempt.started = attempt.ended = number(record, "time");
  RunFacts facts;
  for (const auto& [name, value] : record.at("facts").items()) facts.emplace_back(name, value.get<std::string>());
  log.total_steps = record.at("steps").get<int64_t>();
  const std::string unit = record.value("loss_unit", "");  // logs of the first releases have losses per token
  log.unit = LossUnit::token;
  for (const LossUnit other : {LossUnit::row, LossUnit::pair, LossUnit::squared_error}) {
    if (unit == name_of(other)) log.unit = other;
  }
  log.facts = std::move(facts);
  log.configuration = flattened(record.value("configuration", Json::object()));
  log.origins.clear();
  const Json origins = record.value("origins", Json::object());  // must outlive its items()
  for (const auto& [option, origin] : origins.items()) log.origins.emplace_back(option, plain_text(origin));
  log.attempts.push_back(attempt);
  drop_after(log.steps, attempt.first_step);
  drop_after(log.evaluations, attempt.first_step);
  drop_after(log.tests, attempt.first_step);
  drop_after(log.checkpoints, attempt.first_step);
  drop_after(log.samples, attempt.first_step);
}

/// "metrics" of a record.
NamedValues read_measures(const Json& record) {
  NamedValues values;
  if (!record.contains("metrics")) return values;
  for (const auto& [name, value] : record.at("metrics").items())
    values.emplace_back(name, value.is_null() ? std::numeric_limits<double>::quiet_NaN() : value.get<double>());
  return values;
}

Metrics read_step(const Json& record) {
  Metrics m;
  m.step = record.at("step").get<int64_t>();
  m.loss = number(record, "loss");
  m.learning_rate = number(record, "learning_rate");
  m.gradient_norm = number(record, "gradient_norm");
  m.tokens_per_second = number(record, "tokens_per_second");
  m.ms_per_step = number(record, "ms_per_step");
  m.exposed_share = number(record, "exposed_share");
  m.mfu = number(record, "mfu");
  m.samples = record.at("samples").get<uint64_t>();
  m.tokens = record.at("tokens").get<uint64_t>();
  m.skipped = record.at("skipped").get<int64_t>();
  if (record.contains("perplexity")) m.perplexity = number(record, "perplexity");
  if (record.contains("epoch")) m.epoch = number(record, "epoch");
  m.interval_loss = record.contains("mean_loss") ? number(record, "mean_loss") : m.loss;
  if (record.contains("loss_scale")) m.loss_scale = number(record, "loss_scale");
  m.values = read_measures(record);
  // Missing in logs of the first releases.
  if (record.contains("rank_ms")) m.slowest = slowest_of(record.at("rank_ms").get<std::vector<double>>());
  m.memory_bytes = record.value("memory_bytes", uint64_t{0});
  m.gpu_memory_bytes = record.value("gpu_memory_bytes", uint64_t{0});
  m.gpu_memory_size = record.value("gpu_memory_size", uint64_t{0});
  if (record.contains("gpu_busy")) {
    m.gpu = GpuSummary{.busy = number(record, "gpu_busy"),
                       .watts = number(record, "gpu_watts"),
                       .celsius = number(record, "gpu_celsius"),
                       .errors = number(record, "gpu_uncorrected_errors")};
  }
  if (record.contains("ups")) m.updates_per_second = number(record, "ups");
  if (record.contains("samples_per_second")) m.samples_per_second = number(record, "samples_per_second");
  if (record.contains("flops_per_second")) m.flops_per_second = number(record, "flops_per_second");
  return m;
}

/// Running time of all attempts up to the record.
double seconds_before(const Json& record, const RunLog& log) {
  if (log.attempts.empty()) return 0;
  double seconds = number(record, "time") - log.attempts.back().started;
  for (size_t i = 0; i + 1 < log.attempts.size(); ++i) seconds += log.attempts[i].ended - log.attempts[i].started;
  return seconds;
}

EvaluationMetrics read_evaluation(const Json& record, LossUnit unit) {
  EvaluationMetrics m;
  m.unit = unit;
  m.step = record.at("step").get<int64_t>();
  if (record.contains("train_loss")) m.train_loss = number(record, "train_loss");
  if (record.contains("validation_loss")) m.validation_loss = number(record, "validation_loss");
  m.seconds = number(record, "seconds");
  m.best = record.at("best").get<bool>();
  if (record.contains("epoch")) m.epoch = number(record, "epoch");
  m.values = read_measures(record);
  return m;
}

void read_record(const Json& record, RunLog& log) {
  const auto kind = record.at("record").get<std::string>();
  if (kind == "start") return read_start(record, log);
  const auto step = record.at("step").get<int64_t>();
  if (kind == "step") {
    log.steps.push_back(read_step(record));
    log.steps.back().seconds_run = seconds_before(record, log);
  } else if (kind == "evaluation") {
    log.evaluations.push_back(read_evaluation(record, log.unit));
  } else if (kind == "test") {
    log.tests.push_back({step, number(record, "loss"), number(record, "seconds")});
  } else if (kind == "checkpoint" && record.value("place", "") != "local disks") {
    log.checkpoints.push_back(
        {step, record.at("path").get<std::string>(), number(record, "seconds"), record.at("best").get<bool>()});
  } else if (kind == "sample") {
    log.samples.push_back({step, record.at("prompt").get<std::string>(), record.at("text").get<std::string>()});
  } else if (kind == "finish" && !log.attempts.empty()) {
    log.attempts.back().state = record.at("state").get<std::string>();
  }
  if (log.attempts.empty()) return;
  log.attempts.back().last_step = std::max(log.attempts.back().last_step, step);
  log.attempts.back().ended = number(record, "time");
}

/// Returns the number of records in the file.
size_t read_file(const std::string& path, RunLog& log) {
  const MappedFile file(path);
  size_t records = 0;
  for (std::string_view rest = file.text(); !rest.empty();) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(rest.size(), line.size() + 1));
    if (line.empty()) continue;
    try {
      read_record(parse_json(line, path), log);
      ++records;
    } catch (const Error&) {
      ++log.bad_lines;
    } catch (const Json::exception&) {  // JSON, but not a run's record
      ++log.bad_lines;
    }
  }
  return records;
}

}  // namespace

RunFacts options_of(const std::string& configuration) {
  return configuration.empty() ? RunFacts() : flattened(parse_json(configuration, "the configuration"));
}

double median_speed(const std::vector<Metrics>& steps) {
  std::vector<double> speeds;
  for (const Metrics& m : steps) {
    if (std::isfinite(m.tokens_per_second)) speeds.push_back(m.tokens_per_second);
  }
  if (speeds.empty()) return 0;
  const auto middle = speeds.begin() + static_cast<std::ptrdiff_t>(speeds.size() / 2);
  std::nth_element(speeds.begin(), middle, speeds.end());
  return *middle;
}

double seconds_run(const RunLog& log) {
  double seconds = 0;
  for (const AttemptLog& attempt : log.attempts) seconds += attempt.ended - attempt.started;
  return seconds;
}

const EvaluationMetrics* best_evaluation(const RunLog& log) {
  const EvaluationMetrics* best = nullptr;
  for (const EvaluationMetrics& m : log.evaluations) {
    if (!m.validation_loss || std::isnan(*m.validation_loss)) continue;
    if (best == nullptr || *m.validation_loss < *best->validation_loss) best = &m;
  }
  return best;
}

RunLog read_run_log(const std::string& path) {
  RunLog log;
  size_t records = 0;
  for (int older = kOlderLogs; older > 0; --older) {
    if (std::filesystem::exists(older_log(path, older))) records += read_file(older_log(path, older), log);
  }
  records += read_file(path, log);
  require(records > 0, ErrorKind::data, "{} holds no records of a run ({} in other formats)", path,
          count_text(log.bad_lines, "line"));
  return log;
}

}  // namespace trireme
