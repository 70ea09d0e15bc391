#include "config/python_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "base/error.h"
#include "config/python_values.h"
#include "config/yaml_reader.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;
using Kind = PythonObject::Kind;
using TokenKind = PythonToken::Kind;

constexpr const char* kSupported = "only assignments, `if`, imports, print() and exec(open(FILE).read()) are supported";

/// The file of a module in `folder`: x/__init__.py, x.py, or the folder x of modules; "" if there is none.
std::string module_file(const fs::path& folder, const std::string& dotted) {
  std::string relative = dotted;
  std::ranges::replace(relative, '.', '/');
  const fs::path base = folder / relative;
  std::error_code unreadable;
  for (const fs::path& file : {base / "__init__.py", fs::path(base.string() + ".py")}) {
    if (fs::is_regular_file(file, unreadable)) return file.lexically_normal().string();
  }
  return fs::is_directory(base, unreadable) ? base.lexically_normal().string() : "";
}

/// The statements of a file, or of a text that exec() gets.
class PythonFile : private PythonCursor {
 public:
  PythonFile(std::string_view code, std::string file, PythonNamespace& names, int line = 1)
      : PythonCursor(code, std::move(file), line), names_(names), program_(names.program) {
    constexpr int kMostFiles = 100, kMostDepth = 16;
    if (program_.files >= kMostFiles || program_.depth >= kMostDepth)
      fail_at({{}, {}, line}, "configuration files include each other in an endless loop");
    ++program_.files;
    ++program_.depth;
  }
  PythonFile(const PythonFile&) = delete;
  PythonFile& operator=(const PythonFile&) = delete;
  ~PythonFile() { --program_.depth; }

  void run() {
    while (peek().kind != TokenKind::end) statement();
  }

 private:
  [[noreturn]] void refuse(const PythonToken& token) const {
    fail_at(token, fmt::format("found \"{}\"; {}", rest_of_line(token), kSupported));
  }
  PythonObject expressions() { return evaluate_python(*this, names_); }
  bool ends_statement(size_t ahead = 0) const { return peek(ahead).ends_line() || peek(ahead).is(";"); }

  void statement() {
    const PythonToken& first = peek();
    if (first.kind == TokenKind::indent) fail_at(first, fmt::format("unexpected indentation; {}", kSupported));
    if (first.is("if")) return branch();
    if (first.is("def")) return definition();
    if (!ends_statement()) simple_statement();
    if (!ends_statement()) fail_here(fmt::format("found \"{}\" after the value", rest_of_line(peek())));
    at += peek().kind != TokenKind::end;
  }

  void simple_statement() {
    const PythonToken& first = peek();
    size_t strings = 0;
    while (peek(strings).kind == TokenKind::string) ++strings;
    if (take("pass") || take("...")) return;
    if (take("global")) {
      while (peek().kind == TokenKind::name || peek().is(",")) ++at;
    } else if (strings > 0 && ends_statement(strings)) {  // a doc string
      at += strings;
    } else if (first.is("print") && peek(1).is("(")) {
      expressions();
    } else if (first.is("exec") && peek(1).is("(")) {
      execute();
    } else if (take("import")) {
      import_modules(first);
    } else if (take("from")) {
      import_names(first);
    } else if (take("del")) {
      remove(first);
    } else if (take("assert")) {
      check(first);
    } else {
      assignment();
    }
  }

  // Assignments

  struct Place {
    const PythonToken* token;
    std::string name;
    bool is_variable;  ///< of the environment
  };
  struct Target {
    std::vector<Place> places;
    bool apart = false;  ///< the value is a list that is unpacked: each place gets an item
  };

  static bool is_augmented(const PythonToken& token) {
    return token.kind == TokenKind::sign && token.text.ends_with('=') &&
           is_python_operator(token.text.substr(0, token.text.size() - 1));
  }
  /// The '=' of this statement that comes next; nothing if there is none.
  std::optional<size_t> next_equals() const {
    const size_t place = find({"=", ";", "lambda"});
    return tokens[place].is("=") ? std::optional(place) : std::nullopt;
  }

