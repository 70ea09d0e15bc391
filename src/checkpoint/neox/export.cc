#include "checkpoint/neox/checkpoint.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/log.h"
#include "checkpoint/neox/files.h"
#include "checkpoint/neox/names.h"
#include "checkpoint/torch/writer.h"
#include "config/document.h"

namespace trireme {
namespace fs = std::filesystem;
namespace {

constexpr int64_t kNeoxMultiple = 128;  // make_vocab_size_divisible_by, by default

/// The reason why NeoX does not support this model, or empty.
std::string unknown_to_neox(const Spec& spec) {
  if (spec.head != HeadKind::language_model || spec.mask != Mask::causal) return "it does not predict the next token";
  if (!spec.is_plain()) return "it has RMS norms, gates, groups of heads or other choices of newer decoders";
  if (spec.norm_place != NormPlace::pre || !spec.final_norm)
    return "its norms are not placed before each branch and after the last block";
  if (spec.projected() || spec.token_types > 0 || spec.embedding_norm)
    return "its embedding is not just the sum of tokens and positions";
  if (spec.activation == Activation::tanh || spec.activation == Activation::silu ||
      spec.activation == Activation::relu2)
    return "its activation is neither GELU nor ReLU";
  const Biases& biases = spec.biases;
  if (biases.qkv != biases.attention_out || biases.mlp_in != biases.mlp_out)
    return "only one of the two linear layers of a branch has a bias";
  if (spec.residual == Residual::parallel && !biases.mlp_out)
    return "with a parallel residual, NeoX needs the MLP's biases";
  return {};
}

/// As Python's YAML takes it for a number: with a point before an exponent.
std::string number_text(double value) {
  std::string text = fmt::format("{}", value);
  const size_t exponent = text.find('e');
  if (text.find('.') == text.npos) text.insert(exponent == text.npos ? text.size() : exponent, ".0");
  return text;
}

/// A share of a head that NeoX cuts to these values again.
double rotary_share(const Spec& spec) {
  const auto dims = static_cast<double>(spec.head_dim());
  const double share = static_cast<double>(spec.rotary_dims) / dims;
  return static_cast<int64_t>(share * dims) == spec.rotary_dims ? share : std::nextafter(share, 2.0);
}

double shortest(float value) { return std::stod(fmt::format("{}", value)); }

class Exporter {
 public:
  Exporter(const std::string& folder, const Spec& spec, const ParameterTable& table, const TrainingState& state,
           const NeoxExport& options, const std::function<bool()>& stop)
      : root_(folder),
        step_(folder + fmt::format("/global_step{}", options.progress.step)),
        spec_(padded(spec, options.tensor)),
        table_(table),
        state_(state),
        options_(options),
        stop_(stop),
        vocabulary_(spec.vocabulary),
        rules_(neox_rules(spec)) {
    for (int rank = 0; rank < options.tensor; ++rank)
      ranks_.emplace_back(spec_, InitScheme::gpt2,
                          Layout{.part = {}, .tensor_rank = rank, .tensor_size = options.tensor});
  }

  void write() {
    make_folder(step_ + "/configs");
    if (options_.pipeline > 0) {
      for (size_t i = 0; i < rules_.size(); ++i) {
        if (i > 0 && rules_[i].layer == rules_[i - 1].layer) continue;
        for (int rank = 0; rank < options_.tensor; ++rank) write_layer(rules_[i].layer, rank);
      }
    }
    for (int rank = 0; rank < options_.tensor * std::max(1, options_.pipeline); ++rank) write_states(rank);
    write_text(step_ + "/configs/trireme.yml", config());
    write_text(root_ + "/latest", fmt::format("global_step{}", options_.progress.step));  // last: then it is complete
  }

 private:
  static Spec padded(Spec spec, int tensor) {
    if (spec.vocabulary % tensor != 0) {
      const int64_t multiple = kNeoxMultiple * tensor, rows = (spec.vocabulary + multiple - 1) / multiple * multiple;
      log::warning(
          "the vocabulary of {} is padded with rows of zeros to {}, as in NeoX, to be divisible by {} tensor ranks",
          spec.vocabulary, rows, tensor);
      spec.vocabulary = rows;
    }
    spec.vocabulary_rows = spec.vocabulary;
    return spec;
  }

