#include "train/start/open.h"

#include <algorithm>
#include <utility>

#include "base/count.h"
#include "base/error.h"
#include "base/log.h"
#include "checkpoint/finite_weights.h"
#include "checkpoint/huggingface/generation_settings.h"
#include "checkpoint/peft/adapter.h"
#include "checkpoint/peft/targets.h"
#include "config/validate.h"
#include "model/mesh_layout.h"
#include "model/model_options.h"
#include "train/start/resolve.h"
#include "train/start/resume.h"

namespace trireme {
namespace {

/// The adapters of a resumed run are those of its snapshot.
Spec resumed_spec(Opened& opened) {
  Spec spec = opened.resume->facts.spec;
  set_dropout(spec, opened.config().model);
  LoraOptions& lora = opened.loaded.config.lora;
  if (spec.adapters.empty()) return spec;
  spec.adapter_dropout = static_cast<float>(lora.dropout);
  if (!lora.adapter.empty()) lora.modules_to_save = opened.resumed.lora.modules_to_save;
  return spec;
}

Spec resolve_base(Opened& opened, int64_t data_vocabulary) {
  if (opened.init) return spec_of_folder(*opened.init, opened.loaded);
  const std::string& init = opened.config().model.init;
  if (init.empty() || init == "scratch") return spec_from_options(opened.loaded, data_vocabulary);
  opened.init = open_model(init);
  require(opened.init->spec.has_decoder(), ErrorKind::config,
          "model.init: {} is a classifier, which does not predict tokens; use `trireme glue` to fine-tune it", init);
  return spec_of_folder(*opened.init, opened.loaded);
}

Spec resolve_spec(Opened& opened, int64_t data_vocabulary) {
  if (opened.resume) return resumed_spec(opened);
  const Spec base = resolve_base(opened, data_vocabulary);
  return with_adapters(base, opened.loaded.config.lora,
                       opened.init ? kept_model_type(opened.init->generation) : std::string());
}

/// nanoGPT's init_from=resume names the run alone: its batch is the run's where no key gives it.
void keep_batch_of_run(Opened& opened) {
  if (opened.loaded.dialect != "nanogpt") return;
  const auto given = [&](const char* option) { return opened.loaded.given(option); };
  BatchOptions& batch = opened.loaded.config.batch;
  const BatchOptions& then = opened.resumed.batch;
  if (!given("batch.sequence")) batch.sequence = then.sequence;
  if (!given("batch.micro")) batch.micro = then.micro;
  if (!given("batch.global") && !given("batch.per-rank")) batch.global = then.global;
}

/// The checkpoint that the run resumes; from one without the optimizer state only the weights are taken.
void open_resume(Opened& opened, const ResumePlace& place) {
  CheckpointFolder folder = open_checkpoint(place.path, opened.config().names);
  folder.nearby = place.nearby;
  for (const std::string& note : folder.notes) log::info("{}: {}", folder.path, note);
  if (folder.origin != CheckpointOrigin::neox_weights) {
    opened.resumed = resumed_config(folder);
    opened.resume = std::move(folder);
    keep_batch_of_run(opened);
    return;
  }
  log::write_once(
      log::Level::warning,
      fmt::format("{} holds weights but no optimizer state (zero_pp_rank_*, or in its mp_rank files), so only the "
                  "weights are loaded: the run starts at step 0 with zero moments, without the {} of the checkpoint",
                  folder.path, count_text(folder.facts.progress.step, "step")));
  opened.init = open_model(folder.path);
}

void fill_adapters(const RunPlan& plan, const ParameterTable& table, TrainingState& state) {
  if (plan.part.spec.adapters.empty()) return;
  initialize_adapters(state, table, static_cast<uint64_t>(plan.config().run.seed));
  const std::string& adapter = plan.config().lora.adapter;
  if (adapter.empty()) {
    initialize_magnitudes(table, plan.part.init_scheme, state,
                          [&](const ParameterTable& block, TrainingState& weights) {
                            if (plan.init)
                              load_model(*plan.init, base_of(plan.part.spec), block, weights);
                            else
                              initialize(weights, block, static_cast<uint64_t>(plan.config().run.seed));
                          });
    return;
  }
  PeftAdapter(adapter).load(adapter_family(plan.part.spec, kept_model_type(plan.generation)), table, state);
  log::info("starting from the adapter {}", adapter);
}

/// Logs if the padding token, whose row of the embedding transformers does not train, also ends texts.
void note_frozen_row(const RunPlan& plan) {
  if (!plan.part.trained.includes("embedding.token.weight")) return;
  const Family& family = adapter_family(plan.part.spec, kept_model_type(plan.generation));
  const int64_t row = frozen_row(family, kept_config(plan.generation), plan.part.spec.vocabulary, plan.init->path);
  const std::vector<TokenId> ends = generation_settings(plan.generation, plan.init->path).end;
  if (row < 0 || std::ranges::find(ends, static_cast<TokenId>(row)) == ends.end()) return;
  log::info(
      "id {} is the padding token (pad_token_id) and ends texts, too: its row of the embedding is trained like every "
      "other; transformers gives it no gradient (padding_idx), so losses differ slightly from there",
      row);
}

}  // namespace

Opened open_start(LoadedConfig loaded, const MeshShape& mesh, const ResumePlace& place) {
  Opened opened;
  opened.loaded = std::move(loaded);
  opened.model.mesh = mesh;
  opened.model.init_scheme = init_scheme_of(opened.config().model);
  if (!place.path.empty()) open_resume(opened, place);
  return opened;
}

Opened with_model(Opened opened, int64_t data_vocabulary) {
  opened.model.spec = with_rows_for(resolve_spec(opened, data_vocabulary), opened.model.mesh.tensor);
  return opened;
}

BatchShape resolve_batch(Opened& opened, int rank) {
  // With batch.per-rank a run keeps its first global batch; another value asks for another batch.
  const BatchOptions& then = opened.resumed.batch;
  const int64_t started = opened.resume && then.per_rank == opened.config().batch.per_rank ? then.global : 0;
  const BatchPlan plan = plan_batch(opened.loaded, static_cast<int>(opened.model.mesh.data), started);
  opened.loaded.derive(
      "batch.global", plan.global,
      started > 0 ? opened.resume->path : opened.config().names("batch.per-rank") + " of every data rank");
  int64_t sequence = opened.config().batch.sequence;
  if (sequence == 0) sequence = opened.model.spec.context;
  require(sequence <= opened.model.spec.context, ErrorKind::config,
          "batch.sequence is {}, but the model has only {} positions; lower it or raise model.context", sequence,
          opened.model.spec.context);
  return {.global = plan.global,
          .micro_batches = plan.accumulation,
          .sequence = sequence,
          .ranks = static_cast<int>(opened.model.mesh.data),
          .rank = place_of(opened.model.mesh, rank).data};
}

RunPlan plan_run(Opened opened, const BatchShape& batch, const StepSize& step, const PlannedRank& rank) {
  RunPlan plan;
  plan.part = plan_rank(opened.model, opened.config(), step, rank);
  plan.extra_snapshots = extra_snapshots(opened.loaded);
  plan.loaded = std::move(opened.loaded);
  plan.resume = std::move(opened.resume);
  plan.resumed = std::move(opened.resumed);
  plan.init = std::move(opened.init);
  plan.tokenizer_json = std::move(opened.tokenizer_json);
  plan.generation = std::move(opened.generation);
  plan.batch = batch;
  return plan;
}

void make_first_weights(Run& run, const char* model_option) {
  const RunPlan& plan = run.plan;
  if (plan.init) {
    load_model(*plan.init, plan.part.spec, run.table, run.state);
    require_finite(run.state, run.table, plan.init->path,
                   fmt::format("training cannot start from them; name another {}", model_option));
    log::info("starting from the weights of {}", plan.init->path);
    note_frozen_row(plan);
  } else {
    initialize(run.state, run.table, static_cast<uint64_t>(plan.config().run.seed));
    log::info("starting from scratch");
  }
  fill_adapters(plan, run.table, run.state);
}

}  // namespace trireme
