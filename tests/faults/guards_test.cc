// Ranks that do not have the same files: other data or another run folder on one of them. Ranks work in separate
// folders with relative paths, as hosts whose files differ under one path.

#include <fstream>

#include "base/hash.h"
#include "base/host.h"
#include "checkpoint/run_folder/run_folder.h"
#include "data/sidecar.h"
#include "tests/faults/fault_fixture.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;

class Guards : public FaultFixture {
 protected:
  void SetUp() override {
    if (!has_mpi()) GTEST_SKIP() << "mpirun is missing";
    for (int rank = 0; rank < kRanks; ++rank) {
      fs::create_directories(place(rank, "d"));
      for (const char* name : {"train.bin", "val.bin"}) fs::copy_file(path(name), place(rank, "d/") + name);
    }
  }
  static constexpr int kRanks = 3;
  /// A file as that rank sees it.
  std::string place(int rank, const std::string& name) const {
    return path("host") + std::to_string(rank) + "/" + name;
  }

  /// Every rank in its folder, with its data in d.
  std::vector<std::string> command(const std::vector<std::string>& flags) const {
    std::string words;
    for (const std::string& word : flags) words += " " + word;
    return {mpirun_path(),
            "-n",
            std::to_string(kRanks),
            "sh",
            "-c",
            "cd " + path("host") + "${OMPI_COMM_WORLD_RANK:-$PMI_RANK} && exec " + trireme_path() + words};
  }
  std::vector<std::string> train_command(const std::vector<std::string>& flags = {}) const {
    std::vector<std::string> words = train("run", {"--data.dir", "d"});
    words.insert(words.end(), flags.begin(), flags.end());
    return command(words);
  }
  void change(const std::string& file, size_t at, size_t bytes) const {
    std::fstream stream(file, std::ios::in | std::ios::out | std::ios::binary);
    stream.seekp(static_cast<std::streamoff>(at))
        .write(std::string(bytes, '\1').data(), static_cast<std::streamsize>(bytes));
  }
  /// Another id of the vocabulary.
  static void change_token(const std::string& file, size_t token) {
    std::string bytes = read_text(file);
    bytes[2 * token] = static_cast<char>((bytes[2 * token] + 1) % 31);
    write_text(file, bytes);
  }
  static std::string rank_on_host(int rank) { return "rank " + std::to_string(rank) + " on " + host_name(); }
  void expect_refused(const Outcome& outcome, const std::string& message) const {
    EXPECT_EQ(outcome.code, 2) << outcome.output;
    EXPECT_EQ(count_of(outcome.output, "error: "), 1) << outcome.output;
    EXPECT_THAT(outcome.output, HasSubstr(message));
    EXPECT_THAT(outcome.output, ::testing::Not(HasSubstr(" | loss "))) << "before the first step";
  }
};

TEST_F(Guards, OtherDataOnOneRankIsNamedBeforeTheFirstStep) {
  for (const std::string file : {"train.bin", "val.bin"}) {
    SCOPED_TRACE(file);
    change_token(place(1, "d/" + file), 1500);
    expect_refused(run(train_command()), "ranks do not read the same data: " + rank_on_host(1) +
                                             " differs from the other 2; rank 0 has \"d/" + file + ": bytes ");
    expect_refused(run(train_command({"--data.verify"})), ": bytes ");
    fs::resize_file(place(1, "d/" + file), 2000);
    expect_refused(run(train_command()), "d/" + file + ": 2000 bytes\"; copy the data to that host again");
    fs::copy_file(path(file), place(1, "d/" + file), fs::copy_options::overwrite_existing);
  }
  TokenSidecar sidecar;
  sidecar.tokens = 20000;
  sidecar.documents = 1;
  sidecar.vocabulary = 31;
  const std::string bytes = read_text(path("train.bin"));
  sidecar.block_hashes = {xxh3(std::as_bytes(std::span(bytes)))};
  write_sidecar(place(2, "d/train.bin"), sidecar);
  expect_refused(run(train_command()),
                 rank_on_host(2) + " differs from the other 2; rank 0 has \"d/train.bin.json: missing\"");
  fs::remove(place(2, "d/train.bin.json"));
  const Outcome same = run(train_command());
  EXPECT_EQ(same.code, 0) << same.output;
}

