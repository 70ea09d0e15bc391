#include "config/yaml_reader.h"

#include <gtest/gtest.h>

#include "base/file.h"
#include "tests/support/expect_error.h"
#include "tests/support/temporary_folder.h"

namespace trireme {
namespace {

std::vector<Setting> parse(const std::string& text) { return parse_yaml(text, "a.yaml", 0); }

TEST(Yaml, FlattensMapsWithTheLinesOfTheirValues) {
  const auto settings = parse("a:\n  b: 1\n  c: {d: x, e: 2.5}\nf.g: 'true'\n");
  ASSERT_EQ(settings.size(), 4u);
  EXPECT_EQ(settings[0].key, "a.b");
  EXPECT_EQ(settings[0].value, Value(int64_t{1}));
  EXPECT_EQ(settings[0].origin.text(), "a.yaml:2");
  EXPECT_EQ(settings[1].key, "a.c.d");
  EXPECT_EQ(settings[1].value, Value(std::string("x")));
  EXPECT_EQ(settings[2].key, "a.c.e");
  EXPECT_EQ(settings[2].origin.line, 3);
  EXPECT_EQ(settings[3].key, "f.g");
  EXPECT_EQ(settings[3].value, Value(std::string("true"))) << "quoted words are text";
}

TEST(Yaml, ReadsAnEmptyFileAsNoSettings) {
  EXPECT_TRUE(parse("").empty());
  EXPECT_TRUE(parse("# only a comment\n").empty());
  EXPECT_TRUE(parse("{}").empty());
}

TEST(Yaml, MarksListsAndMissingValues) {
  const auto settings = parse("a: [1, [2, {x: 3}]]\nb:\nc: ~\nd:\n- 1\n- y: 2\ne: 5\n");
  ASSERT_EQ(settings.size(), 5u);
  EXPECT_EQ(settings[0].problem, "a list");
  EXPECT_EQ(settings[1].problem, "nothing");
  EXPECT_EQ(settings[2].problem, "nothing");
  EXPECT_EQ(settings[3].problem, "a list");
  EXPECT_EQ(settings[4].value, Value(int64_t{5}));
  for (size_t i = 0; i < 4; ++i) EXPECT_EQ(settings[i].origin.line, static_cast<int>(i) + 1);  // that of the key
}

TEST(Yaml, RefusesDuplicateKeysInAnySpelling) {
  EXPECT_ERROR(parse("a: 1\nb: 2\na: 3\n"), ErrorKind::config,
               "a.yaml:3: \"a\" appears twice in this file, first in line 1");
  EXPECT_ERROR(parse("g:\n  x-y: 1\n  x_y: 2\n"), ErrorKind::config, "a.yaml:3: \"g.x_y\" appears twice");
  EXPECT_ERROR(parse("g:\n  x: 1\ng.x: 2\n"), ErrorKind::config, "a.yaml:3: \"g.x\" appears twice");
  EXPECT_ERROR(parse("g: {x: 1}\ng: {y: 2}\n"), ErrorKind::config, "a.yaml:2: \"g\" appears twice");
}

TEST(Yaml, RefusesAliasesSoThatNothingExpands) {
  std::string bomb = "a: &a [x, x, x, x, x, x, x, x, x]\n";
  for (char c = 'b'; c < 'z'; ++c) {
    bomb += std::string(1, c) + ": &" + c + " [*" + static_cast<char>(c - 1) + ", *" + static_cast<char>(c - 1) + "]\n";
  }
  EXPECT_ERROR(parse(bomb), ErrorKind::config, "a.yaml:2: aliases (*name) are not supported");
  EXPECT_ERROR(parse("a: &x {b: 1}\nc:\n  <<: *x\n"), ErrorKind::config, "a.yaml:3: aliases");
}

TEST(Yaml, RefusesTags) {
  EXPECT_ERROR(parse("a: !!python/object:os.system x\n"), ErrorKind::config, "is not supported; remove it");
  EXPECT_ERROR(parse("a: !!int '3'\n"), ErrorKind::config, "a.yaml:1: the tag");
}

TEST(Yaml, RefusesWhatIsNotAMapOfKeys) {
  EXPECT_ERROR(parse("just words\n"), ErrorKind::config, "a.yaml:1: expected `key: value` lines, found \"just words\"");
  EXPECT_ERROR(parse("- 1\n- 2\n"), ErrorKind::config, "a.yaml:1: expected `key: value` lines, found a list");
  EXPECT_ERROR(parse("? {a: 1}\n: 2\n"), ErrorKind::config, "a map cannot be a key");
  EXPECT_ERROR(parse("? [a]\n: 2\n"), ErrorKind::config, "a list cannot be a key");
  EXPECT_ERROR(parse(": 2\n"), ErrorKind::config, "a.yaml:1: missing key before ':'");
  EXPECT_ERROR(parse("a: 1\n---\nb: 2\n"), ErrorKind::config, "a.yaml: contains several YAML documents");
}

TEST(Yaml, NamesTheLineOfASyntaxError) {
  EXPECT_ERROR(parse("a: 1\nb: [1, 2\n"), ErrorKind::config, "not valid YAML");
  EXPECT_ERROR(parse("a: 1\n\tb: 2\n"), ErrorKind::config, "a.yaml:2: not valid YAML");
}

TEST(Yaml, RefusesDirectivesWithoutOptions) {
  EXPECT_ERROR(parse("%%%%%%\n"), ErrorKind::config, "a.yaml:1: \"%%%%%%\" is a YAML directive, and no options follow");
  EXPECT_ERROR(parse("# c\n%FOO bar"), ErrorKind::config, "a.yaml:2: \"%FOO bar\" is a YAML directive");
  EXPECT_TRUE(parse("# nothing yet\n").empty());
}

TEST(Yaml, NamesTheLevelsOfDeepNesting) {
  EXPECT_ERROR(parse("a: 1\nb: " + std::string(5000, '[')), ErrorKind::config,
               "levels deep; options are in groups, two levels deep");
}

TEST(Yaml, SurvivesDeepNesting) {
  EXPECT_ERROR(parse("a: " + std::string(100000, '[')), ErrorKind::config, "a.yaml");
  EXPECT_ERROR(parse("a: " + std::string(100000, '{')), ErrorKind::config, "a.yaml");
  std::string dashes = "a:\n";
  for (int i = 0; i < 20000; ++i) dashes += "- ";
  EXPECT_ERROR(parse(dashes), ErrorKind::config, "a.yaml");
}

class ConfigFile : public testing::Test {
 protected:
  std::string write(const std::string& content) {
    write_text(folder_ / "a.yaml", content);
    return folder_ / "a.yaml";
  }
  TemporaryFolder folder_;
};

TEST_F(ConfigFile, IsReadWhenValid) {
  EXPECT_EQ(read_config_text(write("a: \"Z\xC3\xBCrich \xF0\x9F\x9A\x80\"\n")),
            "a: \"Z\xC3\xBCrich \xF0\x9F\x9A\x80\"\n");
}

TEST_F(ConfigFile, IsRefusedWhenMissing) {
  EXPECT_ERROR(read_config_text(folder_ / "none.yaml"), ErrorKind::config, "configuration file: cannot open");
}

TEST_F(ConfigFile, IsRefusedWhenHuge) {
  const std::string path = write("");
  std::filesystem::resize_file(path, uint64_t{1} << 30);  // sparse
  EXPECT_ERROR(read_config_text(path), ErrorKind::config, "has 1073741824 bytes, but at most 1048576 are supported");
}

TEST_F(ConfigFile, IsRefusedWhenNotUtf8) {
  for (const char* bad :
       {"\xff", "\xc0\xaf", "\xe0\x80\x80", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xc3", "\xe2\x82", "\x80"}) {
    EXPECT_ERROR(read_config_text(write(std::string("a: 1\nb: x") + bad)), ErrorKind::config, "a.yaml:2: byte 0x");
  }
  EXPECT_ERROR(read_config_text(write(std::string("a\0b", 3))), ErrorKind::config,
               "byte 0x00 at offset 1 is not UTF-8");
}

TEST(Yaml, KeepsListsAsJson) {
  const auto settings = parse_yaml("{a: [1, 0.5, x, \"1\", [true, null], {k: 2, 3: [b,]}], b: 2}", "t.yml", 0);
  ASSERT_EQ(settings.size(), 2u);
  EXPECT_EQ(settings[0].problem, "a list");
  EXPECT_EQ(settings[0].text, R"([1,0.5,"x","1",[true,null],{"k":2,"3":["b"]}])");
}

}  // namespace
}  // namespace trireme
