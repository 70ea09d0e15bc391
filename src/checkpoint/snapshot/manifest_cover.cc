#include "checkpoint/snapshot/manifest.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <tuple>
#include <utility>

#include "base/error.h"

namespace trireme {
namespace {

/// Checks that a slice is inside its tensor and its shard, and has the number of bytes and hashes that its box needs.
void check_slice(const StoredSlice& s, const Manifest& manifest, std::string_view where) {
  const StoredParameter& p = manifest.parameters[s.parameter];
  require(s.shard < manifest.shards.size(), ErrorKind::data, "{}: slice of {} is in shard {}, but there are only {}",
          where, p.name, s.shard, manifest.shards.size());
  const StoredShard& shard = manifest.shards[s.shard];
  bool fits = s.begin >= shard.header_bytes && s.begin <= s.end && s.end <= shard.bytes &&
              s.box.dims() == s.box.begin.dims() &&
              (s.box.dims() == p.shape.dims() || (!s.is_weight() && s.box.dims() == 1));
  for (int d = 0; fits && d < s.box.dims(); ++d)
    fits = s.box.begin[d] >= 0 && s.box.count[d] > 0 && s.box.count[d] <= p.shape[d] &&
           s.box.begin[d] <= p.shape[d] - s.box.count[d];
  fits = fits && s.begin % sizeof(float) == 0 && s.end % sizeof(float) == 0 &&
         (s.end - s.begin) / sizeof(float) == static_cast<uint64_t>(s.box.elements());
  require(fits, ErrorKind::data, "{}: slice of {}, {} elements from {}, does not match its bytes {} to {} in {}", where,
          p.name, s.box.count.to_string(), s.box.begin.to_string(), s.begin, s.end, shard.file);
  const int64_t rows = s.box.count[0];
  require(s.rows_per_hash > 0 && s.rows_per_hash <= rows &&
              s.hashes.size() == static_cast<uint64_t>((rows - 1) / s.rows_per_hash + 1),
          ErrorKind::data, "{}: slice {} of {} has {} hashes of {} rows each, which do not match its {} rows", where,
          s.box.to_string(), p.name, s.hashes.size(), s.rows_per_hash, rows);
}

/// Checks that boxes inside `shape` cover every element of it once. They may be cut along several dims if boxes that
/// are equal in the dims after `dim` form columns from one end of `dim` to the other.
void check_boxes(std::vector<const Box*> boxes, const Shape& shape, int dim, const std::string& name,
                 std::string_view where) {
  const auto behind = [&](const Box* box) {
    std::array<int64_t, 2 * Shape::kMaxDims> key{};
    for (int d = dim + 1; d < shape.dims(); ++d) {
      const size_t at = 2 * static_cast<size_t>(d);
      key[at] = box->begin[d];
      key[at + 1] = box->count[d];
    }
    return key;
  };
  std::ranges::sort(boxes, {}, [&](const Box* box) { return std::pair(behind(box), box->begin[dim]); });
  std::vector<const Box*> columns;
  const char* what = dim == 0 ? "row" : "column";
  for (size_t i = 0; i < boxes.size();) {
    const Box* first = boxes[i];
    int64_t end = 0;
    for (; i < boxes.size() && behind(boxes[i]) == behind(first); ++i) {
      require(boxes[i]->begin[dim] == end, ErrorKind::data, "{}: {}s of {} are missing or duplicated at {} {}", where,
              what, name, what, end);
      end = boxes[i]->end(dim);
    }
    require(end == shape[dim], ErrorKind::data, "{}: {} ends at {} {} of {}", where, name, what, end, shape[dim]);
    columns.push_back(first);
  }
  require(!columns.empty(), ErrorKind::data, "{}: {} is missing", where, name);
  if (dim + 1 < shape.dims()) check_boxes(std::move(columns), shape, dim + 1, name, where);
}

}  // namespace

void check_cover(const Manifest& manifest, std::string_view where) {
  std::vector<const StoredSlice*> order;
  for (const StoredSlice& s : manifest.slices) {
    check_slice(s, manifest, where);
    order.push_back(&s);
  }
  std::ranges::sort(order, {}, [](const StoredSlice* s) {
    return std::tuple(s->parameter, !s->is_weight(), std::string_view(s->part));
  });
  auto next = order.begin();
  for (size_t i = 0; i < manifest.parameters.size(); ++i) {
    const StoredParameter& p = manifest.parameters[i];
    std::vector<std::string> parts = p.states;
    std::ranges::sort(parts);
    parts.emplace(parts.begin(), kWeightPart);
    for (const std::string& part : parts) {
      std::vector<const Box*> boxes;
      for (; next != order.end() && (*next)->parameter == i && (*next)->part == part; ++next)
        boxes.push_back(&(*next)->box);
      const bool of_rows = !boxes.empty() && boxes[0]->dims() < p.shape.dims();  // a value for each row
      require(std::ranges::all_of(boxes, [&](const Box* box) { return (box->dims() < p.shape.dims()) == of_rows; }),
              ErrorKind::data, "{}: slices of {} differ in their dims", where, stored_name(p.name, part));
      check_boxes(std::move(boxes), of_rows ? Shape{p.shape[0]} : p.shape, 0, stored_name(p.name, part), where);
    }
    assert(next == order.end() || (*next)->parameter > i);  // the reader knows each part from the list of parameters
  }
}

}  // namespace trireme
