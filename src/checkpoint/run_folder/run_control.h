#pragma once
// RUN/control.json: where a running job answers (comm/control/status_server.h), and the secret that it requires. Only
// its user may read it. The job's owner writes it when it takes the run folder and removes it when the run has ended in
// order; a leftover one means that the job was killed.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace trireme {

/// A process that answers.
struct ControlPlace {
  std::string host, boot_id;
  int64_t pid = 0;
  std::vector<std::string> addresses;

  /// This process.
  static ControlPlace here(std::vector<std::string> addresses);
  /// Whether it runs on the host that asks.
  bool is_on_this_host() const;
  /// It is on the host that asks, and gone.
  bool is_gone() const;
  /// The addresses that mean the same host here as there: those of a loopback interface only on the host itself.
  std::vector<std::string> usable() const;
  bool operator==(const ControlPlace&) const = default;
};

struct RunControl {
  std::string secret;
  ControlPlace job;                    ///< rank 0
  std::optional<ControlPlace> launch;  ///< what started the ranks and passes their output on
  bool operator==(const RunControl&) const = default;
};

std::string control_path(const std::string& run_dir);
/// With mode 0600. Throws Error::io.
void write_control(const std::string& run_dir, const RunControl& control);
/// Nothing if it is missing. Throws Error::io naming whose it is when this user may not read it, Error::data.
std::optional<RunControl> read_control(const std::string& run_dir);
/// Where it still has this secret. Never throws.
void remove_control(const std::string& run_dir, const std::string& secret);

/// A place as one word for an environment variable, and back; nothing if the word is invalid.
std::string to_word(const ControlPlace& place);
std::optional<ControlPlace> place_from_word(const std::string& word);

}  // namespace trireme
