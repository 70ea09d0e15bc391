#include "cluster/health/nhc_config.h"

#include <unistd.h>

#include <algorithm>
#include <cctype>

#include "base/error.h"
#include "base/text.h"

namespace trireme::health {
namespace {

bool is_assignment(std::string_view word) {
  const size_t equals = word.find('=');
  if (equals == 0 || equals == std::string_view::npos) return false;
  return std::ranges::all_of(word.substr(0, equals),
                             [](unsigned char c) { return std::isalnum(c) != 0 || c == '_'; }) &&
         std::isdigit(static_cast<unsigned char>(word[0])) == 0;
}

/// "export A=1 B=2" or "A=1"; nothing else sets variables.
bool sets_variables(const ShellWords& parsed) {
  const auto& words = parsed.words;
  if (parsed.has_operator || words.empty()) return false;
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

const KnownCheck& find_check(const std::string& name) {
  const auto known = known_checks();
  const auto found = std::ranges::find(known, name, &KnownCheck::name);
  if (found != known.end()) return *found;
  std::vector<std::string> names;
  for (const KnownCheck& check : known) names.emplace_back(check.name);
  fail(ErrorKind::config, "no check \"{}\"; nearest is {}", name, nearest(name, names));
}

void make_native(Step& step, const ShellWords& parsed) {
  const KnownCheck& known = find_check(parsed.words[0]);
  step.name = known.name;
  step.gpu = known.gpu;
  step.words.assign(parsed.words.begin() + 1, parsed.words.end());
  require(step.text.find("$(") == std::string::npos || !parsed.has_operator, ErrorKind::config,
          "{}: $(...) is not computed here; write its value, or set a variable on the command line", step.name);
  require(!parsed.has_operator, ErrorKind::config, "shell operators around {}; write one check per line", step.name);
  step.kind = known.make == nullptr ? StepKind::not_implemented : StepKind::native;
  if (known.make == nullptr) return;
  try {
    step.check = known.make(step.words);
  } catch (const Error& e) {
    fail(ErrorKind::config, "{}: {}", step.name, e.what());
  }
}

Step make_step(const ConfigLine& line, bool applies, const Variables& fixed, Variables& variables) {
  Step step{line.number, line.target.text(), line.text, applies, StepKind::command, "", {}, false, nullptr};
  const ShellWords parsed = split_words(line.text, variables);
  if (sets_variables(parsed)) {
    step.kind = StepKind::variables;
    step.words = parsed.words;
    if (step.applies) set_variables(parsed.words, fixed, variables);
  } else if (!parsed.words.empty() && parsed.words[0].starts_with("check_")) {
    make_native(step, parsed);
  } else {
    // bash would not find it, and a healthy node would be sick.
    for (const std::string& word : parsed.words) {
      require(std::ranges::find(known_checks(), word, &KnownCheck::name) == known_checks().end(), ErrorKind::config,
              "{} is no command, and conditions around it are not read; write one check per line", word);
    }
  }
  return step;
}

/// By its whole name or by that without the domain: which of them a host has is a habit of its distribution.
bool is_of(const Match& target, std::string_view host) {
  return (target.positive(host) || target.positive(host.substr(0, host.find('.')))) != target.negated();
}

}  // namespace

Variables variables_of(const std::string& host) {
  Variables variables;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const size_t equals = text.find('=');
    if (equals != std::string_view::npos) variables[std::string(text.substr(0, equals))] = text.substr(equals + 1);
  }
  // What starts checks at night has often less of a path than a login, and administrators' programs lie in sbin.
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

std::vector<ConfigLine> parse_nhc_config(std::string_view text, const std::string& source) {
  std::vector<ConfigLine> lines;
  int next = 1;
  std::string joined;
  const auto rows = split_lines(text);
  for (auto row = rows.begin(); row != rows.end(); ++row) {
    const int number = next++;
    joined = *row;
    // A backslash at the end joins the next line, as in a shell.
    while (joined.ends_with('\\') && row + 1 != rows.end()) {
      joined.pop_back();
      joined += *++row;
      ++next;
    }
    const std::string_view content = trim_blanks(joined);
    if (content.empty() || content.front() == '#') continue;
    const size_t bars = content.find("||");
    require(bars != std::string_view::npos, ErrorKind::config, "{}:{}: expected TARGET || CHECK, found \"{}\"", source,
            number, content);
    const std::string_view target = trim_blanks(content.substr(0, bars)), check = trim_blanks(content.substr(bars + 2));
    require(!target.empty() && !check.empty(), ErrorKind::config, "{}:{}: nothing {} \"||\"", source, number,
            target.empty() ? "before" : "behind");
    try {
      lines.push_back({number, Match(std::string(target)), std::string(check)});
    } catch (const Error& e) {
      fail(ErrorKind::config, "{}:{}: target: {}", source, number, e.what());
    }
  }
  return lines;
}

Plan make_plan(const std::vector<ConfigLine>& lines, const std::string& source, std::string_view host,
               Variables environment, const Variables& fixed) {
  Plan plan{{}, std::move(environment)};
  for (const auto& [name, value] : fixed) plan.variables[name] = value;
  for (const ConfigLine& line : lines) {
    try {
      plan.steps.push_back(make_step(line, is_of(line.target, host), fixed, plan.variables));
    } catch (const Error& e) {
      fail(ErrorKind::config, "{}:{}: {}", source, line.number, e.what());
    }
  }
  return plan;
}

}  // namespace trireme::health
