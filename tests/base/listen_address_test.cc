#include "base/listen_address.h"

#include <gtest/gtest.h>

namespace trireme {
namespace {

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
