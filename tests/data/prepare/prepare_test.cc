#include "data/prepare/prepare.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "base/error.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/rng.h"
#include "data/sidecar.h"
#include "data/token_dataset.h"
#include "tests/support/archives.h"
#include "tests/support/temporary_folder.h"
#include "text/training/bpe_trainer.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class Prepare : public testing::Test {
 protected:
  Prepare() {
    PieceCounter counts;
    counts.add_text("the cat sat on the mat and the dog sat on the log");
    BpeTraining training;
    training.vocabulary_size = 280;
    write("tokenizer.json", write_tokenizer_json(train_bpe(counts, training)));
    options_.tokenizer = path("tokenizer.json");
    options_.output = path("out");
    options_.threads = 3;
  }
  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  void write(const std::string& name, const std::string& text) const { write_text(path(name), text); }
  std::vector<uint16_t> tokens(const std::string& name) const {
    const std::string bytes = read_text((fs::path(options_.output) / name).string());
    std::vector<uint16_t> ids(bytes.size() / 2);
    for (size_t i = 0; i < ids.size(); ++i)
      ids[i] = static_cast<uint16_t>(static_cast<uint8_t>(bytes[2 * i]) | static_cast<uint8_t>(bytes[2 * i + 1]) << 8);
    return ids;
  }
  std::string decoded(const std::string& name) const {
    const std::vector<uint16_t> ids = tokens(name);
    const std::vector<TokenId> wide(ids.begin(), ids.end());
    return load_tokenizer((fs::path(options_.output) / "tokenizer.json").string())->decode(wide);
  }
  /// Message of the error, after which no files may be left.
  std::string error(ErrorKind kind = ErrorKind::data) const {
    try {
      prepare(options_);
    } catch (const Error& e) {
      EXPECT_EQ(e.kind(), kind) << e.what();
      if (fs::exists(options_.output)) {
        EXPECT_TRUE(fs::is_empty(options_.output));
      }
      return e.what();
    }
    ADD_FAILURE() << "no error";
    return "";
  }

  TemporaryFolder temporary_;
  fs::path folder_ = temporary_.path();
  PrepareOptions options_;
};

TEST_F(Prepare, DividesOneTextByCharacters) {
  std::string text;
  for (int i = 0; i < 10; ++i) text += "caf\u00e9 ";  // 5 characters, 6 bytes each time
  write("one.txt", text);
  options_.inputs = {path("one.txt")};
  const PrepareReport report = prepare(options_);
  EXPECT_EQ(decoded("train.bin"), text.substr(0, 54));
  EXPECT_EQ(decoded("val.bin"), text.substr(54));
  EXPECT_EQ(report.train_tokens, tokens("train.bin").size());
  EXPECT_EQ(report.input_bytes, text.size());
}

TEST_F(Prepare, LeavesATextWholeWhereAllOfItIsTraining) {
  write("one.txt", "the cat sat on the mat");
  options_.inputs = {path("one.txt")};
  options_.train_fraction = 1;
  prepare(options_);
  EXPECT_EQ(decoded("train.bin"), "the cat sat on the mat");
  EXPECT_FALSE(fs::exists(path("out/val.bin")));
  EXPECT_EQ(read_sidecar(path("out/train.bin"))->split, "one text: all of it in train");
}

TEST_F(Prepare, ADocumentBeyondItsLimitIsNamedWithTheOptionThatRaisesIt) {
  const std::string words(3 << 20, 'a'), line = "{\"text\":\"" + words + "\"}\n", small = "{\"text\":\"the\"}\n";
  write("a.jsonl", small + line);
  write("a.jsonl.gz", gzip(small + line));
  write("a.jsonl.zst", zstd(small + line));
  write("a.txt", words);
  write("a.txt.gz", gzip(words));
  options_.most_bytes = size_t{2} << 20;
  for (const char* name : {"a.jsonl", "a.jsonl.gz", "a.jsonl.zst"}) {
    options_.inputs = {path(name)};
    EXPECT_THAT(error(), HasSubstr(std::string(name) + ", line 2: the line is longer than 2 MiB, the limit of one "
                                                       "document; raise it with --max-document MIB"));
  }
  for (const char* name : {"a.txt", "a.txt.gz"}) {
    options_.inputs = {path(name)};
    EXPECT_THAT(error(), HasSubstr(std::string(name) + ", byte "));
  }
  options_.most_bytes = size_t{4} << 20;
  options_.inputs = {path("a.jsonl.gz")};
  EXPECT_EQ(prepare(options_).documents, 2u);
}

