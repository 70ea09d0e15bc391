#include "data/numpy_random.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "data/prepare/prepare.h"

namespace trireme {
namespace {

// All expected values below are from numpy 2.4.

TEST(NumpyGenerator, DrawsNumpysWords) {
  NumpyGenerator generator(2357);
  for (const uint64_t expected : {0x31527a4eed7596d1u, 0xf02a6a7753dd9e64u, 0x5f8626a258ee4f82u, 0x403f0a3261a24e16u})
    EXPECT_EQ(generator.next64(), expected);
  NumpyGenerator large(0x123456789abcdef0);
  for (const uint64_t expected : {0x34455331ba6e7cbeu, 0x5f9d240f0ffe035du, 0x80554d3d68b36e2bu})
    EXPECT_EQ(large.next64(), expected);
}

TEST(NumpyGenerator, PermutesAsNumpyDoes) {
  EXPECT_EQ(NumpyGenerator(2357).permutation(20),
            (std::vector<uint64_t>{10, 12, 18, 3, 11, 13, 9, 19, 7, 5, 8, 0, 1, 15, 6, 16, 2, 4, 14, 17}));
  const std::vector<uint64_t> large = NumpyGenerator(2357).permutation(100000);
  EXPECT_EQ(std::vector<uint64_t>(large.begin(), large.begin() + 8),
            (std::vector<uint64_t>{64992, 82030, 32930, 41310, 90065, 23950, 64966, 10037}));
  uint64_t sum = 0;
  for (uint64_t i = 0; i < large.size(); ++i) sum += i * large[i];
  EXPECT_EQ(sum, 249975871804549u);
}

TEST(SplitDocuments, PutsTheFirstOfThePermutationIntoVal) {
  SplitRule rule;
  rule.val_fraction = 0.1;
  const DocumentSplit input = split_documents(20, rule);
  EXPECT_EQ(input.val, (std::vector<uint64_t>{10, 12}));
  EXPECT_EQ(input.train, (std::vector<uint64_t>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 13, 14, 15, 16, 17, 18, 19}));
  rule.order = DocumentOrder::openwebtext;
  rule.val_fraction = 0.0005;
  const DocumentSplit permuted = split_documents(20, rule);
  EXPECT_EQ(permuted.val, std::vector<uint64_t>{10});
  EXPECT_EQ(permuted.train, (std::vector<uint64_t>{12, 18, 3, 11, 13, 9, 19, 7, 5, 8, 0, 1, 15, 6, 16, 2, 4, 14, 17}));
}

TEST(SplitDocuments, GivesOpenWebTextsPublishedCounts) {
  const DocumentSplit split = split_documents(8013769, {});
  EXPECT_EQ(split.train.size(), 8009762u);
  EXPECT_EQ(split.val.size(), 4007u);
}

TEST(SplitDocuments, KeepsTrainNonEmpty) {
  try {
    split_documents(1, {});
    FAIL();
  } catch (const Error& e) {
    EXPECT_STREQ(e.what(),
                 "--val-fraction 0.0005 of 1 document leaves none for training; give more documents or "
                 "--val-fraction 0");
  }
  SplitRule all;
  all.val_fraction = 0;
  EXPECT_EQ(split_documents(1, all).train.size(), 1u);
  EXPECT_TRUE(split_documents(1, all).val.empty());
}

}  // namespace
}  // namespace trireme
