// check_net_socket: sockets of this node, from the kernel's tables.

#include <arpa/inet.h>
#include <fmt/ranges.h>
#include <pwd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <filesystem>
#include <map>
#include <sstream>

#include "base/count.h"
#include "base/error.h"
#include "cluster/health/check.h"
#include "cluster/health/match.h"

namespace trireme::health {
namespace {

/// Each field in the forms of netstat and of ss, either of which NHC reads.
struct SocketEntry {
  std::vector<std::string> protocol, local, remote, state, type, user, daemon;
  std::string inode;
};

uint64_t hexadecimal(std::string_view text) {
  uint64_t value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value, 16);
  return value;
}

std::string user_name(unsigned uid) {
  const passwd* const known = getpwuid(uid);
  return known != nullptr ? known->pw_name : std::to_string(uid);
}

/// "0100007F:0016" as "127.0.0.1:22"; the address is words of the machine's byte order.
std::vector<std::string> endpoint(std::string_view text) {
  const size_t colon = text.find(':');
  if (colon == std::string_view::npos) return {};
  const std::string_view digits = text.substr(0, colon);
  std::array<uint32_t, 4> words{};
  for (size_t i = 0; i < std::min<size_t>(digits.size() / 8, 4); ++i)
    words[i] = static_cast<uint32_t>(hexadecimal(digits.substr(8 * i, 8)));
  const bool six = digits.size() > 8;
  std::array<char, INET6_ADDRSTRLEN> address{};
  inet_ntop(six ? AF_INET6 : AF_INET, words.data(), address.data(), address.size());
  const uint64_t port = hexadecimal(text.substr(colon + 1));
  const std::string shown = port == 0 ? "*" : std::to_string(port);
  std::vector<std::string> forms = {fmt::format("{}:{}", address.data(), shown)};
  if (six) forms.push_back(fmt::format("[{}]:{}", address.data(), shown));
  if (words == std::array<uint32_t, 4>{}) forms.push_back("*:" + shown);
  return forms;
}

constexpr const char* kStates[] = {"",          "ESTABLISHED", "SYN_SENT",   "SYN_RECV", "FIN_WAIT1", "FIN_WAIT2",
                                   "TIME_WAIT", "CLOSE",       "CLOSE_WAIT", "LAST_ACK", "LISTEN",    "CLOSING"};

void read_internet(const Machine& machine, const std::string& protocol, std::vector<SocketEntry>& sockets) {
  const std::string text = machine.read("/proc/net/" + protocol).value_or("");
  for (const std::string_view line : split_lines(std::string_view(text))) {
    std::istringstream fields{std::string(line)};
    std::string slot, local, remote, state, queues, timer, retransmits, uid, timeout;
    SocketEntry entry;
    if (!(fields >> slot >> local >> remote >> state >> queues >> timer >> retransmits >> uid >> timeout >>
          entry.inode))
      continue;
    if (!slot.ends_with(':')) continue;  // the head
    entry.protocol = {protocol};
    if (protocol.ends_with('6')) entry.protocol.push_back(protocol.substr(0, protocol.size() - 1));
    entry.local = endpoint(local);
    entry.remote = endpoint(remote);
    const uint64_t code = hexadecimal(state);
    const bool stateless = !protocol.starts_with("tcp") && code == 7;
    entry.state = {stateless ? "UNCONN" : code < std::size(kStates) ? kStates[code] : ""};
    entry.user = {user_name(static_cast<unsigned>(std::atol(uid.c_str()))), uid};
    sockets.push_back(std::move(entry));
  }
}

void read_unix(const Machine& machine, std::vector<SocketEntry>& sockets) {
  const std::string text = machine.read("/proc/net/unix").value_or("");
  for (const std::string_view line : split_lines(std::string_view(text))) {
    std::istringstream fields{std::string(line)};
    std::string number, references, protocol, flags, type, state, path;
    SocketEntry entry;
    if (!(fields >> number >> references >> protocol >> flags >> type >> state >> entry.inode)) continue;
    if (!number.ends_with(':')) continue;
    fields >> path;
    entry.protocol = {"unix"};
    entry.local = {path};
    const uint64_t kind = hexadecimal(type);
    entry.type = {kind == 1 ? "STREAM" : kind == 2 ? "DGRAM" : kind == 5 ? "SEQPACKET" : "UNKNOWN"};
    const bool listens = (hexadecimal(flags) & 0x10000) != 0;
    if (listens) entry.state = {"LISTENING", "LISTEN"};
    if (!listens && state == "03") entry.state = {"CONNECTED", "ESTABLISHED"};
    sockets.push_back(std::move(entry));
  }
}

/// The process that holds each socket, by inode.
void find_owners(const Machine& machine, std::vector<SocketEntry>& sockets) {
  std::multimap<std::string, SocketEntry*> by_inode;
  for (SocketEntry& entry : sockets) by_inode.emplace(entry.inode, &entry);
  for (const ProcessEntry& process : machine.processes()) {
    std::error_code error;
    for (const auto& file :
         std::filesystem::directory_iterator(fmt::format("{}/proc/{}/fd", machine.root, process.pid), error)) {
      const std::string target = std::filesystem::read_symlink(file.path(), error).string();
      if (!target.starts_with("socket:[")) continue;
      const auto [first, last] = by_inode.equal_range(target.substr(8, target.size() - 9));
      for (auto at = first; at != last; ++at) {
        std::string program = process.command_line.substr(0, process.command_line.find(' '));
        program = program.substr(program.rfind('/') + 1);
        while (program.ends_with(':')) program.pop_back();
        at->second->daemon.insert(at->second->daemon.end(), {process.name, program});
        if (at->second->user.empty()) at->second->user = {process.user, std::to_string(process.uid)};
      }
    }
  }
}

struct Field {
  char letter;
  const char* name;
  std::vector<std::string> SocketEntry::*forms;
};
constexpr Field kFields[] = {{'p', "protocol", &SocketEntry::protocol},
                             {'l', "local address", &SocketEntry::local},
                             {'r', "remote address", &SocketEntry::remote},
                             {'s', "state", &SocketEntry::state},
                             {'t', "type", &SocketEntry::type},
                             {'u', "user", &SocketEntry::user},
                             {'d', "daemon", &SocketEntry::daemon}};

/// [-!] [-0] [-a] [-n NAME] [-p PROTOCOL] [-s STATE] [-l ADDRESS:PORT] [-r ADDRESS:PORT] [-t TYPE] [-u USER] [-d
/// DAEMON]
/// [-e ACTION] [-E ACTION]: a socket that matches all of them exists; with -! none does. -0: a remark, not a failure;
/// -e runs where none exists, -E where one does.
class SocketCheck {
 public:
  explicit SocketCheck(Words words) : options_(words, "!0ad:l:n:p:r:s:t:u:e:E:") {
    require(options_.positional.empty(), ErrorKind::config, "\"{}\" is unexpected",
            fmt::join(options_.positional, " "));
    for (const Field& field : kFields) {
      if (!options_.has(field.letter)) continue;
      wanted_.emplace_back(&field, Match(options_.value(field.letter)));
      text_ += fmt::format("{}{} {}", text_.empty() ? "" : ", ", field.name, options_.value(field.letter));
    }
    require(!wanted_.empty(), ErrorKind::config,
            "expected at least one of -p PROTOCOL, -l or -r ADDRESS:PORT, -s STATE, -t TYPE, -u USER, -d DAEMON");
  }

