#include "cloud/provider_words.h"

#include <algorithm>
#include <array>
#include <sstream>

namespace trireme::cloud {
namespace {

bool has(const std::string& text, const char* words) { return text.find(words) != std::string::npos; }

}  // namespace

std::string reason_in(const std::string& message) {
  std::istringstream lines(message);
  std::string last;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("ERROR: ")) return line;
    if (line.find_first_not_of(" \t\r") != std::string::npos) last = line;
  }
  return last;
}

std::string host_key_in(const std::string& line) {
  std::istringstream words(line);
  std::string type, key;
  const bool is_key = (line.starts_with("ssh-") || line.starts_with("ecdsa-")) && words >> type >> key;
  return is_key ? type + " " + key : "";
}

bool is_azure_not_found(const std::string& reason) { return has(reason, "NotFound") || has(reason, "not found"); }

bool is_azure_group_not_found(const std::string& reason) { return has(reason, "ResourceGroupNotFound"); }

bool is_azure_no_capacity(const std::string& reason) {
  return std::ranges::any_of(std::array{"AllocationFailed", "SkuNotAvailable", "OverconstrainedAllocationRequest",
                                        "OverconstrainedZonalAllocation"},
                             [&](const char* code) { return has(reason, code); });
}

bool is_aws_no_stack(const std::string& reason) { return has(reason, "does not exist"); }

bool is_aws_no_update(const std::string& reason) { return has(reason, "No updates are to be performed"); }

}  // namespace trireme::cloud