TEST_F(Prepare, ATextThatCanBeCutHasNoLimit) {
  std::string text;
  while (text.size() < 3 << 20) text += "the cat sat on the mat\n";
  write("a.txt", text);
  options_.inputs = {path("a.txt")};
  options_.most_bytes = size_t{1} << 20;
  EXPECT_EQ(prepare(options_).input_bytes, text.size());
}

TEST_F(Prepare, EndsEachDocumentWithTheEndOfTextId) {
  write("a.jsonl",
        "{\"text\": \"the cat\"}\n\n{\"meta\": [1, {}], \"text\": \"\"}\n{\"text\": \"the <|endoftext|> dog\"}");
  options_.inputs = {path("a.jsonl")};
  options_.split.val_fraction = 0;
  const PrepareReport report = prepare(options_);
  EXPECT_EQ(report.documents, 3u);
  EXPECT_EQ(decoded("train.bin"), "the cat<|endoftext|><|endoftext|>the <|endoftext|> dog<|endoftext|>");
  const std::vector<uint16_t> ids = tokens("train.bin");
  EXPECT_EQ(std::count(ids.begin(), ids.end(), 0), 3);  // the one in the text is text
  EXPECT_FALSE(fs::exists(path("out/val.bin")));
}

TEST_F(Prepare, SplitsDocumentsByThePermutation) {
  std::string lines;
  for (int i = 0; i < 20; ++i) lines += "{\"body\": \"<" + std::to_string(i) + ">\"}\n";
  write("a.jsonl", lines);
  options_.inputs = {path("a.jsonl")};
  options_.json_key = "body";
  options_.split.val_fraction = 0.1;
  prepare(options_);
  EXPECT_EQ(decoded("val.bin"), "<10><|endoftext|><12><|endoftext|>");
  EXPECT_THAT(decoded("train.bin"), testing::StartsWith("<0><|endoftext|><1><|endoftext|>"));
  options_.split.order = DocumentOrder::openwebtext;
  prepare(options_);
  EXPECT_THAT(decoded("train.bin"), testing::StartsWith("<18><|endoftext|><3><|endoftext|>"));
}

/// Input that can be read twice is counted first and split at once, and again if lines are malformed; compressed input
/// is encoded and then split.
class DividedPrepare : public Prepare, public testing::WithParamInterface<int> {};
INSTANTIATE_TEST_SUITE_P(MalformedLines, DividedPrepare, testing::Values(0, 1, 100));

TEST_P(DividedPrepare, IsTheSameWhetherItWasCountedBeforeOrNot) {
  RandomStream random(3);
  std::string lines = "\n \t\n";
  const int malformed = GetParam();
  for (int i = 0; i < 5000; ++i) {
    lines += i % 50 == 7 && i / 50 < malformed ? "{\"text\": \"cut\n" : "{\"text\": \"the";
    for (uint64_t words = random.below(300); words > 0; --words) lines += words % 3 == 0 ? " dog" : " cat";
    lines += i % 9 == 0 ? "\"}\r\n\r\n" : "\"}\n";
  }
  write("a.jsonl", lines);
  write("b.jsonl.gz", gzip(lines));
  write("c.txt", "the log");
  for (const double val_fraction : {0.0005, 0.3, 0.9}) {
    for (const uint64_t most : {uint64_t{0}, uint64_t{1001}}) {
      options_.split.val_fraction = val_fraction;
      options_.most_documents = most;
      std::vector<std::string> results;
      for (const char* name : {"a.jsonl", "b.jsonl.gz"}) {
        options_.inputs = {path(name), path("c.txt")};
        const PrepareReport report = prepare(options_);
        EXPECT_EQ(report.skipped_lines > 0, malformed > 0);
        results.push_back(
            fmt::format("{} {} {} {}", report.documents, report.val_documents, report.train_tokens, report.val_tokens));
        for (const char* file : {"out/train.bin", "out/val.bin", "out/train.bin.json", "out/val.bin.json"})
          results.back() += read_text(path(file));
      }
      EXPECT_EQ(results[0], results[1]) << val_fraction << " " << most;
    }
  }
}

