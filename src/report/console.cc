#include "report/console.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/count.h"
#include "base/log.h"
#include "report/sink.h"

namespace trireme {
namespace {

constexpr int kBarWidth = 24;  // leaves room for the numbers on a terminal of 80 columns

class ConsoleSink : public Sink {
 public:
  explicit ConsoleSink(StepForm form) : form_(form) {}
  std::string name() const override { return "the console"; }

  void start(const AttemptStart& attempt) override {
    steps_ = attempt.steps;
    size_t width = 0;
    for (const auto& fact : attempt.facts) width = std::max(width, fact.first.size());
    for (const auto& [name, value] : attempt.facts) log::info("{:<{}}  {}", name, width, value);
  }
  void step(const Metrics& metrics) override {
    log::info("{}", form_ == StepForm::neox ? neox_step_line(metrics, steps_) : step_line(metrics, steps_));
  }
  void evaluation(const EvaluationMetrics& metrics) override { log::info("{}", evaluation_line(metrics)); }
  void test(const TestMetrics& metrics) override { log::info("{}", test_line(metrics)); }
  void checkpoint(const CheckpointEvent& event) override { log::info("{}", checkpoint_line(event)); }
  void sample(const SampleText& sample) override {
    log::info("sample at step {}: {}{}", sample.step, sample.prompt, sample.text);
  }
  void finish(std::string_view state, int64_t step) override { log::info("{} at step {}", state, step); }

 private:
  StepForm form_;
  int64_t steps_ = 0;
};

/// "90.3T": at most three digits before the point.
std::string with_prefix(double value) {
  constexpr const char* kPrefixes[] = {"", "K", "M", "G", "T", "P"};
  size_t thousands = 0;
  for (; std::abs(value) >= 1000 && thousands + 1 < std::size(kPrefixes); ++thousands) value /= 1000;
  return fmt::format("{:.1f}{}", value, kPrefixes[thousands]);
}

}  // namespace

std::string step_line(const Metrics& m, int64_t steps) {
  const size_t width = std::to_string(steps).size();
  std::string line = fmt::format("step {:>{}}/{} | loss {:>7.4f}", m.step, width, steps, m.loss);
  if (m.perplexity) line += fmt::format(" | ppl {:>9.4g}", *m.perplexity);
  for (const auto& [name, value] : m.values) line += fmt::format(" | {} {:.4g}", name, value);
  line += fmt::format(
      " | lr {:>8.2e} | grad {:>8.4f} | {:>9.0f} tok/s | {:>8.1f} ms/step | wait {:>4.1f}% | mfu {:>4.1f}%",
      m.learning_rate, m.gradient_norm, m.tokens_per_second, m.ms_per_step, 100 * m.exposed_share, 100 * m.mfu);
  line += fmt::format(" | {:>6.1f} samples/s | {:>6}FLOP/s", m.samples_per_second, with_prefix(m.flops_per_second));
  if (m.memory_bytes > 0) line += fmt::format(" | {:>6.2f} GB", static_cast<double>(m.memory_bytes) / 1e9);
  line += fmt::format(" | {}", count_text(m.samples, "sample"));
  if (m.loss_scale) line += fmt::format(" | scale {:g}", *m.loss_scale);
  if (m.skipped > 0) line += fmt::format(" | {} skipped", m.skipped);
  return line;
}

std::string neox_step_line(const Metrics& m, int64_t steps) {
  return fmt::format(
      " samples/sec: {:.3f} | iteration {:8d}/{:8d} | elapsed time per iteration (ms): {:.1f} | learning rate: {:.3E} "
      "| "
      "approx flops per GPU: {}FLOPS | lm_loss: {:.6E} | grad norm: {:.3f} | loss scale: {:.1f} | number of skipped "
      "iterations: {:3d} | number of nan iterations: {:3d} |",
      m.samples_per_second, m.step, steps, m.ms_per_step, m.learning_rate, with_prefix(m.flops_per_device),
      m.interval_loss, m.gradient_norm, m.loss_scale.value_or(1), m.interval_skipped, m.interval_not_finite);
}

std::string test_line(const TestMetrics& m) {
  return fmt::format("test at step {}: loss {:.4f}, perplexity {:.2f} ({:.1f} s)", m.step, m.loss, std::exp(m.loss),
                     m.seconds);
}

std::string evaluation_line(const EvaluationMetrics& m) {
  std::string line = fmt::format("evaluation at step {}: ", m.step);
  if (m.validation_loss) line += fmt::format("validation loss {:.4f}", *m.validation_loss);
  if (m.validation_loss && m.unit == LossUnit::token)
    line += fmt::format(", perplexity {:.2f}", std::exp(*m.validation_loss));
  if (m.train_loss) line += fmt::format("{}train loss {:.4f}", m.validation_loss ? ", " : "", *m.train_loss);
  if (!m.validation_loss) line += ", no validation data";
  for (const auto& [name, value] : m.values) line += fmt::format(", {} {:.4f}", name, value);
  return line + fmt::format(" ({:.1f} s{})", m.seconds, m.best ? ", best so far" : "");
}

std::string checkpoint_line(const CheckpointEvent& event) {
  const bool copied = event.place == CheckpointEvent::Place::copied;
  const bool local = event.place == CheckpointEvent::Place::local_disks;
  return fmt::format("snapshot of step {} is {} {} ({}{:.1f} s{}{})", event.step,
                     local ? "on the local disks, in" : "in", event.path, copied ? "copied in " : "", event.seconds,
                     event.best ? ", best so far" : "",
                     event.parameters.empty() ? "" : ", parameters " + event.parameters);
}

std::string progress_line(int64_t step, int64_t steps, double loss, double seconds_left) {
  const double share = steps > 0 ? std::clamp(static_cast<double>(step) / static_cast<double>(steps), 0.0, 1.0) : 1.0;
  const int filled = static_cast<int>(share * kBarWidth);
  std::string bar(static_cast<size_t>(filled), '=');
  if (filled < kBarWidth) bar += '>';
  bar.resize(kBarWidth, ' ');
  std::string line = fmt::format("[{}] {:3.0f}% step {}/{}", bar, std::floor(100 * share), step, steps);
  if (std::isfinite(loss)) line += fmt::format(", loss {:.4f}", loss);
  if (seconds_left >= 0) line += fmt::format(", {} left", duration_text(seconds_left));
  return line;
}

std::string duration_text(double seconds) {
  const auto total = static_cast<int64_t>(std::llround(std::clamp(seconds, 0.0, 1e12)));
  const int64_t days = total / 86400, hours = total / 3600 % 24, minutes = total / 60 % 60;
  if (days > 0) return fmt::format("{}d{:02}h", days, hours);
  if (hours > 0) return fmt::format("{}h{:02}m", hours, minutes);
  if (minutes > 0) return fmt::format("{}m{:02}s", minutes, total % 60);
  return fmt::format("{}s", total);
}

std::unique_ptr<Sink> make_console_sink(StepForm form) { return std::make_unique<ConsoleSink>(form); }

}  // namespace trireme
