// tokenizer.json as a format: the effects of its elements, and refused content.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "base/error.h"
#include "base/file.h"
#include "tests/support/expect_error.h"
#include "tests/support/temporary_folder.h"
#include "text/files/tokenizer_writer.h"
#include "text/tokenizer.h"

namespace trireme {
namespace {

using testing::HasSubstr;
using Ids = std::vector<TokenId>;

/// A small byte-level BPE: letters a b c d and the space, merges ab and " ab".
std::string byte_level_json(const std::string& rest = "") {
  return R"({"version": "1.0", )" + rest + R"(
    "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true},
    "decoder": {"type": "ByteLevel"},
    "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "c": 2, "d": 3, "Ġ": 4, "ab": 5, "Ġab": 6, "é": 7},
              "merges": ["a b", ["Ġ", "ab"]]}})";
}

std::unique_ptr<Tokenizer> load(const std::string& json) { return tokenizer_from_json(json, "t.json"); }

std::string error_of(const std::string& json) {
  try {
    load(json);
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::data);
    return e.what();
  }
  ADD_FAILURE() << "no error";
  return "";
}

std::string added(const std::string& content, const std::string& flags) {
  return R"("added_tokens": [{"id": 10, "content": ")" + content + R"(")" + flags + "}],";
}

TEST(TokenizerJson, ReadsMergesInBothForms) {
  const auto tokenizer = load(byte_level_json());
  EXPECT_EQ(tokenizer->encode("ab ab cab").ids, (Ids{5, 6, 4, 2, 5}));
  EXPECT_EQ(tokenizer->decode(Ids{5, 6, 4, 2, 5}), "ab ab cab");
  EXPECT_EQ(tokenizer->json(), byte_level_json());
}

TEST(TokenizerJson, RecognisesSpecialTokensOnlyWhenAsked) {
  const auto tokenizer = load(byte_level_json(added("dd", R"(, "special": true)")));
  EXPECT_EQ(tokenizer->encode("addb").ids, (Ids{0, 10, 1}));
  EXPECT_EQ(tokenizer->encode("addb", {.special_tokens = false}).ids, (Ids{0, 3, 3, 1}));
  Ids plain;
  tokenizer->encode_plain("addb", plain);
  EXPECT_EQ(plain, (Ids{0, 3, 3, 1}));
  EXPECT_EQ(tokenizer->decode(Ids{0, 10, 1}), "addb");
  EXPECT_EQ(tokenizer->decode(Ids{0, 10, 1}, true), "ab");
}

TEST(TokenizerJson, AddedTokensThatAreNotSpecialAlwaysMatch) {
  const auto tokenizer = load(byte_level_json(added("dd", "")));
  EXPECT_EQ(tokenizer->encode("addb", {.special_tokens = false}).ids, (Ids{0, 10, 1}));
}

TEST(TokenizerJson, AddedTokensStripAndMatchSingleWords) {
  const auto strips = load(byte_level_json(added("dd", R"(, "lstrip": true, "rstrip": true)")));
  EXPECT_EQ(strips->encode("ab  dd\n dd  c").ids, (Ids{5, 10, 10, 2}));
  const auto single = load(byte_level_json(added("dd", R"(, "single_word": true)")));
  EXPECT_EQ(single->encode("add dd").ids, (Ids{0, 3, 3, 4, 10}));
}

TEST(TokenizerJson, TheLongestAddedTokenWins) {
  const auto tokenizer = load(byte_level_json(
      R"("added_tokens": [{"id": 10, "content": "dd"}, {"id": 11, "content": "ddd"}, {"id": 3, "content": "d"}],)"));
  EXPECT_EQ(tokenizer->encode("ddddd d").ids, (Ids{11, 10, 4, 3}));
}

