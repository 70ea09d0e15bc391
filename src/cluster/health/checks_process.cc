// Services and processes.

#include <fmt/ranges.h>
#include <pwd.h>

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <set>
#include <sstream>

#include "base/error.h"
#include "cluster/health/check.h"
#include "cluster/health/match.h"

namespace trireme::health {
namespace {

/// The command's name up to a blank or ':' ("sshd:" of "sshd: /usr/sbin/sshd -D"), without its folder.
std::string program_name(const std::string& command_line) {
  std::string word = command_line.substr(0, command_line.find(' '));
  word = word.substr(word.rfind('/') + 1);
  while (word.ends_with(':')) word.pop_back();
  return word;
}

struct Wanted {
  std::string daemon;  ///< program name; if it has a blank or a folder: part of the command line
  std::string user;    ///< a match string or a user number; empty: any
  std::string match;   ///< for the whole command line; empty: compare the name
};

/// "0" as "root".
std::string name_of_user(const std::string& user) {
  if (user.empty() || user.size() > 9 || user.find_first_not_of("0123456789") != std::string::npos) return user;
  const passwd* known = getpwuid(static_cast<uid_t>(std::stoul(user)));
  return known != nullptr ? known->pw_name : user;
}

bool runs_daemon(const ProcessEntry& process, const std::string& daemon) {
  if (process.name == daemon || program_name(process.command_line) == daemon) return true;
  return daemon.find_first_of(" /") != std::string::npos && process.command_line.find(daemon) != std::string::npos;
}

const ProcessEntry* find_process(const std::vector<ProcessEntry>& processes, const Wanted& wanted) {
  const std::string user = name_of_user(wanted.user);
  const auto fits = [&](const ProcessEntry& process) {
    if (!user.empty() && !Match(user)(process.user)) return false;
    if (!wanted.match.empty()) {
      return Match(wanted.match)(process.command_line) || Match(wanted.match)(program_name(process.command_line)) ||
             process.command_line.starts_with(wanted.match);
    }
    return runs_daemon(process, wanted.daemon);
  };
  const auto found = std::ranges::find_if(processes, fits);
  return found == processes.end() ? nullptr : &*found;
}

std::string join(Words words) { return fmt::format("{}", fmt::join(words, " ")); }

/// [-0] [-d DAEMON] [-u USER] [-m MATCH] [-e ACTION] [-S|-r|-c|-s|-k|-E ACTION] SERVICE. -S starts, -r restarts, -c
/// stops and starts a service that does not run; -s stops and -k kills one that must not run, and -E runs ACTION in
/// that case. -0 turns a failure into a remark. -f, -v and -V have no effect: the whole command line is always
/// compared, and repairs are always checked.
class ServiceCheck {
 public:
  explicit ServiceCheck(Words words) {
    const Options options(words, "0fvVSrcskd:u:m:e:E:");
    require(!options.positional.empty(), ErrorKind::config,
            "expected [-0] [-d DAEMON] [-u USER] [-m MATCH] [-e ACTION] [-S|-r|-c|-s|-k|-E ACTION] SERVICE");
    service_ = join(options.positional);
    wanted_ = {options.value('d', service_), options.value('u'), options.value('m')};
    for (const std::string* text : {&wanted_.match, &wanted_.user}) {
      if (!text->empty()) Match{*text};
    }
    fatal_ = !options.has('0');
    must_run_ = !options.has('s') && !options.has('k') && !options.has('E');
    const std::string quoted = shell_quote(service_);
    if (options.has('e') || options.has('E')) {
      action_ = options.value(options.has('e') ? 'e' : 'E');
    } else if (options.has('S')) {
      action_ = "service " + quoted + " start";
    } else if (options.has('r')) {
      action_ = "service " + quoted + " restart";
    } else if (options.has('c')) {
      action_ = "service " + quoted + " stop; service " + quoted + " start";
    } else if (options.has('s')) {
      action_ = "service " + quoted + " stop";
    } else if (options.has('k')) {
      action_ = "pkill -x " + shell_quote(wanted_.daemon);
    }
  }

  Outcome operator()(const Machine& machine) const {
    if (runs(machine) == must_run_) return passed();
    if (action_.empty() || !machine.repair) return problem("");
    const ProcessResult result = machine.command({"/bin/sh", "-c", action_});
    if (runs(machine) == must_run_) return passed(fmt::format("{}: `{}` repaired it", service_, action_));
    return problem(fmt::format("; `{}` {}", action_, describe_end(result)));
  }

 private:
  bool runs(const Machine& machine) const { return find_process(machine.processes(), wanted_) != nullptr; }

  Outcome problem(const std::string& tried) const {
    const std::string owner = wanted_.user.empty() ? "" : " of user " + wanted_.user;
    const std::string text = fmt::format("service {} (process {}{}) {}{}", service_, wanted_.daemon, owner,
                                         must_run_ ? "is not running" : "is running but must not", tried);
    return {fatal_ ? Outcome::Kind::fail : Outcome::Kind::pass, text};
  }

