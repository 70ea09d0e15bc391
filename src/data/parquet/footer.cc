#include "data/parquet/footer.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <cstring>
#include <iterator>
#include <optional>
#include <vector>

#include "base/error.h"
#include "data/parquet/thrift.h"

namespace trireme {
namespace {

constexpr int64_t kNanosPerSecond = 1'000'000'000, kNanosPerDay = 86'400 * kNanosPerSecond;

int64_t power_of_ten(int64_t digits) {
  int64_t power = 1;
  for (int64_t i = 0; i < digits; ++i) power *= 10;
  return power;
}

std::optional<std::string> date_text(int64_t days) {
  constexpr int64_t kFirst = -719'162, kLast = 2'932'896;  // 0001-01-01, 9999-12-31
  if (days < kFirst || days > kLast) return {};
  const std::chrono::year_month_day date{std::chrono::sys_days{std::chrono::days{days}}};
  return fmt::format("{:04}-{:02}-{:02}", static_cast<int>(date.year()), static_cast<unsigned>(date.month()),
                     static_cast<unsigned>(date.day()));
}

/// Microseconds where there are any, nanoseconds where these are not whole.
std::optional<std::string> time_text(int64_t nanos) {
  if (nanos < 0 || nanos >= kNanosPerDay) return {};
  const int64_t seconds = nanos / kNanosPerSecond, rest = nanos % kNanosPerSecond;
  std::string text = fmt::format("{:02}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60);
  if (rest % 1000 != 0) return text + fmt::format(".{:09}", rest);
  return rest == 0 ? text : text + fmt::format(".{:06}", rest / 1000);
}

std::optional<std::string> timestamp_text(int64_t days, int64_t nanos, bool utc) {
  const auto date = date_text(days), time = time_text(nanos);
  if (!date || !time) return {};
  return *date + " " + *time + (utc ? "+00:00" : "");
}

}  // namespace

std::optional<std::string> parquet_text(const ParquetMeaning& meaning, int64_t value) {
  using Kind = ParquetMeaning::Kind;
  if (meaning.kind == Kind::date) return date_text(value);
  if (meaning.kind == Kind::decimal) {
    std::byte bytes[sizeof value];
    for (size_t i = 0; i < sizeof value; ++i)
      bytes[i] = static_cast<std::byte>(static_cast<uint64_t>(value) >> (8 * (sizeof value - 1 - i)));
    return parquet_decimal(bytes, meaning.digits);
  }
  const int64_t unit = power_of_ten(9 - meaning.digits), per_day = kNanosPerDay / unit;
  if (meaning.kind == Kind::time) return value < 0 || value >= per_day ? std::nullopt : time_text(value * unit);
  const int64_t days = value / per_day - (value % per_day < 0 ? 1 : 0);
  return timestamp_text(days, (value - days * per_day) * unit, meaning.utc);
}

std::optional<std::string> parquet_decimal(std::span<const std::byte> bytes, int64_t digits) {
  constexpr size_t kMostBytes = 32;  // of 76 decimal digits
  if (bytes.empty() || bytes.size() > kMostBytes) return {};
  std::vector<unsigned> number(bytes.size());
  std::ranges::transform(bytes, number.begin(), [](std::byte byte) { return std::to_integer<unsigned>(byte); });
  const bool negative = number[0] >= 128;
  for (size_t i = number.size(), carry = 1; negative && i-- > 0;) {  // - x is the complement of x, plus 1
    number[i] = (255 - number[i]) + static_cast<unsigned>(carry);
    carry = number[i] >> 8;
    number[i] &= 255;
  }
  std::string text;  // its last digit first
  while (std::ranges::any_of(number, [](unsigned byte) { return byte != 0; })) {
    unsigned rest = 0;
    for (unsigned& byte : number) {
      rest = rest * 256 + byte;
      byte = rest / 10;
      rest %= 10;
    }
    text += static_cast<char>('0' + rest);
  }
  const auto least = static_cast<size_t>(digits) + 1;
  if (text.size() < least) text.append(least - text.size(), '0');
  if (digits > 0) text.insert(least - 1, 1, '.');
  if (negative) text += '-';
  std::ranges::reverse(text);
  return text;
}

std::optional<std::string> parquet_julian(std::span<const std::byte> bytes) {
  constexpr int64_t kDayOf1970 = 2'440'588;
  int64_t nanos = 0;
  int32_t day = 0;
  if (bytes.size() != sizeof nanos + sizeof day) return {};
  std::memcpy(&nanos, bytes.data(), sizeof nanos);
  std::memcpy(&day, bytes.data() + sizeof nanos, sizeof day);
  return timestamp_text(day - kDayOf1970, nanos, false);
}

namespace {

using Type = ThriftReader::Type;

constexpr std::string_view kMagic = "PAR1";
constexpr size_t kMostElements = size_t{1} << 20;  // of a list of the footer
constexpr int64_t kMostPageBytes = int64_t{1} << 30;

struct SchemaElement {
  std::string name;
  int64_t type = -1, repetition = 0, children = 0;
  int64_t length = 0, converted = -1, scale = 0;
  std::optional<ParquetMeaning> logical = {};
};

/// The meaning of a time or a timestamp.
ParquetMeaning read_time(ThriftReader& reader, ParquetMeaning::Kind kind) {
  ParquetMeaning meaning{.kind = kind};
  reader.structure([&](int id, Type type) {
    if (id == 1) return meaning.utc = reader.boolean(type), true;
    if (id != 2 || type != Type::structure) return false;
    return reader.structure([&](int unit, Type) { return meaning.digits = 3 * unit, false; }), true;
  });
  if (meaning.digits < 3 || meaning.digits > 9) meaning.kind = ParquetMeaning::Kind::other;
  return meaning;
}

/// The union LogicalType: one member, by whose number the meaning is known.
ParquetMeaning read_logical(ThriftReader& reader) {
  using Kind = ParquetMeaning::Kind;
  ParquetMeaning meaning{.kind = Kind::other};
  reader.structure([&](int id, Type type) {
    constexpr int kTexts[] = {1, 4, 11, 12, 13};  // strings, enums, only nulls, JSON, BSON
    if (std::ranges::find(kTexts, id) != std::end(kTexts)) return meaning.kind = Kind::plain, false;
    if (id == 6) return meaning.kind = Kind::date, false;
    if (type != Type::structure) return false;
    if (id == 7 || id == 8) return meaning = read_time(reader, id == 7 ? Kind::time : Kind::timestamp), true;
    if (id == 10) {
      meaning.kind = Kind::natural;
      return reader.structure([&](int field, Type of) {
        if (field == 2 && reader.boolean(of)) meaning.kind = Kind::plain;  // signed
        return field == 2;
      }),
             true;
    }
    if (id != 5) return false;
    meaning.kind = Kind::decimal;
    return reader.structure(
               [&](int field, Type of) { return field == 1 && (meaning.digits = reader.integer(of), true); }),
           true;
  });
  return meaning;
}

/// The meaning of the older annotation; its timestamps do not say whether they are in UTC.
ParquetMeaning meaning_of(int64_t converted, int64_t scale) {
  using Kind = ParquetMeaning::Kind;
  switch (converted) {
    case 5:
      return {.kind = Kind::decimal, .digits = scale};
    case 6:
      return {.kind = Kind::date};
    case 7:
    case 8:
      return {.kind = Kind::time, .digits = converted == 7 ? 3 : 6};
    case 9:
    case 10:
      return {.kind = Kind::timestamp, .digits = converted == 9 ? 3 : 6};
    case 11:
    case 12:
    case 13:
    case 14:
      return {.kind = Kind::natural};
    case 21:  // intervals
      return {.kind = Kind::other};
    default:
      return {};
  }
}

/// What the values of an element mean; `other` where its type cannot hold that.
ParquetMeaning meaning_of(const SchemaElement& element) {
  using Kind = ParquetMeaning::Kind;
  const auto type = static_cast<ParquetType>(element.type);
  ParquetMeaning meaning = element.logical.value_or(meaning_of(element.converted, element.scale));
  meaning.length = element.length;
  const bool narrow = type == ParquetType::int32, wide = type == ParquetType::int64;
  constexpr int64_t kMostDigits = 76;
  bool fits = true;
  if (meaning.kind == Kind::natural) fits = narrow || wide;
  if (meaning.kind == Kind::date) fits = narrow;
  if (meaning.kind == Kind::time) fits = meaning.digits == 3 ? narrow : wide;
  if (meaning.kind == Kind::timestamp) fits = wide;
  if (meaning.kind == Kind::decimal) {
    fits = narrow || wide || type == ParquetType::byte_array || type == ParquetType::fixed;
    fits = fits && meaning.digits >= 0 && meaning.digits <= kMostDigits;
  }
  if (type == ParquetType::fixed) fits = fits && meaning.length > 0 && meaning.length <= INT32_MAX;
  if (!fits) meaning.kind = Kind::other;
  return meaning;
}

SchemaElement read_element(ThriftReader& reader) {
  SchemaElement element;
  reader.structure([&](int id, Type type) {
    if (id == 1) return element.type = reader.integer(type), true;
    if (id == 3) return element.repetition = reader.integer(type), true;
    if (id == 4) return element.name = reader.binary(type), true;
    if (id == 5) return element.children = reader.integer(type), true;
    if (id == 2) return element.length = reader.integer(type), true;
    if (id == 6) return element.converted = reader.integer(type), true;
    if (id == 7) return element.scale = reader.integer(type), true;
    if (id == 10 && type == Type::structure) return element.logical = read_logical(reader), true;
    return false;
  });
  return element;
}

ParquetChunk read_chunk_facts(ThriftReader& reader) {
  ParquetChunk chunk;
  int64_t data_page = 0, dictionary = 0, parts = 0;
  reader.structure([&](int id, Type type) {
    if (id == 3) {
      reader.list(kMostElements, [&](Type element) {
        chunk.column = reader.binary(element);
        if (parts++ > 0) chunk.path += '\n';
        chunk.path += chunk.column;
      });
      return true;
    }
    if (id == 4) return chunk.codec = reader.integer(type), true;
    if (id == 5) return chunk.values = reader.integer(type), true;
    if (id == 7) return chunk.bytes = reader.integer(type), true;
    if (id == 9) return data_page = reader.integer(type), true;
    if (id == 11) return dictionary = reader.integer(type), true;
    return false;
  });
  if (parts == 1) chunk.path.clear();
  if (parts != 1) chunk.column = {};
  chunk.first_page = dictionary > 0 && dictionary < data_page ? dictionary : data_page;
  return chunk;
}

ParquetGroup read_group(ThriftReader& reader) {
  ParquetGroup group;
  reader.structure([&](int id, Type type) {
    if (id == 1) {
      reader.list(kMostElements, [&](Type) {
        ParquetChunk chunk;
        reader.structure([&](int field, Type) {
          if (field == 3) return chunk = read_chunk_facts(reader), true;
          return false;
        });
        group.chunks.push_back(chunk);
      });
      return true;
    }
    if (id == 3) return group.rows = reader.integer(type), true;
    return false;
  });
  return group;
}

/// Builds the tree of a nested column.
class NestedBuilder {
 public:
  NestedBuilder(const std::vector<SchemaElement>& schema, const std::string& path) : schema_(schema), path_(path) {}

