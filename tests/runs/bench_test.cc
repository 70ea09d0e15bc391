// `trireme bench step` and `trireme bench ops`.

#include <gmock/gmock.h>
#include <cstring>
#include <filesystem>
#include <set>

#include <nlohmann/json.hpp>

#include "base/file.h"
#include "base/json.h"
#include "checkpoint/safetensors/safetensors.h"
#include "tests/runs/program.h"
#include "tests/support/paths.h"

namespace trireme {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;

TEST(Bench, StepWritesEveryKeyThatScriptsRead) {
  const TemporaryFolder folder;
  const std::string file = folder / "step.json";
  const Outcome outcome = run(trireme_command({"bench", "step", "--preset", "opt-8m", "--seq", "32", "--batch", "1",
                                               "--steps", "1", "--warmup", "0", "--threads", "1", "--json", file}));
  ASSERT_EQ(outcome.code, 0) << outcome.output;
  const Json result = read_json(file);
  for (const char* key : {"tokens_per_s", "ms_per_step", "model_flops_per_s", "ceiling_flops_per_s", "share"})
    EXPECT_GT(result.at(key).get<double>(), 0) << key;
  EXPECT_GT(result.at("peak_rss_bytes").get<int64_t>(), 7'200'000 * 16) << "weights, gradients and two moments";
  EXPECT_FALSE(result.at("cpu").get<std::string>().empty());
  EXPECT_FALSE(result.at("commit").get<std::string>().empty());

  const double seconds = result.at("ms_per_step").get<double>() / 1e3;
  EXPECT_NEAR(result.at("tokens_per_s").get<double>() * seconds, 32, 1e-6);
  // 6 x (4 x 12 x 128^2 + 50272 x 128) matmul parameters + 6 x 4 x 128 x 32 per token
  EXPECT_NEAR(result.at("model_flops_per_s").get<double>() * seconds / 32, 43'425'792, 1);
  EXPECT_GE(result.at("ceiling_flops_per_s"), result.at("plain_ceiling_flops_per_s"));
  EXPECT_NEAR(result.at("share").get<double>(),
              result.at("model_flops_per_s").get<double>() / result.at("ceiling_flops_per_s").get<double>(), 1e-9);
  for (const char* text :
       {"tokens ", "6 x matmul parameters", "GEMM ceiling", "without packed operands", "share ", "peak memory"})
    EXPECT_THAT(outcome.output, HasSubstr(text));
}

TEST(Bench, StepAlternatesWithAPeer) {
  const TemporaryFolder folder;
  const std::string script = folder / "peer.sh", file = folder / "step.json";
  write_text(script, "echo \"$@\" > " + (folder / "words") + R"(
before=
for word; do [ "$before" = --start ] && cp "$word" )" +
                         (folder / "start.safetensors") + R"( && echo "$word" > )" + (folder / "start") +
                         R"(; before=$word; done
echo ready; while read go; do echo 1000 32 500000000 10.5; done)");
  const Outcome outcome =
      run(trireme_command({"bench",    "step",    "--preset",      "opt-8m", "--seq",     "32", "--batch", "1",
                           "--steps",  "2",       "--warmup",      "0",      "--threads", "1",  "--peer",  "pytorch",
                           "--python", "/bin/sh", "--peer-script", script,   "--json",    file}));
  ASSERT_EQ(outcome.code, 0) << outcome.output;
  const Json peer = read_json(file).at("peer");
  for (const char* mode : {"eager", "compiled"}) {
    const Json& side = peer.at(mode);
    EXPECT_DOUBLE_EQ(side.at("ms_per_step").get<double>(), 1e6) << mode;
    EXPECT_DOUBLE_EQ(side.at("ratio").get<double>(), 1e6 / side.at("our_ms_per_step").get<double>()) << mode;
    EXPECT_EQ(side.at("loss"), 10.5) << mode;
    EXPECT_EQ(side.at("our_loss"), peer.at("eager").at("our_loss")) << "ours begins anew beside each";
  }
  EXPECT_THAT(outcome.output, HasSubstr("loss 10.5000 after the last step, ours "));
  EXPECT_THAT(read_text(folder / "words"), HasSubstr("--warmup 2 --learning-rate 0.0001 --weight-decay 0 --start "));
  // Input of the peer: all weights, and the tokens of two steps of warm-up and two that are timed.
  const SafetensorsFile start(folder / "start.safetensors");
  EXPECT_EQ(start.entries().size(), 52u + 2u);
  EXPECT_EQ(start.find("embedding.token.weight")->shape, (std::vector<int64_t>{50304, 128}));
  const auto ids = [&](const char* name) {
    EXPECT_EQ(start.find(name)->shape, (std::vector<int64_t>{4, 32}));
    const auto bytes = start.bytes(*start.find(name));
    std::vector<int32_t> values(bytes.size() / sizeof(int32_t));
    std::memcpy(values.data(), bytes.data(), bytes.size());
    return values;
  };
  const std::vector<int32_t> tokens = ids("tokens"), targets = ids("targets");
  for (size_t i = 0; i < tokens.size(); ++i) {
    ASSERT_LT(tokens[i], 50257);
    if (i % 32 != 31) {
      EXPECT_EQ(targets[i], tokens[i + 1]);
    }
  }
  std::string gone = read_text(folder / "start");
  gone.pop_back();
  EXPECT_FALSE(std::filesystem::exists(gone)) << gone;
  EXPECT_EQ(peer.at("ratio").get<double>(),
            std::min(peer.at("eager").at("ratio").get<double>(), peer.at("compiled").at("ratio").get<double>()));
  EXPECT_DOUBLE_EQ(peer.at("rss_ratio").get<double>(), read_json(file).at("peak_rss_bytes").get<double>() / 5e8);
  EXPECT_THAT(outcome.output, HasSubstr("PyTorch compiled"));
}

