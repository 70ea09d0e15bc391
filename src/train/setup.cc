#include "train/setup.h"

#include "base/error.h"
#include "base/hash.h"
#include "base/host.h"
#include "base/log.h"
#include "comm/agreement.h"
#include "model/presets.h"
#include "train/data_setup.h"
#include "train/guard/data_proof.h"
#include "train/resume.h"
#include "train/stop.h"

namespace trireme {
namespace {

bool is_set(const LoadedConfig& loaded, const char* option) { return loaded.origins.contains(option); }

Activation activation_of(MlpActivation choice) {
  return choice == MlpActivation::relu       ? Activation::relu
         : choice == MlpActivation::gelu_erf ? Activation::gelu_erf
                                             : Activation::gelu_tanh;
}

int64_t round_up(int64_t n, int64_t multiple) { return (n + multiple - 1) / multiple * multiple; }

void set_dropout(Spec& spec, const ModelOptions& m) {
  spec.attention_dropout = spec.residual_dropout = static_cast<float>(m.dropout);
  spec.embedding_dropout = static_cast<float>(m.embedding_dropout < 0 ? m.dropout : m.embedding_dropout);
}

InitScheme init_scheme_of(const ModelOptions& m) {
  switch (m.init_scheme) {
    case InitChoice::preset:
      return m.preset.empty() ? InitScheme::gpt2 : preset(m.preset).init;
    case InitChoice::gpt2:
      return InitScheme::gpt2;
    case InitChoice::bert:
      return InitScheme::bert;
    case InitChoice::opt:
      return InitScheme::opt;
    case InitChoice::neox:
      return InitScheme::neox;
  }
  return InitScheme::gpt2;
}

Spec resolve_spec(Setup& setup, int64_t data_vocabulary) {
  if (setup.resume) {
    Spec spec = setup.resume->facts.spec;
    set_dropout(spec, setup.config().model);
    return spec;
  }
  const std::string& init = setup.config().model.init;
  if (init.empty() || init == "scratch") return spec_from_options(setup.loaded, data_vocabulary);
  setup.init = open_model(init);
  require(setup.init->spec.has_decoder(), ErrorKind::config,
          "model.init: {} is a classifier, which predicts no tokens; `trireme glue` fine-tunes those", init);
  return with_given_options(setup.init->spec, setup.loaded);
}

BatchShape resolve_batch(Setup& setup, int rank) {
  // With batch.per-rank a run keeps the global batch that it was started with; another one asks for another batch.
  int64_t started = 0;
  if (setup.resume) {
    const BatchOptions then = resumed_config(*setup.resume).batch;
    if (then.per_rank == setup.config().batch.per_rank) started = then.global;
  }
  const BatchPlan plan = plan_batch(setup.loaded, static_cast<int>(setup.mesh.data), started);
  setup.loaded.config.batch.global = plan.global;
  int64_t sequence = setup.config().batch.sequence;
  if (sequence == 0) sequence = setup.spec.context;
  require(sequence <= setup.spec.context, ErrorKind::config,
          "batch.sequence is {}, the model knows {} positions; lower it or raise model.context", sequence,
          setup.spec.context);
  return {.global = plan.global,
          .micro_batches = plan.accumulation,
          .sequence = sequence,
          .ranks = static_cast<int>(setup.mesh.data),
          .rank = place_of(setup.mesh, rank).data};
}

/// To read all of a large file takes longer than a batch system waits.
void check_stop() {
  require(!stop::requested(), ErrorKind::stopped, "stopped while the data was read: nothing to save");
}

/// Options about masks are for models that have one.
void check_masking(const Setup& setup) {
  if (setup.spec.head == HeadKind::masked_language_model) return;
  for (const char* option : {"data.mask-rate", "data.whole-words"})
    require(!is_set(setup.loaded, option), ErrorKind::config,
            "{} is given, but the model predicts the next token and hides none; remove it, or choose a masked "
            "language model (--model.preset bert-base)",
            setup.loaded.where(option));
}

void open_data(Setup& setup) {
  const auto vocabulary = static_cast<uint64_t>(setup.spec.vocabulary);
  RunData data = setup.spec.head == HeadKind::masked_language_model
                     ? open_masked_data(setup.loaded, setup.batch, vocabulary, setup.tokenizer_json, check_stop)
                     : open_run_data(setup.loaded, setup.batch, vocabulary, check_stop);
  setup.train = std::move(data.train);
  setup.validation = std::move(data.validation);
  for (const FileSource* source : {setup.train.get(), setup.validation.get()}) {
    if (!source) continue;
    for (const SourceFile& file : source->files(check_stop))
      setup.data_files.push_back({file.path, file.bytes, hex64(file.hash)});
  }
}

/// Also those that are made from the others: every host may have them in a folder of its own.
std::vector<std::string> index_files(const Setup& setup) {
  std::vector<std::string> files;
  for (const FileSource* source : {setup.train.get(), setup.validation.get()}) {
    if (!source) continue;
    for (std::string& file : source->index_files()) files.push_back(std::move(file));
  }
  return files;
}

/// The memory shape of this run's model.
void plan_shape(Setup& setup) {
  setup.trains = !setup.config().evaluation.only;
  setup.micro_sequences = setup.batch.largest_micro();
  setup.shape = {.rows = setup.micro_sequences * setup.batch.sequence,
                 .training = setup.trains,
                 .head_rows = 0,
                 .accumulates = setup.batch.micro_batches > 1,
                 .recompute = setup.config().model.recompute};
}

}  // namespace

Spec with_given_options(Spec spec, const LoadedConfig& loaded) {
  const ModelOptions& m = loaded.config.model;
  if (is_set(loaded, "model.layers")) spec.layers = m.layers;
  if (is_set(loaded, "model.heads")) spec.heads = m.heads;
  if (is_set(loaded, "model.width")) {
    spec.width = m.width;
    spec.inner_width = 4 * m.width;
  }
  if (is_set(loaded, "model.inner-width") && m.inner_width > 0) spec.inner_width = m.inner_width;
  if (is_set(loaded, "model.context")) spec.context = m.context;
  if (is_set(loaded, "model.activation")) spec.activation = activation_of(m.activation);
  if (spec.head == HeadKind::masked_language_model) spec.head_activation = spec.activation;
  if (is_set(loaded, "model.tied-head")) spec.tied_head = m.tied_head;
  if (is_set(loaded, "model.bias"))
    spec.biases = {.qkv = m.bias, .attention_out = m.bias, .mlp_in = m.bias, .mlp_out = m.bias, .norm = m.bias};
  set_dropout(spec, m);
  return spec;
}

Spec spec_from_options(const LoadedConfig& loaded, int64_t data_vocabulary) {
  const ModelOptions& m = loaded.config.model;
  Spec spec;
  if (!m.preset.empty()) {
    spec = with_given_options(preset(m.preset).spec, loaded);
  } else {
    spec.layers = m.layers;
    spec.heads = m.heads;
    spec.width = m.width;
    spec.inner_width = m.inner_width > 0 ? m.inner_width : 4 * m.width;
    spec.context = m.context;
    spec.activation = activation_of(m.activation);
    spec.tied_head = m.tied_head;
    spec.biases = {.qkv = m.bias, .attention_out = m.bias, .mlp_in = m.bias, .mlp_out = m.bias, .norm = m.bias};
    set_dropout(spec, m);
  }
  if (m.vocabulary > 0) {
    spec.vocabulary = m.vocabulary;
  } else if (data_vocabulary > 0) {
    spec.vocabulary = data_vocabulary;
  }
  require(spec.vocabulary > 0, ErrorKind::config,
          "the size of the vocabulary is not known: the data has no sidecar and no tokenizer.json; set "
          "model.vocabulary or data.tokenizer");
  spec.vocabulary_rows = round_up(spec.vocabulary, m.vocabulary_multiple);
  spec.validate();
  return spec;
}

Setup make_setup(LoadedConfig loaded, const MeshShape& mesh, Scalars& scalars) {
  Setup setup;
  setup.mesh = mesh;
  setup.loaded = std::move(loaded);
  const Config& config = setup.config();
  together(scalars, [&] {
    validate(setup.loaded);
    require_training_data(config.data);
    setup.tokenizer_json = find_tokenizer(config.data);
  });
  for (const std::string& note : setup.loaded.notes) log::info("{}", note);
  setup.init_scheme = init_scheme_of(config.model);
  setup.dtype = config.precision.dtype;
  const std::string resume = find_resume(setup.loaded, scalars), data_tokenizer = setup.tokenizer_json;
  together(scalars, [&] {
    if (!resume.empty()) setup.resume = open_checkpoint(resume);
    setup.spec = resolve_spec(setup, vocabulary_of_data(config.data, setup.tokenizer_json));
    check_masking(setup);
    if (setup.tokenizer_json.empty() && setup.resume) setup.tokenizer_json = setup.resume->facts.tokenizer_json;
    if (setup.tokenizer_json.empty() && setup.init) setup.tokenizer_json = setup.init->tokenizer_json;
    setup.batch = resolve_batch(setup, scalars.rank());
    plan_shape(setup);
    open_data(setup);
    if (setup.resume) check_resume(setup);
    if (!config.checkpoint.allow_other_tokenizer) require_one_tokenizer(config.data, data_tokenizer);
  });
  prove_same_data(setup.data_files, index_files(setup), scalars, host_name(), check_stop);
  return setup;
}

}  // namespace trireme
