#include <fmt/core.h>
#include <gtest/gtest.h>
#include <omp.h>

#include <cstdio>
#include <string_view>

#include "base/error.h"
#include "tests/support/parallel.h"

namespace trireme {
namespace {

Process* current_process = nullptr;

/// Ranks other than 0 tell failures only.
class FailurePrinter final : public testing::EmptyTestEventListener {
  void OnTestPartResult(const testing::TestPartResult& result) override {
    if (!result.failed()) return;
    fmt::print(stderr, "[rank {}] {}:{}: {}\n", test_process().rank(), result.file_name() ? result.file_name() : "?",
               result.line_number(), result.summary());
  }
};

int run_tests(Process& process) {
  current_process = &process;
  omp_set_num_threads(1);  // ranks share the cores of one machine
  if (process.rank() != 0) {
    auto& listeners = testing::UnitTest::GetInstance()->listeners();
    delete listeners.Release(listeners.default_result_printer());
    listeners.Append(new FailurePrinter);
  }
  return RUN_ALL_TESTS();
}

}  // namespace

/// What a fault on one rank does to a job: the others wait for it.
int fail_on_last_rank(Process& process) {
  return process.run([&]() -> int {
    if (process.rank() == process.size() - 1) fail(ErrorKind::config, "the fault of rank {}", process.rank());
    process.world().barrier().wait("waiting for the rank that failed");
    return 0;
  });
}

Process& test_process() { return *current_process; }

}  // namespace trireme

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  try {
    trireme::Process process;
    if (argc == 2 && argv[1] == std::string_view("fail-on-last-rank")) return trireme::fail_on_last_rank(process);
    return process.run([&] { return trireme::run_tests(process); });
  } catch (const trireme::Error& e) {
    fmt::print(stderr, "error: {}\n", e.what());
    return trireme::exit_code(e.kind());
  }
}
