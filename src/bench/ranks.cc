#include "bench/ranks.h"

#include <array>
#include <memory>

#include "base/median.h"
#include "comm/progress.h"
#include "comm/scalars.h"

namespace trireme {
namespace {

/// The job's first ranks as a job of their own. One of its members stays where it is: the step borrows the context.
class RankGroup {
 public:
  RankGroup(const RankContext& job, int ranks, const std::function<MeasuredStep(const RankContext&)>& make)
      : ranks_(ranks), world_(job.world.split(job.rank() < ranks ? 0 : 1, job.rank())) {
    if (job.rank() >= ranks) return;
    world_->report_to(job.progress);
    context_ = std::make_unique<RankContext>(RankContext{.world = *world_,
                                                         .host = job.host,
                                                         .local_rank = job.local_rank,
                                                         .local_size = job.one_host() ? ranks : job.local_size,
                                                         .log_name = job.log_name,
                                                         .progress = job.progress,
                                                         .stop_requested = job.stop_requested,
                                                         .threads = job.threads});
    step_ = make(*context_);
  }

  int ranks() const { return ranks_; }
  const std::vector<double>& seconds() const { return seconds_; }
  const std::vector<double>& waiting() const { return waiting_; }
  double loss() const { return loss_; }
  /// Of all members. Collective over them; the others get nothing.
  CpuTimes cpu() {
    if (!context_) return {};
    std::array<double, 4> values = cpu_.values();
    Scalars(*world_).sum(values);
    return CpuTimes::of(values);
  }

  void run(bool counts) {
    if (!context_) return;
    Scalars scalars(*world_);
    const CpuTimes before = context_->progress->cpu().times();
    scalars.barrier();
    const StepTime own = step_();
    const double slowest = scalars.max(own.seconds);
    loss_ = own.loss;
    if (!counts) return;
    cpu_ = cpu_ + context_->progress->cpu().times().since(before);
    seconds_.push_back(slowest);
    waiting_.push_back(own.waiting);
  }

 private:
  int ranks_;
  std::unique_ptr<Communicator> world_;
  std::unique_ptr<RankContext> context_;  ///< none: this rank is not one of them
  MeasuredStep step_;                     ///< last: it uses the others
  std::vector<double> seconds_, waiting_;
  double loss_ = 0;
  CpuTimes cpu_;
};

}  // namespace

std::vector<RanksTime> measure_ranks(const RankContext& job, int64_t rounds,
                                     const std::function<MeasuredStep(const RankContext&)>& make) {
  std::vector<std::unique_ptr<RankGroup>> groups;
  for (int ranks = 1; ranks < job.size(); ranks *= 2) groups.push_back(std::make_unique<RankGroup>(job, ranks, make));
  groups.push_back(std::make_unique<RankGroup>(job, job.size(), make));
  Scalars everyone(job.world);
  for (int64_t round = 0; round <= rounds; ++round) {
    for (const auto& group : groups) {
      group->run(round > 0);
      everyone.barrier();
    }
  }
  std::vector<CpuTimes> cpu;
  for (const auto& group : groups) cpu.push_back(group->cpu());
  std::vector<RanksTime> out;
  if (job.rank() != 0) return out;
  const std::vector<double>& alone = groups[0]->seconds();
  for (const auto& group : groups) {
    std::vector<double> speed_ups;
    for (size_t i = 0; i < alone.size(); ++i) speed_ups.push_back(group->ranks() * alone[i] / group->seconds()[i]);
    const double seconds = median(group->seconds());
    out.push_back({group->ranks(), seconds, median(speed_ups), median(group->waiting()) / seconds, group->loss(),
                   cpu[out.size()]});
  }
  return out;
}

}  // namespace trireme
