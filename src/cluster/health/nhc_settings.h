#pragma once
// What NHC finds beside its configuration file: /etc/sysconfig/nhc (/etc/default/nhc on Debian), and a site's own check
// functions in /etc/nhc/scripts/*.nhc.

#include <map>
#include <span>
#include <string>
#include <vector>

#include "cluster/health/shell_words.h"

namespace trireme::health {

/// A file that was not read, and the message about it.
struct FileProblem {
  std::string file, what;
};

struct Settings {
  Variables variables;                           ///< of the process, then of the sysconfig file, then `fixed`
  Variables fixed;                               ///< told on the command line: they win
  std::string scripts;                           ///< INCDIR
  std::map<std::string, std::string> functions;  ///< checks that the site's own files define, and the file of each
  std::vector<FileProblem> problems;
};

/// The variables of this process, PATH with the system's folders after its own, and as NHC sets them HOSTNAME and,
/// without the domain, HOSTNAME_S. NHC's own names (CONFDIR, INCDIR, TIMEOUT, ...) do not come in from the environment.
Variables variables_of(const std::string& host);

/// NHC's own names.
std::span<const char* const> names_of_nhc_alone();

/// `fixed` may name, as on NHC's command line, SYSCONFIGDIR, NAME (nhc), CONFDIR (/etc/nhc) and INCDIR
/// (CONFDIR/scripts); the sysconfig file may set the last two. The sysconfig file is run by bash, for at most 10 s.
Settings read_settings(const std::string& host, const Variables& fixed);

/// Why bash must not run this file: it belongs to somebody else than root or the caller, or all may write to it or to
/// its folder. Empty: it may.
std::string why_not_trusted(const std::string& path);

/// Files that come with NHC (common.nhc, lbnl_*.nhc, csc_*.nhc) and Azure's set (azure_*.nhc): native forms take over
/// their checks. Any other file is a site's own, whose functions win.
bool is_of_the_site(const std::string& path);

}  // namespace trireme::health
