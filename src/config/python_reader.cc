#include "config/python_reader.h"

#include <algorithm>
#include <filesystem>

#include "base/error.h"
#include "config/python_arithmetic.h"
#include "config/python_statements.h"
#include "config/yaml_reader.h"

namespace trireme {
namespace {

using TokenKind = PythonToken::Kind;

/// The names that train.py has defined before it reads the file.
PythonNamespace main_namespace(PythonProgram& program) {
  PythonNamespace names{program, {}, {}, true};
  names.scope.environment = &program.environment;
  for (const char* module : {"os", "sys", "time", "math", "pickle", "torch"})
    names.scope.names.emplace(module, PythonObject::outside(module));
  names.scope.names.emplace("np", PythonObject::outside("numpy"));
  names.scope.names.emplace("__name__", PythonObject::of(std::string("__main__")));
  for (const auto& [name, value] : program.keys) names.scope.names[name] = PythonObject::of(value);
  return names;
}

std::vector<Setting> run_python(const std::string& text, const std::string& path, int layer,
                                std::map<std::string, Value> keys, bool leave_out_helpers) {
  PythonProgram program;
  program.keys = std::move(keys);
  program.folder = std::filesystem::path(path).parent_path().string();
  program.layer = layer;
  PythonNamespace names = main_namespace(program);
  PythonStatements(text, path, names).run();
  if (leave_out_helpers) {
    std::erase_if(names.settings, [&](const Setting& setting) {
      return program.keys.count(setting.key) == 0 && names.scope.read.count(setting.key) > 0;
    });
  }
  return std::move(names.settings);
}

}  // namespace

std::vector<Setting> parse_python(const std::string& text, const std::string& path, int layer,
                                  std::map<std::string, Value> names) {
  return run_python(text, path, layer, std::move(names), false);
}

std::vector<Setting> read_python(const std::string& path, int layer, std::map<std::string, Value> names) {
  return run_python(read_config_text(path), path, layer, std::move(names), true);
}

Value python_word(std::string_view text) {
  const std::string plain(text);
  try {
    const std::vector<PythonToken> tokens = python_tokens(text, "");
    size_t at = 0;
    const bool negative = tokens[0].is("-");
    at += negative || tokens[0].is("+");
    const PythonToken& token = tokens[at];
    const bool is_word = token.is("True") || token.is("False");
    const bool literal = is_word ? at == 0 : token.kind == TokenKind::number || token.kind == TokenKind::string;
    if (!literal || tokens[at + 1].kind != TokenKind::newline || tokens[at + 2].kind != TokenKind::end) return plain;
    if (is_word) return token.is("True");
    if (token.kind == TokenKind::string)
      return at > 0 || token.text[0] > '\'' ? Value(plain) : python_string(token, "");
    const Value value = python_number(token, "");
    return negative ? python_negate(value) : value;
  } catch (const Error&) {
    return plain;
  }
}

}  // namespace trireme
