#include "cluster/sbatch.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <set>
#include <sstream>

#include "base/count.h"
#include "base/error.h"
#include "cluster/hostlist.h"

namespace trireme {
namespace {

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(separator, begin), text.size());
    parts.emplace_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

/// 0 for "infinite", "UNLIMITED", "n/a".
int64_t number_or_none(const std::string& text) { return std::max<int64_t>(0, std::atoll(text.c_str())); }

int64_t seconds_or_none(const std::string& text) {
  try {
    return slurm_seconds(text);
  } catch (const Error&) {
    return 0;
  }
}

/// The value of an option in --sbatch's lines: "--time=5", "--time 5", "-t5", "-t 5"; empty: not given.
std::string given(const BatchJob& job, const std::string& name, char letter) {
  std::string value;
  for (const std::string& line : job.lines) {
    std::string rest;
    if (line.starts_with("--" + name + "=") || line.starts_with("--" + name + " ")) {
      rest = line.substr(name.size() + 3);
    } else if (letter != 0 && line.size() > 2 && line[0] == '-' && line[1] == letter) {
      rest = line.substr(2);
    } else {
      continue;
    }
    const size_t begin = rest.find_first_not_of(" \"'"), end = rest.find_last_not_of(" \"'");
    if (begin != std::string::npos) value = rest.substr(begin, end - begin + 1);
  }
  return value;
}

/// The job as sbatch sees it, including the options of --sbatch.
BatchJob as_submitted(BatchJob job) {
  const auto take = [&](std::string& field, const char* name, char letter) {
    if (std::string value = given(job, name, letter); !value.empty()) field = std::move(value);
  };
  const auto count = [&](int& field, const char* name, char letter) {
    const int value = std::atoi(given(job, name, letter).c_str());
    if (value > 0) field = value;
  };
  take(job.time, "time", 't');
  take(job.partition, "partition", 'p');
  take(job.memory, "mem", 0);
  take(job.exclude, "exclude", 'x');
  take(job.gpus_per_node, "gpus-per-node", 0);
  take(job.gres, "gres", 0);
  count(job.nodes, "nodes", 'N');
  count(job.tasks_per_node, "ntasks-per-node", 0);
  count(job.cpus_per_task, "cpus-per-task", 'c');
  return job;
}

bool has_option(const BatchJob& job, std::string_view name, std::string_view letter) {
  return std::ranges::any_of(job.lines, [&](const std::string& line) { return line == name || line == letter; });
}

int64_t megabytes(const std::string& memory) {
  if (memory.empty()) return 0;
  const int64_t number = std::atoll(memory.c_str());
  switch (memory.back()) {
    case 'K':
      return number / 1024;
    case 'G':
      return number * 1024;
    case 'T':
      return number * 1024 * 1024;
    default:
      return number;
  }
}

std::string title(const std::string& partition) {
  return partition.empty() ? "the default partition" : "partition " + partition;
}

using Nodes = std::vector<const PartitionNode*>;

Nodes nodes_of(const std::vector<PartitionNode>& all, const std::string& partition) {
  Nodes nodes;
  std::set<std::string_view> seen;
  for (const PartitionNode& node : all) {
    const bool is_in = partition.empty() ? node.is_default : node.partition == partition;
    if (is_in && seen.insert(node.node).second) nodes.push_back(&node);
  }
  return nodes;
}

/// Why too few of the nodes have `need` of something; empty: enough have it.
std::string too_few(const Nodes& nodes, const BatchJob& job, int64_t PartitionNode::*what, int64_t need,
                    const std::string& asked, const std::string& unit, const std::string& where) {
  int64_t largest = 0, fit = 0;
  for (const PartitionNode* node : nodes) {
    largest = std::max(largest, node->*what);
    fit += node->*what >= need ? 1 : 0;
  }
  if (largest == 0 && what != &PartitionNode::gpus) return "";  // unknown
  if (fit >= job.nodes) return "";
  return fmt::format("{}: {} needed on each of {}, but {} has only {} with that much; the largest has {}", asked,
                     unit == "MB" ? fmt::format("{} MB", need) : count_text(need, unit), count_text(job.nodes, "node"),
                     where, count_text(fit, "node"), largest);
}

std::string why_never_in(const BatchJob& job, Nodes nodes, const std::string& where) {
  const PartitionNode& any = *nodes.front();
  const int64_t seconds = job.time.empty() ? -1 : slurm_seconds(job.time);
  if (any.most_seconds > 0 && (seconds == 0 || seconds > any.most_seconds)) {
    return fmt::format("--time {}: {} runs jobs of at most {:g} min", job.time, where,
                       static_cast<double>(any.most_seconds) / 60);
  }
  if (any.most_nodes > 0 && job.nodes > any.most_nodes) {
    return fmt::format("--nodes {}: {} runs jobs of at most {}", job.nodes, where, count_text(any.most_nodes, "node"));
  }
  if (job.nodes < any.fewest_nodes) {
    return fmt::format("--nodes {}: {} runs jobs of at least {}", job.nodes, where,
                       count_text(any.fewest_nodes, "node"));
  }
  if (!job.exclude.empty()) {
    const std::vector<std::string> out = expand_hostlist(job.exclude, "--exclude");
    std::erase_if(nodes, [&](const PartitionNode* node) { return std::ranges::find(out, node->node) != out.end(); });
  }
  if (static_cast<size_t>(job.nodes) > nodes.size()) {
    return fmt::format("--nodes {}: {} has only {}{}", job.nodes, where, count_text(nodes.size(), "node"),
                       job.exclude.empty() ? "" : " without those of --exclude");
  }
  const int64_t cpus = int64_t{job.tasks_per_node} * std::max(1, job.cpus_per_task);
  const std::string tasks = job.cpus_per_task > 0 ? fmt::format("--ntasks-per-node {} with --cpus-per-task {}",
                                                                job.tasks_per_node, job.cpus_per_task)
                                                  : fmt::format("--ntasks-per-node {}", job.tasks_per_node);
  if (!has_option(job, "--overcommit", "-O")) {
    if (any.most_cpus > 0 && cpus > any.most_cpus) {
      return fmt::format("{}: {} needed on each node, but jobs of {} have at most {}", tasks, count_text(cpus, "CPU"),
                         where, any.most_cpus);
    }
    if (std::string why = too_few(nodes, job, &PartitionNode::cpus, cpus, tasks, "CPU", where); !why.empty())
      return why;
  }
  if (const int64_t memory = megabytes(job.memory); memory > 0) {
    std::string why = too_few(nodes, job, &PartitionNode::memory_mb, memory, "--mem " + job.memory, "MB", where);
    if (!why.empty()) return why;
  }
  const int gpus = gpus_of(job);
  if (gpus == 0) return "";
  return too_few(nodes, job, &PartitionNode::gpus, gpus,
                 job.gpus_per_node.empty() ? "--gres " + job.gres : "--gpus-per-node " + job.gpus_per_node, "GPU",
                 where);
}

}  // namespace

