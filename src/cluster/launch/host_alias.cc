#include "cluster/launch/host_alias.h"

#include <arpa/inet.h>

#include <algorithm>
#include <utility>

namespace trireme::launch {
namespace {

constexpr std::string_view kPrefix = "trireme-name-";
constexpr std::string_view kPlain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.";
// Each escape begins with a hyphen; every other character of a host's name is unchanged.
constexpr std::pair<char, char> kEscapes[] = {{'-', '-'}, {'.', 'd'}, {'_', 'u'}, {':', 'c'}, {'%', 'p'}};

/// Open MPI accepts only `kPlain` and hyphens: 4.1 prints an error for other names and then hangs; 5.0 finds no slots
/// on hosts with domain names, whatever prte_keep_fqdn_hostnames says. Hydra starts a count at ":".
bool is_taken(StarterKind kind, std::string_view name) {
  if (kind == StarterKind::srun) return true;
  if (kind == StarterKind::hydra) return name.find_first_of(":%") == std::string_view::npos;
  if (kind == StarterKind::prrte && is_domain_name(name)) return false;
  return std::ranges::all_of(name, [](char c) { return c == '-' || kPlain.find(c) != std::string_view::npos; });
}

}  // namespace

bool is_domain_name(std::string_view name) {
  in_addr ignored{};
  return name.find('.') != std::string_view::npos && inet_pton(AF_INET, std::string(name).c_str(), &ignored) != 1;
}

std::string name_for_starter(StarterKind kind, const std::string& host) {
  const size_t begin = host.find('@') + 1;  // npos + 1 is 0
  if (is_taken(kind, std::string_view(host).substr(begin))) return host;
  std::string alias = host.substr(0, begin) + std::string(kPrefix);
  for (const char c : host.substr(begin)) {
    const auto* escape = std::ranges::find(kEscapes, c, &std::pair<char, char>::first);
    if (escape == std::end(kEscapes)) {
      alias += c;
    } else {
      alias += '-';
      alias += escape->second;
    }
  }
  return alias;
}

std::string name_of_alias(std::string_view name) {
  const size_t begin = name.find('@') + 1;  // npos + 1 is 0
  if (!name.substr(begin).starts_with(kPrefix)) return std::string(name);
  std::string host(name.substr(0, begin));
  const std::string_view rest = name.substr(begin + kPrefix.size());
  for (size_t i = 0; i < rest.size(); ++i) {
    const bool escaped = rest[i] == '-' && i + 1 < rest.size();
    if (escaped) ++i;
    const auto* escape = std::ranges::find(kEscapes, rest[i], &std::pair<char, char>::second);
    host += escaped && escape != std::end(kEscapes) ? escape->first : rest[i];
  }
  return host;
}

std::string without_aliases(std::string_view text) {
  std::string out;
  for (size_t at; (at = text.find(kPrefix)) != std::string_view::npos;) {
    out += text.substr(0, at);
    size_t end = at;
    while (end < text.size() && (text[end] == '-' || kPlain.find(text[end]) != std::string_view::npos)) ++end;
    while (text[end - 1] == '.') --end;  // the end of a sentence
    out += name_of_alias(text.substr(at, end - at));
    text.remove_prefix(end);
  }
  return out += text;
}

}  // namespace trireme::launch
