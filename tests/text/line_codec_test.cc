#include "text/line_codec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "text/files/tokenizer_writer.h"

namespace trireme {
namespace {

std::unique_ptr<Tokenizer> abc() {
  return tokenizer_from_json(character_tokenizer_json({'a', 'b', 'c'}, false), "abc");
}

const LineCodecOptions kJsonLines = [] {
  LineCodecOptions options;
  options.json_lines = true;
  return options;
}();

using Codec = void (*)(const Tokenizer&, const LineCodecOptions&, std::FILE*, std::FILE*, const std::string&);

std::string run(Codec codec, std::string input, const LineCodecOptions& options = {}) {
  char* output = nullptr;
  size_t size = 0;
  std::FILE* in = fmemopen(input.data(), input.size(), "rb");
  std::FILE* out = open_memstream(&output, &size);
  std::string error;
  try {
    codec(*abc(), options, in, out, "in");
  } catch (const Error& e) {
    error = e.what();
  }
  std::fclose(in);
  std::fclose(out);
  const std::string text(output, size);
  std::free(output);
  return text + error;
}

TEST(LineCodec, WritesAnArrayPerLine) {
  EXPECT_EQ(run(encode_lines, "ab\n\nc"), "[0, 1]\n[]\n[2]\n");
  EXPECT_EQ(run(encode_lines, "ab\n"), "[0, 1]\n");
}

TEST(LineCodec, ReadsJsonLinesAndPairs) {
  EXPECT_EQ(run(encode_lines, "{\"text\": \"a\"}\n{\"text\": \"a\", \"text_pair\": \"cb\"}\n", kJsonLines),
            "[0]\n[0, 2, 1]\n");
  EXPECT_EQ(run(encode_lines, "{\"text\": \"a\"}\n{\"txt\": \"a\"}\n", kJsonLines),
            "[0]\nin, line 2: \"text\" is missing");
}

TEST(LineCodec, ReadsIdsAndWritesText) {
  EXPECT_EQ(run(decode_lines, "[0, 1]\n[]\n[2]"), "ab\n\nc\n");
  EXPECT_EQ(run(decode_lines, "[0, -1]"), "in, line 1: ids must be integers >= 0");
  EXPECT_EQ(run(decode_lines, "{}"), "in, line 1: expected a JSON array of ids");
  EXPECT_EQ(run(decode_lines, "[7]"), "id 7 is outside the tokenizer's vocabulary of 3 ids");
}

}  // namespace
}  // namespace trireme