  /// `at`: of the column's element; moves behind its descendants.
  ParquetNested build(size_t& at) {
    nested_ = {};
    nested_.root = node(at, {}, 0, 0, 0);
    return std::move(nested_);
  }

 private:
  ParquetNode node(size_t& at, const std::string& above, uint32_t definition, uint32_t repetition, int depth) {
    constexpr int kMostDepth = 16;
    require(at < schema_.size() && depth <= kMostDepth, ErrorKind::data,
            "{} is not a Parquet file or is damaged: its schema ends early or nests more than {} levels", path_,
            kMostDepth);
    const SchemaElement& element = schema_[at++];
    ParquetNode made{.kind = static_cast<ParquetNode::Kind>(element.repetition), .name = element.name};
    require(element.repetition >= 0 && element.repetition <= 2, ErrorKind::data,
            "{} is not a Parquet file or is damaged: column \"{}\" is neither required nor optional nor repeated",
            path_, element.name);
    made.definition = definition + (made.kind == ParquetNode::Kind::required ? 0 : 1);
    made.repetition = repetition + (made.kind == ParquetNode::Kind::repeated ? 1 : 0);
    made.first_leaf = nested_.leaves.size();
    const std::string path = above.empty() ? element.name : above + '\n' + element.name;
    if (element.children == 0) {
      require(element.type >= 0 && element.type <= 7, ErrorKind::data,
              "{} is not a Parquet file or is damaged: column \"{}\" has no type", path_, element.name);
      nested_.leaves.push_back({path.substr(0, path.find('\n')), static_cast<ParquetType>(element.type), path,
                                made.definition, made.repetition, meaning_of(element)});
    }
    for (int64_t i = 0; i < element.children; ++i)
      made.children.push_back(node(at, path, made.definition, made.repetition, depth + 1));
    made.leaves = nested_.leaves.size() - made.first_leaf;
    return made;
  }

