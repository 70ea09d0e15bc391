#include "cluster/health/shell_words.h"

#include <cctype>

#include "base/error.h"

namespace trireme::health {
namespace {

class Splitter {
 public:
  Splitter(std::string_view line, const Variables& variables) : line_(line), variables_(variables) {}

  ShellWords split() {
    while (at_ < line_.size()) {
      const char c = line_[at_];
      if (c == ' ' || c == '\t' || c == '\r') {
        end_word();
        ++at_;
      } else if (c == '#' && !in_word_) {
        break;
      } else {
        take(c);
      }
    }
    end_word();
    result_.needs_shell = result_.needs_shell || result_.has_operator;
    return std::move(result_);
  }

 private:
  void take(char c) {
    if (c == '\'') {
      const size_t close = line_.find('\'', at_ + 1);
      require(close != std::string_view::npos, ErrorKind::config, "the quote ' is not closed");
      word_ += line_.substr(at_ + 1, close - at_ - 1);
      in_word_ = true;
      at_ = close + 1;
    } else if (c == '"') {
      take_double_quoted();
    } else if (c == '\\' && at_ + 1 < line_.size()) {
      if (octal_after(at_)) add('\\');
      add(line_[at_ + 1]);
      at_ += 2;
    } else if (c == '$') {
      take_variable();
    } else {
      if (std::string_view("|&;<>()`").find(c) != std::string_view::npos) result_.has_operator = true;
      if (c == '{' || (c == '~' && !in_word_)) result_.needs_shell = true;
      add(c);
      ++at_;
    }
  }

  /// "\040", the blank of /proc/mounts, keeps its backslash.
  bool octal_after(size_t at) const {
    const std::string_view digits = line_.substr(at + 1, 3);
    return digits.size() == 3 && digits.find_first_not_of("01234567") == std::string_view::npos;
  }

  void take_double_quoted() {
    in_word_ = true;
    for (++at_; at_ < line_.size() && line_[at_] != '"';) {
      if (line_[at_] == '\\' && at_ + 1 < line_.size() &&
          std::string_view("\"\\$`").find(line_[at_ + 1]) != std::string_view::npos) {
        word_ += line_[at_ + 1];
        at_ += 2;
      } else if (line_[at_] == '$') {
        take_variable(true);
      } else {
        if (line_[at_] == '`') result_.has_operator = true;
        word_ += line_[at_++];
      }
    }
    require(at_ < line_.size(), ErrorKind::config, "the quote \" is not closed");
    ++at_;
  }

  /// At "$". An unquoted empty variable does not make a word, as in a shell.
  void take_variable(bool quoted = false) {
    size_t begin = at_ + 1, end = begin;
    const bool braced = begin < line_.size() && line_[begin] == '{';
    if (begin < line_.size() && line_[begin] == '(') result_.has_operator = true;
    if (braced) {
      ++begin;
      end = line_.find('}', begin);
      require(end != std::string_view::npos, ErrorKind::config, "the brace of ${{ is not closed");
    } else {
      while (end < line_.size() && (std::isalnum(static_cast<unsigned char>(line_[end])) != 0 || line_[end] == '_')) {
        ++end;
      }
    }
    if (end == begin) {  // a single dollar, unless the next character is special in a shell
      const std::string_view special = quoted ? "([?#@*!-$" : "([?#@*!-$'\"";
      if (begin < line_.size() && special.find(line_[begin]) != std::string_view::npos) result_.needs_shell = true;
      add('$');
      at_ = begin;
      return;
    }
    const std::string name(line_.substr(begin, end - begin));
    const auto value = variables_.find(name);
    result_.uses_variables = true;
    // Unsupported here, such as ${A:-b} and $1, or a value that bash would split into several words.
    if (value == variables_.end() || (!quoted && value->second.find_first_of(" \t\n") != std::string::npos)) {
      result_.needs_shell = true;
    }
    if (value != variables_.end() && !value->second.empty()) {
      word_ += value->second;
      in_word_ = true;
    }
    at_ = braced ? end + 1 : end;
  }

  void add(char c) {
    word_ += c;
    in_word_ = true;
  }

  void end_word() {
    if (in_word_) result_.words.push_back(std::move(word_));
    word_.clear();
    in_word_ = false;
  }

  std::string_view line_;
  const Variables& variables_;
  size_t at_ = 0;
  bool in_word_ = false;
  std::string word_;
  ShellWords result_;
};

}  // namespace

ShellWords split_words(std::string_view line, const Variables& variables) { return Splitter(line, variables).split(); }

}  // namespace trireme::health
