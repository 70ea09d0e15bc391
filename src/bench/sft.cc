#include "bench/sft.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <numbers>
#include <sstream>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/log.h"
#include "base/peer_process.h"
#include "base/private_folder.h"
#include "base/rng.h"
#include "bench/training.h"
#include "checkpoint/huggingface/huggingface.h"
#include "checkpoint/peft/export.h"
#include "checkpoint/peft/targets.h"
#include "checkpoint/safetensors/safetensors.h"
#include "config/config.h"
#include "data/chat/training_rows.h"
#include "model/presets.h"
#include "model/spec.h"
#include "model/trained.h"
#include "optim/training_state.h"
#include "train/sft/batches.h"

namespace trireme {
namespace {

// What TRL needs to begin as our measured fine-tuning does: the weights, the adapter, and the conversations as ids.

/// A temporary folder, which goes with the object.
class SftStart {
 public:
  /// The f32 weights of initialize() with this seed as a Hugging Face folder, those of spec's adapters as a folder of
  /// PEFT, and a safetensors file with the I32 "codes" and the I64 "offsets" of the conversations. trained: of
  /// the run; lora: of the adapters, if there are any. Throws Error::io, and Error::config for a model that no Hugging
  /// Face family describes.
  SftStart(const Spec& spec, uint64_t seed, const Trained& trained, const LoraOptions& lora,
           const chat::CodedIds& conversations);

  std::string model() const { return folder_.file("model"); }
  std::string adapter() const { return folder_.file("adapter"); }  ///< exists if the spec has adapters
  std::string conversations() const { return folder_.file("conversations.safetensors"); }

 private:
  PrivateFolder folder_{"sft"};
};

SafetensorsEntry entry(std::string name, std::string dtype, size_t count) {
  SafetensorsEntry e;
  e.name = std::move(name);
  e.dtype = std::move(dtype);
  e.shape = {static_cast<int64_t>(count)};
  return e;
}

SftStart::SftStart(const Spec& spec, uint64_t seed, const Trained& trained, const LoraOptions& lora,
                   const chat::CodedIds& conversations) {
  const ParameterTable table(spec, InitScheme::gpt2, {}, trained);
  TrainingState weights(table, DType::f32, false);
  initialize(weights, table, seed);
  export_huggingface(model(), base_of(spec), table, weights, "", DType::f32);
  if (!spec.adapters.empty()) {
    std::filesystem::create_directories(adapter());
    export_adapter(adapter(), table, weights, lora, model(), "");
  }
  SafetensorsWriter writer(
      this->conversations(),
      {entry("codes", "I32", conversations.codes.size()), entry("offsets", "I64", conversations.offsets.size())}, {});
  writer.write(0, std::as_bytes(std::span(conversations.codes)));
  writer.write(1, std::as_bytes(std::span(conversations.offsets)));
  writer.commit();
}

constexpr uint64_t kSeed = 1;    // of the conversations; MeasuredModel's weights have the same
constexpr int64_t kRounds = 2;   // of each setting: ours, then theirs
constexpr int64_t kWarmup = 1;   // untimed steps of each round
constexpr int64_t kCompile = 2;  // of a compiled peer: the second one has another length, for which it compiles again

size_t peak_rss() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<size_t>(usage.ru_maxrss) * 1024;
}

/// A length of which half are below the median; `spread` is that of its logarithm.
int64_t length_of(RandomStream& random, double median, double spread) {
  const double normal =
      std::sqrt(-2 * std::log(1 - random.uniform())) * std::cos(2 * std::numbers::pi * random.uniform());
  return std::max<int64_t>(2, std::llround(median * std::exp(spread * normal)));
}

/// One to six exchanges of a short question and a longer answer, which counts; at most `most` ids. Ids begin at 1, and
/// low ones are more frequent, so that there is something to learn.
chat::CodedIds made_up(const SftBenchOptions& o, int64_t vocabulary) {
  RandomStream random(kSeed);
  const auto id = [&] {
    const double u = random.uniform();
    return static_cast<int32_t>(
        1 + std::min<int64_t>(vocabulary - 2, std::llround(static_cast<double>(vocabulary) * u * u * u)));
  };
  chat::CodedIds all;
  std::vector<int32_t> codes;
  for (int64_t i = 0; i < o.conversations; ++i) {
    codes.clear();
    for (int turn = 0; turn < 6 && (turn == 0 || random.uniform() < 0.4); ++turn) {
      for (int64_t n = length_of(random, 30, 0.9); n > 0; --n) codes.push_back(id());
      for (int64_t n = length_of(random, 120, 0.9); n > 0; --n) codes.push_back(~id());
    }
    // A long question does not push its answer out of the row.
    const auto most = std::min(codes.size(), static_cast<size_t>(o.sequence));
    codes.resize(most);
    codes.back() = chat::is_counted(codes.back()) ? codes.back() : ~codes.back();
    all.add(codes);
  }
  return all;
}

/// What steps are measured on.
struct Measured {
  const SftBenchOptions& options;
  const Spec& spec;
  Config config;
  Ops& ops;
  const RankContext& rank;
  const std::vector<int>& exchange_cores;