  void assignment() {
    const PythonToken& first = peek();
    if (is_python_keyword(first.text)) refuse(first);
    if (first.kind == TokenKind::name && is_augmented(peek(1))) return augmented();
    std::vector<Target> targets;
    if (first.kind == TokenKind::name && peek(1).is(":") && next_equals()) {  // batch_size: int = 4
      targets.push_back({{{&first, std::string(first.text), false}}, false});
      at = *next_equals() + 1;
    }
    for (auto sign = next_equals(); sign; sign = next_equals()) targets.push_back(target_before(*sign));
    if (targets.empty()) refuse(first);
    const PythonToken& value_start = peek();
    const PythonObject value = expressions();
    const std::string shown = rest_of_line(value_start);
    if (!ends_statement()) return;  // an error, which statement() reports
    for (const Target& target : targets) assign_to(target, value, shown);
  }

  /// The left side of the '=' at this place; the cursor moves past it.
  Target target_before(size_t sign) {
    const PythonToken& first = peek();
    const std::string_view closing = take("(") ? ")" : take("[") ? "]" : "";
    Target target{{}, closing == "]"};
    while (at < sign && (closing.empty() || !peek().is(closing))) {
      target.places.push_back(next_place(first));
      if (!take(",")) break;
      target.apart = true;
    }
    if ((!closing.empty() && !take(closing)) || at != sign || target.places.empty()) refuse(first);
    ++at;
    return target;
  }

  /// A name, globals()["name"] or os.environ["NAME"].
  Place next_place(const PythonToken& first) {
    const PythonToken& token = peek();
    const auto begins = [this](std::initializer_list<const char*> words) {
      size_t ahead = 0;
      return std::ranges::all_of(words, [&](const char* word) { return peek(ahead++).is(word); });
    };
    const bool is_variable = begins({"os", ".", "environ", "["});
    if (is_variable || begins({"globals", "(", ")", "["})) {
      at += 4;
      const PythonObject name = evaluate_python(*this, names_, false);
      if (!take("]") || name.as_text() == nullptr) refuse(first);
      return {&token, *name.as_text(), is_variable};
    }
    if (token.kind != TokenKind::name || is_python_keyword(token.text)) refuse(first);
    ++at;
    return {&token, std::string(token.text), false};
  }

  void assign_to(const Target& target, const PythonObject& value, const std::string& shown) {
    const std::vector<Place>& places = target.places;
    if (!target.apart) return assign_one(places[0], value, shown);
    const bool known = value.kind == Kind::sequence;
    if (value.is_value())
      fail_at(*places[0].token, fmt::format("`{}` is a single value and cannot be unpacked", shown));
    if (known && value.items->size() != places.size())
      fail_at(*places[0].token,
              fmt::format("{} names on the left, but {} values on the right", places.size(), value.items->size()));
    for (size_t i = 0; i < places.size(); ++i)
      assign_one(places[i], known ? (*value.items)[i] : PythonObject::opaque(), shown);
  }

  void assign_one(const Place& place, const PythonObject& value, const std::string& shown) {
    if (!place.is_variable) return assign(place.name, value, *place.token, shown);
    if (value.as_text() == nullptr)
      fail_at(*place.token, fmt::format("an environment variable is set to `{}`, which is not a known string", shown));
    program_.environment[place.name] = *value.as_text();
  }

  void augmented() {
    const PythonToken& target = peek();
    const std::string name(target.text), sign(peek(1).text.substr(0, peek(1).text.size() - 1));
    const auto before = names_.names.find(name);
    if (before == names_.names.end()) fail_at(target, fmt::format("\"{}\" has no value here; assign it first", name));
    const PythonObject old = before->second;
    at += 2;
    const PythonToken& value_start = peek();
    const PythonObject change = expressions();
    if (!old.is_value() && !old.is_opaque()) refuse(target);
    try {
      assign(name, python_combine(sign, old, change), target,
             fmt::format("{} {}= {}", name, sign, rest_of_line(value_start)));
    } catch (const Error& e) {
      fail_at(target, e.what());
    }
  }

