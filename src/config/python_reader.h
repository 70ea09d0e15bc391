#pragma once
// Configuration files in Python, as nanoGPT runs them in the place of its own defaults: assignments of all forms,
// expressions (config/python_expression.h), `if`, imports of files beside it, `exec(open(FILE).read())`, `print`.
// Every other statement is refused: nothing that could set a value is skipped.

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "config/setting.h"

namespace trireme {

/// Settings in the order assigned, with the file and line of the statement that did; of a name assigned twice the last
/// one stays, as in Python. `names`: the keys with their defaults, which expressions may use. Modules are looked for in
/// the working directory, as Python does, and then in the file's folder. What would have to be executed, and what is no
/// single value, becomes a setting with a problem. Throws Error::config with path and line for everything else.
/// read_python() leaves out what is no key and was used by an expression: a variable of the file.
std::vector<Setting> read_python(const std::string& path, int layer, std::map<std::string, Value> names);
std::vector<Setting> parse_python(const std::string& text, const std::string& path, int layer,
                                  std::map<std::string, Value> names);

/// A word of the command line as a Python literal (True, 3, 1e-4, 'text'), else itself as text.
Value python_word(std::string_view text);

}  // namespace trireme
