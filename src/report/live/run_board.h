#pragma once
// The latest numbers of a running job, for those that look from outside while it trains: the reporter and the trainer
// write, the threads of a server read. All functions may be called from any thread; none waits for a reader's network.

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "report/live/exposition.h"
#include "report/live/live_page.h"
#include "report/live/run_history.h"
#include "report/metrics.h"
#include "report/sink.h"

namespace trireme {

class RunBoard {
 public:
  /// run: the label of every sample, as `job`, Slurm's id, is if it is not empty. ranks: the job's size. restarts: of
  /// this job before this process.
  RunBoard(std::string run, std::string job, int ranks, int restarts);

  /// Where ranks() come from; called by readers. An empty function: this process is the only rank.
  void watch(std::function<std::vector<RankView>()> ranks);
  /// Ends all use of what was given to watch().
  void unwatch() { watch({}); }

  void start(const AttemptStart& attempt);
  void step(const Metrics& metrics);
  void evaluation(const EvaluationMetrics& metrics);
  void test(const TestMetrics& metrics);
  void checkpoint(const CheckpointEvent& event);
  void sample(const SampleText& sample);
  void finish(std::string_view state);
  /// What earlier attempts recorded (RunHistory::set_earlier); without a start() this is all there is to show.
  void set_earlier(RunLog log);
  /// Every step: steps done, its seconds, and those of them in which rank 0 waited for communication.
  void step_time(int64_t step, double seconds, double waited);

  /// What a scrape receives.
  std::string exposition(MetricFormat format) const;
  /// The page (live_page.h), and the part of it that changes.
  std::string page() const;
  std::string page_body() const;

 private:
  std::vector<MetricFamily> families() const;
  std::pair<int64_t, bool> position() const;
  /// Calls render(report, state) with copies, while writers continue.
  template <class Render>
  std::string rendered(Render render) const;

  const MetricLabels labels_;
  const int size_, restarts_;
  const double started_;  ///< Unix seconds
  mutable std::mutex mutex_;
  std::function<std::vector<RankView>()> ranks_;
  bool started_attempt_ = false;
  int64_t steps_done_ = 0;
  bool trains_ = true;
  double recorded_ = 0;  ///< Unix seconds of the last log interval; 0: none yet
  std::optional<Metrics> step_;
  std::optional<EvaluationMetrics> evaluation_;
  std::optional<TestMetrics> test_;
  std::optional<CheckpointEvent> checkpoint_;
  double published_ = 0;
  uint64_t checkpoints_ = 0;
  RunHistory history_;
  Histogram step_seconds_, waited_seconds_;
};

}  // namespace trireme
