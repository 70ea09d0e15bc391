#include "comm/proof.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "base/hash.h"
#include "comm/agreement.h"

namespace trireme {
namespace {

constexpr size_t kNamedRanks = 16;  // of a large job; further ranks are only counted

std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    lines.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

/// The first line in which rank `other` differs from rank `base`.
std::string first_difference(const std::vector<std::string>& texts, int base, int other) {
  const auto a = lines_of(texts[static_cast<size_t>(base)]), b = lines_of(texts[static_cast<size_t>(other)]);
  for (size_t i = 0; i < std::max(a.size(), b.size()); ++i) {
    const std::string_view left = i < a.size() ? a[i] : "", right = i < b.size() ? b[i] : "";
    if (left != right) return fmt::format("rank {} has \"{}\", rank {} has \"{}\"", base, left, other, right);
  }
  return "they differ only in line ends";
}

std::string names_of(const std::vector<int>& ranks, const std::vector<std::string>& hosts, const MeshShape& mesh) {
  std::vector<std::string> names;
  for (const int r : ranks) {
    if (names.size() == kNamedRanks) break;
    const std::string place = describe_place(mesh, r);
    names.push_back(
        fmt::format("rank {}{} on {}", r, place.empty() ? "" : " (" + place + ")", hosts[static_cast<size_t>(r)]));
  }
  const std::string rest = ranks.size() > names.size() ? fmt::format(" and {} more", ranks.size() - names.size()) : "";
  return fmt::format("{}{}", fmt::join(names, ", "), rest);
}

}  // namespace

std::string names_of(const std::vector<int>& ranks, const std::vector<std::string>& hosts) {
  return names_of(ranks, hosts, {});
}

std::string names_of(const std::vector<int>& ranks, Scalars& scalars, std::string_view host, const MeshShape& mesh) {
  return names_of(ranks, scalars.gather(host), mesh);
}

std::string who_differs(const std::vector<int>& ranks, const std::vector<std::string>& hosts) {
  if (ranks.size() == hosts.size()) return fmt::format("no majority agrees among {}", names_of(ranks, hosts));
  return fmt::format("{} {} from the other {}", names_of(ranks, hosts), ranks.size() == 1 ? "differs" : "differ",
                     hosts.size() - ranks.size());
}

void prove_same_text(Scalars& scalars, std::string_view host, std::string_view text, std::string_view what,
                     std::string_view fix) {
  const std::vector<int> ranks = scalars.differing(xxh3(std::as_bytes(std::span(text))));
  if (ranks.empty()) return;
  const auto hosts = scalars.gather(host), texts = scalars.gather(text);
  // Without a majority every rank is listed: compare rank 0 with the first that differs.
  const auto is_listed = [&](int r) { return std::ranges::find(ranks, r) != ranks.end(); };
  int base = 0, other = ranks[0];
  if (ranks.size() == texts.size()) {
    while (texts[static_cast<size_t>(other)] == texts[0]) ++other;
  } else {
    while (is_listed(base)) ++base;
  }
  throw CommonError(ErrorKind::mismatch, fmt::format("ranks do not {}: {}; {}; {}", what, who_differs(ranks, hosts),
                                                     first_difference(texts, base, other), fix));
}

void prove_one_job(Scalars& scalars, std::string_view host, std::string_view config, std::string_view version) {
  prove_same_text(scalars, host, version, "run the same program", "install the same trireme binary on every host");
  prove_same_text(scalars, host, config, "run the same configuration", "give every rank the same files and flags");
}

std::string different_parameters(std::string_view who, int64_t step) {
  return fmt::format(
      "ranks hold different parameters after step {}: {}; resume from the last checkpoint and check that host's memory",
      step, who);
}

void prove_same_parameters(Scalars& scalars, std::string_view host, uint64_t hash, int64_t step) {
  const std::vector<int> ranks = scalars.differing(hash);
  if (ranks.empty()) return;
  throw CommonError(ErrorKind::mismatch, different_parameters(who_differs(ranks, scalars.gather(host)), step));
}

}  // namespace trireme