  double learning_rate() const { return options.lora.on() ? 1e-3 : 1e-4; }
  BatchShape shape() const {
    return {.global = options.batch, .micro_batches = 1, .sequence = options.sequence, .ranks = 1, .rank = 0};
  }
  RankPlan plan() const {
    return plan_rank({.spec = spec, .mesh = {.data = 1}}, config, step_size(shape()), planned(rank, exchange_cores));
  }
};

/// Our steps from the start.
class OurSteps {
 public:
  /// shuffled: the rows of each epoch, else in their order. Borrows both.
  OurSteps(const Measured& of, const chat::TrainingRows& rows, bool shuffled)
      : OurSteps(of, rows, shuffled, of.plan()) {}

  /// A step; adds to the sums, and returns its loss.
  double run(SftRate& sums) {
    const auto consumed = static_cast<uint64_t>(consumed_);
    const StepPart part = batches_->part(consumed);
    const double counted = part.counted.value();
    const auto ids = static_cast<double>(part.rows[0]);
    const StepTime time = training_.run();
    consumed_ += part.samples;
    log::info("ours      loss {:.4f}  {:.3f} s, {:.0f} ids of which {:.0f} count", time.loss, time.seconds, ids,
              counted);
    sums.seconds += time.seconds;
    sums.counted += counted;
    sums.ids += ids;
    sums.computed += ids;
    sums.peak_rss = peak_rss();
    return time.loss;
  }

 private:
  OurSteps(const Measured& of, const chat::TrainingRows& rows, bool shuffled, const RankPlan& plan)
      : plan_{static_cast<int64_t>(rows.size()), of.options.batch},
        model_(plan, of.ops),
        training_(model_, of.rank, plan, of.options.batch, of.learning_rate(), make_batches(of, rows, shuffled)) {}
  std::unique_ptr<StepBatches> make_batches(const Measured& of, const chat::TrainingRows& rows, bool shuffled) {
    auto batches =
        std::make_unique<ChatBatches>(rows, of.shape(), shuffled ? std::optional<uint64_t>(kSeed) : std::nullopt);
    batches_ = batches.get();
    return batches;
  }