  /// `shown`: the assigned expression, for messages.
  void assign(const std::string& name, const PythonObject& value, const PythonToken& place, const std::string& shown) {
    if (lists_word("True False None", name)) fail_at(place, fmt::format("cannot assign to {}", name));
    names_.names[name] = value;
    std::erase_if(names_.settings, [&](const Setting& earlier) { return earlier.key == name; });
    const bool is_tool = value.kind == Kind::module || value.kind == Kind::outside || value.kind == Kind::function;
    if (!program_.keys.contains(name) && (is_tool || name.starts_with('_'))) return;
    Setting setting{name, value.value, to_text(value.value), {path, place.line, program_.layer}, ""};
    if (!value.is_value() || value.value.index() == 0) {
      setting.value = {};
      setting.text = "";
      setting.problem = value.is_value()               ? "None"
                        : value.kind == Kind::sequence ? "a list"
                        : value.kind == Kind::mapping
                            ? "a dictionary"
                            : fmt::format("`{}`, which is not known without executing code", shown);
    }
    names_.settings.push_back(std::move(setting));
  }

  // Other simple statements

  /// exec(open(FILE).read()), or exec() of any known text, at the place of this statement.
  void execute() {
    const PythonToken& first = peek();
    at += 2;
    const PythonObject code = evaluate_python(*this, names_, false);
    if (!take(")") || code.as_text() == nullptr) refuse(first);
    const bool from_file = !code.text.empty();
    PythonFile(*code.as_text(), from_file ? code.text : path, names_, from_file ? 1 : first.line).run();
  }

  void remove(const PythonToken& first) {
    do {
      const std::string name(peek().text);
      if (peek().kind != TokenKind::name || names_.names.erase(name) == 0) refuse(first);
      if (program_.keys.contains(name) && names_.is_main)
        fail_at(first, fmt::format("{} is a key of nanoGPT and cannot be deleted; remove the line", name));
      ++at;
      std::erase_if(names_.settings, [&](const Setting& earlier) { return earlier.key == name; });
    } while (take(","));
  }

  void check(const PythonToken& first) {
    const std::optional<bool> truth = python_truth(evaluate_python(*this, names_, false));
    if (!truth) refuse(first);
    if (!*truth) fail_at(first, fmt::format("`{}` failed", rest_of_line(first)));
    if (take(",")) evaluate_python(*this, names_, false);
  }

  // Blocks

  void branch() {
    const PythonToken& first = peek();
    bool taken = false, more = true;
    while (more) {
      const bool otherwise = peek().is("else");
      ++at;
      bool chosen = !taken;
      if (taken && !otherwise) {
        at = find({":"});
      } else if (!otherwise) {
        const std::optional<bool> truth = python_truth(expressions());
        if (!truth)
          fail_at(first, fmt::format("the condition of `{}` depends on a value that is not known without executing "
                                     "code; write the assignments without the condition",
                                     rest_of_line(first)));
        chosen = *truth;
      }
      expect(":");
      block(chosen);
      taken = taken || chosen;
      more = !otherwise && (peek().is("elif") || peek().is("else"));
    }
  }

  void block(bool run) {
    if (peek().kind != TokenKind::newline) {  // `if a: b = 1; c = 2`
      while (!peek().ends_line()) {
        if (!run) {
          ++at;
        } else if (!take(";")) {
          simple_statement();
          if (!ends_statement()) fail_here(fmt::format("found \"{}\" after the value", rest_of_line(peek())));
        }
      }
      at += peek().kind == TokenKind::newline;
      return;
    }
    ++at;
    if (peek().kind != TokenKind::indent) fail_here("missing indented block");
    ++at;
    for (int depth = 1; depth > 0 && peek().kind != TokenKind::end;) {
      if (run && peek().kind != TokenKind::dedent) {
        statement();
        continue;
      }
      depth += peek().kind == TokenKind::indent;
      depth -= peek().kind == TokenKind::dedent;
      ++at;
    }
  }

