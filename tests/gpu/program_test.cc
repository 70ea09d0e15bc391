// The program as a user runs it on a GPU, which is the executor here (executor_library.cc).

#include <gmock/gmock.h>

#include <cmath>

#include "tests/gpu/gpu_program.h"
#include "tests/runs/glue_fixture.h"
#include "tests/runs/training_fixture.h"

namespace trireme {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::Not;

TEST_F(GpuProgram, TrainsWithTheLossesOfTheCpu) {
  for (const char* type : {"f32", "bf16"}) {
    const std::string on_cpu = fmt::format("cpu-{}", type), on_gpu = fmt::format("gpu-{}", type);
    done(run(trireme_command(few(on_cpu, {"--precision.dtype", type, "--evaluation.every", "4"}))));
    const Outcome outcome = done(gpu_(
        few(on_gpu, {"--precision.dtype", type, "--evaluation.every", "4", "--log.metrics-file", path("gpu.prom")})));
    EXPECT_THAT(read_text(path("gpu.prom")),
                AllOf(HasSubstr(",gpu=\"the executor\""), HasSubstr("trireme_gpu_memory_used_bytes{"),
                      HasSubstr("trireme_gpu_memory_size_bytes{")));
    EXPECT_THAT(outcome.output, AllOf(HasSubstr("the executor"), HasSubstr("validation loss"))) << "auto takes it";
    expect_losses(on_gpu, on_cpu, std::string(type) == "f32" ? 2e-5 : 2e-2);
  }
}

TEST_F(GpuProgram, RecordsWhatTheDriverSaysOfItsGpu) {
  // CUDA shows the second of the node's GPUs only.
  const std::vector<std::string> node{ProgramOnGpu::with_nvml(), "TRIREME_EXECUTOR_BUSES=0000:65:00.0",
                                      "FAKE_NVML=busy hot ecc"};
  const Outcome outcome = done(gpu_(few("run", {"--log.metrics-file", path("gpu.prom"), "--run.steps", "2"}), node));
  EXPECT_THAT(
      outcome.output,
      AllOf(Not(HasSubstr("are not recorded")),
            HasSubstr("warning: GPU 0000:65:00.0: hw_slowdown, hw_thermal_slowdown holds its clocks down, so that "
                      "every step of the job takes longer; check its cooling and power (trireme health -e "
                      "check_gpu_clock_throttling)")));
  const GpuSummary gpu = read_run_log(path("run/metrics.jsonl")).steps.back().gpu.value();
  EXPECT_EQ(gpu.busy, 0.97);
  EXPECT_EQ(gpu.watts, 71.2);
  EXPECT_EQ(gpu.celsius, 34);
  EXPECT_EQ(gpu.errors, 3);
  EXPECT_THAT(read_text(path("gpu.prom")),
              AllOf(HasSubstr("trireme_gpu_busy_ratio{run=\"run\",rank=\"0\"} 0.97\n"),
                    HasSubstr("trireme_gpu_memory_used_bytes{run=\"run\",rank=\"0\"} 42760404992\n"),
                    HasSubstr("rank=\"0\",reason=\"hw_thermal_slowdown\"} 1\n")));
  done(run(trireme_command({"report", path("run"), "--output", path("report.html")})));
  EXPECT_THAT(read_text(path("report.html")), HasSubstr("Power of all GPUs"));
}

TEST_F(GpuProgram, SaysOnceThatTheDriverSaysNothing) {
  const std::string said = "the GPU's utilization, power and temperature are not recorded: ";
  const Outcome without = done(gpu_(few("without", {"--run.steps", "1"})));
  EXPECT_THAT(without.output, HasSubstr(said + "libnvidia-ml.so.1: cannot open shared object file"));
  EXPECT_EQ(without.output.find(said), without.output.rfind(said));
  EXPECT_FALSE(read_run_log(path("without/metrics.jsonl")).steps.back().gpu);
  EXPECT_THAT(
      done(gpu_(few("other", {"--run.steps", "1"}), {ProgramOnGpu::with_nvml(), "TRIREME_EXECUTOR_BUSES=0000:99:00.0"}))
          .output,
      HasSubstr(said + "the driver does not know the GPU 0000:99:00.0: "));
}

TEST_F(GpuProgram, RunsMoveBetweenCpuAndGpu) {
  done(run(trireme_command(few("cpu"))));
  done(gpu_(few("moved", {"--run.steps", "3", "--run.device", "cuda"})));
  done(gpu_(few("moved", {"--run.steps", "6", "--run.device", "cpu"})));
  done(gpu_(few("moved", {"--run.device", "cuda"})));
  expect_losses("moved", "cpu", 2e-5);
}

TEST_F(GpuProgram, KeepsWhatWasTimedAndTakesItAgain) {
  done(gpu_(few("plain", {"--run.steps", "2"})));
  EXPECT_FALSE(std::filesystem::exists(path("plain/products.jsonl")));
  done(gpu_(few("run", {"--run.steps", "2", "--run.tune"})));
  const std::string kept = read_text(path("run/products.jsonl"));
  EXPECT_THAT(kept, testing::StartsWith(R"({"gpu":"executor","library":1,"product":[)"));
  done(gpu_(few("run", {"--run.steps", "3", "--run.tune"})));
  EXPECT_EQ(read_text(path("run/products.jsonl")), kept) << "nothing is timed twice";
  write_text(path("run/products.jsonl"), kept + "{}\n");
  const Outcome outcome = gpu_(few("run", {"--run.steps", "4"}));
  EXPECT_NE(outcome.code, 0);
  EXPECT_THAT(outcome.output, HasSubstr("products.jsonl: line ")) << "read without the option, too";
}

TEST_F(GpuProgram, LeavesAttentionToCudnnWhereItIsAsked) {
  const auto words = [&](const std::string& name, std::vector<std::string> more) {
    more.insert(more.end(), {"--model.context", "128", "--model.width", "64", "--model.heads", "2", "--batch.global",
                             "2", "--run.steps", "2", "--precision.dtype", "bf16", "--evaluation.every", "0"});
    return few(name, more);
  };
  done(run(trireme_command(words("cpu", {}))));
  EXPECT_THAT(done(gpu_(words("cudnn", {"--run.cudnn"}))).output, HasSubstr("attention  by plain loops"));
  EXPECT_THAT(done(gpu_(words("own", {}))).output, Not(HasSubstr("attention  by")));
  expect_losses("cudnn", "cpu", 2e-2);
  EXPECT_THAT(done(gpu_(few("short", {"--run.cudnn", "--precision.dtype", "bf16"}))).output,
              HasSubstr("attention  by this program's kernels: the sequences' length"));
}

TEST_F(GpuProgram, EvaluatingDoesNotTime) {
  const Outcome outcome = gpu_(few("run", {"--evaluation.only", "--run.tune"}));
  EXPECT_EQ(outcome.code, 2) << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr("with evaluation.only nothing is trained; remove it"));
}

