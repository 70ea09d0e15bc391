#include "data/prepare/input_parts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>
#include <zlib.h>

#include <filesystem>
#include <functional>

#include "base/file.h"
#include "data/prepare/byte_source.h"
#include "data/prepare/document_chunks.h"
#include "tests/support/archives.h"
#include "tests/support/expect_error.h"
#include "tests/support/temporary_folder.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class Parts : public testing::Test {
 protected:
  std::string write(const std::string& name, const std::string& bytes) const {
    write_text(folder_ / name, bytes);
    return folder_ / name;
  }
  static std::string content(ByteSource& source) {
    std::string all;
    char buffer[777];
    while (const size_t n = source.read(buffer, sizeof buffer)) all.append(buffer, n);
    return all;
  }
  /// "NAME=CONTENT" of every part, without the folder.
  std::vector<std::string> parts(const std::vector<std::string>& inputs, InputPlace from = {}) const {
    const std::vector<InputFile> files = list_inputs(inputs);
    InputParts reader(files, {"text"}, from);
    std::vector<std::string> found;
    while (reader.next())
      found.push_back(reader.name()->substr(folder_.path().size() + 1) + "=" + content(reader.source()));
    return found;
  }
  TemporaryFolder folder_;
};

TEST_F(Parts, AreFilesAndTheFilesOfArchives) {
  const std::string tar =
      tar_of({{"a.jsonl", "{}\n"}, {"readme.md", "no"}, {"deep/b.txt.gz", gzip("text")}, {"empty.txt", ""}});
  const std::vector<std::string> inside = {"a.jsonl={}\n", "deep/b.txt.gz=text", "empty.txt="};
  for (const auto& [name, bytes] : {std::pair{"x.tar", tar},
                                    {"x.tar.gz", gzip(tar)},
                                    {"x.tgz", gzip(tar)},
                                    {"x.tar.zst", zstd(tar)},
                                    {"x.jsonl.zst.tar", tar}}) {
    std::vector<std::string> expected;
    for (const std::string& part : inside) expected.push_back(std::string(name) + ":" + part);
    EXPECT_EQ(parts({write(name, bytes)}), expected) << name;
  }
  write("b.txt", "B");
  EXPECT_EQ(
      parts({folder_ / "x.tar", folder_ / "b.txt"}),
      (std::vector<std::string>{"x.tar:a.jsonl={}\n", "x.tar:deep/b.txt.gz=text", "x.tar:empty.txt=", "b.txt=B"}));
}

TEST_F(Parts, BeginAtAnyPart) {
  write("a.tar", tar_of({{"1.txt", "one"}, {"2.txt", "two"}}));
  write("b.txt", "B");
  const std::vector<std::string> both = {folder_ / "a.tar", folder_ / "b.txt"};
  EXPECT_EQ(parts(both, {0, 1, 0, 1}), (std::vector<std::string>{"a.tar:2.txt=two", "b.txt=B"}));
  EXPECT_EQ(parts(both, {0, 2, 0, 1}), std::vector<std::string>{"b.txt=B"});
  EXPECT_EQ(parts(both, {1, 0, 0, 1}), std::vector<std::string>{"b.txt=B"});
  EXPECT_EQ(parts(both, {2, 0, 0, 1}), std::vector<std::string>{});
}

TEST_F(Parts, OfAllFormsOfLongNames) {
  const std::string longest = std::string(150, 'd') + "/" + std::string(120, 'n') + ".txt";
  const std::string gnu = tar_entry("././@LongLink", longest + '\0', 'L') + tar_entry("cut", "1", '0');
  const std::string record = " path=" + longest + "\n";
  const std::string pax = std::to_string(record.size() + 3) + record;
  const std::string posix = tar_entry("PaxHeaders/x", pax, 'x') + tar_entry("cut", "2", '0');
  write("x.tar", gnu + posix + tar_entry("folder/", "", '5') + tar_entry("c.txt", "3", '\0') + std::string(1024, '\0'));
  EXPECT_EQ(parts({folder_ / "x.tar"}),
            (std::vector<std::string>{"x.tar:" + longest + "=1", "x.tar:" + longest + "=2", "x.tar:c.txt=3"}));
}

