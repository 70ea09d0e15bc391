#include "checkpoint/torch/zip_archive.h"

#include <zlib.h>

#include <algorithm>
#include <cstdint>
#include <limits>

#include "base/error.h"

namespace trireme {
namespace {

constexpr uint32_t kLocalHeader = 0x04034b50, kDirectoryEntry = 0x02014b50, kEndRecord = 0x06054b50,
                   kEndRecord64 = 0x06064b50, kEndLocator64 = 0x07064b50;
constexpr size_t kLocalBytes = 30, kEntryBytes = 46, kEndBytes = 22, kEnd64Bytes = 56, kLocatorBytes = 20;
constexpr size_t kMaxComment = 65535;
constexpr uint64_t kElsewhere32 = 0xFFFFFFFF, kElsewhere16 = 0xFFFF;  // the value is in a zip64 record
constexpr uint64_t kZip64Field = 1;

class ZipReader {
 public:
  ZipReader(std::span<const std::byte> file, std::string_view where) : file_(file), where_(where) {}

  std::vector<ZipMember> read() {
    size_t at = find_directory();
    std::vector<ZipMember> members;
    for (uint64_t i = 0; i < count_; ++i) members.push_back(read_entry(at));
    check_names(members);
    return members;
  }

 private:
  template <class... Args>
  [[noreturn]] void bad(fmt::format_string<Args...> format, Args&&... args) const {
    fail(ErrorKind::data, "{}: {}", where_, fmt::format(format, std::forward<Args>(args)...));
  }

  std::span<const std::byte> part(uint64_t at, uint64_t bytes, std::string_view what) const {
    if (at > file_.size() || bytes > file_.size() - at)
      bad("truncated: {} needs bytes {} to {}, but the file has {} bytes", what, at, at + bytes, file_.size());
    return file_.subspan(at, bytes);
  }
  static uint64_t number(std::span<const std::byte> record, size_t at, size_t bytes) {
    uint64_t value = 0;
    for (size_t i = 0; i < bytes; ++i) value |= static_cast<uint64_t>(record[at + i]) << (8 * i);
    return value;
  }

  /// Where the central directory begins; sets count_.
  size_t find_directory() {
    const size_t lowest = file_.size() > kEndBytes + kMaxComment ? file_.size() - kEndBytes - kMaxComment : 0;
    size_t end = file_.size() < kEndBytes ? lowest : file_.size() - kEndBytes + 1;
    do {
      if (end == lowest) bad("truncated: a ZIP file ends with its directory, which is missing");
      --end;
    } while (number(file_, end, 4) != kEndRecord);
    const auto record = file_.subspan(end, kEndBytes);
    count_ = number(record, 10, 2);
    uint64_t directory = number(record, 16, 4);
    if (count_ != kElsewhere16 && directory != kElsewhere32) return directory;

    if (end < kLocatorBytes || number(file_, end - kLocatorBytes, 4) != kEndLocator64)
      bad("the directory's zip64 locator is missing");
    const auto wide = part(number(file_, end - kLocatorBytes + 8, 8), kEnd64Bytes, "the directory's zip64 record");
    if (number(wide, 0, 4) != kEndRecord64) bad("the directory's zip64 record is missing");
    count_ = number(wide, 32, 8);
    return number(wide, 48, 8);
  }

  ZipMember read_entry(size_t& at) const {
    const auto entry = part(at, kEntryBytes, "the directory");
    if (number(entry, 0, 4) != kDirectoryEntry) bad("byte {} is not an entry of the directory", at);
    const uint64_t name_bytes = number(entry, 28, 2), extra_bytes = number(entry, 30, 2),
                   comment_bytes = number(entry, 32, 2);
    const auto name_part = part(at + kEntryBytes, name_bytes, "the directory");
    const std::string_view name(reinterpret_cast<const char*>(name_part.data()), name_part.size());
    if (number(entry, 8, 2) & 1) bad("member {} is encrypted", name);
    if (const uint64_t method = number(entry, 10, 2); method != 0)
      bad("member {} is compressed (method {}), but torch stores members uncompressed", name, method);
    uint64_t packed = number(entry, 20, 4), bytes = number(entry, 24, 4), header = number(entry, 42, 4);
    const auto extra = part(at + kEntryBytes + name_bytes, extra_bytes, "the directory");
    widen(extra, name, {&bytes, &packed, &header});
    if (packed != bytes) bad("member {} is stored in {} bytes but has {}", name, packed, bytes);
    at += kEntryBytes + name_bytes + extra_bytes + comment_bytes;
    return {name, find_data(name, header, bytes), static_cast<uint32_t>(number(entry, 16, 4))};
  }

