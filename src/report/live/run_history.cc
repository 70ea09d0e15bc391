#include "report/live/run_history.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <iterator>
#include <utility>

namespace trireme {
namespace {

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

template <class Record>
void Thinning<Record>::add(std::vector<Record>& list, const Record& record) {
  if (newest_is_extra_) list.pop_back();
  const double before = list.empty() ? value_(record) : value_(list.back());
  if (in_window_ == 0 || std::abs(value_(record) - before) > std::abs(value_(candidate_) - before)) candidate_ = record;
  if (++in_window_ >= stride_) {
    list.push_back(candidate_);
    in_window_ = 0;
  }
  newest_is_extra_ = list.empty() || list.back().step != record.step;
  if (newest_is_extra_) list.push_back(record);
  if (list.size() > maximum_) halve(list);
}

template <class Record>
void Thinning<Record>::reset(std::vector<Record>& list) {
  in_window_ = 0;
  newest_is_extra_ = false;
  while (list.size() > maximum_) halve(list);
}

template <class Record>
void Thinning<Record>::halve(std::vector<Record>& list) {
  std::vector<Record> kept{list.front()};
  size_t i = 1;
  for (; i + 2 < list.size(); i += 2) {
    const double before = value_(kept.back());
    const bool second = std::abs(value_(list[i + 1]) - before) > std::abs(value_(list[i]) - before);
    kept.push_back(list[second ? i + 1 : i]);
  }
  kept.insert(kept.end(), list.begin() + static_cast<std::ptrdiff_t>(i), list.end());
  list = std::move(kept);
  stride_ *= 2;
}

void RunHistory::reset() {
  steps_.reset(log_.steps);
  evaluations_.reset(log_.evaluations);
  keep_newest_events();
}

void RunHistory::keep_newest_events() {
  keep_last(log_.tests, kMostEvents);
  keep_last(log_.checkpoints, kMostEvents);
  keep_last(log_.samples, kMostEvents);
  keep_last(log_.attempts, kMostEvents);
}

void RunHistory::start(const AttemptStart& attempt, double now) {
  started_ = true;
  drop_after(log_, attempt.first_step);
  log_.facts = attempt.facts;
  log_.configuration = options_of(attempt.configuration);
  log_.origins.clear();
  for (const OptionFact& option : attempt.options) log_.origins.emplace_back(option.name, option.origin);
  log_.unit = attempt.unit;
  log_.total_steps = attempt.steps;
  log_.attempts.push_back(
      {.first_step = attempt.first_step, .last_step = attempt.first_step, .started = now, .ended = now, .state = {}});
  reset();
}

void RunHistory::step(const Metrics& metrics, double now) {
  steps_.add(log_.steps, metrics);
  if (!log_.attempts.empty()) {
    log_.attempts.back().last_step = metrics.step;
    log_.attempts.back().ended = now;
  }
}

void RunHistory::evaluation(const EvaluationMetrics& metrics, double now) {
  evaluations_.add(log_.evaluations, metrics);
  if (!log_.attempts.empty()) log_.attempts.back().ended = now;
}

void RunHistory::test(const TestMetrics& metrics) {
  log_.tests.push_back(metrics);
  keep_newest_events();
}

void RunHistory::checkpoint(const CheckpointEvent& event) {
  log_.checkpoints.push_back(event);
  keep_newest_events();
}

void RunHistory::sample(const SampleText& sample) {
  log_.samples.push_back(sample);
  keep_newest_events();
}

void RunHistory::finish(std::string_view state, double now) {
  if (log_.attempts.empty()) return;
  log_.attempts.back().state = state;
  log_.attempts.back().ended = now;
}

void RunHistory::set_earlier(RunLog log) {
  if (!started_) {
    log_ = std::move(log);
    return reset();
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
  reset();
}

}  // namespace trireme
