// Dialect gpt-neox: the layered YAML of GPT-NeoX and the configuration of DeepSpeed, inside it or as a ds_config.json
// beside it. Values that NeoX derives are derived here in the same way.

#include "config/gpt_neox.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>

#include "base/count.h"
#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/text.h"
#include "config/gpt_neox_part.h"
#include "config/schema.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

bool is_json(const Origin& origin) { return origin.source.ends_with(".json"); }

std::string_view outermost(std::string_view key) { return key.substr(0, key.find('.')); }

/// YAML with a key of NeoX, or of one of its groups, and without native options. For a group that both have, only the
/// keys in it decide; an empty group does not decide.
bool claims(const std::string& path, const std::vector<Setting>& settings) {
  if (fs::path(path).extension() == ".py") return false;
  const auto is_shared = [](const Setting& setting) {
    return setting.problem == "nothing" && schema().is_group(outermost(setting.key));
  };
  const auto is_own = [&](const Setting& setting) {
    const std::string group = canonical(outermost(setting.key));
    return !is_shared(setting) && std::ranges::any_of(gpt_neox_keys(), [&](const DialectKey& key) {
      return canonical(outermost(key.name)) == group;
    });
  };
  const auto is_native = [](const Setting& setting) {
    const bool grouped = setting.key.find('.') != std::string::npos && schema().is_group(outermost(setting.key));
    return grouped && (schema().find(setting.key) != nullptr || kGptNeox.find(setting.key) == nullptr);
  };
  return std::ranges::any_of(settings, is_own) && std::ranges::none_of(settings, is_native);
}

bool is_number(const Json& item) { return item.is_number(); }

class Translator : private NeoxPart {
 public:
  Translator(const DialectView& view, Translation& out) : NeoxPart(view, out) {}

  void translate() {
    for (const DialectKey& key : gpt_neox_keys()) {
      if (!view_.given(key.name)) continue;
      const Origin& origin = view_.origin(key.name);
      if (!is_json(origin) || !is_deepspeed_key(key.name)) neox_files_.insert(origin.source);
    }
    neox_ = !neox_files_.empty();
    precision();
    batch();
    optimizer();
    if (!neox_) return;  // a DeepSpeed file alone does not set the rest, and NeoX's defaults do not apply
    required();
    translate_neox_model(view_, out_);
    parallelism();
    schedule();
    training();
    translate_neox_data(view_, out_);
  }

 private:
  /// NeoX's own files may also be JSON.
  bool is_deepspeed_file(const Origin& origin) const { return is_json(origin) && !neox_files_.contains(origin.source); }

  /// Keys without which NeoX fails.
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

  void parallelism() {
    const int64_t stages = view_.integer("pipe_parallel_size"), shards = view_.integer("model_parallel_size");
    if (stages < 0) object("pipe_parallel_size", "the smallest possible value is 0");
    if (shards < 1) return object("model_parallel_size", "the smallest possible value is 1");
    if (is("sequence_parallel") && tensor_ranks() > 1) set("mesh.sequence", true, "sequence_parallel");
    set("mesh.pipeline", std::max<int64_t>(1, stages), "pipe_parallel_size");
    const int64_t divisor = view_.integer("make_vocab_size_divisible_by");
    constexpr int64_t kMost = 1 << 20;
    if (divisor < 1 || divisor > kMost)
      return object("make_vocab_size_divisible_by", fmt::format("expected 1 to {}", kMost));
    Origin origin = view_.origin("make_vocab_size_divisible_by");
    const int64_t tensor = tensor_ranks();
    if (const Setting* own = view_.native("mesh.tensor"); own && tensor != shards) {
      origin = {fmt::format("{} x mesh.tensor {} ({})", divisor, tensor, own->origin.text()), 0, origin.layer};
    } else if (shards > 1) {
      origin = {
          fmt::format("{} x model_parallel_size {} ({})", divisor, shards, view_.origin("model_parallel_size").text()),
          0, view_.latest({"make_vocab_size_divisible_by", "model_parallel_size"}).layer};
    }
    out_.set("model.vocabulary-multiple", divisor * tensor, origin);
  }

