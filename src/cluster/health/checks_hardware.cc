// Processors, memory, swap, load and dmidecode's facts.

#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <set>
#include <sstream>

#include "base/count.h"
#include "base/error.h"
#include "base/text.h"
#include "cluster/health/check.h"
#include "cluster/health/match.h"

namespace trireme::health {

CpuCount count_cpus(const Machine& machine) {
  std::set<std::string> sockets;
  std::set<std::pair<std::string, std::string>> cores;
  std::string socket;
  CpuCount count;
  const std::string text = machine.read("/proc/cpuinfo").value_or("");
  for (std::string_view line : split_lines(text)) {
    const size_t colon = line.find(':');
    if (colon == std::string_view::npos) continue;
    const std::string_view key = trim_blanks(line.substr(0, colon)), value = trim_blanks(line.substr(colon + 1));
    if (key == "processor") ++count.threads;
    if (key == "physical id") sockets.insert(socket = value);
    if (key == "core id") cores.emplace(socket, value);
  }
  count.sockets = sockets.empty() ? 1 : sockets.size();
  count.cores = cores.empty() ? count.threads : cores.size();
  return count;
}

namespace {

Check make_cpuinfo(Words words) {
  require_words(words, 1, 3, "SOCKETS [CORES [THREADS]]");
  std::vector<double> wanted;  // negative: any
  for (const std::string& word : words) wanted.push_back(word.empty() ? -1 : parse_number(word, "count"));
  return [wanted](const Machine& machine) {
    const CpuCount count = count_cpus(machine);
    const std::pair<const char*, size_t> found[] = {
        {"socket", count.sockets}, {"core", count.cores}, {"thread", count.threads}};
    for (size_t i = 0; i < wanted.size(); ++i) {
      if (wanted[i] >= 0 && static_cast<double>(found[i].second) != wanted[i]) {
        return failed("{}, expected {:.0f}", count_text(found[i].second, found[i].first), wanted[i]);
      }
    }
    return passed();
  };
}

double meminfo_kb(const Machine& machine, std::string_view key) {
  const std::string text = machine.read("/proc/meminfo").value_or("");
  for (std::string_view line : split_lines(text)) {
    if (!line.starts_with(key) || line.size() <= key.size() || line[key.size()] != ':') continue;
    std::istringstream rest{std::string(line.substr(key.size() + 1))};
    double value = 0;
    if (rest >> value) return value;
  }
  return -1;
}

double sum_kb(const Machine& machine, const std::vector<std::string>& keys) {
  double total = 0;
  for (const std::string& key : keys) {
    const double value = meminfo_kb(machine, key);
    if (value < 0) return -1;
    total += value;
  }
  return total;
}

/// LEAST [MOST [FUDGE%]] for the sum of lines of /proc/meminfo.
template <size_t N>
Check make_memory(Words words, const char* what, const char* const (&keys)[N], bool range) {
  require_words(words, 1, range ? 3 : 1,
                range ? "LEAST [MOST [FUDGE%]], sizes such as 32GB" : "LEAST, a size such as 2GB");
  double least = parse_size_kb(words[0]), most = words.size() > 1 ? parse_size_kb(words[1]) : -1;
  if (words.size() > 2) {
    std::string fudge = words[2];
    if (fudge.ends_with('%')) {
      fudge.pop_back();
      const double share = parse_number(fudge, "fudge") / 100;
      least -= least * share;
      most += most * share;
    } else {
      const double kb = parse_size_kb(fudge);
      least -= kb;
      most += kb;
    }
  }
  const std::vector<std::string> lines(std::begin(keys), std::end(keys));
  return [=](const Machine& machine) {
    const double found = sum_kb(machine, lines);
    if (found < 0) return failed("/proc/meminfo does not show {}", lines[0]);
    if (found < least) return failed("{} is {:.0f} kB, below {:.0f} kB", what, found, least);
    if (most >= 0 && found > most) return failed("{} is {:.0f} kB, above {:.0f} kB", what, found, most);
    return passed();
  };
}

Check make_loadavg(Words words) {
  require_words(words, 1, 3, "MOST-1-MINUTE [MOST-5 [MOST-15]]");
  std::vector<double> most;
  for (const std::string& word : words) most.push_back(parse_number(word, "load"));
  return [most](const Machine& machine) {
    std::istringstream text(machine.read("/proc/loadavg").value_or(""));
    constexpr const char* kMinutes[] = {"1", "5", "15"};
    for (size_t i = 0; i < most.size(); ++i) {
      double load = 0;
      if (!(text >> load)) return failed("cannot read /proc/loadavg");
      if (load > most[i]) return failed("{}-minute load {:.2f}, above {}", kMinutes[i], load, most[i]);
    }
    return passed();
  };
}

/// dmidecode's text as "section: key: value" lines, which are compared with the match strings.
std::vector<std::string> dmi_lines(std::string_view text, const std::string& handle, const std::string& type) {
  std::vector<std::string> out;
  std::string section, key;
  bool wanted = true, of_type = true, title_next = false;
  for (std::string_view line : split_lines(text)) {
    if (line.starts_with("Handle ")) {
      wanted = handle.empty() || line.find("Handle " + handle + ",") != std::string_view::npos;
      of_type = type.empty() || line.find("DMI type " + type + ",") != std::string_view::npos;
      title_next = true;
    } else if (title_next) {
      section = line;
      wanted = wanted && (of_type || section == type);
      title_next = false;
    } else if (wanted && line.starts_with("\t\t")) {
      out.push_back(fmt::format("{}: {} {}", section, key, trim_blanks(line)));
    } else if (wanted && line.starts_with("\t")) {
      key = trim_blanks(line);
      out.push_back(fmt::format("{}: {}", section, key));
    }
  }
  return out;
}

/// [!] MATCH...: the words of one match string.
struct DmiMatch {
  bool none = false;  ///< no line may match
  std::string text;
  DmiMatch(Words words, bool none_told) : none(none_told) {
    if (!words.empty() && words[0] == "!") {
      none = true;
      words = words.subspan(1);
    }
    require(!words.empty(), ErrorKind::config, "expected a string to match");
    text = fmt::format("{}", fmt::join(words, " "));
    Match{text};  // parsed now, so that errors are reported for this line
  }
  template <class Lines>
  Outcome look(const Lines& lines) const {
    const Match match(text);
    const bool found = std::ranges::any_of(lines, [&](const auto& line) { return match.positive(line); });
    if (found == (match.negated() || none)) return failed("{} DMI line matches {}", found ? "a" : "no", text);
    return passed();
  }
};

/// [-!|-n] [-h HANDLE] [-t TYPE] MATCH: TYPE is a number or a section such as "Memory Device".
Check make_dmi(Words words) {
  const Options options(words, "!nh:t:");
  const DmiMatch match(options.positional, options.has('!') || options.has('n'));
  return [options, match](const Machine& machine) {
    const ProcessResult result = machine.command({"dmidecode"});
    if (result.exit_code != 0) return failed("dmidecode {}", describe_end(result));
    return match.look(dmi_lines(result.out, options.value('h'), options.value('t')));
  };
}

/// [!] MATCH: for the lines as dmidecode prints them.
Check make_raw_dmi(Words words) {
  return [match = DmiMatch(words, false)](const Machine& machine) {
    const ProcessResult result = machine.command({"dmidecode"});
    if (result.exit_code != 0) return failed("dmidecode {}", describe_end(result));
    return match.look(split_lines(std::string_view(result.out)));
  };
}

/// The variable as a number; NHC's default if it is not set.
double limit_of(const char* variable, double absent) {
  const char* const text = std::getenv(variable);
  return text == nullptr || *text == '\0' ? absent : parse_number(text, variable);
}

/// Memory errors that mcelog's daemon counted in the last 24 hours, of each DIMM.
Check make_mcelog(Words words) {
  require_words(words, 0, 0, "no argument");
  return [](const Machine& machine) {
    const ProcessResult result = machine.command({"/bin/sh", "-c", "${MCELOG:-mcelog} ${MCELOG_ARGS:---client}"});
    const std::string said = result.out + result.err;
    if (result.exit_code == 127) return not_checked("this node has no mcelog");
    if (said.find("Connection refused") != std::string::npos || result.exit_code != 0)
      return not_checked(fmt::format("mcelog's daemon does not answer: {}", said.substr(0, said.find('\n'))));
    std::string counted;
    size_t line_of_kind = 0, number = 0;
    for (std::string_view line : split_lines(std::string_view(said))) {
      ++number;
      const std::string_view content = trim_blanks(line);
      if (content == "corrected memory errors:" || content == "uncorrected memory errors:") {
        counted = content.substr(0, content.find(' '));
        line_of_kind = number;
      }
      if (counted.empty() || number != line_of_kind + 2) continue;  // "9 in 24h", after "325 total"
      const bool corrected = counted == "corrected";
      const double most =
          corrected ? limit_of("MCELOG_MAX_CORRECTED_RATE", 9) : limit_of("MCELOG_MAX_UNCORRECTED_RATE", 0);
      const int64_t found = std::atoll(std::string(content).c_str());
      if (static_cast<double>(found) > most)
        return failed("{} of a DIMM in 24 hours, above {}; have the DIMM replaced (mcelog --client names it)",
                      count_text(found, counted + " memory error"), most);
    }
    return passed();
  };
}

constexpr KnownCheck kChecks[] = {
    {"check_hw_cpuinfo", make_cpuinfo},
    {"check_hw_physmem", [](Words w) { return make_memory(w, "memory", {"MemTotal"}, true); }},
    {"check_hw_physmem_free", [](Words w) { return make_memory(w, "free memory", {"MemAvailable"}, false); }},
    {"check_hw_mcelog", make_mcelog},
    {"check_hw_swap", [](Words w) { return make_memory(w, "swap", {"SwapTotal"}, true); }},
    {"check_hw_swap_free", [](Words w) { return make_memory(w, "free swap", {"SwapFree"}, false); }},
    {"check_hw_mem",
     [](Words w) {
       return make_memory(w, "memory and swap", {"MemTotal", "SwapTotal"}, true);
     }},
    {"check_hw_mem_free",
     [](Words w) {
       return make_memory(w, "free memory and swap", {"MemAvailable", "SwapFree"}, false);
     }},
    {"check_ps_loadavg", make_loadavg},
    {"check_dmi_data_match", make_dmi},
    {"check_dmi_raw_data_match", make_raw_dmi},
};

}  // namespace

std::span<const KnownCheck> hardware_checks() { return kChecks; }

}  // namespace trireme::health
