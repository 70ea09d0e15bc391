#include <gtest/gtest.h>

#include "base/affinity.h"
#include "base/error.h"
#include "tests/support/expect_error.h"

namespace trireme {
namespace {

/// n cores with `threads` hardware threads each, in Linux's numbering: all first threads come first.
std::vector<Cpus> machine(int n, int threads = 1) {
  std::vector<Cpus> cores;
  for (int c = 0; c < n; ++c) {
    Cpus cpus;
    for (int t = 0; t < threads; ++t) cpus.push_back(c + t * n);
    cores.push_back(cpus);
  }
  return cores;
}

Cpus range(int first, int last) {
  Cpus cpus;
  for (int cpu = first; cpu <= last; ++cpu) cpus.push_back(cpu);
  return cpus;
}

/// A request of one of `ranks` ranks that were all given the same processors.
CoreRequest request(int local_rank, int ranks, const Cpus& offered) {
  CoreRequest r;
  r.local_rank = local_rank;
  r.offered.assign(static_cast<size_t>(ranks), offered);
  r.communicates = ranks > 1;
  return r;
}

std::string config_error(const std::vector<Cpus>& cores, const CoreRequest& r) {
  try {
    plan_cores(cores, r);
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::config);
    return e.what();
  }
  return "no error";
}

TEST(CorePlan, OneRankTakesEveryPhysicalCoreOnce) {
  const CorePlan plan = plan_cores(machine(4, 2), request(0, 1, range(0, 7)));
  EXPECT_EQ(plan.threads, 4);
  EXPECT_EQ(plan.thread_cpus, (std::vector<Cpus>{{0}, {1}, {2}, {3}}));
  EXPECT_EQ(plan.text, "cores 0-3, 4 threads");
  EXPECT_TRUE(plan.warnings.empty());
}

TEST(CorePlan, RanksOfAHostSplitItsCores) {
  const CorePlan plan = plan_cores(machine(4), request(1, 2, range(0, 3)));
  EXPECT_EQ(plan.thread_cpus, (std::vector<Cpus>{{2}, {3}}));
  EXPECT_EQ(plan.exchange_cores, range(2, 3));
  EXPECT_EQ(plan.text, "cores 2-3, 2 threads, gradients are exchanged there too");
}

TEST(CorePlan, RanksGetSocketsOfTheirOwnAndARankOnSeveralIsWarned) {
  CoreRequest r = request(1, 2, range(0, 7));
  r.sockets = {range(0, 3), range(4, 7)};
  const CorePlan half = plan_cores(machine(8), r);
  EXPECT_EQ(half.text, "cores 4-7 of socket 1, 4 threads, gradients are exchanged there too");
  EXPECT_TRUE(half.warnings.empty());
  r = request(0, 1, range(0, 7));
  r.sockets = {range(0, 3), range(4, 7)};
  const CorePlan whole = plan_cores(machine(8), r);
  EXPECT_EQ(whole.text, "cores 0-7 of sockets 0-1, 8 threads");
  EXPECT_EQ(whole.warnings,
            std::vector<std::string>{
                "a rank computes on 2 sockets, and memory of another socket is slow: start one rank per socket"});
}

TEST(CorePlan, TheProgressThreadRunsOnSiblingsWhereThereAreSome) {
  const CorePlan plan = plan_cores(machine(4, 2), request(0, 2, range(0, 7)));
  EXPECT_EQ(plan.thread_cpus, (std::vector<Cpus>{{0}, {1}}));
  EXPECT_EQ(plan.exchange_cores, range(4, 5));
  EXPECT_EQ(plan.text, "cores 0-1, 2 threads, gradients are exchanged on their hyper-thread siblings 4-5");
}

TEST(CorePlan, ReservedCoresAreTheProgressThreadsOwn) {
  CoreRequest r = request(0, 2, range(0, 7));
  r.communication_cores = 1;
  const CorePlan plan = plan_cores(machine(8), r);
  EXPECT_EQ(plan.threads, 3);
  EXPECT_EQ(plan.exchange_cores, Cpus{3});
  EXPECT_EQ(plan.text, "cores 0-2, 3 threads, gradients are exchanged on core 3");
}

TEST(CorePlan, OneRankReservesNothingForCommunication) {
  CoreRequest r = request(0, 1, range(0, 3));
  r.communication_cores = 1;
  EXPECT_EQ(plan_cores(machine(4), r).threads, 4);
}

TEST(CorePlan, ReservingEveryCoreIsAnError) {
  CoreRequest r = request(0, 2, range(0, 3));
  r.communication_cores = 2;
  EXPECT_EQ(config_error(machine(4), r),
            "comm.cores 2 leaves no core to compute on: each of the 2 ranks on this host has 2; lower comm.cores or "
            "start fewer ranks per host");
}

TEST(CorePlan, UnevenSharesComputeWithEqualThreads) {
  for (int rank = 0; rank < 3; ++rank) EXPECT_EQ(plan_cores(machine(8), request(rank, 3, range(0, 7))).threads, 2);
  // Three cores for two threads: the system chooses among them.
  EXPECT_EQ(plan_cores(machine(8), request(2, 3, range(0, 7))).thread_cpus, (std::vector<Cpus>{{5, 6, 7}, {5, 6, 7}}));
}

TEST(CorePlan, ACpusetLimitsTheCores) {
  const CorePlan plan = plan_cores(machine(8, 2), request(0, 1, {2, 3, 10, 11}));
  EXPECT_EQ(plan.text, "cores 2-3, 2 threads");
  EXPECT_EQ(plan.cpus, (Cpus{2, 3, 10, 11}));
}

TEST(CorePlan, DisjointOffersAreKept) {
  CoreRequest r = request(1, 2, {});
  r.offered = {{0, 1}, {4, 5, 6}};
  EXPECT_EQ(plan_cores(machine(8), r).text, "cores 4-6, 3 threads, gradients are exchanged there too");
}

TEST(CorePlan, MoreRanksThanCoresIsAWarningWithTheNumbers) {
  const CorePlan plan = plan_cores(machine(2), request(2, 3, range(0, 1)));
  EXPECT_EQ(plan.threads, 1);
  EXPECT_EQ(plan.text, "core 0, 1 thread, gradients are exchanged there too");
  ASSERT_EQ(plan.warnings.size(), 1u);
  EXPECT_EQ(plan.warnings[0], "3 ranks on this host share 2 physical cores: each computes more slowly");
}

TEST(CorePlan, AQuotaBelowTheCoresLimitsThreads) {
  CoreRequest r = request(0, 2, range(0, 7));
  r.quota = 5.5;
  const CorePlan plan = plan_cores(machine(8), r);
  EXPECT_EQ(plan.threads, 2);
  ASSERT_EQ(plan.warnings.size(), 1u);
  EXPECT_EQ(plan.warnings[0], "the control group allows 5.5 processors for 2 ranks on this host: 2 of 4 threads");
  r.quota = 0.5;
  EXPECT_EQ(plan_cores(machine(8), r).threads, 1);
}

TEST(CorePlan, AskedThreadsAreGivenAndTooManyAreAWarning) {
  CoreRequest r = request(0, 1, range(0, 3));
  r.threads = 2;
  EXPECT_EQ(plan_cores(machine(4), r).threads, 2);
  EXPECT_EQ(plan_cores(machine(4), r).thread_cpus[0], range(0, 3));
  r.threads = 6;
  const CorePlan plan = plan_cores(machine(4), r);
  EXPECT_EQ(plan.threads, 6);
  ASSERT_EQ(plan.warnings.size(), 1u);
  EXPECT_EQ(plan.warnings[0], "launch.threads 6 on 4 physical cores: threads wait for each other");
}

TEST(CorePlan, ThreadsThatNoMachineHasAreRefused) {
  CoreRequest r = request(0, 1, range(0, 3));
  r.threads = 33;
  EXPECT_ERROR(
      plan_cores(machine(4), r), ErrorKind::config,
      "launch.threads (--threads) is 33, but the ranks of this host have 4 processors: at most 32 are started");
  r.threads = 32;
  EXPECT_EQ(plan_cores(machine(4), r).threads, 32);
}

TEST(CorePlan, ACommunicationCoreIsNotReservedForOneRankWhichGivesAWarning) {
  CoreRequest r = request(0, 1, range(0, 3));
  r.communication_cores = 1;
  const CorePlan plan = plan_cores(machine(4), r);
  EXPECT_EQ(plan.threads, 4);
  ASSERT_EQ(plan.warnings.size(), 1u);
  EXPECT_EQ(plan.warnings[0], "comm.cores 1: no core is reserved, because a single rank does not communicate");
}

TEST(CorePlan, InheritKeepsTheLaunchersBinding) {
  CoreRequest r = request(0, 2, {});
  r.offered = {{3}, {3}};
  r.inherit = true;
  const CorePlan plan = plan_cores(machine(4), r);
  EXPECT_EQ(plan.threads, 1);
  EXPECT_TRUE(plan.thread_cpus.empty());
  EXPECT_TRUE(plan.exchange_cores.empty());
  EXPECT_EQ(plan.text, "processors 3 as the launcher bound them, 1 thread, gradients are exchanged there too");
}

TEST(CorePlan, ProcessorsOutsideTheMachineAreAnError) {
  EXPECT_EQ(config_error(machine(2), request(0, 1, {9})),
            "this rank may use processors 9, but none of them is a core of this machine");
}

}  // namespace
}  // namespace trireme