TEST_F(Parts, OfADamagedArchiveAreRefused) {
  const std::string good = tar_of({{"a.txt", std::string(1000, 'x')}});
  const auto read = [&](const std::string& bytes) { return parts({write("x.tar", bytes)}); };
  EXPECT_ERROR(read("just text, and long enough for a header block" + std::string(600, '.')), ErrorKind::data,
               "x.tar is not a tar archive");
  EXPECT_ERROR(read(""), ErrorKind::data, "x.tar is not a tar archive: it is empty");
  EXPECT_ERROR(read(good.substr(0, 300)), ErrorKind::data, "x.tar is truncated in a header");
  EXPECT_ERROR(read(good.substr(0, 1200)), ErrorKind::data, "x.tar is truncated in a.txt");
  std::string damaged = good + good;
  damaged.resize(good.size());
  damaged[1536 + 3] = 'y';  // the end block, read as a header
  EXPECT_ERROR(read(damaged), ErrorKind::data, "x.tar is damaged: the checksum of a header is wrong");
}

TEST_F(Parts, ChunksContinueAtAnyOfTheirEnds) {
  std::string lines, text;
  for (int i = 0; i < 3000; ++i) {
    lines += "{\"text\": \"" + std::to_string(i) + "\"}\n";
    text += "word" + std::to_string(i) + " ";
  }
  write("a.jsonl.gz", gzip(lines));
  write("b.tar.zst", zstd(tar_of({{"c.txt", text}, {"d.jsonl", lines}})));
  write("e.txt", text);
  const std::vector<InputFile> files =
      list_inputs({folder_ / "a.jsonl.gz," + (folder_ / "b.tar.zst") + "," + (folder_ / "e.txt")});
  const auto cut = [](std::string_view bytes, size_t near) {
    const size_t at = bytes.find(' ', near);
    return at == std::string_view::npos ? bytes.size() : at;
  };
  struct Seen {
    std::string text;
    uint64_t line;
    InputPlace after;
  };
  const auto read = [&](InputPlace from) {
    DocumentChunks chunks(files, cut, {.border = 0, .columns = {"text"}, .from = from, .target_bytes = 2000});
    std::vector<Seen> seen;
    for (DocumentChunk chunk; chunks.next(chunk);)
      seen.push_back({std::string(chunk.text()), chunk.first_line, chunk.after});
    return seen;
  };
  const std::vector<Seen> all = read({});
  ASSERT_GT(all.size(), 60u);
  for (size_t i = 0; i < all.size(); i += 7) {
    std::string expected, found;
    for (size_t k = i + 1; k < all.size(); ++k) expected += all[k].text;
    const std::vector<Seen> rest = read(all[i].after);
    for (const Seen& chunk : rest) found += chunk.text;
    EXPECT_EQ(found, expected) << i;
    if (!rest.empty() && i + 1 < all.size()) {
      EXPECT_EQ(rest[0].line, all[i + 1].line) << i;
    }
  }
}

TEST_F(Parts, ChunksOfADividedTextEndAtEveryBorder) {
  std::string text;
  std::vector<size_t> begins;  // of characters
  for (int i = 0; i < 150; ++i) {
    const std::string word = (i % 3 == 0 ? "\u00e9\u4e2d" : i % 5 == 0 ? "a" : "word") + std::string(" ");
    for (size_t at = 0; at < word.size(); ++at) {
      if ((static_cast<uint8_t>(word[at]) & 0xC0) != 0x80) begins.push_back(text.size() + at);
    }
    text += word;
  }
  write("a.txt", text);
  const std::vector<InputFile> files = list_inputs({folder_ / "a.txt"});
  const auto before_space = [](std::string_view bytes, size_t near) {
    const size_t at = bytes.find(' ', near);
    return at == std::string_view::npos ? bytes.size() : at;
  };
  const auto nowhere = [](std::string_view bytes, size_t) { return bytes.size(); };
  for (const DocumentChunks::Cut& cut : {DocumentChunks::Cut(before_space), DocumentChunks::Cut(nowhere)}) {
    for (uint64_t border = 1; border < begins.size(); ++border) {
      InputPlace from;
      std::vector<std::string> documents(1);
      while (true) {  // each chunk by a new reader, which resumes where the previous one stopped
        DocumentChunks chunks(files, cut, {.border = border, .columns = {"text"}, .from = from, .target_bytes = 64});
        DocumentChunk chunk;
        if (!chunks.next(chunk)) break;
        ASSERT_GT(chunk.size, 0u) << border;
        documents.back() += chunk.text();
        if (chunk.ends_document) documents.emplace_back();
        from = chunk.after;
      }
      ASSERT_EQ(documents, (std::vector<std::string>{text.substr(0, begins[border]), text.substr(begins[border]), ""}))
          << border;
    }
  }
}