  static void make_folder(const std::string& path) {
    std::error_code error;
    fs::create_directories(path, error);
    require(!error, ErrorKind::io, "cannot create {}: {}", path, error.message());
  }

  TorchItem tensor(const NeoxRule& rule, int rank) const {
    const Shape& shape = ranks_[static_cast<size_t>(rank)].find(rule.ours).shape;
    TorchTensorItem item{options_.dtype, {}, [this, &rule, rank] { return bytes(rule, rank); }};
    for (int d = 0; d < shape.dims(); ++d) item.shape.push_back(shape[d]);
    return item;
  }

  /// A rank's part of a parameter.
  std::vector<std::byte> bytes(const NeoxRule& rule, int rank) const {
    if (stop_ && stop_()) fail(ErrorKind::stopped, "the export was stopped");
    const Parameter &whole = table_.find(rule.ours), &own = ranks_[static_cast<size_t>(rank)].find(rule.ours);
    std::vector<float> all(static_cast<size_t>(whole.stored_shape.count())), values(static_cast<size_t>(own.count()));
    state_.read_master(whole, all);
    for_each_run(
        overlap(whole.stored(), own.box), whole.stored(), own.box,
        [&](int64_t from, int64_t to, int64_t count) { std::copy_n(all.begin() + from, count, values.begin() + to); });
    if (rule.join == NeoxJoin::shares) {
      for (float& value : values) value /= static_cast<float>(options_.tensor);
    }
    const bool narrow = options_.dtype == DType::bf16;
    std::vector<std::byte> out(values.size() * (narrow ? sizeof(bf16_t) : sizeof(float)));
    if (narrow) {
      std::ranges::transform(values, reinterpret_cast<bf16_t*>(out.data()), to_bf16_master);
    } else {
      std::ranges::copy(values, reinterpret_cast<float*>(out.data()));
    }
    return out;
  }

  void write_layer(int64_t layer, int rank) const {
    TorchItem::Entries entries;
    for (const NeoxRule& rule : rules_) {
      if (rule.layer == layer) entries.emplace_back(std::string(rule.key()), tensor(rule, rank));
    }
    write_torch(step_ + "/" + neox_layer_file(layer, rank), entries);
  }

  void write_states(int rank) const {
    TorchItem module;
    if (options_.pipeline == 0) {
      TorchItem::Entries entries;
      for (const NeoxRule& rule : rules_) entries.emplace_back("sequential." + rule.theirs, tensor(rule, rank));
      module = TorchItem(std::move(entries));
    }
    const RunCounters& progress = options_.progress;
    const TorchItem::Entries arguments{{"num_layers", spec_.layers},
                                       {"hidden_size", spec_.width},
                                       {"num_attention_heads", spec_.heads},
                                       {"max_position_embeddings", spec_.context},
                                       {"padded_vocab_size", spec_.vocabulary},
                                       {"model_parallel_size", int64_t{options_.tensor}}};
    const int64_t ranks = int64_t{options_.tensor} * std::max(1, options_.pipeline);
    TorchItem::Entries entries{{"module", module},
                               {"optimizer", {}},
                               {"lr_scheduler", {}},
                               {"dp_world_size", int64_t{1}},
                               {"mp_world_size", ranks},
                               {"global_steps", progress.step},
                               {"global_samples", static_cast<int64_t>(progress.samples)},
                               {"skipped_steps", progress.skipped},
                               {"iteration", progress.step},
                               {"args", arguments}};
    if (vocabulary_ != spec_.vocabulary)
      entries.emplace_back(kNeoxOwnKey, TorchItem::Entries{{"vocabulary", vocabulary_}});
    write_torch(step_ + "/" + neox_model_states_file(rank), entries);
  }