  /// The tensor ranks of the run: the native option overrides NeoX's key.
  int64_t tensor_ranks() const {
    const int64_t own = native_number("mesh.tensor");
    return own > 0 ? own : view_.integer("model_parallel_size");
  }

  void precision() {
    // DeeperSpeed's older spelling of bf16
    const bool older = is("fp16.enabled") && view_.text("fp16.type") == "bfloat16";
    const bool fp16 = is("fp16.enabled") && !older, bf16 = is("bf16.enabled") || older,
               named = view_.given("precision");
    if (view_.given("communication_data_type"))
      set("comm.wire", view_.text("communication_data_type") == "fp32" ? DType::f32 : DType::bf16,
          "communication_data_type");
    if (!neox_ && !view_.given("fp16.enabled") && !view_.given("bf16.enabled")) return;
    const char* key = named ? "precision" : fp16 ? "fp16.enabled" : older ? "fp16.type" : "bf16.enabled";
    const std::string name = named ? view_.text("precision") : fp16 ? "fp16" : bf16 ? "bfloat16" : "fp32";
    if (name != "fp16" && name != "bfloat16" && name != "fp32") return object(key, "expected fp16, bfloat16 or fp32");
    if ((fp16 && name != "fp16") || (bf16 && name != "bfloat16"))
      return object(fp16 && name != "fp16" ? "fp16.enabled" : "bf16.enabled",
                    fmt::format("{} requests {}; set only one of the two", view_.origin(key).text(), name));
    set("precision.dtype", name == "fp16" ? DType::f16 : name == "bfloat16" ? DType::bf16 : DType::f32, key);
    if (name == "fp16") loss_scale();
    const bool wide = is("fp32_allreduce") || name == "fp32";
    if (neox_ && !view_.given("communication_data_type"))
      set("comm.wire", wide ? DType::f32 : DType::bf16, is("fp32_allreduce") ? "fp32_allreduce" : key);
  }

  void loss_scale() {
    constexpr const char* kPower = "fp16.initial_scale_power";
    copy("fp16.loss_scale", "precision.loss-scale");
    constexpr int64_t kMostPower = 60;
    if (view_.integer(kPower) < 0 || view_.integer(kPower) > kMostPower)
      return object(kPower, fmt::format("expected 0 to {}", kMostPower));
    set("precision.loss-scale-initial", std::ldexp(1.0, static_cast<int>(view_.integer(kPower))), kPower);
    copy("fp16.loss_scale_window", "precision.loss-scale-window");
    copy("fp16.hysteresis", "precision.loss-scale-hysteresis");
    copy("fp16.consecutive_hysteresis", "precision.loss-scale-refill");
    copy("fp16.min_loss_scale", "precision.loss-scale-min");
  }

