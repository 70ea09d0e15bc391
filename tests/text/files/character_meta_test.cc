#include "text/files/character_meta.h"

#include <gtest/gtest.h>

#include <string_view>

#include "base/file.h"
#include "tests/support/expect_error.h"
#include "tests/support/temporary_folder.h"

namespace trireme {
namespace {

// pickle.dumps() of {"vocab_size": 4, "itos": {0: "\n", 1: "a", 2: "b", 3: "e with an acute"}, "stoi": ...}, and of
// dictionaries whose ids have a gap, whose texts are words, whose size is another; and of a list.
constexpr std::string_view kMeta(
    "\x80\x04\x95S\x00\x00\x00\x00\x00\x00\x00}\x94(\x8c\x0avocab_size\x94K\x04\x8c\x04itos\x94}\x94("
    "K\x00\x8c\x01\x0a\x94K\x01\x8c\x01"
    "a\x94K\x02\x8c\x01"
    "b\x94K\x03\x8c\x02\xc3\xa9\x94u\x8c\x04stoi\x94}\x94(h\x04K\x00h\x05K\x01h\x06K\x02h\x07K\x03uu.",
    94);
constexpr std::string_view kGap(
    "\x80\x02}q\x00X\x04\x00\x00\x00itosq\x01}q\x02(K\x00X\x01\x00\x00\x00"
    "aq\x03K\x02X\x01\x00\x00\x00"
    "bq\x04us.",
    43);
constexpr std::string_view kWords(
    "\x80\x02}q\x00X\x04\x00\x00\x00itosq\x01}q\x02(K\x00X\x01\x00\x00\x00"
    "aq\x03K\x01X\x02\x00\x00\x00"
    "bcq\x04us.",
    44);
constexpr std::string_view kSize(
    "\x80\x02}q\x00(X\x0a\x00\x00\x00vocab_sizeq\x01K\x09X\x04\x00\x00\x00itosq\x02}q\x03(K\x00X\x01\x00\x00\x00"
    "aq\x04K\x01X\x01\x00\x00\x00"
    "bq\x05uu.",
    63);
constexpr std::string_view kList(
    "\x80\x02]q\x00K\x01"
    "a.",
    9);

TEST(CharacterMeta, IsTheTokenizerOfNanoGptsDataset) {
  const TemporaryFolder folder;
  write_text(folder / "meta.pkl", kMeta);
  for (const std::string& given : {folder / "meta.pkl", folder.path()}) {
    const auto tokenizer = load_tokenizer(given);
    EXPECT_EQ(tokenizer->vocabulary_size(), 4u);
    EXPECT_EQ(tokenizer
                  ->encode("ab\n\xc3\xa9"
                           "a")
                  .ids,
              (std::vector<TokenId>{1, 2, 0, 3, 1}));
    const std::vector<TokenId> ids{3, 0, 2};
    EXPECT_EQ(tokenizer->decode(ids), "\xc3\xa9\nb");
  }
  EXPECT_TRUE(holds_tokenizer(folder.path()));
}

TEST(CharacterMeta, RefusesWhatIsNotAVocabularyOfCharacters) {
  const TemporaryFolder folder;
  const std::string path = folder / "meta.pkl";
  const auto refuses = [&](std::string_view bytes, const std::string& expected) {
    write_text(path, bytes);
    EXPECT_ERROR(read_character_meta(path), ErrorKind::data, expected);
  };
  refuses(kGap, "the ids of \"itos\" are not 0 to 1 without gaps");
  refuses(kWords, "itos has \"bc\", but only vocabularies of single characters are supported");
  refuses(kSize, "vocab_size is 9, but itos has 2 characters");
  refuses(kList, "expected nanoGPT's {\"vocab_size\": N");
  refuses(kMeta.substr(0, 40), "meta.pkl");
}

}  // namespace
}  // namespace trireme
