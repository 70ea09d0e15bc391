#include "plan/mesh_placement.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <vector>

#include "plan/node_type.h"
#include "plan/simulator.h"

namespace trireme {
namespace {

struct Mesh {
  int64_t data, tensor, pipeline, node;
  int64_t ranks() const { return data * tensor * pipeline; }
  MeshPlacement place() const { return {data, tensor, pipeline, node}; }
  std::string text() const { return fmt::format("{} x {} x {} on nodes of {}", data, tensor, pipeline, node); }
};

/// All meshes of a few ranks on nodes of every size, borders of groups on borders of nodes or not.
std::vector<Mesh> meshes() {
  std::vector<Mesh> all;
  for (int64_t data = 1; data <= 7; ++data)
    for (int64_t tensor = 1; tensor <= 7; ++tensor)
      for (int64_t pipeline = 1; pipeline <= 5; ++pipeline)
        for (int64_t node = 1; node <= 12; ++node) all.push_back({data, tensor, pipeline, node});
  return all;
}

/// What the node that sends most sends, if `members` gives the group of each rank, in order.
double most_sent(const Mesh& mesh, GroupTraffic traffic,
                 const std::function<std::vector<int64_t>(int64_t rank)>& members) {
  std::map<int64_t, double> sent;
  for (int64_t rank = 0; rank < mesh.ranks(); ++rank) {
    const std::vector<int64_t> group = members(rank);
    const auto n = static_cast<double>(group.size());
    const auto own = std::ranges::find(group, rank) - group.begin();
    for (size_t i = 0; i < group.size(); ++i) {
      const bool next = i == (static_cast<size_t>(own) + 1) % group.size();
      const double bytes = traffic == GroupTraffic::direct ? 2 / n : next ? 2 * (n - 1) / n : 0;
      if (group[i] / mesh.node != rank / mesh.node) sent[rank / mesh.node] += bytes;
    }
  }
  double most = 0;
  for (const auto& [node, bytes] : sent) most = std::max(most, bytes);
  return most;
}

TEST(MeshPlacement, CountsWhatLeavesTheNodesRankByRank) {
  for (const Mesh& mesh : meshes()) {
    const auto tensor_group = [&](int64_t rank) {
      std::vector<int64_t> group;
      for (int64_t i = 0; i < mesh.tensor; ++i) group.push_back(rank / mesh.tensor * mesh.tensor + i);
      return group;
    };
    const auto data_group = [&](int64_t rank) {
      const int64_t stage = mesh.data * mesh.tensor, first = rank / stage * stage + rank % mesh.tensor;
      std::vector<int64_t> group;
      for (int64_t i = 0; i < mesh.data; ++i) group.push_back(first + i * mesh.tensor);
      return group;
    };
    for (const GroupTraffic traffic : {GroupTraffic::ring, GroupTraffic::direct}) {
      ASSERT_NEAR(mesh.place().tensor_share(traffic), most_sent(mesh, traffic, tensor_group), 1e-9) << mesh.text();
      ASSERT_NEAR(mesh.place().data_share(traffic), most_sent(mesh, traffic, data_group), 1e-9) << mesh.text();
    }
  }
}

TEST(MeshPlacement, CountsTheMessagesThatLeaveTheNodes) {
  for (const Mesh& mesh : meshes()) {
    const int64_t stage = mesh.data * mesh.tensor;
    std::map<int64_t, int64_t> both;
    for (int64_t s = 0; s + 1 < mesh.pipeline; ++s) {
      std::map<int64_t, int64_t> leave;
      for (int64_t rank = s * stage; rank < (s + 1) * stage; ++rank) {
        const int64_t from = rank / mesh.node, to = (rank + stage) / mesh.node;
        if (from == to) continue;
        ++leave[from], ++both[from], ++both[to];
      }
      int64_t most = 0;
      for (const auto& [node, count] : leave) most = std::max(most, count);
      ASSERT_EQ(mesh.place().leaving(s), most) << mesh.text() << ", stage " << s;
    }
    int64_t most = 0;
    for (const auto& [node, count] : both) most = std::max(most, count);
    ASSERT_EQ(mesh.place().leaving_both_ways(), most) << mesh.text();
  }
}

/// The rates of a plan, with a network that counts.
MachineRates gpu_rates(int64_t each, double gbit) {
  NodeType type = node_type("dgx-a100");
  type.network_gbit_per_s = gbit;
  return trireme_rates(type, each, {.host_sums = true, .host_sums_if_even = true});
}

TEST(MeshPlacement, ATensorGroupOnTwoNodesUsesTheNetwork) {
  const ModelSize model{.layers = 96, .width = 12288, .heads = 96, .sequence = 2048, .vocabulary = 51200};
  const MachineRates rates = gpu_rates(8, 100);
  const StepLayout six{.data = 4, .tensor = 6, .pipeline = 4, .global_batch = 64, .micro_batch = 1};
  const StepLayout eight{.data = 3, .tensor = 8, .pipeline = 4, .global_batch = 63, .micro_batch = 1};
  const PlannedTime across = step_time(model, six, rates), inside = step_time(model, eight, rates);
  // Two of the group's six ranks send to four others, twice, in each of 4 sums of 24 layers and 16 micro-batches.
  const double bytes = 2.0 * 2048 * 12288, least = 2 * 2 * 4 / 6.0 * bytes * 4 * 24 * 16 / (rates.node_share * 12.5e9);
  EXPECT_GT(across.tensor_sums, least);
  EXPECT_LT(across.tensor_sums, 3 * least) << "a node may have two such groups";
  EXPECT_GT(across.tensor_sums, 10 * inside.tensor_sums);
  const double simulated = simulate_step(model, six, rates).seconds;
  EXPECT_NEAR(simulated / across.total(), 1, 0.15);
}

/// Plans and simulations of the same steps, however groups and stages lie on the nodes.
TEST(MeshPlacement, APlanIsNearTheSimulationWhereverTheBordersAre) {
  const ModelSize model{.layers = 24, .width = 2048, .heads = 48, .sequence = 1024, .vocabulary = 50304};
  double sum = 0, worst = 0;
  int count = 0;
  std::string of;
  for (const double gbit : {10.0, 100.0, 1600.0}) {
    for (const int64_t each : {2, 3, 4, 6, 8}) {
      const MachineRates rates = gpu_rates(each, gbit);
      for (int64_t data = 1; data <= 6; ++data) {
        for (const int64_t tensor : {1, 2, 3, 4, 6, 8}) {
          for (const int64_t pipeline : {1, 2, 3, 4, 6}) {
            if (data * tensor * pipeline % each != 0 || data * tensor * pipeline > 64) continue;
            const StepLayout layout{
                .data = data, .tensor = tensor, .pipeline = pipeline, .global_batch = data * 8, .micro_batch = 1};
            const double planned = step_time(model, layout, rates).total();
            const double error = std::abs(planned / simulate_step(model, layout, rates).seconds - 1);
            sum += error, ++count;
            if (error <= worst) continue;
            worst = error;
            of = fmt::format("{} x {} x {} on nodes of {}, {} Gbit/s", data, tensor, pipeline, each, gbit);
          }
        }
      }
    }
  }
  EXPECT_LE(sum / count, 0.02) << count;
  EXPECT_LE(worst, 0.22) << of;
}

}  // namespace
}  // namespace trireme
