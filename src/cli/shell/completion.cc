#include "cli/shell/shell.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>

namespace trireme {
namespace {

constexpr size_t kMostHelp = 70;  // bytes beside a flag in a list of candidates

/// The first sentence, at most kMostHelp bytes of whole words.
std::string short_help(const std::string& help) {
  std::string text = help.substr(0, help.find_first_of("\n;"));
  if (const size_t stop = text.find(". "); stop != std::string::npos) text.resize(stop);
  if (text.size() <= kMostHelp) return text;
  text.resize(kMostHelp);
  text.resize(std::min(text.size(), text.rfind(' ')));
  return text + " ...";
}

std::string replaced(std::string text, std::string_view characters, std::string_view before) {
  for (size_t at = 0; (at = text.find_first_of(characters, at)) != std::string::npos; at += before.size() + 1)
    text.insert(at, before);
  return text;
}

/// In single quotes of a POSIX shell.
std::string in_quotes(const std::string& text) {
  std::string out = "'";
  for (const char c : text) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

/// fish escapes \ and ' within single quotes.
std::string in_fish_quotes(const std::string& text) { return "'" + replaced(text, "\\'", "\\") + "'"; }

/// Calls visit(path, command) for every command, then for its actions: path "tokenizer train".
void each_command(const std::vector<CommandShape>& commands, const std::string& before,
                  const std::function<void(const std::string&, const CommandShape&)>& visit) {
  for (const CommandShape& command : commands) {
    const std::string path = before.empty() ? command.name : before + " " + command.name;
    visit(path, command);
    each_command(command.actions, path, visit);
  }
}

std::vector<std::string> names_of(const std::vector<CommandShape>& commands) {
  std::vector<std::string> names;
  for (const CommandShape& command : commands) names.push_back(command.name);
  return names;
}

/// The words that a value can be; empty: not a list.
std::vector<std::string> words_of(const FlagShape& flag) {
  if (flag.kind == ValueKind::choice) return flag.choices;
  return {};
}

std::vector<std::string> commands_with_commands(const std::vector<CommandShape>& commands) {
  std::vector<std::string> names;
  for (const CommandShape& command : commands) {
    if (command.takes_command) names.push_back(command.name);
  }
  return names;
}

constexpr std::string_view kBashFunction = R"(
_trireme() {
  local cur=${COMP_WORDS[COMP_CWORD]} flag= path= first=1 attached= i
  COMPREPLY=()
  # `launch ... -- train ...`: what follows -- is another command.
  for ((i = 2; i < COMP_CWORD; ++i)); do
    if [[ ${COMP_WORDS[i]} == -- && " $_trireme_starters " == *" ${COMP_WORDS[1]} "* ]]; then
      first=$((i + 1))
      break
    fi
  done
  for ((i = first; i < COMP_CWORD; ++i)); do
    [[ " ${_trireme_actions[.$path]} " == *" ${COMP_WORDS[i]} "* ]] || break
    path=${path:+$path }${COMP_WORDS[i]}
  done
  # `--flag=value` is three words, `--flag value` two.
  if [[ $cur == = ]]; then
    flag=${COMP_WORDS[COMP_CWORD - 1]} cur= attached=1
  elif [[ ${COMP_WORDS[COMP_CWORD - 1]} == = ]]; then
    flag=${COMP_WORDS[COMP_CWORD - 2]} attached=1
  else
    flag=${COMP_WORDS[COMP_CWORD - 1]}
  fi
  if [[ $flag == -* && -n ${_trireme_values[".$path ${flag//_/-}"]+known} ]]; then
    local values=${_trireme_values[".$path ${flag//_/-}"]}
    if [[ $cur != -* || -n $attached ]]; then
      if [[ $values == @number ]]; then
        compopt +o default 2>/dev/null
      elif [[ $values != @text ]]; then
        COMPREPLY=($(compgen -W "$values" -- "$cur"))
      fi
      return
    fi
  fi
  if [[ $cur == -* ]]; then
    COMPREPLY=($(compgen -W "${_trireme_flags[.$path]}" -- "$cur"))
  elif ((i == COMP_CWORD)); then
    COMPREPLY=($(compgen -W "${_trireme_actions[.$path]} ${_trireme_words[.$path]}" -- "$cur"))
  elif [[ -n ${_trireme_words[.$path]} ]]; then
    COMPREPLY=($(compgen -W "${_trireme_words[.$path]}" -- "$cur"))
  fi
}
complete -o default -F _trireme trireme
)";

constexpr std::string_view kFishFunctions = R"(
# The words after trireme that are not flags, or after the -- of launch and slurm.
function __trireme_words
    set -l words (commandline -opc)
    set -e words[1]
    if contains -- "$words[1]" $__trireme_starters; and contains -- -- $words
        set words $words[(math (contains -i -- -- $words) + 1)..-1]
    end
    string join \n -- $words
end

# Whether these are the words of the command and, with more than one, of its action.
function __trireme_at
    set -l words (__trireme_words)
    test (count $words) -ge (count $argv); or return 1
    for i in (seq (count $argv))
        test "$words[$i]" = "$argv[$i]"; or return 1
    end
end

# Whether nothing but this has been written.
function __trireme_only
    test (count (__trireme_words)) -eq (count $argv); and __trireme_at $argv
end

function __trireme_none
    test (count (__trireme_words)) -eq 0
end

# fish offers no flags after --, so that they are offered as arguments there.
function __trireme_after_dashes
    set -l words (commandline -opc)
    contains -- "$words[2]" $__trireme_starters; and contains -- -- $words
end
)";

/// '--output=[help]:value:_files' and similar, quoted.
std::vector<std::string> zsh_specs(const FlagShape& flag) {
  const std::string help = replaced(short_help(flag.help), "[]:\\", "\\");
  std::string action = "_files";
  if (flag.kind == ValueKind::number) action = " ";
  if (const auto words = words_of(flag); !words.empty()) {
    std::vector<std::string> escaped;
    for (const std::string& word : words) escaped.push_back(replaced(word, ":\\ ()", "\\"));
    action = fmt::format("({})", fmt::join(escaped, " "));
  }
  if (flag.is_positional())
    return {in_quotes(fmt::format("{}:{}:{}", flag.repeats ? "*" : "", replaced(flag.names[0], ":\\", "\\"), action))};
  std::vector<std::string> specs;
  for (const std::string& name : flag.names) {
    const bool is_long = name.starts_with("--");
    std::string spec = fmt::format("{}{}{}[{}]", flag.repeats ? "*" : "", name,
                                   flag.kind == ValueKind::none ? ""
                                   : is_long                    ? "="
                                                                : "+",
                                   help);
    if (flag.kind != ValueKind::none) spec += fmt::format("{}value:{}", flag.value_is_optional ? "::" : ":", action);
    specs.push_back(in_quotes(spec));
  }
  return specs;
}

std::string zsh_name(const std::string& path) {
  std::string name = "_trireme_" + path;
  std::ranges::replace(name, ' ', '_');
  std::ranges::replace(name, '-', '_');
  return name;
}

/// A function that completes a command by its flags and, if it has any, its actions.
std::string zsh_function(const std::string& name, const std::vector<const FlagShape*>& flags,
                         const std::vector<FlagShape>& positional, const std::vector<CommandShape>& actions,
                         const std::string& path, bool takes_command) {
  std::string out = fmt::format("{}() {{\n  local context state state_descr line\n  typeset -A opt_args\n", name);
  if (takes_command) {
    out +=
        "  local at=${words[(i)--]}\n  if ((at < CURRENT)); then\n    words=(trireme \"${(@)words[at + 1,-1]}\")\n"
        "    ((CURRENT -= at - 1))\n    _trireme\n    return\n  fi\n";
  }
  out += "  _arguments -C \\\n    '--help[show the flags]'";
  for (const FlagShape* flag : flags) {
    for (const std::string& spec : zsh_specs(*flag)) out += " \\\n    " + spec;
  }
  if (!actions.empty()) {
    out += " \\\n    '1: :->action' \\\n    '*:: :->rest'\n  case $state in\n    action)\n      local -a actions=(\n";
    for (const CommandShape& action : actions)
      out +=
          fmt::format("        {}\n", in_quotes(action.name + ":" + replaced(short_help(action.purpose), ":\\", "\\")));
    out += "      )\n      _describe action actions\n      ;;\n    rest)\n      case $words[1] in\n";
    for (const CommandShape& action : actions)
      out += fmt::format("        {}) {} ;;\n", action.name,
                         zsh_name(path.empty() ? action.name : path + " " + action.name));
    return out + "      esac\n      ;;\n  esac\n}\n\n";
  }
  if (positional.empty()) out += " \\\n    '*:file:_files'";
  for (const FlagShape& argument : positional) out += " \\\n    " + zsh_specs(argument)[0];
  return out + "\n}\n\n";
}

std::vector<FlagShape> positional_of(const CommandShape& command) {
  std::vector<FlagShape> positional;
  for (const FlagShape& flag : command.flags) {
    if (flag.is_positional()) positional.push_back(flag);
  }
  return positional;
}

std::vector<FlagShape> program_flags() {
  return {{.names = {"--version"}, .help = "what this build supports", .kind = ValueKind::none}};
}

}  // namespace

