#include "data/prepare/progress_bar.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <utility>

#include "base/log.h"
#include "base/text.h"

namespace trireme {
namespace {

constexpr double kBarSeconds = 0.2, kLineSeconds = 10;
constexpr size_t kBarWidth = 24;

}  // namespace

ProgressBar::ProgressBar(std::string task, uint64_t total_bytes)
    : task_(std::move(task)), total_(total_bytes), terminal_(isatty(STDERR_FILENO) == 1) {}

ProgressBar::~ProgressBar() {
  if (bar_open_) std::fputs("\r\033[K", stderr);
}

void ProgressBar::update(uint64_t bytes, uint64_t documents, const Subject& subject) {
  if (!std::exchange(begun_, true)) {
    first_bytes_ = bytes;
    first_documents_ = documents;
  }
  if (seconds_since(printed_) < (terminal_ ? kBarSeconds : kLineSeconds)) return;
  printed_ = Clock::now();
  std::string text = line(bytes, documents);
  if (subject) text += ", " + subject();
  if (!terminal_) return log::info("{}", text);
  std::string bar;
  if (total_ > 0) {
    const size_t filled = std::min<size_t>(kBarWidth, bytes * kBarWidth / total_);
    bar = fmt::format("[{}{}] ", std::string(filled, '#'), std::string(kBarWidth - filled, '.'));
  }
  fmt::print(stderr, "\r\033[K{}{}", bar, text);
  std::fflush(stderr);
  bar_open_ = true;
}

std::string ProgressBar::line(uint64_t bytes, uint64_t documents) const {
  const double spent = std::max(seconds_since(start_), 1e-9);
  const double rate = static_cast<double>(bytes - first_bytes_) / spent;
  std::string text = fmt::format("{}: ", task_);
  if (total_ > 0) {
    text += fmt::format("{:.0f}% of {}, ", 100.0 * static_cast<double>(bytes) / static_cast<double>(total_),
                        human_bytes(total_));
  } else {
    text += fmt::format("{}, ", human_bytes(bytes));
  }
  text += fmt::format("{}/s, {:.0f} documents/s", human_bytes(static_cast<uint64_t>(rate)),
                      static_cast<double>(documents - first_documents_) / spent);
  if (total_ > bytes && rate > 0)
    text += fmt::format(", {} left", human_seconds(static_cast<double>(total_ - bytes) / rate));
  return text;
}

}  // namespace trireme
