// docs/data.sha256, the list of the published files that the recipes use.

#include <gtest/gtest.h>

#include <filesystem>
#include <sstream>

#include "base/file.h"
#include "tests/support/paths.h"
#include "tests/support/sha256.h"
#include "tests/support/test_data.h"

namespace trireme {
namespace {

struct Published {
  std::string digest, path;
};

std::vector<Published> published() {
  std::istringstream list(read_text(source_dir() + "/docs/data.sha256"));
  std::vector<Published> files;
  for (std::string line; std::getline(list, line);) {
    if (line.empty() || line[0] == '#') continue;
    EXPECT_EQ(line.find_first_not_of("0123456789abcdef"), 64u) << line;
    EXPECT_EQ(line.substr(64, 2), "  ") << line << ": sha256sum wants two spaces";
    files.push_back({line.substr(0, 64), line.substr(66)});
  }
  return files;
}

TEST(PublishedFiles, AreListedAsSha256sumReadsThem) {
  const std::vector<Published> files = published();
  EXPECT_GE(files.size(), 14u);
  EXPECT_EQ(files[0].path, "openwebtext/openwebtext.tar.xz");
}

TEST(PublishedFiles, OfTheTestDataHaveTheListedDigests) {
  TRIREME_NEEDS_TEST_DATA("gpt2/encoder.json");
  size_t found = 0;
  for (const Published& file : published()) {
    const std::filesystem::path path = test_data_dir() / file.path;
    if (!std::filesystem::exists(path)) continue;
    EXPECT_EQ(sha256_hex(read_text(path.string())), file.digest) << file.path;
    ++found;
  }
  EXPECT_GE(found, 8u);
}

}  // namespace
}  // namespace trireme
