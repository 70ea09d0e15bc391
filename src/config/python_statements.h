#pragma once
// The statements of a configuration file in Python (config/python_reader.h), run over its tokens.

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "config/python_expression.h"
#include "config/setting.h"

namespace trireme {

inline constexpr const char* kPythonStatements =
    "only assignments, `if`, imports, print() and exec(open(FILE).read()) are supported";

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
  PythonScope scope;
  std::vector<Setting> settings;
  bool is_main = false;  ///< it contains nanoGPT's own names
};

class PythonStatements {
 public:
  /// `text` must outlive this; messages name it `path`, and `line` is the number of its first line.
  PythonStatements(std::string_view text, std::string path, PythonNamespace& names, int line = 1);
  PythonStatements(const PythonStatements&) = delete;
  PythonStatements& operator=(const PythonStatements&) = delete;
  ~PythonStatements() { --names_.program.depth; }

  void run() {
    while (peek().kind != PythonToken::Kind::end) statement();
  }

 private:
  const PythonToken& peek(size_t ahead = 0) const { return tokens_[std::min(at_ + ahead, tokens_.size() - 1)]; }
  bool take(std::string_view word) {
    if (!peek().is(word)) return false;
    ++at_;
    return true;
  }
  [[noreturn]] void fail_at(const PythonToken& token, const std::string& message) const {
    fail_python(path_, token.line, message);
  }
  [[noreturn]] void refuse(const PythonToken& token) const {
    fail_at(token, fmt::format("found \"{}\"; {}", python_rest_of_line(token, text_), kPythonStatements));
  }
  PythonObject expressions() { return evaluate_python(tokens_, at_, names_.scope, path_); }

  void end_statement();
  void statement();
  void simple_statement(const PythonToken& first);
  /// A doc string.
  bool ends_line_after_strings();

  // Assignments

  struct Target {
    std::vector<size_t> places;  ///< tokens of the names that get the value, or its parts
    bool apart = false;          ///< the value is a list that is unpacked: each place gets an item
  };
  void assignment(const PythonToken& first);
  void require_end() const {
    if (peek().kind != PythonToken::Kind::newline && peek().kind != PythonToken::Kind::end && !peek().is(";"))
      fail_at(peek(), fmt::format("found \"{}\" after the value", python_rest_of_line(peek(), text_)));
  }

  /// Whether the line has an '=' or one of its forms outside brackets.
  bool has_assignment() const;
  static bool is_augmented(const PythonToken& token);
  /// Place of the next '=' of this statement outside brackets; 0 if there is none.
  size_t next_equals() const;
  /// The left side of the '='; each part is a name, globals()["name"] or os.environ["NAME"].
  Target target_list(size_t sign);

  static bool is_name_end(const PythonToken& token) {
    return token.is(",") || token.is("=") || token.is(")") || token.is("]");
  }

  /// Number of tokens of globals()["name"] or os.environ["NAME"]; 0: it is neither.
  size_t item_target_length(size_t at) const;
  void assign_to(const Target& target, const PythonObject& value, const std::string& shown);
  void assign_one(size_t place, const PythonObject& value, const std::string& shown);
  void augmented();
  /// `shown`: the assigned expression, for messages.
  void assign(const std::string& name, const PythonObject& value, int line, const std::string& shown);

  // Other simple statements

  /// exec(open(FILE).read()), or exec() of any known text, at the place of this statement.
  void execute();
  void remove();
  void check();

  // Blocks

  void branch();
  void skip_condition();
  void block(bool run);
  void simple_or_import(const PythonToken& first);
  /// A function has no effect until it is called, and calls are errors.
  void definition();

  // Imports

  std::string dotted_name();
  std::string alias_or(const std::string& name);
  void import_modules();
  void import_names();
  void import_star(const PythonToken& place, const PythonModule& module);
  std::shared_ptr<const PythonModule> module_of(const std::string& dotted, bool whole, const PythonToken& place);

  std::string_view text_;
  std::string path_;
  PythonNamespace& names_;
  std::vector<PythonToken> tokens_;
  size_t at_ = 0;
};

}  // namespace trireme
