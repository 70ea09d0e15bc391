#include "train/start/rank_table.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "base/count.h"
#include "base/error.h"
#include "checkpoint/huggingface/generation_settings.h"
#include "checkpoint/model_folder.h"
#include "checkpoint/peft/targets.h"
#include "checkpoint/snapshot/checkpoint.h"
#include "hub/place.h"
#include "model/mesh_layout.h"
#include "model/model_options.h"
#include "model/pipeline_order.h"
#include "model/presets.h"
#include "ops/backend.h"
#include "text/tokenizer.h"
#include "train/facts.h"
#include "train/plan.h"
#include "train/start/data_setup.h"
#include "train/start/resolve.h"

namespace trireme {
namespace {

constexpr int kMostLines = 64;

namespace fs = std::filesystem;

/// Size of the model's vocabulary if no option sets it: that of the data or the tokenizer if they are here, else of the
/// preset; 0: unknown.
int64_t likely_vocabulary(const Config& config) {
  DataOptions data = config.data;
  const bool tokenizer =
      !data.tokenizer.empty() && (data.tokenizer == kCharLevelTokenizer || fs::exists(data.tokenizer));
  if (!tokenizer) data.tokenizer = data.merges = "";  // nothing is fetched for a plan
  if (tokenizer || (!data.dir.empty() && fs::exists(data.dir)) || fs::exists(data.train + ".idx")) {
    if (const int64_t found = vocabulary_of_data(data, find_tokenizer(data)); found > 0) return found;
  }
  return config.model.preset.empty() ? 0 : preset(config.model.preset).spec.vocabulary;
}

/// Nullopt: unknown here. lora: as with_adapters() changes it.
std::optional<Spec> model_of(const LoadedConfig& loaded, LoraOptions& lora) {
  const ModelOptions& model = loaded.config.model;
  if (!model.init.empty() && model.init != "scratch") {
    if (!fs::exists(model.init)) return {};
    const ModelFolder folder = open_model(model.init);
    return with_adapters(spec_of_folder(folder, loaded), lora, kept_model_type(folder.generation));
  }
  const int64_t vocabulary = likely_vocabulary(loaded.config);
  if (model.vocabulary == 0 && vocabulary == 0) return {};
  return with_adapters(spec_from_options(loaded, vocabulary), lora, {});
}

/// The model as far as its layout depends on it; nullopt if it is described by a folder that is not here.
std::optional<Spec> shape_of(const LoadedConfig& loaded) {
  const std::string& init = loaded.config.model.init;
  if (!init.empty() && init != "scratch" && !fs::exists(init)) return {};
  LoraOptions lora = loaded.config.lora;
  const std::optional<Spec> known = model_of(loaded, lora);
  return known ? known : spec_from_options(loaded, 1);
}

std::string parts_of(const Layout& layout) {
  if (!layout.chunks.empty()) {
    std::vector<std::string> parts;
    for (const ModelPart& part : layout.chunks) parts.push_back(parts_of(Layout{part, 0, 1, {}}));
    return fmt::format("{}", fmt::join(parts, ", "));
  }
  const ModelPart& part = layout.part;
  const std::string layers = part.layers() == 1 ? fmt::format("layer {}", part.first_layer)
                                                : fmt::format("layers {} to {}", part.first_layer, part.last_layer - 1);
  return fmt::format("{}{}{}", part.embedding ? "embedding, " : "", layers, part.head ? ", head" : "");
}

std::string held_by(const Layout& layout) {
  return parts_of(layout) + (layout.tensor_size > 1 ? fmt::format(" (1/{} of each)", layout.tensor_size) : "");
}

std::string gigabytes(size_t bytes) { return fmt::format("{:.2f} GB", static_cast<double>(bytes) / 1e9); }

/// What a rank needs where its tensors are.
size_t planned_bytes(const MemoryPlan& memory, PlannedDevices devices) {
  return devices == PlannedDevices::gpus ? memory.on_device() : memory.total();
}

/// The mesh of so many ranks, if they can train so. source: where their number comes from.
MeshShape possible_mesh(const LoadedConfig& loaded, int ranks, int hosts, PlannedDevices devices, const char* source) {
  const Config& config = loaded.config;
  const MeshShape mesh = mesh_of(config.mesh, ranks, source);
  require_hosts(config, mesh, even_hosts(ranks, hosts));
  if (devices == PlannedDevices::gpus) require_layout_on_gpus(loaded, mesh.data);
  require_mesh(loaded);
  (void)pipeline_order(0, mesh.pipeline, mesh.chunks,
                       config.batch.accumulation);  // for steps that cannot be interleaved
  return mesh;
}

/// What a rank holds, and its memory.
RankPlan plan_one(const PlannedModel& model, const Config& config, int rank, int threads, const HostMap& hosts,
                  const Ops& ops, PlannedDevices devices) {
  const int64_t sequence = config.batch.sequence == 0 ? model.spec.context : config.batch.sequence;
  require(sequence <= model.spec.context, ErrorKind::config,
          "batch.sequence is {}, but the model has only {} positions; lower it or raise model.context", sequence,
          model.spec.context);
  RankPlan plan = plan_rank(model, config,
                            step_size({.global = config.batch.global,
                                       .micro_batches = config.batch.accumulation,
                                       .sequence = sequence,
                                       .ranks = static_cast<int>(model.mesh.data),
                                       .rank = place_of(model.mesh, rank).data}),
                            {.rank = rank, .threads = threads, .hosts = hosts, .gpu = devices == PlannedDevices::gpus});
  plan.memory = memory_of(plan, ops);
  return plan;
}

}  // namespace

void require_mesh(const LoadedConfig& loaded) {
  MeshOptions options = loaded.config.mesh;
  options.data = 1;
  const MeshShape mesh = mesh_of(options, static_cast<int>(options.tensor * options.pipeline), "mesh");
  if (const std::optional<Spec> spec = shape_of(loaded)) layout_of(with_rows_for(*spec, mesh.tensor), mesh, 0);
}

std::string trained_comment(const LoadedConfig& loaded) {
  const TrainOptions& train = loaded.config.train;
  Config config = loaded.config;
  if (Trained(train.only, train.freeze).all() && !config.lora.on()) return "";
  const std::optional<Spec> spec = model_of(loaded, config.lora);
  if (!spec)
    return fmt::format("# {}: cannot count what {}, because the model or the size of its vocabulary is unknown here.\n",
                       config.lora.on() ? "lora" : "train.only and train.freeze",
                       config.lora.on() ? "is adapted" : "they match");
  const ParameterTable whole(*spec, InitScheme::gpt2, {}, trained_of(config, *spec));
  return fmt::format("# Trained: {}. Frozen: {:.2f}M.\n", describe_trained(whole),
                     static_cast<double>(whole.total() - whole.total_trained()) / 1e6);
}

PlannedDevices planned_devices(const Config& config) {
  return config.run.device == DeviceChoice::cuda ? PlannedDevices::gpus : PlannedDevices::cpus;
}

std::string rank_table(const LoadedConfig& loaded, int ranks, int hosts, PlannedDevices devices) {
  const int on = hosts > 0 ? hosts : ranks;
  const MeshShape mesh = possible_mesh(loaded, ranks, on, devices, "--ranks");
  const HostMap host_map = even_hosts(ranks, on);
  Config adapted = loaded.config;
  const std::optional<Spec> spec = model_of(loaded, adapted.lora);
  if (!spec)
    return fmt::format(
        "# {}: data {} x tensor {} x pipeline {}. Cannot show what each rank holds, because the vocabulary size is "
        "unknown: set model.vocabulary, model.preset, or a data.dir or model.init that exists here.\n",
        count_text(ranks, "rank"), mesh.data, mesh.tensor, mesh.pipeline);
  const PlannedModel model{.spec = with_rows_for(*spec, mesh.tensor), .mesh = mesh};
  const std::unique_ptr<Ops> ops = planned_ops(devices);
  size_t holds = 41;  // columns, more if the longest text needs them
  for (const Layout& layout : layouts_of_replica(model.spec, mesh)) holds = std::max(holds, held_by(layout).size());
  std::string text = fmt::format(
      "# {}: data {} x tensor {} x pipeline {}. Memory is {} and {}.\n"
      "# {:>9}  {:>11}  {:>6}  {:>8}  {:<{}}  {:>12}  {:>12}  {}\n",
      count_text(ranks, "rank"), mesh.data, mesh.tensor, mesh.pipeline,
      devices == PlannedDevices::gpus ? "that of a GPU for each rank, without CUDA's own (less than 1 GB),"
                                      : "planned with one thread per rank",
      hosts > 0 ? fmt::format("{} per host", count_text(ranks / hosts, "rank")) : "one host per rank", "rank", "data",
      "tensor", "pipeline", "holds", holds, "memory", "state",
      devices == PlannedDevices::gpus ? "activations  NCCL, estimated" : "activations");
  const int group = ranks > kMostLines ? static_cast<int>(mesh.data * mesh.tensor) : 1;
  std::string exchange;  // of the first rank
  for (int rank = 0; rank < ranks; rank += group) {
    const MeshPlace place = place_of(mesh, rank);
    const RankPlan plan = plan_one(model, adapted, rank, 1, host_map, *ops, devices);
    const MemoryPlan& memory = plan.memory;
    const Layout& held = plan.table->layout();
    if (rank == 0) exchange = describe_exchange(adapted, plan);
    const auto range = [&](int64_t first, int64_t count) {
      return group == 1 || count == 1 ? fmt::format("{}", first) : fmt::format("{}-{}", first, first + count - 1);
    };
    text += fmt::format("# {:>9}  {:>11}  {:>6}  {:>8}  {:<{}}  {:>12}  {:>12}  {}\n", range(rank, group),
                        range(place.data, mesh.data), range(place.tensor, mesh.tensor), place.pipeline, held_by(held),
                        holds, gigabytes(planned_bytes(memory, devices)), gigabytes(memory.state),
                        devices == PlannedDevices::gpus
                            ? fmt::format("{:<11}  {}", gigabytes(memory.activations), gigabytes(memory.nccl))
                            : gigabytes(memory.activations));
  }
  if (!exchange.empty()) text += "# " + exchange + "\n";
  const std::string split = split_tensor_groups(mesh, host_map);
  return split.empty() ? text : text + "# warning: " + split + "\n";
}

HostMap even_hosts(int ranks, int hosts) {
  require(ranks % hosts == 0, ErrorKind::config, "--ranks {} cannot be spread evenly over --hosts {}", ranks, hosts);
  std::vector<int> host_of(static_cast<size_t>(ranks));
  for (int rank = 0; rank < ranks; ++rank) host_of[static_cast<size_t>(rank)] = rank / (ranks / hosts);
  return HostMap(host_of);
}

Spec planned_model(const LoadedConfig& loaded, LoraOptions& lora) {
  const std::optional<Spec> spec = model_of(loaded, lora);
  require(spec.has_value(), ErrorKind::config,
          "the vocabulary size is unknown: set model.vocabulary, model.preset, or a data.dir or model.init that exists "
          "here");
  return *spec;
}

std::string split_tensor_groups(const MeshShape& mesh, const HostMap& hosts) {
  int groups = 0, split = 0;
  const int tensor = static_cast<int>(mesh.tensor);
  for (int first = 0; first + tensor <= hosts.ranks(); first += tensor, ++groups)
    split += hosts.host_of(first) != hosts.host_of(first + tensor - 1) && hosts.local_size(first) > 1 ? 1 : 0;
  if (split == 0) return "";
  const int each = hosts.ranks_per_host();
  std::string fit = "set --mesh.tensor to a number that divides the ranks of every host";
  if (each > 0) {
    int64_t divisor = std::min<int64_t>(each, mesh.tensor);
    while (each % divisor != 0) --divisor;
    fit = fmt::format("with --mesh.tensor {} each is on one host", divisor);
  }
  return fmt::format("{} of {} {} on several hosts, so that the sums of every layer use the network; {}", split,
                     count_text(groups, "tensor group"), split == 1 ? "is" : "are", fit);
}

std::unique_ptr<Ops> planned_ops(PlannedDevices devices) {
  return devices == PlannedDevices::gpus ? make_planned_gpu_ops() : make_backend().ops;
}

PlannedRank planned_rank(int ranks, int hosts, PlannedDevices devices) {
  return {.rank = 0,
          .threads = 1,
          .hosts = even_hosts(ranks, hosts),
          .exchange_cores = {},
          .gpu = devices == PlannedDevices::gpus};
}

RankPlan largest_rank(const LoadedConfig& loaded, int ranks, int hosts, int threads, PlannedDevices devices) {
  const MeshShape mesh = possible_mesh(loaded, ranks, hosts, devices, "--nodes");
  const HostMap host_map = even_hosts(ranks, hosts);
  Config adapted = loaded.config;
  const PlannedModel model{.spec = with_rows_for(planned_model(loaded, adapted.lora), mesh.tensor), .mesh = mesh};
  const std::unique_ptr<Ops> ops = planned_ops(devices);
  RankPlan largest;
  // Earlier stages keep more micro-batches: of those with the same number of layers the first needs most, and the last
  // one has the head.
  std::set<int64_t> layers;
  const int stage_ranks = static_cast<int>(mesh.data * mesh.tensor);
  for (int rank = 0; rank < ranks; rank += stage_ranks) {
    const Layout layout = layout_of(model.spec, mesh, rank);
    int64_t held = layout.chunks.empty() ? layout.part.layers() : 0;
    for (const ModelPart& chunk : layout.chunks) held += chunk.layers();
    if (!layers.insert(held).second && rank + stage_ranks < ranks) continue;
    RankPlan plan = plan_one(model, adapted, rank, threads, host_map, *ops, devices);
    if (rank == 0 || planned_bytes(plan.memory, devices) > planned_bytes(largest.memory, devices))
      largest = std::move(plan);
  }
  return largest;
}

int64_t snapshot_file_bytes(const LoadedConfig& loaded) {
  if (loaded.config.evaluation.only) return 0;
  const std::string& init = loaded.config.model.init;
  const bool from_scratch = init.empty() || init == "scratch";
  if (!from_scratch && hub::is_only_a_name(init)) return 0;
  try {
    const DataOptions& data = loaded.config.data;
    std::string model_type;
    Spec spec;
    if (from_scratch) {
      spec = spec_from_options(loaded, vocabulary_of_data(data, find_tokenizer(data)));
    } else {
      const ModelFolder folder = open_model(init);
      spec = with_given_options(folder.spec, loaded);
      model_type = kept_model_type(folder.generation);
    }
    Config config = loaded.config;
    spec = with_adapters(spec, config.lora, model_type);
    const std::vector<Layout> whole = {layout_of(spec, {.data = 1}, 0)};
    return static_cast<int64_t>(CheckpointWriter::snapshot_bytes(
        ParameterTable(spec, InitScheme::gpt2, {}, trained_of(config, spec)), whole, 0, true));
  } catch (const Error&) {
    return 0;  // training will report the error
  }
}

}  // namespace trireme