std::vector<PartitionNode> read_partitions(std::string_view sinfo) {
  std::vector<PartitionNode> nodes;
  for (const std::string& row : split(sinfo, '\n')) {
    const std::vector<std::string> fields = split(row, '|');
    if (fields.size() != 9) continue;
    PartitionNode node{.node = fields[0], .partition = fields[1]};
    node.is_default = node.partition.ends_with('*');
    if (node.is_default) node.partition.pop_back();
    node.cpus = number_or_none(fields[2]);
    node.memory_mb = number_or_none(fields[3]);
    node.most_seconds = seconds_or_none(fields[4]);
    const size_t dash = fields[5].find('-');  // "1-4", "1-infinite", "1"
    node.fewest_nodes = number_or_none(fields[5]);
    node.most_nodes = dash == std::string::npos ? node.fewest_nodes : number_or_none(fields[5].substr(dash + 1));
    node.is_up = fields[6] == "up";
    node.most_cpus = number_or_none(fields[7]);
    node.gpus = gpus_of_gres(fields[8]);
    nodes.push_back(std::move(node));
  }
  return nodes;
}

std::string why_never(const BatchJob& asked, const std::vector<PartitionNode>& all) {
  if (all.empty()) return "";
  const BatchJob job = as_submitted(asked);
  std::string reasons;
  for (const std::string& partition : split(job.partition, ',')) {
    const Nodes nodes = nodes_of(all, partition);
    std::string why;
    if (!nodes.empty()) {
      why = why_never_in(job, nodes, title(partition));
    } else if (!partition.empty()) {
      std::set<std::string> known;
      for (const PartitionNode& node : all) known.insert(node.partition);
      why = fmt::format("partition {} has no nodes (others are {})", partition, fmt::join(known, ", "));
    }
    if (why.empty()) return "";
    reasons += (reasons.empty() ? "" : "; ") + why;
  }
  return reasons;
}

