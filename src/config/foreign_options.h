#pragma once
// Options of other programs as people type them here: nanoGPT's sample.py and bench.py, transformers' run_glue,
// metaseq's launcher and train.py, NeoX, DeepSpeed, accelerate, torchrun, mpirun. One table says of each what it is in
// which command; every command reads its flags through it. Configuration files and the flags of a dialect are
// config/dialect.h's.

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace trireme {

struct ForeignOption {
  enum class Kind {
    same,       ///< text: the native spelling, "--model" or with its value "--dtype=f32"
    no_effect,  ///< text: why neither numbers nor outputs depend on it here; may be empty
    elsewhere,  ///< refused; text: what to use instead
  };
  const char* commands;  ///< words of the commands with '|' between: "launch|hosts", "bench step"
  const char* name;      ///< with its dashes; "--dtype=float32": of this value only
  Kind kind;
  const char* text;
  /// elsewhere: values that change nothing and are taken, with '|' between; nullptr: none.
  const char* harmless = nullptr;
  bool is_switch = false;  ///< no_effect: takes no value; the next word is one only if it is True or False
};

std::span<const ForeignOption> foreign_options();
/// metaseq's part of foreign_options().
std::span<const ForeignOption> metaseq_options();

/// Their names after `command`, without the first dashes.
std::vector<std::string> foreign_names(std::string_view command);

/// What `command` makes of an option with this value, if it is a foreign one; '_' equals '-'.
const ForeignOption* find_foreign(std::string_view command, std::string_view name, std::string_view value);

/// Rewrites the words to native ones: renames, takes out what has no effect with a line about each. What `knows` says
/// the command has is left alone but for entries of a single value. A value is behind '=' or the next word.
/// Throws Error::config at a refused one: "NAME VALUE is not supported; instead: ...".
void take_foreign_options(std::string_view command, const std::function<bool(const std::string& name)>& knows,
                          std::vector<std::string>& words);

/// For --help: the options of a command that have no effect, and those that are refused with what to use instead.
std::string foreign_options_help(std::string_view command);

}  // namespace trireme
