#include "cli/sample/stop_text.h"

#include <algorithm>

namespace trireme {

std::string StopText::feed(std::string_view part) {
  if (reached_) return "";
  held_ += part;
  size_t first = std::string::npos, kept = 0;
  for (const std::string& stop : stops_) {
    first = std::min(first, held_.find(stop));
    size_t begins = std::min(stop.size() - 1, held_.size());  // of the stop, at the end of the text
    while (begins > 0 && !held_.ends_with(std::string_view(stop).substr(0, begins))) --begins;
    kept = std::max(kept, begins);
  }
  reached_ = first != std::string::npos;
  const size_t size = reached_ ? first : held_.size() - kept;
  std::string certain = held_.substr(0, size);
  held_.erase(0, size);
  return certain;
}

}  // namespace trireme