TEST_F(Prepare, TakesSeveralTextsAsDocumentsInOrder) {
  fs::create_directories(folder_ / "texts/deep");
  write("texts/b.txt", "second");
  write("texts/a.txt", "first");
  write("texts/deep/c.txt", "third");
  write("texts/empty.txt", "");
  write("texts/readme.md", "not read");
  options_.inputs = {path("texts")};
  options_.split.val_fraction = 0;
  const PrepareReport report = prepare(options_);
  EXPECT_EQ(decoded("train.bin"), "first<|endoftext|>second<|endoftext|>third<|endoftext|>");
  EXPECT_EQ(report.empty_files, 1u);
}

TEST_F(Prepare, NamesEmptyFilesOfLinesToo) {
  write("zero.jsonl", "");
  write("zero.jsonl.gz", gzip(""));
  write("lines.jsonl", "\n\n");
  options_.inputs = {path("zero.jsonl") + "," + path("lines.jsonl") + "," + path("zero.jsonl.gz")};
  EXPECT_THAT(error(), HasSubstr("the input has no documents (0 malformed lines, 2 empty files)"));
  write("a.jsonl", "{\"text\": \"the cat\"}\n");
  options_.inputs = {path("zero.jsonl"), path("a.jsonl")};
  options_.split.val_fraction = 0;
  testing::internal::CaptureStderr();
  EXPECT_EQ(prepare(options_).empty_files, 1u);
  EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("zero.jsonl: it is empty"));
  EXPECT_EQ(decoded("train.bin"), "the cat<|endoftext|>");
}

TEST_F(Prepare, GivesTheSameFilesForAnyNumberOfThreads) {
  RandomStream random(1);
  const char* words[] = {"the", " cat", " sat", " on", " mat", "\n", " log"};
  std::string text, lines;
  while (text.size() < 3'000'000) text += words[random.below(7)];
  while (lines.size() < 3'000'000) {
    lines += "{\"text\": \"";
    for (uint64_t i = random.below(2000); i > 0; --i) lines += words[random.below(5)];
    lines += "\"}\n";
  }
  write("a.txt", text);
  write("b.jsonl", lines);
  options_.inputs = {path("a.txt"), path("b.jsonl")};
  options_.threads = 1;
  prepare(options_);
  const std::string train = read_text(path("out/train.bin")), val = read_text(path("out/val.bin"));
  const std::string json = read_text(path("out/train.bin.json"));
  EXPECT_THAT(decoded("train.bin"), testing::StartsWith(text + "<|endoftext|>"));
  options_.threads = 7;
  prepare(options_);
  EXPECT_EQ(read_text(path("out/train.bin")), train);
  EXPECT_EQ(read_text(path("out/val.bin")), val);
  EXPECT_EQ(read_text(path("out/train.bin.json")), json);
}

TEST_F(Prepare, WritesASidecarThatFits) {
  write("one.txt", "the cat sat on the mat");
  options_.inputs = {path("one.txt")};
  prepare(options_);
  const auto sidecar = read_sidecar(path("out/train.bin"));
  ASSERT_TRUE(sidecar);
  EXPECT_EQ(sidecar->tokens, tokens("train.bin").size());
  EXPECT_EQ(sidecar->documents, 1u);
  const auto tokenizer = load_tokenizer(path("out/tokenizer.json"));
  EXPECT_EQ(sidecar->vocabulary, tokenizer->vocabulary_size());
  EXPECT_EQ(sidecar->tokenizer_hash, hex64(tokenizer->hash()));
  const std::string bytes = read_text(path("out/train.bin"));
  ASSERT_EQ(sidecar->block_hashes.size(), 1u);
  EXPECT_EQ(sidecar->block_hashes[0], xxh3(std::as_bytes(std::span(bytes))));
}

TEST_F(Prepare, MakesACharacterVocabulary) {
  write("one.txt", "b\u00e9a b\u00e9a b");
  options_.inputs = {path("one.txt")};
  options_.tokenizer = "char";
  prepare(options_);
  EXPECT_EQ(tokens("train.bin"), (std::vector<uint16_t>{2, 3, 1, 0, 2, 3, 1, 0}));  // space a b e-acute
  EXPECT_EQ(tokens("val.bin"), std::vector<uint16_t>{2});
  EXPECT_EQ(load_tokenizer(path("out/tokenizer.json"))->vocabulary_size(), 4u);
}

