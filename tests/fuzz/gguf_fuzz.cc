// Any bytes: the reader either throws Error::data or returns tensors that lie inside the file and can be decoded.
#include <cstdlib>

#include "base/error.h"
#include "checkpoint/gguf/reader.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace trireme;
  try {
    const auto file = std::as_bytes(std::span(data, size));
    const GgufHeader header = parse_gguf(file, "fuzzed");
    for (const GgufTensor& tensor : header.tensors) {
      const size_t bytes = encoded_bytes(tensor.type, tensor.values());
      if (header.data_offset + tensor.begin + bytes > size) std::abort();
      std::vector<float> values(tensor.values());
      decode_blocks(tensor.type, file.subspan(header.data_offset + tensor.begin, bytes), values);
    }
  } catch (const Error& e) {
    if (e.kind() != ErrorKind::data) std::abort();
  }
  return 0;
}