  const std::vector<SchemaElement>& schema_;
  const std::string& path_;
  ParquetNested nested_;
};

/// The trees of the columns that are not flat.
std::vector<ParquetNested> nested_columns(const std::vector<SchemaElement>& schema, const std::string& path) {
  std::vector<ParquetNested> columns;
  NestedBuilder builder(schema, path);
  for (size_t at = 1; at < schema.size();) {
    const bool flat = schema[at].children == 0 && schema[at].repetition != 2;
    if (flat) {
      ++at;
    } else {
      columns.push_back(builder.build(at));
    }
  }
  return columns;
}

/// The columns of the first level; `schema` is the tree, each element before its children.
std::vector<ParquetColumnFacts> top_columns(const std::vector<SchemaElement>& schema, const std::string& path) {
  std::vector<ParquetColumnFacts> columns;
  for (size_t at = 1; at < schema.size();) {
    const SchemaElement& element = schema[at];
    const bool flat = element.children == 0 && element.repetition != 2;
    require(!flat || (element.type >= 0 && element.type <= 7), ErrorKind::data,
            "{} is not a Parquet file or is damaged: column \"{}\" has no type", path, element.name);
    columns.push_back({element.name, static_cast<ParquetType>(flat ? element.type : 0), element.repetition == 1, flat,
                       flat ? meaning_of(element) : ParquetMeaning{}});
    for (int64_t left = 1; left > 0; --left, ++at) {  // over all its descendants
      require(
          at < schema.size() && schema[at].children >= 0 && schema[at].children < static_cast<int64_t>(schema.size()),
          ErrorKind::data, "{} is not a Parquet file or is damaged: its schema ends early", path);
      left += schema[at].children;
    }
  }
  return columns;
}

}  // namespace

const char* name_of(ParquetType type) {
  constexpr const char* kNames[] = {"boolean", "int32", "int64", "int96", "float", "double", "byte_array", "fixed"};
  return kNames[static_cast<size_t>(type)];
}

bool is_readable(ParquetType type, const ParquetMeaning& meaning) {
  return meaning.kind != ParquetMeaning::Kind::other &&
         (type != ParquetType::fixed || meaning.kind == ParquetMeaning::Kind::decimal);
}

ParquetFooter read_parquet_footer(std::span<const std::byte> file, const std::string& path) {
  const auto text = [&](size_t at, size_t size) {
    return std::string_view(reinterpret_cast<const char*>(file.data()) + at, size);
  };
  require(file.size() >= 12 && text(0, 4) == kMagic && text(file.size() - 4, 4) == kMagic, ErrorKind::data,
          "{} is not a Parquet file or is damaged: it does not begin and end with PAR1", path);
  uint32_t size = 0;
  static_assert(std::endian::native == std::endian::little);
  std::memcpy(&size, file.data() + file.size() - 8, 4);
  require(size <= file.size() - 12, ErrorKind::data, "{} is not a Parquet file or is damaged: its footer has {} bytes",
          path, size);
  ThriftReader reader(file.subspan(file.size() - 8 - size, size), path);
  std::vector<SchemaElement> schema;
  ParquetFooter footer;
  reader.structure([&](int id, Type type) {
    if (id == 2) return reader.list(kMostElements, [&](Type) { schema.push_back(read_element(reader)); }), true;
    if (id == 3) return footer.rows = reader.integer(type), true;
    if (id == 4) return reader.list(kMostElements, [&](Type) { footer.groups.push_back(read_group(reader)); }), true;
    return false;
  });
  footer.columns = top_columns(schema, path);
  footer.nested = nested_columns(schema, path);
  int64_t rows = 0;
  for (const ParquetGroup& group : footer.groups) {
    require(group.rows >= 0 && group.rows <= footer.rows - rows, ErrorKind::data,
            "{} is not a Parquet file or is damaged: its row groups have more rows than its {}", path, footer.rows);
    rows += group.rows;
  }
  require(rows == footer.rows, ErrorKind::data,
          "{} is not a Parquet file or is damaged: its row groups have {} rows of {}", path, rows, footer.rows);
  return footer;
}

ParquetPage read_page_header(std::span<const std::byte> bytes, const std::string& path) {
  ThriftReader reader(bytes, path);
  ParquetPage page;
  const auto values = [&](int id, Type type) {
    if (id == 1) return page.values = reader.integer(type), true;
    if (id == 2) return page.encoding = reader.integer(type), true;
    return false;
  };
  const auto values_v2 = [&](int id, Type type) {
    if (id == 1) return page.values = reader.integer(type), true;
    if (id == 4) return page.encoding = reader.integer(type), true;
    if (id == 5) return page.definition_bytes = reader.integer(type), true;
    if (id == 6) return page.repetition_bytes = reader.integer(type), true;
    if (id == 7) return page.compressed = reader.boolean(type), true;
    return false;
  };
  int64_t kind = -1;
  reader.structure([&](int id, Type type) {
    if (id == 1) return kind = reader.integer(type), true;
    if (id == 2) return page.bytes = reader.integer(type), true;
    if (id == 3) return page.compressed_bytes = reader.integer(type), true;
    if (id == 4) {
      page.has_checksum = true;
      page.checksum = static_cast<uint32_t>(reader.integer(type));
      return true;
    }
    if (id == 5 || id == 7) return reader.structure(values), true;
    if (id == 8) return reader.structure(values_v2), true;
    return false;
  });
  page.header_bytes = reader.at();
  const auto left = static_cast<int64_t>(bytes.size() - page.header_bytes);
  const bool good = kind >= 0 && kind <= 3 && page.bytes >= 0 && page.bytes <= kMostPageBytes &&
                    page.compressed_bytes >= 0 && page.compressed_bytes <= left && page.values >= 0 &&
                    page.definition_bytes >= 0 && page.repetition_bytes >= 0 &&
                    page.definition_bytes + page.repetition_bytes <= std::min(page.bytes, page.compressed_bytes);
  require(good, ErrorKind::data,
          "{} is damaged: a page of {} values has {} bytes, {} compressed, of {} (at most {} are supported)", path,
          page.values, page.bytes, page.compressed_bytes, left, kMostPageBytes);
  page.kind = static_cast<ParquetPage::Kind>(kind);
  return page;
}

}  // namespace trireme
