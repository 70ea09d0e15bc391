#pragma once
// One health check: made once from the words of its line, run on a machine.

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
  /// skipped: not meant for this node (a GPU check without a GPU); not_checked: meant for it, and nothing here can do
  /// it
  enum class Kind { pass, fail, skipped, not_checked } kind = Kind::pass;
  std::string text;       ///< why it is none of a pass; for a pass a remark, or nothing
  int code = 1;           ///< of a failure: what the run ends with, as a check's `die CODE MESSAGE` or command told
  bool unusable = false;  ///< of one that was not checked: its line, or bash for it, cannot be used
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
  /// Reads the words behind the name; throws Error::config saying what is wrong with them. nullptr: known, no native
  /// form.
  Check (*make)(Words words);
  bool gpu = false;  ///< skipped on a node without GPUs
};

/// All of them, sorted by name; checks_*.cc hold the native forms by area.
std::span<const KnownCheck> known_checks();

std::span<const KnownCheck> filesystem_checks();
std::span<const KnownCheck> hardware_checks();
std::span<const KnownCheck> network_checks();
std::span<const KnownCheck> process_checks();
std::span<const KnownCheck> command_checks();
std::span<const KnownCheck> gpu_checks();
std::span<const KnownCheck> cluster_checks();  ///< of the Azure set, neither GPU nor network

struct CpuCount {
  size_t sockets = 0, cores = 0, threads = 0;
};

/// From /proc/cpuinfo; where it does not tell packages (arm64, some guests) every thread is a core of one socket.
CpuCount count_cpus(const Machine& machine);

/// Options "-x" and their values in front of the positional words, as getopts reads them.
struct Options {
  std::map<char, std::vector<std::string>> values;
  std::vector<std::string> positional;

  /// `spec` as for getopts: a letter, with ':' behind it when it takes a value. Throws Error::config for another
  /// letter or a missing value.
  Options(Words words, std::string_view spec);
  bool has(char option) const { return values.contains(option); }
  std::string value(char option, const std::string& absent = "") const;
  std::vector<std::string> all(char option) const;  ///< every value of an option that may be repeated
};

/// "1857830712kB", "32G", "90" (kB) in kB. Throws Error::config.
double parse_size_kb(const std::string& text);
/// A decimal number, the whole of the text. Throws Error::config naming `what`.
double parse_number(const std::string& text, std::string_view what);
/// Throws Error::config with the usage when the number of words is outside [least, most].
void require_words(Words words, size_t least, size_t most, std::string_view usage);

/// Lines of text, without line ends.
std::vector<std::string_view> split_lines(std::string_view text);
std::vector<std::string_view> split_lines(std::string&&) = delete;  // the lines would outlive their text
std::string_view trim_blanks(std::string_view text);

}  // namespace trireme::health
