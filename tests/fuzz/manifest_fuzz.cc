// Any text, with its checksum put right so that the parser behind it is reached: Error::data, or a manifest whose
// slices lie inside their shards and that is written and read again.
#include <cstdlib>

#include "base/error.h"
#include "base/hash.h"
#include "checkpoint/snapshot/manifest.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace trireme;
  std::string text(reinterpret_cast<const char*>(data), size);
  const std::string key = "\"hash\": \"";
  if (const size_t at = text.substr(0, 200).find(key); at != text.npos && at + key.size() + 16 <= text.size()) {
    text.replace(at + key.size(), 16, 16, '0');
    text.replace(at + key.size(), 16, hex64(xxh3(std::as_bytes(std::span(text)))));
  }
  try {
    const Manifest manifest = parse_manifest(text, "fuzzed");
    for (const StoredSlice& slice : manifest.slices) {
      if (slice.begin > slice.end || slice.end > manifest.shards.at(slice.shard).bytes) std::abort();
    }
    const std::string written = write_manifest(manifest);
    if (write_manifest(parse_manifest(written, "again")) != written) std::abort();
  } catch (const Error& e) {
    if (e.kind() != ErrorKind::data) std::abort();
  }
  return 0;
}