  EpochPlan plan_;
  ChatBatches* batches_ = nullptr;
  MeasuredModel model_;
  MeasuredTraining training_;
  int64_t consumed_ = 0;
};

/// TRL from the start, after `warmup` steps.
std::unique_ptr<PeerProcess> start_trl(const Measured& of, const SftStart& start, const std::string& setting,
                                       int64_t batch, int64_t warmup) {
  const SftBenchOptions& o = of.options;
  constexpr std::string_view kCompiled = "-compiled";
  const bool compiled = setting.ends_with(kCompiled);
  log::info("starting TRL, {}{}", setting, compiled ? ": compiling takes minutes" : "");
  std::vector<std::string> command{
      o.python,          o.peer_script,
      "--model",         start.model(),
      "--conversations", start.conversations(),
      "--setting",       setting.substr(0, setting.size() - (compiled ? kCompiled.size() : 0)),
      "--sequence",      std::to_string(o.sequence),
      "--batch",         std::to_string(batch),
      "--dtype",         std::string(name_of(o.dtype)),
      "--learning-rate", fmt::format("{}", of.learning_rate()),
      "--warmup",        std::to_string(warmup),
      "--threads",       std::to_string(of.rank.threads)};
  if (o.lora.on()) command.insert(command.end(), {"--adapter", start.adapter()});
  if (compiled) command.emplace_back("--compile");
  return std::make_unique<PeerProcess>(command);
}

void add(SftRate& sums, const PeerProcess::Result& step) {
  log::info("TRL       loss {:.4f}  {:.3f} s, {} ids of which {} count, {} computed", step.loss, step.seconds,
            step.tokens, step.counted, step.computed);
  sums.seconds += step.seconds;
  sums.counted += static_cast<double>(step.counted);
  sums.ids += static_cast<double>(step.tokens);
  sums.computed += static_cast<double>(step.computed);
  sums.peak_rss = std::max<size_t>(sums.peak_rss, step.peak_rss);
}

void add(SftRate& sums, const SftRate& more) {
  sums.seconds += more.seconds;
  sums.counted += more.counted;
  sums.ids += more.ids;
  sums.computed += more.computed;
  sums.peak_rss = std::max(sums.peak_rss, more.peak_rss);
}

std::vector<std::string> settings_of(const SftBenchOptions& o) {
  std::vector<std::string> settings;
  std::istringstream words(o.settings);
  for (std::string word; std::getline(words, word, ',');) {
    const auto known = {"packing", "grouping", "packing-compiled", "grouping-compiled"};
    require(std::ranges::find(known, word) != known.end(), ErrorKind::usage,
            "--peer-settings: \"{}\" is unknown; expected some of packing, grouping, packing-compiled, "
            "grouping-compiled",
            word);
    settings.push_back(word);
  }
  require(!settings.empty(), ErrorKind::usage, "--peer-settings is empty; remove it for all of them");
  return settings;
}

void run_ours(const Measured& of, const chat::TrainingRows& rows, int64_t steps, SftRate& sums) {
  OurSteps ours(of, rows, true);
  SftRate warm;
  for (int64_t i = 0; i < kWarmup; ++i) ours.run(warm);
  for (int64_t i = 0; i < steps; ++i) ours.run(sums);
}

/// mean_ids: of a conversation, which says how many make up a step of a side that pads.
SftPeer measure_peer(const Measured& of, const chat::TrainingRows& rows, double mean_ids, const SftStart& start,
                     const std::string& setting) {
  const SftBenchOptions& o = of.options;
  const auto padded = std::max<int64_t>(1, std::llround(static_cast<double>(o.batch * o.sequence) / mean_ids));
  const bool compiled = setting.ends_with("-compiled");
  SftPeer peer{.setting = setting, .skipped = {}, .theirs = {}, .ours = {}};
  const int64_t rounds = std::min(kRounds, o.steps);
  for (int64_t round = 0; round < rounds; ++round) {
    const int64_t steps = o.steps * (round + 1) / rounds - o.steps * round / rounds;
    run_ours(of, rows, steps, peer.ours);
    try {
      const auto process = start_trl(of, start, setting, setting.starts_with("packing") ? o.batch : padded,
                                     compiled ? kCompile : kWarmup);
      for (int64_t i = 0; i < steps; ++i) add(peer.theirs, process->measure());
    } catch (const Error& e) {
      if (!compiled || e.kind() != ErrorKind::io) throw;
      peer.skipped = e.what();
      return peer;
    }
  }
  return peer;
}

SftCurve compare_losses(const Measured& of, const chat::TrainingRows& rows, const SftStart& start) {
  SftCurve curve;
  {
    SftRate unused;
    OurSteps ours(of, rows, false);
    for (int64_t i = 0; i < of.options.curve; ++i) curve.ours.push_back(ours.run(unused));
  }
  const auto process = start_trl(of, start, "order", of.options.batch, 0);
  SftRate unused;
  for (int64_t i = 0; i < of.options.curve; ++i) {
    const PeerProcess::Result step = process->measure();
    add(unused, step);
    curve.theirs.push_back(step.loss);
  }
  return curve;
}

}  // namespace

