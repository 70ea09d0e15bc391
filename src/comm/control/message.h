#pragma once
// Messages of the control channel: one small layout for every kind, in frames of at most 4 KiB.

#include <optional>
#include <string>
#include <string_view>

#include "comm/control/liveness.h"
#include "comm/control/secret.h"
#include "comm/heartbeat.h"

namespace trireme {

enum class ControlKind : uint8_t {
  challenge,      ///< the first message of a connection, from the hub: text = its nonce (comm/control/secret.h)
  hello,          ///< the answer: rank (-1: a launcher), host, other = the port of its Witness, text = nonce and proof
  welcome,        ///< of the hub: text = its proof
  beat,           ///< a rank's state
  loss,           ///< a Loss: rank, host, other, other_host, last state, text = how it was noticed
  stop,           ///< a launcher's StopRequest, text = why
  stop_for_good,  ///< the same, and the job stays stopped
  trouble,        ///< a rank's communication has failed: who is cut off?
  witnesses,      ///< whom a rank asks if it no longer hears the hub: text = addresses
  probe,          ///< the hub asks a rank to try these addresses: text = lines of RANK ADDRESS; without: begin
  probed,         ///< the answer: other = tried, text = lines of RANK f REASON (failed) or RANK c (no answer)
  bye,            ///< the sender leaves in order
};

struct ControlMessage {
  ControlKind kind = ControlKind::beat;
  int32_t rank = -1, other = -1;
  RankState state = {};
  std::string host = {}, text = {}, other_host = {};
};

ControlMessage message_of(const Loss& loss);
Loss loss_in(const ControlMessage& message);

/// A hello as far as its sender is concerned: what it says and its nonce; the text of one, and the proof in it.
Handshake handshake_of(const ControlMessage& hello);
std::string hello_text(const std::string& client_nonce, const std::string& proof);
std::string proof_in(const ControlMessage& hello);

/// Longest text of a message; longer ones are cut.
inline constexpr size_t kLongestControlText = 1024;

/// Cuts texts that are too long.
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
