#pragma once
// The records of a run in bounded memory, however long it runs: what a page shows.

#include <cstdint>
#include <string_view>
#include <vector>

#include "report/run_log.h"
#include "report/sink.h"

namespace trireme {

/// How a curve of many records is kept in a list of few: of every `stride` records the one that differs most from the
/// one before them, so that a curve keeps its peaks, and always the newest. When the list is full, every second record
/// goes and the stride doubles.
template <class Record>
class Thinning {
 public:
  using Value = double (*)(const Record&);
  Thinning(size_t most, Value value) : maximum_(most), value_(value) {}

  void add(std::vector<Record>& list, const Record& record);
  /// After the list has been changed otherwise: every record in it counts, and it gets short enough.
  void reset(std::vector<Record>& list);

 private:
  void halve(std::vector<Record>& list);

  size_t maximum_;
  Value value_;
  int64_t stride_ = 1, in_window_ = 0;
  bool newest_is_extra_ = false;  ///< the list's last record is there only because it is the newest
  Record candidate_;
};

class RunHistory {
 public:
  static constexpr size_t kMostSteps = 4096;       ///< of log(); a page has about 800 pixels per curve
  static constexpr size_t kMostEvaluations = 512;  ///< likewise
  static constexpr size_t kMostEvents = 50;        ///< snapshots, tests, attempts, samples: the newest

  /// At a new attempt records of later steps are dropped: it repeats them.
  void start(const AttemptStart& attempt, double now);
  void step(const Metrics& metrics, double now);
  void evaluation(const EvaluationMetrics& metrics, double now);
  void test(const TestMetrics& metrics);
  void checkpoint(const CheckpointEvent& event);
  void sample(const SampleText& sample);
  void finish(std::string_view state, double now);

  /// Puts what earlier attempts recorded before this one's; records after its first step are dropped. Before a start()
  /// it replaces all.
  void set_earlier(RunLog log);

  const RunLog& log() const { return log_; }

 private:
  void reset();
  void keep_newest_events();

  RunLog log_;
  Thinning<Metrics> steps_{kMostSteps, [](const Metrics& m) { return m.loss; }};
  Thinning<EvaluationMetrics> evaluations_{kMostEvaluations,
                                           [](const EvaluationMetrics& m) { return m.validation_loss.value_or(0); }};
  bool started_ = false;
};

}  // namespace trireme
