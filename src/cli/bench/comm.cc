#include "cli/bench/benchmarks.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <utility>

#include "base/count.h"
#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "bench/comm/device.h"
#include "bench/comm/run.h"
#include "bench/goals.h"
#include "bench/ranks.h"
#include "cli/flags.h"
#include "cli/version.h"
#include "ops/gpu_library.h"

namespace trireme {
namespace {

using namespace comm_bench;

constexpr int64_t kPairBytes = 4 << 20;  // a third of a second at 100 Mbit/s
constexpr int kPairRepeats = 3;
constexpr double kTestsTolerance = 0.9;  // fraction of NCCL_TESTS_MIN_BW that nccl-tests requires

/// Options of nccl-tests for features of NCCL and CUDA: only "off" is accepted, so that its command lines work.
constexpr std::pair<const char*, const char*> kNeutral[] = {
    {"-p,--parallel-init", "0: MPI starts all ranks at once"},
    {"-z,--blocking", "0: no additional wait after each call"},
    {"-G,--cudagraph", "0: CUDA graphs are not supported"},
    {"-C,--report-cputime", "0: times are measured until a call is complete"},
    {"-R,--local-register", "0: MPI registers memory by itself"},
    {"-M,--memory-report", "0: device memory is not used"},
};

struct Choices {
  std::vector<std::string> subjects = {"all_reduce"}, compare;
  std::string least = "32M", most = "32M", step = "1M", op = "sum", type = "float", root = "0", json;
  int average = 1, threads = 1, devices = 1;
  DeviceChoice device = DeviceChoice::automatic;
  std::vector<int> neutral = std::vector<int>(std::size(kNeutral), 0);
  double least_bandwidth = 0;
};

void add_flags(Flags& app, Choices& flags, RunRequest& request) {
  Options& options = request.options;
  app.add("what", flags.subjects,
          "all_reduce, all_gather, reduce_scatter, broadcast, reduce, alltoall, gather, scatter, sendrecv, "
          "gradient (the trainer's own reduction), or all; pairs: plain messages of every host with every other")
      .show_default();
  app.add("-b,--minbytes", flags.least, "smallest size: 8, 32M, 1G").show_default();
  app.add("-e,--maxbytes", flags.most, "largest size").show_default();
  app.add("-i,--stepbytes", flags.step, "increment between sizes, without -f").show_default();
  app.add("-f,--stepfactor", options.factor, "factor between sizes").in_range(2, 1 << 20);
  app.add("-n,--iters", options.iterations, "timed calls").positive().show_default();
  app.add("-m,--agg-iters", options.calls, "calls per iteration").positive().show_default();
  app.add("-N,--run-cycles", options.cycles, "number of times that all sizes are measured; 0: until the job is stopped")
      .not_negative()
      .show_default();
  app.add("-w,--warmup-iters", options.warmup, "untimed calls before them").not_negative().show_default();
  app.add("-c,--check", options.checks, "verified calls per size; 0: none").not_negative().show_default();
  app.add("-o,--op", flags.op, "sum, prod, min, max, avg or all").show_default();
  app.add("-d,--datatype", flags.type,
          "int8, uint8, int32, uint32, int64, uint64, half, float, double, bfloat16 or all")
      .show_default();
  app.add("-r,--root", flags.root, "root rank, or all").show_default();
  app.add("-a,--average", flags.average, "time over ranks: 0: rank 0, 1: mean, 2: minimum, 3: maximum")
      .in_range(0, 3)
      .show_default();
  app.add("-T,--timeout", options.timeout, "maximum seconds for one size; 0: no limit").not_negative().show_default();
  app.add("-t,--nthreads", flags.threads, "only 1: each rank is a process").in_range(1, 1);
  app.add("-g,--ngpus", flags.devices, "only 1: each rank is a process with its own GPU").in_range(1, 1 << 20);
  app.choice(
      "--device", flags.device,
      "what is measured: auto: NCCL if every rank has a GPU that can be used, else MPI; cpu: MPI; cuda (docs/gpu.md)");
  for (size_t i = 0; i < std::size(kNeutral); ++i) {
    app.add(kNeutral[i].first, flags.neutral[i], kNeutral[i].second).in_range(0, 0);
  }
  app.add("-J,--output-file", flags.json, "also write the result to this file as JSON").output_file();
  app.add("--min-bandwidth", flags.least_bandwidth,
          "minimum of the average bus bandwidth in GB/s, otherwise exit code 1; NCCL_TESTS_MIN_BW is also read, with "
          "its tolerance of 10 %")
      .positive();
  app.choice("--wire", request.gradient.wire, "number format in which gradients are sent", {DType::bf16, DType::f32});
  app.add("--bucket-bytes", request.gradient.bucket_bytes, "size of a bucket of gradients in the wire format")
      .positive()
      .show_default();
  app.add("--compute-threads", request.gradient.threads,
          "threads of a rank that compute while gradients travel, to measure how much slower they are (default: the "
          "rank's share of the host's cores)")
      .in_range(1, 1024);
  app.add("--compare", flags.compare,
          "logs of nccl-tests or of this command, shown beside this run; without ranks, only the logs are compared");
}

RunRequest request_of(const Choices& flags, RunRequest request) {
  require(
      flags.devices == 1, ErrorKind::usage,
      "-g {0}: each rank is a process with its own GPU; start {0} ranks: `mpirun -n {0} trireme bench comm ... -g 1`",
      flags.devices);
  Options& options = request.options;
  request.subjects = parse_subjects(flags.subjects);
  options.least_bytes = parse_bytes(flags.least, "-b");
  options.most_bytes = parse_bytes(flags.most, "-e");
  options.step_bytes = parse_bytes(flags.step, "-i");
  options.ops = parse_ops(flags.op);
  options.elements = parse_elements(flags.type);
  options.average = static_cast<Average>(flags.average);
  if (flags.root == "all") {
    options.root = -1;
  } else {
    const bool is_rank = !flags.root.empty() && flags.root.find_first_not_of("0123456789") == std::string::npos;
    require(is_rank && flags.root.size() < 8, ErrorKind::usage, "-r {}: expected a rank or all", flags.root);
    options.root = std::stoi(flags.root);
  }
  request.binary = fmt::format("trireme bench comm, commit {}", commit_text());
  request.least_bandwidth = flags.least_bandwidth;
  if (const char* least = std::getenv("NCCL_TESTS_MIN_BW"); least != nullptr && flags.least_bandwidth == 0) {
    char* end = nullptr;
    request.least_bandwidth = kTestsTolerance * std::strtod(least, &end);
    require(end != least && *end == '\0' && request.least_bandwidth >= 0, ErrorKind::config,
            "NCCL_TESTS_MIN_BW={} is not a number of GB/s", least);
  }
  for (const char* name : {"NCCL_TESTS_SPLIT", "NCCL_TESTS_SPLIT_MASK"}) {
    require(std::getenv(name) == nullptr, ErrorKind::config,
            "{} is set, but measuring ranks in groups is not supported; unset it, or start one job per group", name);
  }
  sizes(options);  // refuses endless measurements before ranks start
  return request;
}

std::vector<Table> read_logs(const std::vector<std::string>& files) {
  std::vector<Table> tables;
  for (const std::string& file : files) {
    for (Table& table : parse_tables(read_text(file, size_t{64} << 20), file)) tables.push_back(std::move(table));
  }
  return tables;
}

/// Whether some of the logs are of a network or a library that corrupts data.
bool tell_wrong(const std::vector<Table>& logs) {
  bool any = false;
  for (const Table& log : logs) {
    const int64_t wrong = wrong_results(log);
    if (wrong == 0) continue;
    log::error("{}{}{}: {} had wrong results: the network or the library corrupted data there", log.source,
               log.collective.empty() ? "" : ", ", log.collective, count_text(wrong, "value"));
    any = true;
  }
  return any;
}

/// What GPUs reach of the goal for all_reduce of 2 GB and more; nothing: none is known, or no such size was measured.
std::optional<GoalResult> goal_of(const Backend& gpus, const Process& process, const RunResult& result) {
  constexpr int64_t kLeastBytes = int64_t{2'000'000'000};
  double best = 0;
  for (const Table& table : result.tables)
    for (const Row& row : table.rows)
      for (const auto* timing : {&row.out_of_place, &row.in_place})
        if (table.collective == "all_reduce" && row.bytes >= kLeastBytes && *timing)
          best = std::max(best, (*timing)->bus_bandwidth);
  if (best == 0) return std::nullopt;
  const auto known = find_goal("all_reduce", gpus.hardware, process.size(), process.hosts().hosts());
  return compare_with_goal(known, 0, "GB/s", best, gpus.libraries);
}

int measure_with_ranks(Process& process, RunRequest request, const Choices& flags, const std::vector<Table>& logs) {
  require(request.options.root < process.size(), ErrorKind::usage, "-r {}: the job has {}", request.options.root,
          count_text(process.size(), "rank"));
  std::optional<Backend> gpus;
  if (flags.device != DeviceChoice::cpu && !(flags.device == DeviceChoice::automatic && gpu_library_path().empty())) {
    Scalars scalars(process.world());
    Backend backend =
        backend_of_ranks(flags.device, "--device", rank_context(process, 1, [] { return false; }), scalars);
    if (backend.device) gpus.emplace(std::move(backend));
  }
  if (gpus && process.size() > 1) {
    request.gpus = &*gpus;
    if (std::ranges::find(flags.subjects, "all") != flags.subjects.end())
      request.subjects = parse_subjects(device_subjects());
    require_device_collectives(request.subjects, request.options);
  }
  const RunResult result = run(process, request, [](const std::string& text) {
    fmt::print("{}", text);
    std::fflush(stdout);
  });
  bool below = false, wrong = false;
  if (process.rank() == 0) {
    wrong = tell_wrong(logs);
    if (!flags.json.empty()) write_text(flags.json, result.json);
    if (const auto goal = gpus ? goal_of(*gpus, process, result) : std::nullopt) {
      fmt::print("{}", to_text(*goal));
      below = !goal->reached();
    }
    for (const Table& own : logs.empty() ? std::vector<Table>() : result.tables) {
      std::vector<Table> beside = {own};
      beside.insert(beside.end(), logs.begin(), logs.end());
      fmt::print("\n{}", side_by_side(beside));
    }
    if (result.wrong > 0)
      log::error("{} had wrong results: the network or the MPI library corrupts data",
                 count_text(result.wrong, "element"));
    if (!result.fast_enough) {
      log::error("average bus bandwidth {:g} GB/s, below {:g}", result.average_bus_bandwidth, request.least_bandwidth);
    }
  }
  if (!result.good() || Scalars(process.world()).any(wrong)) return 1;
  return Scalars(process.world()).any(below) ? kBelowGoal : 0;
}

void print_now(const std::string& text) {
  fmt::print("{}", text);
  std::fflush(stdout);
}

/// Exit code 1 if some pair is slow.
int measure_pairs_with_ranks(int64_t bytes) {
  const Launcher launcher = detect_launcher();
  require(launcher.kind != Launcher::Kind::none, ErrorKind::mismatch,
          "this process was started without a launcher; start it with `trireme launch -f hosts -- bench comm pairs`");
  Process process(launcher);
  return process.run([&] { return run_pairs(process, bytes, kPairRepeats, print_now).empty() ? 0 : 1; });
}

}  // namespace

int bench_comm_command(CommandLine line) {
  Choices flags;
  RunRequest request;
  Flags app(std::move(line), "trireme bench comm",
            "Measures collectives over the ranks of a job, with the options and the table of nccl-tests.");
  app.set_footer(
      "Start it on several ranks: `trireme launch -f hosts -- bench comm all_reduce -b 8 -e 128M -f 2`. Exit codes: 1: "
      "wrong results, also in a log of --compare, or less than --min-bandwidth; 3: GPUs below their goal "
      "(docs/gpu.md).");
  add_flags(app, flags, request);
  if (const auto code = app.parse()) return *code;
  const bool pairs = std::ranges::find(flags.subjects, "pairs") != flags.subjects.end();
  if (pairs) {
    require(flags.subjects.size() == 1 && flags.compare.empty() && flags.json.empty(), ErrorKind::usage,
            "pairs cannot be combined with other collectives, -J or --compare");
    return measure_pairs_with_ranks(app.count("--maxbytes") > 0 ? parse_bytes(flags.most, "-e") : kPairBytes);
  }
  request = request_of(flags, request);
  const std::vector<Table> logs = read_logs(flags.compare);
  const Launcher launcher = detect_launcher();
  if (launcher.kind == Launcher::Kind::none && !logs.empty()) {
    fmt::print("{}", side_by_side(logs));
    return tell_wrong(logs) ? 1 : 0;
  }
  require(launcher.kind != Launcher::Kind::none, ErrorKind::mismatch,
          "this process was started without a launcher and has no other ranks to exchange data with; start it with "
          "`trireme launch ... -- bench comm`, mpirun or srun; without ranks, only --compare works");
  Process process(launcher);
  return process.run([&] { return measure_with_ranks(process, request, flags, logs); });
}

}  // namespace trireme
