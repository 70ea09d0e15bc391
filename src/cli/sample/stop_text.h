#pragma once
// Texts before which a sample ends.

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace trireme {

class StopText {
 public:
  explicit StopText(const std::vector<std::string>& stops) : stops_(stops) {}

  /// Adds text. Returns what is certain to come before a stop and was not returned yet.
  std::string feed(std::string_view part);
  /// A stop has been reached: no more text belongs to the sample.
  bool reached() const { return reached_; }
  /// The end of the text, which looked like the beginning of a stop.
  std::string finish() { return reached_ ? "" : std::exchange(held_, {}); }

 private:
  const std::vector<std::string>& stops_;
  std::string held_;  ///< text not returned yet
  bool reached_ = false;
};

}  // namespace trireme
