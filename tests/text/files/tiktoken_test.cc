#include "text/files/tiktoken.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/expect_error.h"

namespace trireme {
namespace {

using testing::HasSubstr;

TEST(Tiktoken, AMistypedPatternIsNotARegularExpression) {
  const std::string ranks = "YQ== 0\nYg== 1\n";
  EXPECT_ERROR(load_tiktoken(ranks, "a.tiktoken", "o200k"), ErrorKind::usage,
               "--pattern is o200k; expected gpt2, r50k_base, p50k_base, cl100k_base, o200k_base, llama3 or a regular "
               "expression");
  EXPECT_THAT(load_tiktoken(ranks, "a.tiktoken", "gpt2")->json(), HasSubstr("<|endoftext|>"));
  EXPECT_THAT(load_tiktoken(ranks, "a.tiktoken", "a|b")->json(), HasSubstr("a|b"));
}

TEST(Tiktoken, PossessiveIntervalsBecomeWhatTokenizerJsonReadsAlike) {
  const std::string ranks = "YQ== 0\nYg== 1\n";
  EXPECT_THAT(load_tiktoken(ranks, "a.tiktoken", "\\p{L}++|\\p{N}{1,3}+|[{1,3}+]|\\x{41}+|a{2}+")->json(),
              HasSubstr(R"(\\p{L}++|\\p{N}{1,3}|[{1,3}+]|\\x{41}+|a{2}")"));
  EXPECT_ERROR(load_tiktoken(ranks, "a.tiktoken", "a{1,3}+a|b"), ErrorKind::usage,
               "--pattern has the possessive repetition {1,3}+ before the end of an alternative, which tokenizer.json "
               "cannot express; use an atomic group, (?>...)");
}

TEST(Tiktoken, APresetWhoseSpecialTokenHasATakenIdIsNamed) {
  EXPECT_ERROR(load_tiktoken("YQ== 0\nYg== 50256\n", "a.tiktoken", "gpt2"), ErrorKind::data,
               "a.tiktoken: the pattern gpt2 gives \"<|endoftext|>\" the id 50256, which is \"b\" in this file; the "
               "file probably belongs to another pattern");
}

}  // namespace
}  // namespace trireme