  /// One or two of batch, micro-batch and accumulation determine the rest; NeoX's default accumulation is 1.
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
    if (view_.given("gas") && view_.integer("gas") != view_.integer(kSteps))
      object("gas", fmt::format("older versions of NeoX accepted gas but used only gradient_accumulation_steps, which "
                                "is {}; set that key, and remove gas",
                                view_.integer(kSteps)));
    if (!good || view_.native("batch.global") || view_.native("batch.per-rank")) return;
    // Native options have precedence; numbers of the file that contradict them are derived from the rest.
    const int64_t own_micro = native_number("batch.micro"), own_steps = native_number("batch.accumulation");
    const bool batch = view_.given(kBatch), micro = view_.given(kMicro), steps = view_.given(kSteps);
    if (micro && !(batch && own_steps > 0)) copy(kMicro, "batch.micro");
    if (batch) {
      copy(kBatch, "batch.global");
      if (own_micro == 0 && (steps || !micro)) copy(kSteps, "batch.accumulation");
    } else if (micro || own_micro > 0) {
      const int64_t sequences = own_micro > 0 ? own_micro : view_.integer(kMicro);
      const int64_t times = own_steps > 0 ? own_steps : view_.integer(kSteps);
      out_.set("batch.per-rank", sequences * times, view_.latest({kMicro, kSteps}));
    } else if (neox_ || steps) {
      view_.object(
          "neither train_batch_size nor train_micro_batch_size_per_gpu is given, and NeoX has no default for them");
    }
  }

  /// The value of a numeric option in a native file or flag; 0: not given, or not a number.
  int64_t native_number(const char* option) const {
    const Setting* own = view_.native(option);
    const auto* number = own ? std::get_if<int64_t>(&own->value) : nullptr;
    constexpr int64_t kMost = 1 << 20;
    return number && *number >= 1 && *number <= kMost ? *number : 0;
  }

  void optimizer() {
    constexpr const char *kType = "optimizer.type", *kRate = "optimizer.params.lr", *kBetas = "optimizer.params.betas";
    const std::string type = lower_case(view_.text(kType));
    if (type != "adam" && type != "adamw") object(kType, "the optimizer is AdamW; set Adam");
    if (view_.given(kRate)) copy(kRate, "optim.learning-rate");
    if (neox_ || view_.given(kType)) {
      copy("optimizer.params.eps", "optim.epsilon");
      std::pair<double, double> betas = {0.9, 0.999};  // Adam's defaults
      if (view_.given(kBetas)) {
        const auto list = neox_list(view_, kBetas, "two numbers", is_number);
        if (list && list->size() != 2) object(kBetas, "expected two numbers");
        if (list && list->size() == 2) betas = {(*list)[0].get<double>(), (*list)[1].get<double>()};
      }
      set("optim.beta1", betas.first, kBetas);
      set("optim.beta2", betas.second, kBetas);
    }
    weight_decay();
    clipping();
    const int64_t stage = view_.integer("zero_optimization.stage");
    constexpr ShardChoice kStages[] = {ShardChoice::none, ShardChoice::optimizer, ShardChoice::gradients,
                                       ShardChoice::parameters};
    if (stage < 0 || stage > 3) return object("zero_optimization.stage", "expected 0 to 3");
    if (neox_ || view_.given("zero_optimization.stage")) set("optim.shard", kStages[stage], "zero_optimization.stage");
  }

  void weight_decay() {
    constexpr const char* kOfAdam = "optimizer.params.weight_decay";
    if (view_.given(kOfAdam) && neox_ && !is_deepspeed_file(view_.origin(kOfAdam)))
      object(kOfAdam, "NeoX passes its key weight_decay to the optimizer instead; set weight_decay");
    else if (view_.given(kOfAdam))
      copy(kOfAdam, "optim.weight-decay");
    if (neox_ && (view_.given("weight_decay") || !view_.given(kOfAdam))) copy("weight_decay", "optim.weight-decay");
  }

  /// NeoX passes a value to DeepSpeed only if it differs from NeoX's default, and DeepSpeed does not clip by default.
  void clipping() {
    constexpr const char* kClip = "gradient_clipping";
    const double clip = view_.number(kClip);
    constexpr const char* kExtra = "deepspeed_extra_args.gradient_clipping";
    if (view_.given(kExtra)) return copy(kExtra, "optim.clip");
    if (view_.given(kClip) && is_deepspeed_file(view_.origin(kClip))) return copy(kClip, "optim.clip");
    if (!neox_) return;
    if (clip != 1.0) return copy(kClip, "optim.clip");
    Origin origin = view_.origin(kClip);
    origin.source = fmt::format(
        "{}: gradient_clipping 1.0 is NeoX's default, which NeoX does not pass to DeepSpeed: no clipping; --optim.clip "
        "1 clips",
        origin.text());
    origin.line = 0;
    out_.set("optim.clip", 0.0, origin);
  }

  void schedule() {
    constexpr const char* kStyle = "lr_decay_style";
    const std::string& style = view_.text(kStyle);
    constexpr RateCourse kStyles[] = {RateCourse::constant, RateCourse::linear, RateCourse::cosine,
                                      RateCourse::exponential};
    const std::optional<RateCourse> course = value_named<RateCourse>(style);  // NeoX uses the same names
    if (!course || std::ranges::find(kStyles, *course) == std::end(kStyles))
      return object(kStyle, "expected constant, linear, cosine or exponential");
    set("optim.schedule", *course, kStyle);
    set("optim.schedule-form", ScheduleForm::neox, kStyle);
    copy("min_lr", "optim.min-learning-rate");
    const double warmup = view_.number("warmup");
    if (warmup < 0 || warmup > 1) return object("warmup", "expected a fraction of lr_decay_iters, from 0 to 1");
    decay_steps();
    if (view_.native("optim.warmup-steps") || view_.native("optim.warmup-fraction")) return;
    if (warmup > 0) {
      copy("warmup", "optim.warmup-fraction");
    } else {
      set("optim.warmup-steps", int64_t{0}, "warmup");
    }
    note_short_warm_up(warmup);
  }

  void decay_steps() {
    constexpr const char* kShare = "lr_decay_fraction";
    if (!view_.given(kShare) || view_.given("lr_decay_iters")) return;
    const double share = view_.number(kShare);
    if (share <= 0 || share > 1) return object(kShare, "expected a fraction of train_iters, above 0 and at most 1");
    set("optim.decay-steps", std::max<int64_t>(1, static_cast<int64_t>(static_cast<double>(steps()) * share)), kShare);
  }

  /// The steps of the run: the native option overrides NeoX's key.
  int64_t steps() const {
    const Setting* own = view_.native("run.steps");
    const auto* steps = own ? std::get_if<int64_t>(&own->value) : nullptr;
    return steps ? *steps : view_.integer("train_iters");
  }

  /// NeoX divides the first update's rate by the length of the warm-up, even if that is less than one update.
  void note_short_warm_up(double share) {
    const Setting* own = view_.native("optim.decay-steps");
    const auto* native = own ? std::get_if<int64_t>(&own->value) : nullptr;
    const int64_t decay = native && *native > 0           ? *native
                          : view_.given("lr_decay_iters") ? view_.integer("lr_decay_iters")
                                                          : steps();
    const double length = share * static_cast<double>(decay);
    if (length <= 0 || length >= 1) return;
    out_.notes.push_back(
        fmt::format("{}: warmup {} of {} updates is {:.3g} updates, less than one: with NeoX's formula the first "
                    "update has {:.3g} times the peak rate; set warmup 0 for the peak rate",
                    view_.origin("warmup").text(), share, decay, length, 1 / length));
  }

  void training() {
    const std::pair<const char*, const char*> keys[] = {{"eval_interval", "evaluation.every"},
                                                        {"eval_iters", "evaluation.batches"},
                                                        {"log_interval", "log.every"},
                                                        {"seed", "run.seed"},
                                                        {"attention_dropout", "model.attention-dropout"},
                                                        {"keep_last_n_checkpoints", "checkpoint.keep"}};
    for (const auto& [key, option] : keys) copy(key, option);
    set("evaluation.next-batches", true, "eval_iters");
    checkpoint_interval();
    if (!view_.given("extra_save_iters")) return;
    const auto is_step = [](const Json& item) { return item.is_number_integer() && item >= 0; };
    const auto steps = neox_list(view_, "extra_save_iters", "steps, like [1, 2, 4]", is_step);
    if (!steps) return;
    std::string text;
    for (const Json& step : *steps) text += (text.empty() ? "" : ",") + std::to_string(step.get<int64_t>());
    set("checkpoint.also", text, "extra_save_iters");
  }

  void checkpoint_interval() {
    constexpr const char *kFactor = "checkpoint_factor", *kInterval = "save_interval";
    if (view_.given(kFactor)) {
      if (view_.given(kInterval) && view_.integer(kInterval) != view_.integer(kFactor))
        object(kInterval, fmt::format("it is an older name of checkpoint_factor, which is {}; remove one of them",
                                      view_.integer(kFactor)));
    } else {
      copy(view_.given(kInterval) ? kInterval : kFactor, "checkpoint.every");
    }
  }

  std::set<std::string> neox_files_;
  bool neox_ = false;  ///< files other than DeepSpeed's own were read
};

void translate(const DialectView& view, Translation& out) { Translator(view, out).translate(); }

}  // namespace

const Dialect kGptNeox = {
    .name = "gpt-neox",
    .help =
        "GPT-NeoX's YAML in one or more files, and DeepSpeed's configuration inside them or as a JSON file beside "
        "them; recognised by the keys",
    .keys = gpt_neox_keys(),
    .bare_overrides = false,
    .claims = claims,
    .translate = translate,
    .one_file_per_key = true,
    .synonyms = gpt_neox_synonyms(),
    .prepare = take_out_extra_args,
};

}  // namespace trireme
