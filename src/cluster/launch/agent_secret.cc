#include "cluster/launch/agent_secret.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "base/error.h"
#include "base/file.h"
#include "base/opened_file.h"
#include "comm/control/secret.h"

namespace trireme::launch {
namespace {

// From one recorded handshake secrets can be guessed offline: a password would be found.
constexpr size_t kFewestCharacters = 32;

void require_private(const std::string& file) {
  const OpenedFile opened(file);
  struct stat facts {};
  fstat(opened.fd(), &facts);
  require((facts.st_mode & 077) == 0, ErrorKind::config,
          "secret file {}: its mode is {:04o}, so others may read it; expected 0600: `chmod 600 {}`, or set the secret "
          "in {}",
          file, facts.st_mode & 07777, file, kAgentSecretVariable);
}

}  // namespace

std::string read_agent_secret(const std::string& file) {
  std::string secret, origin = file.empty() ? kAgentSecretVariable : "secret file " + file;
  if (!file.empty()) {
    require_private(file);
    secret = read_text(file, size_t{64} << 10);
  } else if (const char* value = std::getenv(kAgentSecretVariable)) {
    secret = value;
  } else {
    fail(ErrorKind::config,
         "agents: the secret is missing: set --secret-file or {}; `trireme agent --new-secret FILE` creates one for "
         "all hosts",
         kAgentSecretVariable);
  }
  constexpr const char* kBlanks = " \t\r\n";
  secret.erase(secret.find_last_not_of(kBlanks) + 1);  // npos + 1 is 0
  secret.erase(0, secret.find_first_not_of(kBlanks));
  require(secret.size() >= kFewestCharacters, ErrorKind::config,
          "{}: it has {} characters, expected at least {}; `trireme agent --new-secret FILE` creates a random one",
          origin, secret.size(), kFewestCharacters);
  return secret;
}

void write_agent_secret(const std::string& file) {
  const int fd = open(file.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  require(fd >= 0 || errno != EEXIST, ErrorKind::io, "secret file {}: it exists already; use it or remove it first",
          file);
  require(fd >= 0, ErrorKind::io, "secret file {}: {}", file, std::strerror(errno));
  const std::string line = random_secret() + "\n";
  const bool written = write(fd, line.data(), line.size()) == static_cast<ssize_t>(line.size());
  const int error = errno;
  close(fd);
  require(written, ErrorKind::io, "secret file {}: {}", file, std::strerror(error));
}

}  // namespace trireme::launch
