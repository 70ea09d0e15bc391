// Text of ids, all at once and one by one.

#include "text/pipeline/decoder.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <random>

#include "base/file.h"
#include "tests/support/expect_error.h"
#include "tests/support/paths.h"
#include "tests/support/test_data.h"
#include "text/json_node.h"
#include "text/tokenizer.h"
#include "text/unicode.h"

namespace trireme {
namespace {

using Ids = std::vector<TokenId>;

bool is_utf8(std::string_view text) {
  bool all = true;
  for_each_valid_run(text, [&](std::string_view, bool valid) { all = all && valid; });
  return all;
}

/// The result of a stream for the ids; each part of a UTF-8 text has complete characters.
std::string streamed(const Tokenizer& tokenizer, const Ids& ids, bool skip_special) {
  const auto stream = tokenizer.stream(skip_special);
  std::string text;
  bool whole_parts = true;
  for (const TokenId id : ids) {
    const std::string part = stream->feed(id);
    whole_parts = whole_parts && is_utf8(part);
    text += part;
  }
  text += stream->finish();
  EXPECT_TRUE(whole_parts || !is_utf8(text));
  return text;
}

/// The prompt's text and the streamed text after it are the text of all ids.
void expect_continues(const Tokenizer& tokenizer, const Ids& ids, size_t prompt) {
  const std::span<const TokenId> begin(ids.data(), prompt);
  Continuation continuation(tokenizer, begin);
  std::string text;
  for (size_t i = prompt; i < ids.size(); ++i) text += continuation.feed(ids[i]);
  text += continuation.finish();
  const std::string all = tokenizer.decode(ids), known = tokenizer.decode(begin);
  const auto same = std::mismatch(all.begin(), all.end(), known.begin(), known.end()).first - all.begin();
  EXPECT_EQ(text, all.substr(static_cast<size_t>(same)));
}

std::vector<std::pair<std::string, std::string>> recorded_lines() {
  const std::string path = source_dir() + "/tests/golden/decoders.jsonl", text = read_text(path);
  std::vector<std::pair<std::string, std::string>> lines;  // the tokenizer, the line
  for (size_t at = 0; at < text.size();) {
    const size_t end = text.find('\n', at);
    const std::string line = text.substr(at, end - at);
    const std::string key = "{\"tokenizer\": ";
    const size_t cases = line.find(", \"cases\": ");
    lines.emplace_back(line.substr(key.size(), cases - key.size()), line);
    at = end + 1;
  }
  return lines;
}

std::unique_ptr<Tokenizer> with_decoder(const std::string& decoder) {
  const std::string json = recorded_lines().front().first, none = "\"decoder\": null";
  std::string changed = json;
  changed.replace(changed.find(none), none.size(), "\"decoder\": " + decoder);
  return tokenizer_from_json(changed, "t.json");
}

TEST(Decoder, WritesTheRecordedTexts) {
  size_t cases = 0;
  for (const auto& [json, line] : recorded_lines()) {
    const auto tokenizer = tokenizer_from_json(json, "t.json");
    const JsonNode root = parse_json_node(line, "decoders.jsonl");
    for (const JsonNode& recorded : root.find("cases")->items) {
      Ids ids;
      for (const JsonNode& id : recorded.items[0].items) ids.push_back(static_cast<TokenId>(id.integer));
      const bool skip = recorded.items[1].flag;
      SCOPED_TRACE(line.substr(line.find("\"decoder\""), 200));
      EXPECT_EQ(tokenizer->decode(ids, skip), recorded.items[2].text);
      EXPECT_EQ(streamed(*tokenizer, ids, skip), recorded.items[2].text);
      ++cases;
    }
  }
  EXPECT_GT(cases, 350u);
}

void expect_streams(const Tokenizer& tokenizer, int rounds) {
  std::mt19937 random(17);
  Ids known;
  for (TokenId id = 0; id < tokenizer.vocabulary_size(); ++id) {
    if (tokenizer.has_token(id)) known.push_back(id);
  }
  for (int round = 0; round < rounds; ++round) {
    Ids ids(random() % 24);
    for (TokenId& id : ids)
      id = known[random() % (round % 2 == 0 ? known.size() : std::min<size_t>(known.size(), 300))];
    for (const bool skip : {false, true}) EXPECT_EQ(streamed(tokenizer, ids, skip), tokenizer.decode(ids, skip));
    expect_continues(tokenizer, ids, ids.empty() ? 0 : random() % ids.size());
    if (testing::Test::HasFailure()) return;
  }
}

TEST(TextStream, GivesInTotalWhatAllIdsAre) {
  for (const auto& [json, line] : recorded_lines()) {
    SCOPED_TRACE(line.substr(line.find("\"decoder\""), 200));
    expect_streams(*tokenizer_from_json(json, "t.json"), 300);
  }
}

TEST(TextStream, GivesInTotalWhatAllIdsAreOfRealTokenizers) {
  TRIREME_NEEDS_TEST_DATA("tokenizers");
  size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(test_data_dir() / "tokenizers")) {
    SCOPED_TRACE(entry.path().string());
    const auto tokenizer = load_tokenizer(entry.path().string());
    expect_streams(*tokenizer, 200);
    Ids ids;
    try {
      ids =
          tokenizer->encode("The cats' don't sit, do they? 👩‍👩‍👧 été 文字 \n\n  x", {.padding = false})
              .ids;
    } catch (const Error&) {  // a vocabulary that lacks a character and has no unknown token
    }
    for (size_t prompt = 0; prompt < ids.size(); ++prompt) expect_continues(*tokenizer, ids, prompt);
    ++files;
  }
  EXPECT_GT(files, 5u);
}

TEST(TextStream, WaitsForTheRestOfACharacter) {
  const auto bytes = with_decoder(R"({"type": "ByteLevel"})");
  const TokenId first = *bytes->token_to_id("ðŁ"), second = *bytes->token_to_id("ĺĢ"),
                letter = *bytes->token_to_id("a");
  const auto stream = bytes->stream();
  EXPECT_EQ(stream->feed(first), "");
  EXPECT_EQ(stream->feed(second), "😀");
  EXPECT_EQ(stream->feed(first), "");
  EXPECT_EQ(stream->feed(letter),
            "\xF0\x9F"
            "a");  // it never arrived: the bytes unchanged
  EXPECT_EQ(stream->feed(first), "");
  EXPECT_EQ(stream->finish(), "\xF0\x9F");
}

TEST(TextStream, GivesTextAsSoonAsItIsCertain) {
  const auto llama = with_decoder(R"({"type": "Sequence", "decoders": [
      {"type": "Replace", "pattern": {"String": "▁"}, "content": " "}, {"type": "ByteFallback"}, {"type": "Fuse"},
      {"type": "Strip", "content": " ", "start": 1, "stop": 0}]})");
  const auto stream = llama->stream();
  EXPECT_EQ(stream->feed(*llama->token_to_id("▁the")), "the");
  EXPECT_EQ(stream->feed(*llama->token_to_id("▁cat")), " cat");
  EXPECT_EQ(stream->feed(*llama->token_to_id("<0xE2>")), "");
  EXPECT_EQ(stream->feed(*llama->token_to_id("<0x82>")), "");
  EXPECT_EQ(stream->feed(*llama->token_to_id("<0xAC>")), "€");
  const auto suffix = with_decoder(R"({"type": "BPEDecoder", "suffix": "</w>"})");
  const auto words = suffix->stream();
  EXPECT_EQ(words->feed(*suffix->token_to_id("dog</w>")), "");  // the space is only certain with the next word
  EXPECT_EQ(words->feed(*suffix->token_to_id("do")), "dog ");
  EXPECT_EQ(words->finish(), "do");
}

