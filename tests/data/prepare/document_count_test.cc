#include "data/prepare/text_border.h"

#include <gtest/gtest.h>

#include "base/file.h"
#include "base/rng.h"
#include "tests/support/temporary_folder.h"

namespace trireme {
namespace {

TEST(ExpectedDocuments, AreLinesThatAreNotBlankWhereverThreadsCutTheFile) {
  const TemporaryFolder folder;
  RandomStream random(5);
  std::string lines;
  uint64_t expected = 0;
  while (lines.size() < 40'000'000) {  // three parts; long blanks, so that parts begin and end in them
    const bool blank = random.below(3) == 0;
    lines.append(random.below(30'000), " \t\r"[random.below(3)]);
    if (!blank) lines.append(1 + random.below(30'000), 'x');
    lines += '\n';
    expected += !blank;
  }
  for (const char* end : {"", "  ", " x"}) {
    write_text(folder / "a.jsonl", lines + end);
    write_text(folder / "b.jsonl", "\n{}");
    write_text(folder / "c.txt", "");
    write_text(folder / "d.txt", "x");
    const std::vector<InputFile> files =
        list_inputs({folder / "a.jsonl", folder / "b.jsonl", folder / "c.txt", folder / "d.txt"});
    const uint64_t all = expected + (std::string(end) == " x") + 2;
    for (const int threads : {1, 3}) {
      EXPECT_EQ(expected_documents(files, 0, threads), all);
      EXPECT_EQ(expected_documents(files, 7, threads), 7);
    }
  }
}

TEST(ExpectedDocuments, AreNotCountedWhereReadingCostsMuch) {
  const TemporaryFolder folder;
  write_text(folder / "a.jsonl", "{}\n");
  write_text(folder / "b.jsonl.gz", "");
  EXPECT_EQ(expected_documents(list_inputs({folder / "a.jsonl", folder / "b.jsonl.gz"}), 0, 1), std::nullopt);
  EXPECT_EQ(expected_documents(list_inputs({"-"}), 0, 1), std::nullopt);
}

}  // namespace
}  // namespace trireme