TEST_F(Prepare, NamesTheByteThatIsNotACharacter) {
  write("one.txt", std::string(1'000'003, 'a') + "\xff" + std::string(1'000'000, 'b') + "\xff");
  options_.inputs = {path("one.txt")};
  options_.tokenizer = "char";
  EXPECT_THAT(error(), HasSubstr("one.txt: the byte at offset 1000003 is not valid UTF-8"));
}

TEST_F(Prepare, AddsEndOfTextToACharacterVocabularyOfDocuments) {
  write("a.jsonl", "{\"text\": \"ba\"}\n{\"text\": \"<|endoftext|>\"}\n");
  options_.inputs = {path("a.jsonl")};
  options_.tokenizer = "char";
  options_.split.val_fraction = 0;
  prepare(options_);
  EXPECT_EQ(decoded("train.bin"), "ba<|endoftext|><|endoftext|><|endoftext|>");
  EXPECT_EQ(tokens("train.bin").size(), 2u + 1 + 13 + 1);
}

TEST_F(Prepare, RefusesEmptyInput) {
  write("one.txt", "");
  options_.inputs = {path("one.txt")};
  EXPECT_THAT(error(), HasSubstr("one.txt with 0 bytes"));
  write("a.jsonl", "\n\n");
  options_.inputs = {path("a.jsonl")};
  EXPECT_THAT(error(), HasSubstr("the input has no documents (0 malformed lines, 0 empty files)"));
  write("one.txt", "x");
  options_.inputs = {path("one.txt")};
  EXPECT_THAT(error(), HasSubstr("one.txt has 1 characters, too few to split"));
}

TEST_F(Prepare, SkipsAndCountsMalformedLines) {
  write("a.jsonl",
        "{\"text\": \"good\"}\n{\"text\": 5}\n{\"txt\": \"x\"}\n{\"text\": \"cut\n[1]\n{\"text\": \"a\", \"text\": "
        "\"b\"}\n"
        "{\"text\": \"\\ud83d\"}\n{\"text\": \"\xff\"}\n{\"text\": \"end\", \"n\": 1e99999}\n{\"text\": \"end\"}");
  options_.inputs = {path("a.jsonl")};
  options_.split.val_fraction = 0;
  testing::internal::CaptureStderr();
  const PrepareReport report = prepare(options_);
  const std::string log = testing::internal::GetCapturedStderr();
  EXPECT_EQ(report.skipped_lines, 8u);
  EXPECT_EQ(decoded("train.bin"), "good<|endoftext|>end<|endoftext|>");
  EXPECT_THAT(log, HasSubstr("a.jsonl, line 2: \"text\" is not a string"));
  EXPECT_THAT(log, HasSubstr("a.jsonl, line 3: \"text\" is missing"));
  EXPECT_THAT(log, HasSubstr("a.jsonl, line 4: not valid JSON"));
  EXPECT_THAT(log, HasSubstr("a.jsonl, line 5: the line is not a JSON object"));
  EXPECT_THAT(log, HasSubstr("a.jsonl, line 6: \"text\" appears twice"));
  EXPECT_THAT(log, HasSubstr("a.jsonl, line 7: not valid JSON"));
  EXPECT_THAT(log, HasSubstr("a.jsonl, line 8: not valid JSON"));
  options_.strict = true;
  options_.output = path("strict");
  EXPECT_THAT(error(), HasSubstr("a.jsonl, line 2: \"text\" is not a string; without --strict such lines are skipped"));
}

