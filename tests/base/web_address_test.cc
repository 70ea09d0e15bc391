#include "base/web_address.h"

#include <gtest/gtest.h>

namespace trireme {
namespace {

TEST(HttpAddress, IsAnOriginAndAPath) {
  const auto plain = parse_http_address("http://node1:5000");
  ASSERT_TRUE(plain);
  EXPECT_EQ(plain->origin, "http://node1:5000");
  EXPECT_EQ(plain->path, "");
  const auto below = parse_http_address("https://[::1]/a/b//");
  ASSERT_TRUE(below);
  EXPECT_EQ(below->origin, "https://[::1]");
  EXPECT_EQ(below->path, "/a/b");
}

TEST(HttpAddress, RefusesOtherTexts) {
  for (const char* text : {"", "node1:5000", "http://", "http:///a", "ftp://a", "http://a b", "http://me:x@a",
                           "http://a?b", "http://a#b", "http://a:99999", "http://a:0", "http://a:", "http://a:80x",
                           "http://:80", "http://a:b:80", "http://[::1", "http://[]", "http://[::1]x"})
    EXPECT_FALSE(parse_http_address(text)) << text;
}

TEST(ListenAddress, APortAloneIsOfThisHostOnly) {
  EXPECT_EQ(parse_listen_address("9464"), (ListenAddress{"127.0.0.1", 9464}));
  EXPECT_EQ(parse_listen_address("0.0.0.0:9464"), (ListenAddress{"0.0.0.0", 9464}));
  EXPECT_EQ(parse_listen_address("node-1.site:1"), (ListenAddress{"node-1.site", 1}));
  EXPECT_EQ(parse_listen_address("[::]:65535"), (ListenAddress{"::", 65535}));
  EXPECT_EQ(parse_listen_address("0"), (ListenAddress{"127.0.0.1", 0}));
}

TEST(ListenAddress, AnyOtherTextIsRefused) {
  for (const char* text : {"", ":", "host", ":9464", "host:", "host:port", "1:2:3", "::1:9464", "65536", "-1", "+80",
                           "80 ", " 80", "[]:80", "[::1]", "host:80/metrics", "http://host:80", "0x50", "[a:80"})
    EXPECT_FALSE(parse_listen_address(text)) << text;
}

TEST(ListenAddress, KnowsTheNamesOfThisHost) {
  for (const char* host : {"127.0.0.1", "127.1.2.3", "localhost", "::1"})
    EXPECT_TRUE((ListenAddress{host, 1}.is_loopback())) << host;
  for (const char* host : {"0.0.0.0", "::", "10.0.0.1", "node1"})
    EXPECT_FALSE((ListenAddress{host, 1}.is_loopback())) << host;
}

}  // namespace
}  // namespace trireme
