#include "cluster/hostlist.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "base/error.h"
#include "tests/support/test_data.h"

namespace trireme {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::vector<std::string> expand(std::string_view text) { return expand_hostlist(text, "--hosts"); }

std::string reason(std::string_view text) {
  try {
    expand(text);
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::config) << "as what else is wrong about hosts";
    return e.what();
  }
  return "no error";
}

TEST(Hostlist, ExpandsAsScontrolShowHostnamesDoes) {
  TRIREME_NEEDS_TEST_DATA("parsers/slurm/hostlist_cases.tsv");
  std::ifstream file(test_data_dir() / "parsers/slurm/hostlist_cases.tsv");
  int cases = 0;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with('#') || line.empty()) continue;
    const size_t tab = line.find('\t');
    const std::string expression = line.substr(0, tab), expected = line.substr(tab + 1);
    ++cases;
    if (expected.starts_with("ERROR")) {
      EXPECT_THROW(expand(expression), Error) << expression;
      continue;
    }
    std::string joined;
    for (const std::string& name : expand(expression)) joined += (joined.empty() ? "" : " ") + name;
    EXPECT_EQ(joined, expected) << expression;
  }
  EXPECT_GE(cases, 7);
}

TEST(Hostlist, MixesRangesPaddingAndPlainNames) {
  EXPECT_THAT(expand("a-[1-2,05-07],b"), ElementsAre("a-1", "a-2", "a-05", "a-06", "a-07", "b"));
  EXPECT_THAT(expand("a[9-11] n5\nm"), ElementsAre("a9", "a10", "a11", "n5", "m"));
  EXPECT_THAT(expand("a[01-2]"), ElementsAre("a01", "a02"));
  EXPECT_THAT(expand("a[00-02]x[3]"), ElementsAre("a00x3", "a01x3", "a02x3"));
  EXPECT_THAT(expand(",a,,b,"), ElementsAre("a", "b"));
  EXPECT_THAT(expand(""), ElementsAre());
}

TEST(Hostlist, VariesTheLeftmostBracketSlowest) {
  EXPECT_THAT(expand("r[1-2]n[1-2]"), ElementsAre("r1n1", "r1n2", "r2n1", "r2n2"));
  EXPECT_THAT(expand("a[1-2][3-4]"), ElementsAre("a13", "a14", "a23", "a24"));
}

TEST(Hostlist, NamesSourceExpressionColumnAndReason) {
  EXPECT_EQ(reason("b,a[3-1]"), "--hosts: host list \"a[3-1]\", column 3: the range is descending");
  EXPECT_THAT(reason("a[1-2"), HasSubstr("column 2: \"[\" is not closed"));
  EXPECT_THAT(reason("a1]"), HasSubstr("column 3: \"]\" without \"[\""));
  EXPECT_THAT(reason("a[[1]]"), HasSubstr("\"[\" inside brackets"));
  EXPECT_THAT(reason("a[]"), HasSubstr("expected a number or a range such as 1-4"));
  EXPECT_THAT(reason("a[1,]"), HasSubstr("expected a number"));
  EXPECT_THAT(reason("a[x-y]"), HasSubstr("expected a number"));
  EXPECT_THAT(reason("a[1-2-3]"), HasSubstr("expected a number"));
  EXPECT_THAT(reason("a[99999999999999999999]"), HasSubstr("expected a number"));
  EXPECT_THAT(reason("a[1-2]-bmc"), HasSubstr("column 7: text after the last bracket"));
}

TEST(Hostlist, BoundsTheNumberOfHosts) {
  EXPECT_EQ(expand("a[1-65536]").size(), 65536u);
  EXPECT_THAT(reason("a[1-65537]"), HasSubstr("more than 65536 hosts"));
  EXPECT_THAT(reason("a[1-1000]b[1-1000]"), HasSubstr("more than 65536 hosts"));
  EXPECT_THAT(reason("a[1-40000],b[1-40000]"), HasSubstr("more than 65536 hosts"));
  EXPECT_THAT(reason("a[0-999999999999999999]"), HasSubstr("more than 65536 hosts"));
}

TEST(Hostlist, CompressionKeepsOrderAndDuplicates) {
  const auto compress = [](std::vector<std::string> names) { return compress_hostlist(names); };
  EXPECT_EQ(compress({"a1", "a2", "a05", "a06", "b"}), "a[1-2,05-06],b");
  EXPECT_EQ(compress({"n9", "n10", "n11", "n9"}), "n[9-11,9]");
  EXPECT_EQ(compress({"n1"}), "n1");
  EXPECT_EQ(compress({"n1", "m2", "n2"}), "n1,m2,n2");
  EXPECT_EQ(compress({"x-1.d", "x-2.d"}), "x-1.d,x-2.d");
  EXPECT_EQ(compress({}), "");
}

TEST(Hostlist, ExpandingACompressedListGivesItBack) {
  const std::vector<std::vector<std::string>> lists = {
      {"a1", "a2", "a05", "a06", "b"}, {"n9", "n10", "n09", "n10"}, {"q99", "q100"}, {"q099", "q100"}, {"7", "8", "x"}};
  for (const auto& names : lists) {
    EXPECT_EQ(expand(compress_hostlist(names)), names) << compress_hostlist(names);
  }
}

}  // namespace
}  // namespace trireme