TEST_F(Prepare, ACharacterThatIsNotInTheVocabularyIsNamedWithItsPlace) {
  write("letters.txt", "abc \n\u00e9{}\":[]txe");
  options_.inputs = {path("letters.txt")};
  options_.tokenizer = "char";
  options_.output = path("letters");
  prepare(options_);
  options_.tokenizer = path("letters") + "/tokenizer.json";
  options_.output = path("out");
  const auto said = [&](const std::string& name, const std::string& text) {
    write(name, text);
    options_.inputs = {path(name)};
    return error();
  };
  constexpr const char* kMissing = "the text has \"Z\", which is missing from the tokenizer's vocabulary";
  EXPECT_THAT(said("one.txt", "abc\nab\u00e9 Zc\nabc"), HasSubstr("one.txt, line 2, column 5: "));
  EXPECT_THAT(said("one.txt", "Zabc"), HasSubstr("one.txt, line 1, column 1: "));
  EXPECT_THAT(said("one.txt", "abc\n\nZ"), HasSubstr("one.txt, line 3, column 1: "));
  std::string lines;
  for (int i = 0; i < 300'000; ++i) lines += "abc abc\n";  // more than a chunk
  EXPECT_THAT(said("one.txt", lines + "aZ\n" + lines), HasSubstr("one.txt, line 300001, column 2: "));
  EXPECT_THAT(error(), HasSubstr(kMissing));
}

TEST_F(Prepare, TextInAnotherEncodingIsRefusedOrConverted) {
  std::string latin, utf8;
  for (int i = 0; i < 50; ++i) latin += "caf\xE9 na\xEFve\n", utf8 += "caf\u00e9 na\u00efve\n";
  write("one.txt", latin);
  options_.inputs = {path("one.txt")};
  EXPECT_THAT(error(),
              HasSubstr("one.txt: not UTF-8 from byte 3 on: it seems to be text in ISO-8859-1 (100 of the first "));
  EXPECT_FALSE(std::filesystem::exists(path("out") + "/train.bin"));
  options_.encoding = input_encoding_from("ISO-8859-1");
  options_.train_fraction = 1;
  prepare(options_);
  EXPECT_EQ(decoded("train.bin"), utf8);
  options_.encoding = input_encoding_from("utf-8");
  prepare(options_);
  EXPECT_EQ(decoded("train.bin"), latin);
}

TEST_F(Prepare, WritesIdsOf32BitsWhereTheVocabularyNeedsThem) {
  write("one.txt", "xyyxy");
  options_.inputs = {path("one.txt")};
  options_.tokenizer = path("large.json");
  options_.train_fraction = 1;
  BpeDescription tokenizer;
  tokenizer.vocabulary = {{"x", 1}, {"y", 65535}};
  write("large.json", write_tokenizer_json(tokenizer));
  prepare(options_);
  const std::string narrow = read_text(path("out/train.bin"));
  EXPECT_EQ(narrow, std::string("\x01\0\xff\xff\xff\xff\x01\0\xff\xff", 10));
  EXPECT_EQ(read_sidecar(path("out/train.bin"))->dtype, "uint16");

  tokenizer.vocabulary = {{"x", 1}, {"y", 65536}};
  write("large.json", write_tokenizer_json(tokenizer));
  EXPECT_EQ(prepare(options_).train_tokens, 5u);
  EXPECT_EQ(read_text(path("out/train.bin")), std::string("\x01\0\0\0\0\0\x01\0\0\0\x01\0\x01\0\0\0\0\0\x01\0", 20));
  EXPECT_EQ(read_sidecar(path("out/train.bin"))->dtype, "int32");
  EXPECT_EQ(read_sidecar(path("out/train.bin"))->vocabulary, 65537u);
  const TokenDataset read(path("out/train.bin"), 65537, true);
  std::vector<TokenId> ids(read.size());
  for (size_t i = 0; i < ids.size(); ++i) ids[i] = read.tokens()[i];
  EXPECT_EQ(load_tokenizer(path("out/tokenizer.json"))->decode(ids), "xyyxy");
}

/// Division and order move documents of 32-bit ids as they move those of 16 bits.
TEST_F(Prepare, DividesDocumentsOf32BitIds) {
  std::string lines;
  for (int i = 0; i < 40; ++i) lines += "{\"text\": \"" + std::string(static_cast<size_t>(1 + i % 5), 'x') + "y\"}\n";
  write("docs.jsonl", lines);
  options_.inputs = {path("docs.jsonl")};
  options_.tokenizer = path("large.json");
  const auto ids = [&](uint32_t y, const SplitRule& split) {
    BpeDescription tokenizer;
    tokenizer.vocabulary = {{"x", 1}, {"<|endoftext|>", 2}, {"y", y}};
    write("large.json", write_tokenizer_json(tokenizer));
    options_.split = split;
    prepare(options_);
    std::vector<TokenId> all;
    for (const char* name : {"out/train.bin", "out/val.bin"}) {
      const TokenDataset read(path(name), 0, true);
      EXPECT_EQ(read.tokens().width(), y < 65536 ? 2u : 4u);
      for (uint64_t i = 0; i < read.size(); ++i) all.push_back(read.tokens()[i] == y ? 3 : read.tokens()[i]);
      all.push_back(0);
    }
    return all;
  };
  for (const DocumentOrder order : {DocumentOrder::input, DocumentOrder::openwebtext}) {
    const SplitRule split{.val_fraction = 0.3, .order = order};
    EXPECT_EQ(ids(131000, split), ids(3, split));
  }
}

TEST_F(Prepare, AsksForAnEndOfTextToken) {
  BpeDescription tokenizer;
  tokenizer.vocabulary = {{"a", 0}, {"b", 1}};
  write("bare.json", write_tokenizer_json(tokenizer));
  write("a.jsonl", "{\"text\": \"a\"}\n");
  options_.inputs = {path("a.jsonl")};
  options_.tokenizer = path("bare.json");
  EXPECT_THAT(error(), HasSubstr("has no end-of-text token to write between documents; name one with --end-of-text"));
  options_.end_of_text = "c";
  EXPECT_THAT(error(), HasSubstr("has no token \"c\" to write between documents"));
  options_.end_of_text = "b";
  options_.split.val_fraction = 0;
  prepare(options_);
  EXPECT_EQ(tokens("train.bin"), (std::vector<uint16_t>{0, 1}));
}

TEST_F(Prepare, LeavesNoFilesWhenStopped) {
  write("one.txt", "the cat sat on the mat");
  options_.inputs = {path("one.txt")};
  const std::atomic<bool> stop{true};
  options_.stop = &stop;
  EXPECT_EQ(error(ErrorKind::stopped), "stopped before the end");  // while characters are counted
  options_.inputs = {path("one.txt"), path("one.txt")};
  EXPECT_EQ(error(ErrorKind::stopped), "stopped before the end; nothing of this run is left");
}

TEST_F(Prepare, KeepsEarlierFilesWhenItFails) {
  write("one.txt", "the cat sat on the mat");
  options_.inputs = {path("one.txt")};
  prepare(options_);
  const std::string before = read_text(path("out/train.bin"));
  const std::atomic<bool> stop{true};
  options_.stop = &stop;
  EXPECT_THROW(prepare(options_), Error);
  EXPECT_EQ(read_text(path("out/train.bin")), before);
}

TEST_F(Prepare, ReplacesWhatALinkNamesAndKeepsTheLink) {
  write("one.txt", "the cat sat on the mat");
  write("elsewhere.bin", "earlier");
  fs::create_directory(folder_ / "out");
  fs::create_symlink(folder_ / "elsewhere.bin", folder_ / "out/train.bin");
  options_.inputs = {path("one.txt")};
  prepare(options_);
  EXPECT_TRUE(fs::is_symlink(folder_ / "out/train.bin"));
  fs::remove(folder_ / "out/train.bin");
  const std::string through_link = read_text(path("elsewhere.bin"));
  prepare(options_);
  EXPECT_EQ(read_text(path("out/train.bin")), through_link);
}

TEST_F(Prepare, RemovesAValFileThatIsNotItsOwn) {
  write("a.jsonl", "{\"text\": \"a\"}\n{\"text\": \"b\"}\n");
  options_.inputs = {path("a.jsonl")};
  prepare(options_);
  EXPECT_TRUE(fs::exists(path("out/val.bin")));
  options_.split.val_fraction = 0;
  prepare(options_);
  EXPECT_FALSE(fs::exists(path("out/val.bin")));
  EXPECT_FALSE(fs::exists(path("out/val.bin.json")));
}

TEST_F(Prepare, NamesInputsThatItCannotRead) {
  options_.inputs = {path("absent.txt")};
  EXPECT_THAT(error(ErrorKind::io), HasSubstr("absent.txt does not exist"));
  write("a.doc", "x");
  options_.inputs = {path("a.doc")};
  EXPECT_THAT(error(ErrorKind::usage), HasSubstr("a.doc: unknown format"));
  fs::create_directories(folder_ / "enwik8");
  write("enwik8/enwik8.zip", "PK");
  options_.inputs = {path("enwik8")};
  EXPECT_THAT(error(ErrorKind::io),
              HasSubstr("enwik8 has no .txt, .jsonl, .tar or .parquet files; not read: enwik8.zip (compressed in a way "
                        "that is not read: unpack it first; if the"));
}

TEST_F(Prepare, NamesEachFileOfAFolderThatItLeavesOut) {
  fs::create_directories(folder_ / "mixed/sub");
  write("mixed/a.jsonl", "{\"text\": \"x\"}\n");
  const std::pair<const char*, const char*> left_out[] = {
      {"b.jsonl.bz2", "compressed in a way that is not read: unpack it first"},
      {"c.jsonl.XZ", "compressed in a way"},
      {"sub/d.arrow", "Arrow: write Parquet instead, with Python's datasets: load_from_disk("},
      {"e.csv", "a table: write its texts as jsonl or Parquet"},
      {"f.jl", "its name does not show that it is text; if it is, use --input FILE --input-format txt or jsonl"},
      {"README.md", "its name does not show that it is text"},
      {"g.parquet.gz", "its name does not show"}};
  for (const auto& [name, reason] : left_out) write("mixed/" + std::string(name), "text");
  write("mixed/picture", std::string("\x89PNG\r\n\x1a\n", 8));
  write("mixed/.hidden.csv", "x");
  write("mixed/train.bin", "x");
  for (int i = 0; i < 30; ++i) write(fmt::format("mixed/many{:02}.csv", i), "x");
  testing::internal::CaptureStderr();
  EXPECT_EQ(list_inputs({path("mixed")}).size(), 1U);
  const std::string said = testing::internal::GetCapturedStderr();
  for (const auto& [name, reason] : left_out) {
    EXPECT_THAT(said, HasSubstr(name));
    EXPECT_THAT(said, HasSubstr(reason));
  }
  EXPECT_THAT(said, HasSubstr("picture (a picture (PNG))"));
  EXPECT_THAT(said, HasSubstr("many08.csv and 21 others (a table"));
  EXPECT_THAT(said, testing::Not(testing::AnyOf(HasSubstr("hidden"), HasSubstr("train.bin"), HasSubstr("a.jsonl,"))));
  EXPECT_EQ(list_inputs({path("mixed")}, InputKind::json_lines).size(), 39U) << "all, where the format is given";
}

TEST_F(Prepare, NamesTheArrowFilesOfSaveToDisk) {
  fs::create_directories(folder_ / "saved/train");
  for (const char* name : {"dataset_dict.json", "train/dataset_info.json", "train/state.json"})
    write("saved/" + std::string(name), "{\n  \"splits\": [\"train\"]\n}\n");
  write("saved/train/data-00000-of-00001.arrow", "x");
  options_.inputs = {path("saved")};
  const std::string said = error(ErrorKind::io);
  EXPECT_THAT(said, HasSubstr("saved has no .txt, .jsonl, .tar or .parquet files; not read: "
                              "train/data-00000-of-00001.arrow (Arrow: write Parquet instead"));
  EXPECT_THAT(said,
              HasSubstr("dataset_dict.json, train/dataset_info.json, train/state.json (it only describes the Arrow"));
  write("saved/train/state.json", "{\"text\": \"x\"}\n");
  fs::remove(path("saved/train/data-00000-of-00001.arrow"));
  EXPECT_EQ(list_inputs({path("saved")}).size(), 3U) << "without Arrow files they are data like others";
}

TEST_F(Prepare, TakesGlobsAndCommaLists) {
  write("x1.txt", "one");
  write("x2.txt", "two");
  write("y.txt", "three");
  options_.inputs = {path("x*.txt") + ",, " + path("y.txt")};
  EXPECT_THAT(error(ErrorKind::usage), HasSubstr("--input has an empty name in \""));
  options_.inputs = {path("x*.txt") + " , " + path("y.txt")};
  options_.split.val_fraction = 0;
  prepare(options_);
  EXPECT_EQ(decoded("train.bin"), "one<|endoftext|>two<|endoftext|>three<|endoftext|>");
}

}  // namespace
}  // namespace trireme
