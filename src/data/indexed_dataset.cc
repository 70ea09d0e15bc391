#include "data/indexed_dataset.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <cstring>
#include <string_view>

#include "base/error.h"
#include "base/size.h"
#include "base/text.h"
#include "data/block_check.h"

namespace trireme {
namespace {

static_assert(std::endian::native == std::endian::little, "indexed datasets are little-endian and written as they are");

constexpr std::string_view kMagic("MMIDIDX\0\0", 9), kCachedMagic("TNTIDX\0\0", 8);
constexpr size_t kBuffer = size_t{1} << 20;

/// Reads the bytes of an index in order.
class IndexReader {
 public:
  IndexReader(std::span<const std::byte> bytes, const std::string& path) : bytes_(bytes), path_(path) {}

  template <class T>
  T number() {
    T value;
    std::memcpy(&value, take(sizeof value), sizeof value);
    return value;
  }
  template <class T>
  std::vector<T> list(uint64_t count) {
    require(count <= bytes_.size() / sizeof(T), ErrorKind::data,
            "{} is truncated: it declares {} entries, but has {} bytes", path_, count, bytes_.size());
    std::vector<T> values(count);
    if (count > 0) std::memcpy(values.data(), take(count * sizeof(T)), count * sizeof(T));
    return values;
  }
  void skip(size_t bytes) { take(bytes); }
  size_t left() const { return bytes_.size(); }

