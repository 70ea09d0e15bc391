#pragma once
// Configuration files that are Python assignments (`name = expression`), read without executing anything: literals,
// names assigned before, arithmetic. What would have to be executed becomes a setting with a problem.

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "config/setting.h"

namespace trireme {

/// Settings in the order assigned; of a name assigned twice the last one stays, as in Python. `names`: values that
/// expressions may use beside those assigned before. `import` lines and doc strings are skipped. Throws Error::config
/// with path and line for everything else that is not an assignment, for unknown names and for arithmetic that fails.
std::vector<Setting> read_python(const std::string& path, int layer, std::map<std::string, Value> names);
std::vector<Setting> parse_python(const std::string& text, const std::string& path, int layer,
                                  std::map<std::string, Value> names);

/// A word of the command line as a Python literal (True, 3, 1e-4, 'text'), else itself as text.
Value python_word(std::string_view text);

}  // namespace trireme
