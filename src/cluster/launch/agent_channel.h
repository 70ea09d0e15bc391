#pragma once
// What `trireme agent` and the head talk through: frames over TLS 1.3. Both sides derive one key from the secret that
// they share (TLS calls it a pre-shared key), and neither talks to a side that does not have it: each proves that over
// random bytes of both, the secret itself does not travel, and every byte is encrypted, numbered and authenticated.

#include <poll.h>

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "comm/control/socket.h"

namespace trireme::launch {

enum class FrameKind : char {
  hello = 'h',     ///< agent: the version of its program
  run = 'r',       ///< head: {"line": for a shell, "user": who is to run it, or ""}
  input = 'i',     ///< head: for the command's standard input; empty: its end
  output = 'o',    ///< agent: of its standard output
  messages = 'm',  ///< agent: of its standard error
  refusal = 'f',   ///< agent: why it does not run the command
  end = 'e'        ///< agent: its exit code, in digits; the last frame
};

struct Frame {
  FrameKind kind;
  std::string bytes;
};

/// Kind, length (four bytes, the highest first), bytes.
std::string encode(FrameKind kind, std::string_view bytes);

/// Cuts a stream of bytes into frames.
class FrameReader {
 public:
  void append(std::string_view bytes) { bytes_ += bytes; }
  /// Nothing until a complete frame is there. Throws Error::comm for a kind or a length that no frame has.
  std::optional<Frame> next();

 private:
  std::string bytes_;
  size_t begin_ = 0;  ///< of what has not been taken
};

/// One connection. Ignore SIGPIPE before it is used.
class AgentChannel {
 public:
  enum class Side { agent, head };
  enum class Greeting {
    done,
    wrong_secret,
    foreign,  ///< the other side speaks another protocol
    closed,   ///< by the other side
    silent    ///< within the limit
  };

  AgentChannel(Socket socket, Side side, const std::string& secret);
  ~AgentChannel();
  AgentChannel(const AgentChannel&) = delete;
  AgentChannel& operator=(const AgentChannel&) = delete;

  /// Until it has given `done`, nothing else may be called.
  Greeting shake_hands(double seconds);

  /// move() sends it.
  void queue(FrameKind kind, std::string_view bytes);
  size_t queued() const;  ///< bytes
  /// Sends and receives what is possible without waiting. False: the connection is over, in order or not, or what came
  /// was not from the other side; complete frames that came before can still be taken.
  bool move(bool receives = true);
  std::optional<Frame> next() { return reader_.next(); }
  /// What to wait for before move() is called again; `reads`: whether more may come.
  pollfd awaited(bool reads = true) const;
  /// Sends what is queued and ends the connection so that the other side gets it all. Waits at most `seconds`.
  void finish(double seconds);

 private:
  struct Tls;
  std::unique_ptr<Tls> tls_;
  FrameReader reader_;
};

}  // namespace trireme::launch