double SftCurve::largest_difference() const {
  double largest = 0;
  for (size_t i = 0; i < ours.size(); ++i) {
    const double difference = std::abs(ours[i] - theirs[i]);
    if (!(difference <= largest)) largest = difference;  // NaN, too
  }
  return largest;
}

double SftBenchResult::peer_ratio() const {
  double least = 0;
  for (const SftPeer& peer : peers) {
    if (peer.skipped.empty() && (least == 0 || peer.ratio() < least)) least = peer.ratio();
  }
  return least;
}

SftBenchResult bench_sft(const SftBenchOptions& given, Backend& backend, const RankContext& rank,
                         const std::vector<int>& exchange_cores) {
  SftBenchOptions o = given;
  const Spec base = preset(o.preset).spec;
  require(base.head == HeadKind::language_model, ErrorKind::usage,
          "--preset {} does not predict the next token, so conversations cannot be trained on", o.preset);
  require(o.sequence <= base.context, ErrorKind::usage, "--seq {} is longer than the {} positions of {}", o.sequence,
          base.context, o.preset);
  require(o.curve == 0 || o.trl, ErrorKind::usage, "--curve compares losses with TRL's; add --peer trl");
  const std::vector<std::string> settings = settings_of(o);
  const Spec spec = o.lora.on() ? with_adapters(base, o.lora, "") : base;
  Config config = measured_config(o.dtype);
  config.optim.beta2 = 0.999;
  config.lora = o.lora;
  const Measured of{o, spec, config, *backend.ops, rank, exchange_cores};

  const chat::CodedIds ids = made_up(o, spec.vocabulary);
  const chat::TrainingRows rows = make_rows(ids, static_cast<size_t>(o.sequence), true);
  const chat::TrainingRows single = make_rows(ids, static_cast<size_t>(o.sequence), false);
  require(static_cast<int64_t>(rows.size()) >= o.batch, ErrorKind::usage,
          "--batch {} is more than the {} rows that {} conversations make; set --conversations", o.batch, rows.size(),
          o.conversations);
  SftBenchResult result;
  result.mean_ids = static_cast<double>(rows.ids()) / static_cast<double>(o.conversations);
  result.counted_share = static_cast<double>(rows.counted_ids()) / static_cast<double>(rows.ids());
  result.unused = rows.padding();
  if (!o.trl) {
    run_ours(of, rows, o.steps, result.ours);
    return result;
  }
  const SftStart start(spec, kSeed, trained_of(config, spec), o.lora, ids);
  for (const std::string& setting : settings) {
    SftPeer& peer = result.peers.emplace_back();
    if (o.dtype == DType::bf16 && !backend.has_bf16) {
      peer.setting = setting;
      peer.skipped = "this CPU has no bf16 instructions, so a step takes many minutes";
      run_ours(of, rows, o.steps, peer.ours);
    } else {
      peer = measure_peer(of, rows, result.mean_ids, start, setting);
    }
    add(result.ours, peer.ours);
  }
  if (o.curve > 0) result.curve = compare_losses(of, single, start);
  return result;
}

}  // namespace trireme