/// A Parquet file of two row groups with the columns id and text; the last text is null.
constexpr const char* kParquet =
    "504152311500151c151c2c15041500150615061c00000002000000040101000000020000001500154e154e2c15041500150615061c00"
    "000002000000040105000000706c61696e140000006c696e650a2271756f74656422205c200120c3a91500151415142c150215001506"
    "15061c000000020000000201030000001500150c150c2c15021500150615061c0000000200000002001504193c35001806736368656d"
    "61150400150225021802696400150c250218047465787425004c1c0000001606192c192c26001c150219250600191802696415001604"
    "164216422608491c150015001502003c29061926000400000026001c150c19250600191804746578741500160416741674264a491c15"
    "0015001502003c163219061926000400000016b6011604260816b60100192c26001c150219250600191802696415001602163a163a26"
    "be01491c150015001502003c29061926000200000026001c150c1925060019180474657874150016021632163226f801491c15001500"
    "1502003c1600190619260200000000166c160226be01166c002820706172717565742d6370702d6172726f772076657273696f6e2032"
    "362e302e31192c1c00001c0000002901000050415231";

std::string from_hex(std::string_view hex) {
  std::string bytes;
  for (size_t i = 0; i < hex.size(); i += 2)
    bytes += static_cast<char>(std::stoi(std::string(hex.substr(i, 2)), nullptr, 16));
  return bytes;
}

std::string message_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& e) {
    return e.what();
  }
  return {};
}

TEST_F(Parts, OfParquetAreLinesOfItsColumn) {
  write("broken.parquet", "PAR1");
  write("x.parquet", from_hex(kParquet));
  EXPECT_ERROR(parts({folder_ / "broken.parquet"}), ErrorKind::data, "is not a Parquet file or is damaged");
  EXPECT_EQ(parts({folder_ / "x.parquet"}),
            std::vector<std::string>{"x.parquet={\"text\": \"plain\"}\n"
                                     "{\"text\": \"line\\u000a\\\"quoted\\\" \\\\ \\u0001 \xC3\xA9\"}\n{}\n"});
  const auto of_column = [&](const char* name) {
    const std::vector<InputFile> files = list_inputs({folder_ / "x.parquet"});
    return message_of([&] { InputParts(files, {name}, {}).next(); });
  };
  EXPECT_NE(of_column("body").find("x.parquet: column \"body\" is missing"), std::string::npos) << of_column("body");
  EXPECT_NE(of_column("id").find("column \"id\" has int32, expected strings"), std::string::npos);
}

TEST_F(Parts, AreNeverWhatThisProgramWrote) {
  for (const char* name :
       {"enron.jsonl", "enron_text_document.bin", "enron_text_document.idx", "enron_text_document.bin.json",
        "train.bin", "train.bin.json", "tokenizer.json", "meta.json", ".hidden.jsonl"})
    write(name, "{}\n");
  for (const char* folder : {".prepare", ".enron.prepare", "sub/.cache"}) {
    fs::create_directories(folder_ / folder);
    write(std::string(folder) + "/state.json", "{}");
    write(std::string(folder) + "/part.txt", "no");
  }
  write("sub/more.json", "{}\n");  // a name that this program does not use
  fs::create_directories(folder_ / "apart");
  write("apart/tokenizer.json", "{}\n");  // without a token file beside it: user data
  const std::vector<std::string> expected{"apart/tokenizer.json={}\n", "enron.jsonl={}\n", "sub/more.json={}\n"};
  EXPECT_EQ(parts({folder_.path()}), expected);
  EXPECT_EQ(parts({folder_ / "*.json*"}), std::vector<std::string>{"enron.jsonl={}\n"});
  EXPECT_ERROR(list_inputs({folder_ / "*.bin.json"}), ErrorKind::io,
               "has only files that `trireme prepare` or a run wrote");
  EXPECT_ERROR(list_inputs({folder_ / "train.bin.json"}), ErrorKind::usage, "describes an existing token file");
}

