// Dialect gpt-neox: the layered YAML of GPT-NeoX and the configuration of DeepSpeed, in it or as a ds_config.json
// beside it. What NeoX resolves by itself is resolved here as it does.

#include "config/gpt_neox.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "config/schema.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

bool is_deepspeed_file(const Origin& origin) { return origin.source.ends_with(".json"); }

std::string_view outermost(std::string_view key) { return key.substr(0, key.find('.')); }

/// YAML with a key of NeoX, or in a group of its, and with no group of native options.
bool claims(const std::string& path, const std::vector<Setting>& settings) {
  if (fs::path(path).extension() == ".py") return false;
  const auto is_own = [](const Setting& setting) {
    const std::string group = canonical(outermost(setting.key));
    return std::ranges::any_of(gpt_neox_keys(),
                               [&](const DialectKey& key) { return canonical(outermost(key.name)) == group; });
  };
  const auto is_native = [](const Setting& setting) {
    const bool grouped = setting.key.find('.') != std::string::npos || setting.problem == "nothing";
    return grouped && schema().is_group(outermost(setting.key));
  };
  return std::ranges::any_of(settings, is_own) && std::ranges::none_of(settings, is_native);
}

/// A key's list as JSON; nothing, with an objection, when that is no list of what `is_item` wants.
template <class IsItem>
std::optional<Json> list_of(const DialectView& view, const char* key, const char* expected, IsItem is_item) {
  const Json list = parse_json(view.setting(key).text, view.origin(key).text());
  if (list.is_array() && std::ranges::all_of(list, is_item)) return list;
  view.object(key, fmt::format("found {}, expected {}", view.setting(key).text, expected));
  return std::nullopt;
}

bool is_text(const Json& item) { return item.is_string(); }
bool is_number(const Json& item) { return item.is_number(); }

class Translator {
 public:
  Translator(const DialectView& view, Translation& out) : view_(view), out_(out) {}

  void translate() {
    for (const DialectKey& key : gpt_neox_keys()) {
      if (view_.given(key.name) && !is_deepspeed_file(view_.origin(key.name))) neox_ = true;
    }
    check_limits();
    precision();
    batch();
    optimizer();
    if (!neox_) return;  // DeepSpeed's file alone says nothing of the rest, and has not NeoX's defaults
    required();
    model();
    initial_weights();
    parallelism();
    schedule();
    training();
    data();
    tokenizer();
    folders();
  }

 private:
  bool is(const char* key) const { return view_.flag(key); }
  /// NeoX's default counts where nothing is given.
  void set(const char* option, Value value, const char* key) { out_.set(option, std::move(value), view_.origin(key)); }
  void copy(const char* key, const char* option) { set(option, view_.value(key), key); }
  void object(const char* key, const std::string& reason) const { view_.object(key, reason); }

  void check_limits() {
    for (const GptNeoxLimit& limit : gpt_neox_limits()) {
      if (!view_.given(limit.key)) continue;
      const std::string found = to_text(view_.value(limit.key)), allowed = std::string("|") + limit.values + "|";
      if (allowed.find("|" + found + "|") == std::string::npos) object(limit.key, limit.reason);
    }
  }

  /// What NeoX ends without.
  void required() {
    const std::pair<const char*, const char*> keys[] = {{"num_layers", "model.layers"},
                                                        {"hidden_size", "model.width"},
                                                        {"num_attention_heads", "model.heads"},
                                                        {"max_position_embeddings", "model.context"},
                                                        {"seq_length", "batch.sequence"},
                                                        {"optimizer.params.lr", "optim.learning-rate"},
                                                        {"train_iters", "run.steps"}};
    const bool named = view_.native("model.preset") || view_.native("model.init");
    for (const auto& [key, option] : keys) {
      const bool of_model = std::string_view(option).starts_with("model.");
      if (view_.given(key) || view_.native(option) || (of_model && named)) continue;
      view_.object(fmt::format("{} is not given, and NeoX has no default for it", key));
    }
  }

