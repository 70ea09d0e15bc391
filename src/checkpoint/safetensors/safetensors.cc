#include "checkpoint/safetensors/safetensors.h"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json.h"
#include "base/json_text.h"

namespace trireme {
namespace {

/// Exact widening of a 16-bit IEEE float.
float half_to_float(uint16_t h) {
  const uint32_t sign = uint32_t{h} >> 15 << 31, exponent = h >> 10 & 31, mantissa = h & 1023;
  if (exponent == 0) {  // zero or subnormal: mantissa x 2^-24
    const float magnitude = static_cast<float>(mantissa) * 0x1p-24f;
    return sign ? -magnitude : magnitude;
  }
  const uint32_t bits =
      exponent == 31 ? sign | 0x7F800000 | mantissa << 13 : sign | (exponent + 112) << 23 | mantissa << 13;
  float f;
  std::memcpy(&f, &bits, sizeof f);
  return f;
}

template <class T, class Convert>
void widen(std::span<const std::byte> bytes, std::span<float> out, Convert convert) {
  for (size_t i = 0; i < out.size(); ++i) {
    T value;
    std::memcpy(&value, bytes.data() + i * sizeof(T), sizeof(T));
    out[i] = convert(value);
  }
}

}  // namespace

std::string plan_safetensors(std::vector<SafetensorsEntry>& entries, const SafetensorsMetadata& metadata) {
  Json header = Json::object();
  if (!metadata.empty()) header["__metadata__"] = metadata;
  size_t offset = 0;
  for (SafetensorsEntry& entry : entries) {
    size_t bytes = safetensors_element_bytes(entry.dtype);
    assert(bytes > 0);
    for (int64_t size : entry.shape) bytes *= static_cast<size_t>(size);
    entry.begin = offset;
    entry.end = offset += bytes;
    // Appended without a search for an equal key: names are the caller's and distinct, and files can hold many.
    header.get_ref<Json::object_t&>().push_back(
        {entry.name, Json{{"dtype", entry.dtype}, {"shape", entry.shape}, {"data_offsets", {entry.begin, entry.end}}}});
  }
  std::string text = dump_valid_json(header);
  text.append((8 - text.size() % 8) % 8, ' ');
  std::string length(8, '\0');
  for (size_t i = 0; i < 8; ++i) length[i] = static_cast<char>(text.size() >> (8 * i) & 255);
  return length + text;
}

SafetensorsFile::SafetensorsFile(const std::string& path)
    : file_(path), header_(parse_safetensors(file_.bytes(), path)) {}

const SafetensorsEntry* SafetensorsFile::find(std::string_view name) const {
  const auto at = std::lower_bound(header_.by_name.begin(), header_.by_name.end(), name,
                                   [&](size_t i, std::string_view n) { return header_.entries[i].name < n; });
  return at != header_.by_name.end() && header_.entries[*at].name == name ? &header_.entries[*at] : nullptr;
}

std::span<const std::byte> SafetensorsFile::bytes(const SafetensorsEntry& entry) const {
  return file_.bytes().subspan(header_.data_offset + entry.begin, entry.end - entry.begin);
}

bool is_float_type(std::string_view dtype) {
  return dtype == "F32" || dtype == "BF16" || dtype == "F16" || dtype == "F64";
}

void widen_elements(std::span<const std::byte> raw, std::string_view dtype, std::span<float> out) {
  assert(is_float_type(dtype) && raw.size() == out.size() * safetensors_element_bytes(dtype));
  if (dtype == "F32") {
    if (!raw.empty()) std::memcpy(out.data(), raw.data(), raw.size());
  } else if (dtype == "BF16") {
    widen<uint16_t>(raw, out, [](uint16_t bits) { return to_float(bf16_t{bits}); });
  } else if (dtype == "F16") {
    widen<uint16_t>(raw, out, half_to_float);
  } else {
    widen<double>(raw, out, [](double value) { return static_cast<float>(value); });
  }
}

std::vector<float> elements_as_f32(std::span<const std::byte> raw, std::string_view dtype, std::string_view what) {
  require(is_float_type(dtype), ErrorKind::data, "{} has type {}, expected F32, F16, BF16 or F64", what, dtype);
  std::vector<float> values(raw.size() / safetensors_element_bytes(dtype));
  widen_elements(raw.first(values.size() * safetensors_element_bytes(dtype)), dtype, values);
  return values;
}

std::vector<float> SafetensorsFile::read_f32(const SafetensorsEntry& entry) const {
  return elements_as_f32(bytes(entry), entry.dtype, fmt::format("{}: tensor {}", path(), entry.name));
}

SafetensorsWriter::SafetensorsWriter(const std::string& path, std::vector<SafetensorsEntry> entries,
                                     const SafetensorsMetadata& metadata)
    : entries_(std::move(entries)), header_(plan_safetensors(entries_, metadata)), file_(path) {
  file_.write(header_);
}

void SafetensorsWriter::write(size_t entry, std::span<const std::byte> bytes) {
  assert(bytes.size() == entries_[entry].end - entries_[entry].begin);
  file_.write_at(header_.size() + entries_[entry].begin, bytes);
  written_ += bytes.size();
}

void SafetensorsWriter::commit() {
  assert(entries_.empty() || written_ == entries_.back().end);
  file_.commit();
}

}  // namespace trireme
