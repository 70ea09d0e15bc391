#include "cluster/health/nhc_config.h"

#include <algorithm>
#include <cctype>
#include <filesystem>

#include "base/error.h"
#include "base/file.h"
#include "base/text.h"
#include "base/utf8.h"

namespace trireme::health {
namespace {

bool is_assignment(std::string_view word) {
  const size_t equals = word.find('=');
  if (equals == 0 || equals == std::string_view::npos) return false;
  return std::ranges::all_of(word.substr(0, equals),
                             [](unsigned char c) { return std::isalnum(c) != 0 || c == '_'; }) &&
         std::isdigit(static_cast<unsigned char>(word[0])) == 0;
}

/// "export A=1 B=2" or "A=1"; no other line sets variables.
bool sets_variables(const ShellWords& parsed) {
  const auto& words = parsed.words;
  if (parsed.needs_shell || words.empty()) return false;
  const bool exported = words[0] == "export";
  if (exported && words.size() == 1) return false;
  return std::all_of(words.begin() + int{exported}, words.end(), [](const std::string& w) { return is_assignment(w); });
}

void set_variables(const std::vector<std::string>& words, const Variables& fixed, Variables& variables) {
  for (const std::string& word : words) {
    const size_t equals = word.find('=');
    const std::string name = word.substr(0, equals);
    if (equals != std::string::npos && !fixed.contains(name)) variables[name] = word.substr(equals + 1);
  }
}

/// How earlier lines for bash may affect later ones.
struct Seen {
  bool bash = false;    ///< variables may have changed
  bool source = false;  ///< functions may have changed
};

class Planner {
 public:
  Planner(const Settings& settings, Plan& plan) : settings_(settings), plan_(plan) {}

  void add(const ConfigLine& line, bool applies) {
    Step step;
    step.number = line.number;
    step.target = line.target_text;
    step.text = line.text;
    step.applies = applies;
    if (!line.problem.empty()) {
      step.kind = StepKind::bad;
      step.problem = line.problem;
    } else {
      try {
        make(step);
      } catch (const Error& e) {
        step.kind = StepKind::bad;
        step.problem = step.name.empty() ? e.what() : fmt::format("{}: {}", step.name, e.what());
      }
    }
    plan_.steps.push_back(std::move(step));
  }

 private:
  void make(Step& step) {
    // $'...' and here-documents have another kind of quotes: leave them to bash.
    if (step.text.find("$'") != std::string::npos || step.text.find("<<") != std::string::npos) {
      return leave_to_bash(step, "");
    }
    const ShellWords parsed = split_words(step.text, plan_.variables);
    const std::string first = parsed.words.empty() ? "" : parsed.words[0];
    if (sets_variables(parsed) && !(seen_.bash && parsed.uses_variables)) {
      step.kind = StepKind::variables;
      step.words = parsed.words;
      if (step.applies) set_variables(parsed.words, plan_.fixed, plan_.variables);
      return;
    }
    const KnownCheck* known = find(first);
    // A check that cannot be run here needs no shell for its words.
    const bool undoable = known != nullptr && known->make == nullptr && !parsed.has_operator && !is_replaced(*known);
    if (!undoable && (known == nullptr || parsed.needs_shell || seen_.source || (seen_.bash && parsed.uses_variables) ||
                      is_replaced(*known))) {
      return leave_to_bash(step, first);
    }
    step.name = known->name;
    step.gpu = known->gpu;
    step.words.assign(parsed.words.begin() + 1, parsed.words.end());
    step.kind = known->make == nullptr ? StepKind::not_implemented : StepKind::native;
    if (known->make != nullptr) step.check = known->make(step.words);
  }

  void leave_to_bash(Step& step, const std::string& first) {
    step.kind = StepKind::command;
    if (first.starts_with("check_")) step.name = first;
    const KnownCheck* known = find(first);
    step.gpu = known != nullptr && known->gpu && !is_replaced_by_site(*known);
    if (!step.applies) return;
    seen_.bash = true;
    const std::string padded = " " + step.text + " ";
    for (const char* word : {" source ", " . ", "eval ", "() ", "function "}) {
      if (padded.find(word) != std::string::npos) seen_.source = true;
    }
  }

  static const KnownCheck* find(const std::string& name) {
    const auto known = known_checks();
    const auto found = std::ranges::find(known, name, &KnownCheck::name);
    return found == known.end() ? nullptr : &*found;
  }

  /// Whether a site function defines the check; without a native form any function counts.
  bool is_replaced(const KnownCheck& check) const {
    return is_replaced_by_site(check) ||
           (check.make == nullptr && settings_.functions.contains(std::string(check.name)));
  }

  bool is_replaced_by_site(const KnownCheck& check) const {
    const auto found = settings_.functions.find(std::string(check.name));
    return found != settings_.functions.end() && is_of_the_site(found->second);
  }

