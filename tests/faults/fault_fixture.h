#pragma once
// Runs whose ranks can be found, whose exit codes are kept rank by rank, and whose system calls fail as a test
// requests.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <stdexcept>

#include "base/error.h"
#include "checkpoint/checkpoint_folder.h"
#include "checkpoint/run_folder/run_status.h"
#include "tests/runs/training_fixture.h"

namespace trireme {

class FaultFixture : public TrainingFixture {
 protected:
  static bool has_mpi() { return !mpirun_path().empty(); }

  /// Ranks under mpirun, each in a shell that writes its exit code to RUN.code.RANK and stays until `awaited` ranks
  /// (0: all) have left: mpirun kills whatever is left 2 s after the first shell has ended, which on a busy machine is
  /// too early for the other ranks.
  std::vector<std::string> ranks_command(int ranks, const std::string& run, const std::vector<std::string>& flags = {},
                                         int awaited = 0) const {
    const std::string codes = "'" + path(run) + ".code.'";
    const std::string script = fmt::format(
        "trap : TERM; '{}' \"$@\"; code=$?; echo $code >{}${{OMPI_COMM_WORLD_RANK:-$PMI_RANK}}; waits=0; "
        "while [ $(ls {}* | wc -l) -lt {} ] && [ $waits -lt 600 ]; do sleep 0.1; waits=$((waits + 1)); "
        "done; exit $code",
        trireme_path(), codes, codes, awaited > 0 ? awaited : ranks);
    std::vector<std::string> words = {mpirun_path(), "-n", std::to_string(ranks), "sh", "-c", script, "trireme"};
    const auto arguments = train(run, flags);
    words.insert(words.end(), arguments.begin(), arguments.end());
    return words;
  }
  /// -1: that rank's shell was ended before it could write.
  int code_of(const std::string& run, int rank) const {
    const std::string file = path(run) + ".code." + std::to_string(rank);
    return std::filesystem::exists(file) ? std::atoi(read_text(file).c_str()) : -1;
  }

  /// Process id of the program as that rank, under `mpirun`; never that of its guard, which has its environment and,
  /// where the kernel's ids began anew in between, the smaller id. Throws if it is missing: a signal to -1 goes to
  /// every process of the machine.
  static pid_t pid_of_rank(const Program& mpirun, int rank) {
    for (const auto& item : std::filesystem::directory_iterator("/proc")) {
      const pid_t pid = std::atoi(item.path().filename().c_str());
      if (pid == 0 || !is_below(pid, mpirun.pid()) || !runs_program(pid) || runs_program(parent_of(pid))) continue;
      const std::string environment = '\0' + read_text(item.path() / "environ");
      for (const char* name : {"OMPI_COMM_WORLD_RANK=", "PMI_RANK="}) {
        if (environment.find('\0' + (name + std::to_string(rank)) + '\0') != std::string::npos) return pid;
      }
    }
    throw std::runtime_error(fmt::format("rank {} is not there", rank));
  }

  static bool wait_for_text(Program& program, const std::string& text) {
    const bool found = program.wait_for([&](const std::string& out) { return out.find(text) != std::string::npos; });
    EXPECT_TRUE(found) << "no \"" << text << "\" in\n" << program.output();
    return found;
  }
  static bool wait_for_file(Program& program, const std::string& file) {
    const bool found = program.wait_for([&](const std::string&) { return std::filesystem::exists(file); });
    EXPECT_TRUE(found) << "no " << file << "\n" << program.output();
    return found;
  }

  /// The environment of a program in which `call` about `match` fails (fault_shim.cc).
  static std::vector<std::string> fault(const std::string& call, const std::string& match, int error,
                                        const std::vector<std::string>& more = {}) {
    std::vector<std::string> environment = {"LD_PRELOAD=" + shim_path(), "FAULT_CALL=" + call, "FAULT_MATCH=" + match,
                                            "FAULT_ERRNO=" + std::to_string(error)};
    environment.insert(environment.end(), more.begin(), more.end());
    const char* sanitizer = std::getenv("ASAN_OPTIONS");  // which wants to be the first library otherwise
    environment.push_back(fmt::format("ASAN_OPTIONS={}:verify_asan_link_order=0", sanitizer ? sanitizer : ""));
    return environment;
  }

  /// One more snapshot of the run, in which every value of a parameter is this one.
  void poison(const std::string& run, const std::string& name, float value) const {
    const CheckpointFolder good = open_checkpoint(path(run));
    const ParameterTable table(good.facts.spec);
    TrainingState state(table, DType::f32, true);
    load_checkpoint(good, table, state);
    const Parameter& parameter = table.find(name);
    state.write_master(parameter, std::vector<float>(static_cast<size_t>(parameter.stored_shape.count()), value));
    const auto group = make_single();
    CheckpointWriter writer(path(run), table, state, *group);
    CheckpointFacts facts = good.facts;
    ++facts.progress.step;
    facts.progress.samples += 12;
    writer.begin(facts);
    writer.publish(0);
  }

  /// Names in the run folder that begin with a point: a save's or deletion's leftovers.
  std::vector<std::string> leftovers(const std::string& run) const {
    std::vector<std::string> names;
    for (const auto& item : std::filesystem::directory_iterator(path(run))) {
      const std::string name = item.path().filename();
      if (name.starts_with('.')) names.push_back(name);
    }
    return names;
  }

  static int count_of(const std::string& text, const std::string& part) {
    int count = 0;
    for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
    return count;
  }

 private:
  /// It is beside this test.
  static std::string shim_path() {
    return std::filesystem::read_symlink("/proc/self/exe").parent_path() / TRIREME_FAULT_SHIM;
  }
  static bool runs_program(pid_t pid) {
    std::error_code gone;
    const auto program = std::filesystem::read_symlink("/proc/" + std::to_string(pid) + "/exe", gone);
    return !gone && program == trireme_path();
  }
  /// 0: it ended just now.
  static pid_t parent_of(pid_t pid) {
    std::error_code gone;
    const std::string stat = "/proc/" + std::to_string(pid) + "/stat";
    if (!std::filesystem::exists(stat, gone)) return 0;
    try {
      const std::string text = read_text(stat);
      return std::atoi(text.c_str() + text.rfind(')') + 4);
    } catch (const Error&) {
      return 0;
    }
  }
  static bool is_below(pid_t pid, pid_t ancestor) {
    while (pid > 1 && pid != ancestor) pid = parent_of(pid);
    return pid == ancestor;
  }
};

}  // namespace trireme
