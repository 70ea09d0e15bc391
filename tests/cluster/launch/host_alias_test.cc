#include "cluster/launch/host_alias.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace trireme::launch {
namespace {

TEST(HostAlias, IsWhatEachStarterTakesAndMeansTheHost) {
  for (const char* name : {"fd88::1", "alice@fd88::2", "fe80::1%eth0", "mpi_w1", "bob@my-node_2.example.net", "_",
                           "a_-_b", "trireme-name-x_y"}) {
    const std::string alias = name_for_starter(StarterKind::open_mpi, name);
    EXPECT_NE(alias, name);
    const std::string host = alias.substr(alias.find('@') + 1);
    EXPECT_EQ(host.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789-."), std::string::npos) << alias;
    EXPECT_EQ(name_of_alias(alias), name);
  }
  for (const char* name : {"n1", "N1.example.net", "10.0.0.1", "alice@n-1", "localhost"}) {
    EXPECT_EQ(name_for_starter(StarterKind::open_mpi, name), name);
    EXPECT_EQ(name_of_alias(name), name);
  }
  EXPECT_EQ(name_for_starter(StarterKind::hydra, "mpi_w1"), "mpi_w1");
  EXPECT_EQ(name_of_alias(name_for_starter(StarterKind::hydra, "fd88::1")), "fd88::1");
  EXPECT_EQ(name_for_starter(StarterKind::srun, "mpi_w1"), "mpi_w1");
  for (const char* name : {"n1.example.net", "alice@w.1.example.net", "10.0.0.example.net"}) {
    const std::string alias = name_for_starter(StarterKind::prrte, name);
    EXPECT_EQ(alias.find('.'), std::string::npos) << alias;
    EXPECT_EQ(name_of_alias(alias), name);
  }
  for (const char* name : {"n1", "10.0.0.1", "alice@10.0.0.2"})
    EXPECT_EQ(name_for_starter(StarterKind::prrte, name), name);
}

TEST(HostAlias, IsReplacedInTheStartersOutput) {
  const std::string alias = name_for_starter(StarterKind::open_mpi, "fd88::1");
  EXPECT_EQ(without_aliases("ssh to " + alias + ". And " + alias + ":22, " + alias),
            "ssh to fd88::1. And fd88::1:22, fd88::1");
  EXPECT_EQ(without_aliases("nothing such"), "nothing such");
}

}  // namespace
}  // namespace trireme::launch