  const Settings& settings_;
  Plan& plan_;
  Seen seen_;
};

/// By its full name or the name without the domain: distributions differ in which one a host has.
bool is_of(const Match& target, std::string_view host) {
  return (target.positive(host) || target.positive(host.substr(0, host.find('.')))) != target.negated();
}

bool is_octal(std::string_view text) {
  return text.size() == 3 && std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '7'; });
}

/// Treats a line like the shell's `read`, except that paths of file system checks may be written as in /proc/mounts.
std::string without_backslashes(std::string_view line) {
  const bool of_mounts = line.find("check_fs_") != std::string_view::npos;
  std::string text;
  for (size_t i = 0; i < line.size(); ++i) {
    const bool blank = of_mounts && is_octal(line.substr(std::min(i + 1, line.size()), 3));
    if (line[i] == '\\' && i + 1 < line.size() && !blank) ++i;
    text += line[i];
  }
  return text;
}

size_t backslashes_at_end(std::string_view line) {
  size_t count = 0;
  while (count < line.size() && line[line.size() - 1 - count] == '\\') ++count;
  return count;
}

ConfigLine make_line(int number, std::string_view content) {
  ConfigLine line;
  line.number = number;
  const size_t bars = content.find("||");
  if (bars == std::string_view::npos) {
    line.text = content;
    line.problem = fmt::format("expected TARGET || CHECK, found \"{}\"", content);
    return line;
  }
  line.target_text = trim_blanks(content.substr(0, bars));
  line.text = trim_blanks(content.substr(bars + 2));
  if (line.target_text.empty() || line.text.empty()) {
    line.problem = fmt::format("found nothing {} \"||\"", line.target_text.empty() ? "before" : "after");
    if (line.text.empty()) line.text = line.target_text + " ||";
    return line;
  }
  try {
    line.target.emplace(line.target_text);
  } catch (const Error& e) {
    line.problem = fmt::format("target: {}", e.what());
  }
  return line;
}

/// A few bytes of another encoding, or NULs after a crash, are tolerated.
void require_text(std::string_view text) {
  const auto is_control = [](unsigned char c) { return (c < 0x20 && (c < '\t' || c > '\r')) || c == 0x7F; };
  const auto controls = static_cast<size_t>(std::ranges::count_if(text, is_control));
  size_t wrong = controls;
  for (size_t at = 0, next; (next = find_invalid_utf8(text.substr(at))) != std::string_view::npos; at += next + 1)
    wrong += is_control(static_cast<unsigned char>(text[at + next])) ? 0 : 1;
  require(controls * 100 <= text.size() && wrong * 10 <= text.size(), ErrorKind::config,
          "the configuration is not a text file: {} of {} bytes are control characters or not UTF-8{}; name NHC's file "
          "with --config",
          wrong, text.size(),
          text.starts_with("\xFF\xFE") || text.starts_with("\xFE\xFF")
              ? " (UTF-16 is read after iconv -f UTF-16 -t UTF-8)"
              : "");
}

}  // namespace

std::string read_nhc_config(const std::string& path) {
  std::error_code ignored;
  require(
      std::filesystem::exists(path, ignored), ErrorKind::config,
      "the configuration file {} does not exist; name another one, or write one on a good node with `trireme health "
      "gen`",
      path);
  const std::string reason = why_not_trusted(path);
  require(reason.empty(), ErrorKind::config, "the configuration file {} is not used, because its lines run in bash: {}",
          path, reason);
  return read_text(path, size_t{16} << 20);
}

std::vector<ConfigLine> parse_nhc_config(std::string_view text) {
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);  // byte order mark
  require_text(text);
  std::vector<ConfigLine> lines;
  int next = 1;
  std::string joined;
  const auto rows = split_lines(text);
  for (auto row = rows.begin(); row != rows.end(); ++row) {
    const int number = next++;
    joined = *row;
    // A backslash at the end of a line joins the next line, as in a shell; two are a literal backslash.
    while (backslashes_at_end(joined) % 2 == 1 && row + 1 != rows.end()) {
      joined.pop_back();
      joined += *++row;
      ++next;
    }
    const std::string read = without_backslashes(trim_blanks(joined));
    const std::string_view content = trim_blanks(read);
    if (content.empty() || content.front() == '#') continue;
    lines.push_back(make_line(number, content));
  }
  return lines;
}

std::string Step::placed_problem() const { return number > 0 ? fmt::format("line {}: {}", number, problem) : problem; }

Plan make_plan(const std::vector<ConfigLine>& lines, std::string_view host, const Settings& settings) {
  Plan plan;
  plan.initial = plan.variables = settings.variables;
  plan.fixed = settings.fixed;
  for (const FileProblem& problem : settings.problems) {
    Step step;
    step.applies = true;
    step.kind = StepKind::bad;
    step.text = problem.file;
    step.problem = problem.what;
    plan.steps.push_back(std::move(step));
  }
  Planner planner(settings, plan);
  for (const ConfigLine& line : lines) planner.add(line, !line.target || is_of(*line.target, host));
  return plan;
}

}  // namespace trireme::health
