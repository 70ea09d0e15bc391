#include "cluster/hostfile.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <map>
#include <utility>

#include "base/count.h"
#include "base/error.h"
#include "base/file.h"
#include "base/text.h"
#include "cluster/hostlist.h"

namespace trireme {
namespace {

constexpr size_t kMaxBytes = size_t{64} << 20;

bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r'; }

std::string_view trim(std::string_view text) {
  while (!text.empty() && is_blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_blank(text.back())) text.remove_suffix(1);
  return text;
}

// Open MPI's synonyms of slots and max_slots.
constexpr std::string_view kCounts[] = {"slots", "count", "cpu"};
constexpr std::string_view kBounds[] = {"max_slots", "slots_max", "max_count", "count_max", "max_cpu", "cpu_max"};
constexpr const char* kPlacement =
    "trireme itself spreads the ranks over the cores; remove it (--launch.bind inherit disables that)";
const std::map<std::string_view, std::string> kRefused = {
    {"ifname", "all ranks use the same network; remove it and set --interface NAME or --interface 10.0.0.0/24"},
    {"binding", kPlacement},
    {"boards", kPlacement},
    {"sockets", kPlacement},
    {"sockets_per_board", kPlacement},
    {"cores", kPlacement},
    {"cores_per_socket", kPlacement},
    {"cpu_set", kPlacement}};

/// A line without its comment.
class LineParser {
 public:
  LineParser(std::string_view text, std::string origin) : text_(text), origin_(std::move(origin)) {}

  Host parse() {
    host_.origin = origin_;
    parse_name(word());
    for (text_ = trim(text_); !text_.empty(); text_ = trim(text_)) parse_setting();
    require(host_.max_slots == 0 || host_.slots <= host_.max_slots, ErrorKind::config,
            "{}: slots={} is above max_slots={}", origin_, host_.slots, host_.max_slots);
    return std::move(host_);
  }

 private:
  std::string_view word() {
    const size_t end = std::min(text_.find_first_of(" \t\r"), text_.size());
    const std::string_view first = text_.substr(0, end);
    text_.remove_prefix(end);
    return first;
  }

  void parse_name(std::string_view name) {
    std::string_view count;
    if (name.front() == '[') {  // [IPv6]:N
      const size_t close = name.find(']');
      require(close != std::string_view::npos && (close + 1 == name.size() || name[close + 1] == ':'),
              ErrorKind::config, "{}: expected [address] or [address]:N, found \"{}\"", origin_, name);
      if (close + 1 < name.size()) count = name.substr(close + 2);
      check_count(name, count, close + 1 < name.size());
      name = name.substr(1, close - 1);
    } else if (std::ranges::count(name, ':') == 1) {  // more than one: an IPv6 address
      const size_t colon = name.find(':');
      count = name.substr(colon + 1);
      check_count(name, count, true);
      name = name.substr(0, colon);
    }
    require_host_name(name, origin_);
    host_.name = name;
  }

  void check_count(std::string_view name, std::string_view digits, bool given) {
    if (!given) return;
    host_.slots = number(digits, name);
  }

  void parse_setting() {
    const size_t equals = text_.find('=');
    const std::string_view key = trim(text_.substr(0, equals));
    require(equals != std::string_view::npos && key.find_first_of(" \t") == std::string_view::npos, ErrorKind::config,
            "{}: \"{}\" after the host; expected slots=N or max_slots=M", origin_, trim(text_));
    text_ = trim(text_.substr(equals + 1));
    const std::string_view value = word();
    std::string folded(key);
    std::ranges::replace(folded, '-', '_');
    if (std::ranges::find(kCounts, folded) != std::end(kCounts)) {
      require(host_.slots == 0, ErrorKind::config, "{}: slots of \"{}\" appear twice", origin_, host_.name);
      host_.slots = number(value, key);
    } else if (std::ranges::find(kBounds, folded) != std::end(kBounds)) {
      require(host_.max_slots == 0, ErrorKind::config, "{}: max_slots of \"{}\" appears twice", origin_, host_.name);
      host_.max_slots = number(value, key);
    } else if (folded == "port") {
      host_.port = number(value, key);
      require(host_.port <= 65535, ErrorKind::config, "{}: port={} is above 65535", origin_, host_.port);
    } else if (folded == "user" || folded == "username" || folded == "user_name") {
      require(host_.name.find('@') == std::string::npos, ErrorKind::config,
              "{}: \"{}\" already has a user, found also {}={}", origin_, host_.name, key, value);
      host_.name = fmt::format("{}@{}", value, host_.name);
      require_host_name(host_.name, origin_);
    } else if (const auto refusal = kRefused.find(folded); refusal != kRefused.end()) {
      fail(ErrorKind::config, "{}: {}={} cannot be set per host: {}", origin_, key, value, refusal->second);
    } else {
      static const std::array<std::string, 2> kKnown = {"slots", "max_slots"};
      fail(ErrorKind::config, "{}: unknown \"{}\"; expected slots or max_slots, nearest is \"{}\"", origin_, key,
           nearest(key, kKnown));
    }
  }

