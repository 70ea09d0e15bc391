#include "checkpoint/snapshot/stored_shard.h"

#include <filesystem>

#include "base/error.h"
#include "base/hash.h"
#include "optim/parameter_hash.h"

namespace trireme {
namespace fs = std::filesystem;
namespace {

constexpr size_t kMostTokenizerBytes = size_t{64} << 20;

uint64_t weights_hash(const Manifest& manifest, const StoredSlice& slice, size_t piece,
                      std::span<const std::byte> bytes) {
  if (!slice.is_weight()) return 0;
  const StoredParameter& parameter = manifest.parameters[slice.parameter];
  return box_hash(parameter_key(parameter.name), parameter.shape, slice.piece(piece), floats_of(bytes));
}

}  // namespace

std::span<const float> floats_of(std::span<const std::byte> piece) {
  return {reinterpret_cast<const float*>(piece.data()), piece.size() / sizeof(float)};
}

MappedFile open_shard(const std::string& folder, const StoredShard& shard) {
  const std::string path = folder + "/" + shard.file;
  require(fs::exists(path), ErrorKind::data, "{} is missing; it holds tensors of this checkpoint ({} bytes)", path,
          shard.bytes);
  MappedFile file(path);
  require(file.bytes().size() == shard.bytes, ErrorKind::data, "{} has {} bytes, but the manifest says {}: it {}", path,
          file.bytes().size(), shard.bytes, file.bytes().size() < shard.bytes ? "is truncated" : "was appended to");
  const uint64_t hash = xxh3(file.bytes().first(shard.header_bytes));
  require(hash == shard.header_hash, ErrorKind::data,
          "{}: bytes 0 to {} (the header) have checksum {}, but the manifest says {}: the file is damaged", path,
          shard.header_bytes, hex64(hash), hex64(shard.header_hash));
  return file;
}

PiecePlace place_of_piece(const StoredSlice& slice, size_t piece) {
  const Box box = slice.piece(piece);
  return {slice.begin + piece * static_cast<uint64_t>(slice.rows_per_hash * box.row_width()) * sizeof(float),
          static_cast<uint64_t>(box.elements()) * sizeof(float)};
}

void check_piece(std::span<const std::byte> bytes, const std::string& path, const Manifest& manifest,
                 const StoredSlice& slice, size_t piece) {
  const Box box = slice.piece(piece);
  const uint64_t begin = place_of_piece(slice, piece).begin, hash = xxh3(bytes);
  require(
      hash == slice.hashes[piece], ErrorKind::data,
      "{}: bytes {} to {} (tensor {}, rows {} to {}) have checksum {}, but the manifest says {}: the file is damaged",
      path, begin, begin + bytes.size(), stored_name(manifest.parameters[slice.parameter].name, slice.part),
      box.begin[0], box.end(0), hex64(hash), hex64(slice.hashes[piece]));
}

std::span<const std::byte> checked_piece(const MappedFile& file, const Manifest& manifest, const StoredSlice& slice,
                                         size_t piece) {
  const PiecePlace place = place_of_piece(slice, piece);
  const auto bytes = file.bytes().subspan(place.begin, place.bytes);
  check_piece(bytes, file.path(), manifest, slice, piece);
  return bytes;
}

std::vector<std::string> verify_shard(const std::string& folder, const Manifest& manifest, size_t shard,
                                      uint64_t& weights) {
  std::vector<std::string> faults;
  try {
    const MappedFile file = open_shard(folder, manifest.shards[shard]);
    for (const StoredSlice& slice : manifest.slices) {
      for (size_t piece = 0; slice.shard == shard && piece < slice.pieces(); ++piece) {
        try {
          weights += weights_hash(manifest, slice, piece, checked_piece(file, manifest, slice, piece));
        } catch (const Error& e) {
          faults.emplace_back(e.what());
        }
      }
    }
  } catch (const Error& e) {
    faults.emplace_back(e.what());
  } catch (const fs::filesystem_error& e) {
    faults.emplace_back(e.what());
  }
  return faults;
}

std::string read_tokenizer(const std::string& folder, const Manifest& manifest) {
  if (!manifest.has_tokenizer) return {};
  const std::string path = folder + "/tokenizer.json";
  require(fs::exists(path), ErrorKind::data, "{} is missing; the manifest says the checkpoint has one", path);
  std::string text = read_text(path, kMostTokenizerBytes);
  const uint64_t hash = xxh3(std::as_bytes(std::span(text)));
  require(hash == manifest.tokenizer_hash, ErrorKind::data,
          "{} has checksum {}, but the manifest says {}: it was changed or damaged", path, hex64(hash),
          hex64(manifest.tokenizer_hash));
  return text;
}

}  // namespace trireme
