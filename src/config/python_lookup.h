#pragma once
// What the names, attributes, items and calls in an expression of a configuration file in Python mean. Nothing is
// executed: what is not known is opaque, and what could set names is an error.

#include <string>
#include <vector>

#include "config/python_expression.h"

namespace trireme {

/// Throws Error::config; with path and line where the functions take a token or a line.
class PythonLookup {
 public:
  /// Borrows both.
  PythonLookup(PythonScope& scope, const std::string& path) : scope_(scope), path_(path) {}

  PythonObject name(const PythonToken& token) const;
  PythonObject attribute(const PythonObject& of, const std::string& name, int line) const;
  PythonObject item(const PythonObject& container, const PythonObject& index) const;
  /// Refuses a call that could set names: functions of files could, those of Python and its modules cannot, with the
  /// arguments that are possible here.
  void require_harmless(const PythonObject& function, int line) const;
  /// Whether this name, before a '(', can be skipped with its arguments.
  bool is_harmless(const std::string& name, bool is_attribute) const;
  /// The result of a function from outside the file.
  PythonObject call(const PythonObject& function, const std::vector<PythonObject>& arguments) const;

 private:
  PythonScope& scope_;
  const std::string& path_;
};

}  // namespace trireme
