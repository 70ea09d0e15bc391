#include "report/live/run_board.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <tuple>
#include <utility>

#include "base/error.h"
#include "base/file.h"
#include "base/time.h"
#include "report/append_file.h"
#include "report/live/live_page.h"

namespace trireme {
namespace {

using Kind = MetricFamily::Kind;

/// Seconds: from a tenth of a fast step to a step of minutes.
std::vector<double> step_bounds() {
  return {0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 25, 50, 100, 250};
}

MetricLabels labels_of(std::string run, std::string job) {
  MetricLabels labels{{"run", std::move(run)}};
  if (!job.empty()) labels.emplace_back("slurm_job", std::move(job));
  return labels;
}

/// The name of a fact as a label's.
std::string label_name(std::string_view name) {
  std::string label;
  for (const char c : name) label += std::isalnum(static_cast<unsigned char>(c)) != 0 ? c : '_';
  // Names that begin with two underscores are Prometheus' own.
  const bool plain = !label.empty() && std::isalpha(static_cast<unsigned char>(label[0])) != 0;
  return plain ? label : "fact_" + label;
}

class Families {
 public:
  MetricFamily& add(std::string name, Kind kind, std::string unit, std::string help) {
    return list_.emplace_back(MetricFamily{
        .name = "trireme_" + std::move(name), .kind = kind, .unit = std::move(unit), .help = std::move(help)});
  }
  void add(MetricFamily family) { list_.push_back(std::move(family)); }
  void gauge(std::string name, std::string unit, std::string help, double value) {
    add(std::move(name), Kind::gauge, std::move(unit), std::move(help)).samples.push_back({value});
  }
  void counter(std::string name, std::string unit, std::string help, double value) {
    add(std::move(name), Kind::counter, std::move(unit), std::move(help)).samples.push_back({value});
  }
  std::vector<MetricFamily> take() { return std::move(list_); }

