#include <gmock/gmock.h>

#include "base/file.h"
#include "config/load.h"
#include "tests/support/expect_error.h"
#include "tests/support/temporary_folder.h"

namespace trireme {
namespace {

using testing::Contains;
using testing::HasSubstr;

// What accelerate 0.21 writes for three machines; null and {} are its own.
constexpr const char* kFile =
    "compute_environment: LOCAL_MACHINE\ndistributed_type: MULTI_CPU\ndowncast_bf16: 'no'\ndynamo_config: {}\n"
    "ipex_config:\n  ipex: true\nmachine_rank: 0\nmain_process_ip: 10.0.0.4\nmain_process_port: null\n"
    "main_training_function: main\nmixed_precision: bf16\nnum_machines: 3\nnum_processes: 3\nrdzv_backend: static\n"
    "same_network: true\ntpu_env: []\ntpu_use_cluster: false\ntpu_use_sudo: false\nuse_cpu: true\n";

class Accelerate : public testing::Test {
 protected:
  LoadedConfig load(const std::string& text, const std::vector<std::string>& flags = {}) {
    write_text(folder_ / "default_config.yaml", text);
    write_text(folder_ / "native.yaml", "model: {layers: 1, heads: 1, width: 8, context: 8}\ndata: {dir: d}\n");
    return load_config({folder_ / "default_config.yaml", folder_ / "native.yaml"}, flags);
  }
  std::string with(const std::string& from, const std::string& to) const {
    std::string text = kFile;
    return text.replace(text.find(from), from.size(), to);
  }
  TemporaryFolder folder_;
};

TEST_F(Accelerate, FileIsRecognisedAndGivesThePrecision) {
  const LoadedConfig loaded = load(kFile);
  EXPECT_EQ(loaded.dialect, "accelerate");
  EXPECT_EQ(loaded.config.precision.dtype, DType::bf16);
  EXPECT_THAT(loaded.notes, Contains(HasSubstr("ipex_config.ipex has no effect here: torch is not used")));
  EXPECT_THAT(loaded.notes, Contains(HasSubstr("num_processes is used by `trireme launch --config-file`")));
  EXPECT_EQ(loaded.config.run.device, DeviceChoice::cpu);
  EXPECT_EQ(load(with("use_cpu: true", "use_cpu: false")).config.run.device, DeviceChoice::automatic);
  EXPECT_EQ(load(kFile, {"--precision.dtype", "f32"}).config.precision.dtype, DType::f32);
  EXPECT_EQ(load(with("mixed_precision: bf16", "mixed_precision: 'no'")).config.precision.dtype, DType::f32);
}

// Every field of the file that accelerate writes (its ClusterConfig), empty as it writes what was not asked for.
TEST_F(Accelerate, EveryKeyIsKnown) {
  const std::string file = kFile;
  for (const char* key :
       {"fp8_config", "deepspeed_config", "fsdp_config", "parallelism_config", "megatron_lm_config", "mpirun_config"})
    EXPECT_NO_THROW(load(file + key + ": {}\n")) << key;
  for (const char* lines :
       {"debug: false", "gpu_ids: all", "enable_cpu_affinity: false", "command_file: null", "commands: null",
        "tpu_name: null", "tpu_zone: null", "tpu_vm: null", "dynamo_backend: 'NO'",
        "fp8_config: {backend: TE, fp8_format: HYBRID}", "mpirun_config: {mpirun_ccl: '1'}"})
    EXPECT_NO_THROW(load(file + lines + "\n")) << lines;
  EXPECT_NO_THROW(load(with("dynamo_config: {}", "dynamo_config: {dynamo_use_regional_compilation: false}")));
  EXPECT_NO_THROW(load(with("  ipex: true", "  ipex: false\n  use_xpu: false\n  fuse: true")));
  const std::pair<const char*, const char*> refused[] = {
      {"deepspeed_config: {zero3_save_16bit_model: true}",
       "deepspeed_config.zero3_save_16bit_model cannot be used here"},
      {"fsdp_config: {fsdp_version: 2}", "set optim.shard, mesh.tensor and mesh.pipeline"},
      {"parallelism_config: {parallelism_config_tp_size: 2}", "set optim.shard, mesh.tensor and mesh.pipeline"},
      {"megatron_lm_config: {megatron_lm_sequence_parallelism: true}", "set optim.shard, mesh.tensor"}};
  for (const auto& [lines, message] : refused) EXPECT_ERROR(load(file + lines + "\n"), ErrorKind::config, message);
}

TEST_F(Accelerate, ImpossibleValuesAreRefusedWithTheirLine) {
  EXPECT_ERROR(load(with("MULTI_CPU", "MULTI_XPU")), ErrorKind::config,
               "default_config.yaml:2: distributed_type is \"MULTI_XPU\": only NO (one process), MULTI_CPU and "
               "MULTI_GPU are supported");
  EXPECT_ERROR(load(with("MULTI_CPU", "MULTI_GPU")), ErrorKind::config,
               "distributed_type is MULTI_GPU; set use_cpu to false, or MULTI_CPU");
  EXPECT_ERROR(load(with("mixed_precision: bf16", "mixed_precision: fp16")), ErrorKind::config,
               "CPUs compute in bf16 or f32; set bf16 or no");
  std::string gpu = with("use_cpu: true", "use_cpu: false");
  gpu.replace(gpu.find("MULTI_CPU"), 9, "NO");
  gpu.replace(gpu.find("mixed_precision: bf16"), 21, "mixed_precision: fp16");
  EXPECT_EQ(load(gpu).config.precision.dtype, DType::f16);
  EXPECT_EQ(load(gpu).config.precision.loss_scale_window, 2000);
  EXPECT_EQ(load(gpu).config.run.device, DeviceChoice::automatic);
  gpu.replace(gpu.find("distributed_type: NO"), 20, "distributed_type: MULTI_GPU");
  EXPECT_EQ(load(gpu).config.precision.dtype, DType::f16);
  EXPECT_EQ(load(gpu).config.run.device, DeviceChoice::cuda);
  EXPECT_ERROR(load(with("LOCAL_MACHINE", "AMAZON_SAGEMAKER")), ErrorKind::config, "set it to LOCAL_MACHINE");
  EXPECT_ERROR(load(std::string(kFile) + "deepspeed_config:\n  zero_stage: 2\n"), ErrorKind::config,
               "deepspeed_config.zero_stage cannot be used here");
  EXPECT_ERROR(load(with("num_machines: 3", "num_machines: 0")), ErrorKind::config, "the smallest possible value is 1");
  EXPECT_ERROR(load(with("num_machines: 3", "num_machine: 3")), ErrorKind::config, "did you mean \"num_machines\"?");
}

TEST_F(Accelerate, AllProblemsAreReportedTogether) {
  std::string text = with("LOCAL_MACHINE", "AMAZON_SAGEMAKER") + "deepspeed_config:\n  zero_stage: 2\n";
  text.replace(text.find("num_machines: 3"), 15, "num_machines: 0");
  const std::string path = folder_ / "default_config.yaml";
  EXPECT_ERROR(load(text), ErrorKind::config,
               "3 settings cannot be used here:\n  " + path +
                   ":21: deepspeed_config.zero_stage cannot be used here: DeepSpeed's engine is not supported");
  EXPECT_ERROR(load(text), ErrorKind::config, path + ":12: num_machines is 0: the smallest possible value is 1");
  EXPECT_ERROR(load(text), ErrorKind::config, "set it to LOCAL_MACHINE");
}

}  // namespace
}  // namespace trireme
