#include "cluster/health/nhc_settings.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "base/error.h"
#include "base/file.h"
#include "cluster/health/check.h"
#include "cluster/subprocess.h"

namespace trireme::health {
namespace {

class Splitter {
 public:
  Splitter(std::string_view line, const Variables& variables) : line_(line), variables_(variables) {}

  ShellWords split() {
    while (at_ < line_.size()) {
      const char c = line_[at_];
      if (c == ' ' || c == '\t' || c == '\r') {
        end_word();
        ++at_;
      } else if (c == '#' && !in_word_) {
        break;
      } else {
        take(c);
      }
    }
    end_word();
    result_.needs_shell = result_.needs_shell || result_.has_operator;
    return std::move(result_);
  }

 private:
  void take(char c) {
    if (c == '\'') {
      const size_t close = line_.find('\'', at_ + 1);
      require(close != std::string_view::npos, ErrorKind::config, "the quote ' is not closed");
      word_ += line_.substr(at_ + 1, close - at_ - 1);
      in_word_ = true;
      at_ = close + 1;
    } else if (c == '"') {
      take_double_quoted();
    } else if (c == '\\' && at_ + 1 < line_.size()) {
      if (octal_after(at_)) add('\\');
      add(line_[at_ + 1]);
      at_ += 2;
    } else if (c == '$') {
      take_variable();
    } else {
      if (std::string_view("|&;<>()`").find(c) != std::string_view::npos) result_.has_operator = true;
      if (c == '{' || (c == '~' && !in_word_)) result_.needs_shell = true;
      add(c);
      ++at_;
    }
  }

  /// "\040", the blank of /proc/mounts, keeps its backslash.
  bool octal_after(size_t at) const {
    const std::string_view digits = line_.substr(at + 1, 3);
    return digits.size() == 3 && digits.find_first_not_of("01234567") == std::string_view::npos;
  }

  void take_double_quoted() {
    in_word_ = true;
    for (++at_; at_ < line_.size() && line_[at_] != '"';) {
      if (line_[at_] == '\\' && at_ + 1 < line_.size() &&
          std::string_view("\"\\$`").find(line_[at_ + 1]) != std::string_view::npos) {
        word_ += line_[at_ + 1];
        at_ += 2;
      } else if (line_[at_] == '$') {
        take_variable(true);
      } else {
        if (line_[at_] == '`') result_.has_operator = true;
        word_ += line_[at_++];
      }
    }
    require(at_ < line_.size(), ErrorKind::config, "the quote \" is not closed");
    ++at_;
  }

  /// At "$". An unquoted empty variable does not make a word, as in a shell.
  void take_variable(bool quoted = false) {
    size_t begin = at_ + 1, end = begin;
    const bool braced = begin < line_.size() && line_[begin] == '{';
    if (begin < line_.size() && line_[begin] == '(') result_.has_operator = true;
    if (braced) {
      ++begin;
      end = line_.find('}', begin);
      require(end != std::string_view::npos, ErrorKind::config, "the brace of ${{ is not closed");
    } else {
      while (end < line_.size() && (std::isalnum(static_cast<unsigned char>(line_[end])) != 0 || line_[end] == '_')) {
        ++end;
      }
    }
    if (end == begin) {  // a single dollar, unless the next character is special in a shell
      const std::string_view special = quoted ? "([?#@*!-$" : "([?#@*!-$'\"";
      if (begin < line_.size() && special.find(line_[begin]) != std::string_view::npos) result_.needs_shell = true;
      add('$');
      at_ = begin;
      return;
    }
    const std::string name(line_.substr(begin, end - begin));
    const auto value = variables_.find(name);
    result_.uses_variables = true;
    // Unsupported here, such as ${A:-b} and $1, or a value that bash would split into several words.
    if (value == variables_.end() || (!quoted && value->second.find_first_of(" \t\n") != std::string::npos)) {
      result_.needs_shell = true;
    }
    if (value != variables_.end() && !value->second.empty()) {
      word_ += value->second;
      in_word_ = true;
    }
    at_ = braced ? end + 1 : end;
  }

  void add(char c) {
    word_ += c;
    in_word_ = true;
  }

