#pragma once
#include <string>

namespace trireme {

/// A wish that the job stops at its next step boundary.
struct StopRequest {
  std::string why;             ///< for people: "trireme stop (ann on h1)"
  bool stays_stopped = false;  ///< nobody shall queue the job again
  bool operator==(const StopRequest&) const = default;
};

}  // namespace trireme