  void model() {
    if (view_.given("layernorm_epsilon")) copy("layernorm_epsilon", "model.norm-epsilon");
    set("model.tied-head", !is("no_weight_tying"), "no_weight_tying");
    set("model.residual", is("gpt_j_residual") ? "parallel" : "sequential", "gpt_j_residual");
    if (view_.given("use_bias_in_attn_linear")) {
      copy("use_bias_in_attn_linear", "model.qkv-bias");
      copy("use_bias_in_attn_linear", "model.attention-out-bias");
    }
    if (view_.given("use_bias_in_mlp")) {
      copy("use_bias_in_mlp", "model.mlp-in-bias");
      copy("use_bias_in_mlp", "model.mlp-out-bias");
      if (is("gpt_j_residual") && !is("use_bias_in_mlp"))
        object("use_bias_in_mlp",
               "with gpt_j_residual NeoX drops the attention's output from such a model; set one of "
               "the two otherwise");
    }
    activation();
    positions();
    attention();
    const int64_t inner =
        view_.given("intermediate_size") ? view_.integer("intermediate_size") : 4 * view_.integer("hidden_size");
    const int64_t multiple = view_.integer("mlp_multiple_of");
    if (multiple < 1 || inner % multiple != 0)
      object("mlp_multiple_of", fmt::format("the MLP's width is {}; set intermediate_size to the width wanted", inner));
  }

  void activation() {
    const std::string& name = view_.text("activation");
    const char* shape = is("bias_gelu_fusion") ? "gelu-tanh" : "gelu-erf";
    const bool by_fusion = name == "gelu" && view_.given("bias_gelu_fusion");
    if (name == "gelu" || name == "relu")
      set("model.activation", name == "relu" ? "relu" : shape, by_fusion ? "bias_gelu_fusion" : "activation");
  }

  void positions() {
    const bool rotary = view_.text("pos_emb") == "rotary";
    set("model.position", rotary ? "rotary" : "learned", "pos_emb");
    if (!rotary) return;  // as in NeoX, the other two have no effect then
    copy("rotary_pct", "model.rotary-fraction");
    copy("rotary_emb_base", "model.rotary-base");
  }

  /// Every layer looks at all keys before it: [[["flash"], 24]].
  void attention() {
    const int64_t heads = view_.integer("num_attention_heads");
    if (view_.given("num_kv_heads") && view_.integer("num_kv_heads") != heads)
      object("num_kv_heads", "every query head has keys and values of its own; set it to num_attention_heads");
    if (!view_.given("attention_config")) return;
    constexpr const char* kForm = "pairs of attention types and how often they are repeated, like [[[\"flash\"], 12]]";
    const auto is_pair = [](const Json& item) {
      return item.is_array() && item.size() == 2 && item[0].is_array() && std::ranges::all_of(item[0], is_text) &&
             (item[1].is_number_integer() || item[1] == "all");
    };
    const auto pairs = list_of(view_, "attention_config", kForm, is_pair);
    if (!pairs) return;
    int64_t layers = 0;
    for (const Json& pair : *pairs) {
      for (const Json& type : pair[0]) {
        if (type == "global" || type == "flash") continue;
        return object("attention_config",
                      fmt::format("attention of type {} is not here; set global or flash", type.get<std::string>()));
      }
      if (pair[1] == "all") return;
      layers += pair[1].get<int64_t>() * static_cast<int64_t>(pair[0].size());
    }
    if (layers != view_.integer("num_layers"))
      object("attention_config",
             fmt::format("it names {} layers, and num_layers is {}", layers, view_.integer("num_layers")));
  }