  void end_word() {
    if (in_word_) result_.words.push_back(std::move(word_));
    word_.clear();
    in_word_ = false;
  }

  std::string_view line_;
  const Variables& variables_;
  size_t at_ = 0;
  bool in_word_ = false;
  std::string word_;
  ShellWords result_;
};

}  // namespace

ShellWords split_words(std::string_view line, const Variables& variables) { return Splitter(line, variables).split(); }

namespace {

namespace fs = std::filesystem;

/// NHC clears these at its start: only its sysconfig file and command line set them.
constexpr const char* kOfNhcAlone[] = {"CONFDIR",   "CONFFILE",   "INCDIR",       "HELPERDIR",     "ONLINE_NODE",
                                       "LOGFILE",   "DEBUG",      "SILENT",       "VERBOSE",       "OFFLINE_NODE",
                                       "TIMEOUT",   "RESULTFILE", "MAX_SYS_UID",  "NHC_RM",        "NHC_CHECK_ALL",
                                       "EVAL_LINE", "NAME",       "SYSCONFIGDIR", "DETACHED_MODE", "NHC_CHECK_FORKED"};

/// Prints the variables that a file sets or changes, each as NAME=VALUE and a NUL.
constexpr const char* kTellVariables = R"(
declare -A __was
for __name in $(compgen -v); do __was[$__name]=${!__name}; done
. "$1" >&2
for __name in $(compgen -v); do
  case $__name in
    __*|BASH*|RANDOM|SRANDOM|SECONDS|EPOCH*|LINENO|PIPESTATUS|FUNCNAME|COMP_*|DIRSTACK|GROUPS|PPID|UID|EUID|_) continue ;;
  esac
  if [[ -z ${__was[$__name]+set} || ${!__name} != "${__was[$__name]}" ]]; then
    printf '%s=%s\0' "$__name" "${!__name}"
  fi
done
)";

std::string value_of(const Variables& variables, const std::string& name, const std::string& absent) {
  const auto found = variables.find(name);
  return found == variables.end() || found->second.empty() ? absent : found->second;
}

/// The folder that NHC uses on this system.
std::string sysconfig_folder() {
  std::error_code ignored;
  if (!fs::exists("/etc/debian_version", ignored) && fs::is_directory("/etc/sysconfig", ignored)) {
    return "/etc/sysconfig";
  }
  return "/etc/default";
}

void read_sysconfig(const std::string& path, Settings& settings) {
  std::error_code ignored;
  if (!fs::is_regular_file(path, ignored)) return;
  if (const std::string reason = why_not_trusted(path); !reason.empty()) {
    settings.problems.push_back({path, fmt::format("{}: not read: {}", path, reason)});
    return;
  }
  ProcessRequest request;
  request.arguments = {"/bin/bash", "--noprofile", "--norc", "-c", kTellVariables, "nhc", path};
  request.timeout = std::chrono::seconds(10);
  request.variables.assign(settings.variables.begin(), settings.variables.end());
  const ProcessResult result = run_process(request);
  for (size_t begin = 0, end; (end = result.out.find('\0', begin)) != std::string::npos; begin = end + 1) {
    const std::string entry = result.out.substr(begin, end - begin);
    const size_t equals = entry.find('=');
    settings.variables[entry.substr(0, equals)] = entry.substr(equals + 1);
  }
  if (result.timed_out || !result.err.empty()) {
    const std::string said = result.err.substr(0, result.err.find('\n'));
    settings.problems.push_back({path, fmt::format("{}: {}", path, result.timed_out ? describe_end(result) : said)});
  }
}