TEST_F(GpuProgram, TheLibraryForGpusFindsAllItsSymbolsInTheProgram) {
  const std::string program = trireme_path();
  if (!std::filesystem::exists(program.substr(0, program.rfind('/') + 1) + "libtrireme_cuda.so"))
    GTEST_SKIP() << "this build has no libtrireme_cuda.so";
  const Outcome outcome = run(trireme_command(few("run", {"--run.device", "cuda", "--run.steps", "1"})));
  EXPECT_THAT(outcome.output, Not(AnyOf(HasSubstr("cannot be opened"), HasSubstr("undefined symbol"))));
  if (outcome.code != 0) {
    EXPECT_THAT(outcome.output, AnyOf(HasSubstr("GPU 0 cannot be used"), HasSubstr("cuBLASLt was not found")));
  }
}

TEST_F(GpuProgram, OptionsOfGpusNeedOne) {
  for (const char* option : {"tune", "cudnn"}) {
    const Outcome outcome = gpu_(few("run", {fmt::format("--run.{}", option), "--run.device", "cpu"}));
    EXPECT_EQ(outcome.code, 2) << outcome.output;
    EXPECT_THAT(outcome.output, HasSubstr(fmt::format("run.{} is set, which needs a GPU, and this run computes on the "
                                                      "CPU; remove it",
                                                      option)));
  }
}

