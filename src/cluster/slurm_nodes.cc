#include "cluster/slurm_nodes.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "base/count.h"
#include "base/error.h"
#include "base/json.h"
#include "base/text.h"
#include "cluster/hostlist.h"

namespace trireme {
namespace {

struct State {
  std::string_view name;
  std::string_view reason;  ///< empty: usable
};

// Long and short states of sinfo(1), NODE STATE CODES.
constexpr State kStates[] = {
    {"idle", ""},
    {"allocated", ""},
    {"alloc", ""},
    {"mixed", ""},
    {"mix", ""},
    {"completing", ""},
    {"comp", ""},
    {"reserved", ""},
    {"resv", ""},
    {"planned", ""},
    {"plnd", ""},
    {"npc", ""},
    {"perfctrs", ""},
    {"cloud", ""},
    {"dynamic_norm", ""},
    {"dynamic_future", ""},
    {"down", "down"},
    {"drain", "drained"},
    {"drained", "drained"},
    {"draining", "draining"},
    {"drng", "draining"},
    {"fail", "failing"},
    {"failing", "failing"},
    {"failg", "failing"},
    {"error", "error"},
    {"maint", "in maintenance"},
    {"boot", "booting"},
    {"reboot", "rebooting"},
    {"reboot_issued", "rebooting"},
    {"reboot_requested", "waiting for a reboot"},
    {"future", "not there yet"},
    {"futr", "not there yet"},
    {"unknown", "unknown to Slurm"},
    {"unk", "unknown to Slurm"},
    {"inval", "registered with a wrong configuration"},
    {"invalid_reg", "registered with a wrong configuration"},
    {"not_responding", "not responding"},
    {"no_respond", "not responding"},
    {"power_down", "powering down"},
    {"pow_dn", "powering down"},
    {"powering_down", "powering down"},
    {"powered_down", "powered off"},
    {"power_up", "powering up"},
    {"pow_up", "powering up"},
    {"powering_up", "powering up"},
    {"block", "blocked"},
    {"blocked", "blocked"},
};

std::string_view flag_reason(char flag) {
  switch (flag) {
    case '*':
      return "not responding";
    case '~':
      return "powered off";
    case '#':
      return "powering up";
    case '%':
      return "powering down";
    case '!':
      return "about to power down";
    case '$':
      return "in maintenance";
    case '@':
      return "waiting for a reboot";
    case '^':
      return "rebooting";
    default:
      return "";  // '-': planned for a later job, usable
  }
}

const State* find_state(std::string_view word) {
  const auto found = std::ranges::find(kStates, word, &State::name);
  return found == std::end(kStates) ? nullptr : found;
}

std::string_view strip_flags(std::string_view word) {
  while (!word.empty() && std::string_view("*~#%!$@^-").find(word.back()) != std::string_view::npos) {
    word.remove_suffix(1);
  }
  return word;
}

std::vector<std::string_view> words(std::string_view line) {
  std::vector<std::string_view> out;
  for (size_t at = 0; (at = line.find_first_not_of(" \t\r", at)) != std::string_view::npos;) {
    const size_t end = std::min(line.find_first_of(" \t\r", at), line.size());
    out.push_back(line.substr(at, end - at));
    at = end;
  }
  return out;
}

/// Collects rows of any form; one entry per node, in the order of first mention.
class NodeTable {
 public:
  NodeTable(std::string source, std::string_view partition) : source_(std::move(source)), partition_(partition) {}

  void add(std::string_view nodes, std::string_view state, int line, std::string_view partition) {
    if (!partition.empty() && partition.back() == '*') partition.remove_suffix(1);
    if (!partition.empty()) partitions_.emplace(partition);
    if (!partition_.empty() && !partition.empty() && partition != partition_) return;
    const std::string where = line > 0 ? fmt::format("{}:{}", source_, line) : source_;
    const std::string reason = unusable_reason(state, where);
    for (std::string& name : expand_hostlist(nodes, where)) {
      const auto [place, fresh] = index_.emplace(name, entries_.size());
      if (fresh) entries_.push_back({Host{std::move(name), 0, 0, where, std::string(state)}, reason});
      Entry& entry = entries_[place->second];
      if (entry.reason.empty() && !reason.empty()) {
        entry.reason = reason;
        entry.host.state = state;
      }
    }
  }

