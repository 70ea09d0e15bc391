// Every reader of a training state against every kind of state that a rank may keep: of all elements or of those it
// owns (optim.shard, shared by all data ranks or within hosts), of the complete model or a part of it. The loaded state
// is compared element by element with the checkpoint's tensors from an independent reader, and the next updates with
// AdamW in f64.

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <filesystem>
#include <functional>
#include <map>

#include "base/hash.h"
#include "checkpoint/model_folder.h"
#include "checkpoint/run_folder/run_folder.h"
#include "checkpoint/safetensors/safetensors.h"
#include "checkpoint/snapshot/local_disk.h"
#include "checkpoint/snapshot/shared_copies.h"
#include "comm/mesh.h"
#include "model/mesh_layout.h"
#include "ops/backend.h"
#include "optim/optimizer.h"
#include "optim/parameter_hash.h"
#include "tests/checkpoint/small_run.h"
#include "tests/support/cut_states.h"
#include "tests/support/norm_values.h"
#include "tests/support/paths.h"
#include "tests/support/temporary_folder.h"

namespace trireme {
namespace {
namespace fs = std::filesystem;

/// Whole tensors by our names: value, first and second moment; without moments those are zero.
using Tensors = std::map<std::string, std::array<std::vector<float>, 3>>;

/// A checkpoint, its contents and its loader.
struct Source {
  std::string name;
  Spec spec;
  int64_t updates = 0;  ///< Adam's t
  Tensors tensors;
  std::function<void(const ParameterTable&, TrainingState&)> load;
};

struct Kept {
  const char* name;
  MeshShape mesh;
  ShardChoice shard = ShardChoice::none;
  std::vector<int> hosts{};  ///< of the data ranks; with some the state is shared within hosts
};

void PrintTo(const Kept& kept, std::ostream* out) { *out << kept.name; }

const Kept kKept[] = {
    {"whole", {1, 1, 1}},
    {"tensor 2", {1, 2, 1}},
    {"pipeline 2", {1, 1, 2}},
    {"data 2, optimizer", {2, 1, 1}, ShardChoice::optimizer},
    {"data 2, gradients", {2, 1, 1}, ShardChoice::gradients},
    {"data 2, parameters", {2, 1, 1}, ShardChoice::parameters},
    {"data 4, optimizer", {4, 1, 1}, ShardChoice::optimizer},
    {"data 4, gradients", {4, 1, 1}, ShardChoice::gradients},
    {"data 3, parameters", {3, 1, 1}, ShardChoice::parameters},
    {"data 4, optimizer within hosts", {4, 1, 1}, ShardChoice::optimizer, {0, 0, 1, 1}},
    {"data 2, tensor 2, optimizer", {2, 2, 1}, ShardChoice::optimizer},
    {"data 2, pipeline 2, optimizer", {2, 1, 2}, ShardChoice::optimizer},
    {"data 4, tensor 2, pipeline 2, optimizer", {4, 2, 2}, ShardChoice::optimizer},
    {"data 2, tensor 2, gradients", {2, 2, 1}, ShardChoice::gradients},
    {"data 2, tensor 2, parameters", {2, 2, 1}, ShardChoice::parameters},
};

OptimizerOptions options_of(const Kept& kept) {
  OptimizerOptions options;
  options.adamw.weight_decay = 0.1f;
  options.adamw.epsilon = 1e-3f;  // Adam's direction of a gradient near zero is not its sign
  options.clip = 0;
  options.wire = DType::f32;
  options.bucket_bytes = 400;
  options.shard = kept.shard;
  options.hosts = HostMap(kept.hosts);
  options.shard_group = kept.hosts.empty() ? ShardGroup::all : ShardGroup::host;
  return options;
}

/// Calls check(place in the whole tensor, flat element) for each stored element of a parameter that the table holds.
template <class Check>
void for_each_element(const Parameter& own, Check check) {
  for_each_run(own.stored(), own.box, whole_box(own.global_shape), [&](int64_t at, int64_t place, int64_t count) {
    for (int64_t i = 0; i < count; ++i) check(static_cast<size_t>(place + i), own.offset + at + i);
  });
}

/// The value that a rank computes with, its master where the rank has that, and the moments that it owns.
void expect_loaded(const Source& source, const ParameterTable& table, const TrainingState& state) {
  for (const Parameter& own : table.all()) {
    const auto& parts = source.tensors.at(own.name);
    const std::vector<float>& weights = parts[0];
    const auto read = [&](int64_t element, const std::function<void(std::span<float>)>& read_it) {
      float value = -1;
      read_it({&value, 1});
      return std::pair(element, value);
    };
    for_each_element(own, [&](size_t at, int64_t element) {
      bool owned = false;
      state.for_owned(element, element + 1, [&](int64_t, int64_t, int64_t) { owned = true; });
      if (!state.shards_weights() && state.weights().dtype() == DType::bf16) {
        ASSERT_EQ(state.weights().as<bf16_t>()[element].bits, to_bf16_master(weights[at]).bits)
            << own.name << " " << at;
      }
      if (owned || (!state.shards_weights() && state.weights().dtype() == DType::f32)) {
        ASSERT_EQ(read(element, [&](auto out) { state.read_weights(element, out); }).second, weights[at])
            << own.name << " " << at;
      }
      if (!owned) return;
      for (const size_t part : {1, 2}) {
        const std::string_view moment = part == 1 ? kAdamM : kAdamV;
        ASSERT_EQ(read(element, [&](auto out) { state.read_state(moment, own, element - own.offset, out); }).second,
                  parts[part][at])
            << own.name << " " << at << ", " << moment;
      }
    });
  }
}

/// Masters of this rank, within the f32 error of a few operations.
void expect_near_master(const Source& after, const ParameterTable& table, const TrainingState& state) {
  for (const Parameter& own : table.all()) {
    const std::vector<float>& weights = after.tensors.at(own.name)[0];
    for_each_element(own, [&](size_t at, int64_t element) {
      state.for_owned(element, element + 1, [&](int64_t first, int64_t, int64_t) {
        float value = -1;
        state.read_weights(first, {&value, 1});
        ASSERT_NEAR(value, weights[at], 2e-6f * std::max(1.0f, std::abs(weights[at]))) << own.name << " " << at;
      });
    });
  }
}

/// A gradient whose sum over ranks is exact.
float gradient(const std::string& name, size_t at, int data_rank, int update) {
  return static_cast<float>(static_cast<int>((name.size() * 7 + at * 13 + static_cast<size_t>(update) * 5) % 31) - 15 +
                            data_rank) /
         64.0f;
}

/// AdamW in f64 (Loshchilov and Hutter 2019), two updates from the checkpoint's values.
Tensors updated(const Source& source, const ParameterTable& whole, int data_ranks, double rate) {
  Tensors tensors = source.tensors;
  for (const Parameter& parameter : whole.all()) {
    auto& [weights, m, v] = tensors.at(parameter.name);
    const double decay = parameter.rule == UpdateRule::adamw ? 0.1f : 0.0;
    for (size_t i = 0; i < weights.size(); ++i) {
      double w = weights[i], first = m[i], second = v[i];
      for (int update = 1; update <= 2; ++update) {
        double g = 0;
        for (int rank = 0; rank < data_ranks; ++rank) g += gradient(parameter.name, i, rank, update);
        const auto t = static_cast<double>(source.updates + update);
        const double beta1 = 0.9f, beta2 = 0.95f;
        first = beta1 * first + (1 - beta1) * g;
        second = beta2 * second + (1 - beta2) * g * g;
        const double m_hat = first / (1 - std::pow(beta1, t)), v_hat = second / (1 - std::pow(beta2, t));
        w = w - rate * decay * w - rate * m_hat / (std::sqrt(v_hat) + double{1e-3f});
      }
      weights[i] = static_cast<float>(w);
    }
  }
  return tensors;
}

/// The gradients of one update, of all that this data rank holds.
void write_gradients(Optimizer& optimizer, const ParameterTable& table, TrainingState& state, int data_rank,
                     int update) {
  for (const ParameterRange& range : table.ready_ranges()) {
    optimizer.begin(range);
    float* const values = state.gradients().as<float>();
    std::fill(values + range.begin, values + range.end, 0.0f);
    for (const Parameter& own : table.all()) {
      if (own.offset < range.begin || own.offset >= range.end) continue;
      for_each_element(
          own, [&](size_t at, int64_t element) { values[element] = gradient(own.name, at, data_rank, update); });
    }
    optimizer.ready(range);
  }
}

/// Loads on every rank of a mesh, compares, updates twice and compares again.
void load_and_update(const Source& source, const Kept& kept, DType dtype) {
  const std::vector<Layout> places = layouts_of_replica(source.spec, kept.mesh);
  const OptimizerOptions options = options_of(kept);
  const auto data = static_cast<int>(kept.mesh.data);
  constexpr double kRate = 0.01;
  Source after = source;
  after.tensors = updated(source, ParameterTable(source.spec), data, kRate);
  for (const Layout& layout : places) {
    const ParameterTable table(source.spec, InitScheme::gpt2, layout);
    run_local(data, [&](RankContext& rank) {
      TrainingState state(table, dtype, true, kept_states(table, options, data, rank.rank()));
      EXPECT_EQ(state.is_sharded(), kept.shard != ShardChoice::none);
      source.load(table, state);
      expect_loaded(source, table, state);
      if (source.spec.tied_head && kept.mesh.pipeline > 1) return;  // two stages would have to add a matrix' gradients
      const auto group = rank.world.split(0, rank.rank()), weights_group = rank.world.split(0, rank.rank());
      const Backend backend = make_backend();
      const bool by_host = !kept.hosts.empty();
      const auto host_group = by_host ? rank.world.split(kept.hosts[static_cast<size_t>(rank.rank())], rank.rank())
                                      : std::unique_ptr<Communicator>();
      Optimizer optimizer(table, state, *backend.ops, *group, options, nullptr,
                          by_host ? host_group.get() : weights_group.get());
      Context context{.threads = 1, .stream = &host_device().stream()};
      for (int update = 1; update <= 2; ++update) {
        optimizer.begin_exchange();
        write_gradients(optimizer, table, state, rank.rank(), update);
        (void)finish_exchange(optimizer, context);
        optimizer.update(context, kRate, source.updates + update, 1);
      }
      expect_near_master(after, table, state);
    });
  }
}

// ---- reading

Source neox_sample(const std::string& name) {
  const std::string path = source_dir() + "/tests/golden/neox/" + name;
  const SafetensorsFile file(path + "/expected.safetensors");  // scripts/make_neox_samples.py
  const CheckpointFolder folder = open_checkpoint(path);
  Source source{"NeoX " + name, folder.facts.spec, folder.facts.progress.updates, {}, {}};
  const ParameterTable table(source.spec);
  for (const Parameter& parameter : table.all()) {
    size_t part = 0;
    for (const char* prefix : {"weight.", "m.", "v."})
      source.tensors[parameter.name][part++] = file.read_f32(*file.find(prefix + parameter.name));
  }
  EXPECT_EQ(source.updates, 4);
  source.load = [folder](const ParameterTable& own, TrainingState& state) { load_checkpoint(folder, own, state); };
  return source;
}

/// Elements of a state by its parameters: only for complete states.
Tensors tensors_of(const TrainingState& state, const ParameterTable& table) {
  Tensors tensors;
  for (const Parameter& parameter : table.all()) {
    auto& parts = tensors[parameter.name];
    for (std::vector<float>& part : parts) part.resize(static_cast<size_t>(parameter.stored_shape.count()));
    state.read_master(parameter, parts[0]);
    if (state.state(kAdamM).empty()) continue;
    state.read_state(kAdamM, parameter, 0, parts[1]);
    state.read_state(kAdamV, parameter, 0, parts[2]);
  }
  return tensors;
}

/// A shard of each rank; tensors that are cut into rows follow each other (docs/checkpoint-format.md).
Source version_1() {
  const std::string path = source_dir() + "/tests/golden/checkpoint-version-1";
  const CheckpointFolder folder = open_checkpoint(path);
  Source source{"version 1", folder.facts.spec, folder.facts.progress.updates, {}, {}};
  const ParameterTable table(source.spec);
  for (const Parameter& parameter : table.all()) {
    size_t part = 0;
    for (const char* suffix : {"", ".m", ".v"}) {
      for (int rank = 0; rank < 2; ++rank) {
        const SafetensorsFile shard(path + "/" + shard_name(rank, 2));
        const SafetensorsEntry* entry = shard.find(parameter.name + suffix);
        if (!entry) continue;
        const std::vector<float> values = shard.read_f32(*entry);
        std::vector<float>& all = source.tensors[parameter.name][part];
        all.insert(all.end(), values.begin(), values.end());
      }
      ++part;
    }
  }
  source.load = [folder](const ParameterTable& own, TrainingState& state) { load_checkpoint(folder, own, state); };
  return source;
}

class KeptState : public testing::TestWithParam<Kept> {
 protected:
  static void load_into_every_type(const Source& source) {
    for (const DType dtype : {DType::f32, DType::bf16}) {
      SCOPED_TRACE(source.name + ", weights " + std::string(name_of(dtype)));
      load_and_update(source, GetParam(), dtype);
    }
  }
  /// The state saved by `saver`, filled with `seed`, with this test's kind of kept state.
  Source saved_by(const Kept& saver, const std::string& local = {}) const {
    const Spec spec = small_spec();
    const ParameterTable whole(spec);
    TrainingState all(whole, DType::f32, true);
    fill(all, whole, 3);
    const TemporaryFolder plain;
    save(plain.path(), whole, all, facts_of(spec, 5));
    const std::vector<Layout> places = layouts_of_replica(spec, saver.mesh);
    const auto data = static_cast<int>(saver.mesh.data);
    std::string hash;
    run_local(data * static_cast<int>(places.size()), [&](RankContext& rank) {
      const MeshPlace place = place_of(saver.mesh, rank.rank());
      const ParameterTable table(spec, InitScheme::gpt2,
                                 places[static_cast<size_t>(place.pipeline * saver.mesh.tensor + place.tensor)]);
      TrainingState state(table, DType::bf16, true, kept_states(table, options_of(saver), data, place.data));
      load_checkpoint(open_checkpoint(plain.path()), table, state);
      CheckpointWriter writer(folder_.path(), table, state, rank.world);
      writer.begin(facts_of(spec, 5), local);
      if (local.empty()) {
        writer.publish(0);
      } else {
        ASSERT_TRUE(writer.publish_local());
      }
      if (rank.rank() == 0) hash = writer.parameter_hash();
    });
    EXPECT_EQ(hash, hex64(parameter_hash(all, whole))) << "the same whoever holds and saves what";
    Source source{std::string("saved by ") + saver.name, spec, 5, tensors_of(all, whole), {}};
    return source;
  }
  TemporaryFolder folder_;
};
INSTANTIATE_TEST_SUITE_P(Every, KeptState, testing::ValuesIn(kKept), [](const auto& kept) {
  std::string name;
  for (const char* c = kept.param.name; *c; ++c) name += std::isalnum(static_cast<unsigned char>(*c)) ? *c : '_';
  return name;
});

TEST_P(KeptState, TakesNeoxsCheckpoints) {
  for (const char* name : {"zero", "bf16", "plain", "fused"}) load_into_every_type(neox_sample(name));
}

TEST_P(KeptState, TakesThoseOfVersion1) {
  if (GetParam().mesh.pipeline > 1) return;  // its model has one block
  load_into_every_type(version_1());
}

TEST_P(KeptState, TakesWhatAnyOtherSaved) {
  for (const Kept& saver : kKept) {
    std::filesystem::remove_all(folder_ / step_name(5));
    Source source = saved_by(saver);
    EXPECT_EQ(verify_checkpoint(folder_ / step_name(5)), std::vector<std::string>());
    source.load = [folder = open_checkpoint(folder_.path())](const ParameterTable& table, TrainingState& state) {
      load_checkpoint(folder, table, state);
    };
    load_and_update(source, GetParam(), DType::bf16);
  }
}

TEST_P(KeptState, TakesWhatLiesOnAHostsOwnDisk) {
  const Kept& saver = kKept[3];
  Source source = saved_by(saver);
  const TemporaryFolder disk;
  saved_by(saver, disk.path());
  const std::vector<LocalStep> local = list_local_steps(disk.path());
  ASSERT_EQ(local.size(), 1);
  CheckpointFolder folder = open_checkpoint(folder_.path());
  folder.nearby = local[0].path;
  fs::remove(fs::path(folder.path) / shard_name(1, 2));  // on the disk alone
  source.load = [&](const ParameterTable& table, TrainingState& state) { load_checkpoint(folder, table, state); };
  load_and_update(source, GetParam(), DType::f32);
}

/// Readers of weights alone leave the moments unchanged: zero.
TEST_P(KeptState, TakesModelsToStartFrom) {
  for (const char* name :
       {"gpt2", "opt", "neox-parallel", "neox-sequential", "bert-mlm", "neox/zero", "torch/ckpt.pt"}) {
    const std::string path = source_dir() + "/tests/golden/" + name;
    SCOPED_TRACE(path);
    const ModelFolder folder = open_model(path);
    Spec spec = folder.spec;
    spec.vocabulary_rows = (spec.vocabulary + 1) / 2 * 2;  // for two tensor ranks
    const ParameterTable whole(spec);
    TrainingState all(whole, DType::f32, false);
    load_model(folder, spec, whole, all);
    Source source{name, spec, 0, tensors_of(all, whole), {}};
    source.load = [&](const ParameterTable& table, TrainingState& state) { load_model(folder, spec, table, state); };
    load_into_every_type(source);
  }
}

}  // namespace
}  // namespace trireme
