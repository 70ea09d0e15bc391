#include "cuda/product_choices.h"

#include <gmock/gmock.h>

#include "base/file.h"
#include "tests/support/expect_error.h"
#include "tests/support/temporary_folder.h"

namespace trireme {
namespace {

constexpr ProductKey kProduct{64, 768, 2304, 768, 0, 1, 14, 14, 1, int64_t{256} << 32 | 256, 256, 0};
constexpr ProductAlgorithm kAlgorithm{67, 1, ~uint64_t{0}, 4, 0, 6, 7, 8};

class ProductFile : public testing::Test {
 protected:
  const ProductAlgorithm* found(const std::string& gpu, int64_t library) {
    read.emplace_back(path, gpu, library);
    return read.back().find(kProduct);
  }
  TemporaryFolder folder;
  std::string path = folder.path() + "/gpu-products.jsonl";
  std::vector<ProductChoices> read;
};

TEST_F(ProductFile, GivesBackWhatItWasGiven) {
  ProductChoices choices(path, "NVIDIA H100", 130100);
  EXPECT_EQ(choices.find(kProduct), nullptr);
  choices.add(kProduct, kAlgorithm);
  ProductKey other = kProduct;
  other[0] = 128;
  choices.add(other, {1});
  ASSERT_NE(found("NVIDIA H100", 130100), nullptr);
  EXPECT_EQ(*read.back().find(kProduct), kAlgorithm);
  EXPECT_EQ(*read.back().find(other), ProductAlgorithm{1});
}

TEST_F(ProductFile, OfAnotherGpuOrLibraryIsNotUsedAndKept) {
  ProductChoices(path, "NVIDIA H100", 130100).add(kProduct, kAlgorithm);
  EXPECT_EQ(found("NVIDIA A100", 130100), nullptr);
  EXPECT_EQ(found("NVIDIA H100", 120900), nullptr);
  read.back().add(kProduct, {5});
  EXPECT_EQ(*found("NVIDIA H100", 130100), kAlgorithm);
  EXPECT_EQ(*found("NVIDIA H100", 120900), ProductAlgorithm{5});
}

TEST_F(ProductFile, MalformedLinesAreNamed) {
  ProductChoices(path, "NVIDIA H100", 130100).add(kProduct, kAlgorithm);
  const std::string good = read_text(path);
  const auto refuses = [&](const std::string& line, const std::string& reason) {
    write_text(path, good + line + "\n");
    EXPECT_ERROR(found("NVIDIA H100", 130100), ErrorKind::data, path + ": line 2 cannot be read: ");
    EXPECT_ERROR(found("NVIDIA H100", 130100), ErrorKind::data, reason);
    EXPECT_ERROR(found("NVIDIA H100", 130100), ErrorKind::data, "; delete the file, then products are timed again");
  };
  refuses("", "the line");
  refuses(good.substr(0, good.size() / 2), "the line");
  refuses(R"({"gpu": "x", "library": 1, "product": [1, 2], "algorithm": [0, 0, 0, 0, 0, 0, 0, 0]})",
          "\"product\" is not an array of 12 numbers");
  refuses(
      R"({"gpu": "x", "library": 1, "product": [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0], "algorithm": [0, 0, 0.5, 0, 0, 0, 0, 0]})",
      "value 2 of \"algorithm\" is not an integer");
  refuses(R"({"library": 1, "product": [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0], "algorithm": [0, 0, 0, 0, 0, 0, 0, 0]})",
          "gpu");
}

}  // namespace
}  // namespace trireme
