#include "data/parquet/nested.h"

#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "base/error.h"
#include "text/unicode.h"

namespace trireme {
namespace {

// Limits of a row; a damaged file can claim billions in a few bytes.
constexpr size_t kMostItems = size_t{1} << 20, kMostTextBytes = size_t{64} << 20;

/// One kind of values, with the next one read ahead.
struct Values {
  ParquetColumn column;
  ParquetCell cell = {};
  uint32_t definition = 0, repetition = 0;
  bool there = false;

  void advance() { there = column.next(cell, definition, repetition); }
};

}  // namespace

Json json_of(const ParquetCell& cell) {
  using Exact = ParquetCell::Exact;
  if (cell.text) return std::string(*cell.text);
  if (!cell.number) return nullptr;
  if (cell.exact == Exact::truth) return cell.bits != 0;
  if (cell.exact == Exact::natural) return cell.bits;
  return cell.exact == Exact::integer ? Json(static_cast<int64_t>(cell.bits)) : Json(*cell.number);
}

struct ParquetNestedColumn::Reader {
  Reader(const ParquetFile& of_file, const ParquetNested& of_nested) : file(of_file), nested(of_nested) {
    for (const ParquetLeaf& leaf : nested.leaves) values.push_back({ParquetColumn(file, leaf)});
    for (Values& one : values) one.advance();
  }

  [[noreturn]] void damaged(const char* what) const {
    fail(ErrorKind::data, "{} is damaged: column \"{}\" has {}", file.path(), nested.root.name, what);
  }

  Values& first(const ParquetNode& node) {
    Values& one = values[node.first_leaf];
    if (!one.there) damaged("lists that end early");
    return one;
  }

  /// Passes the placeholder of a missing value in each of its parts.
  void skip(const ParquetNode& node) {
    for (size_t i = node.first_leaf; i < node.first_leaf + node.leaves; ++i) {
      if (!values[i].there) damaged("lists that end early");
      values[i].advance();
    }
  }

  Json scalar(Values& one) {
    if (one.cell.text) {
      bytes += one.cell.text->size();
      if (bytes > kMostTextBytes)
        fail(ErrorKind::data, "{}: a row of the column \"{}\" has texts of more than {} bytes, the limit", file.path(),
             nested.root.name, kMostTextBytes);
      for_each_valid_run(*one.cell.text, [&](std::string_view, bool run) { valid = valid && run; });
    }
    Json value = json_of(one.cell);
    one.advance();
    return value;
  }

  /// A value that is not repeated.
  Json read(const ParquetNode& node) {
    if (node.leaves == 0) damaged("an empty structure");
    if (node.kind == ParquetNode::Kind::optional && first(node).definition < node.definition) {
      skip(node);
      return nullptr;
    }
    return contents(node);
  }

  Json contents(const ParquetNode& node) {
    if (node.children.empty()) return scalar(first(node));
    const bool list = node.children.size() == 1 && node.children[0].kind == ParquetNode::Kind::repeated;
    if (list) return repeated(node.children[0]);
    Json object = Json::object();
    for (const ParquetNode& child : node.children)
      object[child.name] = child.kind == ParquetNode::Kind::repeated ? repeated(child) : read(child);
    return object;
  }

  Json repeated(const ParquetNode& node) {
    Json items = Json::array();
    if (first(node).definition < node.definition) {
      skip(node);
      return items;
    }
    do {
      const bool wrapped = node.children.size() == 1 && node.children[0].kind != ParquetNode::Kind::repeated;
      if (++listed > kMostItems)
        fail(ErrorKind::data, "{}: a row of the column \"{}\" has more than {} items in its lists, the limit",
             file.path(), nested.root.name, kMostItems);
      items.push_back(wrapped ? read(node.children[0]) : contents(node));
    } while (values[node.first_leaf].there && values[node.first_leaf].repetition == node.repetition);
    return items;
  }

  const ParquetFile& file;
  const ParquetNested& nested;
  std::vector<Values> values;
  bool valid = true;  ///< of the row
  size_t listed = 0;  ///< items of the row's lists
  size_t bytes = 0;   ///< of the row's texts
};

ParquetNestedColumn::ParquetNestedColumn(const ParquetFile& file, const ParquetNested& nested)
    : reader_(std::make_unique<Reader>(file, nested)) {}
ParquetNestedColumn::ParquetNestedColumn(ParquetNestedColumn&&) noexcept = default;
ParquetNestedColumn::~ParquetNestedColumn() = default;

bool ParquetNestedColumn::next(Json& value, bool& valid) {
  Reader& reader = *reader_;
  reader.valid = true;
  reader.listed = reader.bytes = 0;
  if (reader.values.empty() || !reader.values[0].there) return false;
  const ParquetNode& root = reader.nested.root;
  value = root.kind == ParquetNode::Kind::repeated ? reader.repeated(root) : reader.read(root);
  for (const Values& one : reader.values) {
    if (one.there && one.repetition != 0) reader.damaged("parts of different lengths");
  }
  valid = reader.valid;
  return true;
}

}  // namespace trireme
