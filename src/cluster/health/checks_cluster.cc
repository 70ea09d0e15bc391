// Checks of the Azure set for CPU nodes: page cache, disks and memory bandwidth.

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <thread>

#include "base/count.h"
#include "base/error.h"
#include "base/time.h"
#include "cluster/health/check.h"
#include "cluster/health/own_sum.h"

namespace trireme::health {
namespace {

double cached_kb(const Machine& machine) {
  const std::string text = machine.read("/proc/meminfo").value_or("");
  for (std::string_view line : split_lines(text)) {
    if (!line.starts_with("Cached:")) continue;
    std::istringstream rest{std::string(line.substr(7))};
    double kb = 0;
    if (rest >> kb) return kb;
  }
  return -1;
}

/// MOST-KB: drops the page cache if it is larger.
Check make_drop_cache(Words words) {
  require_words(words, 1, 1, "MOST-KB");
  const double most = parse_size_kb(words[0]);
  return [most](const Machine& machine) {
    const double before = cached_kb(machine);
    if (before < 0) return failed("/proc/meminfo does not show the page cache");
    if (before <= most || !machine.repair) return passed();
    const ProcessResult result = machine.command(
        {"/bin/sh", "-c", "sync && echo 1 > " + shell_quote(machine.root + "/proc/sys/vm/drop_caches")});
    if (result.exit_code != 0) return failed("cannot drop the page cache ({:.0f} kB): {}", before, result.err);
    return passed(fmt::format("dropped a page cache of {:.0f} kB", before));
  };
}

Check make_nvme(Words words) {
  require_words(words, 1, 1, "COUNT");
  const double wanted = parse_number(words[0], "count");
  return [wanted](const Machine& machine) {
    const size_t found = machine.list("/sys/class/nvme").size();
    if (static_cast<double>(found) != wanted)
      return failed("{}, expected {:.0f}", count_text(found, "NVMe device"), wanted);
    return passed();
  };
}

/// MOUNT-POINT DEVICES: the array mounted there has that many devices, all of them active.
Check make_raid(Words words) {
  require_words(words, 2, 2, "MOUNT-POINT DEVICES");
  const std::string point = words[0];
  const double wanted = parse_number(words[1], "devices");
  return [=](const Machine& machine) {
    std::string array;
    const std::string mounts = machine.read("/proc/mounts").value_or("");
    for (std::string_view line : split_lines(mounts)) {
      std::istringstream fields{std::string(line)};
      std::string source, target;
      if (fields >> source >> target && target == point) array = source.substr(source.rfind('/') + 1);
    }
    if (array.empty()) return failed("{} is not mounted", point);
    const std::string stat = machine.read("/proc/mdstat").value_or("");
    for (std::string_view line : split_lines(stat)) {
      if (!line.starts_with(array + " :")) continue;
      const auto devices = std::ranges::count(line, '[');
      if (line.find("(F)") != std::string_view::npos) return failed("{} has a failed device: {}", array, line);
      if (static_cast<double>(devices) != wanted)
        return failed("{} has {}, expected {:.0f}", array, count_text(devices, "device"), wanted);
      return passed();
    }
    return failed("{} ({}) is not in /proc/mdstat", point, array);
  };
}

/// a = b + s c with arrays far larger than the caches, on all threads; best of 5, counted as 3 x 8 bytes per element.
double triad_mb_per_s() {
  constexpr size_t kElements = size_t{1} << 24;  // 3 x 128 MiB
  std::vector<double> a(kElements, 1), b(kElements, 2), c(kElements, 0.5);
  const size_t threads = std::max(1u, std::thread::hardware_concurrency());
  double best = 0;
  for (int round = 0; round < 5; ++round) {
    const Clock::time_point start = Clock::now();
    std::vector<std::jthread> team;
    for (size_t t = 0; t < threads; ++t) {
      team.emplace_back([&, begin = kElements * t / threads, end = kElements * (t + 1) / threads] {
        for (size_t i = begin; i < end; ++i) a[i] = b[i] + 3.0 * c[i];
      });
    }
    team.clear();
    best = std::max(best, 24.0 * static_cast<double>(kElements) / seconds_since(start) / 1e6);
  }
  return a[0] == 3.5 ? best : 0;
}

/// LEAST-MB: memory bandwidth of the node.
Check make_stream(Words words) {
  require_words(words, 1, 1, "LEAST-MB-PER-S");
  const double least = parse_number(words[0], "MB/s");
  return [least](const Machine&) {
    const double found = triad_mb_per_s();
    if (found < least) return failed("memory triad {:.0f} MB/s, below {:.0f}", found, least);
    return passed(fmt::format("memory triad {:.0f} MB/s", found));
  };
}

/// LEAST-GB-PER-S [RANKS [BYTES]]: average bus bandwidth of an all_reduce among ranks on this node.
Check make_comm_bandwidth(Words words) {
  require_words(words, 1, 3, "LEAST-GB-PER-S [RANKS [BYTES]]");
  const double least = parse_number(words[0], "GB/s");
  const std::string ranks = words.size() > 1 ? words[1] : "2", bytes = words.size() > 2 ? words[2] : "16M";
  require(parse_number(ranks, "ranks") >= 2, ErrorKind::config, "ranks: expected at least 2, found \"{}\"", ranks);
  return [=](const Machine& machine) {
    const OwnSum sum = measure_own_sum(machine, ranks, bytes, "cpu", {}, 60);
    if (!sum.problem.empty()) return failed("trireme bench comm {}", sum.problem);
    if (sum.bandwidth < least)
      return failed("all_reduce among {} at {:.2f} GB/s, below {:.2f}", count_text(ranks, "rank"), sum.bandwidth,
                    least);
    return passed(fmt::format("all_reduce among {} at {:.2f} GB/s", count_text(ranks, "rank"), sum.bandwidth));
  };
}

constexpr KnownCheck kChecks[] = {
    {"check_comm_bandwidth", make_comm_bandwidth},
    {"check_cpu_drop_mem_cache", make_drop_cache},
    {"check_cpu_stream", make_stream},
    {"check_nvme_count", make_nvme},
    {"check_raid", make_raid},
};

}  // namespace

std::span<const KnownCheck> cluster_checks() { return kChecks; }

}  // namespace trireme::health
