#pragma once
// Expressions of a configuration file in Python: literals, arithmetic, comparisons, conditions, formatted strings, and
// the calls that python_call() knows. Anything else that would have to be executed gives an opaque object, or an error
// if executing it could set names.

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "config/python_tokens.h"
#include "config/python_values.h"

namespace trireme {

/// State that one configuration file shares with all files that it reads.
struct PythonProgram {
  std::map<std::string, Value> keys;
  std::string folder;  ///< of the configuration file
  int layer = 0;
  PythonEnvironment environment;
  std::map<std::string, std::shared_ptr<const PythonModule>> modules;  ///< by path
  int files = 0, depth = 0;  ///< files run so far, and how deep they are nested
};

/// The names of a file and of the files that it runs with exec().
struct PythonNamespace {
  PythonProgram& program;
  std::map<std::string, PythonObject> names;
  std::set<std::string> read;  ///< names that an expression used
  std::vector<Setting> settings;
  bool is_main = false;  ///< it contains nanoGPT's own names
};

/// One expression, or `several` separated by commas as a sequence; the cursor moves past it. Expressions may nest 64
/// levels deep, of which `depth` are in use. Throws PythonError.
PythonObject evaluate_python(PythonCursor& in, PythonNamespace& names, bool several = true, int depth = 0);

/// Whether the sign is an operator that an assignment can contain, as the + of +=.
bool is_python_operator(std::string_view sign);

}  // namespace trireme
