#include "data/neox_index.h"

#include <gtest/gtest.h>
#include <zlib.h>

#include <filesystem>

#include "base/file.h"
#include "data/indexed_dataset.h"
#include "data/numpy_random.h"
#include "tests/support/expect_error.h"
#include "tests/support/temporary_folder.h"

namespace trireme {
namespace {

// All expected values below are from numpy 2.4: RandomState, cumulative sums of the lengths, np.save.

constexpr int32_t kLengths[] = {35, 14, 38, 16, 9,  8,  36, 39, 27, 30, 16, 7,  12, 15, 39, 16, 27,
                                13, 11, 1,  30, 20, 22, 18, 9,  1,  18, 39, 16, 14, 5,  0,  16, 4,
                                36, 27, 31, 2,  4,  38, 19, 19, 18, 7,  36, 30, 11, 3,  1,  3};

TEST(NumpyRandomState, DrawsNumpysWords) {
  NumpyRandomState random(1234);
  for (const uint32_t expected : {822569775u, 2137449171u, 2671936806u, 3512589365u})
    EXPECT_EQ(random.next32(), expected);
  NumpyRandomState largest(UINT32_MAX);
  for (const uint32_t expected : {419326371u, 479346978u}) EXPECT_EQ(largest.next32(), expected);
  EXPECT_ERROR(NumpyRandomState(uint64_t{1} << 32), ErrorKind::usage, "numpy's RandomState supports 0 to 4294967295");
}

TEST(NumpyRandomState, ShufflesAsNumpyDoes) {
  std::vector<int64_t> values(100000);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<int64_t>(i);
  NumpyRandomState(7).shuffle(std::span(values));
  EXPECT_EQ(std::vector<int64_t>(values.begin(), values.begin() + 8),
            (std::vector<int64_t>{33909, 92307, 89107, 9538, 31008, 71305, 71012, 62938}));
  int64_t sum = 0;
  for (size_t i = 0; i < values.size(); ++i) sum += static_cast<int64_t>(i) * values[i];
  EXPECT_EQ(sum, 250316905599413);
}

class NeoxFiles : public testing::Test {
 protected:
  /// CRC-32 of the three files.
  std::vector<uLong> crcs(const std::string& stem) const {
    std::vector<uLong> out;
    for (const char* name : {"_doc_idx.npy", "_sample_idx.npy", "_shuffle_idx.npy"}) {
      const std::string bytes = read_text(stem + name);
      out.push_back(crc32(0, reinterpret_cast<const Bytef*>(bytes.data()), static_cast<uInt>(bytes.size())));
    }
    return out;
  }
  TemporaryFolder folder_;
};

TEST_F(NeoxFiles, AreNeoxsByteForByte) {
  const NeoxOrder train{.name = "train", .samples = 200, .sequence = 16, .seed = 1234};
  const std::string stem = neox_index_stem("/data/x_text_document", folder_.path(), train);
  EXPECT_EQ(stem, folder_ / "x_text_document_train_indexmap_200ns_16sl_1234s_packedpi_ac");
  EXPECT_EQ(neox_index_stem("a/x", "", train), "a/x_train_indexmap_200ns_16sl_1234s_packedpi_ac");
  EXPECT_FALSE(has_neox_index(stem));
  build_neox_index(stem, kLengths, 0, std::size(kLengths), train);  // four epochs
  EXPECT_TRUE(has_neox_index(stem));
  EXPECT_EQ(crcs(stem), (std::vector<uLong>{0x14f92e95, 0x3375ddfc, 0x5db3de43}));

  const NeoxOrder valid{.name = "valid", .samples = 10, .sequence = 7, .seed = 99};
  const std::string part = neox_index_stem("x", folder_.path(), valid);
  build_neox_index(part, kLengths, 40, 50, valid);
  EXPECT_EQ(crcs(part), (std::vector<uLong>{0x20510ec6, 0x8fd57ac6, 0xfc4de890}));
}

TEST_F(NeoxFiles, SayWhereASampleBegins) {
  const NeoxOrder order{.name = "train", .samples = 200, .sequence = 16, .seed = 1234};
  build_neox_index(folder_ / "x", kLengths, 0, std::size(kLengths), order);
  const NeoxIndex index(folder_ / "x");
  EXPECT_EQ(index.samples(), 226u);
  EXPECT_EQ(index.places(), 200u);
  EXPECT_EQ(index.document(0), 47u);
  EXPECT_EQ(index.document(1), 7u);
  // The first drawn sample is number 211, the fourth 215, the second 7.
  EXPECT_EQ(index.begin(223).place < index.places(), true);
  uint64_t ids = 0;  // before place k of doc, each sample begins 16 ids after the one before it
  std::vector<uint64_t> before;
  for (uint64_t k = 0; k < index.places(); ++k) {
    before.push_back(ids);
    ids += static_cast<uint64_t>(kLengths[index.document(k)]);
  }
  EXPECT_EQ(before[index.begin(0).place] + index.begin(0).offset, 211u * 16);
  EXPECT_EQ(before[index.begin(1).place] + index.begin(1).offset, 7u * 16);
}

TEST_F(NeoxFiles, AreRefusedWhenTheyDoNotFit) {
  const NeoxOrder order{.name = "train", .samples = 20, .sequence = 16, .seed = 1};
  EXPECT_ERROR(build_neox_index(folder_ / "x", kLengths, 31, 32, order), ErrorKind::data,
               "the part \"train\" has no ids in its 1 document");
  build_neox_index(folder_ / "x", kLengths, 0, 50, order);
  write_npy(folder_ / "x_shuffle_idx.npy", std::span<const int32_t>(kLengths));
  EXPECT_ERROR(NeoxIndex(folder_ / "x"), ErrorKind::data, "do not match");
  write_text(folder_ / "x_doc_idx.npy", "PK");
  EXPECT_ERROR(NeoxIndex(folder_ / "x"), ErrorKind::data, "is not a .npy file");
  std::filesystem::remove(folder_ / "x_doc_idx.npy");
  EXPECT_ERROR(NeoxIndex(folder_ / "x"), ErrorKind::io, "cannot open");
}

TEST(Npy, RefusesWhatIsCutOrOfAnotherType) {
  const TemporaryFolder folder;
  const std::string path = folder / "a.npy";
  write_npy(path, std::vector<int64_t>{1, -2, 3, 4}, 2);
  const NpyArray array(path);
  EXPECT_EQ(array.shape(), (std::vector<uint64_t>{2, 2}));
  EXPECT_EQ(array.at(1), -2);
  const std::string good = read_text(path);
  for (size_t size = 0; size < good.size(); ++size) {
    write_text(path, good.substr(0, size));
    EXPECT_THROW(NpyArray{path}, Error) << size;
  }
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string bad = good;
    bad.replace(bad.find(from), from.size(), to);
    write_text(path, bad);
  };
  with("<i8", "<f8");
  EXPECT_ERROR(NpyArray{path}, ErrorKind::data, "unsupported elements '<f8'");
  with("False", "True ");
  EXPECT_ERROR(NpyArray{path}, ErrorKind::data, "Fortran order");
  with("(2, 2)", "(2,-2)");
  EXPECT_ERROR(NpyArray{path}, ErrorKind::data, "expected a number");
}

TEST(PartBorders, AreMegatrons) {
  EXPECT_EQ(part_borders("969, 30, 1", 1000), (PartBorders{0, 969, 999, 1000}));
  EXPECT_EQ(part_borders("969,30,1", 37), (PartBorders{0, 36, 37, 37}));
  EXPECT_EQ(part_borders("1,1,1", 2), (PartBorders{0, 0, 1, 2}));
  EXPECT_EQ(part_borders("0.5/0.5", 5), (PartBorders{0, 3, 5, 5}));
  EXPECT_EQ(part_borders("80", 9), (PartBorders{0, 9, 9, 9}));
  EXPECT_EQ(part_borders("949,50,1", 8009762), (PartBorders{0, 7601264, 8001752, 8009762}));
}

TEST(PartBorders, RefusesInvalidSplits) {
  EXPECT_ERROR(part_borders("969,x,1", 9), ErrorKind::usage,
               "\"x\" is not a number >= 0; write shares like \"969, 30, 1\"");
  EXPECT_ERROR(part_borders("1,-1", 9), ErrorKind::usage, "\"-1\" is not a number >= 0");
  EXPECT_ERROR(part_borders("1,2,3,4", 9), ErrorKind::usage, "more than the three shares");
  EXPECT_ERROR(part_borders("0,0,0", 9), ErrorKind::usage, "gives every part a share");
  EXPECT_ERROR(part_borders("", 9), ErrorKind::usage, "\"\" is not a number");
}

}  // namespace
}  // namespace trireme
