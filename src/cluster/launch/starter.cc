#include "cluster/launch/starter.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "base/error.h"
#include "cluster/hostfile.h"
#include "cluster/hostlist.h"
#include "cluster/launch/host_alias.h"
#include "cluster/subprocess.h"

namespace trireme::launch {
namespace {

std::string first_line(const std::string& text) {
  const size_t begin = text.find_first_not_of(" \n");
  return begin == std::string::npos ? "" : text.substr(begin, text.find('\n', begin) - begin);
}

std::string output_of(std::vector<std::string> words) {
  ProcessRequest request;
  request.arguments = std::move(words);
  request.timeout = std::chrono::seconds(20);
  const ProcessResult result = run_process(request);
  return result.out + result.err;
}

const char* family_name(StarterKind kind) {
  return kind == StarterKind::srun ? "Slurm" : kind == StarterKind::hydra ? "MPICH or Intel MPI" : "Open MPI";
}

/// The PMI plug-in of srun that the MPI here supports; empty if srun lacks it.
std::string srun_plugin(const std::string& mpi, const std::string& list) {
  if (mpi != "mpich" && list.find("pmix") != std::string::npos) return "pmix";
  if (mpi != "openmpi" && list.find("pmi2") != std::string::npos) return "pmi2";
  return "";
}

Starter find_srun(const StarterRequest& request) {
  const std::string path = find_program("srun");
  if (path.empty()) return {};
  const std::string plugin = srun_plugin(request.mpi, output_of({path, "--mpi=list"}));
  if (plugin.empty()) return {};
  return {StarterKind::srun, path, plugin, fmt::format("this is a Slurm job and srun has {}", plugin)};
}

std::vector<std::string> mpirun_names(const std::string& mpi) {
  if (mpi == "openmpi") return {"mpirun.openmpi", "mpirun", "orterun"};
  if (mpi == "mpich") return {"mpiexec.hydra", "mpirun.mpich", "mpirun"};
  return {"mpirun", "mpiexec.hydra", "mpirun.openmpi", "mpirun.mpich"};
}

bool suits(StarterKind kind, const std::string& mpi) {
  return mpi == "any" || (kind != StarterKind::hydra) == (mpi == "openmpi");
}

Starter find_mpirun(const StarterRequest& request) {
  std::string rejected;
  for (const std::string& name : mpirun_names(request.mpi)) {
    const std::string path = find_program(name);
    if (path.empty()) continue;
    const std::string text = output_of({path, "--version"});
    const StarterKind kind = mpirun_family(text, path);
    if (suits(kind, request.mpi)) {
      return {kind, path, first_line(text), fmt::format("{} is installed here", family_name(kind))};
    }
    rejected = fmt::format("; {} belongs to {}, whose library is not here", path, family_name(kind));
  }
  const bool open_mpi = request.mpi == "openmpi";
  fail(ErrorKind::config,
       "found no mpirun of {} on this host{}; install it (Debian: apt install {}), put its folder into PATH, or name "
       "it with --mpirun",
       open_mpi ? "Open MPI" : "MPICH", rejected, open_mpi ? "openmpi-bin" : "mpich");
}

void add(std::vector<std::string>& words, std::initializer_list<std::string> more) {
  words.insert(words.end(), more.begin(), more.end());
}

/// An absolute path makes Open MPI set its prefix on every host. An installation outside the system's folders needs
/// this; with Debian's packages the daemons would not find their plug-ins.
std::string open_mpi_program(const std::string& path) {
  const std::string folder = path.substr(0, path.rfind('/'));
  return folder == "/usr/bin" || folder == "/bin" ? path.substr(folder.size() + 1) : path;
}

/// Open MPI splits it at blanks and does not support quotes.
std::string agent_words(const std::vector<std::string>& agent) {
  for (const std::string& word : agent) {
    require(word.find_first_of(" \t:") == std::string::npos, ErrorKind::config,
            "Open MPI cannot call \"{}\" as its remote shell; put trireme, and the secret file of agents, into a "
            "folder without blanks and colons",
            word);
  }
  return fmt::format("{}", fmt::join(agent, " "));
}

/// Open MPI cuts names at their first dot: then ssh would use another name, and hosts may become indistinguishable.
bool has_domain_names(const std::vector<Host>& hosts) {
  return std::ranges::any_of(hosts, [](const Host& host) { return is_domain_name(host_key(host.name)); });
}

/// The entries of its hostfile: the placement, in names that it accepts.
std::vector<Host> hosts_for_starter(StarterKind kind, const StartRequest& request) {
  std::vector<Host> hosts;
  for (const Placement& entry : request.placement) {
    const bool here = !request.this_host.empty() && entry.host == request.this_host;
    hosts.push_back({here ? "localhost" : name_for_starter(kind, entry.host), entry.processes, 0, "", ""});
  }
  return hosts;
}

std::vector<std::string> open_mpi_words(const Starter& starter, const StartRequest& request) {
  std::vector<std::string> words = {open_mpi_program(starter.path)};
  if (request.as_root) words.push_back("--allow-run-as-root");
  add(words,
      {"--hostfile", request.hostfile, "-np", std::to_string(total_processes(request.placement)), "--map-by", "slot"});
  if (!request.inherit_binding) add(words, {"--bind-to", "none"});
  // All ssh connections start here: nodes need no keys for each other. Each node's daemon still needs the remote shell.
  if (starter.kind == StarterKind::prrte) {
    add(words, {"--output", "tag", "--prtemca", "plm_ssh_agent", agent_words(request.agent), "--prtemca",
                "plm_ssh_no_tree_spawn", "1"});
  } else {
    add(words,
        {"--tag-output", "--mca", "plm_rsh_agent", agent_words(request.agent), "--mca", "plm_rsh_no_tree_spawn", "1"});
  }
  if (has_domain_names(hosts_for_starter(starter.kind, request)))
    add(words, {"--mca", "orte_keep_fqdn_hostnames", "1"});
  // vader is called sm since Open MPI 5, which accepts the old name, too.
  if (request.tcp_only) add(words, {"--mca", "pml", "ob1", "--mca", "btl", "self,vader,tcp"});
  if (request.ipv6 && starter.kind != StarterKind::prrte) {  // where it is on by default
    add(words, {"--mca", "oob_tcp_disable_ipv6_family", "0"});
  }
  if (!request.network.empty()) {
    add(words, {"--mca", "btl_tcp_if_include", request.network});
    if (starter.kind == StarterKind::prrte) {
      add(words, {"--prtemca", "prte_if_include", request.network});
    } else {
      add(words, {"--mca", "oob_tcp_if_include", request.network});
    }
  }
  for (const auto& [name, value] : request.variables) add(words, {"-x", name + "=" + value});
  for (const auto& [name, value] : request.secrets) add(words, {"-x", name});
  return words;
}

std::vector<std::string> hydra_words(const Starter& starter, const StartRequest& request) {
  const bool intel = starter.version.find("Intel(R) MPI") != std::string::npos;
  // Intel's -f does not accept process counts.
  std::vector<std::string> words = {starter.path, intel ? "-machinefile" : "-f"};
  add(words, {request.hostfile, "-n", std::to_string(total_processes(request.placement)), "-launcher", "ssh",
              "-launcher-exec", request.agent_script, "-prepend-pattern", "[%r]"});
  if (!request.inherit_binding) add(words, {"-bind-to", "none"});
  if (!request.inherit_binding && intel) add(words, {"-genv", "I_MPI_PIN", "0"});  // otherwise it still pins
  // Hydra expects an interface, not a network.
  if (!request.network.empty() && request.network.find('/') == std::string::npos) {
    add(words, {"-iface", request.network});
    if (intel) add(words, {"-genv", "FI_TCP_IFACE", request.network});
  }
  if (request.tcp_only && intel) add(words, {"-genv", "FI_PROVIDER", "tcp"});
  if (request.tcp_only && !intel) add(words, {"-genv", "UCX_TLS", "tcp,self,sm"});
  for (const auto& [name, value] : request.variables) add(words, {"-genv", name, value});
  return words;  // secrets are in its own environment, which Hydra passes on completely
}

bool is_even(const std::vector<Placement>& placement) {
  return std::ranges::all_of(placement, [&](const Placement& p) { return p.processes == placement[0].processes; });
}

std::vector<std::string> srun_words(const Starter& starter, const StartRequest& request) {
  std::vector<std::string> names;
  for (const Placement& entry : request.placement) names.push_back(entry.host);
  std::vector<std::string> words = {starter.path,
                                    "--mpi=" + starter.version,
                                    "--label",
                                    "--kill-on-bad-exit=1",
                                    "--wait=30",
                                    "--export=ALL",
                                    fmt::format("--nodes={}", names.size()),
                                    fmt::format("--ntasks={}", total_processes(request.placement)),
                                    "--nodelist=" + compress_hostlist(names)};
  if (!request.inherit_binding) words.push_back("--cpu-bind=none");
  words.push_back(is_even(request.placement) ? fmt::format("--ntasks-per-node={}", request.placement[0].processes)
                                             : std::string("--distribution=arbitrary"));
  return words;
}

/// srun has no options for the MPI library; it passes on its own environment.
std::vector<std::pair<std::string, std::string>> srun_environment(const Starter& starter, const StartRequest& request) {
  std::vector<std::pair<std::string, std::string>> variables = request.variables;
  const bool open_mpi = starter.version == "pmix";
  if (request.tcp_only && open_mpi) {
    variables.insert(variables.end(), {{"OMPI_MCA_pml", "ob1"}, {"OMPI_MCA_btl", "self,vader,tcp"}});
  }
  if (request.tcp_only && !open_mpi) variables.emplace_back("UCX_TLS", "tcp,self,sm");
  if (open_mpi && !request.network.empty()) variables.emplace_back("OMPI_MCA_btl_tcp_if_include", request.network);
  return variables;
}

}  // namespace

StarterKind mpirun_family(std::string_view text, const std::string& program) {
  if (text.find("Open MPI") != std::string_view::npos || text.find("OpenRTE") != std::string_view::npos) {
    const size_t name = text.find(") ");
    int version = 0;
    if (name != std::string_view::npos) std::from_chars(text.data() + name + 2, text.data() + text.size(), version);
    return version >= 5 ? StarterKind::prrte : StarterKind::open_mpi;
  }
  if (text.find("HYDRA") != std::string_view::npos || text.find("Intel(R) MPI") != std::string_view::npos) {
    return StarterKind::hydra;
  }
  fail(ErrorKind::config, "{} is neither Open MPI's nor Hydra's (MPICH, Intel MPI) mpirun; it prints \"{}\"", program,
       first_line(std::string(text)));
}

Starter find_starter(const StarterRequest& request) {
  const std::string& wanted = request.wanted;
  require(wanted == "auto" || wanted == "openmpi" || wanted == "hydra" || wanted == "srun", ErrorKind::usage,
          "--starter is \"{}\", expected auto, openmpi, hydra or srun", wanted);
  require(
      request.mpi != "off", ErrorKind::config,
      "found no MPI library on this host for which this trireme has an adapter, so only one process can run; install "
      "one (Debian: apt install openmpi-bin)");
  if (wanted == "srun" || (wanted == "auto" && request.in_slurm_job && request.program.empty())) {
    Starter starter = find_srun(request);
    if (!starter.path.empty()) return starter;
    require(
        wanted != "srun", ErrorKind::config,
        "srun cannot start this build: it is not installed or lacks {}; check `srun --mpi=list`, or use --starter auto",
        request.mpi == "mpich" ? "pmi2" : "pmix");
  }
  Starter starter;
  if (request.program.empty()) {
    starter = find_mpirun(request);
    if (request.in_slurm_job) {
      starter.why +=
          wanted == "auto" ? " and srun cannot start it here" : fmt::format(" and --starter {} asks for it", wanted);
    }
  } else {
    const std::string path = find_program(request.program);
    require(!path.empty(), ErrorKind::config, "--mpirun {}: found no such program", request.program);
    const std::string text = output_of({path, "--version"});
    starter = {mpirun_family(text, path), path, first_line(text), "--mpirun names it"};
    require(suits(starter.kind, request.mpi), ErrorKind::config,
            "--mpirun {} belongs to {}, whose library is not on this host: found {}", path, family_name(starter.kind),
            request.mpi);
  }
  const bool hydra = starter.kind == StarterKind::hydra;
  require(wanted == "auto" || (wanted == "hydra") == hydra, ErrorKind::config,
          "--starter {}: {} belongs to {}; name another with --mpirun", wanted, starter.path,
          family_name(starter.kind));
  return starter;
}

StartCommand start_command(const Starter& starter, const StartRequest& request) {
  StartCommand command;
  const std::vector<Host> hosts = hosts_for_starter(starter.kind, request);
  switch (starter.kind) {
    case StarterKind::prrte:
    case StarterKind::open_mpi:
      command.words = open_mpi_words(starter, request);
      command.hostfile_text = format_hostfile(hosts, HostfileForm::open_mpi);
      break;
    case StarterKind::hydra:
      command.words = hydra_words(starter, request);
      command.hostfile_text = format_hostfile(hosts, HostfileForm::intel);
      break;
    case StarterKind::srun:
      command.words = srun_words(starter, request);
      command.environment = srun_environment(starter, request);
      if (!is_even(request.placement)) {  // one line per rank
        for (const Placement& entry : request.placement) {
          for (int i = 0; i < entry.processes; ++i) command.hostfile_text += entry.host + "\n";
        }
        command.environment.emplace_back("SLURM_HOSTFILE", request.hostfile);
      }
  }
  command.environment.insert(command.environment.end(), request.secrets.begin(), request.secrets.end());
  command.words.insert(command.words.end(), request.command.begin(), request.command.end());
  return command;
}

const std::string& host_of_rank(const std::vector<Placement>& placement, int rank) {
  static const std::string kUnknown = "?";
  for (const Placement& entry : placement) {
    if (rank < entry.processes) return rank < 0 ? kUnknown : entry.host;
    rank -= entry.processes;
  }
  return kUnknown;
}

std::optional<int> first_rank_on(const std::vector<Placement>& placement, const std::string& host) {
  int rank = 0;
  for (const Placement& entry : placement) {
    if (entry.processes > 0 && host_key(entry.host) == host_key(host)) return rank;
    rank += entry.processes;
  }
  return std::nullopt;
}

}  // namespace trireme::launch