  int number(std::string_view digits, std::string_view what) const {
    int value = 0;
    const char* end = digits.data() + digits.size();
    const auto [stop, error] = std::from_chars(digits.data(), end, value);
    require(!digits.empty() && stop == end && error == std::errc() && value >= 1 && value <= 1'000'000,
            ErrorKind::config, "{}: {}: expected a number from 1 to 1000000, found \"{}\"", origin_, what, digits);
    return value;
  }

  std::string_view text_;
  std::string origin_;
  Host host_;
};

/// Expands "h[1-2] slots=3" to one line per host; an IPv6 address begins with a bracket.
std::vector<std::string> expand_line(std::string_view line, const std::string& origin) {
  const size_t open = line.find('['), close = line.rfind(']');
  if (open == 0 || open == std::string_view::npos) return {std::string(line)};
  const size_t end = close == std::string_view::npos ? line.size() : close + 1;
  std::vector<std::string> lines;
  for (const std::string& name : expand_hostlist(line.substr(0, end), origin))
    lines.push_back(name + std::string(line.substr(end)));
  return lines;
}

/// place: of each host among `hosts`, by its key.
void add(std::vector<Host>& hosts, std::map<std::string, size_t>& place, Host host, Repeats repeats) {
  if (repeats == Repeats::are_slots) {
    host.slots = std::max(host.slots, 1);
    const auto [known, fresh] = place.emplace(host_key(host.name), hosts.size());
    if (!fresh) {
      hosts[known->second].slots += host.slots;
      return;
    }
  }
  hosts.push_back(std::move(host));
}

}  // namespace

std::vector<Host> parse_hostfile(std::string_view text, const std::string& source, Repeats repeats) {
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);
  std::vector<Host> hosts;
  std::map<std::string, size_t> place;
  int line = 0;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    std::string_view content = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    ++line;
    content = trim(content.substr(0, content.find('#')));
    if (content.empty()) continue;
    const std::string origin = fmt::format("{}:{}", source, line);
    for (const std::string& entry : expand_line(content, origin)) {
      add(hosts, place, LineParser(entry, origin).parse(), repeats);
    }
  }
  require(!hosts.empty(), ErrorKind::config, "{}: found no host in {}; write one host per line", source,
          count_text(line, "line"));
  require_unique(hosts);
  return hosts;
}

std::vector<Host> read_hostfile(const std::string& path, Repeats repeats) {
  std::error_code ignored;
  require(std::filesystem::exists(path, ignored), ErrorKind::config,
          "hostfile {} does not exist; nothing was started (a missing hostfile does not mean only this host)", path);
  return parse_hostfile(read_text(path, kMaxBytes), path, repeats);
}

HostfileForm hostfile_form(std::string_view name) {
  constexpr std::pair<std::string_view, HostfileForm> kForms[] = {{"list", HostfileForm::list},
                                                                  {"intel", HostfileForm::intel},
                                                                  {"openmpi", HostfileForm::open_mpi},
                                                                  {"deepspeed", HostfileForm::deepspeed},
                                                                  {"slurm", HostfileForm::slurm}};
  for (const auto& [known, form] : kForms) {
    if (name == known) return form;
  }
  fail(ErrorKind::usage, "unknown hostfile form \"{}\"; expected list, intel, openmpi, deepspeed or slurm", name);
}

std::string format_hostfile(std::span<const Host> hosts, HostfileForm form) {
  if (form == HostfileForm::slurm) {
    std::vector<std::string> names;
    for (const Host& host : hosts) names.push_back(host.name);
    return compress_hostlist(names) + "\n";
  }
  std::string text;
  for (const Host& host : hosts) {
    const int slots = std::max(host.slots, 1);
    switch (form) {
      case HostfileForm::list:
        text += fmt::format("{}\n", host.name);
        break;
      case HostfileForm::intel:
        text += host.name.find(':') == std::string::npos ? fmt::format("{}:{}\n", host.name, slots)
                                                         : fmt::format("[{}]:{}\n", host.name, slots);
        break;
      case HostfileForm::open_mpi:
        text += fmt::format("{} slots={}", host.name, slots);
        if (host.max_slots > 0) text += fmt::format(" max_slots={}", host.max_slots);
        if (host.port > 0) text += fmt::format(" port={}", host.port);
        text += '\n';
        break;
      default:
        text += fmt::format("{} slots={}\n", host.name, slots);
    }
  }
  return text;
}

}  // namespace trireme