TEST_F(Guards, ABlockThatTheStartDoesNotReadIsFoundByTheWindows) {
  // 80 MiB with a sidecar that all have: a start reads 16 of its 20 blocks, and 64 samples. What differs on rank 1 is
  // in block 4, between two of these.
  const size_t bytes = size_t{80} << 20, first = 17'400'000, last = 18'600'000;
  BlockHasher hasher;
  const std::vector<std::byte> zeros(bytes);
  hasher.append(zeros);
  TokenSidecar sidecar;
  sidecar.tokens = bytes / 2;
  sidecar.documents = 1;
  sidecar.vocabulary = 31;
  sidecar.block_hashes = hasher.finish();
  for (int rank = 0; rank < kRanks; ++rank) {
    fs::resize_file(place(rank, "d/train.bin"), 0);
    fs::resize_file(place(rank, "d/train.bin"), bytes);
    write_sidecar(place(rank, "d/train.bin"), sidecar);
  }
  std::fstream stream(place(1, "d/train.bin"), std::ios::in | std::ios::out | std::ios::binary);
  stream.seekp(first);
  for (size_t at = first; at < last; at += 2) stream.write("\1\0", 2);
  stream.close();
  const Outcome outcome =
      run(train_command({"--run.steps", "100000", "--run.hash-every", "20", "--log.every", "1000"}));
  EXPECT_EQ(outcome.code, 2) << outcome.output;
  EXPECT_EQ(count_of(outcome.output, "error: "), 1) << outcome.output;
  EXPECT_THAT(outcome.output, ContainsRegex("ranks do not read the same data after step [0-9]+: " + rank_on_host(1) +
                                            " differs from the other 2 in bytes 1[78][0-9]{6} to 1[78][0-9]{6} of "
                                            "d/train.bin; compare the file with that of the other hosts"));
}

TEST_F(Guards, DataThatIsChangedOnOneRankDuringTheRunIsFoundByTheWindows) {
  Program program(train_command({"--run.steps", "1000000", "--run.hash-every", "10", "--log.every", "10"}));
  ASSERT_TRUE(wait_for_text(program, "step      20/"));
  change(place(2, "d/train.bin"), 1000, 1);
  const Outcome outcome = program.finish();
  EXPECT_EQ(outcome.code, 2) << outcome.output;
  EXPECT_THAT(outcome.output, ContainsRegex("ranks do not read the same data after step [0-9]+: " + rank_on_host(2) +
                                            " differs from the other 2 in bytes 0 to 40000 of d/train.bin"));
}

TEST_F(Guards, ARunFolderThatIsNotSharedIsRefusedBeforeTheFirstStep) {
  std::vector<std::string> words = train("run", {"--run.steps", "300"});
  words[3] = "r";
  // Rank 0 makes its own; rank 1 has another one, rank 2 none.
  fs::create_directories(place(1, "r"));
  expect_refused(run(command(words)),
                 "the run folder is not the same on every host: " + rank_on_host(1) + ", " + rank_on_host(2) +
                     " do not see in " + place(1, "r") + " what rank 0 on " + host_name() +
                     " wrote there, so snapshots would be incomplete; put it on a file system that all hosts share and "
                     "name it with --run.dir");
  EXPECT_EQ(read_status(place(0, "r")).state, RunState::failed);
  EXPECT_TRUE(fs::is_empty(place(1, "r")));
  EXPECT_FALSE(fs::exists(place(2, "r")));
  for (int rank = 1; rank < kRanks; ++rank) {
    fs::remove(place(rank, "r"));
    fs::create_directory_symlink(place(0, "r"), place(rank, "r"));
  }
  words[5] = "3";
  const Outcome shared = run(command(words));
  EXPECT_EQ(shared.code, 0) << shared.output;
  for (const auto& item : fs::directory_iterator(place(0, "r")))
    EXPECT_THAT(item.path().filename().string(), ::testing::Not(::testing::StartsWith(".")));
}

TEST_F(Guards, AJobThatIsTakenOverDuringASaveLeavesTheFolderToTheNewOne) {
  write_text(path("hold"), "");
  Program old(mpirun_command(2, train("run", {"--run.steps", "1000000", "--checkpoint.every", "8"})),
              fault("fsync", "/rank-00001-of-", 0,
                    {"FAULT_WHILE=" + path("hold"), "FAULT_SEEN=" + path("seen"), "FAULT_TIMES=1"}));
  ASSERT_TRUE(wait_for_file(old, path("seen")));
  const Outcome taken = run(trireme_command(train("run", {"--run.take-over", "--checkpoint.every", "8"})));
  ASSERT_EQ(taken.code, 0) << taken.output;
  fs::remove(path("hold"));
  const Outcome stale = old.finish();
  EXPECT_EQ(stale.code, 1) << stale.output;
  EXPECT_EQ(count_of(stale.output, "error: "), 1) << stale.output;
  EXPECT_THAT(stale.output,
              HasSubstr("no longer belongs to this process: another process has taken over the run folder"));
  EXPECT_EQ(read_status(path("run")).state, RunState::done) << "the old job says nothing about the new one's run";
  EXPECT_THAT(list_steps(path("run")), ::testing::Contains(20));
  for (const int64_t step : list_steps(path("run"))) {
    const std::string folder = path("run/step-") + fmt::format("{:08}", step);
    EXPECT_THAT(verify_checkpoint(folder), ::testing::IsEmpty());
    EXPECT_FALSE(fs::exists(folder + "/rank-00001-of-00002.safetensors")) << folder;
  }
}

}  // namespace
}  // namespace trireme
