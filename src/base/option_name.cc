#include "base/option_name.h"

#include <algorithm>

namespace trireme {
namespace {

std::span<const OptionName>& names_of_command() {
  static std::span<const OptionName> names;
  return names;
}

}  // namespace

void set_option_names(std::span<const OptionName> names) { names_of_command() = names; }

std::string option_name(std::string_view native) {
  const std::string_view plain = native.substr(native.starts_with("--") ? 2 : 0);
  const auto names = names_of_command();
  const auto found = std::ranges::find(names, plain, &OptionName::native);
  return std::string(found == names.end() ? native : found->own);
}

}  // namespace trireme