  Outcome operator()(const Machine& machine) const {
    std::vector<SocketEntry> sockets;
    for (const char* protocol : {"tcp", "tcp6", "udp", "udp6", "raw", "raw6"})
      read_internet(machine, protocol, sockets);
    read_unix(machine, sockets);
    if (sockets.empty()) return not_checked("the kernel lists no sockets (/proc/net)");
    find_owners(machine, sockets);
    const auto found = std::ranges::count_if(sockets, [&](const SocketEntry& entry) { return fits(entry); });
    const char letter = found == 0 ? 'e' : 'E';
    if (options_.has(letter) && machine.repair) machine.command({"/bin/sh", "-c", options_.value(letter)});
    if ((found > 0) != options_.has('!')) return passed();
    const std::string name = options_.has('n') ? options_.value('n') + " socket" : "socket";
    const std::string text = found == 0 ? fmt::format("no {} with {}", name, text_)
                                        : fmt::format("{} with {}, expected none", count_text(found, name), text_);
    return options_.has('0') ? passed(text) : failed("{}", text);
  }

 private:
  bool fits(const SocketEntry& entry) const {
    return std::ranges::all_of(wanted_, [&](const auto& wanted) {
      const auto& [field, match] = wanted;
      const auto& forms = entry.*field->forms;
      const bool any = std::ranges::any_of(forms, [&](const std::string& form) { return match.positive(form); });
      return any != match.negated();
    });
  }

  Options options_;
  std::vector<std::pair<const Field*, Match>> wanted_;
  std::string text_;
};

constexpr KnownCheck kChecks[] = {{"check_net_socket", [](Words w) -> Check { return SocketCheck(w); }}};

}  // namespace

std::span<const KnownCheck> socket_checks() { return kChecks; }

}  // namespace trireme::health
