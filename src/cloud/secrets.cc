#include "cloud/validate.h"

#include <algorithm>
#include <array>
#include <initializer_list>

#include "base/error.h"
#include "base/text.h"

namespace trireme::cloud {
namespace {

using std::string_view;

constexpr string_view kUpper = "ABCDEFGHIJKLMNOPQRSTUVWXYZ", kLower = "abcdefghijklmnopqrstuvwxyz",
                      kDigits = "0123456789", kSpaces = " \t\r\n\v\f";

bool is_in(string_view set, char c) { return set.find(c) != string_view::npos; }
bool is_alphanumeric(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9'); }
/// A letter, a digit, or one of `others`.
auto word_of(string_view others) {
  return [others](char c) { return is_alphanumeric(c) || is_in(others, c); };
}

/// Length of the characters from `at` on that are of a kind.
template <class Kind>
size_t run(string_view text, size_t at, Kind kind) {
  const size_t begin = std::min(at, text.size());
  size_t end = begin;
  while (end < text.size() && kind(text[end])) ++end;
  return end - begin;
}

/// Whether `test` is true behind one of the places where `begin` occurs; it gets the line and that place.
template <class Test>
bool any_after(string_view line, string_view begin, Test test) {
  for (size_t at = line.find(begin); at != string_view::npos; at = line.find(begin, at + 1)) {
    if (test(at, at + begin.size())) return true;
  }
  return false;
}

/// Whether `at` is where a word of these characters may begin.
template <class Kind>
bool begins(string_view line, size_t at, Kind kind) {
  return at == 0 || !kind(line[at - 1]);
}

// Each takes a line and its lower-case form, in time linear in its length.

bool has_private_key(string_view, string_view low) {
  return any_after(low, "-----begin ", [&](size_t, size_t end) {
    const size_t length = run(low, end, [](char c) { return is_in(kLower, c) || c == ' '; });
    return low.substr(end, length).find("private key") != string_view::npos;
  });
}

bool has_aws_key(string_view, string_view low) {
  for (const string_view kind : {"akia", "asia"}) {
    const auto test = [&](size_t at, size_t end) {
      return begins(low, at, is_alphanumeric) && run(low.substr(0, end + 16), end, is_alphanumeric) == 16;
    };
    if (any_after(low, kind, test)) return true;
  }
  return false;
}

bool has_azure_key(string_view, string_view low) {
  return low.find("accountkey=") != string_view::npos || low.find("sharedaccesskey=") != string_view::npos;
}

bool has_signature(string_view, string_view low) {
  return any_after(low, "sig=", [&](size_t at, size_t end) {
    return at > 0 && is_in("?&", low[at - 1]) && run(low.substr(0, end + 20), end, word_of("%+/")) == 20;
  });
}

bool has_bearer_token(string_view, string_view low) {
  const auto word = word_of("_-");
  return any_after(low, "eyj", [&](size_t at, size_t end) {
    if (!begins(low, at, word)) return false;
    const size_t first = run(low, end, word), point = end + first;
    return first >= 10 && low.substr(point).starts_with('.') && run(low.substr(0, point + 6), point + 1, word) == 5;
  });
}

bool has_access_token(string_view line, string_view) {
  struct Form {
    string_view begin, others;
    size_t least;
  };
  constexpr std::array<Form, 10> kForms = {{{"ghp_", "", 20},
                                            {"gho_", "", 20},
                                            {"ghu_", "", 20},
                                            {"ghs_", "", 20},
                                            {"ghr_", "", 20},
                                            {"github_pat_", "_", 20},
                                            {"hf_", "", 20},
                                            {"xoxa-", "-", 10},
                                            {"xoxb-", "-", 10},
                                            {"xoxp-", "-", 10}}};
  return std::ranges::any_of(kForms, [&](const Form& form) {
    return any_after(line, form.begin, [&](size_t at, size_t end) {
      return begins(line, at, word_of("_-")) &&
             run(line.substr(0, end + form.least), end, word_of(form.others)) == form.least;
    });
  });
}

/// 40 base64 digits of all kinds, like the secret half of an AWS access key.
bool has_aws_secret(string_view line, string_view) {
  const auto digit = word_of("/+");
  for (size_t at = 0; at < line.size(); ++at) {
    const size_t length = run(line, at, digit);
    const string_view word = line.substr(at, length);
    const auto has = [&](string_view set) { return word.find_first_of(set) != string_view::npos; };
    const bool alone = (at == 0 || line[at - 1] != '=') && !line.substr(at + length).starts_with('=');
    if (length == 40 && alone && has(kUpper) && has(kLower) && has(kDigits)) return true;
    at += length;
  }
  return false;
}

bool has_password_in_address(string_view, string_view low) {
  return any_after(low, "://", [&](size_t at, size_t end) {
    if (at == 0 || !is_in(kLower, low[at - 1])) return false;
    const size_t user = run(low, end, [](char c) { return !is_in("/:@", c) && !is_in(kSpaces, c); });
    const size_t colon = end + user;
    if (user == 0 || !low.substr(colon).starts_with(':')) return false;
    const size_t password = run(low, colon + 1, [](char c) { return !is_in("/@", c) && !is_in(kSpaces, c); });
    return password > 0 && low.substr(colon + 1 + password).starts_with('@');
  });
}

bool names_a_secret(string_view key) {
  static constexpr const char* kWords[] = {"passwd",     "password",  "passphrase", "secret",    "token",
                                           "credential", "accesskey", "access_key", "access-key"};
  return std::ranges::any_of(kWords, [&](const char* word) { return key.find(word) != string_view::npos; });
}

/// A key with the name of a secret and a value.
bool has_secret_key(string_view, string_view low) {
  const auto part = word_of("_.-");
  const auto space = [](char c) { return is_in(kSpaces, c); };
  for (size_t at = 0; at < low.size(); ++at) {
    const size_t length = run(low, at, part);
    string_view key = low.substr(at, length);
    const bool starts = at == 0 || is_in(kSpaces, low[at - 1]) || is_in("{,\"'", low[at - 1]);
    if (!starts) key = key.substr(std::min(key.find('-'), key.size()));
    at += length;
    if (!names_a_secret(key)) continue;
    size_t end = at;
    if (end < low.size() && is_in("\"'", low[end])) ++end;
    end += run(low, end, space);
    if (end == low.size() || !is_in(":=", low[end])) continue;
    end += 1 + run(low, end + 1, space);
    if (end < low.size() && low[end] != '#') return true;
  }
  return false;
}

struct Sign {
  bool (*find)(string_view line, string_view low);
  const char* what;
  bool in_comments = true;
};

constexpr std::array<Sign, 9> kSigns = {{
    {has_private_key, "a private key"},
    {has_aws_key, "an access key of AWS"},
    {has_azure_key, "a key of an Azure storage account"},
    {has_signature, "a shared access signature"},
    {has_bearer_token, "a bearer token"},
    {has_access_token, "an access token"},
    {has_aws_secret, "a secret access key of AWS"},
    {has_password_in_address, "a password in an address"},
    {has_secret_key, "a secret", false},
}};

}  // namespace

void refuse_secrets(std::string_view text, const std::string& path) {
  const std::string low_text = lower_case(text);
  size_t number = 0;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    const string_view line = text.substr(at, end - at), low = string_view(low_text).substr(at, end - at);
    at = end + 1;
    ++number;
    const size_t comment = line.starts_with('#') ? 0 : line.find(" #");
    for (const Sign& sign : kSigns) {
      const size_t seen = sign.in_comments ? string_view::npos : comment;
      require(!sign.find(line.substr(0, seen), low.substr(0, seen)), ErrorKind::config,
              "{}:{}: this looks like {}, but secrets must not be in this file; log in with the provider's command "
              "line (az login, aws configure) and remove the line",
              path, number, sign.what);
    }
  }
}

}  // namespace trireme::cloud
