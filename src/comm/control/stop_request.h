#pragma once
#include <string>

namespace trireme {

/// A request to stop the job at its next step boundary.
struct StopRequest {
  std::string why;             ///< for messages: "trireme stop (ann on h1)"
  bool stays_stopped = false;  ///< the job must not be queued again
  bool operator==(const StopRequest&) const = default;
};

}  // namespace trireme
