// Output and status of commands; content and type of files.

#include <glob.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <iterator>

#include "base/error.h"
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

class CommandCheck {
 public:
  CommandCheck(Words words, bool output) {
    const Options options(words, output ? "t:r:m:e:" : "t:r:e:");
    require(options.has('e') || !options.positional.empty(), ErrorKind::config,
            "the command is missing; give -e 'COMMAND'");
    if (options.has('e')) {
      command_ = options.value('e');
      for (const std::string& word : options.positional) command_ += " " + shell_quote(word);
    } else {
      command_ = shell_join(options.positional);
    }
    code_ = static_cast<int>(parse_number(options.value('r', "0"), "-r"));
    seconds_ = parse_number(options.value('t', "20"), "-t");
    require(seconds_ >= 0, ErrorKind::config, "-t {}: expected seconds, or 0 for no limit", seconds_);
    if (seconds_ == 0) seconds_ = kNoLimit;
    if (options.has('m')) matches_ = options.values.at('m');
    for (const std::string& match : matches_) Match{match};
  }

  Outcome operator()(const Machine& machine) const {
    const ProcessResult result = machine.command({"/bin/sh", "-c", command_}, seconds_);
    if (result.timed_out || result.exit_code != code_) {
      return failed("`{}` {}, expected code {}", command_, describe_end(result), code_);
    }
    if (const auto problem = unsatisfied(result.out + result.err, matches_)) {
      return failed("output of `{}`: {}", command_, *problem);
    }
    return passed();
  }

 private:
  std::string command_;
  std::vector<std::string> matches_;
  int code_ = 0;
  double seconds_ = 20;
};

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

constexpr KnownCheck kChecks[] = {
    {"check_cmd_output", [](Words w) -> Check { return CommandCheck(w, true); }},
    {"check_cmd_status", [](Words w) -> Check { return CommandCheck(w, false); }},
    {"check_file_test", make_file_test},
    {"check_file_contents", make_file_contents},
};

}  // namespace

std::span<const KnownCheck> command_checks() { return kChecks; }

}  // namespace trireme::health