  SlurmNodes finish() {
    SlurmNodes nodes;
    for (Entry& entry : entries_) {
      if (entry.reason.empty()) {
        nodes.usable.push_back(std::move(entry.host));
      } else {
        entry.host.state += " (" + entry.reason + ")";
        nodes.skipped.push_back(std::move(entry.host));
      }
    }
    require(!entries_.empty() || partitions_.empty(), ErrorKind::data,
            "{}: found no node in partition {}; its partitions are {}", source_, partition_,
            fmt::join(partitions_, ", "));
    require(!entries_.empty(), ErrorKind::data, "{}: found no node; expected the output of sinfo", source_);
    return nodes;
  }

  const std::string& source() const { return source_; }

 private:
  struct Entry {
    Host host;
    std::string reason;
  };
  std::string source_;
  std::string_view partition_;
  std::set<std::string, std::less<>> partitions_;  ///< all that are mentioned
  std::vector<Entry> entries_;
  std::map<std::string, size_t> index_;
};

void read_json_nodes(NodeTable& table, std::string_view text) {
  const Json document = parse_json(text, table.source());
  require(document.contains("nodes") && document["nodes"].is_array(), ErrorKind::data,
          "{}: \"nodes\" is missing from the JSON; expected the output of `sinfo --json`", table.source());
  for (const Json& node : document["nodes"]) {
    // "state" is a word up to 22.05 and a list of words later.
    std::string state;
    const auto append = [&](const Json& value) {
      if (value.is_string()) state += (state.empty() ? "" : "+") + value.get<std::string>();
    };
    for (const char* key : {"state", "state_flags"}) {
      if (!node.contains(key)) continue;
      const Json& value = node[key];
      if (value.is_array()) {
        for (const Json& word : value) append(word);
      } else {
        append(value);
      }
    }
    const auto name = node.find("name");
    require(name != node.end() && name->is_string() && !state.empty(), ErrorKind::data,
            "{}: a node without \"name\" or \"state\"", table.source());
    const Json partitions = node.value("partitions", Json::array());
    if (partitions.empty()) table.add(name->get<std::string>(), state, 0, "");
    for (const Json& partition : partitions) {
      if (partition.is_string()) table.add(name->get<std::string>(), state, 0, partition.get<std::string>());
    }
  }
}

/// Columns of a header line; nodes < 0: not a header.
struct Header {
  int nodes = -1, state = -1, partition = -1;
  Header() = default;
  explicit Header(const std::vector<std::string_view>& columns) {
    for (int i = 0; i < static_cast<int>(columns.size()); ++i) {
      const std::string_view name = columns[static_cast<size_t>(i)];
      if (name == "NODELIST" || name == "HOSTNAMES") nodes = i;
      if (name == "STATE") state = i;
      if (name == "PARTITION") partition = i;
    }
    if (state < 0) nodes = -1;
  }
};

void read_bare_row(NodeTable& table, std::string_view line, int number) {
  const std::vector<std::string_view> fields = words(line);
  std::string_view nodes = fields.front(), state = fields.back();
  if (fields.size() == 1) {
    const size_t comma = line.rfind(',');
    if (comma != std::string_view::npos) {
      nodes = fields[0].substr(0, fields[0].rfind(','));
      state = fields[0].substr(fields[0].rfind(',') + 1);
    }
  }
  require(nodes.data() != state.data() && find_state(lower_case(strip_flags(state.substr(0, state.find('+'))))),
          ErrorKind::data, "{}:{}: expected the nodes first and their state last, found \"{}\"", table.source(), number,
          line);
  table.add(nodes, state, number, "");
}

void read_json_row(NodeTable& table, std::string_view line, int number) {
  const Json row = parse_json(line, fmt::format("{}:{}", table.source(), number));
  require(row.contains("n") && row.contains("s") && row["n"].is_string() && row["s"].is_string(), ErrorKind::data,
          "{}:{}: expected an object with \"n\" (node) and \"s\" (state)", table.source(), number);
  table.add(row["n"].get<std::string>(), row["s"].get<std::string>(), number,
            row.contains("p") && row["p"].is_string() ? row["p"].get<std::string>() : "");
}

void read_table_row(NodeTable& table, const Header& header, std::span<const std::string_view> fields, int number) {
  const int last = std::max({header.nodes, header.state, header.partition});
  require(static_cast<int>(fields.size()) > last, ErrorKind::data, "{}:{}: found {}, fewer than in its header",
          table.source(), number, count_text(fields.size(), "column"));
  const auto column = [&](int i) { return i < 0 ? std::string_view() : fields[static_cast<size_t>(i)]; };
  table.add(column(header.nodes), column(header.state), number, column(header.partition));
}

void read_rows(NodeTable& table, std::string_view text) {
  Header header;
  const bool has_header = text.find("NODELIST") != std::string_view::npos;
  int number = 0;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    ++number;
    const std::vector<std::string_view> fields = words(line);
    if (fields.empty()) continue;
    if (line.front() == '[' || line.front() == '$') {  // a shell prompt ends a table
      header = {};
    } else if (fields.front().front() == '{') {
      read_json_row(table, line, number);
    } else if (const Header found(fields); found.nodes >= 0) {
      header = found;
    } else if (header.nodes >= 0) {
      read_table_row(table, header, fields, number);
    } else if (!has_header) {
      read_bare_row(table, line, number);
    }
  }
}

int positive(std::string_view digits, std::string_view variable, std::string_view text) {
  int value = 0;
  const auto [stop, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  require(error == std::errc() && stop == digits.data() + digits.size() && value > 0, ErrorKind::config,
          "{} is \"{}\", expected counts such as 2(x3),1", variable, text);
  return value;
}

/// "2(x3),1" is 2 2 2 1.
std::vector<int> expand_counts(std::string_view text, std::string_view variable, size_t most) {
  std::vector<int> counts;
  for (std::string_view part : split_outside_brackets(text)) {
    const size_t open = part.find("(x");
    int times = 1;
    if (open != std::string_view::npos) {
      require(part.back() == ')', ErrorKind::config, "{} is \"{}\", expected counts such as 2(x3),1", variable, text);
      times = positive(part.substr(open + 2, part.size() - open - 3), variable, text);
    }
    const int count = positive(part.substr(0, open), variable, text);
    for (int i = 0; i < times && counts.size() <= most; ++i) counts.push_back(count);
  }
  return counts;
}

/// The use of a node, by its short and long word of sinfo.
struct Use {
  std::string_view word, longer;
};
constexpr Use kUses[] = {{"idle", "idle"},     {"mix", "mixed"},    {"alloc", "allocated"}, {"comp", "completing"},
                         {"resv", "reserved"}, {"plnd", "planned"}, {"npc", "perfctrs"}};

/// The most restrictive of the state's words; idle if it has none of them ("cloud").
std::string_view use_of(std::string_view state) {
  std::string_view use = "idle";
  std::string text = lower_case(state);
  text = text.substr(0, text.find(' '));
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find('+', begin), text.size());
    const std::string_view word = std::string_view(text).substr(begin, end - begin), name = strip_flags(word);
    const auto* found = std::ranges::find_if(kUses, [&](const Use& u) { return u.word == name || u.longer == name; });
    if (found != std::end(kUses) && found->word != "idle") use = found->word;
    if (use == "idle" && word.size() > name.size() && word.back() == '-') use = "plnd";
    begin = end + 1;
  }
  return use;
}

