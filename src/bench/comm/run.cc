#include "bench/comm/run.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <fstream>
#include <mutex>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/affinity.h"
#include "base/cgroup.h"
#include "base/count.h"
#include "base/error.h"
#include "base/json.h"
#include "base/json_text.h"
#include "base/log.h"
#include "base/text.h"
#include "base/time.h"
#include "bench/comm/device.h"
#include "comm/agreement.h"
#include "comm/mpi.h"
#include "comm/scalars.h"
#include "exchange/mesh_devices.h"
#include "tensor/device_network.h"

namespace trireme::comm_bench {
namespace {

constexpr double kSlow = 0.5;  // of the median pair

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

}  // namespace

std::vector<std::vector<int>> rounds_of(int hosts) {
  // The circle method: one stays, the others move by one place each round; with an odd number one rests.
  const int places = hosts + hosts % 2;
  std::vector<int> circle;
  for (int i = 0; i < places; ++i) circle.push_back(i < hosts ? i : -1);
  std::vector<std::vector<int>> rounds;
  for (int round = 0; round + 1 < places; ++round) {
    std::vector<int> partner(static_cast<size_t>(hosts), -1);
    for (int i = 0; i < places / 2; ++i) {
      const int a = circle[static_cast<size_t>(i)], b = circle[static_cast<size_t>(places - 1 - i)];
      if (a < 0 || b < 0) continue;
      partner[static_cast<size_t>(a)] = b;
      partner[static_cast<size_t>(b)] = a;
    }
    rounds.push_back(std::move(partner));
    std::rotate(circle.begin() + 1, circle.end() - 1, circle.end());
  }
  return rounds;
}

PairRates measure_pairs(Job& job, const std::string& host, int64_t bytes, int repeats) {
  PairRates pairs;
  std::vector<int> leaders;  // the first rank of each host
  const std::vector<std::string> names = job.scalars.gather(host);
  for (size_t rank = 0; rank < names.size(); ++rank) {
    if (std::ranges::find(pairs.hosts, names[rank]) != pairs.hosts.end()) continue;
    pairs.hosts.push_back(names[rank]);
    leaders.push_back(static_cast<int>(rank));
  }
  const size_t count = pairs.hosts.size();
  require(count > 1, ErrorKind::mismatch, "pairs: {} on {} alone; it measures pairs of hosts and needs at least 2",
          count_text(names.size(), "rank"), host);
  pairs.rates.assign(count * count, 0);
  const auto leader = std::ranges::find(leaders, job.rank());
  const int own = leader == leaders.end() ? -1 : static_cast<int>(leader - leaders.begin());
  std::vector<uint8_t> data(static_cast<size_t>(bytes), 1);
  for (const std::vector<int>& partners : rounds_of(static_cast<int>(count))) {
    const int other = own < 0 ? -1 : partners[static_cast<size_t>(own)];
    for (const bool first_sends : {true, false}) {
      const bool sends = (own < other) == first_sends;
      std::vector<double> seconds;
      for (int repeat = -1; repeat < repeats; ++repeat) {  // one to warm up
        job.meet();
        if (other < 0) continue;
        const int peer = leaders[static_cast<size_t>(other)];
        const Clock::time_point start = Clock::now();
        sends ? send_one_way(job.group, data.data(), bytes, peer)
              : receive_one_way(job.group, data.data(), bytes, peer);
        if (repeat >= 0) seconds.push_back(seconds_since(start));
      }
      if (other >= 0 && sends) {
        pairs.rates[static_cast<size_t>(own) * count + static_cast<size_t>(other)] =
            static_cast<double>(bytes) / median(seconds);
      }
    }
  }
  job.scalars.sum(pairs.rates);
  return pairs;
}

std::string to_text(const PairRates& pairs) {
  size_t width = 10;
  for (const std::string& name : pairs.hosts) width = std::max(width, name.size() + 2);
  std::string text = fmt::format("# {:<{}}", "GB/s to", width);
  for (const std::string& name : pairs.hosts) text += fmt::format("{:>{}}", name, width);
  text += "\n";
  for (size_t from = 0; from < pairs.hosts.size(); ++from) {
    text += fmt::format("  {:<{}}", pairs.hosts[from], width);
    for (size_t to = 0; to < pairs.hosts.size(); ++to) {
      text +=
          from == to ? fmt::format("{:>{}}", "-", width) : fmt::format("{:>{}.3g}", pairs.rate(from, to) / 1e9, width);
    }
    text += "\n";
  }
  return text;
}

std::vector<std::string> find_slow(const PairRates& pairs) {
  const size_t count = pairs.hosts.size();
  std::vector<double> all;
  for (size_t i = 0; i < pairs.rates.size(); ++i) {
    if (i / count != i % count) all.push_back(pairs.rates[i]);
  }
  const double usual = median(all);
  const auto slow = [&](size_t from, size_t to) { return from != to && pairs.rate(from, to) < kSlow * usual; };
  std::vector<std::string> found;
  std::vector<bool> told(pairs.rates.size(), false);
  const auto tell_host = [&](size_t host, bool sending) {
    double least = usual, most = 0;
    for (size_t other = 0; other < count; ++other) {
      if (other == host) continue;
      const size_t from = sending ? host : other, to = sending ? other : host;
      if (!slow(from, to)) return;
      least = std::min(least, pairs.rate(from, to));
      most = std::max(most, pairs.rate(from, to));
    }
    for (size_t other = 0; other < count; ++other) told[sending ? host * count + other : other * count + host] = true;
    found.push_back(fmt::format("{} {} slowly: {:.3g} to {:.3g} GB/s; the median of all pairs is {:.3g}",
                                pairs.hosts[host], sending ? "sends" : "receives", least / 1e9, most / 1e9,
                                usual / 1e9));
  };
  for (size_t host = 0; host < count && count > 2; ++host) {  // of two hosts each direction is a pair
    tell_host(host, true);
    tell_host(host, false);
  }
  for (size_t from = 0; from < count; ++from) {
    for (size_t to = 0; to < count; ++to) {
      if (!slow(from, to) || told[from * count + to]) continue;
      found.push_back(fmt::format("{} -> {} is slow: {:.3g} GB/s; the median of all pairs is {:.3g}", pairs.hosts[from],
                                  pairs.hosts[to], pairs.rate(from, to) / 1e9, usual / 1e9));
    }
  }
  return found;
}

namespace {

using Print = std::function<void(const std::string&)>;

int64_t free_memory() {
  std::ifstream file("/proc/meminfo");
  int64_t free = 0;
  for (std::string key, rest; file >> key; std::getline(file, rest)) {
    if (key == "MemAvailable:" && file >> free) break;
  }
  const int64_t limit = read_cgroup_limits().memory_bytes;
  free *= 1024;
  return limit > 0 ? std::min(free, limit) : free;
}

/// Ends the whole job when a size takes longer than it may: a collective cannot be cancelled.
class Watchdog {
 public:
  Watchdog(Process& process, double seconds) : process_(process), seconds_(seconds) {
    if (seconds_ > 0) thread_ = std::thread([this] { watch(); });
  }
  ~Watchdog() {
    if (!thread_.joinable()) return;
    {
      const std::lock_guard lock(mutex_);
      stop_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  void begin(std::string what) {
    const std::lock_guard lock(mutex_);
    what_ = std::move(what);
    ++turn_;
    changed_.notify_all();
  }

 private:
  void watch() {
    std::unique_lock lock(mutex_);
    for (int seen = -1; !stop_;) {
      seen = turn_;
      const bool moved =
          changed_.wait_for(lock, std::chrono::duration<double>(seconds_), [&] { return stop_ || turn_ != seen; });
      if (moved) continue;
      log::error("{} took longer than -T {} s; check the slowest rank", what_, seconds_);
      process_.abort(1);
    }
  }

  Process& process_;
  double seconds_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::string what_ = "the start";
  int turn_ = 0;
  bool stop_ = false;
  std::thread thread_;
};

std::string step_text(const Options& options) {
  return options.factor > 0 ? fmt::format("{}(factor)", options.factor) : fmt::format("{}(bytes)", options.step_bytes);
}

/// Connects the GPUs of both groups, which have the same ranks. Throws CommonError where a GPU's memory is too small.
std::unique_ptr<Collectives> make_library(const RunRequest& request, Communicator& group, Communicator& other) {
  if (request.gpus == nullptr) return make_mpi_collectives();
  Scalars scalars(group);
  const auto bytes = static_cast<uint64_t>(request.options.most_bytes), free = request.gpus->device->memory().free;
  together(scalars, [&] {
    require(3 * bytes <= free, ErrorKind::config, "-e {}: {} are free on the GPU, but three times -e is needed", bytes,
            human_bytes(free));
  });
  connect_devices(group, *request.gpus->device);
  split_devices(group, &other);
  return make_device_collectives(group, *request.gpus->ops, request.options.most_bytes);
}

class Run {
 public:
  Run(Process& process, const RunRequest& request, const Print& print)
      : process_(process),
        request_(request),
        options_(request.options),
        gradient_(request.gradient),
        group_(process.world().split(0, process.rank())),
        exchange_group_(process.world().split(0, process.rank())),
        library_(make_library(request, *group_, *exchange_group_)),
        job_{*group_, *library_, Scalars(*group_)},
        print_(print),
        watchdog_(process, request.options.timeout) {
    gradient_.one_host = process.local_size() == process.size();
    if (gradient_.threads == 0)
      gradient_.threads = std::max(1, static_cast<int>(physical_cores().size()) / process.local_size());
  }

  RunResult all() {
    prove_connected(job_, process_.host());
    fit_into_memory();
    result_.link = request_.gpus == nullptr ? find_link(job_, process_.host())
                                            : gpu_link(request_.gpus->hardware, process_.hosts().hosts() == 1);
    print_head();
    const bool any_library = std::ranges::any_of(request_.subjects, [](const Subject& s) { return !s.is_gradient; });
    Buffers buffers(any_library ? options_.most_bytes : 0);
    for (int cycle = 0; cycle < options_.cycles || options_.cycles == 0; ++cycle) {
      for (const Subject& subject : request_.subjects) measure_subject(subject, buffers);
    }
    finish();
    return std::move(result_);
  }

 private:
  void print(const std::string& text) const {
    if (process_.rank() == 0) print_(text);
  }

  void fit_into_memory() {
    int64_t fitting[] = {fitting_bytes(options_.most_bytes, free_memory(), process_.local_size())};
    job_.scalars.min(fitting);
    if (fitting[0] >= options_.most_bytes) return;
    require(fitting[0] >= options_.least_bytes, ErrorKind::config,
            "-b {} needs more memory than is free on the fullest host; the largest buffers that fit have {} bytes",
            options_.least_bytes, fitting[0]);
    print(fmt::format("# The memory of a host is too small: sizes end at {} bytes instead of {}\n", fitting[0],
                      options_.most_bytes));
    options_.most_bytes = fitting[0];
  }

  void print_head() {
    const std::vector<std::string> ranks =
        job_.scalars.gather(fmt::format("Pid {:>6} on {}{}", getpid(), process_.host(), gpu_text()));
    std::string text = fmt::format(
        "# {} ({})\n# ranks {} minBytes {} maxBytes {} step: {} warmup iters: {} iters: {} agg iters: {} "
        "validation: {}\n"
        "#\n# Using ranks\n",
        request_.binary, group_->backend(), job_.ranks(), options_.least_bytes, options_.most_bytes,
        step_text(options_), options_.warmup, options_.iterations, options_.calls, options_.checks);
    for (size_t i = 0; i < ranks.size(); ++i) text += fmt::format("#  Rank {:>2} {}\n", i, ranks[i]);
    const Link& link = result_.link;
    if (request_.gpus != nullptr) {
      text += fmt::format("# Link: {}{}\n# Transport: {}\n", link.name,
                          link.rate > 0 ? fmt::format(", {:.3f} GB/s each way by its data sheet", link.rate / 1e9) : "",
                          request_.gpus->device->network()->name());
    } else {
      text += fmt::format("# Link: {}, {}{:.3f} GB/s measured with plain messages\n", link.name,
                          link.rate > 0 ? fmt::format("{:.3f} GB/s each way by its driver, ", link.rate / 1e9) : "",
                          link.measured_rate / 1e9);
      text += fmt::format("# Transport: {}\n", transport(link, process_.local_size()));
    }
    print(text);
    json_["config"] = {
        {"ranks", job_.ranks()},         {"min_bytes", options_.least_bytes}, {"max_bytes", options_.most_bytes},
        {"step", step_text(options_)},   {"warmup_iters", options_.warmup},   {"iters", options_.iterations},
        {"validation", options_.checks}, {"library", group_->backend()},      {"wire", name_of(gradient_.wire)}};
    json_["devices"] = ranks;
    json_["link"] = {{"name", link.name}, {"rate", link.rate}, {"measured_rate", link.measured_rate}};
  }

  std::string gpu_text() const {
    return request_.gpus == nullptr ? "" : fmt::format(" GPU {} [{}]", request_.gpus->gpu, request_.gpus->hardware);
  }

  void measure_subject(const Subject& subject, Buffers& buffers) {
    print(fmt::format("#\n# Collective test starting: {}_perf\n{}", subject.name, table_header()));
    result_.tables.push_back({"this run", subject.name, {}, std::nullopt, {}});
    const auto first_comparison = static_cast<std::ptrdiff_t>(result_.comparisons.size());
    for (const int64_t bytes : sizes(options_)) {
      watchdog_.begin(fmt::format("{} of {} bytes", subject.name, bytes));
      subject.is_gradient ? measure_gradient_size(bytes) : measure_library_size(subject, bytes, buffers);
    }
    result_.tables.back().average_bus_bandwidth = comm_bench::average_bus_bandwidth(result_.tables.back().rows);
    if (subject.is_gradient && request_.gpus == nullptr)
      print(to_text({result_.comparisons.begin() + first_comparison, result_.comparisons.end()}, gradient_));
    print(fmt::format("# Collective test concluded: {}_perf\n", subject.name));
  }

  void add(const Row& row) {
    result_.tables.back().rows.push_back(row);
    print(to_text(row));
  }

  void measure_gradient_size(int64_t bytes) {
    const int64_t count = bytes / static_cast<int64_t>(sizeof(float));
    if (count == 0) return;
    Ops& ops = request_.gpus == nullptr ? *cpu_.ops : *request_.gpus->ops;
    add(measure_gradient(job_, *exchange_group_, ops, options_, gradient_, count));
    if (request_.gpus != nullptr) return;  // what it is compared with is of CPUs
    result_.comparisons.push_back(compare_gradient(job_, *exchange_group_, options_, gradient_, count));
  }

  void measure_library_size(const Subject& subject, int64_t bytes, Buffers& buffers) {
    std::vector<ReduceOp> ops = options_.ops;
    if (!reduces(subject.collective)) ops = {ReduceOp::sum};
    std::vector<int> roots = {std::max(options_.root, 0)};
    if (has_root(subject.collective) && options_.root < 0) {
      for (int r = 1; r < job_.ranks(); ++r) roots.push_back(r);
    }
    for (const Element element : options_.elements) {
      for (const ReduceOp op : ops) {
        for (const int root : roots) {
          const int64_t count = count_of(subject, element, bytes, job_.ranks());
          add(measure(job_, options_, subject, {subject.collective, element, op, root, count, false}, buffers));
        }
      }
    }
  }

  void finish() {
    std::vector<Row> rows;
    json_["results"] = Json::array();
    for (const Table& table : result_.tables) {
      rows.insert(rows.end(), table.rows.begin(), table.rows.end());
      for (const Row& row : table.rows) {
        json_["results"].push_back(to_json(row));
        json_["results"].back()["collective"] = table.collective;
      }
    }
    result_.average_bus_bandwidth = comm_bench::average_bus_bandwidth(rows);
    result_.wrong = total_wrong(rows);
    const double least = request_.least_bandwidth;
    result_.fast_enough = result_.average_bus_bandwidth >= least;
    std::string text = fmt::format("#\n# Out of bounds values : {} {}\n# Avg bus bandwidth    : {:g}{}\n",
                                   result_.wrong, result_.wrong == 0 ? "OK" : "FAILED", result_.average_bus_bandwidth,
                                   least == 0            ? ""
                                   : result_.fast_enough ? " OK"
                                                         : fmt::format(" FAILED (below {:g})", least));
    Json verdicts = Json::object();
    for (const Table& table : result_.tables) {
      const bool gradient = table.collective == "gradient";
      const double wire_share =
          gradient ? static_cast<double>(size_of(gradient_.wire)) / static_cast<double>(sizeof(float)) : 1;
      // Inside one host the ranks' exchange reads memory in place and sends no values.
      const bool by_copy = gradient && result_.link.kind == Link::Kind::shared_memory;
      const std::string said =
          by_copy ? copy_verdict(result_.comparisons)
                  : verdict(result_.link, table.rows, {table.collective, wire_share, mpi::is_open_mpi()});
      text += fmt::format("# {:<21}: {}\n", table.collective, said);
      verdicts[table.collective] = said;
    }
    print(text);
    json_["out_of_bounds"] = {{"count", result_.wrong}, {"okay", result_.wrong == 0}};
    json_["average_bus_bandwidth"] = {{"bandwidth", result_.average_bus_bandwidth}, {"okay", result_.fast_enough}};
    json_["verdicts"] = verdicts;
    add_comparisons();
    result_.json = dump_valid_json(json_, 1) + "\n";
  }

  void add_comparisons() {
    for (const GradientComparison& c : result_.comparisons) {
      json_["gradient"].push_back({{"size", c.bytes},
                                   {"all_reduce_seconds", c.all_reduce_seconds},
                                   {"gradient_seconds", c.gradient_seconds},
                                   {"ratio", c.speed},
                                   {"wire_bytes", c.wire_bytes},
                                   {"wire_rate", c.wire_rate()},
                                   {"two_way_rate", c.two_way_rate()},
                                   {"ping_pong_rate", c.ping_pong_rate},
                                   {"moved_bytes", c.moved_bytes},
                                   {"copy_rate", c.copy_rate},
                                   {"of_copy", c.of_copy},
                                   {"lost_seconds", c.lost_seconds}});
    }
  }

  Process& process_;
  const RunRequest& request_;
  Options options_;
  GradientOptions gradient_;
  Backend cpu_ = make_backend();
  std::unique_ptr<Communicator> group_, exchange_group_;
  std::unique_ptr<Collectives> library_;
  Job job_;
  const Print& print_;
  RunResult result_;
  Json json_;
  Watchdog watchdog_;
};

}  // namespace

int64_t fitting_bytes(int64_t wanted, int64_t free_bytes, int ranks_of_host) {
  constexpr int64_t kBuffers = 4;  // two, and room for the library's own copies
  return std::min(wanted, free_bytes / ranks_of_host / kBuffers);
}

std::vector<std::string> run_pairs(Process& process, int64_t bytes, int repeats, const Print& print) {
  const std::unique_ptr<Communicator> group = process.world().split(0, process.rank());
  const std::unique_ptr<Collectives> library = make_mpi_collectives();
  Job job{*group, *library, Scalars(*group)};
  prove_connected(job, process.host());
  const PairRates pairs = measure_pairs(job, process.host(), bytes, repeats);
  const std::vector<std::string> slow = find_slow(pairs);
  if (process.rank() != 0) return slow;
  print(fmt::format("# Plain messages one way, {} bytes, from the host of a row to the host of a column\n{}", bytes,
                    to_text(pairs)));
  for (const std::string& finding : slow) print("# " + finding + "\n");
  if (slow.empty()) print("# The network is uniform: no pair is below half of the median.\n");
  return slow;
}

RunResult run(Process& process, const RunRequest& request, const Print& print) {
  return Run(process, request, print).all();
}

}  // namespace trireme::comm_bench
