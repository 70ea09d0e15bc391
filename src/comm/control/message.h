#pragma once
// Messages of the control channel: one small layout for every kind, in frames of at most 4 KiB.

#include <optional>
#include <string>
#include <string_view>

#include "comm/heartbeat.h"

namespace trireme {

enum class ControlKind : uint8_t {
  hello,          ///< the first message of a connection: rank (-1: a launcher), host, text = the secret
  welcome,        ///< the hub's answer
  beat,           ///< a rank's state
  loss,           ///< rank, host and last state of a lost rank, text = how it was noticed
  stop,           ///< a launcher's StopRequest, text = why
  stop_for_good,  ///< the same, and the job stays stopped
  bye,            ///< the sender leaves in order
};

struct ControlMessage {
  ControlKind kind = ControlKind::beat;
  int32_t rank = -1;
  RankState state = {};
  std::string host = {}, text = {};
};

/// Cuts texts if a frame would become too long.
std::string encode(const ControlMessage& message);

/// Extracts messages from a stream of bytes that arrives in arbitrary pieces.
class ControlStream {
 public:
  void append(std::string_view bytes) { buffer_ += bytes; }
  /// The next complete message. Throws Error::data for invalid bytes; the stream is unusable after that.
  std::optional<ControlMessage> next();

 private:
  std::string buffer_;
};

}  // namespace trireme