std::vector<Host> component_hosts(const EnvironmentReader& environment, const std::string& variable,
                                  const std::string& counts_variable) {
  const char* list = environment(variable.c_str());
  require(list != nullptr && *list != '\0', ErrorKind::config,
          "not in a Slurm job: {} is not set; run inside salloc or sbatch, or use --hostfile",
          variable == "SLURM_NODELIST" ? "SLURM_JOB_NODELIST" : variable);
  std::vector<Host> hosts;
  for (std::string& name : expand_hostlist(list, variable)) hosts.push_back({std::move(name), 0, 0, variable, ""});
  if (const char* tasks = environment(counts_variable.c_str())) {
    const std::vector<int> counts = expand_counts(tasks, counts_variable, hosts.size());
    require(counts.size() == hosts.size(), ErrorKind::config,
            "{} is \"{}\", but {} lists {}; the counts must match the nodes", counts_variable, tasks, variable,
            count_text(hosts.size(), "node"));
    for (size_t i = 0; i < hosts.size(); ++i) hosts[i].slots = counts[i];
  }
  return hosts;
}

/// Number of components of a heterogeneous job; otherwise 1.
int component_count(const EnvironmentReader& environment) {
  for (const char* name : {"SLURM_HET_SIZE", "SLURM_PACK_SIZE"}) {  // the second up to 19.05
    if (const char* count = environment(name)) return std::max(1, std::atoi(count));
  }
  return 1;
}