TEST(Bench, StepHoldsNoMemoryWhileAPeerIsMeasuredApart) {
  const TemporaryFolder folder;
  const std::string script = folder / "peer.sh", file = folder / "step.json";
  // Its "peak memory" is what the process that started it holds at that time.
  write_text(script,
             "echo ready; while read go; do echo 1000 32 $((1024 * $(grep VmRSS /proc/$PPID/status | tr -dc 0-9)))"
             " 10.5; done");
  const auto held = [&](const std::vector<std::string>& flags) {
    std::vector<std::string> words = {
        "bench",     "step", "--preset", "opt-8m",  "--seq",    "8",       "--batch",       "1",    "--steps", "3",
        "--threads", "1",    "--peer",   "pytorch", "--python", "/bin/sh", "--peer-script", script, "--json",  file};
    words.insert(words.end(), flags.begin(), flags.end());
    const Outcome outcome = run(trireme_command(words));
    EXPECT_EQ(outcome.code, 0) << outcome.output;
    const Json side = read_json(file).at("peer").at("compiled");
    EXPECT_EQ(side.at("apart"), !flags.empty());
    EXPECT_THAT(outcome.output, HasSubstr(flags.empty() ? ", ours between " : ", ours in its own rounds "));
    // Once for each mode, or in each of its two rounds.
    size_t started = 0;
    for (size_t at = 0; (at = outcome.output.find("starting PyTorch", at)) != outcome.output.npos; ++at) ++started;
    EXPECT_EQ(started, flags.empty() ? 2u : 4u);
    return side.at("peak_rss_bytes").get<double>();
  };
  constexpr double kState = 7.2e6 * 16;  // weights, gradients and two moments in f32
  EXPECT_GT(held({}) - held({"--apart"}), kState);
  const Outcome alone = run(trireme_command({"bench", "step", "--apart"}));
  EXPECT_EQ(alone.code, 2) << alone.output;
  EXPECT_THAT(alone.output, HasSubstr("--apart needs --peer; add `--peer pytorch`"));
}

