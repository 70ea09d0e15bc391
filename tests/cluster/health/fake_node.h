#pragma once
// A node made of files in a temporary folder and programs that answer from a table.

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "cluster/health/check.h"
#include "cluster/health/nhc_config.h"

namespace trireme::health {

class FakeNode {
 public:
  FakeNode() {
    static int count = 0;
    root_ = testing::TempDir() + "fake_node_" + std::to_string(getpid()) + "_" + std::to_string(count++);
    std::filesystem::create_directories(root_);
    machine.root = root_;
    machine.host = "n1";
    machine.nvml_library = root_ + "/no-libnvidia-ml.so.1";  // the checks ask nvidia-smi
    machine.space = [this](const std::string&) { return space; };
    machine.processes = [this] { return processes; };
    machine.run = [this](const ProcessRequest& request) {
      const std::string line = shell_join(request.arguments);
      commands.push_back(line);
      if (on_command) on_command(line);
      const auto found = answers.find(line);
      if (found == answers.end()) return ProcessResult{127, false, "", "", 0};
      return found->second;
    };
  }
  ~FakeNode() { std::filesystem::remove_all(root_); }
  FakeNode(const FakeNode&) = delete;
  FakeNode& operator=(const FakeNode&) = delete;

  void file(const std::string& path, const std::string& text) {
    std::filesystem::create_directories(std::filesystem::path(root_ + path).parent_path());
    std::ofstream(root_ + path) << text;
  }
  void answer(const std::string& line, const std::string& out, int code = 0) {
    answers[line] = ProcessResult{code, false, out, "", 0};
  }
  /// "" for a pass, "remark: ..." for a pass with a remark, else the reason of the failure.
  std::string run(const std::string& line) {
    const Plan plan = make_plan(parse_nhc_config("* || " + line + "\n"), machine.host, {});
    if (plan.steps.at(0).kind != StepKind::native) return "not native: " + plan.steps[0].problem;
    const Outcome outcome = plan.steps.at(0).check(machine);
    if (outcome.kind == Outcome::Kind::fail) return outcome.text;
    return outcome.text.empty() ? "" : "remark: " + outcome.text;
  }

  Machine machine;
  std::optional<Space> space;
  std::vector<ProcessEntry> processes;
  std::map<std::string, ProcessResult> answers;
  std::vector<std::string> commands;
  std::function<void(const std::string&)> on_command;

 private:
  std::string root_;
};

}  // namespace trireme::health
