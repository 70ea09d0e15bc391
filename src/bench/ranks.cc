#include "bench/ranks.h"

#include <array>
#include <memory>

#include "base/error.h"
#include "base/numbers.h"
#include "comm/agreement.h"
#include "comm/heartbeat.h"
#include "comm/scalars.h"
#include "train/start/ranks.h"

namespace trireme {
namespace {

/// The job's first ranks as their own job. One of its members stays where it is: the step borrows the context.
class MeasuredGroup {
 public:
  MeasuredGroup(const RankContext& job, int ranks, const std::function<MeasuredStep(const RankContext&)>& make)
      : ranks_(ranks), world_(job.world.split(job.rank() < ranks ? 0 : 1, job.rank())) {
    if (job.rank() >= ranks) return;
    world_->report_to(job.heartbeat);
    context_ = std::make_unique<RankContext>(RankContext{.world = *world_,
                                                         .host = job.host,
                                                         .hosts = job.hosts.first(ranks),
                                                         .log_name = job.log_name,
                                                         .heartbeat = job.heartbeat,
                                                         .stop_requested = job.stop_requested,
                                                         .threads = job.threads});
    step_ = make(*context_);
  }

  int ranks() const { return ranks_; }
  const std::vector<double>& seconds() const { return seconds_; }
  const std::vector<double>& waiting() const { return waiting_; }
  double loss() const { return loss_; }
  /// The times of all members. Collective over them; the others get nothing.
  CpuTimes cpu() {
    if (!context_) return {};
    std::array<double, 4> values = cpu_.values();
    Scalars(*world_).sum(values);
    return CpuTimes::of(values);
  }

  void run(bool counts) {
    if (!context_) return;
    Scalars scalars(*world_);
    const CpuTimes before = context_->heartbeat->cpu().times();
    scalars.barrier();
    const StepTime own = step_();
    const double slowest = scalars.max(own.seconds);
    loss_ = own.loss;
    if (!counts) return;
    cpu_ = cpu_ + context_->heartbeat->cpu().times().since(before);
    seconds_.push_back(slowest);
    waiting_.push_back(own.waiting);
  }

 private:
  int ranks_;
  std::unique_ptr<Communicator> world_;
  std::unique_ptr<RankContext> context_;  ///< null: this rank is not one of them
  MeasuredStep step_;                     ///< last: it uses the others
  std::vector<double> seconds_, waiting_;
  double loss_ = 0;
  CpuTimes cpu_;
};

}  // namespace

std::vector<RankGroup> growing_groups(int ranks) {
  std::vector<RankGroup> groups;
  for (int size = 1; size < ranks; size *= 2) groups.push_back({size, static_cast<double>(size)});
  groups.push_back({ranks, static_cast<double>(ranks)});
  return groups;
}

std::vector<RanksTime> measure_in_turn(const RankContext& job, const std::vector<RankGroup>& plans, int64_t rounds,
                                       const std::function<MeasuredStep(size_t i, const RankContext&)>& make) {
  std::vector<std::unique_ptr<MeasuredGroup>> groups;
  for (size_t i = 0; i < plans.size(); ++i)
    groups.push_back(
        std::make_unique<MeasuredGroup>(job, plans[i].ranks, [&](const RankContext& group) { return make(i, group); }));
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
  const double first = median(groups[0]->seconds());
  for (const auto& group : groups) {
    const double work = plans[out.size()].work / plans[0].work, seconds = median(group->seconds());
    out.push_back({group->ranks(), seconds, work * first / seconds, median(group->waiting()) / seconds, group->loss(),
                   cpu[out.size()]});
  }
  return out;
}

Backend backend_of_ranks(DeviceChoice choice, std::string_view option, const RankContext& rank, Scalars& scalars,
                         bool cudnn) {
  GpuOptions gpu;
  gpu.cudnn = cudnn;
  gpu.ranks = rank.size();
  gpu.local_rank = rank.local_rank();
  const auto open = [&] { return make_backend(DeviceChoice::cuda, option, gpu); };
  Backend backend = rank.size() == 1 || choice == DeviceChoice::cpu
                        ? make_backend(choice, option, gpu)
                        : backend_of_several(choice == DeviceChoice::automatic, open, rank, scalars);
  together(scalars, [&] {
    require(!cudnn || backend.device, ErrorKind::usage, "--cudnn needs a GPU, and this measures the CPU; remove it");
  });
  return backend;
}

}  // namespace trireme
