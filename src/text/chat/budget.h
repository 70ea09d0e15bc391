#pragma once
// What rendering a template may cost, and how it fails.

#include <fmt/format.h>

#include <cstdint>
#include <string>
#include <utility>

namespace trireme::chat {

/// Bounds of one rendering. A template of 20 kB over a conversation of 100 kB needs about 1 % of them.
struct ChatLimits {
  uint64_t steps = 20'000'000;           ///< nodes evaluated, items and (per 16) bytes visited
  uint64_t text = uint64_t{256} << 20;   ///< bytes of all texts made on the way
  uint64_t output = uint64_t{64} << 20;  ///< bytes of the result, and of any one text
  uint64_t items = 1'000'000;            ///< of a list
  uint32_t nesting = 600;                ///< expressions, statements and macros within each other
};

/// What a template did wrong, without its place: the interpreter adds file and line.
struct Fault {
  std::string message;
};

template <class... Args>
[[noreturn]] void fault(fmt::format_string<Args...> format, Args&&... args) {
  throw Fault{fmt::format(format, std::forward<Args>(args)...)};
}

/// Counts down the bounds of one rendering. Its functions throw Fault when one is reached.
class Budget {
 public:
  explicit Budget(const ChatLimits& limits) : limits_(limits), steps_(limits.steps), text_(limits.text) {}
  const ChatLimits& limits() const { return limits_; }

  void step(uint64_t count = 1) {
    if (count > steps_) fault("stopped after {} steps, the limit for one conversation", limits_.steps);
    steps_ -= count;
  }
  /// For reading that many bytes.
  void visit(uint64_t bytes) { step(1 + bytes / 16); }
  /// For making a text of that many bytes.
  void make_text(uint64_t bytes) {
    if (bytes > limits_.output) fault("a string would have {} bytes, the limit is {}", bytes, limits_.output);
    if (bytes > text_) fault("all strings together exceed {} bytes, the limit for one conversation", limits_.text);
    text_ -= bytes;
    visit(bytes);
  }
  /// For making a list of that many items.
  void make_items(uint64_t count) {
    if (count > limits_.items) fault("a list would have {} items, the limit is {}", count, limits_.items);
    step(1 + count);
  }

 private:
  ChatLimits limits_;
  uint64_t steps_, text_;
};

}  // namespace trireme::chat
