#include "train/start/setup.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/count.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/host.h"
#include "base/log.h"
#include "base/option_name.h"
#include "base/stop.h"
#include "checkpoint/huggingface/generation_settings.h"
#include "checkpoint/peft/adapter.h"
#include "checkpoint/peft/targets.h"
#include "model/mesh_layout.h"
#include "model/model_options.h"
#include "train/guard/data_proof.h"
#include "train/start/data_setup.h"
#include "train/start/resolve.h"
#include "train/start/resume.h"

namespace trireme {
namespace {

/// The adapters of a resumed run are those of its snapshot.
Spec resumed_spec(Setup& setup) {
  Spec spec = setup.resume->facts.spec;
  set_dropout(spec, setup.config().model);
  LoraOptions& lora = setup.loaded.config.lora;
  if (spec.adapters.empty()) return spec;
  spec.adapter_dropout = static_cast<float>(lora.dropout);
  if (!lora.adapter.empty()) lora.modules_to_save = setup.resumed.lora.modules_to_save;
  return spec;
}

Spec resolve_base(Setup& setup, int64_t data_vocabulary) {
  if (setup.init) return spec_of_folder(*setup.init, setup.loaded);
  const std::string& init = setup.config().model.init;
  if (init.empty() || init == "scratch") return spec_from_options(setup.loaded, data_vocabulary);
  setup.init = open_model(init);
  require(setup.init->spec.has_decoder(), ErrorKind::config,
          "model.init: {} is a classifier, which does not predict tokens; use `trireme glue` to fine-tune it", init);
  return spec_of_folder(*setup.init, setup.loaded);
}

Spec resolve_spec(Setup& setup, int64_t data_vocabulary) {
  if (setup.resume) return resumed_spec(setup);
  const Spec base = resolve_base(setup, data_vocabulary);
  return with_adapters(base, setup.loaded.config.lora,
                       setup.init ? kept_model_type(setup.init->generation) : std::string());
}

/// Reading all of a large file takes longer than a batch system waits.
void check_stop() {
  require(!stop::requested(), ErrorKind::stopped, "stopped while the data was read: nothing to save");
}

/// Refuses options about masks for models without masks.
void check_masking(const Setup& setup) {
  if (setup.spec.head == HeadKind::masked_language_model) {
    require(!setup.config().data.mask_end_of_text, ErrorKind::config,
            "{} is set, but a masked language model does not predict the next token; remove it",
            setup.loaded.where("data.mask-end-of-text"));
    return;
  }
  for (const char* option : {"data.mask-rate", "data.whole-words"})
    require(!setup.loaded.origins.contains(option), ErrorKind::config,
            "{} is set, but the model predicts the next token and masks none; remove it, or choose a masked language "
            "model (--model.preset bert-base)",
            setup.loaded.where(option));
}

void open_data(Setup& setup) {
  const auto vocabulary = static_cast<uint64_t>(setup.spec.vocabulary);
  RunData data = setup.spec.head == HeadKind::masked_language_model
                     ? open_masked_data(setup.loaded, setup.batch, vocabulary, setup.tokenizer_json, check_stop)
                     : open_run_data(setup.loaded, setup.batch, vocabulary, check_stop);
  if (setup.config().data.mask_end_of_text) mask_end_of_text(data, setup.tokenizer_json);
  setup.train = std::move(data.train);
  setup.validation = std::move(data.validation);
  setup.test = std::move(data.test);
  for (const FileSource* source : {setup.train.get(), setup.validation.get()}) {
    if (!source) continue;
    for (const SourceFile& file : source->files(check_stop))
      setup.data_files.push_back({file.path, file.bytes, hex64(file.hash)});
  }
  if (!setup.test) return;
  for (const SourceFile& file : setup.test->files(check_stop)) {  // those of a split are already in the list
    const DataFileFact fact{file.path, file.bytes, hex64(file.hash)};
    if (std::ranges::find(setup.data_files, fact) == setup.data_files.end()) setup.data_files.push_back(fact);
  }
}

/// Also the files made from others: every host may have them in its own folder.
std::vector<std::string> index_files(const Setup& setup) {
  std::vector<std::string> files;
  for (const FileSource* source : {setup.train.get(), setup.validation.get(), setup.test.get()}) {
    if (!source) continue;
    for (std::string& file : source->index_files()) files.push_back(std::move(file));
  }
  return files;
}

/// nanoGPT's init_from=resume names the run alone: its batch is the run's where no key gives it.
void keep_batch_of_run(Setup& setup) {
  if (setup.loaded.dialect != "nanogpt") return;
  const auto given = [&](const char* option) { return setup.loaded.given(option); };
  BatchOptions& batch = setup.loaded.config.batch;
  const BatchOptions& then = setup.resumed.batch;
  if (!given("batch.sequence")) batch.sequence = then.sequence;
  if (!given("batch.micro")) batch.micro = then.micro;
  if (!given("batch.global") && !given("batch.per-rank")) batch.global = then.global;
}

/// The checkpoint that the run resumes; from one without the optimizer state only the weights are taken.
void open_resume(Setup& setup, const ResumePlace& place) {
  CheckpointFolder folder = open_checkpoint(place.path);
  folder.nearby = place.nearby;
  for (const std::string& note : folder.notes) log::info("{}: {}", folder.path, note);
  if (folder.origin != CheckpointOrigin::neox_weights) {
    setup.resumed = resumed_config(folder);
    setup.resume = std::move(folder);
    keep_batch_of_run(setup);
    return;
  }
  log::write_once(
      log::Level::warning,
      fmt::format("{} holds weights but no optimizer state (zero_pp_rank_*, or in its mp_rank files), so only the "
                  "weights are loaded: the run starts at step 0 with zero moments, without the {} of the checkpoint",
                  folder.path, count_text(folder.facts.progress.step, "step")));
  setup.init = open_model(folder.path);
}

/// A resumed run uses the tokenizer of its snapshot if the named one is gone.
std::string tokenizer_of_data(const Setup& setup) {
  const DataOptions& data = setup.config().data;
  if (!setup.resume || data.tokenizer.empty()) return find_tokenizer(data);
  try {
    return find_tokenizer(data);
  } catch (const Error& e) {
    const std::string& own = setup.resume->facts.tokenizer_json;
    if (e.kind() != ErrorKind::io || own.empty()) throw;
    log::write_once(log::Level::info, fmt::format("cannot read data.tokenizer {}; using the tokenizer of {}",
                                                  data.tokenizer, setup.resume->path));
    return own;
  }
}

/// What the model's first folder says about its texts, if the data has its tokens, and its family.
void take_generation(Setup& setup, const std::string& data_tokenizer, int rank) {
  if (setup.resume) setup.generation = setup.resume->facts.generation;
  if (!setup.init || setup.resume) return;
  const std::string others = describe_id_differences(data_tokenizer, setup.init->tokenizer_json);
  // The ids of another tokenizer mean other tokens.
  setup.generation = others.empty() ? setup.init->generation : without_tokens(setup.init->generation);
  if (!others.empty() && rank == 0)
    log::warning(
        "the data has another tokenizer than {}: {}, so the model's embeddings belong to other tokens; `trireme "
        "prepare --tokenizer {}` prepares the data with the model's tokenizer",
        setup.init->path, others, setup.config().model.init);
}

}  // namespace

void check_options(const LoadedConfig& loaded) {
  validate(loaded);
  require_training_data(loaded.config.data);
  for (const std::string& note : loaded.notes) log::info("{}", note);
}

BatchShape resolve_batch(Setup& setup, int rank) {
  // With batch.per-rank a run keeps its first global batch; another value asks for another batch.
  const BatchOptions& then = setup.resumed.batch;
  const int64_t started = setup.resume && then.per_rank == setup.config().batch.per_rank ? then.global : 0;
  const BatchPlan plan = plan_batch(setup.loaded, static_cast<int>(setup.mesh.data), started);
  setup.loaded.derive("batch.global", plan.global,
                      started > 0 ? setup.resume->path : option_name("batch.per-rank") + " of every data rank");
  int64_t sequence = setup.config().batch.sequence;
  if (sequence == 0) sequence = setup.spec.context;
  require(sequence <= setup.spec.context, ErrorKind::config,
          "batch.sequence is {}, but the model has only {} positions; lower it or raise model.context", sequence,
          setup.spec.context);
  return {.global = plan.global,
          .micro_batches = plan.accumulation,
          .sequence = sequence,
          .ranks = static_cast<int>(setup.mesh.data),
          .rank = place_of(setup.mesh, rank).data};
}

void open_start_model(Setup& setup, const ResumePlace& resume) {
  setup.init_scheme = init_scheme_of(setup.config().model);
  if (!resume.path.empty()) open_resume(setup, resume);
  setup.spec = with_rows_for(resolve_spec(setup, 0), setup.mesh.tensor);
  setup.tokenizer_json = setup.resume ? setup.resume->facts.tokenizer_json : setup.init->tokenizer_json;
  setup.generation = setup.resume ? setup.resume->facts.generation : setup.init->generation;
}

void fill_adapters(const Setup& setup, const ParameterTable& table, TrainingState& state) {
  if (setup.spec.adapters.empty()) return;
  initialize_adapters(state, table, static_cast<uint64_t>(setup.config().run.seed));
  const std::string& adapter = setup.config().lora.adapter;
  if (adapter.empty()) {
    initialize_magnitudes(table, setup.init_scheme, state, [&](const ParameterTable& block, TrainingState& weights) {
      if (setup.init)
        load_model(*setup.init, base_of(setup.spec), block, weights);
      else
        initialize(weights, block, static_cast<uint64_t>(setup.config().run.seed));
    });
    return;
  }
  PeftAdapter(adapter).load(adapter_family(setup.spec, kept_model_type(setup.generation)), table, state);
  log::info("starting from the adapter {}", adapter);
}

void note_frozen_row(const Setup& setup) {
  if (!setup.trained.includes("embedding.token.weight")) return;
  const Family& family = adapter_family(setup.spec, kept_model_type(setup.generation));
  const int64_t row = frozen_row(family, kept_config(setup.generation), setup.spec.vocabulary, setup.init->path);
  const std::vector<TokenId> ends = generation_settings(setup.generation, setup.init->path).end;
  if (row < 0 || std::ranges::find(ends, static_cast<TokenId>(row)) == ends.end()) return;
  log::info(
      "id {} is the padding token (pad_token_id) and ends texts, too: its row of the embedding is trained like every "
      "other; transformers gives it no gradient (padding_idx), so losses differ slightly from there",
      row);
}

void open_setup(Setup& setup, const ResumePlace& resume, const PlannedRank& rank) {
  const Config& config = setup.config();
  setup.init_scheme = init_scheme_of(config.model);
  if (!resume.path.empty()) open_resume(setup, resume);
  const std::string data_tokenizer = tokenizer_of_data(setup);
  setup.tokenizer_json = data_tokenizer;
  setup.spec =
      with_rows_for(resolve_spec(setup, vocabulary_of_data(config.data, setup.tokenizer_json)), setup.mesh.tensor);
  check_masking(setup);
  if (setup.tokenizer_json.empty() && setup.resume) setup.tokenizer_json = setup.resume->facts.tokenizer_json;
  if (setup.tokenizer_json.empty() && setup.init) setup.tokenizer_json = setup.init->tokenizer_json;
  setup.batch = resolve_batch(setup, rank.rank);
  plan_rank(setup, config, step_size(setup.batch), rank);
  open_data(setup);
  if (setup.resume) check_resume(setup);
  if (!config.checkpoint.allow_other_tokenizer) require_one_tokenizer(config.data, data_tokenizer);
  take_generation(setup, data_tokenizer, rank.rank);
}

void prove_setup(const Setup& setup, Scalars& scalars) {
  prove_same_data(setup.data_files, index_files(setup), scalars, host_name(), check_stop);
}

}  // namespace trireme
