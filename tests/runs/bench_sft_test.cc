// `trireme bench sft`: alone, and beside a peer.

#include <gmock/gmock.h>
#include <filesystem>

#include <nlohmann/json.hpp>

#include "base/file.h"
#include "base/json.h"
#include "checkpoint/safetensors/safetensors.h"
#include "tests/runs/program.h"
#include "tests/support/paths.h"

namespace trireme {
namespace {

using ::testing::HasSubstr;

class BenchSft : public ::testing::Test {
 protected:
  Outcome bench(const std::vector<std::string>& flags) const {
    std::vector<std::string> words{"bench",   "sft", "--preset",  "neox-19m", "--conversations", "40",  "--seq", "64",
                                   "--batch", "2",   "--threads", "1",        "--json",          file()};
    words.insert(words.end(), flags.begin(), flags.end());
    return run(trireme_command(words));
  }
  /// A peer that keeps the folder that it is given and says that every step took 1000 s and lost `loss`.
  std::vector<std::string> peer(const std::string& loss) const {
    write_text(folder_ / "peer.sh", "echo \"$@\" >> " + (folder_ / "words") + R"(
before=
for word; do [ "$before" = --model ] && rm -rf )" +
                                        (folder_ / "start") + R"( && cp -r "${word%/*}" )" + (folder_ / "start") +
                                        R"(; before=$word; done
echo ready; while read go; do echo 1000 80 500000000 )" +
                                        loss + " 60 100; done");
    return {"--peer", "trl", "--python", "/bin/sh", "--peer-script", folder_ / "peer.sh", "--steps", "2"};
  }
  std::string file() const { return folder_ / "bench.json"; }

  TemporaryFolder folder_;
};

TEST_F(BenchSft, MeasuresAllWeightsAndAdapters) {
  for (const std::string rank : {"0", "4"}) {
    const Outcome outcome = bench({"--steps", "1", "--lora-rank", rank});
    ASSERT_EQ(outcome.code, 0) << outcome.output;
    const Json result = read_json(file());
    const Json& ours = result.at("ours");
    EXPECT_GT(ours.at("counted_per_s").get<double>(), 0);
    EXPECT_GT(ours.at("tokens_per_s"), ours.at("counted_per_s"));
    EXPECT_EQ(ours.at("padding"), 0.0);
    EXPECT_GT(result.at("counted_share"), 0.3);
    EXPECT_FALSE(result.contains("peer"));
    EXPECT_THAT(outcome.output, HasSubstr(rank == "0" ? ", all weights, 2 rows of at most 64 tokens per step"
                                                      : ", adapters of rank 4 on the family's usual linears, 2 rows"));
    EXPECT_THAT(outcome.output, HasSubstr("40 conversations of "));
  }
}

TEST_F(BenchSft, GivesItsStartToAPeer) {
  auto flags = peer("10.5");
  flags.insert(flags.end(),
               {"--lora-rank", "4", "--curve", "3", "--steps", "1", "--peer-settings", "packing,grouping-compiled"});
  const Outcome outcome = bench(flags);
  ASSERT_EQ(outcome.code, 0) << outcome.output;
  const Json result = read_json(file());
  for (const char* setting : {"packing", "grouping-compiled"}) {
    const Json& side = result.at("peer").at(setting);
    EXPECT_DOUBLE_EQ(side.at("counted_per_s").get<double>(), 0.06) << setting;
    EXPECT_DOUBLE_EQ(side.at("padding").get<double>(), 0.2) << setting;
    EXPECT_DOUBLE_EQ(side.at("ratio").get<double>(), side.at("our_counted_per_s").get<double>() / 0.06) << setting;
  }
  ASSERT_EQ(result.at("curve").at("ours").size(), 3u);
  EXPECT_EQ(result.at("curve").at("theirs"), Json({10.5, 10.5, 10.5}));
  EXPECT_THAT(outcome.output, HasSubstr("losses of 3 steps in the same order: TRL 10.5000 to 10.5000, ours "));
  EXPECT_THAT(outcome.output, HasSubstr(": more than f32 explains, so one of the two is wrong"));
  EXPECT_THAT(outcome.output, HasSubstr("20.0 % padding"));

  const std::string words = read_text(folder_ / "words");
  EXPECT_THAT(words, HasSubstr("--setting packing --sequence 64 --batch 2 --dtype f32 --learning-rate 0.001 --warmup 1 "
                               "--threads 1 --adapter "));
  EXPECT_THAT(words, HasSubstr("--setting order --sequence 64 --batch 2 --dtype f32 --learning-rate 0.001 --warmup 0"));
  EXPECT_THAT(words, HasSubstr("--warmup 2 --threads 1 --adapter "));
  const SafetensorsFile conversations(folder_ / "start/conversations.safetensors");
  EXPECT_EQ(conversations.find("offsets")->shape, (std::vector<int64_t>{41}));
  EXPECT_NE(SafetensorsFile(folder_ / "start/model/model.safetensors").find("gpt_neox.embed_in.weight"), nullptr);
  EXPECT_EQ(read_json(folder_ / "start/adapter/adapter_config.json").at("modules_to_save"), Json());
  EXPECT_EQ(SafetensorsFile(folder_ / "start/adapter/adapter_model.safetensors").entries().size(), 12u);
}

TEST_F(BenchSft, SaysWhyACompiledPeerWasNotMeasured) {
  write_text(folder_ / "peer.sh", R"(case "$*" in *--compile*) exit 1;; esac
echo ready; while read go; do echo 1000 80 500000000 10 60 100; done)");
  const std::vector<std::string> flags{"--peer",          "trl",
                                       "--python",        "/bin/sh",
                                       "--peer-script",   folder_ / "peer.sh",
                                       "--steps",         "1",
                                       "--peer-settings", "packing,packing-compiled"};
  const Outcome outcome = bench(flags);
  ASSERT_EQ(outcome.code, 0) << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr("TRL, packing-compiled    not measured: cannot start /bin/sh"));
  EXPECT_TRUE(read_json(file()).at("peer").at("packing-compiled").contains("skipped"));
}

TEST_F(BenchSft, SaysWhatItCannotMeasure) {
  const auto fails = [&](const std::vector<std::string>& flags, const std::string& text) {
    const Outcome outcome = bench(flags);
    EXPECT_EQ(outcome.code, 2) << outcome.output;
    EXPECT_THAT(outcome.output, HasSubstr(text));
  };
  fails({"--curve", "3"}, "--curve compares losses with TRL's; add --peer trl");
  fails({"--peer-settings", "packing"}, "--peer-settings needs --peer trl");
  fails({"--peer", "trl", "--peer-settings", "packed"}, "--peer-settings: \"packed\" is unknown; expected some of");
  fails({"--peer", "trl", "--peer-settings", ""}, "--peer-settings is empty");
  fails({"--lora-targets", "q_proj"}, "--lora-targets q_proj needs --lora-rank");
  const auto with = [&](const std::string& flag, const std::string& value, const std::string& text) {
    const Outcome outcome =
        run(trireme_command({"bench", "sft", "--preset", flag == "--preset" ? value : "neox-19m",
                             flag == "--preset" ? "--steps" : flag, flag == "--preset" ? "1" : value}));
    EXPECT_EQ(outcome.code, 2) << outcome.output;
    EXPECT_THAT(outcome.output, HasSubstr(text));
  };
  with("--preset", "bert-tiny", "--preset bert-tiny does not predict the next token");
  with("--seq", "4096", "--seq 4096 is longer than the 2048 positions of neox-19m");
  with("--batch", "100000", "--batch 100000 is more than the ");
  const Outcome missing = bench({"--peer", "trl", "--python", "/no/python", "--steps", "1"});
  EXPECT_EQ(missing.code, 1) << missing.output;
  EXPECT_THAT(missing.output, HasSubstr("error: cannot start /no/python "));
  EXPECT_THAT(missing.output, HasSubstr("`scripts/bootstrap --peers` installs it"));
}

}  // namespace
}  // namespace trireme
