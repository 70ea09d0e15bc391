#include "base/error.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "base/json.h"

namespace trireme {
namespace {

using namespace std::string_literals;

TEST(Error, ShowsTextFromOutsideWhole) {
  const Error error(ErrorKind::data, "key \"a\0\xFF\" \x1b[2Jtwice"s);
  EXPECT_STREQ(error.what(), "key \"a\\x00\\xff\" twice");
  EXPECT_NO_THROW((void)Json(error.what()).dump()) << "status.json and metrics.jsonl can hold it";
}

}  // namespace
}  // namespace trireme
