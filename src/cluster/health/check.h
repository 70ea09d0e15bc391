#pragma once
// A health check: created from the words of its line, then run on a machine.

#include <fmt/format.h>

#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cluster/health/machine.h"

namespace trireme::health {

struct Outcome {
  /// skipped: left out on request (a GPU check with Machine::skip_gpu); not_checked: it cannot be run here
  enum class Kind { pass, fail, skipped, not_checked } kind = Kind::pass;
  std::string text;         ///< why it is not a pass; for a pass a remark or nothing
  int code = 1;             ///< of a failure: exit code of the run, from a check's `die CODE MESSAGE` or command
  bool unusable = false;    ///< of not_checked: its line, or bash, cannot be used
  std::string name = {};    ///< of a failure: the check that stands for this one (-C); empty: its own name
  std::string output = {};  ///< what a command printed, for the site function that called the check
  std::vector<std::string> called = {};  ///< of a line that bash ran: the names of the checks that it called
};

inline Outcome passed(std::string remark = "") { return {Outcome::Kind::pass, std::move(remark)}; }
inline Outcome skipped(std::string why) { return {Outcome::Kind::skipped, std::move(why)}; }
inline Outcome not_checked(std::string why) { return {Outcome::Kind::not_checked, std::move(why)}; }
inline Outcome unusable(std::string why) { return {Outcome::Kind::not_checked, std::move(why), 1, true}; }
template <class... Args>
Outcome failed(fmt::format_string<Args...> format, Args&&... args) {
  return {Outcome::Kind::fail, fmt::format(format, std::forward<Args>(args)...)};
}

using Words = std::span<const std::string>;
using Check = std::function<Outcome(const Machine&)>;

/// A check that configuration files may name.
struct KnownCheck {
  std::string_view name;
  /// Parses the words after the name; throws Error::config for wrong ones. nullptr: known, but without a native form.
  Check (*make)(Words words);
  bool gpu = false;       ///< fails on a node without GPUs
  bool measures = false;  ///< a speed, which may take minutes
};

/// All known checks, sorted by name; checks_*.cc have the native forms by area.
std::span<const KnownCheck> known_checks();

std::span<const KnownCheck> filesystem_checks();
std::span<const KnownCheck> hardware_checks();
std::span<const KnownCheck> network_checks();
std::span<const KnownCheck> process_checks();
std::span<const KnownCheck> command_checks();
std::span<const KnownCheck> gpu_checks();
std::span<const KnownCheck> gpu_speed_checks();
std::span<const KnownCheck> socket_checks();
std::span<const KnownCheck> topology_checks();
std::span<const KnownCheck> cluster_checks();  ///< from the Azure set, except GPU and network

struct CpuCount {
  size_t sockets = 0, cores = 0, threads = 0;
};

/// From /proc/cpuinfo; if that does not list packages (arm64, some guests) every thread is a core of one socket.
CpuCount count_cpus(const Machine& machine);

/// Options "-x" and their values before the positional words, as getopts parses them.
struct Options {
  std::map<char, std::vector<std::string>> values;
  std::vector<std::string> positional;

  /// `spec` as for getopts: a letter, followed by ':' if it takes a value. Throws Error::config for another letter or a
  /// missing value.
  Options(Words words, std::string_view spec);
  bool has(char option) const { return values.contains(option); }
  std::string value(char option, const std::string& absent = "") const;
  std::vector<std::string> all(char option) const;  ///< every value of an option that may be repeated
};

/// "1857830712kB", "32G", "90" (kB) in kB. Throws Error::config.
double parse_size_kb(const std::string& text);
/// The whole text as a decimal number. Throws Error::config naming `what`.
double parse_number(const std::string& text, std::string_view what);
/// The same, 0 or more: below a negative threshold everything would pass.
double parse_amount(const std::string& text, std::string_view what);
/// A whole number from `least` to `most`. Throws Error::config naming `what`.
int parse_count(const std::string& text, std::string_view what, int least, int most);
/// Throws Error::config with the usage when the number of words is outside [least, most].
void require_words(Words words, size_t least, size_t most, std::string_view usage);

/// Lines of text, without line ends.
std::vector<std::string_view> split_lines(std::string_view text);
std::vector<std::string_view> split_lines(std::string&&) = delete;  // the lines would outlive the text

}  // namespace trireme::health