std::string bash_completion(const std::vector<CommandShape>& commands) {
  std::string actions = fmt::format("  [.]={}\n", in_quotes(fmt::format("{}", fmt::join(names_of(commands), " "))));
  std::string flags = "  [.]='--help --version'\n", values, words;
  each_command(commands, "", [&](const std::string& path, const CommandShape& command) {
    if (!command.actions.empty())
      actions += fmt::format("  [{}]={}\n", in_quotes("." + path),
                             in_quotes(fmt::format("{}", fmt::join(names_of(command.actions), " "))));
    std::vector<std::string> names = {"--help"}, positional;
    for (const FlagShape* flag : command.named_flags()) {
      for (const std::string& name : flag->names) {
        names.push_back(name);
        if (flag->kind == ValueKind::none) continue;
        const auto list = words_of(*flag);
        values += fmt::format("  [{}]={}\n", in_quotes("." + path + " " + name),
                              in_quotes(flag->kind == ValueKind::number ? "@number"
                                        : list.empty()                  ? "@text"
                                                                        : fmt::format("{}", fmt::join(list, " "))));
      }
    }
    for (const FlagShape& argument : positional_of(command)) {
      for (const std::string& word : words_of(argument)) positional.push_back(word);
    }
    flags += fmt::format("  [{}]={}\n", in_quotes("." + path), in_quotes(fmt::format("{}", fmt::join(names, " "))));
    if (!positional.empty())
      words +=
          fmt::format("  [{}]={}\n", in_quotes("." + path), in_quotes(fmt::format("{}", fmt::join(positional, " "))));
  });
  return fmt::format(
      "# Completion of trireme for bash, written by `trireme completion bash`.\n"
      "declare -g _trireme_starters={}\ndeclare -gA _trireme_actions=(\n{})\ndeclare -gA _trireme_flags=(\n{})\n"
      "declare -gA _trireme_values=(\n{})\ndeclare -gA _trireme_words=(\n{})\n{}",
      in_quotes(fmt::format("{}", fmt::join(commands_with_commands(commands), " "))), actions, flags, values, words,
      kBashFunction);
}

