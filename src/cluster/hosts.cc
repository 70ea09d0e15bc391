#include "cluster/hosts.h"

#include <arpa/inet.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <optional>
#include <set>

#include "base/count.h"
#include "base/error.h"
#include "base/text.h"
#include "cluster/hostlist.h"

namespace trireme {
namespace {

std::optional<int> to_count(std::string_view digits) {
  int value = 0;
  const char* end = digits.data() + digits.size();
  const auto [stop, error] = std::from_chars(digits.data(), end, value);
  if (digits.empty() || stop != end || error != std::errc() || value < 0 || value > 1'000'000) return std::nullopt;
  return value;
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(separator, begin), text.size());
    if (end > begin) parts.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

/// What a filter selects of a host.
struct Selection {
  bool whole = false;
  std::set<int> slots;
};
using Selections = std::map<std::string, Selection, std::less<>>;  // by Host::name

[[noreturn]] void refuse_unknown(std::string_view name, std::string_view flag, std::span<const Host> hosts) {
  std::vector<std::string> known;
  for (const Host& host : hosts) known.push_back(host.name);
  fail(ErrorKind::config, "{}: host \"{}\" is not among the {}; nearest is \"{}\"", flag, name,
       count_text(hosts.size(), "host"), nearest(name, known));
}

Selections parse_filter(std::string_view text, std::string_view flag, std::span<const Host> hosts) {
  std::map<std::string, const Host*> by_key;
  for (const Host& host : hosts) by_key.emplace(host_key(host.name), &host);
  Selections selections;
  for (std::string_view part : split(text, '@')) {
    const size_t colon = part.find(':');
    for (const std::string& name : expand_hostlist(part.substr(0, colon), flag)) {
      const auto found = by_key.find(host_key(name));
      if (found == by_key.end()) refuse_unknown(name, flag, hosts);
      const Host* host = found->second;
      Selection& selection = selections[host->name];
      selection.whole = selection.whole || colon == std::string_view::npos;
      if (colon != std::string_view::npos) {
        for (std::string_view digits : split(part.substr(colon + 1), ',')) {
          const auto slot = to_count(digits);
          require(slot.has_value(), ErrorKind::config, "{}: slot \"{}\" of host \"{}\" is not a number", flag, digits,
                  name);
          require(*slot < std::max(host->slots, 1), ErrorKind::config,
                  "{}: host \"{}\" has no slot {}; it has slots 0 to {} ({})", flag, name, *slot,
                  std::max(host->slots, 1) - 1, host->origin);
          selection.slots.insert(*slot);
        }
        require(!selection.slots.empty(), ErrorKind::config, "{}: the slots after \"{}:\" are missing", flag, name);
      }
    }
  }
  return selections;
}

std::vector<Host> keep(std::vector<Host> hosts, const Selections& selections) {
  std::vector<Host> kept;
  for (Host& host : hosts) {
    const auto found = selections.find(host.name);
    if (found == selections.end()) continue;
    if (!found->second.whole) host.slots = static_cast<int>(found->second.slots.size());
    kept.push_back(std::move(host));
  }
  return kept;
}

std::vector<Host> drop(std::vector<Host> hosts, const Selections& selections) {
  std::erase_if(hosts, [&](Host& host) {
    const auto found = selections.find(host.name);
    if (found == selections.end()) return false;
    const int left = std::max(host.slots, 1) - static_cast<int>(found->second.slots.size());
    if (found->second.whole || left <= 0) return true;
    host.slots = left;
    return false;
  });
  return hosts;
}

}  // namespace

std::string host_key(std::string_view name) {
  name = name.substr(name.find('@') + 1);  // npos + 1 is 0
  const size_t scope = std::min(name.find('%'), name.size());
  in6_addr address{};
  std::array<char, INET6_ADDRSTRLEN> text{};
  if (inet_pton(AF_INET6, std::string(name.substr(0, scope)).c_str(), &address) == 1) {
    return inet_ntop(AF_INET6, &address, text.data(), text.size()) + std::string(name.substr(scope));
  }
  if (name.ends_with('.')) name.remove_suffix(1);
  return lower_case(name);
}

void require_unique(std::span<const Host> hosts) {
  std::map<std::string, const Host*> seen;
  for (const Host& host : hosts) {
    const auto [first, fresh] = seen.emplace(host_key(host.name), &host);
    const std::string other =
        !fresh && first->second->name != host.name ? fmt::format(" as \"{}\"", first->second->name) : "";
    require(fresh, ErrorKind::config,
            "{}: host \"{}\" is listed again, first in {}{}; list it once with the sum of its slots", host.origin,
            host.name, first->second->origin, other);
  }
}

void require_host_name(std::string_view name, std::string_view origin) {
  constexpr std::string_view kAllowed = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-:%";
  const size_t at = name.find('@');
  const std::string_view user = at == std::string_view::npos ? "" : name.substr(0, at);
  const std::string_view host = name.substr(at + 1);  // npos + 1 is 0
  // ssh and mpirun read other texts as options ("-o...") or as the name of a file ("@...").
  const bool is_name = !host.empty() && host.find_first_not_of(kAllowed) == std::string_view::npos &&
                       host.find_first_of("-.%") != 0 && (at == std::string_view::npos || !user.empty()) &&
                       user.find_first_not_of(kAllowed) == std::string_view::npos && !user.starts_with('-');
  require(is_name, ErrorKind::config,
          "{}: \"{}\" is not a host name; expected host, host:N, or host slots=N [max_slots=M]", origin, name);
  if (name.find(':') == std::string_view::npos) return;
  in6_addr ignored{};
  require(inet_pton(AF_INET6, std::string(host.substr(0, host.find('%'))).c_str(), &ignored) == 1, ErrorKind::config,
          "{}: \"{}\" has more than one \":\" but is not an IPv6 address; expected host:N or [address]:N", origin,
          name);
}

std::vector<Host> parse_host_argument(std::string_view text) {
  constexpr std::string_view kFlag = "--hosts";
  std::vector<Host> hosts;
  for (std::string_view part : split_outside_brackets(text)) {
    if (part.front() == '[' && part.find(':') < part.find(']')) {  // an IPv6 address
      const size_t close = part.find(']');
      Host host{std::string(part.substr(1, close - 1)), 0, 0, std::string(kFlag), ""};
      require_host_name(host.name, kFlag);
      if (close + 1 < part.size()) {
        const auto slots = to_count(part.substr(std::min(close + 2, part.size())));
        require(part[close + 1] == ':' && slots && *slots > 0, ErrorKind::config,
                "{}: expected [address]:slots, found \"{}\"", kFlag, part);
        host.slots = *slots;
      }
      hosts.push_back(std::move(host));
      continue;
    }
    int slots = 0;
    const bool address = part.find('[') == std::string_view::npos && std::ranges::count(part, ':') > 1;
    const size_t colon = address ? std::string_view::npos : part.find(':');
    if (colon != std::string_view::npos) {
      const auto count = to_count(part.substr(colon + 1));
      require(count && *count > 0, ErrorKind::config,
              "{}: expected host or host:slots with at least 1 slot, found \"{}\"", kFlag, part);
      slots = *count;
    }
    for (std::string& name : expand_hostlist(part.substr(0, colon), kFlag)) {
      require_host_name(name, kFlag);
      hosts.push_back({std::move(name), slots, 0, std::string(kFlag), ""});
    }
  }
  require(!hosts.empty(), ErrorKind::config, "{}: found no host in \"{}\"", kFlag, text);
  require_unique(hosts);
  return hosts;
}

std::vector<Host> filter_hosts(std::vector<Host> hosts, std::string_view include, std::string_view exclude) {
  require(include.empty() || exclude.empty(), ErrorKind::config,
          "--include and --exclude exclude each other; keep one");
  if (include.empty() && exclude.empty()) return hosts;
  const std::string_view flag = include.empty() ? "--exclude" : "--include";
  const Selections selections = parse_filter(include.empty() ? exclude : include, flag, hosts);
  hosts = include.empty() ? drop(std::move(hosts), selections) : keep(std::move(hosts), selections);
  require(!hosts.empty(), ErrorKind::config, "{}: no host is left", flag);
  return hosts;
}

std::vector<Placement> place(std::span<const Host> hosts, PlacementRequest request) {
  std::vector<Placement> placement;
  constexpr int64_t kMostProcesses = 1 << 24;
  int64_t capacity = 0;
  int left = request.processes;
  for (const Host& host : hosts) {
    const int bound = host.slots > 0 ? host.slots : host.max_slots;
    const bool by_gpus = request.per_host == 0 && request.processes == 0 && request.gpus > 0;
    const int each = by_gpus ? request.gpus : request.per_host;
    require(each == 0 || bound == 0 || each <= bound, ErrorKind::config,
            "{} {}: host \"{}\" has {} ({}); lower {} or raise its slots", by_gpus ? "--gpus-per-node" : "--ppn", each,
            host.name, count_text(bound, "slot"), host.origin, by_gpus ? "--gpus-per-node, set --ppn" : "--ppn");
    // max_slots alone gives no processes: it is used only if more processes are requested.
    const int most = bound > 0 ? bound : std::max(request.gpus, 1);
    const int offered = host.slots > 0 ? host.slots : request.processes > 0 ? most : 1;
    const int room = each > 0 ? each : offered;
    capacity += room;
    require(capacity <= kMostProcesses, ErrorKind::config,
            "the hosts up to \"{}\" hold {}, but at most {} can be started; lower --ppn or the hosts' slots", host.name,
            count_text(capacity, "process"), kMostProcesses);
    const int here = request.processes > 0 ? std::min(room, left) : room;
    left -= here;
    if (here > 0) placement.push_back({host.name, here});
  }
  require(capacity >= request.processes, ErrorKind::config,
          "--np {}: at most {} on {}; add hosts, raise their slots or set --ppn", request.processes,
          count_text(capacity, "process"), count_text(hosts.size(), "host"));
  return placement;
}

bool offer_ranks(std::vector<Host>& hosts, std::span<const int> counts, PlacementRequest request) {
  if (request.processes > 0 || request.per_host > 0 || request.gpus > 0) return false;
  bool more = false;
  for (size_t i = 0; i < hosts.size(); ++i) {
    Host& host = hosts[i];
    if (host.slots > 0 || counts[i] < 2) continue;
    host.slots = host.max_slots > 0 ? std::min(counts[i], host.max_slots) : counts[i];
    more = more || host.slots > 1;
  }
  return more;
}

int total_processes(std::span<const Placement> placement) {
  int total = 0;
  for (const Placement& entry : placement) total += entry.processes;
  return total;
}

}  // namespace trireme
