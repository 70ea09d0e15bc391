#include "cluster/health/check.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>

#include "base/error.h"
#include "base/text.h"

namespace trireme::health {
namespace {

// Checks of NHC and of the Azure set without a native form: they need programs or hardware that Trireme does not use.
constexpr KnownCheck kWithoutNativeForm[] = {
    {"check_gpfs_health", nullptr},
    {"check_group_member", nullptr},
    {"check_hw_gm", nullptr},
    {"check_moab_queues", nullptr},
    {"check_net_link", nullptr},
    {"check_nrpe_cmd", nullptr},
    {"check_nvgpu_smi", nullptr, true},
    {"check_nvmsi_number", nullptr, true},
    {"check_ps_cpu", nullptr},
    {"check_ps_kswapd", nullptr},
    {"check_ps_mem", nullptr},
    {"check_ps_physmem", nullptr},
    {"check_ps_time", nullptr},
    {"check_ps_userproc_lineage", nullptr},
    {"check_rccl_allreduce", nullptr, true},
    {"check_reboot_slurm", nullptr},
    {"check_slabinfo_active_objs", nullptr},
    {"check_slabinfo_active_slabs", nullptr},
    {"check_slabinfo_num_objs", nullptr},
    {"check_slabinfo_num_slabs", nullptr},
};

std::vector<KnownCheck> collect() {
  std::vector<KnownCheck> all(std::begin(kWithoutNativeForm), std::end(kWithoutNativeForm));
  for (const auto part : {filesystem_checks(), hardware_checks(), network_checks(), process_checks(), command_checks(),
                          gpu_checks(), gpu_speed_checks(), socket_checks(), topology_checks(), cluster_checks()}) {
    all.insert(all.end(), part.begin(), part.end());
  }
  std::ranges::sort(all, {}, &KnownCheck::name);
  return all;
}

}  // namespace

std::span<const KnownCheck> known_checks() {
  static const std::vector<KnownCheck> all = collect();
  return all;
}

Options::Options(Words words, std::string_view spec) {
  size_t at = 0;
  for (; at < words.size() && words[at].size() > 1 && words[at][0] == '-'; ++at) {
    const std::string& word = words[at];
    if (word == "--") {
      ++at;
      break;
    }
    for (size_t i = 1; i < word.size(); ++i) {
      const size_t known = word[i] == ':' ? std::string_view::npos : spec.find(word[i]);
      require(known != std::string_view::npos, ErrorKind::config, "unknown option -{}", word[i]);
      std::string value;
      const bool takes_value = known + 1 < spec.size() && spec[known + 1] == ':';
      if (takes_value) {
        value = word.substr(i + 1);
        if (value.empty()) {
          require(at + 1 < words.size(), ErrorKind::config, "option -{} needs a value", word[i]);
          value = words[++at];
        }
      }
      values[word[i]].push_back(value);
      if (takes_value) break;
    }
  }
  positional.assign(words.begin() + static_cast<std::ptrdiff_t>(at), words.end());
}

std::string Options::value(char option, const std::string& absent) const {
  const auto found = values.find(option);
  return found == values.end() ? absent : found->second.back();
}

std::vector<std::string> Options::all(char option) const {
  const auto found = values.find(option);
  return found == values.end() ? std::vector<std::string>() : found->second;
}

double parse_number(const std::string& text, std::string_view what) {
  double value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  require(!text.empty() && stop == end && error == std::errc() && value == value && value < 1e300 && value > -1e300,
          ErrorKind::config, "{}: expected a number, found \"{}\"", what, text);
  return value;
}

double parse_amount(const std::string& text, std::string_view what) {
  const double value = parse_number(text, what);
  require(value >= 0, ErrorKind::config, "{}: expected 0 or more, found \"{}\"", what, text);
  return value;
}

int parse_count(const std::string& text, std::string_view what, int least, int most) {
  const double value = parse_number(text, what);
  require(value == std::floor(value) && value >= least && value <= most, ErrorKind::config,
          "{}: expected a whole number from {} to {}, found \"{}\"", what, least, most, text);
  return static_cast<int>(value);
}

double parse_size_kb(const std::string& text) {
  size_t digits = 0;
  while (digits < text.size() && (std::isdigit(static_cast<unsigned char>(text[digits])) != 0 || text[digits] == '.')) {
    ++digits;
  }
  std::string unit = lower_case(text.substr(digits));
  if (unit.size() > 1 && unit.ends_with('b')) unit.pop_back();
  if (unit.size() > 1 && unit.ends_with('i')) unit.pop_back();
  double factor = 1.0 / 1024;
  if (unit != "b") {
    const size_t step = unit.empty() ? 0 : std::string_view("kmgtpe").find(unit);
    require(digits > 0 && step != std::string_view::npos && unit.size() <= 1, ErrorKind::config,
            "expected a size such as 32GB or 1024kB, found \"{}\"", text);
    factor = 1;
    for (size_t i = 0; i < step; ++i) factor *= 1024;
  }
  return parse_number(text.substr(0, digits), "size") * factor;
}

void require_words(Words words, size_t least, size_t most, std::string_view usage) {
  require(words.size() >= least && words.size() <= most, ErrorKind::config, "expected {}", usage);
}

std::vector<std::string_view> split_lines(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    if (line.ends_with('\r')) line.remove_suffix(1);
    lines.push_back(line);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

}  // namespace trireme::health