  /// A function has no effect until it is called, and calls are errors.
  void definition() {
    const PythonToken& first = peek();
    ++at;
    if (peek().kind != TokenKind::name) refuse(first);
    const std::string name(peek().text);
    at = find({":"});
    if (!take(":")) fail_at(first, "missing ':'");
    block(false);
    assign(name, PythonObject::function(name), first, "def " + name);
  }

  // Imports

  std::string dotted_name() {
    std::string name;
    while (peek().kind == TokenKind::name) {
      name += tokens[at++].text;
      if (!take(".")) break;
      name += ".";
    }
    return name;
  }
  std::string alias_or(const std::string& name) {
    if (!take("as")) return name;
    if (peek().kind != TokenKind::name) fail_here("missing name after 'as'");
    return std::string(tokens[at++].text);
  }

  /// nullptr: no file of that name. `whole`: a file that cannot be read completely is an error; otherwise its names are
  /// unknown.
  std::shared_ptr<const PythonModule> module_of(const std::string& dotted, bool whole, const PythonToken& place) {
    if (is_python_library(dotted.substr(0, dotted.find('.')))) return nullptr;
    std::string file = module_file("", dotted);
    if (file.empty()) file = module_file(program_.folder, dotted);
    if (file.empty()) return nullptr;
    auto& known = program_.modules[file];
    if (known && (known->known || !whole)) return known;
    auto module = std::make_shared<PythonModule>(PythonModule{dotted, {}, true});
    if (!file.ends_with(".py")) return known = module;
    PythonNamespace inner{program_, {{"__name__", PythonObject::of(dotted)}}, {}, {}, false};
    try {
      const std::string code = read_config_text(file);
      PythonFile(code, file, inner).run();
      inner.names.erase("__name__");
      module->names = std::move(inner.names);
    } catch (const Error& e) {
      const auto* inside = dynamic_cast<const PythonError*>(&e);
      if (whole && inside != nullptr && inside->imported) throw;
      if (whole) throw PythonError(fmt::format("{} (read for {}:{})", e.what(), path, place.line), true);
      module->known = false;
    }
    return known = module;
  }

  void import_modules(const PythonToken& first) {
    do {
      const std::string dotted = dotted_name(), alias = alias_or(""), outermost = dotted.substr(0, dotted.find('.'));
      if (dotted.empty() || dotted.ends_with('.') || dotted == "__main__") refuse(first);
      const auto module = module_of(dotted, false, first);
      PythonObject object =
          module ? PythonObject::of_module(module) : PythonObject::outside(alias.empty() ? outermost : dotted);
      for (std::string name = dotted; module && alias.empty() && name != outermost;) {  // config.base: base in config
        const std::string last = name.substr(name.rfind('.') + 1);
        name.resize(name.rfind('.'));
        auto outer = std::make_shared<PythonModule>();
        const auto before = names_.names.find(name);
        if (before != names_.names.end() && before->second.module) *outer = *before->second.module;
        if (const auto package = module_of(name, false, first))
          outer->names.insert(package->names.begin(), package->names.end());
        outer->name = name;
        outer->names[last] = object;
        object = PythonObject::of_module(outer);
      }
      assign(alias.empty() ? outermost : alias, object, first, "import " + dotted);
    } while (take(","));
  }

