#include "bench/device/check.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <ctime>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/error.h"
#include "base/json_text.h"
#include "base/time.h"
#include "comm/agreement.h"
#include "comm/scalars.h"
#include "model/presets.h"
#include "ops/gpu_library.h"
#include "train/start/ranks.h"

namespace trireme::device_check {
namespace {

struct Check {
  const char* name;
  Result (*run)(const Bench&);
};

constexpr Check kChecks[] = {{"copies", check_copies},       {"events", check_events}, {"products", check_products},
                             {"operators", check_operators}, {"bits", check_bits},     {"cudnn", check_cudnn},
                             {"training", check_training},   {"resume", check_resume}, {"links", check_links}};

constexpr const char* kQuickName = "a model of 2 layers of width 64";

Sizes sizes_of(const Options& options) {
  if (!options.quick)
    return {.spec = preset(options.preset).spec, .batch = options.batch, .sequence = options.sequence};
  Sizes sizes{.spec = preset("gpt2-124m").spec, .batch = 2, .sequence = 32};
  Spec& spec = sizes.spec;
  spec.layers = 2, spec.heads = 2, spec.width = 64, spec.inner_width = 256;
  spec.vocabulary = 300, spec.vocabulary_rows = 320, spec.context = 128;
  return sizes;
}

constexpr int64_t kQuickSteps = 4;
constexpr double kQuickLongestSum = 15;  // a loaded host may pause for seconds
constexpr size_t kQuickCopyBytes = size_t{1} << 20;

/// The GPU of this rank, with NCCL if that can be loaded.
Backend open_gpu(const RankContext& rank, bool cudnn, std::string* why_no_network) {
  const std::string library = gpu_library_path();
  require(
      !library.empty(), ErrorKind::usage,
      "there is no GPU to check: this build has no libtrireme_cuda.so beside the program; scripts/build release-cuda "
      "makes one, where nvcc is (docs/gpu.md)");
  GpuOptions options;
  options.cudnn = cudnn;
  options.ranks = rank.size();
  options.network = true;
  options.local_rank = rank.local_rank();
  try {
    return open_gpu_backend(library, options);
  } catch (const Error& e) {
    if (why_no_network != nullptr) *why_no_network = e.what();
  }
  options.ranks = 1;
  options.network = false;
  return open_gpu_backend(library, options);
}

std::string now() {
  const std::time_t time = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&time, &utc);
  return fmt::format("{:04}-{:02}-{:02} {:02}:{:02} UTC", utc.tm_year + 1900, utc.tm_mon + 1, utc.tm_mday, utc.tm_hour,
                     utc.tm_min);
}

Result run_one(const Check& check, const Bench& bench) {
  const auto start = Clock::now();
  Result result;
  try {
    result = check.run(bench);
  } catch (const std::exception& e) {
    result = failed(e.what());
  }
  result.check = check.name;
  result.seconds = seconds_since(start);
  return result;
}

bool is_wanted(const Options& options, const Check& check) {
  return options.only.empty() || std::ranges::find(options.only, check.name) != options.only.end();
}

}  // namespace

std::vector<std::string> check_names() {
  std::vector<std::string> names;
  for (const Check& check : kChecks) names.emplace_back(check.name);
  return names;
}

void validate(const Options& options) {
  const std::vector<std::string> names = check_names();
  for (const std::string& name : options.only)
    require(std::ranges::find(names, name) != names.end(), ErrorKind::usage,
            "--only {}: unknown check; the checks are {}", name, fmt::join(names, ", "));
  if (options.quick) return;
  const Spec spec = preset(options.preset).spec;
  require(spec.head == HeadKind::language_model, ErrorKind::usage,
          "--model {} is not a language model that predicts the next token; name one such as gpt2-124m",
          options.preset);
  require(options.sequence <= spec.context, ErrorKind::usage, "--seq {} is longer than the {} positions of {}",
          options.sequence, spec.context, options.preset);
}

Report check_device(const Options& options, const RankContext& rank, const std::string& program,
                    const std::function<void(const std::string&)>& print) {
  const Sizes sizes = sizes_of(options);
  Scalars scalars(rank.world);
  std::optional<Backend> gpu;
  std::string why_no_network;
  together(scalars, [&] { gpu = open_gpu(rank, false, &why_no_network); });
  Backend cpu = make_backend();
  Bench bench{.gpu = *gpu,
              .cpu = cpu,
              .sizes = sizes,
              .steps = options.quick ? kQuickSteps : options.steps,
              .rank = rank,
              .why_no_network = why_no_network,
              .open_with_cudnn = [&] { return open_gpu(rank, true, nullptr); }};
  if (options.quick)
    bench.copy_bytes = kQuickCopyBytes, bench.judges_rates = false, bench.longest_sum = kQuickLongestSum;

  Report report;
  report.facts = {.program = program,
                  .date = now(),
                  .kernels = cpu.kernels,
                  .cpu = cpu.hardware,
                  .model = options.quick ? kQuickName : options.preset,
                  .batch = sizes.batch,
                  .sequence = sizes.sequence,
                  .steps = bench.steps,
                  .threads = rank.threads,
                  .quick = options.quick,
                  .only = fmt::format("{}", fmt::join(options.only, ", "))};
  GpuReport own{.rank = rank.rank(),
                .host = rank.host,
                .hardware = gpu->hardware,
                .place = gpu->gpu,
                .libraries = gpu->libraries};
  const std::string shared = shared_gpu(scalars, own.place, own.host);
  together(scalars, [&] { require(shared.empty(), ErrorKind::usage, "{}", shared); });
  const auto say = [&](const std::string& text) {
    if (rank.rank() == 0) print(text);
  };
  bench.say = [&](const std::string& line) { say(line + "\n"); };
  report.gpus.resize(static_cast<size_t>(rank.size()));
  say(head_of(report, own));
  for (const Check& check : kChecks) {
    if (!is_wanted(options, check)) continue;
    own.results.push_back(run_one(check, bench));
    say(line_of(own.results.back()));
  }
  report.gpus.clear();
  for (const std::string& text : scalars.gather(dump_json(to_json(own))))
    report.gpus.push_back(gpu_report_from_json(parse_json(text, "a rank's report")));
  report.node = read_node_gpus();
  return report;
}

}  // namespace trireme::device_check
