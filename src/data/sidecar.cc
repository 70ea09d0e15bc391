#include "data/sidecar.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/json_text.h"
#include "base/size.h"

namespace trireme {
namespace {

constexpr uint64_t kFormatVersion = 1;
constexpr size_t kMostSidecarBytes = size_t{64} << 20;  // of 40 TB of tokens
constexpr int64_t kMostTokens = INT64_MAX / 8;          // fits a file with any id width
constexpr int64_t kMostVocabulary = int64_t{1} << 31;   // ids have at most 32 bits
constexpr int64_t kMostBlockBytes = int64_t{1} << 40;

const Json& member(const Json& object, const char* key, const std::string& path) {
  const auto it = object.find(key);
  require(it != object.end(), ErrorKind::data, "{}: key \"{}\" is missing; prepare the data again", path, key);
  return *it;
}

uint64_t read_count(const Json& object, const char* key, int64_t most, const std::string& path) {
  const Json& value = member(object, key, path);
  require(value.is_number_unsigned(), ErrorKind::data, "{}: \"{}\" is {}, expected an integer >= 0", path, key,
          dump_json(value));
  return static_cast<uint64_t>(
      checked_size(value.get<uint64_t>(), uint64_t{0}, most, fmt::format("{}: \"{}\"", path, key)));
}

std::string read_string(const Json& object, const char* key, const std::string& path) {
  const Json& value = member(object, key, path);
  require(value.is_string(), ErrorKind::data, "{}: \"{}\" is {}, expected a string", path, key, dump_json(value));
  return value.get<std::string>();
}

std::vector<uint64_t> read_hashes(const Json& object, const std::string& path) {
  const Json& list = member(object, "block_hashes", path);
  require(list.is_array(), ErrorKind::data, "{}: \"block_hashes\" is not an array", path);
  std::vector<uint64_t> hashes;
  hashes.reserve(list.size());
  for (const Json& entry : list) {
    uint64_t hash = 0;
    const std::string text = entry.is_string() ? entry.get<std::string>() : std::string();
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), hash, 16);
    require(text.size() == 16 && error == std::errc() && end == text.data() + text.size(), ErrorKind::data,
            "{}: block hash {} is {}, expected 16 hexadecimal digits", path, hashes.size(), dump_json(entry));
    hashes.push_back(hash);
  }
  return hashes;
}

}  // namespace

uint64_t element_bytes(const TokenSidecar& sidecar) {
  if (sidecar.dtype == "uint16") return 2;
  if (sidecar.dtype == "int32") return 4;
  fail(ErrorKind::data, "token file dtype is \"{}\", expected \"uint16\" or \"int32\"", sidecar.dtype);
}

const char* dtype_of(uint64_t width) { return width == 2 ? "uint16" : "int32"; }

std::string sidecar_path(const std::string& bin_path) { return bin_path + ".json"; }

std::optional<TokenSidecar> read_sidecar(const std::string& bin_path) {
  const std::string path = sidecar_path(bin_path);
  if (!std::filesystem::exists(path)) return std::nullopt;
  const Json object = read_json(path, kMostSidecarBytes);
  require(object.is_object(), ErrorKind::data, "{}: no JSON object", path);
  const uint64_t version = read_count(object, "format_version", INT64_MAX, path);
  require(version == kFormatVersion, ErrorKind::data, "{}: format_version is {}, this build supports {}", path, version,
          kFormatVersion);
  TokenSidecar sidecar;
  sidecar.dtype = read_string(object, "dtype", path);
  sidecar.tokens = read_count(object, "tokens", kMostTokens, path);
  sidecar.documents = read_count(object, "documents", kMostTokens, path);
  sidecar.vocabulary = read_count(object, "vocabulary_size", kMostVocabulary, path);
  sidecar.tokenizer_hash = read_string(object, "tokenizer_hash", path);
  sidecar.block_bytes = read_count(object, "block_bytes", kMostBlockBytes, path);
  sidecar.block_hashes = read_hashes(object, path);
  sidecar.split = read_string(object, "split", path);
  require(sidecar.block_bytes > 0 && sidecar.block_bytes % 4096 == 0, ErrorKind::data,
          "{}: \"block_bytes\" is {}, expected a multiple of 4096", path, sidecar.block_bytes);
  require(
      element_bytes(sidecar) > 2 || sidecar.vocabulary <= uint64_t{1} << 16, ErrorKind::data,
      "{}: \"dtype\" is \"uint16\", but \"vocabulary_size\" is {}, and 16 bits hold ids up to 65535; prepare the data "
      "again",
      path, sidecar.vocabulary);
  const uint64_t bytes = sidecar.tokens * element_bytes(sidecar);
  const uint64_t blocks = bytes / sidecar.block_bytes + (bytes % sidecar.block_bytes != 0);
  require(sidecar.block_hashes.size() == blocks, ErrorKind::data, "{}: {} block hashes, but {} tokens have {} blocks",
          path, sidecar.block_hashes.size(), sidecar.tokens, blocks);
  return sidecar;
}

void write_sidecar(const std::string& bin_path, const TokenSidecar& sidecar) {
  Json object;
  object["format_version"] = kFormatVersion;
  object["dtype"] = sidecar.dtype;
  object["tokens"] = sidecar.tokens;
  object["documents"] = sidecar.documents;
  object["vocabulary_size"] = sidecar.vocabulary;
  object["tokenizer_hash"] = sidecar.tokenizer_hash;
  object["split"] = sidecar.split;
  object["block_bytes"] = sidecar.block_bytes;
  Json hashes = Json::array();
  for (const uint64_t hash : sidecar.block_hashes) hashes.push_back(hex64(hash));
  object["block_hashes"] = std::move(hashes);
  write_text(sidecar_path(bin_path), dump_valid_json(object, 1) + "\n");
}

BlockHasher::BlockHasher(uint64_t block_bytes) : block_(block_bytes) {}

void BlockHasher::append(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const size_t take = std::min(bytes.size(), block_.size() - used_);
    const auto part = bytes.first(take);
    bytes = bytes.subspan(take);
    if (take == block_.size()) {  // a complete block needs no copy
      hashes_.push_back(xxh3(part));
      continue;
    }
    std::memcpy(block_.data() + used_, part.data(), take);
    used_ += take;
    if (used_ < block_.size()) return;
    hashes_.push_back(xxh3(block_));
    used_ = 0;
  }
}

std::vector<uint64_t> BlockHasher::finish() {
  if (used_ > 0) hashes_.push_back(xxh3(std::span(block_.data(), used_)));
  used_ = 0;
  return std::move(hashes_);
}

}  // namespace trireme
