#include "hub/settings.h"

#include <gtest/gtest.h>

#include <map>

#include "base/file.h"
#include "tests/support/expect_error.h"
#include "tests/support/temporary_folder.h"

namespace trireme::hub {
namespace {

Settings settings_of(std::map<std::string, std::string> variables) {
  return read_settings([&](const char* name) -> const char* {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  });
}

TEST(HubSettings, FindTheCacheWhereHuggingFacesProgramsDo) {
  EXPECT_EQ(settings_of({{"HOME", "/h"}}).cache, "/h/.cache/huggingface/hub");
  EXPECT_EQ(settings_of({{"HOME", "/h"}, {"XDG_CACHE_HOME", "/x"}}).cache, "/x/huggingface/hub");
  EXPECT_EQ(settings_of({{"HOME", "/h"}, {"HF_HOME", "~/hf"}}).cache, "/h/hf/hub");
  EXPECT_EQ(settings_of({{"HOME", "/h"}, {"HF_HOME", "/hf"}, {"HF_HUB_CACHE", "/c"}}).cache, "/c");
  EXPECT_EQ(settings_of({{"HOME", "/h"}, {"HUGGINGFACE_HUB_CACHE", "/old"}}).cache, "/old");
  EXPECT_ERROR(settings_of({}), ErrorKind::config, "neither HF_HOME nor HOME is set");
}

TEST(HubSettings, FindTheToken) {
  const TemporaryFolder folder;
  write_text(folder / "token", "hf_file\n");
  EXPECT_EQ(settings_of({{"HF_HOME", folder.path()}}).token, "hf_file");
  EXPECT_EQ(settings_of({{"HF_HOME", folder.path()}, {"HF_TOKEN", " hf_variable "}}).token, "hf_variable");
  EXPECT_EQ(settings_of({{"HF_HOME", "/absent"}, {"HF_TOKEN_PATH", folder / "token"}}).token, "hf_file");
  EXPECT_EQ(settings_of({{"HF_HOME", folder.path()}, {"HF_HUB_DISABLE_IMPLICIT_TOKEN", "1"}}).token, "");
  EXPECT_EQ(settings_of({{"HF_HOME", "/absent"}}).token, "");
  try {
    settings_of({{"HF_HOME", "/absent"}, {"HF_TOKEN", "hf_a\r\nX-Evil: 1"}});
    ADD_FAILURE() << "a token of two lines was taken";
  } catch (const Error& e) {
    EXPECT_EQ(std::string(e.what()).find("hf_a"), std::string::npos) << e.what();  // must not be printed
  }
}

TEST(HubSettings, TakeHttpsAndThisHostOnly) {
  EXPECT_EQ(settings_of({{"HOME", "/h"}}).endpoint, "https://huggingface.co");
  EXPECT_EQ(settings_of({{"HOME", "/h"}, {"HF_ENDPOINT", "https://mirror.example/hf/"}}).endpoint,
            "https://mirror.example/hf");
  for (const char* here : {"http://localhost:8080", "http://127.0.0.1", "http://[::1]:80"})
    EXPECT_EQ(settings_of({{"HOME", "/h"}, {"HF_ENDPOINT", here}}).endpoint, here);
  for (const char* there : {"http://mirror.example", "http://127.0.0.1.example", "http://10.0.0.1"})
    EXPECT_ERROR(settings_of({{"HOME", "/h"}, {"HF_ENDPOINT", there}}), ErrorKind::config, "expected an https URL");
  for (const char* bad : {"mirror.example", "ftp://x", "file:///etc", "https://user:password@x", "https://"})
    EXPECT_ERROR(settings_of({{"HOME", "/h"}, {"HF_ENDPOINT", bad}}), ErrorKind::data, "is not a URL of a hub");
}

TEST(HubSettings, KnowOfflineAndTimes) {
  EXPECT_FALSE(settings_of({{"HOME", "/h"}, {"HF_HUB_OFFLINE", "0"}}).offline);
  for (const char* yes : {"1", "on", "YES", "True"})
    EXPECT_TRUE(settings_of({{"HOME", "/h"}, {"HF_HUB_OFFLINE", yes}}).offline) << yes;
  EXPECT_EQ(settings_of({{"HOME", "/h"}, {"HF_HUB_DOWNLOAD_TIMEOUT", "30"}}).stalled_seconds, 30);
  EXPECT_ERROR(settings_of({{"HOME", "/h"}, {"HF_HUB_ETAG_TIMEOUT", "soon"}}), ErrorKind::config,
               "HF_HUB_ETAG_TIMEOUT is \"soon\", expected seconds from 1 to 86400");
}

TEST(HubUrl, LeadsWhereARedirectSays) {
  const Url base = parse_url("https://Hub.example/a/b?x=1");
  EXPECT_EQ(base.host, "hub.example");
  EXPECT_EQ(redirected(base, "/c?y").text(), "https://hub.example/c?y");
  EXPECT_EQ(redirected(base, "c").text(), "https://hub.example/a/c");
  EXPECT_EQ(redirected(base, "https://cdn.example:8443/c?y").text(), "https://cdn.example:8443/c?y");
  EXPECT_EQ(redirected(base, "//cdn.example/c").text(), "https://cdn.example/c");
  EXPECT_EQ(redirected(base, "/c?to=https://x").host, "hub.example");
  EXPECT_ERROR(redirected(base, "file:///etc/passwd"), ErrorKind::data, "is not a URL");
  EXPECT_ERROR(redirected(base, "/a\r\nb"), ErrorKind::data, "which is not a URL");
}

TEST(HubUrl, ShowsNoSecrets) {
  EXPECT_EQ(parse_url("https://cdn.example:443/x?signature=secret").shown(), "https://cdn.example/x");
  EXPECT_FALSE(parse_url("https://a").same_origin(parse_url("https://a:444")));
  EXPECT_FALSE(parse_url("https://a").same_origin(parse_url("http://a")));
  EXPECT_TRUE(parse_url("https://A:443/x").same_origin(parse_url("https://a/y")));
}

}  // namespace
}  // namespace trireme::hub
