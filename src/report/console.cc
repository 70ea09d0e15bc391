#include "report/console.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/count.h"
#include "base/log.h"
#include "report/sink.h"

namespace trireme {
namespace {

constexpr int kBarWidth = 24;  // leaves room for the numbers on a terminal of 80 columns
constexpr size_t kLineWidth = 120;

class ConsoleSink : public Sink {
 public:
  ConsoleSink(StepForm form, std::vector<LogColumn> columns) : form_(form), columns_(std::move(columns)) {}
  std::string name() const override { return "the console"; }

  void start(const AttemptStart& attempt) override {
    steps_ = attempt.steps;
    size_t width = 0;
    for (const auto& fact : attempt.facts) width = std::max(width, fact.first.size());
    for (const auto& [name, value] : attempt.facts) log::info("{:<{}}  {}", name, width, value);
    std::string_view heading = "options";
    for (const std::string& line : option_lines(attempt.options)) {
      log::info("{:<{}}  {}", heading, width, line);
      heading = "";
    }
  }
  void step(const Metrics& metrics) override {
    log::info("{}", form_ == StepForm::neox ? neox_step_line(metrics, steps_) : step_line(metrics, steps_, columns_));
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
  std::vector<LogColumn> columns_;
  int64_t steps_ = 0;
};

/// "90.3T": at most three digits before the point.
std::string with_prefix(double value) {
  constexpr const char* kPrefixes[] = {"", "K", "M", "G", "T", "P"};
  size_t thousands = 0;
  for (; std::abs(value) >= 1000 && thousands + 1 < std::size(kPrefixes); ++thousands) value /= 1000;
  return fmt::format("{:.1f}{}", value, kPrefixes[thousands]);
}

/// " | NAME VALUE", of the same width from line to line; empty: unknown. Measures are added by the caller.
std::string column_text(LogColumn column, const Metrics& m) {
  switch (column) {
    case LogColumn::measures:
      break;
    case LogColumn::epoch:
      return m.epoch ? fmt::format(" | epoch {:>5.2f}", *m.epoch) : "";
    case LogColumn::loss:
      return fmt::format(" | loss {:>7.4f}", m.loss);
    case LogColumn::mean:
      return fmt::format(" | mean {:>7.4f}", m.interval_loss);
    case LogColumn::rate:
      return fmt::format(" | lr {:>8.2e}", m.learning_rate);
    case LogColumn::gradient:
      return fmt::format(" | grad {:>8.4f}", m.gradient_norm);
    case LogColumn::tokens_per_second:
      return fmt::format(" | {:>8.0f} tok/s", m.tokens_per_second);
    case LogColumn::ms_per_step:
      return fmt::format(" | {:>7.1f} ms/step", m.ms_per_step);
    case LogColumn::wait:
      return fmt::format(" | wait {:>4.1f}%", 100 * m.exposed_share);
    case LogColumn::mfu:
      return fmt::format(" | mfu {:>4.1f}%", 100 * m.mfu);
    case LogColumn::perplexity:
      return m.perplexity ? fmt::format(" | ppl {:>9.4g}", *m.perplexity) : "";
    case LogColumn::memory:
      return m.memory_bytes > 0 ? fmt::format(" | {:>6.2f} GB", static_cast<double>(m.memory_bytes) / 1e9) : "";
    case LogColumn::samples:
      return fmt::format(" | {}", count_text(m.samples, "sample"));
    case LogColumn::samples_per_second:
      return fmt::format(" | {:>6.1f} samples/s", m.samples_per_second);
    case LogColumn::flops:
      return fmt::format(" | {:>6}FLOP/s", with_prefix(m.flops_per_second));
    case LogColumn::slowest:
      return m.slowest ? fmt::format(" | slowest rank {} {:>4.2f}x", m.slowest->rank, m.slowest->ratio) : "";
  }
  return {};
}

std::vector<std::string> column_texts(const std::vector<LogColumn>& columns, const Metrics& m) {
  std::vector<std::string> texts;
  for (const LogColumn column : columns) {
    if (column != LogColumn::measures) {
      texts.push_back(column_text(column, m));
      continue;
    }
    for (const auto& [name, value] : m.values) texts.push_back(fmt::format(" | {} {:>6.4g}", name, value));
  }
  return texts;
}

/// At most so many bytes, without a part of a character.
std::string shortened(const std::string& text, size_t most) {
  if (text.size() <= most) return text;
  size_t end = most - 3;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) --end;
  return text.substr(0, end) + "...";
}

}  // namespace

std::string step_line(const Metrics& m, int64_t steps, const std::vector<LogColumn>& columns) {
  std::string line = fmt::format("step {:>{}}/{}", m.step, std::to_string(steps).size(), steps), end;
  if (m.loss_scale) end += fmt::format(" | scale {:g}", *m.loss_scale);
  if (m.skipped > 0) end += fmt::format(" | {} skipped", m.skipped);
  std::vector<LogColumn> usual;
  for (const Named<LogColumn>& known : Names<LogColumn>::kAll) {
    // The measures of a task need the room.
    if (known.value != LogColumn::mean || (m.epoch && m.values.empty())) usual.push_back(known.value);
  }
  for (const std::string& text : column_texts(columns.empty() ? usual : columns, m)) {
    if (columns.empty() && line.size() + text.size() + end.size() > kLineWidth) break;
    line += text;
  }
  return line + end;
}

std::vector<std::string> option_lines(const OptionFacts& options) {
  constexpr size_t kMostValue = 44;  // with a name and a usual origin within kLineWidth
  size_t name = 0, value = 0;
  for (const OptionFact& option : options) {
    if (!option.in_head) continue;
    name = std::max(name, option.name.size());
    value = std::max(value, shortened(option.value, kMostValue).size());
  }
  std::vector<std::string> lines;
  for (const OptionFact& option : options) {
    if (option.in_head)
      lines.push_back(fmt::format("{:<{}}  {:<{}}  {}", option.name, name, shortened(option.value, kMostValue), value,
                                  option.origin));
  }
  return lines;
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

std::unique_ptr<Sink> make_console_sink(StepForm form, std::vector<LogColumn> columns) {
  return std::make_unique<ConsoleSink>(form, std::move(columns));
}

}  // namespace trireme
