#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>

#include "base/error.h"
#include "base/text.h"
#include "cli/declared_flag.h"
#include "cli/flags.h"
#include "config/flag_word.h"
#include "config/foreign_options.h"

namespace trireme {

/// Reads the words of one command line.
class Flags::Reader {
 public:
  Reader(Flags& flags, std::vector<std::string> words) : top_(flags), now_(&flags), words_(std::move(words)) {}

  std::optional<int> read() {
    take_command();
    take_foreign();
    while (at_ < words_.size()) {
      const std::string word = words_[at_++];
      if (!ended_ && word == "--") {
        ended_ = true;
      } else if (!ended_ && is_flag(word)) {
        read_flag(word);
      } else {
        read_positional(word);
      }
    }
    if (help_) {
      fmt::print("{}", help_of_chosen());
      return 0;
    }
    apply(top_);
    if (now_ != &top_) apply(*now_);
    require_all();
    if (!unknown_.empty()) refuse("");
    if (top_.configuration_) {
      require_spelling(rest_, long_names());
      *top_.configuration_ = split_words(collected(), std::move(problems_));
    } else {
      require_none(problems_);
    }
    return std::nullopt;
  }

 private:
  void take_command() {
    const auto dashes = std::ranges::find(words_, "--");
    if (!top_.after_dashes_ || dashes == words_.end()) return;
    top_.after_dashes_->assign(dashes + 1, words_.end());
    words_.erase(dashes, words_.end());
  }

  /// Replaces other programs' spellings by those of this command. A configuration's own are left to split_words().
  void take_foreign() {
    if (asks_help(words_) || (top_.configuration_ && top_.option_flags_.empty())) return;
    Flags* const action = words_.empty() ? nullptr : find_action(words_[0]);
    Flags& chosen = action ? *action : top_;
    std::string command = top_.name_;
    if (command.starts_with("trireme ")) command.erase(0, 8);
    if (action) command += " " + action->name_;
    const auto knows = [&](const std::string& name) {
      return name == "--help" || chosen.find(name) != nullptr || top_.find_option_flag(name) != nullptr;
    };
    problems_ = take_foreign_options(command, knows, words_);
  }

  Flags* find_action(const std::string& word) const {
    const auto found = std::ranges::find_if(top_.actions_, [&](const auto& action) { return action->name_ == word; });
    return found == top_.actions_.end() ? nullptr : found->get();
  }

  /// Whether the word is a flag, known or not; "-1" is a value.
  bool is_flag(const std::string& word) const {
    if (word.size() < 2 || word[0] != '-') return false;
    if (word[1] != '-') return std::isdigit(static_cast<unsigned char>(word[1])) == 0 && word[1] != ' ';
    return word.size() > 2 && word[2] != '-' && word[2] != ' ';
  }

  void read_positional(const std::string& word) {
    if (Flags* const action = now_ == &top_ && !ended_ ? find_action(word) : nullptr) {
      now_ = action;
      action->chosen_ = true;
      return;
    }
    for (const auto& flag : now_->declared_) {
      if (!flag->shape.is_positional() || (!flag->shape.repeats && !flag->given.empty())) continue;
      flag->given.push_back(word);
      return;
    }
    not_known(word);
  }

  void read_flag(const std::string& word) {
    const bool is_long = word.starts_with("--");
    FlagWord typed = is_long ? flag_word(word) : FlagWord{word.substr(0, 2), std::nullopt};
    const std::string attached = is_long ? "" : word.substr(2);
    if (typed.name == "--help" || typed.name == "-h") {
      help_ = true;
      return;
    }
    DeclaredFlag* const flag = now_->find(typed.name);
    if (flag == nullptr) return read_other(word, typed);
    if (flag->once && !flag->given.empty()) refuse(fmt::format("{} is given twice", flag->name()));
    if (flag->is_switch()) return read_switch(*flag, typed, attached);
    if (!attached.empty()) typed.value = attached;
    if (!flag->ending.empty() && !typed.value) return read_files(*flag);
    if (typed.value) {
      add(*flag, *typed.value);
    } else if (!flag->shape.value_is_optional) {
      add(*flag, next_value(*flag, word));
    } else if (at_ < words_.size() && is_value(words_[at_])) {
      add(*flag, words_[at_++]);
    } else {
      add(*flag, flag->alone);
    }
    if (!flag->shape.repeats || flag->one_value) return;
    const auto waiting = static_cast<size_t>(std::ranges::count_if(now_->declared_, [](const auto& other) {
      return other->shape.is_positional() && other->shape.required && other->given.empty();
    }));
    while (at_ < words_.size() && is_value(words_[at_]) && words_.size() - at_ > waiting) add(*flag, words_[at_++]);
    if (at_ < words_.size() && words_[at_] == "--") ++at_;  // ends a list
  }