TEST(TextStream, RefusesAnIdWithoutAToken) {
  const auto tokenizer = with_decoder("null");
  EXPECT_ERROR(tokenizer->stream()->feed(999), ErrorKind::data,
               "id 999 is outside the tokenizer's vocabulary of 38 ids");
}

TEST(Continuation, KeepsTheSpaceBeforeTheFirstNewWord) {
  struct Row {
    const char *decoder, *prompt, *next, *text;
  };
  for (const Row& row : {
           Row{R"({"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always"})", "▁the", "▁cat", " cat"},
           Row{R"({"type": "Metaspace", "replacement": "▁", "prepend_scheme": "first"})", "▁the", "▁cat", " cat"},
           Row{R"({"type": "Metaspace", "replacement": "▁", "prepend_scheme": "never"})", "▁the", "▁cat", " cat"},
           Row{R"({"type": "WordPiece"})", "do", "not", " not"},
           Row{R"({"type": "WordPiece"})", "do", "##s", "s"},
           Row{R"({"type": "WordPiece"})", "do", ".", "."},
           Row{R"({"type": "BPEDecoder"})", "dog</w>", "do", " do"},
           Row{R"({"type": "Strip", "content": "a", "start": 1, "stop": 0})", "do", "a", ""},
           Row{"null", "do", "not", " not"},
       }) {
    SCOPED_TRACE(std::string(row.decoder) + " " + row.prompt + " " + row.next);
    const auto tokenizer = with_decoder(row.decoder);
    const Ids prompt{*tokenizer->token_to_id(row.prompt)};
    Continuation continuation(*tokenizer, prompt);
    std::string text = continuation.feed(*tokenizer->token_to_id(row.next));
    text += continuation.finish();
    EXPECT_EQ(text, row.text);
  }
}

}  // namespace
}  // namespace trireme