TEST(Bench, SaysHowToInstallAPeerThatIsNotThere) {
  const Outcome outcome =
      run(trireme_command({"bench", "step", "--preset", "opt-8m", "--seq", "32", "--batch", "1", "--steps", "1",
                           "--warmup", "0", "--threads", "1", "--peer", "pytorch", "--python", "/nowhere/python"}));
  EXPECT_EQ(outcome.code, 1) << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr("cannot start /nowhere/python"));
  EXPECT_THAT(outcome.output, HasSubstr("`scripts/bootstrap --peers` installs it"));
}

TEST(Bench, GenerateHoldsATokenAgainstOneReadOfTheWeights) {
  const TemporaryFolder folder;
  const std::string file = folder / "generate.json";
  const Outcome outcome = run(trireme_command(
      {"bench", "generate", "--dtype", "bf16", "--prompt", "4", "--tokens", "8", "--threads", "1", "--json", file}));
  ASSERT_EQ(outcome.code, 0) << outcome.output;
  const Json result = read_json(file);
  EXPECT_EQ(result.at("weight_bytes").get<double>(), 2.0 * (124'439'808 + 47 * 768 - 1024 * 768))
      << "without the positions, with the padding rows of the vocabulary";
  EXPECT_GT(result.at("share").get<double>(), 0);
  EXPECT_NEAR(result.at("share").get<double>(),
              result.at("weight_bytes").get<double>() / result.at("read_bytes_per_s").get<double>() /
                  (result.at("ms_per_token").get<double>() / 1e3),
              1e-9);
}

TEST(Bench, OpsMeasuresTheOperatorsOfALayer) {
  const Outcome outcome = run(trireme_command({"bench", "ops", "--batch", "1", "--seq", "16", "--width", "32",
                                               "--heads", "2", "--threads", "1", "--seconds", "0.01"}));
  EXPECT_EQ(outcome.code, 0) << outcome.output;
  for (const char* text : {"attention", "norm", "linear", "bound by", "memory"})
    EXPECT_THAT(outcome.output, HasSubstr(text));
}

TEST(BenchStep, MeasuresTheStepOfSeveralRanksTogether) {
  if (mpirun_path().empty()) GTEST_SKIP() << "mpirun is missing";
  const TemporaryFolder folder;
  const std::string file = folder / "step.json";
  const Outcome outcome = run(mpirun_command(3, {"bench", "step", "--preset", "opt-8m", "--seq", "16", "--batch", "2",
                                                 "--steps", "2", "--threads", "1", "--json", file}));
  ASSERT_EQ(outcome.code, 0) << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr("ranks   words/s  s per step  speed-up  efficiency  waiting  comm CPU  "
                                        "TFLOP/s per rank    MFU      loss"));
  const Json ranks = read_json(file)["ranks"];
  ASSERT_EQ(ranks.size(), 3u) << "1, 2 and all 3";
  EXPECT_EQ(ranks["1"]["speed_up"], 1.0);
  for (const int n : {1, 2, 3}) {
    const Json& of = ranks[std::to_string(n)];
    // Whose threads took how much is counted, not how much that is.
    const double waiting = of["cpu_waiting"], exchange = of["cpu_exchange"], total = of["cpu_seconds"];
    EXPECT_LT(waiting + exchange, total);
    EXPECT_EQ(exchange > 0, n > 1) << exchange;
    EXPECT_NEAR(of["tokens_per_s"].get<double>() * of["ms_per_step"].get<double>() / 1e3, 32 * n, 1e-9);
    const double rate = of["tokens_per_s"], one = ranks["1"]["tokens_per_s"];
    EXPECT_DOUBLE_EQ(of["speed_up"].get<double>(), rate / one);
  }
  const Outcome refused = run(mpirun_command(2, {"bench", "step", "--peer", "pytorch"}));
  EXPECT_EQ(refused.code, 2) << refused.output;
  EXPECT_THAT(refused.output, HasSubstr("--peer is supported only on one rank, not on 2"));
}