  /// NeoX's names and values, a line each.
  std::string config() const {
    const Config run = options_.config_json.empty()
                           ? Config()
                           : config_from_json(parse_json(options_.config_json, "config"), "config");
    const auto flag = [](bool value) { return std::string(value ? "true" : "false"); };
    const bool rotary = spec_.position == Position::rotary, relu = spec_.activation == Activation::relu;
    int64_t divisor = kNeoxMultiple;
    while (spec_.vocabulary % (divisor * options_.tensor) != 0) divisor /= 2;
    std::vector<std::pair<const char*, std::string>> lines = {
        {"pipe_parallel_size", std::to_string(options_.pipeline)},
        {"model_parallel_size", std::to_string(options_.tensor)},
        {"num_layers", std::to_string(spec_.layers)},
        {"hidden_size", std::to_string(spec_.width)},
        {"num_attention_heads", std::to_string(spec_.heads)},
        {"intermediate_size", std::to_string(spec_.inner_width)},
        {"seq_length", std::to_string(run.batch.sequence > 0 ? run.batch.sequence : spec_.context)},
        {"max_position_embeddings", std::to_string(spec_.context)},
        {"make_vocab_size_divisible_by", std::to_string(divisor)},
        {"norm", "layernorm"},
        {"layernorm_epsilon", number_text(shortest(spec_.norm_epsilon))},
        {"pos_emb", rotary ? "rotary" : "learned"},
        {"no_weight_tying", flag(!spec_.tied_head)},
        {"gpt_j_residual", flag(spec_.residual == Residual::parallel)},
        {"output_layer_parallelism", "column"},
        {"activation", relu ? "relu" : "gelu"},
        {"bias_gelu_fusion", flag(spec_.activation == Activation::gelu_tanh)},
        {"use_bias_in_norms", flag(spec_.biases.norm)},
        {"use_bias_in_attn_linear", flag(spec_.biases.qkv)},
        {"use_bias_in_mlp", flag(spec_.biases.mlp_in)},
        {"hidden_dropout", number_text(shortest(spec_.residual_dropout))},
        {"attention_dropout", number_text(shortest(spec_.attention_dropout))},
    };
    if (rotary) lines.emplace_back("rotary_pct", number_text(rotary_share(spec_)));
    if (rotary) lines.emplace_back("rotary_emb_base", number_text(shortest(spec_.rotary_base)));
    if (!rotary && spec_.position_offset > 0)
      lines.emplace_back("opt_pos_emb_offset", std::to_string(spec_.position_offset));
    const OptimOptions& optim = run.optim;
    lines.emplace_back("optimizer", fmt::format("{{type: Adam, params: {{lr: {}, betas: [{}, {}], eps: {}}}}}",
                                                number_text(optim.learning_rate), number_text(optim.beta1),
                                                number_text(optim.beta2), number_text(optim.epsilon)));
    lines.emplace_back("train_batch_size", std::to_string(std::max<int64_t>(1, run.batch.global)));
    lines.emplace_back("train_iters", std::to_string(run.run.steps));
    lines.emplace_back("seed", std::to_string(run.run.seed));
    std::string text =
        "# Written by trireme export: the model of the weights beside it, and what is known of its run.\n";
    for (const auto& [key, value] : lines) text += fmt::format("{}: {}\n", key, value);
    return text;
  }

  std::string root_, step_;
  Spec spec_;
  const ParameterTable& table_;
  const TrainingState& state_;
  const NeoxExport& options_;
  const std::function<bool()>& stop_;
  int64_t vocabulary_;
  std::vector<NeoxRule> rules_;
  std::vector<ParameterTable> ranks_;
};

}  // namespace

void export_neox(const std::string& folder, const Spec& spec, const ParameterTable& table, const TrainingState& state,
                 const NeoxExport& options, const std::function<bool()>& stop) {
  require(options.dtype == DType::f32 || options.dtype == DType::bf16, ErrorKind::config,
          "cannot export weights as {}; use f32 or bf16", name_of(options.dtype));
  const std::string unknown = unknown_to_neox(spec);
  require(unknown.empty(), ErrorKind::config, "GPT-NeoX does not support this model: {}", unknown);
  require(options.pipeline <= spec.layers, ErrorKind::config, "--pipeline {} stages are more than {} layers",
          options.pipeline, spec.layers);
  Exporter(folder, spec, table, state, options, stop).write();
}

}  // namespace trireme