  void import_names(const PythonToken& first) {
    const std::string shown = rest_of_line(first);
    if (peek().is(".") || peek().is("..."))
      fail_at(first, fmt::format("`{}`: relative imports are not supported; name the module from the working directory",
                                 shown));
    const std::string dotted = dotted_name();
    if (dotted.empty() || dotted == "__main__" || !take("import")) refuse(first);
    if (dotted == "__future__") {
      at = find({";"});
      return;
    }
    const bool star = take("*");
    const auto module = module_of(dotted, star, first);
    if (star) return import_all(module, dotted, first);
    const bool bracket = take("(");
    do {
      if (bracket && peek().is(")")) break;
      if (peek().kind != TokenKind::name) refuse(first);
      const std::string name(tokens[at++].text), full = dotted + "." + name, alias = alias_or(name);
      PythonObject object = PythonObject::outside(full);
      if (module && module->names.contains(name)) {
        object = module->names.at(name);
      } else if (const auto inner = module ? module_of(full, false, first) : nullptr) {
        object = PythonObject::of_module(inner);
      } else if (module && module->known) {
        fail_at(first, fmt::format("module {} has no \"{}\"", dotted, name));
      }
      assign(alias, object, first, fmt::format("from {} import {}", dotted, name));
    } while (take(","));
    if (bracket && !take(")")) fail_at(first, "missing ')'");
  }

  void import_all(const std::shared_ptr<const PythonModule>& module, const std::string& dotted,
                  const PythonToken& first) {
    if (!module) {
      std::string file = dotted;
      std::ranges::replace(file, '.', '/');
      fail_at(first,
              fmt::format("`{}`: no {}.py in the working directory or beside this file; write the assignments instead",
                          rest_of_line(first), file));
    }
    std::vector<std::string> names;
    if (const auto all = module->names.find("__all__"); all == module->names.end()) {
      for (const auto& [name, value] : module->names) {
        if (!name.starts_with('_')) names.push_back(name);
      }
    } else {
      if (all->second.kind != Kind::sequence)
        fail_at(first, fmt::format("{}: __all__ is not a list of known strings", module->name));
      for (const PythonObject& item : *all->second.items) {
        if (item.as_text() == nullptr || !module->names.contains(*item.as_text()))
          fail_at(first, fmt::format("{}: __all__ has a name that the module does not define", module->name));
        names.push_back(*item.as_text());
      }
    }
    for (const std::string& name : names)
      assign(name, module->names.at(name), first, fmt::format("from {} import *", dotted));
  }

  PythonNamespace& names_;
  PythonProgram& program_;
};

std::vector<Setting> run_python(const std::string& text, const std::string& path, int layer,
                                std::map<std::string, Value> keys, bool leave_out_helpers) {
  PythonProgram program{std::move(keys), fs::path(path).parent_path().string(), layer, {}, {}};
  PythonNamespace names{
      program, {}, {}, {}, true};  // with the names that train.py has defined before it reads the file
  for (const char* module : {"os", "sys", "time", "math", "pickle", "torch"})
    names.names.emplace(module, PythonObject::outside(module));
  names.names.emplace("np", PythonObject::outside("numpy"));
  names.names.emplace("__name__", PythonObject::of("__main__"));
  for (const auto& [name, value] : program.keys) names.names[name] = PythonObject::of(value);
  PythonFile(text, path, names).run();
  if (leave_out_helpers) {
    std::erase_if(names.settings, [&](const Setting& setting) {
      return !program.keys.contains(setting.key) && names.read.contains(setting.key);
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
  try {
    PythonCursor in(text, "");
    const bool negative = in.take("-"), has_sign = negative || in.take("+");
    const PythonToken& token = in.peek();
    if (in.peek(1).kind != TokenKind::newline || in.peek(2).kind != TokenKind::end) return std::string(text);
    if (!has_sign && (token.is("True") || token.is("False"))) return token.is("True");
    if (!has_sign && token.kind == TokenKind::string && token.text[0] <= '\'') return python_string(token.text);
    if (token.kind == TokenKind::number) {
      Value value = python_number(token.text);
      if (auto* whole = std::get_if<int64_t>(&value); whole != nullptr && negative) *whole = -*whole;
      if (auto* real = std::get_if<double>(&value); real != nullptr && negative) *real = -*real;
      return value;
    }
  } catch (const Error&) {  // not a literal
  }
  return std::string(text);
}

}  // namespace trireme
