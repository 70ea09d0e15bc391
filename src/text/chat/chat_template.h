#pragma once
// A chat template: Jinja's subset that chat templates use, as transformers runs it. See docs/chat.md for what is
// supported.

#include <ctime>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "text/chat/budget.h"

namespace trireme::chat {

struct ParsedTemplate;

/// What a {% generation %} block wrote: bytes [begin, end) of the text.
struct GeneratedSpan {
  size_t begin, end;
  /// Which of the variable `messages` it is about: the one that the loop around it has reached, else the last one that
  /// was read. None: the block is outside of loops, and no message was read.
  std::optional<size_t> message;
};

struct Rendered {
  std::string text;
  std::vector<GeneratedSpan> generated;  ///< in order
};

/// Immutable; render() may be called by several threads at once.
class ChatTemplate {
 public:
  /// `where` names the source in errors. Throws Error::data with the line: not UTF-8, what Jinja refuses, what is
  /// outside of the subset.
  ChatTemplate(std::string_view source, std::string where, const ChatLimits& limits = {});
  ChatTemplate(ChatTemplate&&) noexcept;
  ChatTemplate& operator=(ChatTemplate&&) noexcept;
  ~ChatTemplate();

  /// `variables`: an object with what the template may use by name: messages, tools, bos_token, ... `now`: what
  /// strftime_now() says; none: the local time. Throws Error::data with the line where Jinja raises (also by
  /// raise_exception) or a limit is reached.
  Rendered render(const Json& variables, const std::optional<std::tm>& now = {}) const;
  /// Whether there are {% generation %} blocks.
  bool marks_generation() const;
  const std::string& where() const { return where_; }

 private:
  std::string where_;
  ChatLimits limits_;
  std::unique_ptr<const ParsedTemplate> parsed_;
};

}  // namespace trireme::chat
