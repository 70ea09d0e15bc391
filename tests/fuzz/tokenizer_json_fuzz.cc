// Any text as tokenizer.json: Error::data, or a tokenizer that encodes text, decodes its own ids, and is read again
// from what it says about itself.
#include <cstdlib>

#include "base/error.h"
#include "text/tokenizer.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace trireme;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  try {
    const auto tokenizer = tokenizer_from_json(text, "fuzzed");
    if (tokenizer_from_json(tokenizer->json(), "again")->vocabulary_size() != tokenizer->vocabulary_size())
      std::abort();
    const Encoding encoding = tokenizer->encode_pair("The cat's 12 \xC3\xA9\n\n!", " low\xFF<s> ");
    if (!encoding.types.empty() && encoding.types.size() != encoding.ids.size()) std::abort();
    for (const TokenId id : encoding.ids) {
      if (id >= tokenizer->vocabulary_size()) std::abort();
    }
    tokenizer->decode(encoding.ids);
  } catch (const Error& e) {
    if (e.kind() != ErrorKind::data) std::abort();
  }
  return 0;
}
