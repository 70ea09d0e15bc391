// trireme agent: runs on a host, so that launch and health reach it without sshd (containers).

#include "base/error.h"
#include "base/log.h"
#include "cli/command.h"
#include "cli/flags.h"
#include "cli/version.h"
#include "cluster/launch/agent_channel.h"
#include "cluster/launch/remote_shell.h"

namespace trireme {

int run_agent(CommandLine line) {
  using namespace launch;
  Flags app(std::move(line), "trireme agent",
            "Runs on a host, so that `trireme launch --agents` can reach it without ssh.");
  app.set_footer(
      "Once:          trireme agent --new-secret secret     then copy the file to every host, mode 0600\n"
      "On every host: trireme agent --secret-file secret    runs in the foreground; TERM stops it and its commands\n"
      "On the head:   trireme launch --agents --secret-file secret -f hosts -- train config.yaml\n"
      "In containers the secret can be in TRIREME_AGENT_SECRET instead. Anyone with the secret can run commands as "
      "the\n"
      "agent's user; connections are encrypted (TLS 1.3) and the secret itself is never sent.");
  AgentOptions options;
  options.port = kAgentPort;
  std::string secret_file, new_secret;
  app.add("--secret-file", secret_file, "file with the secret, mode 0600; default: the variable TRIREME_AGENT_SECRET")
      .not_empty();
  app.add("--port", options.port, "port to listen on; 0: any free port").in_range(0, 65535).show_default();
  app.add("--listen", options.address, "address of this host to listen on; default: all").not_empty();
  app.add("--new-secret", new_secret, "write a random secret to this file, which must not exist, and exit").not_empty();
  if (const auto code = app.parse()) return *code;
  if (!new_secret.empty()) {
    write_agent_secret(new_secret);
    log::info("agent: wrote a secret to {}; copy it to every host and to the head node", new_secret);
    return 0;
  }
  options.secret = read_agent_secret(secret_file);
  options.version = program_text();
  return serve_agent(options);
}

}  // namespace trireme