TEST_F(GpuProgram, F16LowersTheLossScaleUntilGradientsFit) {
  const std::vector<std::string> f16{"--precision.dtype",
                                     "f16",
                                     "--precision.loss-scale-initial",
                                     "1e9",
                                     "--precision.loss-scale-hysteresis",
                                     "1",
                                     "--optim.decay-steps",
                                     "20",
                                     "--run.steps"};
  const auto steps = [&](const std::string& name, const std::string& count) {
    std::vector<std::string> words = f16;
    words.push_back(count);
    return done(gpu_(few(name, words)));
  };
  const Outcome whole = steps("whole", "20");
  EXPECT_THAT(whole.output, AllOf(HasSubstr("step 1 skipped: its gradients overflowed in f16; the loss scale lowered "
                                            "from 1000000000 to 500000000"),
                                  HasSubstr(" | scale ")));
  const RunCounters end = progress("whole");
  EXPECT_GT(end.overflows, 3);
  EXPECT_EQ(end.updates, 20 - end.overflows);
  EXPECT_EQ(end.consecutive_skips, 0);
  EXPECT_LT(losses("whole").at(20), losses("whole").at(1)) << "it learns";
  steps("resumed", "14");
  steps("resumed", "20");
  EXPECT_EQ(weights("resumed"), weights("whole"));
  EXPECT_EQ(progress("resumed").loss_scale, end.loss_scale);
}

TEST_F(GpuProgram, F16EndsWhereNoScaleHelps) {
  const Outcome outcome = gpu_(
      few("run", {"--precision.dtype", "f16", "--precision.loss-scale", "1e18", "--precision.max-overflows", "3"}));
  EXPECT_EQ(outcome.code, 1) << outcome.output;
  EXPECT_THAT(outcome.output,
              HasSubstr("step 3: gradients overflowed in f16 in 3 steps in a row, the last at loss scale 1e+18; "
                        "lower optim.learning-rate, resume from an earlier snapshot, or train with "
                        "precision.dtype bf16"));
}

TEST_F(GpuProgram, F16OnTheCpuIsRefused) {
  const Outcome outcome = gpu_(few("run", {"--precision.dtype", "f16", "--run.device", "cpu"}));
  EXPECT_EQ(outcome.code, 2) << outcome.output;
  EXPECT_THAT(outcome.output,
              HasSubstr("is f16, which is unsupported for training on CPUs; set --precision.dtype bf16"));
  EXPECT_FALSE(std::filesystem::exists(path("run")));
}

TEST_F(GpuProgram, SamplesTheTextOfTheCpu) {
  write_text(path("text.jsonl"), "{\"text\": \"the cat sat on the mat\"}\n");
  write_text(path("words.txt"), "the cat sat on the mat\n");
  done(run(trireme_command(
      {"tokenizer", "train", "--input", path("words.txt"), "--vocab-size", "270", "--output", path("tokenizer")})));
  done(run(trireme_command({"prepare", "--input", path("text.jsonl"), "--tokenizer", path("tokenizer"), "--output",
                            path("data"), "--val-fraction", "0"})));
  done(run(trireme_command(
      {"train", "--data.dir",         path("data"), "--run.dir",        path("run"), "--model.layers",
       "2",     "--model.heads",      "2",          "--model.width",    "32",        "--model.context",
       "16",    "--batch.global",     "4",          "--batch.sequence", "4",         "--run.steps",
       "1",     "--evaluation.every", "0",          "--launch.threads", "1",         "--data.validation",
       ""})));
  const std::vector<std::string> words{"sample",  "--model",   path("run"), "--prompt",         "the cat", "--greedy",
                                       "--jsonl", "--threads", "1",         "--max-new-tokens", "8"};
  const auto text = [](const std::string& output) {
    const size_t from = output.find("\"text\":");
    return output.substr(from, output.find("\"length\"", from) - from);
  };
  const std::string want = text(done(run(trireme_command(words))).output);
  EXPECT_EQ(text(done(gpu_(words)).output), want);
  std::vector<std::string> on_cpu = words;
  on_cpu.insert(on_cpu.end(), {"--device", "cpu"});
  EXPECT_EQ(text(done(gpu_(on_cpu)).output), want);
}