 private:
  std::vector<MetricFamily> list_;
};

/// Adds each rank's GPU: where its driver's library says nothing, the memory of rank 0's.
void add_gpus(Families& out, const Metrics& m) {
  std::vector<GpuReading> gpus = m.gpus;
  if (gpus.empty() && m.gpu_memory_size > 0) gpus.emplace_back();
  if (!gpus.empty() && !gpus[0].known() && m.gpu_memory_size > 0) {
    gpus[0].memory_used = static_cast<double>(m.gpu_memory_bytes);
    gpus[0].memory_size = static_cast<double>(m.gpu_memory_size);
  }
  const auto add = [&](const char* name, Kind kind, const char* unit, const char* help, double GpuReading::*field) {
    MetricFamily family{.name = std::string("trireme_gpu_") + name, .kind = kind, .unit = unit, .help = help};
    for (size_t rank = 0; rank < gpus.size(); ++rank) {
      const double value = gpus[rank].*field;
      if (!std::isnan(value)) family.samples.push_back({value, {{"rank", std::to_string(rank)}}});
    }
    if (!family.samples.empty()) out.add(std::move(family));
  };
  add("memory_used_bytes", Kind::gauge, "bytes", "Memory in use of the rank's GPU, by all its programs.",
      &GpuReading::memory_used);
  add("memory_size_bytes", Kind::gauge, "bytes", "Memory of the rank's GPU.", &GpuReading::memory_size);
  add("busy_ratio", Kind::gauge, "ratio", "Part of the last log interval in which a kernel ran on the rank's GPU.",
      &GpuReading::busy);
  add("power_watts", Kind::gauge, "watts", "Power of the rank's GPU, mean over the last log interval.",
      &GpuReading::watts);
  add("temperature_celsius", Kind::gauge, "celsius", "Highest temperature of the rank's GPU in the last log interval.",
      &GpuReading::celsius);
  add("uncorrected_errors", Kind::counter, "",
      "Memory errors that ECC could not correct since the driver of the rank's GPU was loaded.", &GpuReading::errors);
  MetricFamily slow{.name = "trireme_gpu_clock_slowdown",
                    .kind = Kind::gauge,
                    .unit = "",
                    .help = "1 for each reason that held down the clocks of the rank's GPU in the last log interval."};
  for (size_t rank = 0; rank < gpus.size(); ++rank) {
    for (const std::string& reason : slowdown_names(gpus[rank].slowdowns))
      slow.samples.push_back({1, {{"rank", std::to_string(rank)}, {"reason", reason}}});
  }
  if (!slow.samples.empty()) out.add(std::move(slow));
}

void add_rank_times(Families& out, const std::vector<double>& seconds) {
  if (seconds.empty()) return;
  MetricFamily& busy = out.add("rank_busy_seconds", Kind::gauge, "seconds",
                               "Time of the rank's own work per step, without waiting, over the last log interval.");
  for (size_t rank = 0; rank < seconds.size(); ++rank)
    busy.samples.push_back({seconds[rank], {{"rank", std::to_string(rank)}}});
}

void add_step(Families& out, const Metrics& m) {
  out.gauge("loss", "", "Training loss of the last logged step.", m.loss);
  out.gauge("learning_rate", "", "Learning rate of the last logged step.", m.learning_rate);
  out.gauge("gradient_norm", "", "Norm of the gradients before clipping, of the last logged step.", m.gradient_norm);
  out.counter("tokens", "", "Tokens consumed since step 0.", static_cast<double>(m.tokens));
  out.counter("samples", "", "Samples consumed since step 0.", static_cast<double>(m.samples));
  out.counter("skipped_steps", "", "Steps skipped since step 0: not finite, or a spike.",
              static_cast<double>(m.skipped));
  if (m.loss_scale) out.gauge("loss_scale", "", "Factor of the loss in f16, of the next step.", *m.loss_scale);
  out.gauge("tokens_per_second", "", "Tokens per second over the last log interval.", m.tokens_per_second);
  out.gauge("samples_per_second", "", "Samples per second over the last log interval.", m.samples_per_second);
  out.gauge("step_seconds", "seconds", "Mean time of a step over the last log interval.", m.ms_per_step / 1e3);
  out.gauge("flops_per_second", "", "Arithmetic of the model per second, of all ranks.", m.flops_per_second);
  out.gauge("mfu_ratio", "ratio", "Model FLOPs utilization: arithmetic per second divided by the ranks' peak.", m.mfu);
  out.gauge("exposed_communication_ratio", "ratio", "Part of the last log interval that rank 0 waited for others.",
            m.exposed_share);
  if (!m.values.empty()) {
    MetricFamily& measures =
        out.add("step_measure", Kind::gauge, "", "Measures of the task over the last log interval.");
    for (const auto& [name, value] : m.values) measures.samples.push_back({value, {{"measure", name}}});
  }
  if (m.memory_bytes > 0)
    out.gauge("resident_memory_bytes", "bytes", "Resident memory of rank 0.", static_cast<double>(m.memory_bytes));
  add_rank_times(out, m.rank_seconds);
  add_gpus(out, m);
}

void add_evaluation(Families& out, const EvaluationMetrics& e) {
  out.gauge("evaluation_step", "", "Step of the last evaluation.", static_cast<double>(e.step));
  out.gauge("evaluation_seconds", "seconds", "Duration of the last evaluation.", e.seconds);
  if (e.validation_loss)
    out.gauge("validation_loss", "", "Loss on the validation data at the last evaluation.", *e.validation_loss);
  if (e.train_loss)
    out.gauge("evaluated_train_loss", "", "Loss on fixed windows of the training data at the last evaluation.",
              *e.train_loss);
  if (e.epoch) out.gauge("epoch", "", "Epochs done at the last evaluation.", *e.epoch);
  if (e.values.empty()) return;
  MetricFamily& measures =
      out.add("evaluation_measure", Kind::gauge, "", "Measures of the task at the last evaluation.");
  for (const auto& [name, value] : e.values) measures.samples.push_back({value, {{"measure", name}}});
}

void add_ranks(Families& out, const std::vector<RankView>& ranks) {
  MetricFamily& up = out.add("rank_up", Kind::gauge, "", "1 if the rank is connected to rank 0.");
  for (const RankView& r : ranks)
    up.samples.push_back({r.connected ? 1.0 : 0.0, {{"rank", std::to_string(r.rank)}, {"host", r.host}}});
  MetricFamily& steps = out.add("rank_step", Kind::gauge, "", "Steps done by the rank, as rank 0 last heard.");
  for (const RankView& r : ranks)
    steps.samples.push_back({static_cast<double>(r.step), {{"rank", std::to_string(r.rank)}, {"host", r.host}}});
  MetricFamily& waits = out.add("rank_wait_seconds", Kind::gauge, "seconds",
                                "Time that the rank has been waiting for others in its current collective operation.");
  for (const RankView& r : ranks)
    waits.samples.push_back({r.waited, {{"rank", std::to_string(r.rank)}, {"host", r.host}}});
}

}  // namespace

RunBoard::RunBoard(std::string run, std::string job, int ranks, int restarts)
    : labels_(labels_of(std::move(run), std::move(job))),
      size_(ranks),
      restarts_(restarts),
      started_(unix_time()),
      step_seconds_(step_bounds()),
      waited_seconds_(step_bounds()) {}

void RunBoard::watch(std::function<std::vector<RankView>()> ranks) {
  const std::lock_guard lock(mutex_);
  ranks_ = std::move(ranks);
}

void RunBoard::start(const AttemptStart& attempt) {
  const std::lock_guard lock(mutex_);
  started_attempt_ = true;
  steps_done_ = attempt.first_step;
  trains_ = true;
  history_.start(attempt, unix_time());
}

void RunBoard::step(const Metrics& metrics) {
  const std::lock_guard lock(mutex_);
  step_ = metrics;
  recorded_ = unix_time();
  Metrics kept = metrics;  // of many steps: without what only the last one shows
  kept.gpus.clear();
  kept.rank_seconds.clear();
  history_.step(kept, recorded_);
}

void RunBoard::evaluation(const EvaluationMetrics& metrics) {
  const std::lock_guard lock(mutex_);
  evaluation_ = metrics;
  history_.evaluation(metrics, unix_time());
}

void RunBoard::test(const TestMetrics& metrics) {
  const std::lock_guard lock(mutex_);
  test_ = metrics;
  history_.test(metrics);
}

void RunBoard::checkpoint(const CheckpointEvent& event) {
  const std::lock_guard lock(mutex_);
  checkpoint_ = event;
  published_ = unix_time();
  ++checkpoints_;
  history_.checkpoint(event);
}

void RunBoard::sample(const SampleText& sample) {
  const std::lock_guard lock(mutex_);
  history_.sample(sample);
}

void RunBoard::set_earlier(RunLog log) {
  const std::lock_guard lock(mutex_);
  history_.set_earlier(std::move(log));
}

void RunBoard::finish(std::string_view state) {
  const std::lock_guard lock(mutex_);
  trains_ = state == "rolled-back";  // that attempt ends, the run does not
  history_.finish(state, unix_time());
}

void RunBoard::step_time(int64_t step, double seconds, double waited) {
  const std::lock_guard lock(mutex_);
  steps_done_ = step;
  step_seconds_.observe(seconds);
  waited_seconds_.observe(waited);
}

std::vector<MetricFamily> RunBoard::families() const {
  Families out;
  const std::lock_guard lock(mutex_);
  const auto [step, trains] = position();
  MetricFamily& run = out.add("run", Kind::info, "", "The run's model, data and layout, as its log shows them.");
  MetricSample facts{1};
  for (const auto& [name, value] : history_.log().facts) {
    const auto has = [](const MetricLabels& labels, const std::string& label) {
      return std::ranges::find(labels, label, &MetricLabels::value_type::first) != labels.end();
    };
    std::string label = label_name(name);
    if (has(labels_, label)) label = "fact_" + label;
    // The first of two facts of one name counts: a sample has each label once.
    if (!has(facts.labels, label)) facts.labels.emplace_back(label, value);
  }
  run.samples.push_back(std::move(facts));
  out.gauge("running", "", "1 while the run trains, 0 after its end.", trains ? 1 : 0);
  out.gauge("start_time_seconds", "seconds", "Unix time at which this process started the run.", started_);
  out.counter("restarts", "", "Restarts of the job before this process.", restarts_);
  out.counter("step", "", "Optimizer steps done.", static_cast<double>(step));
  out.gauge("target_steps", "", "Step at which the run ends.", static_cast<double>(history_.log().total_steps));
  out.gauge("ranks", "", "Ranks of the job.", size_);
  if (recorded_ > 0)
    out.gauge("last_record_timestamp_seconds", "seconds", "Unix time of the last log interval's end.", recorded_);
  if (step_) add_step(out, *step_);
  if (evaluation_) add_evaluation(out, *evaluation_);
  if (test_) out.gauge("test_loss", "", "Loss on the test data.", test_->loss);
  out.counter("checkpoints", "", "Snapshots published by this process.", static_cast<double>(checkpoints_));
  if (checkpoint_) {
    out.gauge("checkpoint_last_step", "", "Step of the newest snapshot.", static_cast<double>(checkpoint_->step));
    out.gauge("checkpoint_last_timestamp_seconds", "seconds", "Unix time at which it was published.", published_);
    out.gauge("checkpoint_last_duration_seconds", "seconds", "Time from its start to its publication.",
              checkpoint_->seconds);
  }
  out.add("step_duration_seconds", Kind::histogram, "seconds", "Time of the steps of this process.")
      .histograms.emplace_back(MetricLabels(), step_seconds_);
  out.add("step_wait_seconds", Kind::histogram, "seconds",
          "Part of each step in which rank 0 waited for communication.")
      .histograms.emplace_back(MetricLabels(), waited_seconds_);
  if (ranks_) add_ranks(out, ranks_());
  return out.take();
}

std::string RunBoard::exposition(MetricFormat format) const { return to_text(families(), labels_, format); }

/// Step and whether it trains; without a start() as the last attempt of a file left them.
std::pair<int64_t, bool> RunBoard::position() const {
  const std::vector<AttemptLog>& attempts = history_.log().attempts;
  if (started_attempt_ || attempts.empty()) return {steps_done_, trains_};
  return {attempts.back().last_step, attempts.back().state.empty()};
}

template <class Render>
std::string RunBoard::rendered(Render render) const {
  HtmlReport report{.title = labels_.front().second, .log = {}, .more_facts = {}, .samples = {}, .before = {}};
  LiveState state{.restarts = restarts_, .ranks = {}};
  {
    const std::lock_guard lock(mutex_);
    report.log = history_.log();
    std::tie(state.step, state.running) = position();
    if (ranks_) state.ranks = ranks_();
  }
  return render(report, state);
}

std::string RunBoard::page() const { return rendered(render_live_page); }
std::string RunBoard::page_body() const { return rendered(render_live_body); }

namespace {

class BoardSink : public Sink {
 public:
  explicit BoardSink(std::shared_ptr<RunBoard> board) : board_(std::move(board)) {}
  std::string name() const override { return "the live metrics"; }
  void start(const AttemptStart& attempt) override { board_->start(attempt); }
  void step(const Metrics& metrics) override { board_->step(metrics); }
  void evaluation(const EvaluationMetrics& metrics) override { board_->evaluation(metrics); }
  void test(const TestMetrics& metrics) override { board_->test(metrics); }
  void checkpoint(const CheckpointEvent& event) override { board_->checkpoint(event); }
  void sample(const SampleText& sample) override { board_->sample(sample); }
  void finish(std::string_view state, int64_t) override { board_->finish(state); }

