#pragma once
// What one rank holds of the model, how it computes and how much memory it needs: resolved once from the configuration,
// the model and the ranks, before anything large is allocated. Used by runs, `bench step`, `bench glue` and the table
// of `config show`.

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "checkpoint/checkpoint_folder.h"
#include "checkpoint/model_folder.h"
#include "comm/rank_context.h"
#include "config/load.h"
#include "model/parameter_table.h"
#include "optim/loss_scale.h"
#include "optim/optimizer.h"
#include "optim/schedule.h"
#include "train/session.h"
#include "train/step_batches.h"

namespace trireme {

/// The rank that a plan is made for.
struct PlannedRank {
  int rank = 0, threads = 1;
  HostMap hosts;                      ///< of all ranks
  std::vector<int> exchange_cores{};  ///< where the exchange thread runs; empty: anywhere
  bool gpu = false;                   ///< all ranks compute on GPUs
};
PlannedRank planned(const RankContext& rank, std::vector<int> exchange_cores = {}, bool gpu = false);

/// The largest step of a rank.
struct StepSize {
  int64_t micro_batches = 1;
  bool varies = false;          ///< some steps may have more
  bool uneven = false;          ///< micro-batches may have fewer tokens than the largest
  int64_t micro_sequences = 0;  ///< in the largest micro-batch
  int64_t micro_rows = 0;       ///< tokens in the largest micro-batch
  int64_t step_rows = 0;        ///< tokens of all micro-batches
  int64_t scored = 0;           ///< sequences of the largest micro-batch with a SequenceLoss; 0: none has one
};
/// For steps whose sequences all have the same length.
StepSize step_size(const BatchShape& batch);

/// Bytes that a rank will need: weights, gradients, moments, activations, scratch, the copy for a snapshot, the
/// buffers of the exchange, and what NCCL is likely to take (kLinkBytes of tensor/device_network.h).
struct MemoryPlan {
  size_t state = 0, activations = 0, scratch = 0, snapshot = 0, exchange = 0, nccl = 0;
  size_t total() const { return on_device() + snapshot; }
  /// Where tensors are; snapshots are always on the host.
  size_t on_device() const { return state + activations + scratch + exchange + nccl; }
};

/// The model that ranks share, and how. Every axis of the mesh is resolved.
struct PlannedModel {
  Spec spec;
  MeshShape mesh;
  InitScheme init_scheme = InitScheme::gpt2;  ///< for weights that start from scratch
};

/// What one rank holds and computes with.
struct RankPlan {
  Spec spec;
  MeshShape mesh;
  InitScheme init_scheme = InitScheme::gpt2;
  PlannedRank rank;
  DType dtype = DType::f32;
  Trained trained;     ///< which parameters are trained
  bool trains = true;  ///< false: it only evaluates, without gradients, moments and snapshots
  StepSize step;
  ModelShape shape;
  std::optional<ParameterTable> table;  ///< the part of the model that this rank holds
  std::optional<OptimizerOptions> optimizer;
  KeptState kept;     ///< the part of the state that it keeps; empty: all
  MemoryPlan memory;  ///< as memory_of() says

  PlannedModel model() const { return {spec, mesh, init_scheme}; }
};

/// Which parameters of a model the configuration trains: of one with adapters these, and lora.modules-to-save. Throws
/// Error::config as Trained::check() and trained_beside_adapters().
Trained trained_of(const Config& config, const Spec& spec);

/// "1.23M of 124.44M parameters, in 12 of 148 tensors", of the complete model.
std::string describe_trained(const ParameterTable& whole);

/// The plan of a rank, without its memory. Throws Error::config for a mesh that does not fit the model, and as
/// trained_of().
RankPlan plan_rank(const PlannedModel& model, const Config& config, const StepSize& step, const PlannedRank& rank);

/// The memory that the rank of a plan needs.
MemoryPlan memory_of(const RankPlan& plan, const Ops& ops);

/// What the members of a plan compute with.
SessionOptions session_options(const RankPlan& plan);

/// Where a start finds the snapshot that it resumes.
struct ResumePlace {
  std::string path;    ///< step folder; empty: a new run
  std::string nearby;  ///< CheckpointFolder::nearby
};

/// What a run is, and what this rank does of it.
struct RunPlan {
  LoadedConfig loaded;                     ///< batch.global is resolved
  std::optional<CheckpointFolder> resume;  ///< the run resumes from here
  Config resumed;                          ///< the configuration with which `resume` was written
  std::optional<ModelFolder> init;         ///< weights of a new run; empty: from scratch, or the task has them
  std::string tokenizer_json;              ///< empty: unknown
  std::string generation;                  ///< generation settings of the model's first folder; empty: none
  BatchShape batch;                        ///< of steps whose batches are cut from a sampler
  std::vector<DataFileFact> data_files;
  std::set<int64_t> extra_snapshots;  ///< steps of checkpoint.also
  bool of_conversations = false;      ///< the data are conversations, whose ids depend on the options of the group chat
  bool warms_from_zero = false;       ///< the first step's rate is 0
  bool shares_folder = true;          ///< every rank has to see the run folder, for snapshots
  RankPlan part;                      ///< of this rank

  const Config& config() const { return loaded.config; }
  /// The checkpoint or the folder that the run begins as, where there is one.
  const std::string& path() const { return resume ? resume->path : init->path; }
};

RateSchedule schedule_of(const Config& config);
/// For a run in f16; nullopt for others.
std::optional<LossScaleOptions> loss_scale_options(const PrecisionOptions& precision);
/// comm.reduce, of which auto is hosts if GPUs compute and the data ranks of each tensor and pipeline rank are on
/// several hosts, with the same number, more than one, on each; else flat.
ReduceOrder reduce_order(const Config& config, const MeshShape& mesh, const HostMap& hosts, bool gpus);
/// The optimizer options of a rank of the mesh. hosts: of all ranks. gpus: they compute on GPUs. exchange_cores: where
/// the exchange thread runs; empty: anywhere.
OptimizerOptions optimizer_options(const Config& config, const MeshShape& mesh, int rank, const HostMap& hosts,
                                   bool gpus, std::vector<int> exchange_cores);
/// Throws Error::config if comm.reduce or optim.shard-group is not possible with data ranks on these hosts.
void require_hosts(const Config& config, const MeshShape& mesh, const HostMap& hosts);

}  // namespace trireme
