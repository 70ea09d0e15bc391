#include "cloud/secrets.h"

#include <array>
#include <regex>
#include <sstream>

#include "base/error.h"

namespace trireme::cloud {
namespace {

struct Sign {
  const char* pattern;  ///< ECMAScript
  const char* what;
  bool in_comments = true;
  bool any_case = true;
};

constexpr std::array<Sign, 9> kSigns = {{
    {R"(-----BEGIN [A-Z ]*PRIVATE KEY)", "a private key"},
    {R"((^|[^A-Z0-9])(AKIA|ASIA)[A-Z0-9]{16})", "an access key of AWS"},
    {R"((AccountKey|SharedAccessKey)=)", "a key of an Azure storage account"},
    {R"([?&]sig=[A-Za-z0-9%+/]{20})", "a shared access signature"},
    {R"((^|[^A-Za-z0-9_-])eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{5,})", "a bearer token"},
    {R"((^|[^A-Za-z0-9_-])(gh[pousr]_[A-Za-z0-9]{20}|github_pat_[A-Za-z0-9_]{20}|hf_[A-Za-z0-9]{20}|xox[abp]-[A-Za-z0-9-]{10}))",
     "an access token", true, false},
    // 40 base64 digits of all kinds, like the secret half of an AWS access key.
    {R"((^|[^A-Za-z0-9/+=])(?=[a-z0-9/+]*[A-Z])(?=[A-Z0-9/+]*[a-z])(?=[A-Za-z/+]*[0-9])[A-Za-z0-9/+]{40}($|[^A-Za-z0-9/+=]))",
     "a secret access key of AWS", true, false},
    {R"([a-z]://[^/\s:@]+:[^/\s@]+@)", "a password in an address"},
    {R"((^|[\s{,"'-])[a-z0-9_.-]*(passw(or)?d|passphrase|secret|token|credential|access[_-]?key)[a-z0-9_.-]*["']?\s*[:=]\s*[^\s#])",
     "a secret", false},
}};

}  // namespace

void refuse_secrets(std::string_view text, const std::string& path) {
  std::istringstream lines{std::string(text)};
  int number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    const size_t comment = line.starts_with('#') ? 0 : line.find(" #");
    for (const Sign& sign : kSigns) {
      const auto flags = sign.any_case ? std::regex::ECMAScript | std::regex::icase : std::regex::ECMAScript;
      const std::string seen = sign.in_comments ? line : line.substr(0, comment);
      require(!std::regex_search(seen, std::regex(sign.pattern, flags)), ErrorKind::config,
              "{}:{}: this looks like {}, but secrets must not be in this file; log in with the provider's command "
              "line (az login, aws configure) and remove the line",
              path, number, sign.what);
    }
  }
}

}  // namespace trireme::cloud
