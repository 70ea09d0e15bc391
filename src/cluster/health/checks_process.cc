// Services and processes.

#include <algorithm>

#include "base/error.h"
#include "cluster/health/check.h"
#include "cluster/health/match.h"

namespace trireme::health {
namespace {

/// The name up to a blank or ':' of the command ("sshd:" of "sshd: /usr/sbin/sshd -D"), without its folder.
std::string program_name(const std::string& command_line) {
  std::string word = command_line.substr(0, command_line.find(' '));
  word = word.substr(word.rfind('/') + 1);
  while (word.ends_with(':')) word.pop_back();
  return word;
}

struct Wanted {
  std::string daemon;  ///< program name
  std::string user;    ///< empty: any
  std::string match;   ///< against the whole command line; empty: the name decides
};

const ProcessEntry* find_process(const std::vector<ProcessEntry>& processes, const Wanted& wanted) {
  const auto fits = [&](const ProcessEntry& process) {
    if (!wanted.user.empty() && process.user != wanted.user) return false;
    if (!wanted.match.empty()) {
      return Match(wanted.match)(process.command_line) || Match(wanted.match)(program_name(process.command_line)) ||
             process.command_line.starts_with(wanted.match);
    }
    return process.name == wanted.daemon || program_name(process.command_line) == wanted.daemon;
  };
  const auto found = std::ranges::find_if(processes, fits);
  return found == processes.end() ? nullptr : &*found;
}

/// [-0] [-d DAEMON] [-u USER] [-m MATCH] [-e ACTION] [-S|-r|-c|-s|-k] SERVICE. -S starts, -r restarts, -c stops and
/// starts a service that does not run; -s stops and -k kills one that must not.
class ServiceCheck {
 public:
  explicit ServiceCheck(Words words) {
    const Options options(words, "0fSrcskd:u:m:e:");
    require_words(options.positional, 1, 1, "[-d DAEMON] [-u USER] [-m MATCH] [-S|-r|-c|-s|-k] SERVICE");
    service_ = options.positional[0];
    wanted_ = {options.value('d', service_), options.value('u'), options.value('m')};
    if (!wanted_.match.empty()) Match{wanted_.match};
    must_run_ = !options.has('s') && !options.has('k');
    const std::string quoted = shell_quote(service_);
    if (options.has('e')) {
      action_ = options.value('e');
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
    return failed("service {} (process {}{}) {}{}", service_, wanted_.daemon, owner,
                  must_run_ ? "does not run" : "runs and must not", tried);
  }

  std::string service_, action_;
  Wanted wanted_;
  bool must_run_ = true;
};

Check make_daemon(Words words) {
  require_words(words, 1, 2, "DAEMON [USER]");
  const Wanted wanted{words[0], words.size() > 1 ? words[1] : "", ""};
  return [wanted](const Machine& machine) {
    if (find_process(machine.processes(), wanted) == nullptr) return failed("process {} does not run", wanted.daemon);
    return passed();
  };
}

/// NAME [[!]USER]: no such process, of that user or of anyone but that user.
Check make_blacklist(Words words) {
  require_words(words, 1, 2, "NAME [[!]USER]");
  const std::string name = words[0], user = words.size() > 1 ? words[1] : "*";
  for (const std::string& text : {name, user}) Match{text};
  return [=](const Machine& machine) {
    for (const ProcessEntry& process : machine.processes()) {
      const bool named = Match(name)(process.name) || Match(name)(program_name(process.command_line));
      if (named && Match(user)(process.user)) {
        return failed("process {} ({}) of user {} must not run", process.pid, process.name, process.user);
      }
    }
    return passed();
  };
}

constexpr KnownCheck kChecks[] = {
    {"check_ps_service", [](Words w) -> Check { return ServiceCheck(w); }},
    {"check_ps_daemon", make_daemon},
    {"check_ps_blacklist", make_blacklist},
};

}  // namespace

std::span<const KnownCheck> process_checks() { return kChecks; }

}  // namespace trireme::health
