// Any lines as vocab.txt, any text as a tiktoken file: Error::data or Error::usage, or a tokenizer that encodes.
#include <cstdlib>

#include "base/error.h"
#include "text/tiktoken.h"
#include "text/tokenizer.h"
#include "text/tokenizer_writer.h"

namespace {

void encode(const std::string& json) {
  using namespace trireme;
  const auto tokenizer = tokenizer_from_json(json, "fuzzed");
  std::vector<TokenId> ids;
  tokenizer->encode_plain("The cat's 12 \xC3\xA9\n\n!\xFF", ids);
  tokenizer->decode(ids);
}

template <class Body>
void expect_error_at_most(Body body) {
  try {
    body();
  } catch (const trireme::Error& e) {
    if (e.kind() != trireme::ErrorKind::data && e.kind() != trireme::ErrorKind::usage) std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace trireme;
  const std::string text(reinterpret_cast<const char*>(data), size);
  std::vector<std::string> lines(1);
  for (const char c : text) {
    if (c == '\n')
      lines.emplace_back();
    else
      lines.back() += c;
  }
  expect_error_at_most([&] { encode(bert_tokenizer_json(lines, size % 2 == 0, "fuzzed")); });
  expect_error_at_most([&] { encode(tiktoken_to_json(text, "fuzzed", "gpt2")); });
  return 0;
}