  void read_switch(DeclaredFlag& flag, const FlagWord& typed, const std::string& attached) {
    if (top_.configuration_ && typed.value)
      refuse(fmt::format("{0} takes no value, found \"{0}={1}\"", typed.name, *typed.value));
    if (typed.value && typed.value->empty())
      fail(ErrorKind::usage,
           "{0}: {1}= has no value; give {1} without '=', or remove it; `{0} --help` explains the flags",
           name_of_chosen(), typed.name);
    const std::optional<bool> on = truth_of(typed.value.value_or("true"));
    if (!on) refuse(fmt::format("{}: {} given, expected true or false", flag.name(), *typed.value));
    const bool is_off = std::ranges::find(flag.off, typed.name) != flag.off.end();
    flag.given.emplace_back(*on != is_off ? "true" : "false");
    if (!attached.empty()) words_.insert(words_.begin() + static_cast<ptrdiff_t>(at_), "-" + attached);
  }

  void read_files(DeclaredFlag& flag) {
    const size_t before = flag.given.size();
    while (at_ < words_.size() && words_[at_].ends_with(flag.ending)) flag.given.push_back(words_[at_++]);
    if (flag.given.size() == before) refuse_missing(flag);
  }

  /// A flag that is not declared here: a name for an option, an option, or unknown.
  void read_other(const std::string& word, const FlagWord& typed) {
    if (const OptionFlag* const own = top_.find_option_flag(typed.name)) return read_option_flag(*own, typed);
    if (!top_.options_ || typed.name.find('.') == std::string::npos) {
      const size_t equals = std::min(word.find('='), word.size());
      return not_known(top_.configuration_ ? word : typed.name + word.substr(word.starts_with("--") ? equals : 2));
    }
    const std::string option = typed.name.substr(2);
    if (!top_.wanted_(option))
      fail(ErrorKind::usage, "\"{}\" {}", word.substr(0, typed.name.size()), top_.why_not_(option));
    top_.options_->push_back(word);
    if (!typed.value && at_ < words_.size() && !words_[at_].starts_with("--")) top_.options_->push_back(words_[at_++]);
  }

  void read_option_flag(const OptionFlag& flag, const FlagWord& typed) {
    if (flag.collects == Collects::nothing) {
      rest_.push_back(std::string("--") + flag.option + (typed.value ? "=" + *typed.value : ""));
      return;  // its value follows
    }
    require(typed.value || at_ < words_.size(), ErrorKind::usage, "{} needs {}", flag.flag, flag.value);
    collected_.add(flag, typed.value ? *typed.value : words_[at_++]);
  }

  void not_known(const std::string& word) { (top_.configuration_ ? rest_ : unknown_).push_back(word); }

  void add(DeclaredFlag& flag, const std::string& value) {
    if (flag.separator == 0) return flag.given.push_back(value);
    for (std::string& part : split_value(value, flag.separator)) flag.given.push_back(std::move(part));
  }

  bool is_value(const std::string& word) const {
    return word != "--" && !is_flag(word) && !(now_ == &top_ && find_action(word));
  }

  std::string next_value(const DeclaredFlag& flag, const std::string& word) {
    if (at_ == words_.size()) refuse_missing(flag);
    const std::string& next = words_[at_];
    const std::string name = flag_word(next).name;
    const bool is_known = next.starts_with("--") && (name == "--help" || now_->find(name) != nullptr);
    require(!is_known, ErrorKind::usage,
            "{0}: {1} has no value: the flag {2} follows it (is a shell variable not set?); {1}={2} takes it as the "
            "value; `{0} --help` explains the flags",
            top_.name_, flag_word(word).name, next);
    ++at_;
    return next;
  }

  void apply(Flags& flags) {
    for (const auto& flag : flags.declared_) {
      for (const std::string& value : flag->given) {
        if (!flag->is_switch()) check(*flag, value);
      }
      if (!flag->given.empty()) flag->set(flag->given);
    }
  }

  void check(const DeclaredFlag& flag, const std::string& value) {
    for (const auto& reason_of : flag.checks) {
      const std::string reason = reason_of(value);
      if (reason.empty()) continue;
      if (reason.starts_with("is ")) refuse(flag.name() + " " + reason);
      if (!top_.configuration_ || flag.expected.empty()) refuse(fmt::format("{}: {}", flag.name(), reason));
      if (value.empty()) refuse(flag.name() + ": the value is empty; is a shell variable not set?");
      refuse(fmt::format("{} is {}, expected {}", flag.name(), value, flag.expected));
    }
  }

