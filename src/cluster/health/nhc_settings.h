#pragma once
// Settings that NHC reads beside its configuration file: /etc/sysconfig/nhc (/etc/default/nhc on Debian), and the
// site's check functions in /etc/nhc/scripts/*.nhc.

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace trireme::health {

// The part of shell syntax that configuration lines of NHC use: words, quotes, variables, a trailing comment.

using Variables = std::map<std::string, std::string>;

struct ShellWords {
  std::vector<std::string> words;
  bool has_operator = false;    ///< an unquoted pipe, list, redirection or substitution: only a shell can run it
  bool needs_shell = false;     ///< has_operator, or an unsupported expansion: ${A:-b}, {a,b}, ~, $'..', $1,
                                ///< a variable that is not in `variables`, or one with several words
  bool uses_variables = false;  ///< the words contain values of variables
};

/// Splits like a shell: '...' is literal, "..." and bare text expand $NAME and ${NAME} from `variables` (empty if not
/// set), a backslash escapes except before three octal digits (as \040 in /proc/mounts), "#" at a word's start ends the
/// line. Throws Error::config for an unclosed quote or ${.
ShellWords split_words(std::string_view line, const Variables& variables);

/// A file that was not read, and the message about it.
struct FileProblem {
  std::string file, what;
};

struct Settings {
  Variables variables;                           ///< from the process, the sysconfig file and `fixed`; later ones win
  Variables fixed;                               ///< from the command line: they win
  std::string scripts;                           ///< INCDIR
  std::map<std::string, std::string> functions;  ///< checks that the site's files define, with their files
  std::vector<FileProblem> problems;
};

/// The variables of this process, with the system's folders appended to PATH, and with HOSTNAME and HOSTNAME_S (without
/// the domain) as NHC sets them. NHC's variables (CONFDIR, INCDIR, TIMEOUT, ...) are not taken from the environment.
Variables variables_of(const std::string& host);

/// Whether the name is one of NHC's variables.
std::span<const char* const> names_of_nhc_alone();

/// `fixed` may name, as on NHC's command line, SYSCONFIGDIR, NAME (nhc), CONFDIR (/etc/nhc) and INCDIR
/// (CONFDIR/scripts); the sysconfig file may set the last two. The sysconfig file is run by bash, for at most 10 s.
Settings read_settings(const std::string& host, const Variables& fixed);

/// Why bash must not run this file: its owner is neither root nor the caller, or the file or its folder is
/// world-writable. Empty: it may.
std::string why_not_trusted(const std::string& path);

/// Files that come with NHC (common.nhc, lbnl_*.nhc, csc_*.nhc) and Azure's set (azure_*.nhc): native forms replace
/// their checks. Any other file is a site file, whose functions win.
bool is_of_the_site(const std::string& path);

}  // namespace trireme::health
