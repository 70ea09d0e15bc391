#include "config/flag_word.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "config/setting.h"

namespace trireme {

FlagWord flag_word(const std::string& word) {
  const size_t equals = word.find('=');
  FlagWord flag{canonical(word.substr(0, equals)), std::nullopt};
  if (equals != std::string::npos) flag.value = word.substr(equals + 1);
  return flag;
}

std::optional<std::string> take_flag(std::initializer_list<std::string_view> names, const char* needs,
                                     std::vector<std::string>& words) {
  std::optional<std::string> value;
  std::vector<std::string> rest;
  for (size_t i = 0; i < words.size(); ++i) {
    FlagWord flag = flag_word(words[i]);
    if (std::ranges::find(names, flag.name) == names.end()) {
      rest.push_back(std::move(words[i]));
      continue;
    }
    const bool apart = !flag.value && i + 1 < words.size() && !words[i + 1].starts_with("--");
    require(flag.value || apart, ErrorKind::usage, "{} needs {}", words[i], needs);
    value = apart ? std::move(words[++i]) : std::move(*flag.value);
  }
  words = std::move(rest);
  return value;
}

void require_none(const std::vector<std::string>& problems) {
  if (problems.size() == 1) fail(ErrorKind::config, "{}", problems[0]);
  if (!problems.empty())
    fail(ErrorKind::config, "{} settings cannot be used here:\n  {}", problems.size(), fmt::join(problems, "\n  "));
}

}  // namespace trireme