std::vector<Host> component(const EnvironmentReader& environment, int index) {
  const char* word = environment("SLURM_HET_SIZE") != nullptr ? "HET" : "PACK";
  const auto name = [&](const char* variable) { return fmt::format("{}_{}_GROUP_{}", variable, word, index); };
  return component_hosts(environment, name("SLURM_JOB_NODELIST"), name("SLURM_TASKS_PER_NODE"));
}

}  // namespace

std::string unusable_reason(std::string_view state, std::string_view where) {
  std::string reason;
  const std::string text = lower_case(state);
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find('+', begin), text.size());
    std::string_view word = std::string_view(text).substr(begin, end - begin);
    const std::string_view name = strip_flags(word);
    const State* known = find_state(name);
    require(known != nullptr, ErrorKind::data, "{}: \"{}\" is not a node state of sinfo", where, state);
    if (reason.empty()) reason = known->reason;
    for (char flag : word.substr(name.size())) {
      if (reason.empty()) reason = flag_reason(flag);
    }
    begin = end + 1;
  }
  return reason;
}

SlurmNodes parse_sinfo(std::string_view text, const std::string& source, std::string_view partition) {
  NodeTable table(source, partition);
  const size_t first = text.find_first_not_of(" \t\r\n");
  const bool one_document =
      first != std::string_view::npos && text[first] == '{' && text.find("\"nodes\"") != std::string_view::npos;
  if (one_document) {
    read_json_nodes(table, text);
  } else {
    read_rows(table, text);
  }
  return table.finish();
}

void keep_states(SlurmNodes& nodes, std::string_view states, std::string_view flag) {
  std::set<std::string_view> wanted;
  bool all = false;
  for (std::string_view word : split_outside_brackets(states)) {
    const std::string name = lower_case(word);
    all = all || name == "all";
    const auto* use = std::ranges::find_if(kUses, [&](const Use& u) { return u.word == name || u.longer == name; });
    require(all || use != std::end(kUses), ErrorKind::usage,
            "{}: \"{}\" is not a usable node state; expected idle, mix, alloc, comp, resv, plnd, npc or all", flag,
            word);
    if (!all) wanted.insert(use->word);
  }
  if (all) return;
  std::vector<Host> kept;
  for (Host& node : nodes.usable) {
    const std::string_view use = use_of(node.state);
    if (wanted.contains(use)) {
      kept.push_back(std::move(node));
    } else {
      node.state += fmt::format(" (use it with {} {})", flag, use);
      nodes.skipped.push_back(std::move(node));
    }
  }
  nodes.usable = std::move(kept);
}

std::vector<Host> slurm_job_hosts(const EnvironmentReader& environment) {
  const int components = component_count(environment);
  if (components <= 1) {
    const char* variable = environment("SLURM_JOB_NODELIST") ? "SLURM_JOB_NODELIST" : "SLURM_NODELIST";
    return component_hosts(environment, variable, "SLURM_TASKS_PER_NODE");
  }
  std::vector<Host> hosts;
  for (int i = 0; i < components; ++i) {
    for (Host& host : component(environment, i)) hosts.push_back(std::move(host));
  }
  return hosts;
}

void require_first_component(const EnvironmentReader& environment, const std::vector<Host>& hosts) {
  const int components = component_count(environment);
  if (components <= 1) return;
  std::vector<std::string> first, others;
  for (const Host& host : component(environment, 0)) first.push_back(host.name);
  for (const Host& host : hosts) {
    if (std::ranges::find(first, host.name) == first.end()) others.push_back(host.name);
  }
  require(others.empty(), ErrorKind::config,
          "the Slurm job has {} components, but ranks can start only in the first one ({}), not on {}; request all "
          "nodes in one component, or choose its hosts with --include {}; nothing was started",
          components, compress_hostlist(first), compress_hostlist(others), fmt::join(first, "@"));
}

}  // namespace trireme
