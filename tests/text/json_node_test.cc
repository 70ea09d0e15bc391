#include "text/json_node.h"

#include <gtest/gtest.h>

#include "tests/support/expect_error.h"

namespace trireme {
namespace {

TEST(JsonNode, IntegersOfAnyLengthAreNumbers) {
  const JsonNode node = parse_json_node(
      R"({"model_max_length": 1000000000000000019884624838656, "text": "9999999999999999999999 \" 8888888888888888888888",)"
      R"("list": [-123456789012345678901234567890, 7, 1.5e3, 12345678901234567890123.25, 9223372036854775807]})",
      "here");
  EXPECT_EQ(node.find("model_max_length")->number, 1e30);
  EXPECT_EQ(node.find("text")->text, "9999999999999999999999 \" 8888888888888888888888");
  const auto& list = node.find("list")->items;
  ASSERT_EQ(list.size(), 5u);
  EXPECT_EQ(list[0].number, -123456789012345678901234567890.0);
  EXPECT_EQ(list[1].integer, 7);
  EXPECT_EQ(list[2].number, 1500);
  EXPECT_EQ(list[3].number, 12345678901234567890123.25);
  EXPECT_ERROR(parse_json_node(R"({"a": 1000000000000000019884624838656, "b": 1.})", "here"), ErrorKind::data,
               "here: not valid JSON: ");
}

}  // namespace
}  // namespace trireme
