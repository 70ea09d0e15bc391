#pragma once
// Writes GGUF files, version 3: header, metadata, tensor infos, then the tensors, each at a multiple of 32 bytes.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "checkpoint/gguf/blocks.h"

namespace trireme {

/// Keys with values, as bytes of a file. A key is added once (assert).
class GgufMetadata {
 public:
  void add(std::string_view key, uint32_t value);
  void add(std::string_view key, float value);
  void add(std::string_view key, bool value);
  void add(std::string_view key, std::string_view value);
  void add(std::string_view key, const char* value) { add(key, std::string_view(value)); }
  void add(std::string_view key, std::span<const int32_t> values);
  void add(std::string_view key, std::span<const float> values);
  void add(std::string_view key, const std::vector<bool>& values);
  void add(std::string_view key, std::span<const std::string> values);

  size_t count() const { return keys_.size(); }
  const std::string& bytes() const { return bytes_; }

 private:
  void add_key(std::string_view key, uint32_t type);
  void add_array(std::string_view key, uint32_t type, size_t count);

  std::vector<std::string> keys_;
  std::string bytes_;
};

struct GgufTensor {
  std::string name;
  std::vector<int64_t> shape;  ///< rows first, as ours; the file has them reversed
  BlockType type = BlockType::f32;
  uint64_t begin = 0;  ///< from the start of the data

  size_t values() const;
};

/// Throws Error::io if the disk of a folder has fewer bytes free.
void require_disk_space(const std::string& folder, uint64_t bytes);

/// Writes a file whose tensors are known beforehand, in any order. The file appears at commit().
class GgufWriter {
 public:
  /// Throws Error::io.
  GgufWriter(const std::string& path, const GgufMetadata& metadata, std::vector<GgufTensor> tensors);

  /// All values of one tensor, which are encoded here.
  void write(size_t tensor, std::span<const float> values);
  /// Writing every tensor first is the caller's part (assert). Throws Error::io.
  void commit();

 private:
  std::vector<GgufTensor> tensors_;
  std::string header_;
  AtomicFile file_;
  std::vector<std::byte> blocks_;
  size_t written_ = 0;
};

// The tokenizer of a model as keys of a GGUF file.

/// Keys "tokenizer.*" of a model with so many ids. tokenizer_json may be empty: the file has no tokenizer then.
/// generation: read_generation_files(), which says what begins and ends a text, and the chat template. pre: the name of
/// llama.cpp's pre-tokenizer; empty: by the tokenizer's. Throws Error::data, Error::config for a tokenizer that
/// llama.cpp does not have.
void add_vocabulary(const std::string& tokenizer_json, const std::string& generation, int64_t vocabulary,
                    const std::string& pre, GgufMetadata& metadata);

}  // namespace trireme
