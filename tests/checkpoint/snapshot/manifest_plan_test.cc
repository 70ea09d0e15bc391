#include "checkpoint/snapshot/manifest.h"

#include <filesystem>

#include "checkpoint/run_folder/run_folder.h"
#include "tests/checkpoint/small_run.h"
#include "tests/support/expect_error.h"
#include "tests/support/temporary_folder.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

TEST(ManifestPlan, KnowsTheSizeOfEveryFileOnAnyNumberOfRanks) {
  const Spec spec = small_spec();
  const ParameterTable table(spec);
  for (const bool moments : {true, false}) {
    TrainingState state(table, DType::f32, moments);
    fill(state, table, 1);
    for (const int ranks : {1, 2, 4}) {
      const TemporaryFolder folder;
      save(folder.path(), table, state, facts_of(spec, 7), ranks);
      const std::vector<Layout> layouts(static_cast<size_t>(ranks), table.layout());
      const std::vector<uint64_t> sizes =
          file_sizes(plan_manifest(table, plan_slices(table, layouts, moments), facts_of(spec, 7), moments));
      const std::string step = folder / step_name(7) + "/";
      ASSERT_EQ(sizes.size(), static_cast<size_t>(ranks) + 2);
      for (int rank = 0; rank < ranks; ++rank)
        EXPECT_EQ(sizes[static_cast<size_t>(rank)], fs::file_size(step + shard_name(rank, ranks))) << rank;
      EXPECT_EQ(sizes[static_cast<size_t>(ranks)], fs::file_size(step + "manifest.json"));
      EXPECT_EQ(sizes.back(), fs::file_size(step + "tokenizer.json"));
    }
  }
}

TEST(CheckSpace, NamesWhatIsNeededAndFoundInWholeBlocks) {
  const TemporaryFolder folder;
  const std::vector<uint64_t> files = {uint64_t{1} << 60, 1};
  EXPECT_ERROR(check_space(folder.path(), "a checkpoint in X", files), ErrorKind::io,
               "a checkpoint in X needs 1152921504606.8");
  EXPECT_ERROR(check_space(folder / "absent", "a checkpoint in X", files), ErrorKind::io,
               "cannot determine the free space");
  EXPECT_NO_THROW(check_space(folder.path(), "a checkpoint in X", std::vector<uint64_t>{1, 2, 3}));
}

}  // namespace
}  // namespace trireme