  void require_all() {
    for (Flags* const flags : {&top_, now_}) {
      for (const auto& flag : flags->declared_) {
        if (flag->shape.required && flag->given.empty()) refuse(flag->name() + " is required");
      }
    }
    if (!top_.actions_.empty() && now_ == &top_) refuse("A subcommand is required");
  }

  [[noreturn]] void refuse_missing(const DeclaredFlag& flag) {
    if (!top_.configuration_) refuse(fmt::format("{}: 1 required {} missing", flag.name(), flag.type));
    refuse(flag.needs.empty() ? fmt::format("{} needs a value; `{} --help` explains it", flag.name(), top_.name_)
                              : fmt::format("{} needs {}", flag.name(), flag.needs));
  }

  /// Unknown words are reported first: one may be a misspelling of a missing flag.
  [[noreturn]] void refuse(const std::string& reason) {
    if (top_.configuration_) {
      if (!problems_.empty()) problems_.push_back(reason);
      require_none(problems_);
      fail(ErrorKind::usage, "{}", reason);
    }
    const std::string text =
        fmt::format("{}: {}; `{} --help` explains the flags", name_of_chosen(),
                    unknown_.empty() ? reason : "not expected: " + describe_unknown(), name_of_chosen());
    if (!unknown_.empty() && !problems_.empty()) problems_.push_back(text);
    require_none(problems_);  // a missing flag may be one of the refused
    fail(ErrorKind::usage, "{}", text);
  }

  std::string name_of_chosen() const { return now_ == &top_ ? top_.name_ : top_.name_ + " " + now_->name_; }

  std::string help_of_chosen() {
    if (now_ == &top_) return top_.help();
    const std::string name = std::exchange(now_->name_, name_of_chosen());
    std::string text = now_->help();
    now_->name_ = name;
    return text;
  }

  std::vector<std::string> long_names() const {
    std::vector<std::string> names;
    for (const auto& flag : now_->declared_) {
      std::ranges::copy_if(flag->shape.names, std::back_inserter(names),
                           [](const std::string& name) { return name.starts_with("--"); });
    }
    return names;
  }

  /// The words of the configuration.
  std::vector<std::string> collected() const {
    std::vector<std::string> words = rest_, more = collected_.words();
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }

  /// The unknown words, each with what it may have meant: an action where one is required, otherwise a flag.
  std::string describe_unknown() const {
    std::vector<std::string> names, texts;
    if (now_ == &top_ && !top_.actions_.empty()) {
      for (const auto& action : top_.actions_) names.push_back(action->name_);
      const std::string near = nearest_name(unknown_[0], names);
      return fmt::format("{}{}", fmt::join(unknown_, " "), near.empty() ? "" : fmt::format("; did you mean {}?", near));
    }
    names = long_names();
    names.emplace_back("--help");
    bool after_flag = false;
    for (const std::string& word : unknown_) {
      std::string name = word.substr(0, word.find('='));
      const bool is_name = name.size() > 2 && name.starts_with('-');
      if (is_name && !name.starts_with("--")) name.insert(0, "-");   // mpirun's long names have one dash
      if (!word.starts_with('-') && !texts.empty() && after_flag) {  // its value
        texts.back().insert(std::min(texts.back().find(';'), texts.back().size()), " " + word);
        after_flag = false;
        continue;
      }
      after_flag = is_name && word.find('=') == std::string::npos;
      const std::string near = is_name ? nearest_name(name, names) : "";
      texts.push_back(near.empty() ? word : fmt::format("{}; did you mean {}?", word, near));
    }
    if (texts.size() == 1 || std::ranges::none_of(texts, [](const std::string& text) { return text.ends_with('?'); }))
      return fmt::format("{}", fmt::join(texts, " "));
    return fmt::format("\n    {}", fmt::join(texts, "\n    "));
  }

  Flags& top_;
  Flags* now_;  ///< the chosen action, once it has been read
  std::vector<std::string> words_;
  size_t at_ = 0;
  bool ended_ = false, help_ = false;
  std::vector<std::string> unknown_, rest_, problems_;
  CollectedOptions collected_;
};

std::optional<int> Flags::parse(std::vector<std::string> words) {
  if (const auto code = answer(words)) return code;
  for (const auto& flag : declared_) flag->given.clear();
  for (const auto& action : actions_) {
    action->chosen_ = false;
    for (const auto& flag : action->declared_) flag->given.clear();
  }
  return Reader(*this, std::move(words)).read();
}

}  // namespace trireme