 private:
  std::shared_ptr<RunBoard> board_;
};

class TextfileSink : public Sink {
 public:
  TextfileSink(std::shared_ptr<RunBoard> board, std::string path) : board_(std::move(board)), path_(std::move(path)) {}
  std::string name() const override { return path_; }
  void start(const AttemptStart&) override { write(true); }
  void step(const Metrics&) override { write(false); }
  void evaluation(const EvaluationMetrics&) override { write(false); }
  void test(const TestMetrics&) override { write(false); }
  void checkpoint(const CheckpointEvent&) override { write(false); }
  void sample(const SampleText&) override {}
  void finish(std::string_view, int64_t) override { write(true); }

 private:
  void write(bool always) {
    if (!always && seconds_since(written_) < 1) return;
    written_ = Clock::now();
    // Without fsync, for which a step would have to wait: after a power cut there is a newer one soon.
    write_text(path_, board_->exposition(MetricFormat::prometheus), 0644, Flush::later);
  }

  std::shared_ptr<RunBoard> board_;
  std::string path_;
  Clock::time_point written_;
};

}  // namespace

std::unique_ptr<Sink> make_board_sink(std::shared_ptr<RunBoard> board) {
  return std::make_unique<BoardSink>(std::move(board));
}

std::unique_ptr<Sink> make_textfile_sink(std::shared_ptr<RunBoard> board, const std::string& path) {
  return std::make_unique<TextfileSink>(std::move(board), path);
}

}  // namespace trireme
