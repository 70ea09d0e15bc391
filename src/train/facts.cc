#include "train/facts.h"

#include <fmt/ranges.h>

#include "base/count.h"
#include "base/error.h"
#include "checkpoint/huggingface/generation_settings.h"
#include "checkpoint/peft/targets.h"
#include "checkpoint/snapshot/checkpoint.h"
#include "config/schema.h"
#include "model/mesh_layout.h"
#include "model/train_flops.h"
#include "tensor/device_network.h"
#include "train/machine.h"
#include "train/plan.h"

namespace trireme {
namespace {

std::string gigabytes(size_t bytes) { return fmt::format("{:.2f} GB", static_cast<double>(bytes) / 1e9); }

/// What only ranks with GPUs have.
std::string of_connections(const MemoryPlan& memory) {
  return memory.nccl == 0 ? "" : fmt::format(", NCCL's connections about {}", gigabytes(memory.nccl));
}

const char* describe_shared(ShardChoice shard) {
  switch (shard) {
    case ShardChoice::gradients:
      return "the gradients and the optimizer state; a rank whose weights differ ends the run, because no other rank "
             "has its part";
    case ShardChoice::parameters:
      return "the weights, the gradients and the optimizer state; each layer's weights are gathered when it computes";
    default:
      return "the optimizer state; a rank whose weights differ ends the run, because no other rank has its part";
  }
}

ReduceOrder order_of(const Config& config, const RankPlan& plan) {
  return reduce_order(config, plan.mesh, plan.rank.hosts, plan.rank.gpu);
}

const char* name_of_state(const RankPlan& plan) { return plan.trains ? "weights, gradients and moments" : "weights"; }

/// "cosine from 0.0006 to 6e-05 at step 1000, after 100 steps of warm-up".
std::string describe_schedule(const RateSchedule& s) {
  std::string text;
  if (s.course == RateCourse::constant)
    text = fmt::format("constant {}", s.peak);
  else if (s.course == RateCourse::inverse_sqrt)
    text = fmt::format("{} from {}", name_of(s.course), s.peak);
  else
    text = fmt::format("{} from {} to {} at step {}", name_of(s.course), s.peak, s.minimum, s.decay_steps);
  return s.warmup_steps > 0
             ? text + fmt::format(", after {:g} {} of warm-up", s.warmup_steps, s.warmup_steps == 1 ? "step" : "steps")
             : text;
}

std::string measured_how(const PeakRate& peak) {
  if (!peak.is_measured()) return "log.peak-tflops";
  std::string text = "a large matrix product, measured now";
  if (peak.used_by_others() >= 0.1)
    text += fmt::format("; other programs used {:.0f} % of the processors meanwhile", 1e2 * peak.used_by_others());
  return text;
}

}  // namespace

std::string describe_exchange(const Config& config, const RankPlan& plan) {
  const HostMap hosts = plan.rank.hosts.of(replicas_of(plan.mesh, plan.rank.rank));
  const int per_host = hosts.ranks_per_host();
  if (!plan.trains || hosts.hosts() <= 1 || per_host <= 1) return "";
  const double ways = config.optim.shard == ShardChoice::none ? 2 : 1;  // there, and the sums back
  const double array =
      static_cast<double>(plan.table->trained_count()) * static_cast<double>(size_of(config.comm.wire));
  const double first = ways * array * (hosts.hosts() - 1) / hosts.hosts(), flat = first * per_host;
  const ReduceOrder order = order_of(config, plan);
  if (order == ReduceOrder::nccl) return "";  // it chooses what travels
  const bool is_first = order == ReduceOrder::hosts;
  return fmt::format(
      "each host sends {:.1f} MB of gradients per step to its data-parallel peers, {} {:.1f} MB with --comm.reduce "
      "{}{}",
      (is_first ? first : flat) / 1e6, is_first ? "instead of" : "but", (is_first ? flat : first) / 1e6,
      is_first ? "flat" : "hosts", is_first ? "" : ", which is faster if the network is the bottleneck");
}

std::string describe_sums(const Config& config, const RankPlan& plan, const std::string& library) {
  if (!plan.trains || plan.mesh.data <= 1) return "";
  const CommOptions& comm = config.comm;
  const HostMap hosts = plan.rank.hosts.of(replicas_of(plan.mesh, plan.rank.rank));
  switch (order_of(config, plan)) {
    case ReduceOrder::nccl:
      return fmt::format(
          "of gradients by {} itself, in {}: it chooses the order and where it rounds, so the bits differ from those "
          "of "
          "--comm.reduce flat and hosts, and may differ with its version and the number of GPUs",
          library, name_of(comm.wire));
    case ReduceOrder::hosts:
      if (comm.reduce != ReduceOrder::automatic) return "";
      return fmt::format(
          "of gradients first on each host (hosts), because comm.reduce is auto and GPUs of {} hosts with {} data "
          "ranks "
          "each compute; --comm.reduce flat adds them as on CPUs",
          hosts.hosts(), hosts.ranks_per_host());
    default:
      if (comm.reduce != ReduceOrder::automatic || !plan.rank.gpu || plan.rank.hosts.hosts() <= 1) return "";
      return fmt::format(
          "of gradients in rank order (flat), because comm.reduce is auto and data ranks are not on several hosts in "
          "equal numbers, more than one on each");
  }
}

void require_memory(const RankPlan& plan, const RankContext& rank, const Device& device, const OptionNames& names) {
  const MemoryPlan& memory = plan.memory;
  if (!device.is_host()) {
    const DeviceMemory now = device.memory();
    require(now.total == 0 || memory.on_device() <= now.free, ErrorKind::config,
            "this run needs {} on the GPU ({} {}, activations {}, scratch {}{}), but {} of its {} are free; {}lower "
            "{} (now {}) or {}, choose a smaller model, or end other programs on it",
            gigabytes(memory.on_device()), name_of_state(plan), gigabytes(memory.state), gigabytes(memory.activations),
            gigabytes(memory.scratch), of_connections(memory), gigabytes(now.free), gigabytes(now.total),
            memory.on_device() - memory.nccl > now.free ? ""
            : plan.optimizer->shard == ShardChoice::none
                ? fmt::format("set {} for fewer connections, ", names("--comm.reduce nccl"))
                : fmt::format("set {} and {} for fewer connections, ", names("--optim.shard-group host"),
                              names("--comm.reduce hosts")),
            names("batch.micro"), count_text(plan.step.micro_sequences, "row"), names("batch.sequence"));
    return;
  }
  const uint64_t available = available_memory(rank.local_size());
  require(memory.total() <= available, ErrorKind::config,
          "this run needs {} per rank ({} {}, activations {}, scratch {}, exchange {}, snapshot {}), but each of the "
          "{} on {} can use only {}; lower {} (now {}) or {}, choose a smaller model, or use "
          "fewer ranks per host",
          gigabytes(memory.total()), name_of_state(plan), gigabytes(memory.state), gigabytes(memory.activations),
          gigabytes(memory.scratch), gigabytes(memory.exchange), gigabytes(memory.snapshot),
          count_text(rank.local_size(), "rank"), rank.host, gigabytes(available), names("batch.micro"),
          count_text(plan.step.micro_sequences, "row"), names("batch.sequence"));
}

std::string describe_kernels(const Backend& backend, DType dtype) {
  const std::string why = backend.reason.empty() ? "" : fmt::format(" ({})", backend.reason);
  const std::string_view products = dtype != DType::bf16      ? "in f32 by oneDNN"
                                    : backend.multiplies_bf16 ? "in bf16, added in f32, by oneDNN and this program"
                                                              : "in f32, because this CPU does not multiply bf16";
  return fmt::format("{}{}: matrix products {}; attention by this program in blocks, which stores no scores",
                     backend.kernels, why, products);
}

RunFacts plan_facts(const RunPlan& plan, const RankContext& rank, const Backend& backend, const PeakRate& peak,
                    int64_t sequence) {
  const RankPlan& part = plan.part;
  const MemoryPlan& memory = part.memory;
  const Spec& s = part.spec;
  RunFacts facts;
  const auto add = [&](const char* name, std::string value) { facts.emplace_back(name, std::move(value)); };
  add("model", fmt::format("{:.2f}M parameters: {}, {}, width {}, context {}, vocabulary {}",
                           static_cast<double>(ParameterTable(s).total()) / 1e6, count_text(s.layers, "layer"),
                           count_text(s.heads, "head"), s.width, s.context, s.vocabulary));
  if (!s.adapters.empty()) add("adapters", published_adapters(s, kept_model_type(plan.generation)));
  if (!part.trained.all()) add("trained", describe_trained(part.table->whole()));
  if (s.rotary.kind == RotaryKind::longrope) {
    add("positions", fmt::format("longrope: its long factors where a step has a sequence of more than {} tokens, else "
                                 "its short ones",
                                 s.rotary.original_context));
  }
  add("precision", std::string(name_of(part.dtype)));
  if (part.mesh.tensor * part.mesh.pipeline > 1) {
    std::vector<std::string> stages(static_cast<size_t>(part.mesh.pipeline));
    const std::vector<ModelPart> parts = stages_of(s, part.mesh);
    for (size_t i = 0; i < parts.size(); ++i) {
      std::string& stage = stages[i % stages.size()];
      stage += fmt::format("{}{}{}{}", stage.empty() ? "" : ", ", parts[i].embedding ? "embedding + " : "",
                           count_text(parts[i].layers(), "layer"), parts[i].head ? " + head" : "");
    }
    add("mesh", fmt::format("data {} x tensor {} x pipeline {}: stages of {}{}", part.mesh.data, part.mesh.tensor,
                            part.mesh.pipeline, fmt::join(stages, " | "),
                            part.shape.sequence_parallel ? "; sequence parallel between layers" : ""));
  }
  if (part.trains && plan.config().optim.shard != ShardChoice::none && part.mesh.data > 1)
    add("sharded", fmt::format("each of {} keeps its part of {}", count_text(part.mesh.data, "data rank"),
                               describe_shared(plan.config().optim.shard)));
  if (const std::string exchange = describe_exchange(plan.config(), part); !exchange.empty()) add("exchange", exchange);
  DeviceNetwork* network = backend.device ? backend.device->network() : nullptr;
  if (const std::string sums = describe_sums(plan.config(), part, network ? network->name() : ""); !sums.empty())
    add("sums", sums);
  add("ranks", fmt::format("{} ({} on this host), {}", rank.size(), rank.local_size(), rank.world.backend()));
  if (backend.device) {
    add("gpu", backend.hardware);
  } else {
    add("cpu", fmt::format("{}, {} per rank", backend.hardware, count_text(rank.threads, "thread")));
    add("kernels", describe_kernels(backend, part.dtype));
  }
  add("memory", fmt::format("{} planned per rank: {} {}, activations {}, scratch {}{}, exchange {}, snapshot {}",
                            gigabytes(memory.total()), name_of_state(part), gigabytes(memory.state),
                            gigabytes(memory.activations), gigabytes(memory.scratch), of_connections(memory),
                            gigabytes(memory.exchange), gigabytes(memory.snapshot)));
  add("mfu",
      fmt::format("share of {:.1f} GFLOP/s ({}, all ranks together) that training reaches, at {:.1f} MFLOP per "
                  "token (6 x matmul parameters + 6 x layers x width x sequence{})",
                  peak.total() / 1e9, measured_how(peak), train_flops_per_token(part.table->whole(), sequence) / 1e6,
                  part.trained.all() ? "" : ", less what frozen ones save"));
  return facts;
}

RunFacts training_facts(const RunPlan& plan, const RateSchedule& schedule) {
  const OptimOptions& o = plan.config().optim;
  RunFacts facts{{"optimizer", fmt::format("AdamW: betas {} and {}, epsilon {}, weight decay {}{}, {}", o.beta1,
                                           o.beta2, o.epsilon, o.weight_decay,
                                           o.weight_decay == 0 ? ""
                                           : o.decay_all       ? " of every tensor"
                                                               : " of matrices",
                                           o.clip > 0 ? fmt::format("gradients clipped to norm {}", o.clip)
                                                      : "gradients not clipped")},
                 {"rate", describe_schedule(schedule)}};
  const std::string wire(name_of(plan.config().comm.wire));
  facts.emplace_back("wire", plan.part.mesh.data > 1 ? wire + " for gradients between ranks, added in f32"
                                                     : wire + ", but one data rank sends no gradients");
  return facts;
}

OptionFacts option_facts(const LoadedConfig& loaded) {
  OptionFacts facts;
  for (const Option& option : schema().options()) {
    const auto origin = loaded.origins.find(option.name);
    if (origin == loaded.origins.end()) continue;
    const Value value = get(loaded.config, option);
    const bool of_model = option.group == "model" && !loaded.given(option.name);  // the model's own line says it
    facts.push_back({option.name, to_text(value), origin->second.text(),
                     changes_results(option) && !of_model && value != option.default_value});
  }
  return facts;
}

}  // namespace trireme
