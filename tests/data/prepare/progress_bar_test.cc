#include "data/prepare/progress_bar.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <pty.h>
#include <unistd.h>

namespace trireme {
namespace {

/// In the scope standard error is a separate terminal.
class OnTerminal {
 public:
  OnTerminal() : before_(dup(STDERR_FILENO)) {
    int terminal = -1;
    EXPECT_EQ(openpty(&screen_, &terminal, nullptr, nullptr, nullptr), 0);
    dup2(terminal, STDERR_FILENO);
    close(terminal);
  }
  OnTerminal(const OnTerminal&) = delete;
  OnTerminal& operator=(const OnTerminal&) = delete;
  ~OnTerminal() {
    dup2(before_, STDERR_FILENO);
    close(before_);
    close(screen_);
  }
  bool shows_something() const {
    pollfd screen{screen_, POLLIN, 0};
    return poll(&screen, 1, 0) == 1;
  }
  std::string shown() const {
    std::string text(4096, '\0');
    text.resize(static_cast<size_t>(std::max<ssize_t>(read(screen_, text.data(), text.size()), 0)));
    return text;
  }

 private:
  int before_, screen_ = -1;
};

TEST(ProgressBar, SaysHowMuchIsDoneHowFastOfWhichFileAndHowLongItTakes) {
  std::string shown;
  {
    const OnTerminal terminal;
    ProgressBar progress("prepare", 2'000'000);
    progress.update(0, 0);
    while (!terminal.shows_something()) progress.update(500'000, 40, [] { return "file 1 of 2: a.jsonl"; });
    shown = terminal.shown();
  }
  EXPECT_THAT(shown, testing::ContainsRegex("\\[######[.]+\\] prepare: 25% of 2.0 MB, [0-9.]+ [MG]B/s, [0-9]+ "
                                            "documents/s, [0-9]+ s left, file 1 of 2: a.jsonl"));
}

TEST(ProgressBar, OfUnknownSizeSaysHowMuchAndHowFast) {
  std::string shown;
  {
    const OnTerminal terminal;
    ProgressBar progress("prepare", 0);
    progress.update(0, 0);
    while (!terminal.shows_something()) progress.update(500'000, 40);
    shown = terminal.shown();
  }
  EXPECT_THAT(shown, testing::ContainsRegex("prepare: 500.0 kB, [0-9.]+ [kMG]B/s, [0-9]+ documents/s"));
  EXPECT_THAT(shown, testing::Not(testing::HasSubstr("left")));
}

}  // namespace
}  // namespace trireme