/// The check function that a line begins to define, as "check_name()" or "function check_name"; empty: none.
std::string_view defined_in(std::string_view line) {
  constexpr std::string_view kSpaces = " \t\r\v\f", kFunction = "function", kCheck = "check_";
  const auto skip_spaces = [&] { line.remove_prefix(std::min(line.find_first_not_of(kSpaces), line.size())); };
  skip_spaces();
  const bool keyword = line.starts_with(kFunction) && line.size() > kFunction.size() &&
                       kSpaces.find(line[kFunction.size()]) != kSpaces.npos;
  if (keyword) {
    line.remove_prefix(kFunction.size());
    skip_spaces();
  }
  size_t end = 0;
  while (end < line.size() && (std::isalnum(static_cast<unsigned char>(line[end])) != 0 || line[end] == '_')) ++end;
  const std::string_view name = line.substr(0, end);
  if (!name.starts_with(kCheck) || name.size() == kCheck.size()) return {};
  if (keyword) return name;
  line.remove_prefix(end);
  skip_spaces();
  if (!line.starts_with('(')) return {};
  line.remove_prefix(1);
  skip_spaces();
  return line.starts_with(')') ? name : std::string_view();
}

/// Finds the check functions that a file defines in its text; runs nothing.
void find_functions(const fs::path& file, Settings& settings) {
  std::string text;
  try {
    text = read_text(file, size_t{4} << 20);
  } catch (const Error& e) {
    settings.problems.push_back({file, e.what()});
    return;
  }
  for (std::string_view line : split_lines(std::string_view(text))) {
    const std::string_view name = defined_in(line);
    if (!name.empty()) settings.functions[std::string(name)] = file;
  }
}

}  // namespace

std::span<const char* const> names_of_nhc_alone() { return kOfNhcAlone; }

Variables variables_of(const std::string& host) {
  Variables variables;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const size_t equals = text.find('=');
    if (equals != std::string_view::npos) variables[std::string(text.substr(0, equals))] = text.substr(equals + 1);
  }
  for (const char* name : kOfNhcAlone) variables.erase(name);
  // Cron jobs often have a shorter PATH than a login, and programs of administrators are in sbin.
  std::string& path = variables["PATH"];
  for (const char* folder : {"/usr/bin", "/bin", "/usr/sbin", "/sbin"}) {
    if ((":" + path + ":").find(fmt::format(":{}:", folder)) == std::string::npos) {
      path += (path.empty() ? "" : ":") + std::string(folder);
    }
  }
  variables["HOSTNAME"] = host;
  variables["HOSTNAME_S"] = host.substr(0, host.find('.'));
  return variables;
}

Settings read_settings(const std::string& host, const Variables& fixed) {
  Settings settings;
  settings.variables = variables_of(host);
  settings.fixed = fixed;
  for (const auto& [name, value] : fixed) settings.variables[name] = value;
  const std::string name = value_of(fixed, "NAME", "nhc");
  read_sysconfig(value_of(fixed, "SYSCONFIGDIR", sysconfig_folder()) + "/" + name, settings);
  for (const auto& [fixed_name, value] : fixed) settings.variables[fixed_name] = value;
  settings.scripts =
      value_of(settings.variables, "INCDIR", value_of(settings.variables, "CONFDIR", "/etc/nhc") + "/scripts");
  std::error_code ignored;
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(settings.scripts, ignored)) {
    if (entry.path().extension() == ".nhc" && entry.path().filename().string()[0] != '.') files.push_back(entry.path());
  }
  std::ranges::sort(files);
  for (const fs::path& file : files) find_functions(file, settings);
  return settings;
}

std::string why_not_trusted(const std::string& path) {
  struct stat file {
  }, folder{};
  if (stat(path.c_str(), &file) != 0) return std::strerror(errno);
  if (file.st_uid != 0 && file.st_uid != geteuid()) {
    return fmt::format("it belongs to user {}, not to root or the caller; chown it", file.st_uid);
  }
  if ((file.st_mode & S_IWOTH) != 0) return "it is world-writable; chmod o-w";
  const std::string parent = fs::path(path).parent_path().empty() ? "." : fs::path(path).parent_path().string();
  if (stat(parent.c_str(), &folder) == 0 && (folder.st_mode & S_IWOTH) != 0 && (folder.st_mode & S_ISVTX) == 0) {
    return fmt::format("its folder {} is world-writable; chmod o-w", parent);
  }
  return "";
}

bool is_of_the_site(const std::string& path) {
  const std::string name = fs::path(path).filename();
  return name != "common.nhc" && !name.starts_with("lbnl_") && !name.starts_with("csc_") && !name.starts_with("azure_");
}

}  // namespace trireme::health