  std::string service_, action_;
  Wanted wanted_;
  bool fatal_ = true, must_run_ = true;
};

/// DAEMON [USER [ARGUMENTS]]
Check make_daemon(Words words) {
  require_words(words, 1, 3, "DAEMON [USER [ARGUMENTS]]");
  const std::string command = words.size() > 2 ? words[0] + " " + words[2] : words[0];
  const Wanted wanted{command, words.size() > 1 ? words[1] : "", ""};
  if (!wanted.user.empty()) Match{wanted.user};
  return [wanted](const Machine& machine) {
    if (find_process(machine.processes(), wanted) == nullptr) return failed("process {} is not running", wanted.daemon);
    return passed();
  };
}

/// NAME [[!]USER [ARGUMENTS]]: no such process of that user, or with "!" of any other user.
Check make_blacklist(Words words) {
  require_words(words, 1, 3, "NAME [[!]USER [ARGUMENTS]]");
  const std::string name = words.size() > 2 ? words[0] + " " + words[2] : words[0];
  const std::string user = words.size() > 1 && !words[1].empty() ? words[1] : "*";
  for (const std::string& text : {name, user}) Match{text};
  return [=](const Machine& machine) {
    const std::string owner = name_of_user(user);
    for (const ProcessEntry& process : machine.processes()) {
      const bool named =
          Match(name)(process.name) || Match(name)(program_name(process.command_line)) || runs_daemon(process, name);
      if (named && Match(owner)(process.user)) {
        return failed("process {} ({}) of user {} must not run", process.pid, process.name, process.user);
      }
    }
    return passed();
  };
}

/// The last number of a user that belongs to the system, as in NHC.
unsigned last_system_user(const Machine& machine) {
  const char* const given = std::getenv("MAX_SYS_UID");
  if (given != nullptr && *given != '\0') return static_cast<unsigned>(parse_amount(given, "MAX_SYS_UID"));
  const std::string text = machine.read("/etc/login.defs").value_or("");
  unsigned first = 0, last = 0;
  for (const std::string_view line : split_lines(std::string_view(text))) {
    std::istringstream fields{std::string(line)};
    std::string key;
    unsigned value = 0;
    if (!(fields >> key >> value)) continue;
    if (key == "UID_MIN") first = value;
    if (key == "SYS_UID_MAX") last = value;
  }
  return last > 0 ? last : first > 1 ? first - 1 : 99;
}

/// [-c COMMAND] [-u UID] [-n USER] [-p PID] [ACTION...]: processes of users without a job of Slurm on this node, except
/// these. ACTION: die (the default), kill, log, syslog, ignore, in their order.
class UnauthorizedUsers {
 public:
  explicit UnauthorizedUsers(Words words) : options_(words, "c:u:n:p:"), actions_(options_.positional) {
    if (actions_.empty()) actions_ = {"die"};
    for (const std::string& action : actions_) {
      require(std::ranges::find(kActions, action) != std::end(kActions), ErrorKind::config, "\"{}\": expected {}",
              action, fmt::join(kActions, ", "));
    }
  }

  Outcome operator()(const Machine& machine) const {
    const ProcessResult jobs = machine.command({"squeue", "--noheader", "-w", machine.host, "-o", "%u"});
    if (jobs.exit_code == 127) return not_checked("this node has no squeue, which knows whose jobs run here");
    if (jobs.exit_code != 0) {  // as if nobody had a job: kill would end them all
      return not_checked(fmt::format("cannot ask Slurm whose jobs run here: squeue {}: {}", describe_end(jobs),
                                     jobs.err.substr(0, jobs.err.find('\n'))));
    }
    const char* const always = std::getenv("NHC_AUTH_USERS");
    std::istringstream names(jobs.out + "\n" + (always == nullptr ? "root nobody" : always));
    const std::set<std::string> allowed{std::istream_iterator<std::string>(names), {}};
    const unsigned system = last_system_user(machine);
    std::string remark;
    for (const ProcessEntry& process : machine.processes()) {
      if (process.uid <= system || allowed.contains(process.user) || is_excepted(process)) continue;
      const std::string what =
          fmt::format("process {} ({}) of user {}, who has no job here", process.pid, process.name, process.user);
      for (const std::string& action : actions_) {
        if (action == "ignore") break;
        if (action == "die") return failed("{}", what);
        const bool kills = action == "kill" && machine.repair;
        if (kills) machine.command({"kill", "-9", std::to_string(process.pid)});
        remark += fmt::format("{}{}{}", remark.empty() ? "" : "; ", kills ? "killed " : "", what);
      }
    }
    return passed(remark);
  }

 private:
  static constexpr const char* kActions[] = {"die", "kill", "log", "syslog", "ignore"};

  bool is_excepted(const ProcessEntry& process) const {
    const auto names = [&](char letter, const std::string& value) {
      const std::vector<std::string> all = options_.all(letter);
      return std::ranges::find(all, value) != all.end();
    };
    const std::string first = process.command_line.substr(0, process.command_line.find(' '));
    return names('c', first) || names('c', process.name) || names('u', std::to_string(process.uid)) ||
           names('n', process.user) || names('p', std::to_string(process.pid));
  }

  Options options_;
  std::vector<std::string> actions_;
};

constexpr KnownCheck kChecks[] = {
    {"check_ps_service", [](Words w) -> Check { return ServiceCheck(w); }},
    {"check_ps_daemon", make_daemon},
    {"check_ps_blacklist", make_blacklist},
    {"check_ps_unauth_users", [](Words w) -> Check { return UnauthorizedUsers(w); }},
};

}  // namespace

std::span<const KnownCheck> process_checks() { return kChecks; }

}  // namespace trireme::health
