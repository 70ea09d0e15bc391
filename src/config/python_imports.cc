// Imports of config/python_statements.h.

#include <filesystem>

#include "base/error.h"
#include "config/python_statements.h"
#include "config/yaml_reader.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;
using Kind = PythonObject::Kind;
using TokenKind = PythonToken::Kind;

/// The file of a module in `folder`: x.py, x/__init__.py, or "" with `is_folder` for a folder of modules.
std::string module_file(const fs::path& folder, const std::string& dotted, bool& is_folder) {
  std::string relative = dotted;
  std::ranges::replace(relative, '.', '/');
  const fs::path base = folder / relative;
  std::error_code unreadable;
  is_folder = false;
  for (const fs::path& file : {base / "__init__.py", fs::path(base.string() + ".py")}) {
    if (fs::is_regular_file(file, unreadable)) return file.lexically_normal().string();
  }
  is_folder = fs::is_directory(base, unreadable);
  return is_folder ? base.lexically_normal().string() : "";
}

PythonObject module_object(std::shared_ptr<const PythonModule> module) {
  return {Kind::module, {}, "", {}, std::move(module), 0};
}

/// An error in a file that another file imports.
class ImportedFileError : public Error {
 public:
  explicit ImportedFileError(const std::string& message) : Error(ErrorKind::config, message) {}
};

}  // namespace

/// nullptr: no file of that name. `whole`: a file that cannot be read completely is an error; otherwise its names are
/// unknown.
std::shared_ptr<const PythonModule> PythonStatements::module_of(const std::string& dotted, bool whole,
                                                                const PythonToken& place) {
  PythonProgram& program = names_.program;
  if (is_python_library(dotted.substr(0, dotted.find('.')))) return nullptr;
  std::string file;
  bool is_folder = false;
  for (const std::string& folder : {std::string(), program.folder}) {
    if (file.empty()) file = module_file(folder, dotted, is_folder);
  }
  if (file.empty()) return nullptr;
  auto& known = program.modules[file];
  if (known && (known->known || !whole)) return known;
  auto module = std::make_shared<PythonModule>();
  module->name = dotted;
  if (is_folder) return known = module;
  PythonNamespace inner{program, {}, {}, false};
  inner.scope.environment = &program.environment;
  inner.scope.names["__name__"] = PythonObject::of(dotted);
  try {
    const std::string text = read_config_text(file);
    PythonStatements(text, file, inner).run();
  } catch (const ImportedFileError&) {
    if (whole) throw;  // the message already names the importing line
    module->known = false;
  } catch (const Error& e) {
    if (whole) throw ImportedFileError(fmt::format("{} (read for {}:{})", e.what(), path_, place.line));
    module->known = false;
  }
  inner.scope.names.erase("__name__");
  module->names = std::move(inner.scope.names);
  if (!module->known) module->names.clear();
  return program.modules[file] = module;
}

void PythonStatements::import_modules() {
  const PythonToken& place = peek();
  ++at_;
  do {
    const std::string dotted = dotted_name(), alias = alias_or("");
    if (dotted.empty() || dotted.ends_with('.') || dotted == "__main__") refuse(place);
    const std::string first = dotted.substr(0, dotted.find('.'));
    const std::string shown = "import " + dotted;
    const auto module = module_of(dotted, false, place);
    if (!module) {
      assign(alias.empty() ? first : alias, PythonObject::outside(alias.empty() ? first : dotted), place.line, shown);
      continue;
    }
    PythonObject object = module_object(module);
    for (std::string name = dotted; alias.empty() && name != first;) {  // config.base is found as base in config
      const std::string last = name.substr(name.rfind('.') + 1);
      name.resize(name.rfind('.'));
      auto outer = std::make_shared<PythonModule>();
      const auto before = names_.scope.names.find(name);
      if (before != names_.scope.names.end() && before->second.kind == Kind::module) *outer = *before->second.module;
      if (const auto package = module_of(name, false, place)) {
        for (const auto& [key, value] : package->names) outer->names.emplace(key, value);
      }
      outer->name = name;
      outer->names[last] = object;
      object = module_object(outer);
    }
    assign(alias.empty() ? first : alias, object, place.line, shown);
  } while (take(","));
  end_statement();
}

void PythonStatements::import_star(const PythonToken& place, const PythonModule& module) {
  const auto all = module.names.find("__all__");
  if (all != module.names.end()) {
    if (all->second.kind != Kind::sequence)
      fail_at(place, fmt::format("{}: __all__ is not a list of known strings", module.name));
    for (const PythonObject& item : *all->second.items) {
      const std::string* name = item.as_text();
      const auto found = name == nullptr ? module.names.end() : module.names.find(*name);
      if (found == module.names.end())
        fail_at(place, fmt::format("{}: __all__ has a name that the module does not define", module.name));
      assign(*name, found->second, place.line, *name);
    }
    return;
  }
  for (const auto& [name, value] : module.names) {
    if (!name.starts_with('_')) assign(name, value, place.line, fmt::format("from {} import *", module.name));
  }
}

void PythonStatements::import_names() {
  const PythonToken& place = peek();
  ++at_;
  if (peek().is(".") || peek().is("...")) {
    fail_at(place, fmt::format("`{}`: relative imports are not supported; name the module from the working directory",
                               python_rest_of_line(place, text_)));
  }
  const std::string dotted = dotted_name();
  if (dotted.empty() || dotted == "__main__" || !take("import")) refuse(place);
  if (dotted == "__future__") {
    while (peek().kind != TokenKind::newline && peek().kind != TokenKind::end && !peek().is(";")) ++at_;
    return end_statement();
  }
  const bool star = take("*");
  const auto module = module_of(dotted, star, place);
  if (star) {
    std::string file = dotted;
    std::ranges::replace(file, '.', '/');
    if (!module)
      fail_at(place,
              fmt::format("`{}`: no {}.py in the working directory or beside this file; write the assignments instead",
                          python_rest_of_line(place, text_), file));
    import_star(place, *module);
    return end_statement();
  }
  const bool bracket = take("(");
  do {
    if (bracket && peek().is(")")) break;
    if (peek().kind != TokenKind::name) refuse(place);
    const std::string name(peek().text);
    ++at_;
    const std::string alias = alias_or(name);
    const std::string shown = fmt::format("from {} import {}", dotted, name);
    if (!module) {
      assign(alias, PythonObject::outside(dotted + "." + name), place.line, shown);
      continue;
    }
    const auto found = module->names.find(name);
    if (found != module->names.end()) {
      assign(alias, found->second, place.line, shown);
    } else if (const auto inner = module_of(dotted + "." + name, false, place)) {
      assign(alias, module_object(inner), place.line, shown);
    } else {
      if (module->known) fail_at(place, fmt::format("module {} has no \"{}\"", dotted, name));
      assign(alias, PythonObject::outside(dotted + "." + name), place.line, shown);
    }
  } while (take(","));
  if (bracket && !take(")")) fail_at(place, "missing ')'");
  end_statement();
}

}  // namespace trireme
