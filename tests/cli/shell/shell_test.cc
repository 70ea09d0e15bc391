// Completions are judged by the shells themselves, manual pages by man and mandoc.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <string>
#include <vector>

#include "base/file.h"
#include "cli/command.h"
#include "cli/flags.h"
#include "cli/shell/shell.h"
#include "config/schema.h"
#include "tests/support/expect_error.h"
#include "tests/support/temporary_folder.h"

namespace trireme {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::UnorderedElementsAre;

/// What a program wrote, standard error included.
std::string output_of(const std::string& command) {
  std::FILE* const pipe = popen((command + " 2>&1").c_str(), "r");
  std::string text;
  std::array<char, 4096> part{};
  for (size_t bytes = 0; (bytes = std::fread(part.data(), 1, part.size(), pipe)) > 0;) text.append(part.data(), bytes);
  pclose(pipe);
  return text;
}

bool is_installed(const std::string& program) {
  return output_of("command -v " + program + " >/dev/null && echo yes") == "yes\n";
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) {
    if (!line.empty()) lines.push_back(line);
  }
  return lines;
}

const std::vector<CommandShape>& shapes() {
  static const std::vector<CommandShape> all = program_shape();
  return all;
}

const CommandShape& command_named(const std::string& name) {
  return *std::ranges::find(shapes(), name, &CommandShape::name);
}

std::vector<std::string> names_of_flags(const CommandShape& command) {
  std::vector<std::string> names;
  for (const FlagShape* flag : command.named_flags()) names.insert(names.end(), flag->names.begin(), flag->names.end());
  return names;
}

TEST(ProgramShape, HasEveryCommandThatPeopleCall) {
  std::vector<std::string> names;
  for (const CommandShape& shape : shapes()) {
    names.push_back(shape.name);
    EXPECT_FALSE(shape.purpose.empty()) << shape.name;
    EXPECT_FALSE(shape.flags.empty() && shape.actions.empty()) << shape.name;
  }
  for (const Command& command : commands())
    EXPECT_EQ(std::ranges::count(names, std::string(command.name)), command.internal ? 0 : 1) << command.name;
}

TEST(ProgramShape, TrainHasEveryOptionWithItsChoices) {
  const std::vector<std::string> names = names_of_flags(command_named("train"));
  for (const Option& option : schema().options()) EXPECT_THAT(names, Contains("--" + option.name));
  for (const FlagShape* flag : command_named("train").named_flags()) {
    if (flag->names[0] != "--optim.shard") continue;
    EXPECT_EQ(flag->choices, schema().find("optim.shard")->choices);
  }
}

TEST(ProgramShape, KnowsWhatFlagsTake) {
  Flags flags("test", "A purpose.");
  std::string file, word;
  std::vector<std::string> many;
  int64_t number = 3;
  bool on = false;
  flags.add("FILE", many, "files").required();
  flags.add("-o,--output", file, "where");
  flags.add("--count", number, "how many").in_range(1, 9).show_default();
  flags.add("--kind", word, "which").one_of({"a", "b"});
  flags.add_switch("--on", on, "is on");
  flags.add_action("act", "An action.");
  const CommandShape shape = flags.shape();
  ASSERT_EQ(shape.flags.size(), 5u);
  EXPECT_TRUE(shape.flags[0].is_positional() && shape.flags[0].repeats && shape.flags[0].required);
  EXPECT_THAT(shape.flags[1].names, ElementsAre("-o", "--output"));
  EXPECT_EQ(shape.flags[2].kind, ValueKind::number);
  EXPECT_EQ(shape.flags[2].limits, "1 to 9");
  EXPECT_EQ(shape.flags[2].fallback, "3");
  EXPECT_THAT(shape.flags[3].choices, ElementsAre("a", "b"));
  EXPECT_EQ(shape.flags[4].kind, ValueKind::none);
  EXPECT_EQ(shape.actions[0].name, "act");
}

