#include "checkpoint/torch/writer.h"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <filesystem>
#include <limits>
#include <span>

#include "base/file.h"
#include "checkpoint/torch/zip_archive.h"

namespace trireme {
namespace {

std::string little_endian(uint64_t value, size_t bytes) {
  std::string out;
  for (size_t i = 0; i < bytes; ++i) out += static_cast<char>(value >> (8 * i) & 255);
  return out;
}

/// Protocol 2, which torch writes. Source: CPython's pickletools.
class PickleWriter {
 public:
  std::string write(const TorchItem& root) {
    out_ = "\x80\x02";
    add(root);
    return out_ + ".";
  }
  /// In the order of their keys: "0", "1", ...
  const std::vector<const TorchTensorItem*>& tensors() const { return tensors_; }

 private:
  void add(const TorchItem& item) {
    std::visit([this](const auto& value) { add_value(value); }, item.value);
  }
  void add_value(std::monostate) { out_ += 'N'; }
  void add_value(int64_t integer) {
    if (integer >= std::numeric_limits<int32_t>::min() && integer <= std::numeric_limits<int32_t>::max()) {
      out_ += 'J' + little_endian(static_cast<uint64_t>(integer), 4);
    } else {
      out_ += "\x8a\x08" + little_endian(static_cast<uint64_t>(integer), 8);
    }
  }
  void add_value(double real) {
    uint64_t bits;
    std::memcpy(&bits, &real, sizeof bits);
    out_ += 'G';
    for (int shift = 56; shift >= 0; shift -= 8) out_ += static_cast<char>(bits >> shift & 255);
  }
  void add_value(const std::string& text) { out_ += 'X' + little_endian(text.size(), 4) + text; }
  void add_value(const TorchItem::Entries& entries) {
    out_ += "}(";
    for (const auto& [key, value] : entries) {
      add_value(key);
      add(value);
    }
    out_ += 'u';
  }
  void add_value(const TorchTensorItem& tensor) {
    assert(tensor.dtype == DType::f32 || tensor.dtype == DType::bf16);
    int64_t count = 1;
    for (const int64_t size : tensor.shape) count *= size;
    out_ += "ctorch._utils\n_rebuild_tensor_v2\n((";
    add_value(std::string("storage"));
    out_ += tensor.dtype == DType::bf16 ? "ctorch\nBFloat16Storage\n" : "ctorch\nFloatStorage\n";
    add_value(std::to_string(tensors_.size()));
    add_value(std::string("cpu"));
    add_value(count);
    out_ += "tQ";
    add_value(int64_t{0});
    add_sizes(tensor.shape);
    std::vector<int64_t> strides(tensor.shape.size());
    for (size_t d = strides.size(), step = 1; d-- > 0; step *= static_cast<size_t>(tensor.shape[d]))
      strides[d] = static_cast<int64_t>(step);
    add_sizes(strides);
    out_ += "\x89";                           // requires_grad: false
    out_ += "ccollections\nOrderedDict\n)R";  // hooks: none
    out_ += "tR";
    tensors_.push_back(&tensor);
  }
  void add_sizes(const std::vector<int64_t>& sizes) {
    out_ += '(';
    for (const int64_t size : sizes) add_value(size);
    out_ += 't';
  }

  std::string out_;
  std::vector<const TorchTensorItem*> tensors_;
};

/// Members that are stored, not compressed, at multiples of 64 bytes, so that they can be mapped. Source: PKWARE
/// APPNOTE 6.3.10; torch's own container (PyTorch, caffe2/serialize/inline_container.cc).
class ZipWriter {
 public:
  explicit ZipWriter(const std::string& path) : file_(path) {}

