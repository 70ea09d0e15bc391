// Any bytes: the reader either throws Error::data or returns entries that lie inside the file.
#include <cstdlib>

#include "base/error.h"
#include "checkpoint/safetensors/safetensors.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace trireme;
  try {
    const SafetensorsHeader header = parse_safetensors(std::as_bytes(std::span(data, size)), "fuzzed");
    for (const SafetensorsEntry& entry : header.entries) {
      if (entry.begin > entry.end || header.data_offset + entry.end > size) std::abort();
    }
    if (header.by_name.size() != header.entries.size()) std::abort();
    // What was read can be written, and is read again as the same.
    std::vector<SafetensorsEntry> entries = header.entries;
    std::string again = plan_safetensors(entries, header.metadata);
    again.resize(again.size() + (entries.empty() ? 0 : entries.back().end));
    if (parse_safetensors(std::as_bytes(std::span(again)), "again").entries != entries) std::abort();
  } catch (const Error& e) {
    if (e.kind() != ErrorKind::data) std::abort();
  }
  return 0;
}