 private:
  const std::byte* take(size_t size) {
    require(size <= bytes_.size(), ErrorKind::data, "{} is truncated", path_);
    const std::byte* at = bytes_.data();
    bytes_ = bytes_.subspan(size);
    return at;
  }
  std::span<const std::byte> bytes_;
  const std::string& path_;
};

IndexedType read_type(uint64_t code, const std::string& path) {
  require(code == 4 || code == 8, ErrorKind::data,
          "{}: unsupported dtype code {}; supported: 4 (32-bit) and 8 (unsigned 16-bit)", path, code);
  return static_cast<IndexedType>(code);
}

}  // namespace

IndexedType indexed_type_for(uint64_t vocabulary) { return vocabulary < 65500 ? IndexedType::u16 : IndexedType::i32; }

uint64_t width_of(IndexedType type) { return type == IndexedType::u16 ? 2 : 4; }

void write_index(const std::string& path, const IndexedLayout& layout) {
  AtomicFile index(path);
  const auto write = [&index](const auto& value) { index.write(std::as_bytes(std::span(&value, 1))); };
  index.write(kMagic);
  write(uint64_t{1});
  write(layout.type);
  write(uint64_t{layout.lengths.size()});
  write(uint64_t{layout.documents.size()});
  index.write(std::as_bytes(std::span(layout.lengths)));
  std::vector<int64_t> offsets;
  offsets.reserve(kBuffer / sizeof(int64_t));
  int64_t offset = 0;
  for (const int32_t length : layout.lengths) {
    offsets.push_back(offset);
    offset += length * static_cast<int64_t>(width_of(layout.type));
    if (offsets.size() * sizeof(int64_t) < kBuffer) continue;
    index.write(std::as_bytes(std::span(offsets)));
    offsets.clear();
  }
  index.write(std::as_bytes(std::span(offsets)));
  index.write(std::as_bytes(std::span(layout.documents)));
  index.commit();
}

IndexedDataset::IndexedDataset(const std::string& prefix)
    : bin_(prefix + ".bin"), sidecar_(read_sidecar(prefix + ".bin")) {
  const std::string path = prefix + ".idx";
  const MappedFile index(path);
  require_fits_memory(2 * index.bytes().size(), path, "is the file complete? an index has 20 bytes per sequence");
  if (index.text().starts_with(kMagic))
    read_mmap_index(index.bytes().subspan(kMagic.size()), path);
  else if (index.text().starts_with(kCachedMagic))
    read_cached_index(index.bytes().subspan(kCachedMagic.size()), path);
  else
    fail(ErrorKind::data, "{} is not an index: it begins neither with MMIDIDX nor with TNTIDX", path);
  check(path);
}

void IndexedDataset::read_mmap_index(std::span<const std::byte> bytes, const std::string& path) {
  IndexReader reader(bytes, path);
  const auto version = reader.number<uint64_t>();
  require(version == 1, ErrorKind::data, "{}: version {}, expected 1", path, version);
  type_ = read_type(reader.number<uint8_t>(), path);
  const auto sequences = reader.number<uint64_t>(), documents = reader.number<uint64_t>();
  lengths_ = reader.list<int32_t>(sequences);
  const std::vector<int64_t> offsets = reader.list<int64_t>(sequences);
  documents_ = reader.list<int64_t>(documents);
  // Megatron-core appends one mode per sequence for images; text files have none.
  require(reader.left() == 0, ErrorKind::data, "{}: {} bytes after the index; multimodal datasets are unsupported",
          path, reader.left());
  for (size_t i = 0; i < lengths_.size(); ++i) {
    require(lengths_[i] >= 0, ErrorKind::data, "{}: sequence {} has length {}", path, i, lengths_[i]);
    require(offsets[i] == static_cast<int64_t>(tokens_ * width_of(type_)), ErrorKind::data,
            "{}: sequence {} begins at byte {}, but according to the lengths before it at {}", path, i, offsets[i],
            tokens_ * width_of(type_));
    begins_.push_back(tokens_);
    tokens_ += static_cast<uint64_t>(lengths_[i]);
  }
}

/// u64 version, dtype code, element size, sequences, sizes, documents; then i64 dim_offsets[sequences + 1],
/// data_offsets[sequences + 1] in ids, sizes[], documents[].
void IndexedDataset::read_cached_index(std::span<const std::byte> bytes, const std::string& path) {
  IndexReader reader(bytes, path);
  const auto version = reader.number<uint64_t>();
  require(version == 1, ErrorKind::data, "{}: version {}, expected 1", path, version);
  type_ = read_type(reader.number<uint64_t>(), path);
  const auto width = reader.number<uint64_t>();
  require(width == width_of(type_), ErrorKind::data, "{}: elements of {} bytes, but their dtype has {}", path, width,
          width_of(type_));
  const auto sequences = reader.number<uint64_t>(), sizes = reader.number<uint64_t>();
  const auto documents = reader.number<uint64_t>();
  require(sequences == sizes && sequences < UINT64_MAX, ErrorKind::data,
          "{}: {} sequences with {} sizes; only one-dimensional sequences are supported", path, sequences, sizes);
  reader.list<int64_t>(sequences + 1);
  const std::vector<int64_t> offsets = reader.list<int64_t>(sequences + 1);
  const std::vector<int64_t> lengths = reader.list<int64_t>(sequences);
  documents_ = reader.list<int64_t>(documents);
  for (size_t i = 0; i < lengths.size(); ++i) {
    require(lengths[i] >= 0 && lengths[i] <= INT32_MAX && offsets[i] == static_cast<int64_t>(tokens_), ErrorKind::data,
            "{}: sequence {} begins at id {} with length {}, but according to the lengths before it at {}", path, i,
            offsets[i], lengths[i], tokens_);
    lengths_.push_back(static_cast<int32_t>(lengths[i]));
    begins_.push_back(tokens_);
    tokens_ += static_cast<uint64_t>(lengths[i]);
  }
}

void IndexedDataset::check(const std::string& path) const {
  require(bin_.bytes().size() == tokens_ * width_of(type_), ErrorKind::data,
          "{} has {} bytes, but according to {} it has {} ids of {} bytes", bin_.path(), bin_.bytes().size(), path,
          tokens_, width_of(type_));
  require(!documents_.empty() && documents_.front() == 0 && documents_.back() == static_cast<int64_t>(lengths_.size()),
          ErrorKind::data, "{}: the document index does not go from 0 to {} sequences", path, lengths_.size());
  if (sidecar_) {
    require(element_bytes(*sidecar_) == width_of(type_) && sidecar_->tokens == tokens_, ErrorKind::data,
            "{} declares {} ids of type {}, but {} declares {} ids of {} bytes: one of them was truncated or replaced",
            sidecar_path(bin_.path()), sidecar_->tokens, sidecar_->dtype, path, tokens_, width_of(type_));
  }
  for (size_t i = 1; i < documents_.size(); ++i)
    require(documents_[i] >= documents_[i - 1], ErrorKind::data, "{}: document {} ends before it begins", path, i - 1);
}

std::vector<TokenId> IndexedDataset::sequence(uint64_t index) const {
  require(index < sequences(), ErrorKind::data, "{} has {} sequences, but sequence {} was requested", bin_.path(),
          sequences(), index);
  std::vector<int32_t> ids(static_cast<size_t>(lengths_[index]));
  copy(index, 0, ids);
  return {ids.begin(), ids.end()};
}

void IndexedDataset::copy(uint64_t index, uint64_t offset, std::span<int32_t> ids) const {
  assert(offset + ids.size() <= static_cast<uint64_t>(lengths_[index]));
  const std::byte* from = bin_.bytes().data() + (begins_[index] + offset) * width_of(type_);
  if (type_ == IndexedType::i32) {
    if (!ids.empty()) std::memcpy(ids.data(), from, ids.size_bytes());
    return;
  }
  for (int32_t& id : ids) {
    uint16_t narrow;
    std::memcpy(&narrow, from, sizeof narrow);
    id = narrow;
    from += sizeof narrow;
  }
}

uint64_t IndexedDataset::check_ids(uint64_t vocabulary, bool all, const BeforeBlock& before) const {
  return check_blocks(bin_.path(), bin_.bytes(), sidecar_,
                      {.width = width_of(type_), .vocabulary = vocabulary, .all = all, .before = before});
}

namespace {

constexpr size_t kParts = 3;

double read_share(std::string_view text, const std::string& split) {
  while (text.starts_with(' ')) text.remove_prefix(1);
  while (text.ends_with(' ')) text.remove_suffix(1);
  const std::optional<double> share = parse_number(text);
  require(share && *share >= 0, ErrorKind::usage,
          "split \"{}\": \"{}\" is not a number >= 0; write shares like \"969, 30, 1\"", split, text);
  return *share;
}

}  // namespace

PartBorders part_borders(const std::string& split, uint64_t documents) {
  const char separator = split.find(',') != std::string::npos ? ',' : '/';
  std::array<double, kParts> shares{};
  size_t count = 0;
  double sum = 0;
  for (size_t at = 0; at <= split.size();) {
    const size_t end = std::min(split.find(separator, at), split.size());
    require(count < kParts, ErrorKind::usage, "split \"{}\" has more than the three shares train, valid and test",
            split);
    shares[count] = read_share(std::string_view(split).substr(at, end - at), split);
    sum += shares[count++];
    at = end + 1;
  }
  require(sum > 0, ErrorKind::usage, "split \"{}\" gives every part a share of 0", split);
  const auto total = static_cast<int64_t>(documents);
  std::array<int64_t, kParts + 1> borders{};
  for (size_t i = 0; i < kParts; ++i) {
    // halves to even, as Python rounds; nearbyint() does so by default
    const double part = std::nearbyint(shares[i] / sum * static_cast<double>(total));
    borders[i + 1] = borders[i] + static_cast<int64_t>(part);
  }
  const int64_t excess = borders[kParts] - total;
  PartBorders out{};
  for (size_t i = 1; i <= kParts; ++i) out[i] = static_cast<uint64_t>(std::max<int64_t>(0, borders[i] - excess));
  return out;
}

}  // namespace trireme