GpuShare share_of_gpus(const BatchJob& asked, const std::vector<PartitionNode>& all) {
  const BatchJob job = as_submitted(asked);
  const int64_t gpus = gpus_of(job);
  const auto asks = [&](std::initializer_list<const char*> names, char letter) {
    return std::ranges::any_of(names, [&](const char* name) { return !given(job, name, letter).empty(); });
  };
  const bool exclusive = job.exclusive || has_option(job, "--exclusive", "--exclusive=");
  const bool cores = job.cpus_per_task == 0 && !exclusive && !asks({"cpus-per-gpu"}, 0),
             memory = job.memory.empty() && !asks({"mem-per-cpu", "mem-per-gpu"}, 0);
  int64_t cpus = 0, megabytes = 0;
  bool whole = true;
  for (const std::string& partition : split(job.partition, ',')) {
    for (const PartitionNode* node : nodes_of(all, partition)) {
      if (gpus == 0 || node->gpus < gpus) continue;
      const auto share = [&](int64_t of) { return std::max<int64_t>(1, of * gpus / node->gpus); };
      const int64_t most = node->most_cpus > 0 ? std::min(node->cpus, node->most_cpus) : node->cpus;
      cpus = cpus == 0 ? share(most) : std::min(cpus, share(most));
      megabytes = megabytes == 0 ? share(node->memory_mb) : std::min(megabytes, share(node->memory_mb));
      whole = whole && node->gpus == gpus;
    }
  }
  GpuShare chosen;
  if (cpus == 0) return chosen;
  if (cores) chosen.cpus_per_task = static_cast<int>(std::max<int64_t>(1, cpus / job.tasks_per_node));
  if (memory) chosen.memory = whole || exclusive ? "0" : fmt::format("{}M", megabytes);
  std::vector<std::string> words;
  if (cores) words.push_back(fmt::format("--cpus-per-task {}", chosen.cpus_per_task));
  if (memory) words.push_back("--mem " + chosen.memory);
  if (words.empty()) return chosen;
  const char* const what = cores && memory ? "cores and memory" : cores ? "cores" : "memory";
  chosen.said = fmt::format("{}: {}", fmt::join(words, " "),
                            exclusive ? fmt::format("all {} of each node, because of --exclusive", what)
                            : whole   ? fmt::format("all {} of each node, because the job has all of its GPUs", what)
                                      : fmt::format("of each node's {}, the share that the job has of its GPUs", what));
  return chosen;
}

std::string start_warning(const BatchJob& asked, const std::vector<PartitionNode>& all) {
  const BatchJob job = as_submitted(asked);
  for (const std::string& partition : split(job.partition, ',')) {
    const Nodes nodes = nodes_of(all, partition);
    if (nodes.empty() || nodes.front()->is_up) return "";
  }
  return title(job.partition) + " is not up: the job waits until it is";
}

std::vector<std::string> output_folders(const BatchJob& job) {
  std::vector<std::string> files = {job.output, given(job, "output", 'o'), given(job, "error", 'e')}, folders;
  if (!files[1].empty()) files.erase(files.begin());
  for (const std::string& file : files) {
    const size_t slash = file.rfind('/');
    if (slash != std::string::npos && slash > 0) folders.push_back(file.substr(0, slash));
  }
  return folders;
}

}  // namespace trireme
