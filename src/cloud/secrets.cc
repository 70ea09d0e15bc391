#include "cloud/secrets.h"

#include <array>
#include <regex>
#include <sstream>

#include "base/error.h"

namespace trireme::cloud {
namespace {

struct Sign {
  const char* pattern;  ///< ECMAScript, any case
  const char* what;
};

constexpr std::array<Sign, 6> kSigns = {{
    {R"(-----BEGIN [A-Z ]*PRIVATE KEY)", "a private key"},
    {R"((^|[^A-Z0-9])(AKIA|ASIA)[A-Z0-9]{16})", "an access key of AWS"},
    {R"((AccountKey|SharedAccessKey)=)", "a key of an Azure storage account"},
    {R"([?&]sig=[A-Za-z0-9%+/]{20})", "a shared access signature"},
    {R"((^|[^A-Za-z0-9_-])eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{5,})", "a bearer token"},
    {R"(^\s*(- )?["']?[a-z0-9_.-]*(passw(or)?d|passphrase|secret|token|credential|access[_-]?key)[a-z0-9_.-]*["']?\s*:\s*[^\s#])",
     "a secret"},
}};

}  // namespace

void refuse_secrets(std::string_view text, const std::string& path) {
  std::istringstream lines{std::string(text)};
  int number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    for (const Sign& sign : kSigns) {
      require(!std::regex_search(line, std::regex(sign.pattern, std::regex::icase)), ErrorKind::config,
              "{}:{}: this looks like {}, and secrets do not belong in this file: log in with the provider's own "
              "command line (az login, aws configure) and remove the line",
              path, number, sign.what);
    }
  }
}

}  // namespace trireme::cloud
