#pragma once
// Builds valid and invalid files of torch.save() by hand: stored ZIP archives and pickles.

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace trireme {

inline std::string little_endian(uint64_t value, size_t bytes) {
  std::string out;
  for (size_t i = 0; i < bytes; ++i) out += static_cast<char>(value >> (8 * i) & 255);
  return out;
}

struct ZipOptions {
  uint64_t method = 0, flags = 0;
  uint64_t claimed_bytes = 0;  ///< instead of the data's, if not 0
  bool zip64 = false;          ///< sizes and offsets in zip64 records
};

/// Stored archive of {name, data}; options concern the last member.
inline std::string zip_of(const std::vector<std::pair<std::string, std::string>>& members, ZipOptions options = {}) {
  std::string file, directory;
  for (size_t i = 0; i < members.size(); ++i) {
    const auto& [name, data] = members[i];
    const bool last = i + 1 == members.size();
    const ZipOptions o = last ? options : ZipOptions{};
    const uint64_t bytes = o.claimed_bytes != 0 ? o.claimed_bytes : data.size(), begin = file.size();
    const std::string extra = o.zip64 ? little_endian(1, 2) + little_endian(24, 2) + little_endian(bytes, 8) +
                                            little_endian(bytes, 8) + little_endian(begin, 8)
                                      : "";
    const auto narrow = [&](uint64_t value) { return little_endian(o.zip64 ? 0xFFFFFFFF : value, 4); };
    file += "PK\x03\x04" + little_endian(20, 2) + little_endian(o.flags, 2) + little_endian(o.method, 2) +
            std::string(8, '\0') + narrow(bytes) + narrow(bytes) + little_endian(name.size(), 2) + little_endian(0, 2) +
            name + data;
    directory += "PK\x01\x02" + std::string(4, '\0') + little_endian(o.flags, 2) + little_endian(o.method, 2) +
                 std::string(8, '\0') + narrow(bytes) + narrow(bytes) + little_endian(name.size(), 2) +
                 little_endian(extra.size(), 2) + std::string(10, '\0') + narrow(begin) + name + extra;
  }
  const uint64_t at = file.size();
  file += directory;
  if (options.zip64) {
    const uint64_t record = file.size();
    file += "PK\x06\x06" + little_endian(44, 8) + std::string(12, '\0') + std::string(8, '\0') +
            little_endian(members.size(), 8) + little_endian(directory.size(), 8) + little_endian(at, 8);
    file += "PK\x06\x07" + little_endian(0, 4) + little_endian(record, 8) + little_endian(1, 4);
  }
  file += "PK\x05\x06" + std::string(4, '\0') + little_endian(members.size(), 2) + little_endian(members.size(), 2) +
          little_endian(directory.size(), 4) + little_endian(options.zip64 ? 0xFFFFFFFF : at, 4) + little_endian(0, 2);
  return file;
}

/// Pieces of pickles, protocol 2.
inline std::string pickle_text(const std::string& text) { return "X" + little_endian(text.size(), 4) + text; }
inline std::string pickle_number(uint64_t value) { return "J" + little_endian(value, 4); }
inline std::string pickle_sizes(const std::vector<uint64_t>& sizes) {
  std::string out = "(";
  for (const uint64_t size : sizes) out += pickle_number(size);
  return out + "t";
}
inline std::string pickle_storage(const std::string& type, const std::string& key, uint64_t count) {
  return "(" + pickle_text("storage") + "ctorch\n" + type + "\n" + pickle_text(key) + pickle_text("cpu") +
         pickle_number(count) + "tQ";
}
inline std::string pickle_tensor(const std::string& storage, uint64_t offset, const std::vector<uint64_t>& shape,
                                 const std::vector<uint64_t>& strides) {
  return "ctorch._utils\n_rebuild_tensor_v2\n(" + storage + pickle_number(offset) + pickle_sizes(shape) +
         pickle_sizes(strides) + "\x89)tR";
}
inline std::string pickle_of(const std::string& value) { return "\x80\x02" + value + "."; }
/// {name: tensor}
inline std::string pickle_dict(const std::vector<std::pair<std::string, std::string>>& items) {
  std::string out = "}(";
  for (const auto& [name, value] : items) out += pickle_text(name) + value;
  return out + "u";
}

/// A file whose data.pkl is `pickle` and whose storage 0 has `data`.
inline std::string torch_of(const std::string& pickle, const std::string& data = std::string(24, '\0')) {
  return zip_of({{"m/data.pkl", pickle}, {"m/byteorder", "little"}, {"m/data/0", data}});
}

}  // namespace trireme