  void add(const std::string& name, std::span<const std::byte> data) {
    const std::string crc = little_endian(zip_checksum(data), 4), method(2, '\0'), no_time(4, '\0');
    const uint64_t begin = at_;
    // Large sizes are in a zip64 field; padding is in torch's own field ("FB").
    const bool wide = data.size() >= kElsewhere;
    std::string extra = wide ? zip64({data.size(), data.size()}) : "";
    const uint64_t head = at_ + kLocalBytes + name.size() + extra.size() + kFieldBytes;
    const uint64_t padding = (kAlignment - head % kAlignment) % kAlignment;
    extra += "FB" + little_endian(padding, 2) + std::string(padding, 'Z');
    const std::string size = little_endian(wide ? kElsewhere : data.size(), 4);
    const std::string common = little_endian(kVersion, 2) + std::string(2, '\0') + method + no_time + crc + size +
                               size + little_endian(name.size(), 2);
    put("PK\x03\x04" + common + little_endian(extra.size(), 2) + name + extra);
    put(data);
    const bool far = begin >= kElsewhere;
    std::vector<uint64_t> fields;
    if (wide) fields = {data.size(), data.size()};
    if (far) fields.push_back(begin);
    const std::string wide_fields = fields.empty() ? "" : zip64(fields);
    directory_ += "PK\x01\x02" + little_endian(kVersion, 2) + common + little_endian(wide_fields.size(), 2) +
                  std::string(10, '\0') + little_endian(far ? kElsewhere : begin, 4) + name + wide_fields;
    ++members_;
  }

  void commit() {
    const uint64_t begin = at_;
    put(directory_);
    const uint64_t record = at_;
    const bool wide = begin >= kElsewhere || members_ >= kElsewhere16;
    if (wide) {
      put("PK\x06\x06" + little_endian(kEndBytes, 8) + little_endian(kVersion, 2) + little_endian(kVersion, 2) +
          std::string(8, '\0') + little_endian(members_, 8) + little_endian(members_, 8) +
          little_endian(directory_.size(), 8) + little_endian(begin, 8));
      put("PK\x06\x07" + std::string(4, '\0') + little_endian(record, 8) + little_endian(1, 4));
    }
    const std::string count = little_endian(wide ? kElsewhere16 : members_, 2);
    put("PK\x05\x06" + std::string(4, '\0') + count + count + little_endian(directory_.size(), 4) +
        little_endian(wide ? kElsewhere : begin, 4) + std::string(2, '\0'));
    file_.commit();
  }

 private:
  static constexpr uint64_t kElsewhere = 0xFFFFFFFF, kElsewhere16 = 0xFFFF;
  static constexpr uint64_t kVersion = 45, kLocalBytes = 30, kFieldBytes = 4, kEndBytes = 44, kAlignment = 64;

  static std::string zip64(const std::vector<uint64_t>& values) {
    std::string field = little_endian(1, 2) + little_endian(8 * values.size(), 2);
    for (const uint64_t value : values) field += little_endian(value, 8);
    return field;
  }
  void put(std::span<const std::byte> bytes) {
    file_.write(bytes);
    at_ += bytes.size();
  }
  void put(const std::string& bytes) { put(std::as_bytes(std::span(bytes))); }

  AtomicFile file_;
  std::string directory_;
  uint64_t at_ = 0, members_ = 0;
};

std::span<const std::byte> bytes_of(const std::string& text) { return std::as_bytes(std::span(text)); }

}  // namespace

void write_torch(const std::string& path, const TorchItem& root) {
  const std::string folder = std::filesystem::path(path).stem().string() + "/";
  PickleWriter pickle;
  ZipWriter zip(path);
  zip.add(folder + "data.pkl", bytes_of(pickle.write(root)));
  zip.add(folder + "byteorder", bytes_of("little"));
  for (size_t i = 0; i < pickle.tensors().size(); ++i) {
    const std::vector<std::byte> bytes = pickle.tensors()[i]->bytes();
    zip.add(folder + "data/" + std::to_string(i), bytes);
  }
  zip.add(folder + "version", bytes_of("3\n"));
  zip.commit();
}

}  // namespace trireme