TEST(BenchStep, ComparesLayoutsOfOneBatch) {
  if (mpirun_path().empty()) GTEST_SKIP() << "mpirun is missing";
  const TemporaryFolder folder;
  const std::string file = folder / "step.json";
  const std::vector<std::string> words{"bench", "step",    "--preset", "opt-8m",    "--seq", "16",     "--batch",
                                       "2",     "--steps", "1",        "--threads", "1",     "--json", file};
  const auto with = [&](const std::vector<std::string>& more) {
    auto all = words;
    all.insert(all.end(), more.begin(), more.end());
    return run(mpirun_command(4, all));
  };
  const Outcome outcome = with({"--layouts", "4x1x1,2x2x1,1x2x2,1x2x2c2s", "--shard", "optimizer"});
  ASSERT_EQ(outcome.code, 0) << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr("data x tensor x pipeline  micro-batches   words/s"));
  const Json layouts = read_json(file)["layouts"];
  ASSERT_EQ(layouts.size(), 4u);
  EXPECT_EQ(layouts["4x1x1"]["speed_up"], 1.0);
  EXPECT_EQ(layouts["4x1x1"]["micro_batches"], 1);
  EXPECT_EQ(layouts["1x2x2"]["micro_batches"], 8) << "eight sequences, four micro-batches per stage";
  EXPECT_LT(layouts["1x2x2"]["pipeline_use"].get<double>(), 8.0 / 9);
  for (const char* name :
       {"2x2x1", "1x2x2", "1x2x2c2s"})  // the same work: the loss of the second step, after one update
    EXPECT_NEAR(layouts[name]["loss"].get<double>(), layouts["4x1x1"]["loss"].get<double>(), 1e-3);
  for (const std::string other : {"2x1x1", "0x2x1", "3x1x1", "4x2x2"})
    EXPECT_THAT(
        with({"--layouts", other}).output,
        HasSubstr("--layouts: " + other + ": data x tensor x pipeline is not the number of ranks, 4; correct it"));
  EXPECT_THAT(with({"--layouts", "4x1"}).output,
              HasSubstr("--layouts: \"4x1\" is not a layout; expected data x tensor x pipeline, like 2x1x1"));
  EXPECT_THAT(with({"--layouts", "4x1x1s"}).output,
              HasSubstr("4x1x1s: s (sequence parallelism) needs at least 2 tensor ranks"));
  EXPECT_THAT(with({"--layouts", "1x2x2", "--shard", "gradients"}).output,
              HasSubstr("--shard gradients and parameters do not support a pipeline"));
  EXPECT_EQ(with({"--layouts", "4x1x1,2x2x1s", "--shard", "parameters"}).code, 0);
  EXPECT_THAT(with({"--shard", "parameters"}).output, HasSubstr("--micro and --shard need --layouts"));
}

TEST(BenchStep, SpeaksMetaseqsAndNanoGptsWords) {
  const Outcome outcome = run(trireme_command({"bench", "step", "--preset", "opt-8m", "--seq", "32", "--batch", "1",
                                               "--steps", "2", "--synthetic", "--threads", "1", "--peak-tflops", "2"}));
  ASSERT_EQ(outcome.code, 0) << outcome.output;
  EXPECT_THAT(outcome.output, ContainsRegex("tokens             [0-9.]+ words per second"));
  EXPECT_THAT(outcome.output, ContainsRegex("model FLOPs / s of a rank divided by 2.0000 TFLOP/s \\(--peak-tflops\\)"));
  EXPECT_THAT(outcome.output, ContainsRegex("time per iteration [0-9.]+ ms, MFU [0-9.]+%"));
  EXPECT_THAT(outcome.output, ContainsRegex("last loss          [0-9.]+"));
  const Outcome refused = run(trireme_command({"bench", "step", "--synthetic", "--data", "x.bin"}));
  EXPECT_EQ(refused.code, 2);
  EXPECT_THAT(refused.output, HasSubstr("--synthetic means random tokens, but --data x.bin names a file"));
}

