#pragma once
// Options of other programs as people type them here: nanoGPT's sample.py and bench.py, transformers' run_glue,
// metaseq's launcher and train.py, NeoX, DeepSpeed, accelerate, torchrun, mpirun. One table says for each option and
// command what Trireme does with it; every command reads its flags through it. config/dialect.h handles configuration
// files and the flags of a dialect.

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace trireme {

struct ForeignOption {
  enum class Kind {
    same,       ///< text: the native spelling, "--model" or with its value "--dtype=f32"
    no_effect,  ///< text: why it changes neither numbers nor outputs here; may be empty
    elsewhere,  ///< refused; text: what to use instead
  };
  const char* commands;   ///< words of the commands with '|' between: "launch|hosts", "bench step"
  std::string_view name;  ///< with its dashes; "--dtype=float32": of this value only; in a table several with blanks
  Kind kind;
  const char* text;
  /// elsewhere: accepted values, which change nothing, with '|' between; nullptr: none.
  const char* harmless = nullptr;
  bool is_switch = false;  ///< takes no value; the next word is one only if it is True or False
};

std::span<const ForeignOption> foreign_options();
/// metaseq's part of the table.
std::span<const ForeignOption> metaseq_table();

/// Their names after `command`, without the first dashes.
std::vector<std::string> foreign_names(std::string_view command);

/// The entry of an option with this value in `command`, if it is a foreign one; '_' equals '-'.
const ForeignOption* find_foreign(std::string_view command, std::string_view name, std::string_view value);

/// Rewrites the words to native ones: renames options, and removes those without effect with a log line for each.
/// Options that the command itself has according to `knows` stay unchanged, except for entries of a single value. A
/// value follows '=' or is the next word. Refused options are removed; returns why, for each: "NAME VALUE is not
/// supported; instead: ...".
[[nodiscard]] std::vector<std::string> take_foreign_options(std::string_view command,
                                                            const std::function<bool(const std::string& name)>& knows,
                                                            std::vector<std::string>& words);

/// For --help: the options of a command that have no effect, and those that are refused with what to use instead.
std::string foreign_options_help(std::string_view command);

}  // namespace trireme