class GpuGlue : public GlueFixture {
 protected:
  ProgramOnGpu gpu_;
};

TEST_F(GpuGlue, FineTunesWithTheLossesOfTheCpu) {
  const std::vector<std::string> flags{
      "--do_train", "--do_eval", "--max_steps", "6", "--per_device_train_batch_size", "4", "--log.peak-tflops", "1"};
  done(run(trireme_command(glue("cpu", flags))));
  const Outcome outcome = done(gpu_(glue("gpu", flags)));
  EXPECT_THAT(outcome.output, HasSubstr("the executor"));
  expect_same_losses("gpu", "cpu", 1e-4);
  EXPECT_NEAR(json("gpu/eval_results.json")["eval_loss"].get<double>(),
              json("cpu/eval_results.json")["eval_loss"].get<double>(), 1e-4);
  std::vector<std::string> half = flags;
  half.insert(half.end(), {"--fp16", "--precision.loss-scale", "1024"});
  done(gpu_(glue("half", half)));
  expect_same_losses("half", "cpu", 5e-3);
  EXPECT_EQ(read_run_log(path("half/metrics.jsonl")).steps.back().loss_scale, 1024);
}

TEST_F(GpuGlue, MeasuresSteps) {
  const std::vector<std::string> words{"bench",      "glue",    "--model", path("model"),      "--data-dir",
                                       path("data"), "--batch", "4",       "--max-seq-length", "32",
                                       "--steps",    "1",       "--json",  path("bench.json")};
  const Outcome outcome = done(gpu_(words));
  EXPECT_THAT(outcome.output, AllOf(HasSubstr("the executor (commit"), HasSubstr(" rows/s   "),
                                    HasSubstr("kernels cuda"), Not(HasSubstr("GEMM ceiling"))));
  EXPECT_GT(json("bench.json")["samples_per_s"].get<double>(), 0);
  EXPECT_FALSE(json("bench.json").contains("share"));
  std::vector<std::string> peer = words;
  peer.insert(peer.end(), {"--peer", "pytorch"});
  const Outcome refused = gpu_(peer);
  EXPECT_EQ(refused.code, 2) << refused.output;
  EXPECT_THAT(refused.output, HasSubstr("--peer measures PyTorch on the CPU, but this is a GPU; add `--device cpu`"));
}

TEST_F(GpuProgram, ProfilesStepsByTheDevicesClock) {
  const Outcome outcome = done(gpu_(few("run", {"--log.profile", "2", "--evaluation.every", "0"})));
  EXPECT_THAT(outcome.output, AllOf(HasSubstr("time of 2 steps of rank 0"), HasSubstr("linear_activation 32->128"),
                                    HasSubstr("a step takes ")));
  double known = 0, steps = 0;
  const Json trace = read_json(path("run/trace.json"));
  for (const Json& event : trace["traceEvents"]) {
    const double begin = event["ts"], seconds = event["dur"];
    EXPECT_GE(seconds, 0);
    (event["tid"] == 0 ? steps : known) += seconds;
    if (event["tid"] == 0) continue;
    const bool inside = std::ranges::any_of(trace["traceEvents"], [&](const Json& step) {
      const double first = step["ts"], length = step["dur"];
      return step["tid"] == 0 && begin >= first - 1 && begin + seconds <= first + length + 1;
    });
    EXPECT_TRUE(inside) << event.dump();
  }
  EXPECT_GT(known, 0.5 * steps) << "the operators' work, not its issue";
  EXPECT_LE(known, steps);
}

TEST_F(GpuProgram, EndsWithTheTimeOfAStepBesideItsPlan) {
  const Outcome outcome =
      done(gpu_(few("run", {"--run.steps", "14", "--batch.global", "8", "--evaluation.every", "0"})));
  EXPECT_THAT(outcome.output,
              testing::ContainsRegex("step: [0-9.]+ s planned with the rates of this machine \\(products "
                                     "[^)]*\\), [0-9.]+ s measured"));
}