TEST(TokenizerJson, FindsTheLongestOfManyAddedTokensWithACommonPrefix) {
  std::string tokens = R"("added_tokens": [{"id": 10, "content": "<a0"})", text;
  for (int i = 1; i < 100'000; ++i) tokens += fmt::format(R"(, {{"id": {}, "content": "<a{}>"}})", 10 + i, i);
  const auto tokenizer = load(byte_level_json(tokens + "],"));
  for (int i = 0; i < 100'000; ++i) text += "<a0a<a99999>";
  const Ids ids = tokenizer->encode(text).ids;
  ASSERT_EQ(ids.size(), 300'000u) << "looked at one by one they take hours";
  EXPECT_EQ(Ids(ids.begin(), ids.begin() + 3), (Ids{10, 0, 100'009}));
}

TEST(TokenizerJson, RefusesSizesThatNoTokenizerHas) {
  std::string tokens = R"("added_tokens": [{"id": 10, "content": "dd"})";
  for (int i = 0; i < 1 << 18; ++i) tokens += R"(,{"id":10,"content":"dd"})";
  EXPECT_ERROR(load(byte_level_json(tokens + "],")), ErrorKind::data,
               "262145 added tokens, but at most 262144 are supported");
  EXPECT_ERROR(load(byte_level_json(R"("added_tokens": [{"id": 16777215, "content": "dd"}],)")), ErrorKind::data,
               "the id of \"dd\" must be an integer from 0 to 4194303");
  const std::string word(17 << 20, 'x');
  EXPECT_ERROR(load(byte_level_json(R"("added_tokens": [{"id": 10, "content": ")" + word + R"("}],)")), ErrorKind::data,
               "its tokens have more than 16777216 bytes, the supported maximum");
}

TEST(TokenizerJson, DecodersThatMultiplyAreStopped) {
  const std::string replace =
      R"({"type": "Replace", "pattern": {"String": "a"}, "content": ")" + std::string(1000, 'a') + R"("})";
  std::string json = byte_level_json();
  const std::string decoder = R"({"type": "ByteLevel"},)";
  json.replace(json.find(decoder), decoder.size(),
               R"({"type": "Sequence", "decoders": [)" + replace + "," + replace + "," + replace + "]},");
  EXPECT_ERROR(load(json), ErrorKind::data, "its normalizer or decoder makes more than ");
}

/// Of every kind of step: `many` of them in a list, or one in that many Sequences.
TEST(TokenizerJson, RefusesStepsBeyondTheLimitsOfNumberAndDepth) {
  struct Kind {
    const char *key, *list, *step;
  };
  constexpr Kind kKinds[] = {{"normalizer", "normalizers", R"({"type": "Lowercase"})"},
                             {"pre_tokenizer", "pretokenizers", R"({"type": "WhitespaceSplit"})"},
                             {"post_processor", "processors", R"({"type": "ByteLevel"})"},
                             {"decoder", "decoders", R"({"type": "Fuse"})"}};
  for (const auto& [key, list, step] : kKinds) {
    const auto json = [&, key = key](const std::string& element) {
      return fmt::format(R"({{"{}": {}, "model": {{"type": "BPE", "vocab": {{"a": 0}}, "merges": []}}}})", key,
                         element);
    };
    const auto sequence = [&, list = list](const std::string& items) {
      return fmt::format(R"({{"type": "Sequence", "{}": [{}]}})", list, items);
    };
    const auto listed = [&, step = step](int many) {
      std::string items = step;
      for (int i = 1; i < many; ++i) items += std::string(",") + step;
      return json(sequence(items));
    };
    const auto nested = [&, step = step](int depth) {
      std::string element = step;
      for (int i = 0; i < depth; ++i) element = sequence(element);
      return json(element);
    };
    const std::string expected =
        fmt::format("t.json: {}: more than 128 steps, or Sequences nested in more than 8", key);
    EXPECT_NO_THROW(load(listed(127))) << key;
    EXPECT_NO_THROW(load(nested(8))) << key;
    for (const int many : {128, 100'000}) EXPECT_THAT(error_of(listed(many)), HasSubstr(expected)) << many;
    for (const int depth : {9, 300}) EXPECT_THAT(error_of(nested(depth)), HasSubstr(expected)) << depth;
  }
}

TEST(TokenizerJson, RefusesTemplatesThatMultiplyTheText) {
  const auto processor = [](int texts, int specials) {
    std::string parts = R"({"Sequence": {"id": "A", "type_id": 0}})";
    for (int i = 1; i < texts; ++i) parts += R"(, {"Sequence": {"id": "A", "type_id": 0}})";
    for (int i = 0; i < specials; ++i) parts += R"(, {"SpecialToken": {"id": "S", "type_id": 0}})";
    return byte_level_json(
        R"("post_processor": {"type": "TemplateProcessing", "single": [)" + parts +
        R"(], "pair": [], "special_tokens": {"S": {"id": "S", "ids": [0, 1, 2, 3], "tokens": []}}},)");
  };
  EXPECT_EQ(load(processor(2, 1))->encode("a").ids, (Ids{0, 0, 0, 1, 2, 3}));
  EXPECT_THAT(error_of(processor(9, 0)),
              HasSubstr("post_processor.single[8]: more than 8 texts or 1024 special ids in one template, the limits"));
  EXPECT_THAT(error_of(processor(1, 257)), HasSubstr("post_processor.single[257]: more than 8 texts or 1024 special"));
}

TEST(TokenizerJson, AppliesTemplateTruncationAndPadding) {
  const std::string rest = R"("post_processor": {"type": "BertProcessing", "sep": ["d", 3], "cls": ["c", 2]},
    "truncation": {"direction": "Right", "max_length": 6, "strategy": "LongestFirst", "stride": 0},
    "padding": {"strategy": {"Fixed": 8}, "direction": "Right", "pad_to_multiple_of": null, "pad_id": 4,
                "pad_type_id": 0, "pad_token": "x"},)";
  const auto tokenizer = load(byte_level_json(rest));
  const Encoding single = tokenizer->encode("aaaaaa");
  EXPECT_EQ(single.ids, (Ids{2, 0, 0, 0, 0, 3, 4, 4}));
  EXPECT_TRUE(single.types.empty());
  const Encoding pair = tokenizer->encode_pair("aaaa", "b");
  EXPECT_EQ(pair.ids, (Ids{2, 0, 0, 3, 1, 3, 4, 4}));
  EXPECT_EQ(pair.types, (std::vector<uint8_t>{0, 0, 0, 0, 1, 1, 0, 0}));
  EXPECT_EQ(tokenizer->encode("aaaaaa", {.special_tokens = true, .max_length = 4}).ids, (Ids{2, 0, 0, 3, 4, 4, 4, 4}));
  Ids plain;
  tokenizer->encode_plain("aaaaaaaaaa", plain);
  EXPECT_EQ(plain.size(), 10u);
}

TEST(TokenizerJson, PadsToAFixedLengthAndItsMultipleOnlyWhatIsShorter) {
  const std::string rest = R"("padding": {"strategy": {"Fixed": 3}, "direction": "Left", "pad_to_multiple_of": 4,
    "pad_id": 4, "pad_type_id": 0, "pad_token": "x"},)";
  const auto tokenizer = load(byte_level_json(rest));
  EXPECT_EQ(tokenizer->encode("aa").ids, (Ids{4, 4, 0, 0}));
  EXPECT_EQ(tokenizer->encode("aaaaa").ids, (Ids{0, 0, 0, 0, 0}));
}

TEST(TokenizerJson, CutsTheTextsToNothingIfTheTemplateFillsTheLength) {
  const auto tokenizer = load(byte_level_json(R"("truncation": {"direction": "Right", "max_length": 4,
    "strategy": "OnlyFirst", "stride": 0}, "post_processor": {"type": "RobertaProcessing", "sep": ["d", 3],
    "cls": ["c", 2], "trim_offsets": true, "add_prefix_space": false},)"));
  EXPECT_EQ(tokenizer->encode_pair("a", "ab").ids, (Ids{2, 3, 3, 3}));
  EXPECT_EQ(tokenizer->encode("aaaa").ids, (Ids{2, 0, 0, 3}));
}

TEST(TokenizerJson, FindsTokensInWhiteSpaceThatAnotherTokenTakesAlong) {
  const auto tokenizer = load(byte_level_json(R"("added_tokens": [{"id": 10, "content": "dd", "rstrip": true},
    {"id": 11, "content": "\n"}, {"id": 12, "content": "  ", "rstrip": true}],)"));
  EXPECT_EQ(tokenizer->encode("dd \n ab").ids, (Ids{10, 11, 6}));
  EXPECT_EQ(tokenizer->encode("dd     a").ids, (Ids{10, 12, 12, 0}));
  EXPECT_EQ(tokenizer->encode("dd a\n").ids, (Ids{10, 0, 11}));
}

TEST(TokenizerJson, NamesCharactersThatItCannotExpress) {
  const auto tokenizer = load(byte_level_json());
  try {
    tokenizer->encode("abz");
    FAIL();
  } catch (const Error& e) {
    EXPECT_STREQ(
        e.what(),
        "the text has \"z\", which is missing from the tokenizer's vocabulary, and the tokenizer has no unknown token");
  }
}

TEST(TokenizerJson, NamesIdsThatItDoesNotHave) {
  try {
    load(byte_level_json())->decode(Ids{99});
    FAIL();
  } catch (const Error& e) {
    EXPECT_STREQ(e.what(), "id 99 is outside the tokenizer's vocabulary of 8 ids");
  }
}

TEST(TokenizerJson, CutsOnlyWhereBothSidesEncodeTheSame) {
  const auto tokenizer = load(byte_level_json());
  const std::string text = "ab  ab c\nab.  ab";
  EXPECT_EQ(tokenizer->cut(text, 3), 6u);
  EXPECT_EQ(tokenizer->cut(text, 9), text.size());  // the dot before the space is not a letter
  for (size_t near = 1; near < text.size() - 3; ++near) {
    const std::string whole = "ab  ab c ab  ab";
    const size_t at = tokenizer->cut(whole, near);
    Ids left, all;
    tokenizer->encode_plain(whole.substr(0, at), left);
    tokenizer->encode_plain(whole.substr(at), left);
    tokenizer->encode_plain(whole, all);
    EXPECT_EQ(left, all);
  }
  EXPECT_EQ(load(byte_level_json(added("b c", "")))->cut(text, 1), text.size());
}

TEST(TokenizerJson, DoesNotCutBeforeWhatBertDrops) {
  const auto tokenizer =
      load(bert_tokenizer_json({"[UNK]", "[CLS]", "[SEP]", "th", "the", "##e"}, true, "a vocabulary"));
  EXPECT_EQ(tokenizer->cut("th\fe the", 2), 4u);
  EXPECT_EQ(tokenizer->cut("th\v the", 2), 7u);
}

TEST(TokenizerJson, NamesElementsThatAreNotImplemented) {
  const std::string model = R"("model": {"type": "BPE", "vocab": {"a": 0}, "merges": []})";
  EXPECT_THAT(error_of(R"({"normalizer": {"type": "Foo"}, )" + model + "}"),
              HasSubstr("t.json: normalizer: unsupported normalizer \"Foo"));
  EXPECT_THAT(error_of(R"({"pre_tokenizer": {"type": "Foo"}, )" + model + "}"),
              HasSubstr("unsupported pre-tokenizer \"Foo"));
  EXPECT_THAT(error_of(R"({"decoder": {"type": "Foo"}, )" + model + "}"), HasSubstr("unsupported decoder \"Foo\""));
  EXPECT_THAT(error_of(R"({"post_processor": {"type": "Foo"}, )" + model + "}"),
              HasSubstr("unsupported post-processor \"Foo\""));
  EXPECT_THAT(error_of(R"({"model": {"type": "Foo"}})"), HasSubstr("unsupported model \"Foo"));
  EXPECT_THAT(error_of(R"({"extra": 1, )" + model + "}"), HasSubstr("unsupported key \"extra\""));
  EXPECT_THAT(error_of(R"({"model": {"type": "BPE", "dropout": 0.1, "vocab": {}, "merges": []}})"),
              HasSubstr("\"dropout\" other than 0 is unsupported"));
}

TEST(TokenizerJson, RefusesTemplatesAndPaddingOfIdsThatItDoesNotHave) {
  EXPECT_THAT(
      error_of(byte_level_json(R"("post_processor": {"type": "BertProcessing", "sep": ["a", 8], "cls": ["b", 1]},)")),
      HasSubstr("t.json: the post-processor adds id 8, but the vocabulary has 8 ids"));
  const auto padding = [](const std::string& id) {
    return byte_level_json(R"("padding": {"strategy": {"Fixed": 6}, "pad_id": )" + id + R"(, "pad_token": "a"},)");
  };
  EXPECT_THAT(error_of(padding("9")), HasSubstr("t.json: the padding adds id 9, but the vocabulary has 8 ids"));
  EXPECT_THAT(error_of(padding("4294967297")), HasSubstr("pad_id is 4294967297, expected a 32-bit number"));
}

TEST(TokenizerJson, RefusesContradictions) {
  const auto bpe = [](const std::string& vocab, const std::string& merges, const std::string& rest = "") {
    return R"({"model": {"type": "BPE", )" + rest + R"("vocab": )" + vocab + R"(, "merges": )" + merges + "}}";
  };
  EXPECT_THAT(error_of(bpe(R"({"a": 0, "b": 0})", "[]")), HasSubstr("id 0 belongs to two tokens, \"a\" and \"b\""));
  EXPECT_THAT(error_of(bpe(R"({"a": 0, "a": 1})", "[]")), HasSubstr("token \"a\" has two ids, 0 and 1"));
  EXPECT_THAT(error_of(bpe(R"({"a": -1})", "[]")), HasSubstr("the id of \"a\" must be an integer from 0 to"));
  EXPECT_THAT(error_of(bpe(R"({"a": 99999999})", "[]")), HasSubstr("the id of \"a\" must be an integer from 0 to"));
  EXPECT_THAT(error_of(bpe(R"({"a": 0, "b": 1})", R"(["a b"])")),
              HasSubstr("merge \"a b\": \"ab\" is missing from the vocabulary"));
  EXPECT_THAT(error_of(bpe(R"({"a": 0, "aa": 1})", R"(["a a", "a a"])")), HasSubstr("merge \"a a\" appears twice"));
  EXPECT_THAT(error_of(bpe(R"({"a": 0, "aa": 1})", R"(["aa"])")),
              HasSubstr("expected two tokens separated by one space"));
  EXPECT_THAT(error_of(bpe(R"({"a": 0})", "[]", R"("unk_token": "<unk>", )")),
              HasSubstr("the unknown token \"<unk>\" is missing from the vocabulary"));
  EXPECT_THAT(
      error_of(
          R"({"added_tokens": [{"id": 1, "content": "a"}], "model": {"type": "BPE", "vocab": {"a": 0}, "merges": []}})"),
      HasSubstr("token \"a\" has two ids, 0 and 1"));
  EXPECT_THAT(error_of("{\"model\""), HasSubstr("t.json: not valid JSON"));
  EXPECT_THAT(error_of("[]"), HasSubstr("expected a JSON object"));
}

class TokenizerFiles : public testing::Test {
 protected:
  void write(const std::string& name, const std::string& text) { write_text((folder_ / name).string(), text); }
  std::string error() {
    try {
      load_tokenizer(folder_.string());
    } catch (const Error& e) {
      return e.what();
    }
    return "no error";
  }
  TemporaryFolder temporary_;
  std::filesystem::path folder_ = temporary_.path();
};

TEST_F(TokenizerFiles, LoadsVocabularyAndMerges) {
  write("vocab.json", R"({"b": 1, "a": 0, "ab": 2, "</s>": 3})");
  write("merges.txt", "#version: 0.2\r\na b\r\n\r\n");
  const auto tokenizer = load_tokenizer(folder_.string());
  EXPECT_EQ(tokenizer->encode("abb</s>").ids, (Ids{2, 1, 3}));
  EXPECT_EQ(tokenizer->end_of_text(), 3u);
  EXPECT_EQ(load_tokenizer((folder_ / "vocab.json").string())->hash(), tokenizer->hash());
  EXPECT_EQ(tokenizer_from_json(tokenizer->json(), "again")->encode("abb</s>").ids, (Ids{2, 1, 3}));
}

TEST_F(TokenizerFiles, OptEndsDocumentsWithItsOwnToken) {
  write("merges.txt", "#version: 0.2\n");
  write("vocab.json", R"({"<s>": 0, "<pad>": 1, "</s>": 2, "a": 3, "<|endoftext|>": 4})");
  EXPECT_EQ(load_tokenizer(folder_.string())->end_of_text(), 2u);
  write("vocab.json", R"({"a": 0, "<pad>": 1, "</s>": 2, "<s>": 3, "<|endoftext|>": 4})");
  EXPECT_EQ(load_tokenizer(folder_.string())->end_of_text(), 4u);
}

TEST_F(TokenizerFiles, PutsTheBeginningTokenThatTheConfigAsksFor) {
  write("vocab.json", R"({"a": 0, "</s>": 2})");
  write("merges.txt", "#version: 0.2\n");
  write("tokenizer_config.json", R"({"add_bos_token": true, "bos_token": {"content": "</s>"}, "other": 1})");
  const auto tokenizer = load_tokenizer(folder_.string());
  EXPECT_EQ(tokenizer->encode("a").ids, (Ids{2, 0}));
  EXPECT_EQ(tokenizer->encode_pair("a", "a").ids, (Ids{2, 0, 2, 0}));
  EXPECT_EQ(tokenizer->encode("a", {.special_tokens = false}).ids, (Ids{0}));
}

TEST_F(TokenizerFiles, NamesWhatIsMissing) {
  EXPECT_THAT(error(), HasSubstr(": expected tokenizer.json, vocab.json or encoder.json"));
  write("vocab.json", R"({"a": 0})");
  write("merges.txt", "#version: 0.2\na\n");
  EXPECT_THAT(error(), HasSubstr("merges.txt, line 2: \"a\", expected two tokens separated by one space"));
  EXPECT_THROW(load_tokenizer("/nonexistent"), Error);
}

}  // namespace
}  // namespace trireme
