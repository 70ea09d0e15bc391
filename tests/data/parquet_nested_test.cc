#include "data/parquet/nested.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/file.h"
#include "base/json.h"
#include "base/json_text.h"
#include "data/chat/rows.h"
#include "data/prepare/input_parts.h"
#include "tests/support/expect_error.h"
#include "tests/support/paths.h"
#include "tests/support/temporary_folder.h"

namespace trireme {
namespace {

std::string sample(const std::string& name) { return source_dir() + "/tests/golden/parquet/" + name; }

/// Every row of the columns that are not flat.
Json rows_of(const std::string& path) {
  const ParquetFile file(path);
  std::vector<ParquetNestedColumn> columns;
  for (const ParquetNested& nested : file.footer.nested) columns.emplace_back(file, nested);
  Json rows = Json::array();
  constexpr size_t kMostRows = 1000;  // damage can claim billions
  for (bool more = true; more && rows.size() < kMostRows;) {
    Json row = Json::object();
    for (size_t i = 0; i < columns.size(); ++i) {
      bool valid = true;  // damage may break a text
      more = columns[i].next(row[file.footer.nested[i].root.name], valid);
      if (!more) break;
    }
    if (columns.empty()) break;
    if (more) rows.push_back(std::move(row));
  }
  return rows;
}

TEST(ParquetNested, ListsAndStructuresAreThoseThatWereWritten) {
  const Json expected = read_json(sample("lists.json"));
  ASSERT_EQ(expected.size(), 80U);
  for (const char* name : {"lists-v1.parquet", "lists-v2.parquet"}) {
    SCOPED_TRACE(name);
    const Json rows = rows_of(sample(name));
    ASSERT_EQ(rows.size(), expected.size());
    for (size_t i = 0; i < rows.size(); ++i) EXPECT_EQ(rows[i], expected[i]) << i;
  }
}

/// Every row, as a chat's data set is read.
std::vector<Json> chat_rows(const std::string& path) {
  std::vector<Json> rows;
  chat::read_rows(path, {.wants = {},
                         .row = [&](uint64_t, const Json& object) { return rows.push_back(object), true; },
                         .fault = [](uint64_t row, const std::string& reason) -> bool {
                           ADD_FAILURE() << row << ": " << reason;
                           return true;
                         }});
  return rows;
}

TEST(ParquetMeanings, AreThoseOfPyarrowInColumnsAndInLists) {
  const Json expected = read_json(sample("meanings.json"));
  ASSERT_EQ(expected.size(), 5U);
  for (const char* name : {"meanings-plain.parquet", "meanings-dictionary.parquet", "meanings-int96.parquet"}) {
    const std::vector<Json> rows = chat_rows(sample(name));
    ASSERT_EQ(rows.size(), 5U) << name;
    for (size_t i = 0; i < rows.size(); ++i) {
      for (const auto& [column, value] : rows[i].items())
        EXPECT_EQ(dump_json(value), dump_json(expected[i].at(column))) << name << " " << column << " " << i;
      EXPECT_TRUE(rows[i].size() == 1 || rows[i].size() == expected[i].size()) << name;
    }
  }
}

TEST(ParquetMeanings, OutsideOfTheirRangesAreNone) {
  using Kind = ParquetMeaning::Kind;
  const auto text = [](Kind kind, int64_t digits, int64_t value) {
    return parquet_text({.kind = kind, .digits = digits}, value).value_or("none");
  };
  constexpr int64_t kDay = 86'400'000'000'000;
  EXPECT_EQ(text(Kind::date, 0, -719'163), "none");
  EXPECT_EQ(text(Kind::date, 0, 2'932'897), "none");
  EXPECT_EQ(text(Kind::date, 0, INT32_MIN), "none");
  EXPECT_EQ(text(Kind::time, 9, kDay - 1), "23:59:59.999999999");
  EXPECT_EQ(text(Kind::time, 9, kDay), "none");
  EXPECT_EQ(text(Kind::time, 3, -1), "none");
  EXPECT_EQ(text(Kind::timestamp, 9, -1), "1969-12-31 23:59:59.999999999");
  EXPECT_EQ(text(Kind::timestamp, 9, INT64_MIN), "1677-09-21 00:12:43.145224192");
  EXPECT_EQ(text(Kind::timestamp, 9, INT64_MAX), "2262-04-11 23:47:16.854775807");
  EXPECT_EQ(text(Kind::timestamp, 6, INT64_MIN), "none");
  EXPECT_EQ(text(Kind::timestamp, 3, INT64_MAX), "none");
  EXPECT_EQ(text(Kind::decimal, 0, INT64_MIN), "-9223372036854775808");
  EXPECT_EQ(text(Kind::decimal, 20, -5), "-0.00000000000000000005");
  EXPECT_EQ(parquet_decimal(std::vector<std::byte>(33), 0), std::nullopt);
  EXPECT_EQ(parquet_decimal({}, 0), std::nullopt);
  EXPECT_EQ(parquet_julian(std::vector<std::byte>(12)), std::nullopt);
}

TEST(ParquetMeanings, OfColumnsThatAreNotReadAreNamed) {
  testing::internal::CaptureStderr();
  const std::vector<Json> rows = chat_rows(sample("unread.parquet"));
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_EQ(dump_json(rows.at(1)), R"({"prompt":"y","completion":"v"})");
  for (const char* column : {"id", "half"})
    EXPECT_NE(said.find(fmt::format("unread.parquet: column \"{}\" is not read: it has fixed of an", column)),
              std::string::npos)
        << said;
}

/// Files of 1 kB; the limits count before anything is copied.
TEST(ParquetTexts, ThatAreRepeatedOrTooLongAreRefusedBeforeTheyAreCopied) {
  EXPECT_ERROR(
      chat_rows(sample("bomb.parquet")), ErrorKind::data,
      "column \"prompt\" repeats the texts of its dictionary until they are more than 3000000000 bytes, but the "
      "file has ");
  const auto read = [&](const char* name, const char* column, uint64_t most) {
    const auto source = open_parquet(sample(name), {column}, most);
    char first = 0;
    source->read(&first, 1);
  };
  EXPECT_ERROR(read("bomb.parquet", "prompt", UINT64_MAX), ErrorKind::data,
               "repeats the texts of its dictionary until");
  EXPECT_ERROR(chat_rows(sample("bomb-list.parquet")), ErrorKind::data,
               "a row of the column \"messages\" has texts of more than 67108864 bytes, the limit");
  EXPECT_ERROR(chat_rows(sample("large.parquet")), ErrorKind::data,
               "a text of 70000000 bytes in column \"prompt\", expected at most 67108864");
  EXPECT_ERROR(
      read("large.parquet", "prompt", 64 << 20), ErrorKind::data,
      "large.parquet, row 1: the text is longer than 64 MiB, the limit of one document; raise it with --max-doc");
}

TEST(ParquetNested, ATextThatIsNotUtf8IsReported) {
  const TemporaryFolder folder;
  std::string bytes = read_text(sample("lists-v1.parquet"));
  const size_t place = bytes.find("1.0 \xC3\xA9");
  ASSERT_NE(place, std::string::npos);
  bytes[place + 4] = '\xFF';
  write_text(folder / "x.parquet", bytes);
  const ParquetFile file(folder / "x.parquet");
  ParquetNestedColumn column(file, file.footer.nested.at(0));
  Json value;
  bool valid = true, all = true;
  while (column.next(value, valid)) all = all && valid;
  EXPECT_FALSE(all);
}

TEST(ParquetNested, DamageNeverCrashesTheProgram) {
  const TemporaryFolder folder;
  const std::string path = folder / "damaged.parquet";
  size_t refused = 0, total = 0;
  for (const char* name : {"lists-v1.parquet", "lists-v2.parquet"}) {
    const std::string good = read_text(sample(name));
    for (size_t at = 0; at < good.size(); at += 97) {
      std::string bad = good;
      bad[at] = static_cast<char>(bad[at] ^ (1 << (at % 8)));
      if (at % 3 == 0) bad = good.substr(0, at) + good.substr(std::min(at + 5, good.size()));
      write_text(path, bad);
      ++total;
      try {
        rows_of(path);
      } catch (const Error& e) {
        ++refused;
        ASSERT_EQ(e.kind(), ErrorKind::data) << e.what();
      }
    }
  }
  EXPECT_GT(refused, total / 4);
}

}  // namespace
}  // namespace trireme
