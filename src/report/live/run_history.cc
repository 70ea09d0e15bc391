#include "report/live/run_history.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

namespace trireme {
namespace {

/// Keeps the first, the last, and of each two neighbours between them the one whose loss is farther from those around
/// them: a curve keeps its peaks.
void halve(std::vector<Metrics>& steps) {
  std::vector<Metrics> kept;
  kept.push_back(steps.front());
  for (size_t i = 1; i + 2 < steps.size(); i += 2) {
    const double around = (steps[i - 1].loss + steps[i + 2].loss) / 2;
    const bool second = std::abs(steps[i + 1].loss - around) > std::abs(steps[i].loss - around);
    kept.push_back(steps[second ? i + 1 : i]);
  }
  kept.push_back(steps.back());
  steps = std::move(kept);
}

/// Every second one, the last among them.
void halve(std::vector<EvaluationMetrics>& evaluations) {
  std::vector<EvaluationMetrics> kept;
  for (size_t i = 1 - evaluations.size() % 2; i < evaluations.size(); i += 2) kept.push_back(evaluations[i]);
  evaluations = std::move(kept);
}

template <class Records>
void keep_last(Records& records, size_t count) {
  if (records.size() > count) records.erase(records.begin(), records.end() - static_cast<std::ptrdiff_t>(count));
}

template <class Records>
void drop_after(Records& records, int64_t step) {
  std::erase_if(records, [&](const auto& record) { return record.step > step; });
}

template <class Records>
void put_before(Records& records, Records earlier) {
  earlier.insert(earlier.end(), std::make_move_iterator(records.begin()), std::make_move_iterator(records.end()));
  records = std::move(earlier);
}

void drop_after(RunLog& log, int64_t step) {
  drop_after(log.steps, step);
  drop_after(log.evaluations, step);
  drop_after(log.tests, step);
  drop_after(log.checkpoints, step);
  drop_after(log.samples, step);
}

}  // namespace

void RunHistory::thin() {
  while (log_.steps.size() > kMostSteps) halve(log_.steps);
  while (log_.evaluations.size() > kMostEvaluations) halve(log_.evaluations);
  keep_last(log_.tests, kMostEvents);
  keep_last(log_.checkpoints, kMostEvents);
  keep_last(log_.samples, kMostEvents);
  keep_last(log_.attempts, kMostEvents);
}

void RunHistory::start(const AttemptStart& attempt, double now) {
  started_ = true;
  drop_after(log_, attempt.first_step);
  log_.facts = attempt.facts;
  log_.unit = attempt.unit;
  log_.total_steps = attempt.steps;
  log_.attempts.push_back(
      {.first_step = attempt.first_step, .last_step = attempt.first_step, .started = now, .ended = now, .state = {}});
  thin();
}

void RunHistory::step(const Metrics& metrics, double now) {
  log_.steps.push_back(metrics);
  if (!log_.attempts.empty()) {
    log_.attempts.back().last_step = metrics.step;
    log_.attempts.back().ended = now;
  }
  thin();
}

void RunHistory::evaluation(const EvaluationMetrics& metrics, double now) {
  log_.evaluations.push_back(metrics);
  if (!log_.attempts.empty()) log_.attempts.back().ended = now;
  thin();
}

void RunHistory::test(const TestMetrics& metrics) {
  log_.tests.push_back(metrics);
  thin();
}

void RunHistory::checkpoint(const CheckpointEvent& event) {
  log_.checkpoints.push_back(event);
  thin();
}

void RunHistory::sample(const SampleText& sample) {
  log_.samples.push_back(sample);
  thin();
}

void RunHistory::finish(std::string_view state, double now) {
  if (log_.attempts.empty()) return;
  log_.attempts.back().state = state;
  log_.attempts.back().ended = now;
}

void RunHistory::set_earlier(RunLog log) {
  if (!started_) {
    log_ = std::move(log);
    return thin();
  }
  drop_after(log, log_.attempts.front().first_step);
  // The file may have this attempt's beginning, too.
  std::erase_if(log.attempts, [&](const AttemptLog& a) { return a.started >= log_.attempts.front().started - 1; });
  put_before(log_.steps, std::move(log.steps));
  put_before(log_.evaluations, std::move(log.evaluations));
  put_before(log_.tests, std::move(log.tests));
  put_before(log_.checkpoints, std::move(log.checkpoints));
  put_before(log_.samples, std::move(log.samples));
  put_before(log_.attempts, std::move(log.attempts));
  thin();
}

}  // namespace trireme
