// Network interfaces, InfiniBand ports, link flaps and reachability.

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>
#include <sstream>

#include "base/count.h"
#include "base/error.h"
#include "base/text.h"
#include "cluster/health/check.h"
#include "cluster/health/gpu_condition.h"

namespace trireme::health {
namespace {

Check make_eth(Words words) {
  require_words(words, 1, 1, "DEVICE");
  return [device = words[0]](const Machine& machine) {
    if (!machine.exists("/sys/class/net/" + device)) return failed("no network interface {}", device);
    return passed();
  };
}

struct IbPort {
  std::string name;  ///< device:port
  std::string state, physical, rate;
  std::string layer;  ///< "InfiniBand", "Ethernet"; empty: the driver does not say
  double gbit = 0;
};

std::vector<IbPort> ib_ports(const Machine& machine) {
  std::vector<IbPort> ports;
  const std::string folder = "/sys/class/infiniband";
  for (const std::string& device : machine.list(folder)) {
    for (const std::string& number : machine.list(folder + "/" + device + "/ports")) {
      const std::string path = folder + "/" + device + "/ports/" + number + "/";
      const auto value = [&](const char* file) {
        const std::string text = machine.read(path + file).value_or("");
        return std::string(trim_blanks(text.substr(0, text.find('\n'))));
      };
      IbPort port{device + ":" + number, value("state"), value("phys_state"), value("rate"), value("link_layer")};
      std::istringstream(port.rate) >> port.gbit;
      ports.push_back(std::move(port));
    }
  }
  return ports;
}

/// [RATE [DEVICE[:PORT]]]: a port is up, with exactly this rate if one is given ("": any).
Check make_ib(Words words) {
  require_words(words, 0, 2, "[RATE [DEVICE[:PORT]]]");
  const bool any_rate = words.empty() || words[0].empty();
  const double rate = any_rate ? 0 : parse_number(words[0], "rate in Gb/s");
  const std::string wanted = words.size() > 1 ? words[1] : "";
  return [=](const Machine& machine) {
    std::string reason =
        wanted.empty() ? "found no InfiniBand port" : fmt::format("found no InfiniBand port {}", wanted);
    for (const IbPort& port : ib_ports(machine)) {
      const bool named = wanted.empty() || port.name == wanted || port.name.substr(0, port.name.find(':')) == wanted;
      if (!named) continue;
      const bool up = port.state.ends_with("ACTIVE") && port.physical.ends_with("LinkUp");
      if (up && (any_rate || port.gbit == rate)) return passed();
      reason = up ? fmt::format("InfiniBand port {} runs at {}, expected {} Gb/s", port.name, port.rate, rate)
                  : fmt::format("InfiniBand port {} is {} and {}, expected ACTIVE and LinkUp", port.name, port.state,
                                port.physical);
    }
    return Outcome{Outcome::Kind::fail, reason};
  };
}

/// Seconds since the epoch of a syslog line; 0 if it has no time. "Aug 17 06:18:01" has no year: takes the latest one
/// that is not in the future.
std::time_t line_time(const std::string& line, std::time_t now) {
  std::tm fields{};
  if (strptime(line.c_str(), "%Y-%m-%dT%H:%M:%S", &fields) != nullptr) {
    fields.tm_isdst = -1;
    return std::mktime(&fields);
  }
  std::tm today{};
  localtime_r(&now, &today);
  fields = {};
  if (strptime(line.c_str(), "%b %d %H:%M:%S", &fields) == nullptr) return 0;
  fields.tm_year = today.tm_year;
  fields.tm_isdst = -1;
  std::tm copy = fields;
  std::time_t time = std::mktime(&copy);
  if (time > now + 86400) {
    --fields.tm_year;
    time = std::mktime(&fields);
  }
  return time;
}

/// "ib6" for a line that reports that ib6 lost its carrier; otherwise empty.
std::string flapped_device(const std::string& line) {
  const std::string lower = lower_case(line);
  const size_t at = lower.find(": lost carrier");
  if (at == std::string::npos) return "";
  const size_t begin = lower.find_last_of(" \t", at) + 1;
  const std::string device = lower.substr(begin, at - begin);
  return device.starts_with("ib") ? device : "";
}

/// [HOURS [FLAPS]]: fewer than FLAPS (2) lost carriers of an InfiniBand link within the last HOURS (6).
Check make_flapping(Words words) {
  require_words(words, 0, 2, "[HOURS [FLAPS]]");
  const double hours = words.empty() ? 6 : parse_number(words[0], "hours");
  const double most = words.size() > 1 ? parse_number(words[1], "flaps") : 2;
  require(hours > 0 && most >= 1, ErrorKind::config, "expected hours above 0 and at least 1 flap");
  return [=](const Machine& machine) {
    auto text = machine.read("/var/log/syslog");
    if (!text) text = machine.read("/var/log/messages");
    if (!text) {
      const ProcessResult journal =
          machine.command({"journalctl", "--no-pager", "-o", "short-iso", "--since", fmt::format("-{}h", hours)});
      if (journal.exit_code != 0) return failed("cannot read a system log: neither /var/log/syslog nor the journal");
      text = journal.out;
    }
    const std::time_t now = machine.now();
    std::map<std::string, int> flaps;
    for (std::string_view view : split_lines(*text)) {
      const std::string line(view), device = flapped_device(line);
      if (device.empty()) continue;
      const std::time_t time = line_time(line, now);
      if (time != 0 && static_cast<double>(now - time) <= hours * 3600) ++flaps[device];
    }
    for (const auto& [device, count] : flaps) {
      if (count >= most) return failed("{} lost its carrier {} within {} h", device, count_text(count, "time"), hours);
    }
    return passed();
  };
}

/// Options are those of ping.
Check make_ping(Words words) {
  const Options options(words, "I:W:c:i:s:t:w:");
  require_words(options.positional, 1, 16, "[-c COUNT] [-W SECONDS] [-I, -i, -s, -t or -w of ping] HOST...");
  std::vector<std::string> command = {"ping", "-q", "-c", options.value('c', "1"), "-W", options.value('W', "5")};
  for (const char letter : {'I', 'i', 's', 't', 'w'}) {
    if (options.has(letter)) command.insert(command.end(), {std::string{'-', letter}, options.value(letter)});
  }
  return [command, hosts = options.positional](const Machine& machine) {
    for (const std::string& host : hosts) {
      std::vector<std::string> words_to_host = command;
      words_to_host.push_back(host);
      const ProcessResult result = machine.command(words_to_host);
      if (result.exit_code == 127) {
        return not_checked(fmt::format(
            "cannot check whether {} answers ping: this node has no program ping; install iputils-ping", host));
      }
      if (result.exit_code != 0) return failed("{} does not answer ping ({})", host, describe_end(result));
    }
    return passed();
  };
}

/// The average of ib_write_bw's table in Gb/s; negative if there is none.
double write_bandwidth(std::string_view text) {
  double average = -1;
  for (std::string_view line : split_lines(text)) {
    std::istringstream fields{std::string(line)};
    double bytes = 0, iterations = 0, peak = 0, mean = 0;
    if (fields >> bytes >> iterations >> peak >> mean) average = mean;
  }
  return average;
}

/// RDMA writes from every InfiniBand port to itself. gpus: from the memory of the GPU with the port's number.
Check loopback_check(double least, const std::string& bytes, bool gpus) {
  return [=](const Machine& machine) {
    if (gpus && has_only_amd(machine)) return not_checked("this node has no GPU of NVIDIA's");
    std::vector<IbPort> ports = ib_ports(machine);
    std::erase_if(ports, [](const IbPort& port) { return !port.layer.empty() && port.layer != "InfiniBand"; });
    if (ports.empty()) return failed("found no InfiniBand port");
    const char* const root = std::getenv("AZ_NHC_ROOT");
    const std::string own = (root == nullptr ? "" : root) + std::string("/bin/ib_write_bw");
    const std::string program = root != nullptr && machine.exists(own) ? own : "ib_write_bw";
    for (size_t i = 0; i < ports.size(); ++i) {
      const IbPort& port = ports[i];
      const size_t colon = port.name.find(':');
      const std::string common = fmt::format("{} -d {} -i {} -s {} -D 5 -F --report_gbits{}", shell_quote(program),
                                             shell_quote(port.name.substr(0, colon)), port.name.substr(colon + 1),
                                             bytes, gpus ? fmt::format(" --use_cuda={}", i) : "");
      const ProcessResult result = machine.command(
          {"/bin/sh", "-c", common + " >/dev/null & sleep 1; " + common + " localhost; code=$?; wait; exit $code"}, 30);
      if (result.exit_code == 127) return not_checked("this node has no ib_write_bw; install perftest");
      if (gpus && result.err.find("use_cuda") != std::string::npos)
        return not_checked("this node's ib_write_bw was built without CUDA");
      const double found = write_bandwidth(result.out);
      if (result.exit_code != 0 || found < 0) {
        return failed("ib_write_bw on {} {}: {}", port.name, describe_end(result),
                      result.err.substr(0, result.err.find('\n')));
      }
      if (found < least) {
        return failed("{} writes {:.1f} Gb/s to itself{}, below {}; check_hw_ib and check_ib_link_flapping may say why",
                      port.name, found, gpus ? fmt::format(" from GPU {}", i) : "", least);
      }
    }
    return passed();
  };
}

/// LEAST-GBIT [BYTES]: without a GPU.
Check make_ib_loopback(Words words) {
  require_words(words, 1, 2, "LEAST-GBIT [BYTES]");
  const std::string bytes = words.size() > 1 ? words[1] : "1048576";
  parse_number(bytes, "bytes");
  return loopback_check(parse_amount(words[0], "Gb/s"), bytes, false);
}

/// LEAST-GBIT [NODE-TYPE]: from GPUs' memory. The type is that of older files; the ports are those of this node.
Check make_ib_gdr(Words words) {
  require_words(words, 1, 2, "LEAST-GBIT [NODE-TYPE]");
  return loopback_check(parse_amount(words[0], "Gb/s"), "8388608", true);
}

constexpr KnownCheck kChecks[] = {
    {"check_hw_eth", make_eth},
    {"check_hw_ib", make_ib},
    {"check_ib_link_flapping", make_flapping},
    {"check_ib_bw_gdr", make_ib_gdr, true, true},
    {"check_ib_bw_loop_gdr", make_ib_gdr, true, true},
    {"check_ib_bw_non_gdr", make_ib_loopback, false, true},
    {"check_net_ping", make_ping},
};

}  // namespace

std::span<const KnownCheck> network_checks() { return kChecks; }

}  // namespace trireme::health
