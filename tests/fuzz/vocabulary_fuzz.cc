// Any lines as vocab.txt, any text as a tiktoken file, as vocab.json or as merges.txt: Error::data or Error::usage, or
// a tokenizer that encodes.
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "base/error.h"
#include "base/file.h"
#include "text/files/tiktoken.h"
#include "text/files/tokenizer_writer.h"
#include "text/tokenizer.h"

namespace {

void encode(const trireme::Tokenizer& tokenizer) {
  std::vector<trireme::TokenId> ids;
  tokenizer.encode_plain("The cat's 12 \xC3\xA9\n\n!\xFF", ids);
  tokenizer.decode(ids);
}

void encode(const std::string& json) { encode(*trireme::tokenizer_from_json(json, "fuzzed")); }

/// A folder in memory with a small vocab.json and merges.txt, and `text` in place of one of them.
void encode_files(const std::string& text, bool as_merges) {
  static const std::string folder = [] {
    std::string name = "/dev/shm/trireme-fuzz-XXXXXX";
    if (!mkdtemp(name.data())) std::abort();
    return name;
  }();
  trireme::write_text(folder + "/vocab.json", as_merges ? R"({"a": 0, "b": 1, "ab": 2, "<unk>": 3})" : text);
  trireme::write_text(folder + "/merges.txt", as_merges ? text : "#version: 0.2\na b\n");
  encode(*trireme::load_tokenizer(folder));
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
  expect_error_at_most([&] { encode(*load_tiktoken(text, "fuzzed", "gpt2")); });
  expect_error_at_most([&] { encode_files(text, false); });
  expect_error_at_most([&] { encode_files(text, true); });
  return 0;
}
