#pragma once
// Configuration files in Python, as nanoGPT executes them after its own defaults: assignments of all forms,
// expressions (config/python_values.h), `if`, imports of files beside it, `exec(open(FILE).read())`, `print`.
// Every other statement is an error: nothing that could set a value is skipped.

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "config/setting.h"

namespace trireme {

/// Settings in the order of assignment, with the file and line of the statement; if a name is assigned twice, the last
/// value counts, as in Python. `names`: the keys with their defaults, which expressions may use. Modules are searched
/// in the working directory, as in Python, and then in the file's folder. A value that only execution would give, or
/// that is not a single value, becomes a setting with a problem. Throws Error::config with path and line for everything
/// else. read_python() leaves out names that are not keys and that an expression used: variables of the file.
std::vector<Setting> read_python(const std::string& path, int layer, std::map<std::string, Value> names);
std::vector<Setting> parse_python(const std::string& text, const std::string& path, int layer,
                                  std::map<std::string, Value> names);

/// A word of the command line as a Python literal (True, 3, 1e-4, 'text'), else itself as text.
Value python_word(std::string_view text);

}  // namespace trireme