TEST_F(GpuProgram, DeviceNamesTheGpuThatIsUsed) {
  EXPECT_THAT(done(gpu_({"device"})).output, HasSubstr("usable     the executor"));
  EXPECT_THAT(done(gpu_({"device", "--hosts", host_name()})).output, HasSubstr(host_name() + ": usable: the executor"));
}

TEST_F(GpuProgram, HealthMeasuresCopiesOfEachGpu) {
  const std::vector<std::string> node{ProgramOnGpu::with_nvml(), "TRIREME_EXECUTOR_GPUS=2"};
  EXPECT_THAT(done(gpu_({"health", "-v", "-e", "check_cuda_bw 0.001"}, node)).output,
              HasSubstr("copies from and to the host at "));
  const Outcome slow = gpu_({"health", "-e", "check_gpu_bw 100000"}, node);
  EXPECT_EQ(slow.code, 1);
  EXPECT_THAT(slow.output, HasSubstr("check_gpu_bw: GPU 0 (00000000:17:00.0, GPU-0): copies from the host at "));
  // Of the two GPUs that the driver has, CUDA shows one.
  EXPECT_THAT(gpu_({"health", "-e", "check_cuda_bw 1"}, {ProgramOnGpu::with_nvml()}).output,
              HasSubstr("cannot measure copies: CUDA shows 1 of this node's GPUs (CUDA_VISIBLE_DEVICES hides others), "
                        "and this node has no nvbandwidth"));
}

TEST_F(GpuProgram, MeasuresStepsOperatorsAndGeneration) {
  const std::vector<std::string> small{"--preset", "opt-8m", "--dtype", "bf16", "--json", path("bench.json")};
  const auto with = [&](std::vector<std::string> words, const std::vector<std::string>& more) {
    words.insert(words.end(), more.begin(), more.end());
    return words;
  };
  const auto step = with({"bench", "step", "--batch", "1", "--seq", "8", "--steps", "1", "--peak-tflops", "1"}, small);
  EXPECT_THAT(done(gpu_(step)).output,
              AllOf(HasSubstr("the executor (commit"), HasSubstr("kernels cuda"), HasSubstr("(median of 1; fastest"),
                    HasSubstr("MFU"), HasSubstr("data sheet         none is known for this GPU"),
                    Not(HasSubstr("GEMM ceiling")), Not(HasSubstr("peak memory"))));
  EXPECT_GT(read_json(path("bench.json"))["ms_fastest"].get<double>(), 0);
  EXPECT_FALSE(read_json(path("bench.json")).contains("share"));
  EXPECT_THAT(done(gpu_(with(step, {"--device", "cpu"}))).output, HasSubstr("GEMM ceiling"));
  const Outcome peer = gpu_(with(step, {"--peer", "pytorch"}));
  EXPECT_EQ(peer.code, 2) << peer.output;
  EXPECT_THAT(peer.output, HasSubstr("--peer measures PyTorch on the CPU, but this is a GPU (the executor); add "
                                     "`--device cpu`"));
  EXPECT_THAT(done(gpu_(with({"bench", "generate", "--prompt", "4", "--tokens", "4"}, small))).output,
              AllOf(HasSubstr("token  "), HasSubstr("read once per token:"), HasSubstr("none is known"),
                    Not(HasSubstr("share"))));
  EXPECT_THAT(done(gpu_({"bench", "ops", "--batch", "1", "--seq", "8", "--width", "32", "--heads", "2", "--seconds",
                         "0.001", "--only", "layer_norm,attention_group"}))
                  .output,
              AllOf(HasSubstr("kernels cuda"), HasSubstr("layer_norm_backward"), HasSubstr("linear_backward_weight"),
                    Not(HasSubstr("adamw"))));
  const Outcome absent = run(trireme_command(with(step, {"--device", "cuda"})));
  EXPECT_EQ(absent.code, 2) << absent.output;
  EXPECT_THAT(absent.output, AnyOf(HasSubstr("--device is cuda, but"), HasSubstr("cannot be used")));
}

TEST_F(GpuProgram, VersionNamesTheGpu) {
  EXPECT_THAT(done(gpu_({"--version"})).output,
              AllOf(HasSubstr("backends  cpu, reference, cuda\n"), HasSubstr("GPU       the executor\n")));
}

}  // namespace
}  // namespace trireme
