#pragma once
// Expressions of a configuration file in Python: literals, arithmetic, comparisons, conditions, formatted strings, and
// the calls that python_call() knows. Anything else that would have to be executed gives an opaque object, or an error
// if executing it could set names.

#include <map>
#include <set>
#include <string>
#include <vector>

#include "config/python_object.h"
#include "config/python_tokens.h"

namespace trireme {

/// Where names are looked up.
struct PythonScope {
  std::map<std::string, PythonObject> names;
  std::set<std::string> read;  ///< names that an expression used
  PythonEnvironment* environment = nullptr;
};

/// Signs before an expression use no stack; everything else may nest this deep.
constexpr int kMostPythonDepth = 64;

/// One expression, or several separated by commas as a sequence, from tokens[at] on; `at` moves past it.
/// Throws Error::config with path and line.
PythonObject evaluate_python(const std::vector<PythonToken>& tokens, size_t& at, PythonScope& scope,
                             const std::string& path);
/// One expression without commas around it.
PythonObject evaluate_one_python(const std::vector<PythonToken>& tokens, size_t& at, PythonScope& scope,
                                 const std::string& path);

/// The value of a number or of a string without formatted parts.
Value python_number(const PythonToken& token, const std::string& path);
std::string python_string(const PythonToken& token, const std::string& path);

/// The rest of the line from this token on, cut to 40 characters, for messages.
std::string python_rest_of_line(const PythonToken& token, std::string_view text);

}  // namespace trireme
