#pragma once
// The program as a user runs it on a GPU, which is the executor (executor_library.cc).

#include <gmock/gmock.h>

#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/host.h"
#include "tests/runs/training_fixture.h"

namespace trireme {

/// A variable that the executor reads, until the test ends.
class Variable {
 public:
  Variable(const char* name, const std::string& value) : name_(name) { setenv(name, value.c_str(), 1); }
  ~Variable() { unsetenv(name_); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  const char* name_;
};

/// A copy of the program beside which the library lies.
class ProgramOnGpu {
 public:
  ProgramOnGpu() {
    namespace fs = std::filesystem;
    const std::string tests = program_path().substr(0, program_path().rfind('/') + 1);
    fs::copy_file(trireme_path(), program_);
    fs::copy_file(tests + "libexecutor_gpu.so", folder_ / "libtrireme_cuda.so");
  }
  Outcome operator()(std::vector<std::string> words, const std::vector<std::string>& environment = {}) const {
    words.insert(words.begin(), program_);
    return run(words, environment);
  }
  /// Of the environment: a library in place of the driver's (tests/runs/fake_nvml.cc).
  static std::string with_nvml() {
    const char* const before = environment_variable("LD_LIBRARY_PATH");
    const std::string build = std::filesystem::path(trireme_path()).parent_path();
    return fmt::format("LD_LIBRARY_PATH={}/tests/fake_nvml:{}", build, before == nullptr ? "" : before);
  }
  /// With these variables, NAME=VALUE.
  Outcome with(const std::vector<std::string>& variables, std::vector<std::string> words) const {
    words.insert(words.begin(), program_);
    return run(words, variables);
  }
  /// mpirun starts `ranks` of it.
  Outcome on_ranks(int ranks, std::vector<std::string> words) const { return run(words_on_ranks(ranks, words)); }
  std::vector<std::string> words_on_ranks(int ranks, std::vector<std::string> words) const {
    words.insert(words.begin(), {mpirun_path(), "-n", std::to_string(ranks), program_});
    return words;
  }
  /// The same with variables that mpirun itself does not see.
  Outcome on_ranks(int ranks, const std::vector<std::string>& variables, std::vector<std::string> words) const {
    words.insert(words.begin(), program_);
    words.insert(words.begin(), variables.begin(), variables.end());
    words.insert(words.begin(), {mpirun_path(), "-n", std::to_string(ranks), "env"});
    return run(words);
  }
  /// Process id of that rank of the job that runs; not that of its guard, which is its child.
  pid_t pid_of_rank(int rank) const {
    namespace fs = std::filesystem;
    const auto runs_program = [&](const fs::path& process) {
      std::error_code gone;
      return fs::read_symlink(process / "exe", gone) == program_;
    };
    for (const fs::path& process : fs::directory_iterator("/proc")) {
      if (!runs_program(process)) continue;
      const std::string stat = read_text(process / "stat");
      if (runs_program(fs::path("/proc") / std::to_string(std::atoi(stat.c_str() + stat.rfind(')') + 4)))) continue;
      const std::string environment = '\0' + read_text(process / "environ");
      for (const char* name : {"OMPI_COMM_WORLD_RANK=", "PMI_RANK="})
        if (environment.find('\0' + (name + std::to_string(rank)) + '\0') != std::string::npos)
          return std::atoi(process.filename().c_str());
    }
    throw std::runtime_error(fmt::format("rank {} is not there", rank));
  }

 private:
  TemporaryFolder folder_;
  std::string program_ = folder_ / "trireme";
};

inline Outcome done(Outcome outcome) {
  EXPECT_EQ(outcome.code, 0) << outcome.output;
  return outcome;
}

class GpuProgram : public TrainingFixture {
 protected:
  /// Few steps, without a measurement of the peak rate, which takes minutes on the executor.
  std::vector<std::string> few(const std::string& name, std::vector<std::string> more = {}) const {
    more.insert(more.begin(),
                {"--batch.global", "4", "--run.steps", "8", "--model.context", "8", "--log.peak-tflops", "1"});
    return train(name, more);
  }
  void expect_losses(const std::string& name, const std::string& other, double tolerance) const {
    const auto got = losses(name), want = losses(other);
    ASSERT_EQ(got.size(), want.size());
    ASSERT_FALSE(want.empty());
    for (const auto& [step, loss] : want) EXPECT_NEAR(got.at(step), loss, tolerance * loss) << name << " step " << step;
  }
  ProgramOnGpu gpu_;
};

}  // namespace trireme
