#pragma once
// Names of options in messages. Code below the command line knows native options; a command may name them otherwise.

#include <span>
#include <string>
#include <string_view>

namespace trireme {

/// {"run.dir", "--output-dir"}, or with a value: {"precision.dtype bf16", "--bf16"}.
struct OptionName {
  std::string_view native, own;
};

/// Called once by a command whose users know other names, before messages are made. What `names` views stays.
void set_option_names(std::span<const OptionName> names);

/// The name of a native option, with or without "--", for a message: that of the running command if it has one, else as
/// it was given.
std::string option_name(std::string_view native);

}  // namespace trireme
