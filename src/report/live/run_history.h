#pragma once
// The records of a run in bounded memory, however long it runs: what a page shows.

#include <cstdint>

#include "report/run_log.h"
#include "report/sink.h"

namespace trireme {

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
  void thin();

  RunLog log_;
  bool started_ = false;
};

}  // namespace trireme
