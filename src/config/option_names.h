#pragma once
// Names of options in messages. Code below the command line knows native options; a command may name them otherwise.

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

namespace trireme {

/// {"run.dir", "--output-dir"}, or with a value: {"precision.dtype bf16", "--bf16"}.
struct OptionName {
  std::string_view native, own;
};

/// The names that the users of a command know, where they differ from the native ones.
class OptionNames {
 public:
  OptionNames() = default;
  /// What the names view is constant.
  explicit OptionNames(std::vector<OptionName> names) : names_(std::move(names)) {}

  /// The name of a native option, with or without "--", for a message: the command's if it has one, else as given.
  std::string operator()(std::string_view native) const {
    const auto found = std::ranges::find(names_, native.substr(native.starts_with("--") ? 2 : 0), &OptionName::native);
    return std::string(found == names_.end() ? native : found->own);
  }

 private:
  std::vector<OptionName> names_;
};

}  // namespace trireme
