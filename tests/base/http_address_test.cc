#include "base/http_address.h"

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

}  // namespace
}  // namespace trireme
