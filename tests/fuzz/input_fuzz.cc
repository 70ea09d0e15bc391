// Any bytes as an input of prepare, under the names that choose its readers: Error::data, or chunks of documents.
#include <cstdlib>
#include <memory>

#include "base/error.h"
#include "data/prepare/byte_source.h"
#include "data/prepare/document_chunks.h"
#include "data/prepare/input_parts.h"

namespace {

using namespace trireme;

constexpr size_t kMostBytes = size_t{4} << 20;  // a small file may decompress to a large one

class MemorySource final : public ByteSource {
 public:
  MemorySource(const uint8_t* data, size_t size) : data_(data), size_(size) {}
  size_t read(char* to, size_t size) override {
    const size_t n = std::min(size, size_ - at_);
    if (n > 0) std::copy_n(data_ + at_, n, to);
    at_ += n;
    return n;
  }
  uint64_t consumed() const override { return at_; }

 private:
  const uint8_t* data_;
  size_t size_, at_ = 0;
};

template <class Read>
std::string read_all(Read read) {
  std::string all;
  char buffer[4096];
  while (const size_t n = read(buffer, sizeof buffer)) {
    all.append(buffer, n);
    if (all.size() > kMostBytes) break;
  }
  return all;
}

void parse_lines(const std::string& text) {
  DocumentChunk chunk;
  chunk.bytes = text + std::string(DocumentChunk::kPadding, ' ');
  chunk.size = text.size();
  size_t documents = 0, faults = 0;
  JsonLines({"text", "title"})
      .parse(chunk, {[&](size_t, std::string_view) { ++documents; },
                     [&](uint64_t, const std::string& reason) {
                       ++faults;
                       if (reason.empty()) std::abort();
                     }});
  if (documents % 2 != 0) std::abort();  // both fields or none
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  constexpr const char* kNames[] = {"x.jsonl", "x.jsonl.gz", "x.jsonl.zst", "x.tar", "x.tar.gz", "x.tar.zst"};
  const std::string name = kNames[data[0] % 6];
  try {
    auto source = decompressed(std::make_unique<MemorySource>(data + 1, size - 1), name);
    if (name.find(".tar") == std::string::npos) {
      parse_lines(read_all([&](char* to, size_t n) { return source->read(to, n); }));
      return 0;
    }
    TarReader archive(std::move(source), name);
    for (int files = 0; files < 1000 && archive.next(); ++files) {
      const std::string content = read_all([&](char* to, size_t n) { return archive.read(to, n); });
      if (content.size() > archive.size()) std::abort();
      if (content.size() > kMostBytes) break;
    }
  } catch (const Error& e) {
    if (e.kind() != ErrorKind::data) std::abort();
  }
  return 0;
}
