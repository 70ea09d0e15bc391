#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "base/file.h"
#include "base/json.h"
#include "base/json_text.h"
#include "cli/command.h"
#include "tests/support/expect_error.h"
#include "tests/support/paths.h"
#include "tests/support/temporary_folder.h"

namespace trireme {
namespace {

using testing::HasSubstr;
using testing::Not;

class PlanCommand : public testing::Test {
 protected:
  static std::string printed(std::vector<std::string> words, int expected = 0) {
    testing::internal::CaptureStdout();
    int code = -1;
    try {
      code = run_plan(std::move(words));
    } catch (...) {
      (void)testing::internal::GetCapturedStdout();
      throw;
    }
    std::string text = testing::internal::GetCapturedStdout();
    EXPECT_EQ(code, expected);
    return text;
  }
  std::string own_type(const std::string& more = "") {
    const std::string path = dir_ / "own.yaml";
    write_text(path,
               "name: own\ncores: 8\ntflops: 1\nmemory-gb: 64\nmemory-gb-per-s: 100\nnetwork-gbit-per-s: 10\n" + more);
    return path;
  }
  TemporaryFolder dir_;
};

TEST_F(PlanCommand, PrintsAndWritesWhatARunNeeds) {
  const std::string json = dir_ / "plan.json";
  const std::string text = printed({"--model.preset", "gpt2-124m", "--run.steps", "1000", "--nodes", "4", "--node",
                                    own_type("price-per-hour: 2\nprice-date: 2026-01\n"), "--json", json});
  for (const char* line : {"nodes       4 of own", "layout      data 4 x tensor 1 x pipeline 1", "memory      ",
                           "operations  ", "links       a rank sends per step: tensor sums 0.000 GB", "step        ",
                           "tokens per day", "days for 1000 steps", "2.00 USD per node and hour (2026-01)",
                           "layouts that fit, best time first:", "to use the first on 4 nodes:\nmesh:\n  data: 4\n"})
    EXPECT_THAT(text, HasSubstr(line));
  const Json result = read_json(json);
  const Json& plan = result["plan"];
  double sum = 0;
  for (const auto& [cause, seconds] : plan["step_seconds"].items()) sum += cause == "total" ? 0 : seconds.get<double>();
  EXPECT_NEAR(plan["step_seconds"]["total"].get<double>(), sum, 1e-12);
  EXPECT_NEAR(plan["usd"].get<double>(), plan["days"].get<double>() * 24 * 2 * 4, 1e-9);
  EXPECT_EQ(plan["fits"], true);
  EXPECT_EQ(result["best"].size(), 5);
  EXPECT_EQ(result["goal"], "time");
}

TEST_F(PlanCommand, AConfigurationThatDoesNotFitNamesThoseThatDo) {
  const std::string type = own_type();
  write_text(type, "name: own\ncores: 8\ntflops: 1\nmemory-gb: 3\nmemory-gb-per-s: 100\nnetwork-gbit-per-s: 10\n");
  EXPECT_ERROR(
      printed({"--model.preset", "gpt2-124m", "--nodes", "4", "--node", type}), ErrorKind::config,
      "leaves 2.85 GB for each of 1 rank; with --mesh.tensor 4 it needs 2.43 GB and fits, and these layouts do");
  EXPECT_ERROR(printed({"--model.preset", "gpt2-124m", "--nodes", "4", "--node", type, "--mesh.tensor", "4",
                        "--batch.micro", "512", "--batch.global", "512"}),
               ErrorKind::config, "GB for each of 1 rank; these layouts do");
  write_text(type, "name: own\ncores: 8\ntflops: 1\nmemory-gb: 0.1\nmemory-gb-per-s: 100\nnetwork-gbit-per-s: 10\n");
  EXPECT_ERROR(printed({"--model.preset", "gpt2-124m", "--nodes", "4", "--node", type}), ErrorKind::config,
               "GB for each of 1 rank; no layout of these nodes fits: use more nodes or a smaller model");
}

TEST_F(PlanCommand, AnImpossibleConfigurationNamesLayoutsThatAreNot) {
  const std::vector<std::string> words{"--model.preset",   "gpt2-124m", "--batch.global", "256",     "--nodes", "3",
                                       "--ranks-per-node", "8",         "--node",         own_type()};
  testing::internal::CaptureStdout();
  EXPECT_ERROR(run_plan(words), ErrorKind::config,
               "cannot be divided evenly among 24 data-parallel ranks; start 2, 4, 8, 16, 32, 64");
  EXPECT_THAT(testing::internal::GetCapturedStdout(), HasSubstr("layouts that fit, best time first:"));
  testing::internal::CaptureStdout();
  EXPECT_ERROR(run_plan({"--model.layers", "1", "--model.heads", "1", "--model.width", "64", "--model.vocabulary",
                         "100", "--model.context", "64", "--batch.global", "256", "--nodes", "3", "--ranks-per-node",
                         "8", "--node", own_type()}),
               ErrorKind::config, "cannot be divided evenly among 24 data-parallel ranks");
  EXPECT_EQ(
      testing::internal::GetCapturedStdout(),
      "\nno layout of 24 ranks divides a batch of 256 sequences evenly; --nodes 2 (16 ranks) or 4 (32 ranks) can, "
      "or change batch.global\n");
}

TEST_F(PlanCommand, TensorGroupsOnSeveralNodesTriggerAWarning) {
  testing::internal::CaptureStderr();
  printed({"--model.preset", "gpt2-124m", "--mesh.tensor", "3", "--batch.global", "8", "--nodes", "3",
           "--ranks-per-node", "8", "--node", own_type()});
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              HasSubstr("plan: 2 of 8 tensor groups are on several hosts, so that the sums of every layer use the "
                        "network; with --mesh.tensor 2 each is on one host"));
  testing::internal::CaptureStdout();
  run_config({"show", "--model.preset", "gpt2-124m", "--mesh.tensor", "3", "--batch.global", "8", "--ranks", "24",
              "--hosts", "3"});
  EXPECT_THAT(testing::internal::GetCapturedStdout(),
              HasSubstr("\n# warning: 2 of 8 tensor groups are on several hosts"));
}

TEST_F(PlanCommand, GpusAreOneRankEach) {
  const std::string text =
      printed({"--model.preset", "gpt2-124m", "--batch.global", "64", "--node", "dgx-a100", "--run.device", "cuda"});
  EXPECT_THAT(text, HasSubstr("nodes       1 of dgx-a100 (8 x A100-SXM4-80GB), 8 ranks"));
  EXPECT_THAT(text, HasSubstr(" GB for the GPU that needs most: state "));
  EXPECT_THAT(text, HasSubstr(" on the host; a rank can have 76.00 GB"));
  EXPECT_THAT(printed({"--model.preset", "gpt2-124m", "--node", "dgx-a100", "--ranks-per-node", "1"}),
              HasSubstr("(8 x A100-SXM4-80GB), 1 rank\n"));
  EXPECT_ERROR(printed({"--model.preset", "opt-66b", "--batch.global", "64", "--node", "dgx-a100"}), ErrorKind::config,
               "does not fit: a GPU needs ");
  EXPECT_ERROR(run_config({"show", "--model.preset", "gpt2-124m", "--batch.global", "12", "--ranks", "12", "--node",
                           "dgx-a100"}),
               ErrorKind::usage, "--ranks 12 do not fill nodes of 8 GPUs; add --hosts N to spread them evenly");
}

TEST_F(PlanCommand, ConfigShowNamesTheTensorSizeThatFits) {
  testing::internal::CaptureStdout();
  run_config({"show", "--model.preset", "opt-30b", "--mesh.tensor", "2", "--optim.shard", "optimizer",
              "--model.recompute", "full", "--precision.dtype", "bf16", "--batch.global", "64", "--batch.micro", "1",
              "--ranks", "16", "--node", "azure-nd96amsr-a100-v4"});
  const std::string text = testing::internal::GetCapturedStdout();
  EXPECT_THAT(text, HasSubstr("# 16 ranks: data 8 x tensor 2 x pipeline 1. Memory is that of a GPU for each rank"));
  EXPECT_THAT(text, HasSubstr("\n# does not fit: a GPU needs "));
  EXPECT_THAT(text, HasSubstr("; with --mesh.tensor 4 it needs "));
}

TEST_F(PlanCommand, UsesMeasuredRatesAndTheTypesPrice) {
  const auto product = [](const char* dtype, double flops) {
    return Json{{"kind", "forward"}, {"dtype", dtype}, {"in", 768}, {"out", 2304}, {"flops_per_s", flops}};
  };
  Json node{{"host", "h1"}, {"cpu", "made"},        {"instruction_set", "avx2"}, {"cores", 8},
            {"threads", 8}, {"memory_bytes", 64e9}, {"copy_bytes_per_s", 50e9},  {"triad_bytes_per_s", 40e9}};
  node["gemms"] = {product("f32", 5e11), product("bf16", 9e11)};
  const std::string file = dir_ / "node.json", type = own_type("instruction-set: avx512\nprice-per-hour: 2\n");
  write_text(file, dump_json(node));
  const std::string text = printed({"--model.preset", "gpt2-124m", "--measured", file});
  EXPECT_THAT(text, HasSubstr("nodes       1 of measured on h1 (made), 1 rank"));
  EXPECT_THAT(text, Not(HasSubstr("USD at")));
  EXPECT_ERROR(printed({"--model.preset", "gpt2-124m", "--nodes", "2", "--measured", file}), ErrorKind::config,
               "2 nodes need the network's rate, and no measured file is of several hosts");
  EXPECT_ERROR(printed({"--model.preset", "gpt2-124m", "--measured", file, "--node", type}), ErrorKind::mismatch,
               "but a node of type own has 8 cores with avx512 and 64 GB");
  const std::string same = own_type("price-per-hour: 2\n");
  EXPECT_THAT(printed({"--model.preset", "gpt2-124m", "--nodes", "2", "--measured=" + file, "--node", same}),
              HasSubstr("USD at 2.00 USD per node and hour (date unknown)"));
}

TEST_F(PlanCommand, SimulatesAStep) {
  const std::string json = dir_ / "plan.json", trace = dir_ / "trace.json";
  const std::string text = printed({"--model.preset", "gpt2-124m", "--mesh.pipeline", "2", "--nodes", "4", "--node",
                                    own_type(), "--simulate", "--trace", trace, "--slow", "1.5", "--failure-hours",
                                    "1000", "--save-seconds=30", "--json", json});
  EXPECT_THAT(text, HasSubstr("simulated   "));
  EXPECT_THAT(text, HasSubstr("4 tensor groups one by one; a group computes at least "));
  EXPECT_THAT(text, HasSubstr("failures    one in 250.0 h of 4 nodes; --checkpoint.every "));
  const Json result = read_json(json);
  EXPECT_GT(result["simulated"]["seconds"].get<double>(), 0);
  EXPECT_EQ(result["simulated"]["failures"]["seconds_between"], 900000.0);
  double last = 0;
  const Json events = read_json(trace)["traceEvents"];
  ASSERT_FALSE(events.empty());
  std::set<std::string> named;
  for (const Json& event : events) {
    if (event["ph"] == "M") {
      if (event["args"].contains("name")) named.insert(event["args"]["name"].get<std::string>());
      continue;
    }
    EXPECT_EQ(event["ph"], "X");
    last = std::max(last, event["ts"].get<double>() + event["dur"].get<double>());
  }
  EXPECT_NEAR(last / 1e6, result["simulated"]["seconds"].get<double>(), 1e-6);
  for (const char* name : {"tensor group of rank 0", "tensor group of rank 3", "compute", "messages"})
    EXPECT_TRUE(named.contains(name)) << name;
}

TEST_F(PlanCommand, RefusesWordsOfASimulation) {
  const std::vector<std::string> run{"--model.preset", "gpt2-124m", "--node", own_type()};
  const auto refused = [&](const std::vector<std::string>& more) {
    std::vector<std::string> words = run;
    words.insert(words.end(), more.begin(), more.end());
    return printed(words);
  };
  EXPECT_ERROR(refused({"--slow", "2"}), ErrorKind::usage, "need --simulate; add it");
  EXPECT_ERROR(refused({"--simulate", "--slow", "-1"}), ErrorKind::usage, "--slow is -1, expected a positive number");
  EXPECT_ERROR(refused({"--simulate", "--slow", "1e308"}), ErrorKind::usage,
               "--slow is 1e308, expected a positive number up to 10000000");
  EXPECT_ERROR(refused({"--simulate", "--trace", "/no/such/folder/x.json"}), ErrorKind::usage,
               "--trace: cannot write /no/such/folder/x.json: folder /no/such/folder is missing; create it");
  EXPECT_ERROR(refused({"--simulate=yes"}), ErrorKind::usage, "--simulate takes no value, found \"--simulate=yes\"");
  EXPECT_ERROR(refused({"--simulate", "--save-seconds", "3"}), ErrorKind::usage,
               "--save-seconds and --restart-seconds need --failure-hours; add it");
}

TEST_F(PlanCommand, RefusesWordsThatItCannotUse) {
  const std::string type = own_type();
  EXPECT_ERROR(printed({"--model.preset", "gpt2-124m"}), ErrorKind::usage,
               "trireme plan needs --node TYPE or --measured FILE; `trireme plan --node-types` lists the types");
  EXPECT_ERROR(printed({"--node", type}), ErrorKind::usage,
               "trireme plan needs a configuration; name its files, or --model.preset NAME");
  EXPECT_ERROR(printed({"--node", "azure-hb", "--model.preset", "gpt2-124m"}), ErrorKind::config,
               "unknown node type \"azure-hb\", nearest are \"azure-hb176rs-v4\", \"azure-hb120rs-v3\"");
  EXPECT_ERROR(printed({"--node", type, "--model.preset", "gpt2-124m", "--nodez", "2"}), ErrorKind::usage,
               "--nodez: unknown flag; did you mean --node or --nodes?");
  EXPECT_ERROR(printed({"--node", type, "--model.preset", "gpt2-124m", "--json", "/"}), ErrorKind::usage,
               "--json: / is a folder, expected the name of a file");
  EXPECT_ERROR(printed({"--node", type, "--model.preset", "gpt2-124m", "--mesh.tensor", "3"}), ErrorKind::config,
               "mesh rest x 3 x 1 needs a multiple of 3 processes but --nodes gives 1 rank; set --mesh.data 1");
  EXPECT_ERROR(printed({"--node"}), ErrorKind::usage, "--node needs a value");
  EXPECT_ERROR(printed({"--node", type, "--node", type}), ErrorKind::usage, "--node is given twice");
  EXPECT_ERROR(printed({"--node", type, "--nodes", "0"}), ErrorKind::usage,
               "--nodes is 0, expected a whole number from 1 to 65536");
  EXPECT_ERROR(printed({"--node", type, "--nodes="}), ErrorKind::usage,
               "--nodes: the value is empty; is a shell variable not set?");
  EXPECT_ERROR(printed({"--node", type, "--nodes", "many"}), ErrorKind::usage,
               "--nodes is many, expected a whole number from 1 to 65536");
  EXPECT_ERROR(printed({"--node", type, "--nodes", "65536", "--ranks-per-node", "2"}), ErrorKind::usage,
               "65536 x 2 are 131072 ranks, expected at most 65536");
  EXPECT_ERROR(printed({"--node", type, "--goal", "speed"}), ErrorKind::usage,
               "--goal is speed, expected time, cost or memory");
  EXPECT_ERROR(printed({"--measured"}), ErrorKind::usage, "--measured needs at least one .json file");
  EXPECT_ERROR(printed({"--node-types", "x"}), ErrorKind::usage, "--node-types takes no other arguments, found \"x\"");
  EXPECT_ERROR(printed({"--node", type, "--model.layers", "2"}), ErrorKind::config, "the vocabulary size is unknown");
  EXPECT_ERROR(printed({"--node", type, "--model.preset", "gpt2-124m", "--goal", "cost"}), ErrorKind::config,
               "--goal cost needs a price, and node type own has none");
}

TEST_F(PlanCommand, ConfigShowPrintsTheSame) {
  const std::string type = own_type();
  testing::internal::CaptureStdout();
  const int code = run_config({"show", "--model.preset", "gpt2-124m", "--ranks", "4", "--hosts=2", "--node=" + type});
  const std::string text = testing::internal::GetCapturedStdout();
  EXPECT_EQ(code, 0);
  for (const char* line : {"# nodes       2 of own", "\n# memory      ", "\n# step        ", "\n# to the end  "})
    EXPECT_THAT(text, HasSubstr(line));
  EXPECT_ERROR(run_config({"show", "--model.preset", "gpt2-124m", "--node", type}), ErrorKind::usage,
               "--node needs --ranks; add the number of ranks");
  EXPECT_ERROR(run_config({"show", "--ranks", "4", "--node"}), ErrorKind::usage,
               "--node needs a type; `trireme plan --node-types` lists them");
}

TEST_F(PlanCommand, TheTableOfNodeTypesIsThatOfTheDocumentation) {
  const std::string page = read_text(std::string(source_dir()) + "/docs/planner.md", size_t{1} << 20);
  EXPECT_NE(page.find(printed({"--node-types"})), std::string::npos) << "paste `trireme plan --node-types` there";
  EXPECT_THAT(printed({"--help"}), HasSubstr("usage: trireme plan FILES... --node TYPE"));
}

TEST_F(PlanCommand, NamesPossibleLayoutsWhereItsOwnIsImpossible) {
  testing::internal::CaptureStdout();
  EXPECT_ERROR(run_plan({"--model.preset", "gpt2-124m", "--batch.global", "256", "--nodes", "3", "--ranks-per-node",
                         "8", "--node", own_type()}),
               ErrorKind::config, "cannot be divided evenly among 24 data-parallel ranks");
  const std::string text = testing::internal::GetCapturedStdout();
  EXPECT_THAT(text, HasSubstr("layouts that fit, best time first:"));
  EXPECT_THAT(text, HasSubstr("mesh:\n  data: 8\n"));
}

}  // namespace
}  // namespace trireme