  /// Values that do not fit 32 bits are in the extra field, in this order.
  void widen(std::span<const std::byte> extra, std::string_view name, std::initializer_list<uint64_t*> values) const {
    if (std::none_of(values.begin(), values.end(), [](const uint64_t* v) { return *v == kElsewhere32; })) return;
    for (size_t at = 0; at + 4 <= extra.size();) {
      const uint64_t id = number(extra, at, 2), bytes = number(extra, at + 2, 2);
      size_t value_at = at + 4;
      at = value_at + bytes;
      if (id != kZip64Field) continue;
      for (uint64_t* value : values) {
        if (*value != kElsewhere32) continue;
        if (value_at + 8 > std::min(at, extra.size())) bad("member {}: its zip64 field is too short", name);
        *value = number(extra, value_at, 8);
        value_at += 8;
      }
      return;
    }
    bad("member {}: its zip64 field is missing", name);
  }

  std::span<const std::byte> find_data(std::string_view name, uint64_t header, uint64_t bytes) const {
    const auto local = part(header, kLocalBytes, name);
    if (number(local, 0, 4) != kLocalHeader) bad("member {} does not begin at byte {}", name, header);
    const uint64_t begin = header + kLocalBytes + number(local, 26, 2) + number(local, 28, 2);
    return part(begin, bytes, name);
  }

  void check_names(const std::vector<ZipMember>& members) const {
    std::vector<std::string_view> names;
    for (const ZipMember& member : members) names.push_back(member.name);
    std::sort(names.begin(), names.end());
    const auto twice = std::adjacent_find(names.begin(), names.end());
    if (twice != names.end()) bad("member {} appears twice", *twice);
  }

  std::span<const std::byte> file_;
  std::string_view where_;
  uint64_t count_ = 0;
};

}  // namespace

uint32_t zip_checksum(std::span<const std::byte> data) {
  constexpr size_t kPart = size_t{16} << 20;
  const size_t parts = (data.size() + kPart - 1) / kPart;
  std::vector<uLong> sums(parts);
  const auto part = [&](size_t i) { return data.subspan(i * kPart, std::min(kPart, data.size() - i * kPart)); };
#pragma omp parallel for schedule(dynamic)
  for (size_t i = 0; i < parts; ++i)
    sums[i] = crc32(0, reinterpret_cast<const Bytef*>(part(i).data()), static_cast<uInt>(part(i).size()));
  uLong checksum = crc32(0, nullptr, 0);
  for (size_t i = 0; i < parts; ++i) checksum = crc32_combine(checksum, sums[i], static_cast<z_off_t>(part(i).size()));
  return static_cast<uint32_t>(checksum);
}

std::string zip_fault(const ZipMember& member, std::string_view where) {
  const uint32_t found = member.checksum == 0 ? 0 : zip_checksum(member.data);
  if (found == member.checksum) return {};
  return fmt::format(
      "{}: the {} bytes of {} are damaged: their CRC-32 is {:08x}, but the file records {:08x}; copy the file again",
      where, member.data.size(), member.name, found, member.checksum);
}

bool looks_like_zip(std::span<const std::byte> file) {
  return file.size() >= 4 && file[0] == std::byte{'P'} && file[1] == std::byte{'K'} && file[2] == std::byte{3} &&
         file[3] == std::byte{4};
}

std::vector<ZipMember> read_zip(std::span<const std::byte> file, std::string_view where) {
  return ZipReader(file, where).read();
}

}  // namespace trireme
