#include "base/meter.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/log.h"
#include "base/text.h"

namespace trireme {
namespace {

constexpr double kShowSeconds = 0.2, kLogSeconds = 10;

}  // namespace

Meter::Meter(std::string name, uint64_t total) : name_(std::move(name)), total_(total) {}

Meter::~Meter() { log::set_status(""); }

void Meter::add(uint64_t bytes) {
  done_ += bytes;
  show();
}

void Meter::show() {
  if (seconds_since(shown_) < kShowSeconds) return;
  shown_ = Clock::now();
  log::set_status(line());
  if (log::has_status() || seconds_since(logged_) < kLogSeconds) return;
  logged_ = shown_;
  log::info_all("{}", line());
}

std::string Meter::line() const {
  const double rate = static_cast<double>(done_) / std::max(seconds_since(start_), 1e-9);
  std::string text =
      fmt::format("{} {}: {} of {} ({:.0f} %), {}/s", name_, file_, human_bytes(done_), human_bytes(total_),
                  100.0 * static_cast<double>(done_) / static_cast<double>(std::max<uint64_t>(total_, 1)),
                  human_bytes(static_cast<uint64_t>(rate)));
  if (rate > 0 && total_ > done_)
    text += fmt::format(", {} left", human_seconds(static_cast<double>(total_ - done_) / rate));
  return text;
}

std::string Meter::summary() const {
  const double seconds = std::max(seconds_since(start_), 1e-9);
  return fmt::format("{} in {}: {}/s", human_bytes(done_), human_seconds(seconds),
                     human_bytes(static_cast<uint64_t>(static_cast<double>(done_) / seconds)));
}

}  // namespace trireme