  void initial_weights() {
    struct Scheme {
      const char *method, *output;
      double std;
      const char* ours;
    };
    constexpr double kAny = 0;
    constexpr Scheme kSchemes[] = {{"normal", "scaled_normal", 0.02, "gpt2"},
                                   {"normal", "normal", 0.02, "bert"},
                                   {"normal", "scaled_normal", 0.006, "opt"},
                                   {"small_init", "wang_init", kAny, "neox"}};
    const std::string &method = view_.text("init_method"), &output = view_.text("output_layer_init_method");
    const double std = view_.number("init_method_std");
    const char* key = view_.given("init_method")                ? "init_method"
                      : view_.given("output_layer_init_method") ? "output_layer_init_method"
                                                                : "init_method_std";
    for (const Scheme& scheme : kSchemes) {
      if (method == scheme.method && output == scheme.output && (scheme.std == kAny || scheme.std == std))
        return set("model.init-scheme", scheme.ours, key);
    }
    if (view_.native("model.init-scheme") || view_.native("model.init")) return;
    view_.object(fmt::format(
        "{}: {} is {}: new weights drawn with init_method {}, output_layer_init_method {} and init_method_std {} are "
        "not "
        "here; set normal with scaled_normal (0.02 or 0.006) or normal (0.02), or small_init with wang_init",
        view_.origin(key).text(), key, to_text(view_.value(key)), method, output, std));
  }

  void parallelism() {
    const int64_t stages = view_.integer("pipe_parallel_size"), shards = view_.integer("model_parallel_size");
    if (stages < 0) object("pipe_parallel_size", "the smallest possible value is 0");
    if (shards < 1) return object("model_parallel_size", "the smallest possible value is 1");
    set("mesh.pipeline", std::max<int64_t>(1, stages), "pipe_parallel_size");
    const int64_t divisor = view_.integer("make_vocab_size_divisible_by");
    constexpr int64_t kMost = 1 << 20;
    if (divisor < 1 || divisor > kMost)
      return object("make_vocab_size_divisible_by", fmt::format("expected 1 to {}", kMost));
    Origin origin = view_.origin("make_vocab_size_divisible_by");
    if (shards > 1)
      origin = {
          fmt::format("{} x model_parallel_size {} ({})", divisor, shards, view_.origin("model_parallel_size").text()),
          0, view_.latest({"make_vocab_size_divisible_by", "model_parallel_size"}).layer};
    out_.set("model.vocabulary-multiple", divisor * shards, origin);
  }

  void precision() {
    const bool fp16 = is("fp16.enabled"), bf16 = is("bf16.enabled"), named = view_.given("precision");
    if (!neox_ && !view_.given("fp16.enabled") && !view_.given("bf16.enabled")) return;
    const char* key = named ? "precision" : fp16 ? "fp16.enabled" : "bf16.enabled";
    const std::string name = named ? view_.text("precision") : fp16 ? "fp16" : bf16 ? "bfloat16" : "fp32";
    if (name != "fp16" && name != "bfloat16" && name != "fp32") return object(key, "expected fp16, bfloat16 or fp32");
    if ((fp16 && name != "fp16") || (bf16 && name != "bfloat16"))
      return object(fp16 && name != "fp16" ? "fp16.enabled" : "bf16.enabled",
                    fmt::format("{} says {}; set one of the two", view_.origin(key).text(), name));
    set("precision.dtype", name == "fp16" ? "f16" : name == "bfloat16" ? "bf16" : "f32", key);
    const bool wide = is("fp32_allreduce") || name == "fp32";
    if (neox_) set("comm.wire", wide ? "f32" : "bf16", is("fp32_allreduce") ? "fp32_allreduce" : key);
  }

  /// Of the batch, the micro-batch and the accumulation any one or two give the rest; NeoX accumulates once where it is
  /// not told to.
  void batch() {
    constexpr const char *kBatch = "train_batch_size", *kMicro = "train_micro_batch_size_per_gpu",
                         *kSteps = "gradient_accumulation_steps";
    bool good = true;
    for (const char* key : {kBatch, kMicro, kSteps}) {
      constexpr int64_t kMost = 1 << 20;
      if (!view_.given(key) || (view_.integer(key) >= 1 && view_.integer(key) <= kMost)) continue;
      object(key, fmt::format("expected 1 to {}", kMost));
      good = false;
    }
    if (!good || view_.native("batch.global") || view_.native("batch.per-rank")) return;
    const bool batch = view_.given(kBatch), micro = view_.given(kMicro), steps = view_.given(kSteps);
    if (micro) copy(kMicro, "batch.micro");
    if (batch) {
      copy(kBatch, "batch.global");
      if (steps || !micro) copy(kSteps, "batch.accumulation");
    } else if (micro) {
      out_.set("batch.per-rank", view_.integer(kMicro) * (steps ? view_.integer(kSteps) : 1),
               view_.latest({kMicro, kSteps}));
    } else if (neox_ || steps) {
      view_.object(
          "neither train_batch_size nor train_micro_batch_size_per_gpu is given, and NeoX has no default for them");
    }
  }