class Completion : public testing::Test {
 protected:
  /// Of the last word; the words are those of readline, in which '=' is a word.
  std::vector<std::string> in_bash(const std::vector<std::string>& words) {
    write_text(folder_ / "trireme.bash", bash_completion(shapes()));
    std::string script = "source " + (folder_ / "trireme.bash") + "\nCOMP_WORDS=(";
    for (const std::string& word : words) script += "'" + word + "' ";
    script += ")\nCOMP_CWORD=" + std::to_string(words.size() - 1) + "\n_trireme\nprintf '%s\\n' \"${COMPREPLY[@]}\"\n";
    write_text(folder_ / "ask.bash", script);
    return lines_of(output_of("bash --norc " + (folder_ / "ask.bash")));
  }
  /// Candidates without their descriptions.
  std::vector<std::string> in_fish(const std::string& line) {
    write_text(folder_ / "trireme.fish", fish_completion(shapes()));
    write_text(folder_ / "ask.fish", "source " + (folder_ / "trireme.fish") + "\ncomplete -C '" + line + "'\n");
    std::vector<std::string> words =
        lines_of(output_of("HOME=" + folder_.path() + " fish --no-config " + (folder_ / "ask.fish")));
    for (std::string& word : words) word = word.substr(0, word.find('\t'));
    return words;
  }
  /// What an interactive zsh writes when Tab is pressed after the line.
  std::string in_zsh(const std::string& line) {
    write_text(folder_ / "_trireme", zsh_completion(shapes()));
    // What is typed is echoed, so the words to wait for are put together by the shell. After the prompt the editor gets
    // what is typed. Ctrl-U takes back what Tab wrote.
    std::string script = R"(zmodload zsh/zpty
zpty z zsh -f -i
zpty -w z "stty columns 200 rows 500; TERM=dumb; fpath=(FOLDER \$fpath); LISTMAX=9999"
zpty -w z "autoload -Uz compinit; compinit -u -d FOLDER/dump; PS1='REA''DY>'"
zpty -r z text '*READY>*'
zpty -w -n z "$1"$'\t\t'
zpty -w z $'\C-u'"print -r -- FINI''SHED"
while zpty -r z text; do print -rn -- $text; [[ $text == *FINISHED* ]] && break; done
zpty -d z
)";
    for (size_t at = 0; (at = script.find("FOLDER")) != std::string::npos;) script.replace(at, 6, folder_.path());
    write_text(folder_ / "ask.zsh", script);
    return output_of("HOME=" + folder_.path() + " timeout 60 zsh -f " + (folder_ / "ask.zsh") + " '" + line + "'");
  }

  TemporaryFolder folder_;
};

TEST_F(Completion, BashCompletesCommandsActionsFlagsAndValues) {
  EXPECT_THAT(in_bash({"trireme", "st"}), UnorderedElementsAre("status", "stop"));
  EXPECT_THAT(in_bash({"trireme", "data", "me"}), ElementsAre("merge"));
  EXPECT_THAT(in_bash({"trireme", "data", "merge", "--o"}), ElementsAre("--output"));
  EXPECT_THAT(in_bash({"trireme", "train", "--optim.shard", ""}),
              testing::ElementsAreArray(schema().find("optim.shard")->choices));
  EXPECT_THAT(in_bash({"trireme", "train", "--optim.shard", "=", "o"}), ElementsAre("optimizer"));
  EXPECT_THAT(in_bash({"trireme", "train", "--optim.shard", "="}), Contains("optimizer"));
  EXPECT_THAT(in_bash({"trireme", "train", "--log.jsonl", "f"}), ElementsAre("false"));
  EXPECT_THAT(in_bash({"trireme", "train", "--log.jsonl", "--run.ste"}), ElementsAre("--run.steps"))
      << "it needs no value";
  EXPECT_THAT(in_bash({"trireme", "bench", "comm", "--minb"}), ElementsAre("--minbytes"));
  EXPECT_THAT(in_bash({"trireme", "completion", "z"}), ElementsAre("zsh"));
}

TEST_F(Completion, BashLeavesFilesAndNumbersToItself) {
  EXPECT_THAT(in_bash({"trireme", "report", "--output", ""}), IsEmpty());
  EXPECT_THAT(in_bash({"trireme", "train", "--run.steps", ""}), IsEmpty());
  EXPECT_THAT(in_bash({"trireme", "train", "conf"}), IsEmpty());
}

TEST_F(Completion, BashStartsAgainAfterTheDashesOfALaunch) {
  EXPECT_THAT(in_bash({"trireme", "launch", "-f", "hosts", "--", "tr"}), ElementsAre("train"));
  EXPECT_THAT(in_bash({"trireme", "slurm", "--nodes", "2", "--", "train", "--run.ste"}), ElementsAre("--run.steps"));
  EXPECT_THAT(in_bash({"trireme", "launch", "--preflight-o"}), ElementsAre("--preflight-only"));
}

