// trireme agent: waits on a host, so that launch and health reach it where no sshd runs (containers).

#include "base/error.h"
#include "base/log.h"
#include "cli/command.h"
#include "cli/flags.h"
#include "cli/version.h"
#include "cluster/launch/agent_secret.h"
#include "cluster/launch/agent_server.h"
#include "cluster/launch/remote_shell.h"

namespace trireme {

int run_agent(std::vector<std::string> arguments) {
  using namespace launch;
  Flags app("trireme agent", "Waits on a host for `trireme launch --agents`, which then needs no ssh to reach it.");
  app.set_footer(
      "Once:          trireme agent --new-secret secret     and the file to every host, mode 0600\n"
      "On every host: trireme agent --secret-file secret    stays in the foreground; TERM ends it and what it runs\n"
      "On the head:   trireme launch --agents --secret-file secret -f hosts -- train config.yaml\n"
      "In containers the secret can be in TRIREME_AGENT_SECRET instead. Whoever has it can run commands as the\n"
      "agent's user; connections are encrypted (TLS 1.3) and the secret itself is never sent.");
  AgentOptions options;
  options.port = kAgentPort;
  std::string secret_file, new_secret;
  app.add("--secret-file", secret_file, "the secret, mode 0600; default TRIREME_AGENT_SECRET").not_empty();
  app.add("--port", options.port, "where it listens; 0: any free port").in_range(0, 65535).show_default();
  app.add("--listen", options.address, "address of this host where it listens; default every one").not_empty();
  app.add("--new-secret", new_secret, "write a random secret to this file, which must not exist, and end").not_empty();
  if (const auto code = app.parse(std::move(arguments))) return *code;
  if (!new_secret.empty()) {
    write_agent_secret(new_secret);
    log::info("agent: wrote a secret to {}; give it to every host and to the head", new_secret);
    return 0;
  }
  options.secret = read_agent_secret(secret_file);
  options.version = program_text();
  return serve_agent(options);
}

}  // namespace trireme
