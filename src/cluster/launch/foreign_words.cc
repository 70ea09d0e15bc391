#include "cluster/launch/foreign_words.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <utility>

namespace trireme::launch {
namespace {

bool has(std::string_view text, std::string_view words) { return text.find(words) != std::string_view::npos; }

template <size_t N>
bool has_any(std::string_view text, const std::array<const char*, N>& all) {
  return std::ranges::any_of(all, [&](const char* words) { return has(text, words); });
}

// Messages of Open MPI 4 and 5 about a hostfile; after most of them mpirun hangs.
constexpr std::pair<const char*, const char*> kRefusals[] = {
    {"presence of an illegal character in the following node name", "it does not accept the name of a host"},
    {"detected a parse error in the hostfile", "it cannot read its hostfile"},
    {"detected a bad parameter in the hostfile", "it cannot read its hostfile"},
    {"unable to open the hostfile", "it cannot open its hostfile"},
    {"contains multiple definitions", "it mistakes two hosts for one"},
    {"requested hosts are not included in the current allocation", "its batch system did not allocate these hosts"},
    {"contains at least one node not", "its batch system did not allocate these hosts"},
    {"There are not enough slots available", "its hostfile has too few slots"},
    {"All nodes which are allocated for this job are already filled", "its hostfile has too few slots"}};

constexpr std::array kNotStarted = {"unable to launch the specified application",
                                    "unable to find the specified executable"};
constexpr std::array kInternalErrors = {"An internal error has occurred in",
                                        "This is something that should be reported"};
constexpr std::array kTraces = {"ORTE_ERROR_LOG",
                                "PRTE_ERROR_LOG",
                                "PRTE ERROR",
                                "PMIX ERROR",
                                "OPAL ERROR",
                                "*** Process received signal",
                                "*** End of error message",
                                "] Signal: ",
                                "] Signal code: ",
                                "] Failing at address: "};

/// "NAME" of the box's line "node: NAME"; empty if it is missing.
std::string value_of(const std::string& box, const std::string& key) {
  const size_t at = box.find(key);
  if (at == std::string::npos) return "";
  const size_t begin = box.find_first_not_of(' ', at + key.size());
  return begin == std::string::npos ? "" : box.substr(begin, box.find('\n', begin) - begin);
}

}  // namespace

BoxMeaning meaning_of_box(const std::string& box) {
  BoxMeaning meaning;
  meaning.not_started = has_any(box, kNotStarted);
  meaning.trace = has_any(box, kInternalErrors);
  meaning.verdict = has(box, "non-zero");
  const auto* const refusal = std::ranges::find_if(kRefusals, [&](const auto& known) { return has(box, known.first); });
  if (refusal != std::end(kRefusals)) {
    const std::string host = value_of(box, "node: ");
    meaning.refusal = fmt::format("{}{}{}", refusal->second, host.empty() ? "" : ": ", host);
  }
  if (has(box, "has lost communication with a remote daemon")) {
    const size_t daemon = box.find("Remote daemon:");
    if (daemon != std::string::npos) meaning.lost_host = value_of(box.substr(daemon), " on node");
  }
  return meaning;
}

bool is_starter_trace(std::string_view line) {
  if (!line.starts_with('[')) return false;
  return has_any(line, kTraces) || (has(line, "] [") && line.ends_with(']') && has(line, "[0x"));
}

bool is_hydra_start_failure(std::string_view line) { return has(line, "[proxy:") && has(line, "execvp error on file"); }

bool is_foreign_error(std::string_view line) { return has(line, "error: "); }

}  // namespace trireme::launch
