#include "data/parquet/nested.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/file.h"
#include "base/json.h"
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
