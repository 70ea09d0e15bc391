#include "data/parquet/column.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "data/prepare/input_parts.h"
#include "tests/support/expect_error.h"
#include "tests/support/paths.h"
#include "tests/support/temporary_folder.h"

namespace trireme {
namespace {

constexpr int kRows = 300;

std::string sample(const std::string& name) { return source_dir() + "/tests/golden/parquet/" + name + ".parquet"; }

std::optional<std::string> text_of(int row) {
  if (row % 11 == 5) return std::nullopt;
  std::string text = fmt::format("row {} ", row);
  for (int i = 0; i < row % 7; ++i) text += "xyz";
  return text;
}

/// Every column as written by scripts/make_parquet_samples.py.
void expect_sample(const std::string& path) {
  const ParquetFile file(path);
  ASSERT_EQ(file.footer.rows, kRows);
  ParquetColumn text(file, *file.find("text")), label(file, *file.find("label")), small(file, *file.find("small")),
      score(file, *file.find("score")), wide(file, *file.find("wide")), flag(file, *file.find("flag"));
  ParquetCell cell;
  for (int row = 0; row < kRows; ++row) {
    ASSERT_TRUE(text.next(cell));
    ASSERT_EQ(cell.text ? std::optional(std::string(*cell.text)) : std::nullopt, text_of(row)) << row;
    ASSERT_TRUE(label.next(cell));
    ASSERT_EQ(cell.number, row % 3 - 1) << row;
    ASSERT_TRUE(small.next(cell));
    ASSERT_EQ(cell.number, row % 3) << row;
    ASSERT_TRUE(score.next(cell));
    ASSERT_EQ(cell.number, row * 0.25) << row;
    ASSERT_TRUE(wide.next(cell));
    ASSERT_EQ(cell.number, row * 0.125) << row;
    ASSERT_TRUE(flag.next(cell));
    ASSERT_EQ(cell.number, row % 13 == 0 ? std::nullopt : std::optional<double>(row % 2)) << row;
  }
  for (ParquetColumn* column : {&text, &label, &small, &score, &wide, &flag}) EXPECT_FALSE(column->next(cell));
}

void read_all(const std::string& path) {
  const ParquetFile file(path);
  for (const ParquetColumnFacts& facts : file.footer.columns) {
    ParquetColumn column(file, facts);
    ParquetCell cell;
    while (column.next(cell)) continue;
  }
}

TEST(Parquet, IsReadInEveryFormThatIsWrittenByDefault) {
  for (const char* codec : {"none", "snappy", "gzip", "zstd"}) {
    for (const char* version : {"v1", "v2"}) {
      for (const char* encoding : {"dictionary", "plain"}) {
        const std::string name = fmt::format("{}-{}-{}", codec, version, encoding);
        SCOPED_TRACE(name);
        expect_sample(sample(name));
      }
    }
  }
  expect_sample(sample("checksum"));
}

TEST(Parquet, WithoutRowsHasNone) {
  const ParquetFile file(sample("empty"));
  ParquetColumn text(file, *file.find("text"));
  ParquetCell cell;
  EXPECT_FALSE(text.next(cell));
}

TEST(Parquet, OfOtherFormsIsRefusedByTheirNames) {
  EXPECT_ERROR(read_all(sample("brotli")), ErrorKind::data,
               "uses the unsupported compression Brotli; supported: snappy, gzip and zstd");
  EXPECT_ERROR(
      read_all(sample("delta")), ErrorKind::data,
      "column \"text\" has the unsupported encoding DELTA_BYTE_ARRAY; supported: plain values and dictionaries");
  EXPECT_ERROR(read_all(sample("nested")), ErrorKind::data,
               "column \"words\" has lists or structures, which is unsupported; supported: ");
  const ParquetFile file(sample("nested"));
  EXPECT_EQ(file.describe(), "text (byte_array), words (list or structure), both (list or structure)");
  EXPECT_ERROR(open_parquet(sample("nested"), {"both"}), ErrorKind::data,
               "column \"both\" has lists or structures, expected strings");
}

TEST(Parquet, DamageNeverCrashesTheProgramOrOtherRuns) {
  const TemporaryFolder folder;
  const std::string path = folder / "damaged.parquet";
  size_t refused = 0, total = 0;
  for (const char* name : {"snappy-v1-dictionary", "zstd-v2-plain", "gzip-v1-plain", "none-v2-dictionary", "nested"}) {
    const std::string good = read_text(sample(name));
    for (size_t at = 0; at < good.size(); at += 37) {
      std::string bad = good;
      bad[at] = static_cast<char>(bad[at] ^ (1 << (at % 8)));
      if (at % 3 == 0) bad = good.substr(0, at) + good.substr(std::min(at + 5, good.size()));
      write_text(path, bad);
      ++total;
      try {
        read_all(path);
      } catch (const Error& e) {
        ++refused;
        ASSERT_EQ(e.kind(), ErrorKind::data) << e.what();
      }
    }
  }
  EXPECT_GT(refused, total / 2);
}

TEST(Parquet, OfAnotherChecksumIsRefused) {
  const TemporaryFolder folder;
  std::string bytes = read_text(sample("checksum"));
  const ParquetFile file(sample("checksum"));
  const ParquetChunk& chunk = file.footer.groups.at(0).chunks.at(0);
  const ParquetPage page = read_page_header(file.file.bytes().subspan(static_cast<size_t>(chunk.first_page)), "x");
  bytes[static_cast<size_t>(chunk.first_page) + page.header_bytes + 9] ^= 4;
  write_text(folder / "x.parquet", bytes);
  EXPECT_ERROR(read_all(folder / "x.parquet"), ErrorKind::data, "column \"text\" has a page with a wrong checksum");
}

TEST(Snappy, TakesCopiesThatOverlapAndRefusesWhatIsWrong) {
  const auto unpack = [](const std::string& from, size_t size) -> std::optional<std::string> {
    std::string to(size, '?');
    const bool good = decompress_snappy(std::as_bytes(std::span(from.data(), from.size())),
                                        std::as_writable_bytes(std::span(to.data(), to.size())));
    return good ? std::optional(to) : std::nullopt;
  };
  EXPECT_EQ(unpack(std::string("\x07\x04"
                               "ab"
                               "\x05\x02"
                               "\0",
                               6)
                       .substr(0, 6),
                   8),
            std::nullopt);  // another size
  EXPECT_EQ(unpack(std::string("\x07\x04"
                               "ab"
                               "\x05\x02",
                               6),
                   7),
            "abababa");
  EXPECT_EQ(unpack(std::string("\x07\x04"
                               "ab"
                               "\x05\x03",
                               6),
                   7),
            std::nullopt);  // before the beginning
  EXPECT_EQ(unpack(std::string("\x07\x04"
                               "ab"
                               "\x05",
                               5),
                   7),
            std::nullopt);  // truncated
  EXPECT_EQ(unpack(std::string("\x03\x08"
                               "abc",
                               5),
                   3),
            "abc");
  EXPECT_EQ(unpack(std::string("\x03\xF4\xFF\xFF\xFF\xFF", 6), 3), std::nullopt);
}

}  // namespace
}  // namespace trireme