  void optimizer() {
    constexpr const char *kType = "optimizer.type", *kRate = "optimizer.params.lr", *kBetas = "optimizer.params.betas";
    std::string type = view_.text(kType);
    std::ranges::transform(type, type.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    if (type != "adam" && type != "adamw") object(kType, "the optimizer is AdamW; set Adam");
    if (view_.given(kRate)) copy(kRate, "optim.learning-rate");
    if (neox_ || view_.given(kType)) {
      copy("optimizer.params.eps", "optim.epsilon");
      std::pair<double, double> betas = {0.9, 0.999};  // Adam's own
      if (view_.given(kBetas)) {
        const auto list = list_of(view_, kBetas, "two numbers", is_number);
        if (list && list->size() != 2) object(kBetas, "expected two numbers");
        if (list && list->size() == 2) betas = {(*list)[0].get<double>(), (*list)[1].get<double>()};
      }
      set("optim.beta1", betas.first, kBetas);
      set("optim.beta2", betas.second, kBetas);
    }
    weight_decay();
    clipping();
    const int64_t stage = view_.integer("zero_optimization.stage");
    constexpr const char* kStages[] = {"none", "optimizer", "gradients", "parameters"};
    if (stage < 0 || stage > 3) return object("zero_optimization.stage", "expected 0 to 3");
    if (neox_ || view_.given("zero_optimization.stage")) set("optim.shard", kStages[stage], "zero_optimization.stage");
  }

  void weight_decay() {
    constexpr const char* kOfAdam = "optimizer.params.weight_decay";
    if (view_.given(kOfAdam) && neox_ && !is_deepspeed_file(view_.origin(kOfAdam)))
      object(kOfAdam, "NeoX gives its own weight_decay to the optimizer; set that one");
    else if (view_.given(kOfAdam))
      copy(kOfAdam, "optim.weight-decay");
    if (neox_ && (view_.given("weight_decay") || !view_.given(kOfAdam))) copy("weight_decay", "optim.weight-decay");
  }

  /// NeoX gives DeepSpeed only what differs from its own defaults, and DeepSpeed's is not to clip.
  void clipping() {
    constexpr const char* kClip = "gradient_clipping";
    const double clip = view_.number(kClip);
    if (view_.given(kClip) && is_deepspeed_file(view_.origin(kClip))) return copy(kClip, "optim.clip");
    if (!neox_) return;
    if (clip != 1.0) return copy(kClip, "optim.clip");
    Origin origin = view_.origin(kClip);
    origin.source = fmt::format(
        "{}: gradient_clipping 1.0 is NeoX's default, which never reaches DeepSpeed: no clipping; "
        "--optim.clip 1 clips",
        origin.text());
    origin.line = 0;
    out_.set("optim.clip", 0.0, origin);
  }

  void schedule() {
    constexpr const char* kStyle = "lr_decay_style";
    const std::string& style = view_.text(kStyle);
    constexpr const char* kStyles[] = {"constant", "linear", "cosine", "exponential"};
    if (std::ranges::find(kStyles, style) == std::end(kStyles))
      return object(kStyle, "expected constant, linear, cosine or exponential");
    set("optim.schedule", style, kStyle);
    set("optim.schedule-form", "neox", kStyle);
    copy("min_lr", "optim.min-learning-rate");
    const double warmup = view_.number("warmup");
    if (warmup < 0 || warmup > 1) return object("warmup", "expected a share of lr_decay_iters, from 0 to 1");
    if (view_.native("optim.warmup-steps")) return;
    if (warmup > 0) {
      copy("warmup", "optim.warmup-fraction");
    } else {
      set("optim.warmup-steps", int64_t{0}, "warmup");
    }
  }

  void training() {
    const std::pair<const char*, const char*> keys[] = {{"eval_interval", "evaluation.every"},
                                                        {"eval_iters", "evaluation.batches"},
                                                        {"log_interval", "log.every"},
                                                        {"seed", "run.seed"},
                                                        {"attention_dropout", "model.attention-dropout"},
                                                        {"keep_last_n_checkpoints", "checkpoint.keep"}};
    for (const auto& [key, option] : keys) copy(key, option);
    if (!view_.given("checkpoint_factor")) set("checkpoint.every", int64_t{0}, "checkpoint_factor");
    if (!view_.given("extra_save_iters")) return;
    const auto is_step = [](const Json& item) { return item.is_number_integer() && item >= 0; };
    const auto steps = list_of(view_, "extra_save_iters", "steps, like [1, 2, 4]", is_step);
    if (!steps) return;
    std::string text;
    for (const Json& step : *steps) text += (text.empty() ? "" : ",") + std::to_string(step.get<int64_t>());
    set("checkpoint.also", text, "extra_save_iters");
  }

  /// "0.3 a 0.7 b" of the paths and weights of one of NeoX's three parts.
  std::optional<std::string> blend(const std::string& part) {
    const std::string paths_key = part + "_data_paths", weights_key = part + "_data_weights";
    const auto paths = list_of(view_, paths_key.c_str(), "a list of paths", is_text);
    if (!paths) return std::nullopt;
    Json weights = Json::array();
    for (size_t i = 0; i < paths->size(); ++i) weights.push_back(1.0);
    if (view_.given(weights_key)) {
      const auto given = list_of(view_, weights_key.c_str(), "a list of numbers", is_number);
      if (!given) return std::nullopt;
      weights = *given;
    }
    if (weights.size() != paths->size() || paths->empty()) {
      view_.object(paths_key, fmt::format("{} paths and {} weights", paths->size(), weights.size()));
      return std::nullopt;
    }
    if (paths->size() == 1) return (*paths)[0].get<std::string>();
    std::string text;
    for (size_t i = 0; i < paths->size(); ++i)
      text += fmt::format("{}{} {}", i > 0 ? " " : "", weights[i].get<double>(), (*paths)[i].get<std::string>());
    return text;
  }

  void data() {
    if (is("eod_mask_loss")) {
      set("data.mask-end-of-text", true, "eod_mask_loss");
      if (!view_.native("optim.loss-mean"))
        object(
            "eod_mask_loss",
            "say which mean is meant where micro-batches count different numbers of tokens: --optim.loss-mean tokens, "
            "over all of them, or --optim.loss-mean micro-batches, the mean of the micro-batches' means, as in NeoX");
    }
    if (!is("use_shared_fs") && !view_.native("data.index-dir"))
      object("use_shared_fs", "name a folder of each host's own for the order of the samples: --data.index-dir FOLDER");
    if (view_.given("test_data_paths") && !view_.given("train_data_paths"))
      object("test_data_paths",
             "NeoX reads it with train_data_paths only; with data_path the third share of split is the test");
    if (view_.given("train_data_paths")) {
      if (view_.given("data_path")) object("data_path", "train_data_paths says the data too; remove one of them");
      if (const auto text = blend("train")) set("data.train", *text, "train_data_paths");
      if (!view_.given("valid_data_paths")) {
        set("data.validation", "", "train_data_paths");
      } else if (const auto validation = blend("valid")) {
        set("data.validation", *validation, "valid_data_paths");
      }
      if (view_.given("test_data_paths")) {
        if (const auto test = blend("test")) set("data.test", *test, "test_data_paths");
      }
    } else if (view_.given("data_path")) {
      copy("data_path", "data.train");
      copy("split", "data.split");
    }
  }

  void tokenizer() {
    constexpr const char *kType = "tokenizer_type", *kVocabulary = "vocab_file", *kMerges = "merge_file";
    const std::string& type = view_.text(kType);
    if (type == "CharLevelTokenizer") return set("data.tokenizer", "CharLevelTokenizer", kType);
    if (type == "HFTokenizer") {
      if (view_.given(kVocabulary)) copy(kVocabulary, "data.tokenizer");
      return;
    }
    if (type != "GPT2BPETokenizer")
      return object(kType,
                    "tokenizers are read as HFTokenizer (vocab_file is a tokenizer.json), GPT2BPETokenizer (vocab_file "
                    "and merge_file) or CharLevelTokenizer; set one of them, or --data.tokenizer FILE and HFTokenizer");
    if (view_.given(kVocabulary)) copy(kVocabulary, "data.tokenizer");
    if (view_.given(kMerges) && view_.given(kVocabulary)) copy(kMerges, "data.merges");
    if (view_.given(kMerges) != view_.given(kVocabulary))
      object(view_.given(kMerges) ? kMerges : kVocabulary, "GPT2BPETokenizer needs vocab_file and merge_file");
  }

  enum class Found { nothing, ours, neox };
  static Found look_into(const std::string& folder) {
    const fs::path latest = fs::path(folder) / "latest";
    std::error_code unreadable;
    if (!fs::exists(latest, unreadable)) return Found::nothing;
    constexpr size_t kMostBytes = 4096;  // the name of a folder
    return read_text(latest.string(), kMostBytes).starts_with("step-") ? Found::ours : Found::neox;
  }

  /// `save` is where the run is; `load` where it goes on from.
  void folders() {
    const std::string &save = view_.text("save"), &load = view_.text("load");
    if (view_.given("save")) {
      copy("save", "run.dir");
      if (!view_.native("run.dir") && look_into(save) == Found::neox)
        object("save", fmt::format("its `latest` is that of NeoX's own checkpoints, which are never written over; name "
                                   "another folder: --run.dir {}-trireme",
                                   save));
    }
    if (view_.native("checkpoint.resume")) return;
    const Setting* own = view_.native("run.dir");
    const Found found = view_.given("load") ? look_into(load) : Found::nothing;
    if (found == Found::neox) return go_on_from_neox(own ? own->text : save, load);
    if (own) return;
    if (!view_.given("load")) return set("checkpoint.resume", "none", "load");
    if (found == Found::nothing)
      out_.notes.push_back(fmt::format("{}: load is {}, which holds no checkpoint: the run starts from scratch",
                                       view_.origin("load").text(), load));
    if (load == save) return set("checkpoint.resume", "auto", "load");
    set("checkpoint.resume", found == Found::ours ? load : "none", "load");
  }

  /// A run that began with NeoX's checkpoint and was stopped goes on with its own snapshots.
  void go_on_from_neox(const std::string& save, const std::string& load) {
    if (look_into(save) != Found::ours) return set("checkpoint.resume", load, "load");
    set("checkpoint.resume", "auto", "load");
    out_.notes.push_back(
        fmt::format("{}: load is {}, NeoX's own checkpoints; the run goes on from its newer snapshots "
                    "in {}",
                    view_.origin("load").text(), load, save));
  }

  const DialectView& view_;
  Translation& out_;
  bool neox_ = false;  ///< more than DeepSpeed's own file was read
};

void translate(const DialectView& view, Translation& out) { Translator(view, out).translate(); }

}  // namespace

const Dialect kGptNeox = {
    .name = "gpt-neox",
    .help =
        "GPT-NeoX's YAML, of which several files are merged, and DeepSpeed's configuration in it or as a JSON file "
        "beside it; recognised by the keys",
    .keys = gpt_neox_keys(),
    .bare_overrides = false,
    .claims = claims,
    .translate = translate,
    .merges_apart = true,
};

}  // namespace trireme