TEST_F(Parts, AreConvertedOrRefusedByTheirEncoding) {
  std::string utf16("\xFF\xFE", 2), text;
  for (int i = 0; i < 400; ++i) text += "a line of plain text\n";
  for (const char c : text) utf16 += std::string{c, '\0'};
  const std::pair<const char*, std::string> files[] = {{"a.txt", utf16},
                                                       {"a.txt.gz", gzip(utf16)},
                                                       {"a.txt.zst", zstd(utf16)},
                                                       {"a.tar", tar_of({{"a.txt", utf16}})},
                                                       {"a.jsonl", utf16}};
  for (const auto& [name, bytes] : files) {
    const std::string path = write(name, bytes);
    EXPECT_ERROR(parts({path}), ErrorKind::data, "it seems to be text in UTF-16LE");
    const std::vector<InputFile> list = list_inputs({path}, {}, input_encoding_from("UTF-16"));
    InputParts reader(list, {"text"});
    ASSERT_TRUE(reader.next());
    EXPECT_EQ(content(reader.source()), text) << name;
    const std::vector<InputFile> raw = list_inputs({path}, {}, input_encoding_from("utf-8"));
    InputParts plain(raw, {"text"});
    ASSERT_TRUE(plain.next());
    EXPECT_EQ(content(plain.source()), utf16) << name;
  }
}

TEST_F(Parts, ThatAreNoTextAreNamed) {
  std::string text;
  for (int i = 0; i < 400; ++i) text += "a line of plain text\n";
  const std::pair<std::string, const char*> files[] = {
      {gzip(text),
       "a.txt: is a gzip file, not text; give the text that it contains, or use its bytes unchanged with "
       "--encoding utf-8"},
      {zstd(text), "is a zstd file"},
      {"%PDF-1.7\n" + text, "is a PDF document"},
      {std::string("PK\3\4\x14\0\0\0\x08\0\0\0\0\0\0\0\0\0\5\0\0\0\5\0\0\0\5\0\0\0a.txt", 35), "is a zip archive"},
      {std::string("LITPKDS\1\0\0\0\0\0\0\0\x08", 16), "is a packed dataset of LitGPT"}};
  for (const auto& [bytes, said] : files) {
    const std::string path = write("a.txt", bytes);
    EXPECT_ERROR(parts({path}), ErrorKind::data, said);
    const std::vector<InputFile> raw = list_inputs({path}, {}, input_encoding_from("utf-8"));
    InputParts plain(raw, {"text"});
    ASSERT_TRUE(plain.next());
    EXPECT_EQ(content(plain.source()), bytes) << said;
  }
}

TEST_F(Parts, BytesThatAreNotUtf8AreCounted) {
  std::string text;
  for (int i = 0; i < 40; ++i) text += "a line of plain text, as it is\n";
  const auto warnings = [&](const std::string& bytes) {
    const std::string path = write("a.txt", bytes);
    testing::internal::CaptureStderr();
    EXPECT_THAT(parts({path}), testing::SizeIs(1));
    return testing::internal::GetCapturedStderr();
  };
  EXPECT_EQ(warnings(text), "");
  EXPECT_THAT(warnings(text + "caf\xe9 \xff\n" + text),
              HasSubstr("a.txt: 2 of 2487 bytes are not UTF-8, the first is byte 1243; they are used unchanged"));
  EXPECT_THAT(warnings(text + "\xe2\x82"), HasSubstr("2 of 1242 bytes are not UTF-8, the first is byte 1240"));
  EXPECT_THAT(warnings(text + std::string(7, '\0') + text), HasSubstr("a.txt: 7 of 2487 bytes are NUL"));
}

TEST_F(Parts, AreNamedByTheirSuffixesOrByTheUser) {
  EXPECT_EQ(kind_of("a.JSONL.gz"), InputKind::json_lines);
  EXPECT_EQ(kind_of("a.tzst"), InputKind::archive);
  EXPECT_EQ(kind_of("a.parquet"), InputKind::parquet);
  EXPECT_EQ(kind_of("enwik8"), std::nullopt);
  write("enwik8", "x");
  EXPECT_ERROR(list_inputs({folder_ / "enwik8"}), ErrorKind::usage, "or use --input-format txt or jsonl");
  EXPECT_EQ(list_inputs({folder_ / "enwik8"}, InputKind::text)[0].kind, InputKind::text);
  EXPECT_EQ(list_inputs({"-"})[0].kind, InputKind::json_lines);
  EXPECT_ERROR(list_inputs({"-,-"}), ErrorKind::usage, "standard input (-) can only be given once");
  EXPECT_ERROR(input_kind_from("csv"), ErrorKind::usage, "--input-format is csv; expected auto, txt or jsonl");
}

}  // namespace
}  // namespace trireme
