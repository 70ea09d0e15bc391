#include "cli/cluster/cluster_forecast.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/file.h"
#include "tests/support/expect_error.h"
#include "tests/support/temporary_folder.h"

namespace trireme {
namespace {

using testing::HasSubstr;

cloud::ClusterOptions cluster_of(cloud::ProviderChoice provider, const std::string& size, int64_t nodes) {
  cloud::ClusterOptions options;
  options.cluster.provider = provider;
  options.cluster.nodes = nodes;
  options.node.type = size;
  return options;
}

TEST(ClusterForecast, NamesThePlannersTypes) {
  EXPECT_EQ(planned_type(cluster_of(cloud::ProviderChoice::azure, "Standard_HB176rs_v4", 2)), "azure-hb176rs-v4");
  EXPECT_EQ(planned_type(cluster_of(cloud::ProviderChoice::aws, "hpc7a.96xlarge", 2)), "aws-hpc7a.96xlarge");
  EXPECT_EQ(planned_type(cluster_of(cloud::ProviderChoice::hosts, "", 2)), "");
}

TEST(ClusterForecast, IsThatOfTheSizeAndItsPrice) {
  const std::string text = cluster_forecast(cluster_of(cloud::ProviderChoice::azure, "Standard_HB176rs_v4", 2),
                                            {"--model.preset", "gpt2-124m"}, "");
  EXPECT_THAT(text, HasSubstr("nodes       2 of azure-hb176rs-v4"));
  EXPECT_THAT(text, HasSubstr("USD at 7.20 USD per node and hour (2025-01)"));
}

TEST(ClusterForecast, NamesWhatFitsWhereTheConfigurationDoesNot) {
  const TemporaryFolder dir;
  const std::string type = dir / "own.yaml";
  write_text(type, "name: own\ncores: 8\ntflops: 1\nmemory-gb: 3\nmemory-gb-per-s: 100\nnetwork-gbit-per-s: 10\n");
  const std::string text = cluster_forecast(cluster_of(cloud::ProviderChoice::hosts, "", 4),
                                            {"--model.preset", "gpt2-124m", "--batch.micro", "8"}, type);
  EXPECT_THAT(text, HasSubstr("does not fit: a rank needs"));
  EXPECT_THAT(text, HasSubstr("these layouts do\n"));
  EXPECT_THAT(text, HasSubstr("to use the first on 4 nodes:\nmesh:\n"));
}

TEST(ClusterForecast, NeedsTheRatesOfTheMachines) {
  const std::vector<std::string> run{"--model.preset", "gpt2-124m"};
  EXPECT_ERROR(cluster_forecast(cluster_of(cloud::ProviderChoice::azure, "Standard_E64_v9", 2), run, ""),
               ErrorKind::config,
               "cannot plan the run: the rates of Standard_E64_v9 are unknown; describe the machine in a .yaml file");
  EXPECT_ERROR(cluster_forecast(cluster_of(cloud::ProviderChoice::hosts, "", 2), run, ""), ErrorKind::config,
               "the rates of your own machines are unknown");
}

}  // namespace
}  // namespace trireme