TEST(BenchNode, WritesWhatAPlannerNeeds) {
  const TemporaryFolder folder;
  const std::string file = folder / "node.json";
  const Outcome outcome = run(trireme_command({"bench", "node", "--rows", "16", "--width", "64", "--threads", "1",
                                               "--disk", folder.path(), "--disk-mb", "8", "-J", file}));
  ASSERT_EQ(outcome.code, 0) << outcome.output;
  EXPECT_THAT(outcome.output, ContainsRegex("[0-9]+ products, about [0-9]+ s\n"));
  const Json node = read_json(file);
  for (const char* key : {"copy_bytes_per_s", "triad_bytes_per_s", "disk_write_bytes_per_s", "disk_read_bytes_per_s",
                          "memory_bytes", "cores", "sockets"})
    EXPECT_GT(node.at(key).get<double>(), 0) << key;
  EXPECT_FALSE(node.at("instruction_set").get<std::string>().empty());
  std::set<std::string> kinds, types;
  for (const Json& gemm : node.at("gemms")) {
    kinds.insert(gemm.at("kind"));
    types.insert(gemm.at("dtype"));
    EXPECT_NEAR(gemm.at("flops_per_s").get<double>() * gemm.at("seconds").get<double>(),
                2.0 * 16 * gemm.at("in").get<double>() * gemm.at("out").get<double>(), 1);
  }
  EXPECT_EQ(kinds.size(), 3u);
  EXPECT_EQ(types.count("f32"), 1u);
  EXPECT_EQ(types.count("bf16") == 1, node.at("multiplies_bf16").get<bool>());
  for (const auto& entry : std::filesystem::directory_iterator(folder.path()))
    EXPECT_EQ(entry.path().filename(), "node.json") << "the disk test left a file";
  const Outcome refused = run(trireme_command({"bench", "node", "--disk", folder / "absent"}));
  EXPECT_EQ(refused.code, 1);
  EXPECT_THAT(refused.output, HasSubstr("absent: No such file or directory"));
}

TEST(Bench, RanksThatWouldEachMeasureAloneAreRefusedOnce) {
  if (mpirun_path().empty()) GTEST_SKIP() << "mpirun is missing";
  for (const std::string what : {"ops", "node", "generate", "tokenize"}) {
    const Outcome outcome = run(mpirun_command(2, {"bench", what}));
    EXPECT_EQ(outcome.code, 2) << outcome.output;
    EXPECT_THAT(
        outcome.output,
        ContainsRegex("error: 2 processes started by .* would measure separately and disturb each other: `bench " +
                      what + "` measures one process; start it without "));
    EXPECT_EQ(outcome.output.find("error: "), outcome.output.rfind("error: ")) << outcome.output;
    EXPECT_THAT(outcome.output, testing::Not(HasSubstr("GFLOP/s")));
  }
  const Outcome one = run(mpirun_command(1, {"bench", "ops", "--width", "64", "--heads", "2", "--seq", "16",
                                             "--threads", "1", "--only", "gelu", "--seconds", "0.01"}));
  EXPECT_EQ(one.code, 0) << one.output;
}

TEST(Bench, RefusesWhatItCannotMeasure) {
  const auto expect_refused = [](const std::vector<std::string>& arguments, const std::string& message) {
    const Outcome outcome = run(trireme_command(arguments));
    EXPECT_EQ(outcome.code, 2) << outcome.output;
    EXPECT_THAT(outcome.output, HasSubstr(message));
  };
  expect_refused({"bench"}, "usage: trireme bench WHAT");
  expect_refused({"bench", "stpe"}, "unknown benchmark \"stpe\"; `trireme bench --help` lists them");
  expect_refused({"bench", "step", "--preset", "gpt9"}, "gpt2-124m");
  expect_refused({"bench", "step", "--seq", "2048"}, "--seq 2048 is longer than the 1024 positions of gpt2-124m");
  expect_refused({"bench", "step", "--dtype", "f16"}, "--dtype");
  expect_refused({"bench", "step", "--steps", "0"}, "--steps");
  expect_refused({"bench", "generate", "--tokens", "1020"},
                 "--prompt 16 and --tokens 1020 are more than the 1024 positions");
  expect_refused({"bench", "ops", "--width", "30", "--heads", "4"}, "--heads 4 does not divide --width 30");
}

}  // namespace
}  // namespace trireme
