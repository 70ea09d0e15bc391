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
  LoadedConfig load(std::string text, const std::vector<std::string>& flags = {}) {
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
  EXPECT_THAT(loaded.notes, Contains(HasSubstr("ipex_config.ipex has no effect here: there is no torch here")));
  EXPECT_THAT(loaded.notes, Contains(HasSubstr("num_processes is taken by `trireme launch --config-file`")));
  EXPECT_EQ(load(kFile, {"--precision.dtype", "f32"}).config.precision.dtype, DType::f32);
  EXPECT_EQ(load(with("mixed_precision: bf16", "mixed_precision: 'no'")).config.precision.dtype, DType::f32);
}

TEST_F(Accelerate, WhatCannotBeHadIsRefusedWithItsLine) {
  EXPECT_ERROR(load(with("MULTI_CPU", "MULTI_GPU")), ErrorKind::config,
               "default_config.yaml:2: distributed_type is \"MULTI_GPU\": this build trains on CPUs");
  EXPECT_ERROR(load(with("mixed_precision: bf16", "mixed_precision: fp16")), ErrorKind::config,
               "CPUs compute in bf16 or f32; set bf16 or no");
  EXPECT_ERROR(load(with("LOCAL_MACHINE", "AMAZON_SAGEMAKER")), ErrorKind::config, "set it to LOCAL_MACHINE");
  EXPECT_ERROR(load(std::string(kFile) + "deepspeed_config:\n  zero_stage: 2\n"), ErrorKind::config,
               "deepspeed_config.zero_stage cannot be used here");
  EXPECT_ERROR(load(with("num_machines: 3", "num_machines: 0")), ErrorKind::config, "the smallest possible value is 1");
  EXPECT_ERROR(load(with("num_machines: 3", "num_machine: 3")), ErrorKind::config, "did you mean \"num_machines\"?");
}

}  // namespace
}  // namespace trireme