TEST_F(Completion, FishCompletesCommandsActionsFlagsAndValues) {
  if (!is_installed("fish")) GTEST_SKIP() << "fish is not installed";
  EXPECT_THAT(in_fish("trireme st"), UnorderedElementsAre("status", "stop"));
  EXPECT_THAT(in_fish("trireme data me"), ElementsAre("merge"));
  EXPECT_THAT(in_fish("trireme data merge --o"), ElementsAre("--output"));
  EXPECT_THAT(in_fish("trireme train --optim.shard "),
              testing::UnorderedElementsAreArray(schema().find("optim.shard")->choices));
  EXPECT_THAT(in_fish("trireme train --run.ste"), ElementsAre("--run.steps"));
  EXPECT_THAT(in_fish("trireme launch -f hosts -- tr"), ElementsAre("train"));
  EXPECT_THAT(in_fish("trireme launch -f hosts -- train --run.ste"), ElementsAre("--run.steps"));
}

TEST_F(Completion, ZshCompletesCommandsActionsFlagsAndValues) {
  if (!is_installed("zsh")) GTEST_SKIP() << "zsh is not installed";
  EXPECT_THAT(in_zsh("trireme st"), testing::AllOf(HasSubstr("status"), HasSubstr("stop")));
  EXPECT_THAT(in_zsh("trireme data "), testing::AllOf(HasSubstr("merge"), HasSubstr("verify")));
  EXPECT_THAT(in_zsh("trireme train --optim.sh"),
              testing::AllOf(HasSubstr("--optim.shard-group"), Not(HasSubstr("--run.steps"))));
  EXPECT_THAT(in_zsh("trireme train --optim.shard "), testing::AllOf(HasSubstr("gradients"), HasSubstr("parameters")));
  EXPECT_THAT(in_zsh("trireme launch -f hosts -- train --run.s"),
              testing::AllOf(HasSubstr("--run.steps"), HasSubstr("--run.seed")));
}

class Manual : public testing::Test {
 protected:
  Manual() {
    setenv("SOURCE_DATE_EPOCH", "1700000000", 1);
    EXPECT_EQ(run_manual({"--output", folder_ / "man1"}), 0);
    unsetenv("SOURCE_DATE_EPOCH");
  }
  std::string page(const std::string& name) const { return read_text(folder_ / ("man1/" + name + ".1")); }

  TemporaryFolder folder_;
};

TEST_F(Manual, HasAPagePerCommandWithAllFlags) {
  for (const CommandShape& shape : shapes()) {
    const std::string text = page("trireme-" + shape.name);
    EXPECT_THAT(text, HasSubstr("\"2023-11-14\""));
    EXPECT_THAT(page("trireme"), HasSubstr("\\fB" + shape.name + "\\fR"));
    for (std::string name : names_of_flags(shape)) {
      for (size_t at = 0; (at = name.find('-', at)) != std::string::npos; at += 2) name.insert(at, "\\");
      EXPECT_THAT(text, HasSubstr("\\fB" + name + "\\fR")) << shape.name;
    }
  }
}

TEST_F(Manual, IsShownByManWithoutAWarning) {
  if (!is_installed("man")) GTEST_SKIP() << "man is not installed";
  EXPECT_EQ(output_of("LC_ALL=C.UTF-8 MANWIDTH=100 man --warnings -E UTF-8 -l -Tutf8 -Z " +
                      (folder_ / "man1/trireme-train.1") + " >/dev/null"),
            "");
  const std::string text =
      output_of("LC_ALL=C.UTF-8 MANWIDTH=100 man -P cat -l " + (folder_ / "man1/trireme-report.1"));
  EXPECT_THAT(text, HasSubstr("--output TEXT"));
  EXPECT_THAT(text, HasSubstr("page to write"));
}

TEST_F(Manual, PassesTheLintOfMandoc) {
  if (!is_installed("mandoc")) GTEST_SKIP() << "mandoc is not installed";
  EXPECT_EQ(output_of("mandoc -T lint -W warning " + (folder_ / "man1/*.1")), "");
}

TEST(Shell, WrongWordsAreNamed) {
  EXPECT_ERROR(run_completion({"tcsh"}), ErrorKind::usage, "tcsh");
  EXPECT_ERROR(run_manual({"trian"}), ErrorKind::usage, "unknown command \"trian\"; nearest is \"train\"");
  EXPECT_ERROR(run_manual({"train", "--output", "x"}), ErrorKind::usage, "--output writes all pages; remove train");
  setenv("SOURCE_DATE_EPOCH", "soon", 1);
  EXPECT_ERROR(run_manual({}), ErrorKind::usage, "SOURCE_DATE_EPOCH is \"soon\", expected seconds since 1970");
  unsetenv("SOURCE_DATE_EPOCH");
}

}  // namespace
}  // namespace trireme
