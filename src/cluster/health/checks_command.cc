// Output and status of commands; content and type of files.

#include <glob.h>
#include <grp.h>
#include <pwd.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <iterator>

#include "base/error.h"
#include "base/text.h"
#include "cluster/health/check.h"
#include "cluster/health/match.h"

namespace trireme::health {
namespace {

/// The first match string that the lines do not satisfy: a line must match it, or no line if it is negated.
std::optional<std::string> unsatisfied(std::string_view text, const std::vector<std::string>& matches) {
  const auto lines = split_lines(text);
  for (const std::string& wanted : matches) {
    const Match match(wanted);
    const bool found = std::ranges::any_of(lines, [&](std::string_view line) { return match.positive(line); });
    if (found == match.negated()) {
      return fmt::format("{} line matches {}", found ? "a" : "no", wanted);
    }
  }
  return std::nullopt;
}

constexpr double kNoLimit = 86400;  // limited by the watchdog

void replace_all(std::string& text, std::string_view from, std::string_view to) {
  for (size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
    text.replace(at, from.size(), to);
}

/// [-t SECONDS] [-r CODE] [-C NAME] and for the output [-m MATCH [-M MESSAGE]]... [-O ARRAY], then the command: its
/// words, or -e TEXT. MESSAGE replaces the text of the failure of its match; -C the name before it. ARRAY is of bash,
/// which sets it (nhc_environment.sh).
class CommandCheck {
 public:
  /// command: what runs without -e and words; empty: one is required.
  CommandCheck(Words words, const char* spec, const std::string& command = "") {
    const Options options(words, spec);
    require(!command.empty() || options.has('e') || !options.positional.empty(), ErrorKind::config,
            "the command is missing; give -e 'COMMAND'");
    command_ = options.value('e', options.positional.empty() ? command : shell_join(options.positional));
    require(!command_.empty(), ErrorKind::config, "-e: the command is empty");
    name_ = options.value('C');
    keeps_output_ = options.has('O');
    code_ = static_cast<int>(parse_number(options.value('r', "0"), "-r"));
    seconds_ = parse_number(options.value('t', "20"), "-t");
    require(seconds_ >= 0, ErrorKind::config, "-t {}: expected seconds, or 0 for no limit", seconds_);
    if (seconds_ == 0) seconds_ = kNoLimit;
    messages_ = options.all('M');
    for (const std::string& match : options.all('m')) matches_.emplace_back(match);
  }

  Outcome operator()(const Machine& machine) const {
    const ProcessResult result = machine.command({"/bin/sh", "-c", command_}, seconds_);
    Outcome outcome = judge(result);
    if (outcome.kind == Outcome::Kind::fail) outcome.name = name_;
    if (!keeps_output_) return outcome;  // which bash would read byte by byte
    for (const std::string_view line : lines_of(result)) {
      if (!line.empty()) outcome.output += (outcome.output.empty() ? "" : "\n") + std::string(line);
    }
    std::erase(outcome.output, '\0');
    return outcome;
  }

 private:
  /// As NHC sees them: of standard output, without empty ones, but with one at the end.
  static std::vector<std::string_view> lines_of(const ProcessResult& result) {
    std::vector<std::string_view> lines = split_lines(std::string_view(result.out));
    std::erase(lines, std::string_view());
    lines.emplace_back();
    return lines;
  }

  Outcome judge(const ProcessResult& result) const {
    const std::vector<std::string_view> lines = lines_of(result);
    const auto line_of = [&](const Match& match) {
      return std::ranges::find_if(lines, [&](std::string_view line) { return match.positive(line); });
    };
    std::vector<size_t> missing;
    for (size_t i = 0; i < matches_.size(); ++i) {
      const auto found = line_of(matches_[i]);
      if (matches_[i].negated() && found != lines.end())
        return failed("{}", message(i, "a line matches", static_cast<size_t>(found - lines.begin()) + 1, *found, 0));
      if (!matches_[i].negated() && found == lines.end()) missing.push_back(i);
    }
    if (result.timed_out || result.exit_code != code_)
      return failed("`{}` {}, expected code {}", command_, describe_end(result), code_);
    if (missing.empty()) return passed();
    return failed("{}", message(missing[0], "no line matches", 0, "", missing.size()));
  }

  /// MESSAGE with its %m (the match), %l and %L (number and text of the line), %c (the command), %f (how many fail).
  std::string message(size_t i, const char* what, size_t number, std::string_view line, size_t failing) const {
    const std::string& match = matches_[i].text();
    if (i >= messages_.size()) return fmt::format("output of `{}`: {} {}", command_, what, match);
    std::string text = messages_[i];
    replace_all(text, "%m", number > 0 ? std::string_view(match).substr(1) : match);
    if (number > 0) replace_all(text, "%l", std::to_string(number));
    std::string harmless(line);
    std::erase_if(harmless, [](char c) { return c == '"' || c == '`' || c == '$'; });
    if (number > 0) replace_all(text, "%L", harmless);
    replace_all(text, "%c", command_);
    if (number == 0) replace_all(text, "%f", fmt::format("{}/{}", failing, matches_.size()));
    return text + ".";
  }

  std::string command_, name_;
  std::vector<Match> matches_;
  std::vector<std::string> messages_;
  bool keeps_output_ = false;
  int code_ = 0;
  double seconds_ = 20;
};

/// Moab's and TORQUE's diagnosis: a command whose output must be good besides.
struct Diagnosis {
  const char* command;
  const char* options;
  Outcome (*judge)(const Options& options, std::string_view output);
};

/// The part of the line after `before`; empty if it does not have that.
std::string_view after(std::string_view line, std::string_view before) {
  const size_t at = line.find(before);
  return at == std::string_view::npos ? std::string_view() : trim_blanks(line.substr(at + before.size()));
}

/// -v MATCH: the version; -a MATCH: alerts that are failures.
Outcome judge_scheduler(const Options& options, std::string_view output) {
  for (const std::string_view line : split_lines(output)) {
    const std::string_view version = after(line, "Version:"), alert = after(line, "ALERT:");
    const std::string found(version.substr(0, version.find_first_of(" \t")));
    if (!found.empty() && options.has('v') && !Match(options.value('v'))(found))
      return failed("Moab has version {}, expected {}", found, options.value('v'));
    if (!alert.empty() && Match(options.value('a'))(alert)) return failed("Moab's alert: {}", alert);
  }
  return passed();
}

/// "RM[base]  State: Active": of every resource manager but Moab's own.
Outcome judge_managers(const Options&, std::string_view output) {
  for (const std::string_view line : split_lines(output)) {
    const std::string_view state = after(line, "State:");
    if (!line.starts_with("RM[") || state.empty() || line.find("internal") != std::string_view::npos) continue;
    if (!state.starts_with("Active"))
      return failed("resource manager {} is {}, expected Active", line.substr(0, line.find(']') + 1), state);
  }
  return passed();
}

Outcome judge_torque(const Options&, std::string_view output) {
  for (const std::string_view line : split_lines(output)) {
    const std::string_view on = after(line, "set server scheduling =");
    if (!on.empty() && on != "True") return failed("TORQUE does not schedule: scheduling is {}", on);
  }
  return passed();
}

constexpr Diagnosis kScheduler = {"${MDIAG_CMD:-mdiag} -S -v", "a:m:t:v:", judge_scheduler},
                    kManagers = {"${MDIAG_CMD:-mdiag} -R -v", "m:t:", judge_managers},
                    kTorque = {"qmgr -c 'print server'", "m:t:", judge_torque};

Check make_diagnosis(Words words, const Diagnosis& diagnosis) {
  const Options options(words, diagnosis.options);
  for (const char letter : {'a', 'v'}) Match{options.value(letter)};
  std::vector<std::string> of_command = {"-O", "OUTPUT", "-t", options.value('t', "5"), "-e", diagnosis.command};
  for (const std::string& match : options.all('m')) of_command.insert(of_command.end(), {"-m", match});
  return [=, judge = diagnosis.judge, command = CommandCheck(of_command, "O:e:m:t:")](const Machine& machine) {
    const Outcome outcome = command(machine);
    return outcome.kind == Outcome::Kind::pass ? judge(options, outcome.output) : outcome;
  };
}

struct FileTest {
  char option;
  const char* expected;
  bool (*holds)(const char* path, const struct stat& followed, const struct stat& own);
};

// The operators of test(1).
constexpr FileTest kFileTests[] = {
    {'a', "exist", [](const char*, const struct stat& s, const struct stat&) { return s.st_mode != 0; }},
    {'e', "exist", [](const char*, const struct stat& s, const struct stat&) { return s.st_mode != 0; }},
    {'b', "be a block device",
     [](const char*, const struct stat& s, const struct stat&) { return S_ISBLK(s.st_mode); }},
    {'c', "be a character device",
     [](const char*, const struct stat& s, const struct stat&) { return S_ISCHR(s.st_mode); }},
    {'d', "be a folder", [](const char*, const struct stat& s, const struct stat&) { return S_ISDIR(s.st_mode); }},
    {'f', "be a plain file", [](const char*, const struct stat& s, const struct stat&) { return S_ISREG(s.st_mode); }},
    {'g', "be set-group-id",
     [](const char*, const struct stat& s, const struct stat&) { return (s.st_mode & S_ISGID) != 0; }},
    {'h', "be a link", [](const char*, const struct stat&, const struct stat& l) { return S_ISLNK(l.st_mode); }},
    {'L', "be a link", [](const char*, const struct stat&, const struct stat& l) { return S_ISLNK(l.st_mode); }},
    {'k', "be sticky",
     [](const char*, const struct stat& s, const struct stat&) { return (s.st_mode & S_ISVTX) != 0; }},
    {'N', "have changed since it was read",
     [](const char*, const struct stat& s, const struct stat&) { return s.st_mtime > s.st_atime; }},
    {'p', "be a pipe", [](const char*, const struct stat& s, const struct stat&) { return S_ISFIFO(s.st_mode); }},
    {'r', "be readable", [](const char* p, const struct stat&, const struct stat&) { return access(p, R_OK) == 0; }},
    {'s', "have content", [](const char*, const struct stat& s, const struct stat&) { return s.st_size > 0; }},
    {'S', "be a socket", [](const char*, const struct stat& s, const struct stat&) { return S_ISSOCK(s.st_mode); }},
    {'u', "be set-user-id",
     [](const char*, const struct stat& s, const struct stat&) { return (s.st_mode & S_ISUID) != 0; }},
    {'w', "be writable", [](const char* p, const struct stat&, const struct stat&) { return access(p, W_OK) == 0; }},
    {'x', "be executable", [](const char* p, const struct stat&, const struct stat&) { return access(p, X_OK) == 0; }},
    {'O', "be ours",
     [](const char*, const struct stat& s, const struct stat&) { return s.st_mode != 0 && s.st_uid == geteuid(); }},
    {'G', "be our group's",
     [](const char*, const struct stat& s, const struct stat&) { return s.st_mode != 0 && s.st_gid == getegid(); }},
};

/// The files that match a path with `*`, `?` and `[]`; the path itself if none does.
std::vector<std::string> expand(const Machine& machine, const std::string& path) {
  glob_t found{};
  std::vector<std::string> files;
  if (glob((machine.root + path).c_str(), 0, nullptr, &found) == 0) {
    for (size_t i = 0; i < found.gl_pathc; ++i)
      files.push_back(std::string(found.gl_pathv[i]).substr(machine.root.size()));
  }
  globfree(&found);
  return files.empty() ? std::vector<std::string>{path} : files;
}

/// -OPERATOR... FILE...: every operator of test(1) must be true for every file; with -! false.
Check make_file_test(Words words) {
  const Options options(words, "!abcdefghLkNprsSuwxOG");
  require(!options.values.empty() && !options.positional.empty(), ErrorKind::config,
          "expected -OPERATOR FILE..., operators as of test(1)");
  return [options](const Machine& machine) {
    std::vector<std::string> files;
    for (const std::string& path : options.positional)
      std::ranges::move(expand(machine, path), std::back_inserter(files));
    const bool wanted = !options.has('!');
    for (const std::string& file : files) {
      const std::string path = machine.root + file;
      struct stat followed {
      }, own{};
      if (stat(path.c_str(), &followed) != 0) followed = {};
      if (lstat(path.c_str(), &own) != 0) own = {};
      for (const FileTest& test : kFileTests) {
        if (options.has(test.option) && test.holds(path.c_str(), followed, own) != wanted) {
          return failed("{} should {}{}", file, wanted ? "" : "not ", test.expected);
        }
      }
    }
    return passed();
  };
}

/// FILE MATCH...: a line of the file matches each string.
Check make_file_contents(Words words) {
  require_words(words, 2, 64, "FILE MATCH...");
  const std::string file = words[0];
  const std::vector<std::string> matches(words.begin() + 1, words.end());
  for (const std::string& match : matches) Match{match};
  return [=](const Machine& machine) {
    const auto text = machine.read(file);
    if (!text) return failed("cannot read {}", file);
    if (const auto problem = unsatisfied(*text, matches)) return failed("{}: {}", file, *problem);
    return passed();
  };
}

/// A number as the arithmetic of a shell reads it: 0644 is octal, 0x803 hexadecimal.
int64_t shell_number(const Options& options, char letter) {
  const std::string text = options.value(letter);
  char* end = nullptr;
  errno = 0;
  const long long value = std::strtoll(text.c_str(), &end, 0);
  require(!text.empty() && *end == '\0' && errno == 0, ErrorKind::config, "-{}: expected a number, found \"{}\"",
          letter, text);
  return value;
}

/// What stat(1) says of a file, by NHC's letters: owners, mode, device, and times in seconds.
class StatCheck {
 public:
  explicit StatCheck(Words words) : options_(words, "D:G:M:N:O:T:U:d:g:m:n:o:t:u:") {
    require(!options_.values.empty() && !options_.positional.empty(), ErrorKind::config,
            "expected -OPTION VALUE... FILE...: -m or -M mode, -u or -U user, -g or -G group, -d device, -t major, -T "
            "minor number, -n or -N newer and -o or -O older than seconds (mtime, ctime)");
    for (const auto& [letter, values] : options_.values) {
      if (letter != 'U' && letter != 'G') numbers_[letter] = shell_number(options_, letter);
    }
  }

  Outcome operator()(const Machine& machine) const {
    for (const std::string& file : options_.positional) {
      struct stat info {};
      if (lstat((machine.root + file).c_str(), &info) != 0)
        return failed("cannot stat {}: {}", file, std::strerror(errno));
      if (const std::string problem = problem_of(info, machine.now()); !problem.empty())
        return failed("{} {}", file, problem);
    }
    return passed();
  }

 private:
  std::string problem_of(const struct stat& info, std::time_t now) const {
    const passwd* const user = options_.has('U') ? getpwuid(info.st_uid) : nullptr;
    const std::string owner = user != nullptr ? user->pw_name : "UNKNOWN";
    if (options_.has('U') && owner != options_.value('U'))
      return fmt::format("belongs to user {}, expected {}", owner, options_.value('U'));
    const group* const known = options_.has('G') ? getgrgid(info.st_gid) : nullptr;
    const std::string name = known != nullptr ? known->gr_name : "UNKNOWN";
    if (options_.has('G') && name != options_.value('G'))
      return fmt::format("belongs to group {}, expected {}", name, options_.value('G'));
    for (const auto& [letter, wanted] : numbers_) {
      const int64_t mode = info.st_mode & 07777, modified = info.st_mtime, changed = info.st_ctime;
      const auto differs = [&](const char* what, int64_t found) {
        return found == wanted ? std::string() : fmt::format("has {} {}, expected {}", what, found, wanted);
      };
      std::string problem;
      switch (letter) {
        case 'm':
          if (mode != wanted) problem = fmt::format("has mode {:04o}, expected {:04o}", mode, wanted);
          break;
        case 'M':
          if ((mode & wanted) != wanted) problem = fmt::format("has mode {:04o}, expected all of {:04o}", mode, wanted);
          break;
        case 'u':
          problem = differs("user", info.st_uid);
          break;
        case 'g':
          problem = differs("group", info.st_gid);
          break;
        case 't':
          problem = differs("major device number", major(info.st_rdev));
          break;
        case 'T':
          problem = differs("minor device number", minor(info.st_rdev));
          break;
        case 'n':
        case 'N':
          if ((letter == 'n' ? modified : changed) < now - wanted)
            problem = fmt::format("was not {} within {} s", letter == 'n' ? "modified" : "changed", wanted);
          break;
        case 'o':
        case 'O':
          if ((letter == 'o' ? modified : changed) >= now - wanted)
            problem = fmt::format("was {} within {} s", letter == 'o' ? "modified" : "changed", wanted);
          break;
        default:
          problem = differs("device", static_cast<int64_t>(info.st_dev));
      }
      if (!problem.empty()) return problem;
    }
    return "";
  }

  Options options_;
  std::map<char, int64_t> numbers_;
};

constexpr KnownCheck kChecks[] = {
    {"check_cmd_dmesg", [](Words w) -> Check { return CommandCheck(w, "M:e:m:r:t:", "dmesg"); }},
    {"check_cmd_output", [](Words w) -> Check { return CommandCheck(w, "C:M:O:e:m:r:t:"); }},
    {"check_cmd_status", [](Words w) -> Check { return CommandCheck(w, "C:e:r:t:"); }},
    {"check_moab_rm", [](Words w) { return make_diagnosis(w, kManagers); }},
    {"check_moab_sched", [](Words w) { return make_diagnosis(w, kScheduler); }},
    {"check_moab_torque", [](Words w) { return make_diagnosis(w, kTorque); }},
    {"check_file_stat", [](Words w) -> Check { return StatCheck(w); }},
    {"check_file_test", make_file_test},
    {"check_file_contents", make_file_contents},
};

}  // namespace

std::span<const KnownCheck> command_checks() { return kChecks; }

}  // namespace trireme::health
