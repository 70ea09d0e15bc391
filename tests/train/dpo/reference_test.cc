#include "train/dpo/reference.h"

#include <gmock/gmock.h>

#include "base/file.h"
#include "tests/support/expect_error.h"
#include "tests/support/temporary_folder.h"

namespace trireme {
namespace {

const Reference kReference{.pairs = "120 abc\n40 def\n", .train = {-1.5, -2.25, -1e-300, -4}, .validation = {-0.5, -7}};

TEST(Reference, ComesBackWithTheSameBits) {
  const TemporaryFolder folder;
  const std::string path = reference_path(folder / "");
  EXPECT_EQ(read_reference(path), std::nullopt);
  write_reference(path, kReference);
  EXPECT_EQ(read_reference(path), kReference);
  EXPECT_EQ(bytes_of(kReference), 48U);
  Reference other = kReference;
  other.validation[1] = -7.0000000001;
  EXPECT_NE(hash_of(other), hash_of(kReference));
}

TEST(Reference, ADamagedFileIsNamed) {
  const TemporaryFolder folder;
  const std::string path = folder / "reference.bin";
  write_reference(path, kReference);
  const std::string good = read_text(path);
  std::string changed = good;
  changed[good.size() / 2] = static_cast<char>(changed[good.size() / 2] ^ 1);
  for (const std::string& bad :
       {good.substr(0, good.size() - 1), good + "x", changed, std::string("short"), std::string()}) {
    write_text(path, bad);
    EXPECT_ERROR((void)read_reference(path), ErrorKind::data,
                 path + " is damaged: its bytes do not have the hash at its end; copy the run folder again");
  }
}

}  // namespace
}  // namespace trireme
