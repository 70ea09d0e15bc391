#pragma once
// The connection between `trireme agent` and the head: frames over TLS 1.3. Both sides derive a key from their shared
// secret (a pre-shared key of TLS), and neither talks to a side without it: each proves it over random bytes of both,
// the secret itself is not sent, and every byte is encrypted, numbered and authenticated.

#include <poll.h>

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "comm/control/socket.h"

namespace trireme::launch {

enum class FrameKind : char {
  hello = 'h',     ///< agent: the version of its program
  run = 'r',       ///< head: {"line": for a shell, "user": that runs it, or ""}
  input = 'i',     ///< head: for the command's standard input; empty: its end
  output = 'o',    ///< agent: bytes of the command's standard output
  messages = 'm',  ///< agent: bytes of the command's standard error
  refusal = 'f',   ///< agent: why it does not run the command
  end = 'e'        ///< agent: the exit code as digits; the last frame
};

struct Frame {
  FrameKind kind;
  std::string bytes;
};

/// Encodes kind, length (four bytes, big-endian), bytes.
std::string encode(FrameKind kind, std::string_view bytes);

/// Cuts a stream of bytes into frames.
class FrameReader {
 public:
  void append(std::string_view bytes) { bytes_ += bytes; }
  /// The next frame; nullopt until it is complete. Throws Error::comm for an invalid kind or length.
  std::optional<Frame> next();

 private:
  std::string bytes_;
  size_t begin_ = 0;  ///< of the bytes not yet used
};

/// One connection.
class AgentChannel {
 public:
  enum class Side { agent, head };
  enum class Greeting {
    done,
    wrong_secret,
    foreign,  ///< the other side speaks another protocol
    closed,   ///< by the other side
    silent    ///< no answer within the limit
  };

  AgentChannel(Socket socket, Side side, const std::string& secret);
  ~AgentChannel();
  AgentChannel(const AgentChannel&) = delete;
  AgentChannel& operator=(const AgentChannel&) = delete;

  /// Until it has returned `done`, no other function may be called.
  Greeting shake_hands(double seconds);

  /// move() sends it.
  void queue(FrameKind kind, std::string_view bytes);
  size_t queued() const;  ///< bytes
  /// Sends and receives what is possible without waiting. False: the connection ended, with or without an error, or
  /// received invalid data; complete frames from before can still be read.
  bool move(bool receives = true);
  std::optional<Frame> next() { return reader_.next(); }
  /// What to wait for before the next move(); `reads`: whether more input is wanted.
  pollfd awaited(bool reads = true) const;
  /// Sends what is queued and ends the connection so that the other side receives all of it. Waits at most `seconds`.
  void finish(double seconds);

 private:
  struct Tls;
  std::unique_ptr<Tls> tls_;
  FrameReader reader_;
};

// The secret that the agents of a cluster and the head share.

/// Used if no file is given, for example in a container.
inline constexpr const char* kAgentSecretVariable = "TRIREME_AGENT_SECRET";

/// The text of `file` without blanks around it, or of kAgentSecretVariable if `file` is empty. Throws Error::config if
/// it is missing or shorter than 32 characters, or others than the owner can read the file.
std::string read_agent_secret(const std::string& file);

/// Writes a new random secret into a file that must not exist, mode 0600. Throws Error::io.
void write_agent_secret(const std::string& file);

// The remote side of `trireme launch --agents`: `trireme agent` waits on a host and runs commands for clients with the
// secret, as sshd does for clients with a key.

struct AgentOptions {
  std::string secret;
  std::string address;  ///< where it listens; empty: on every address
  int port = 0;         ///< 0: any free one
  std::string version;  ///< of this program
};

/// Logs where it listens, then serves until TERM or INT: each connection in a separate process, which runs one command
/// in a shell, passes the standard streams and the exit code, and ends the command if the connection is lost first.
/// Background processes of a command run until the agent ends in any way. Returns 0 after all descendants of this
/// process have ended. Throws Error::comm if it cannot listen.
int serve_agent(const AgentOptions& options);

}  // namespace trireme::launch
