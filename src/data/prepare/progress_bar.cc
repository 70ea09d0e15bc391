#include "data/prepare/progress_bar.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <utility>

#include "base/log.h"

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

std::string human_bytes(uint64_t bytes) {
  const auto value = static_cast<double>(bytes);
  if (bytes >= 1'000'000'000) return fmt::format("{:.2f} GB", value / 1e9);
  if (bytes >= 1'000'000) return fmt::format("{:.1f} MB", value / 1e6);
  if (bytes >= 1'000) return fmt::format("{:.1f} kB", value / 1e3);
  return fmt::format("{} B", bytes);
}

std::string human_seconds(double seconds) {
  const auto whole = static_cast<uint64_t>(seconds + 0.5);
  if (whole >= 3600) return fmt::format("{} h {:02} min", whole / 3600, whole % 3600 / 60);
  if (whole >= 60) return fmt::format("{} min {:02} s", whole / 60, whole % 60);
  return fmt::format("{} s", whole);
}

}  // namespace trireme
