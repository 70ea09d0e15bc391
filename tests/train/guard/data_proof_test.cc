#include "train/guard/data_proof.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "comm/agreement.h"
#include "tests/support/expect_error.h"
#include "tests/support/local_ranks.h"
#include "tests/support/temporary_folder.h"

namespace trireme {
namespace {

using ::testing::HasSubstr;

/// Two files for each of three ranks.
class DataProof : public ::testing::Test {
 protected:
  DataProof() {
    for (int rank = 0; rank < kRanks; ++rank) {
      std::filesystem::create_directories(folder_ / std::to_string(rank));
      for (const char* name : {"train.bin", "val.bin"}) write_text(file(rank, name), std::string(1 << 20, 'a'));
    }
  }
  static constexpr int kRanks = 3;
  std::string file(int rank, const char* name) const { return folder_ / (std::to_string(rank) + "/" + name); }
  std::vector<DataFileFact> files(int rank) const {
    return {{file(rank, "train.bin"), 1 << 20, ""}, {file(rank, "val.bin"), 1 << 20, ""}};
  }
  void change(int rank, const char* name, size_t at) const {
    std::string text = read_text(file(rank, name));
    text[at] = 'b';
    write_text(file(rank, name), text);
  }
  /// What all ranks are told, or "".
  std::string told(int windows) const {
    std::string message;
    run_local(kRanks, [&](RankContext& rank) {
      Scalars scalars(rank.world);
      DataWindows data(files(rank.rank()), 1, kRanks);
      for (int i = 0; i < windows; ++i) data.hash_next();
      std::string own;
      try {
        data.compare(scalars, "node" + std::to_string(rank.rank()), windows);
        data.compare(scalars, "", windows);  // nothing new
      } catch (const CommonError& e) {
        EXPECT_EQ(e.kind(), ErrorKind::mismatch);
        own = e.what();
      }
      if (rank.rank() == 1) message = own;
    });
    return message;
  }

 private:
  TemporaryFolder folder_;
};

TEST_F(DataProof, DescribesSizeSidecarAndEveryByteOfASmallFile) {
  const std::string path = file(0, "train.bin");
  const std::string before = describe_file(path, "0123", {});
  EXPECT_THAT(before, ::testing::StartsWith(path + ": 1048576 bytes\n" + path + ".json: missing\n" + path +
                                            ": bytes 0 to 16384 have XXH3 "));
  EXPECT_THAT(before, HasSubstr(path + ": XXH3 of all blocks 0123\n"));
  EXPECT_EQ(std::ranges::count(before, '\n'), 2 + 64 + 1);
  for (const size_t at : {size_t{0}, size_t{16383}, size_t{500'000}, (size_t{1} << 20) - 1}) {
    change(0, "train.bin", at);
    EXPECT_NE(describe_file(path, "0123", {}), before) << at;
    write_text(path, std::string(1 << 20, 'a'));
    EXPECT_EQ(describe_file(path, "0123", {}), before);
  }
  write_text(path + ".json", "{}");
  EXPECT_NE(describe_file(path, "0123", {}), before);
}

TEST_F(DataProof, EmptyAndTinyFilesAreDescribed) {
  write_text(file(0, "train.bin"), "");
  EXPECT_EQ(std::ranges::count(describe_file(file(0, "train.bin"), "", {}), '\n'), 2);
  write_text(file(0, "train.bin"), "x");
  EXPECT_THAT(describe_file(file(0, "train.bin"), "", {}), HasSubstr("bytes 0 to 1 have"));
}

TEST_F(DataProof, AStopEndsTheReading) {
  EXPECT_ERROR(describe_file(file(0, "train.bin"), "", [] { fail(ErrorKind::stopped, "stopped"); }), ErrorKind::stopped,
               "stopped");
}

TEST_F(DataProof, WindowsFindAByteInWhicheverFileItIs) {
  EXPECT_EQ(told(500), "");
  for (const char* name : {"train.bin", "val.bin"}) {
    change(2, name, 700'001);
    EXPECT_THAT(told(500), ::testing::ContainsRegex("ranks do not read the same data after step 500: rank 2 on node2 "
                                                    "differs from the other 2 in bytes [0-9]+ to [0-9]+ of .*" +
                                                    std::string(name) + "; compare the file"));
    EXPECT_EQ(told(0), "");
    write_text(file(2, name), std::string(1 << 20, 'a'));
  }
}

TEST_F(DataProof, AloneNothingIsHashed) {
  DataWindows data({{"no such file", 1, ""}}, 1, 1);
  data.hash_next();
  const auto group = make_single();
  Scalars scalars(*group);
  EXPECT_NO_THROW(data.compare(scalars, "", 1));
}

}  // namespace
}  // namespace trireme
