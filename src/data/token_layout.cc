#include "data/token_layout.h"

#include <cstring>

#include "base/error.h"
#include "base/log.h"
#include "data/file_signature.h"
#include "data/id_judgement.h"
#include "data/npy_file.h"

namespace trireme {
namespace {

constexpr const char* kBare = "nanoGPT token file, 16-bit ids";
constexpr const char* kWide = "token file, 32-bit ids";
constexpr const char* kTrust = "if they are 16-bit ids, use --data.trust";

/// A shard of llm.c: 256 numbers of 32 bits (magic, version, number of ids), then the ids.
constexpr uint64_t kShardHeader = 256 * sizeof(int32_t);
constexpr int32_t kGpt2Shard = 20240520, kLlama3Shard = 20240801, kEvaluationShard = 20240522;

struct ShardKind {
  int32_t magic, version;
  const char* model;
  uint64_t width;
};
constexpr ShardKind kShards[] = {{kGpt2Shard, 1, "GPT-2", 2}, {kLlama3Shard, 7, "Llama 3", 4}};

TokenLayout npy_layout(std::string_view file, const std::string& path) {
  const NpyHeader header = read_npy_header(file, path);
  const char* kSave = "python3 -c \"import numpy; numpy.save('NEW.npy', numpy.load('FILE').ravel().astype('<u4'))\"";
  require(header.shape.size() == 1, ErrorKind::data,
          "{} is a .npy file of {} dimensions, but tokens have one; flatten it: {}", path, header.shape.size(), kSave);
  const bool narrow = header.type == "<u2" || header.type == "<i2";
  require(narrow || header.type == "<u4" || header.type == "<i4", ErrorKind::data,
          "{} is a .npy file of '{}', but tokens are 16-bit or 32-bit ids ('<u2', '<u4'); convert it: {}", path,
          header.type, kSave);
  const uint64_t bytes = file.size() - header.data, width = narrow ? 2 : 4;
  require(bytes / width == header.shape[0] && bytes % width == 0, ErrorKind::data,
          "{}: its header declares {} ids, but {} bytes follow it: it was truncated or not written completely", path,
          header.shape[0], bytes);
  require(header.data % width == 0, ErrorKind::data, "{}: its ids begin at byte {}, which {} does not divide", path,
          header.data, width);
  return {fmt::format("NumPy's .npy, {}-bit ids", 8 * width), header.data, bytes, width};
}

int32_t word_of(std::string_view file, size_t index) {
  int32_t word = 0;
  std::memcpy(&word, file.data() + index * sizeof word, sizeof word);
  return word;
}

/// Whether the file begins like an llm.c shard: its magic, in either byte order, and a small version.
bool is_shard(std::string_view file, int32_t magic) {
  if (file.size() < 3 * sizeof(int32_t)) return false;
  const auto first = static_cast<uint32_t>(word_of(file, 0)), version = static_cast<uint32_t>(word_of(file, 1));
  const auto wanted = static_cast<uint32_t>(magic);
  return (first == wanted && version < 256) || (first == __builtin_bswap32(wanted) && __builtin_bswap32(version) < 256);
}

TokenLayout shard_layout(std::string_view file, const ShardKind& kind, const std::string& path) {
  require(file.size() >= kShardHeader && word_of(file, 0) == kind.magic && word_of(file, 1) == kind.version,
          ErrorKind::data,
          "{} begins like an llm.c shard for {}, but its header has another version or byte order or is truncated; "
          "only version {} in little-endian order is supported",
          path, kind.model, kind.version);
  const auto ids = static_cast<uint32_t>(word_of(file, 2));
  const uint64_t bytes = file.size() - kShardHeader;
  require(bytes == uint64_t{ids} * kind.width, ErrorKind::data,
          "{}: the header of this llm.c shard declares {} ids, but {} bytes follow it: it was truncated or not written "
          "to its end",
          path, ids, bytes);
  return {fmt::format("llm.c shard for {}, {}-bit ids", kind.model, 8 * kind.width), kShardHeader, bytes, kind.width};
}

/// Headers with supported ids, and headers of the same programs with unsupported ones.
TokenLayout layout_of(std::string_view file, const std::string& path) {
  if (is_npy(file)) return npy_layout(file, path);
  for (const ShardKind& kind : kShards) {
    if (is_shard(file, kind.magic)) return shard_layout(file, kind, path);
  }
  require(!is_shard(file, kEvaluationShard), ErrorKind::data,
          "{} is an llm.c file of multiple-choice questions, not training data; name a shard of tokens", path);
  if (const auto known = signature_of(file, path))
    fail(ErrorKind::data, "{} is {}, not a token file: {}", path, known->what, known->todo);
  return headerless_tokens(file, 2);
}

std::string with_path(std::string todo, const std::string& path) {
  for (size_t at = todo.find("FILE"); at != std::string::npos; at = todo.find("FILE", at + path.size()))
    todo.replace(at, 4, path);
  return todo;
}

void judge(std::string_view file, const TokenLayout& layout, const std::string& path) {
  const IdJudgement judged =
      judge_ids(std::as_bytes(std::span(file.data() + layout.offset, layout.bytes)), layout.width);
  require(judged.other.empty() || layout.offset > 0, ErrorKind::data,
          "{} has no sidecar, and its content looks like {}; {}; {}", path, judged.other, with_path(judged.todo, path),
          kTrust);
  constexpr double kMany = 0.5;  // real texts have an id 0 rarely
  if (judged.zeros > kMany)
    log::write_once(log::Level::warning,
                    fmt::format("{}: {:.0f} % of the sampled ids are 0{}", path, 100 * judged.zeros,
                                judged.ends_empty ? ", and its end is all zeros: was it written completely?" : ""));
}

}  // namespace

TokenLayout identify_tokens(std::string_view file, const std::string& path) {
  const TokenLayout layout = layout_of(file, path);
  judge(file, layout, path);
  return layout;
}

TokenLayout headerless_tokens(std::string_view file, uint64_t width) {
  return {width == 2 ? kBare : kWide, 0, file.size(), width};
}

}  // namespace trireme