std::string zsh_completion(const std::vector<CommandShape>& commands) {
  std::string out = "#compdef trireme\n# Completion of trireme for zsh, written by `trireme completion zsh`.\n\n";
  each_command(commands, "", [&](const std::string& path, const CommandShape& command) {
    out += zsh_function(zsh_name(path), command.named_flags(), positional_of(command), command.actions, path,
                        command.takes_command);
  });
  const std::vector<FlagShape> own = program_flags();
  std::vector<const FlagShape*> flags;
  for (const FlagShape& flag : own) flags.push_back(&flag);
  return out + zsh_function("_trireme", flags, {}, commands, "", false) + "_trireme \"$@\"\n";
}

std::string fish_completion(const std::vector<CommandShape>& commands) {
  std::string out = fmt::format(
      "# Completion of trireme for fish, written by `trireme completion fish`.\nset -g __trireme_starters {}\n{}\n",
      fmt::join(commands_with_commands(commands), " "), kFishFunctions);
  out += "function __trireme_flags\n    switch \"$argv[1]\"\n";
  for (const CommandShape& command : commands) {
    out += fmt::format("        case {}\n            string join \\n -- --help", command.name);
    for (const FlagShape* flag : command.named_flags()) out += " " + flag->names.back();
    out += '\n';
  }
  out += "    end\nend\ncomplete -c trireme -n __trireme_after_dashes -f -a '(__trireme_flags (__trireme_words))'\n";
  for (const CommandShape& command : commands)
    out += fmt::format("complete -c trireme -n __trireme_none -f -a {} -d {}\n", command.name,
                       in_fish_quotes(short_help(command.purpose)));
  out += "complete -c trireme -n __trireme_none -f -l version -d 'what this build supports'\n";
  out += "complete -c trireme -f -l help -d 'show the flags'\n";
  each_command(commands, "", [&](const std::string& path, const CommandShape& command) {
    for (const CommandShape& action : command.actions)
      out += fmt::format("complete -c trireme -n {} -f -a {} -d {}\n", in_fish_quotes("__trireme_only " + path),
                         action.name, in_fish_quotes(short_help(action.purpose)));
    const std::string at = in_fish_quotes("__trireme_at " + path);
    for (const FlagShape* flag : command.named_flags()) {
      std::string line = "complete -c trireme -n " + at;
      for (const std::string& name : flag->names)
        line += name.starts_with("--") ? " -l " + name.substr(2)
                : name.size() == 2     ? " -s " + name.substr(1)
                                       : " -o " + name.substr(1);
      const auto list = words_of(*flag);
      if (!list.empty())
        line += fmt::format(" {} -a {}", flag->value_is_optional ? "-f" : "-x",
                            in_fish_quotes(fmt::format("{}", fmt::join(list, " "))));
      if (list.empty() && flag->kind == ValueKind::number) line += " -x";
      if (list.empty() && flag->kind == ValueKind::text && !flag->value_is_optional) line += " -r";
      out += fmt::format("{} -d {}\n", line, in_fish_quotes(short_help(flag->help)));
    }
    for (const FlagShape& argument : positional_of(command)) {
      if (const auto list = words_of(argument); !list.empty())
        out += fmt::format("complete -c trireme -n {} -a {}\n", at,
                           in_fish_quotes(fmt::format("{}", fmt::join(list, " "))));
    }
  });
  return out;
}

}  // namespace trireme
