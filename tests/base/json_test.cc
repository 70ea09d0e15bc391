#include "base/json.h"
#include "base/json_text.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "tests/support/expect_error.h"
#include "tests/support/temporary_folder.h"

namespace trireme {
namespace {

TEST(Json, KeepsTheOrderOfKeys) {
  EXPECT_EQ(parse_json(R"({"b":1,"a":[true,null,"x"]})", "t").dump(), R"({"b":1,"a":[true,null,"x"]})");
}

TEST(Json, KeepsLargeIntegersAndDoubles) {
  EXPECT_EQ(parse_json("18446744073709551615", "t").get<uint64_t>(), UINT64_MAX);
  EXPECT_EQ(parse_json("-9223372036854775808", "t").get<int64_t>(), INT64_MIN);
  EXPECT_EQ(parse_json("0.30000000000000004", "t").get<double>(), 0.1 + 0.2);
}

TEST(Json, RefusesTheSameKeyTwiceInOneObject) {
  EXPECT_ERROR(parse_json(R"({"x":{"a":1,"b":2,"a":3}})", "file.json"), ErrorKind::data,
               "file.json: key \"a\" appears twice in one object");
  EXPECT_NO_THROW(parse_json(R"({"x":{"a":1},"y":{"a":1},"a":2})", "t")) << "in different objects";
  EXPECT_ERROR(parse_json(R"({"a":[{"a":1}],"a":2})", "t"), ErrorKind::data, "key \"a\" appears twice");
}

TEST(Json, SaysWhereTheTextIsWrong) {
  EXPECT_ERROR(parse_json("{\n  \"a\": 1,\n  \"b\" 2\n}", "file.json"), ErrorKind::data,
               "file.json: not valid JSON at line 3, column 7");
  EXPECT_ERROR(parse_json("", "t"), ErrorKind::data,
               "not valid JSON at line 1, column 1: unexpected end of input; expected");
  EXPECT_ERROR(parse_json("{} {}", "t"), ErrorKind::data, "not valid JSON");
  EXPECT_ERROR(parse_json("[NaN]", "t"), ErrorKind::data, "not valid JSON");
  EXPECT_ERROR(parse_json("{\"a\":1,}", "t"), ErrorKind::data, "not valid JSON");
  EXPECT_ERROR(parse_json("\"\xFF\"", "t"), ErrorKind::data,
               "t: not valid JSON at line 1, column 2: a byte that is not UTF-8");
  EXPECT_ERROR(parse_json("{\"a\": x}", "t"), ErrorKind::data,
               "t: not valid JSON at line 1, column 7: invalid literal");
  EXPECT_ERROR(parse_json("1e999", "t"), ErrorKind::data,
               "t: not valid JSON at line 1, column 5: a number that is too large for 64-bit floating point");
}

TEST(Json, LimitsNesting) {
  const auto nested = [](size_t n) { return std::string(n, '[') + std::string(n, ']'); };
  EXPECT_NO_THROW(parse_json(nested(60), "t"));
  EXPECT_ERROR(parse_json(nested(100), "t"), ErrorKind::data, "nests deeper than 64 levels");
  EXPECT_ERROR(parse_json(std::string(5'000'000, '['), "t"), ErrorKind::data, "nests deeper than 64 levels");
}

TEST(Json, TakesObjectsOfManyKeysInLinearTime) {
  std::string text = "{\"weight_map\":{\"k\":0";
  for (int i = 0; i < 300'000; ++i) text += fmt::format(",\"model.layer.{}.weight\":\"f{}\"", i, i);
  EXPECT_EQ(parse_json(text + "}}", "t")["weight_map"].size(), 300'001u) << "in quadratic time this takes minutes";
}

TEST(Json, LimitsTheNumberOfValues) {
  std::string text = "[0";
  for (size_t i = 0; i <= kMostJsonValues; ++i) text += ",0";
  EXPECT_ERROR(parse_json(text + "]", "f.json"), ErrorKind::data, "f.json: more than 8000000 keys and values");
}

TEST(Json, IsWrittenWhateverBytesItHas) {
  EXPECT_EQ(dump_json(Json{{"path", "/data/\xFF"}}), "{\"path\":\"/data/\uFFFD\"}");
}

TEST(Json, IsWrittenStrictlyWhereWrongBytesMayNotBeReplaced) {
  const Json json{{"a", {1, "x"}}};
  EXPECT_EQ(dump_valid_json(json), "{\"a\":[1,\"x\"]}");
  EXPECT_EQ(dump_valid_json(json, 1), json.dump(1));
  EXPECT_THROW(dump_valid_json(Json{{"path", "/data/\xFF"}}), Json::type_error);
}

TEST(Json, ReadsFilesUpToALimit) {
  TemporaryFolder folder;
  write_text(folder / "f.json", R"({"a":1})");
  EXPECT_EQ(read_json(folder / "f.json")["a"], 1);
  EXPECT_ERROR(read_json(folder / "f.json", 3), ErrorKind::data, "at most 3 are supported");
  EXPECT_ERROR(read_json(folder / "absent"), ErrorKind::io, "No such file");
}

}  // namespace
}  // namespace trireme
