// Conversations that ranks tokenise together, ranks as threads.

#include "train/sft/tokenise.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <mutex>

#include "base/file.h"
#include "tests/support/expect_error.h"
#include "tests/support/local_ranks.h"
#include "tests/support/temporary_folder.h"

namespace trireme {
namespace {

using testing::StartsWith;

constexpr const char* kTemplate =
    "{% for m in messages %}<{{ m.role }}>{{ m.content }}<end>{% endfor %}{% if add_generation_prompt %}<assistant>{% "
    "endif %}";

/// Letters and the three marks.
std::unique_ptr<Tokenizer> tokenizer() {
  std::string vocabulary;
  for (int c = 32; c < 127; ++c) {
    const char letter = static_cast<char>(c);
    const std::string text = letter == '"' || letter == '\\' ? std::string("\\") + letter : std::string(1, letter);
    vocabulary += fmt::format("{}\"{}\": {}", vocabulary.empty() ? "" : ", ", letter == ' ' ? "\xC4\xA0" : text, c);
  }
  std::string added;
  int id = 127;
  for (const char* name : {"<user>", "<assistant>", "<end>"})
    added += fmt::format(
        R"({}{{"id": {}, "content": "{}", "single_word": false, "lstrip": false, "rstrip": false, "normalized": false, "special": true}})",
        added.empty() ? "" : ", ", id++, name);
  return tokenizer_from_json(
      fmt::format(
          R"({{"added_tokens": [{}], "pre_tokenizer": {{"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true}}, "decoder": {{"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true}}, "model": {{"type": "BPE", "vocab": {{{}}}, "merges": []}}}})",
          added, vocabulary),
      "test");
}

class Tokenise : public ::testing::Test {
 protected:
  Tokenise() {
    files_.where = "model";
    files_.templates["default"] = {kTemplate, "template"};
    std::string text;
    for (std::size_t n = 0; n < 100; ++n)
      text += fmt::format(R"({{"prompt": "{}", "completion": "answer {}"}})", std::string(1 + n % 7, 'q'), n) + "\n";
    write_text(path("data.jsonl"), text);
    source_.files = {path("data.jsonl")};
  }
  std::string path(const std::string& name) const { return folder_ / name; }

  TokenisedConversations run(int ranks, int threads = 1) const {
    TokenisedConversations first;
    std::mutex mutex;
    run_local(ranks, [&](RankContext& rank) {
      rank.threads = threads;
      Scalars scalars(rank.world);
      TokenisedConversations got = tokenise(source_, files_, *tokenizer(), rank, scalars);
      const std::lock_guard lock(mutex);
      if (first.ids.size() == 0) first = got;
      EXPECT_EQ(got.ids.codes, first.ids.codes) << rank.rank();
      EXPECT_EQ(got.ids.offsets, first.ids.offsets);
      EXPECT_EQ(got.counts.rows, first.counts.rows);
      EXPECT_EQ(got.counts.skipped, first.counts.skipped);
    });
    return first;
  }

  TemporaryFolder folder_;
  ConversationSource source_;
  chat::ChatFiles files_;
};

TEST_F(Tokenise, GivesTheAssistantsWordsWithTheirEnd) {
  const TokenisedConversations one = run(1);
  EXPECT_EQ(one.ids.size(), 100U);
  EXPECT_EQ(one.counts.rows, 100U);
  std::vector<int32_t> want{127, 'q', 129, 128};
  for (const char c : std::string("answer 0")) want.push_back(~static_cast<int32_t>(c));
  want.push_back(~129);
  EXPECT_EQ(std::vector<int32_t>(one.ids.at(0).begin(), one.ids.at(0).end()), want);
}

TEST_F(Tokenise, IsTheSameOnAnyNumberOfRanksAndThreads) {
  const TokenisedConversations one = run(1);
  for (const int ranks : {2, 3, 4}) EXPECT_EQ(run(ranks).ids.codes, one.ids.codes) << ranks;
  EXPECT_EQ(run(1, 3).ids.codes, one.ids.codes);
  EXPECT_EQ(run(2, 2).ids.codes, one.ids.codes);
}

TEST_F(Tokenise, GivesBothAnswersOfPairsInTheirOrder) {
  std::string text;
  for (int n = 0; n < 60; ++n)
    text += fmt::format(R"({{"prompt": "q", "chosen": "yes {}", "rejected": "no {}"}})", n, n) + "\n";
  write_text(path("data.jsonl"), text);
  EXPECT_EQ(run(1).ids.size(), 60U) << "without pairs only the chosen ones";
  source_.columns.pairs = true;
  const TokenisedConversations one = run(1);
  ASSERT_EQ(one.ids.size(), 120U);
  EXPECT_EQ(one.rejected, 0U);
  for (size_t i = 0; i < 120; ++i) EXPECT_EQ(one.ids.at(i)[4], ~static_cast<int32_t>(i % 2 == 0 ? 'y' : 'n')) << i;
  for (const int ranks : {2, 3}) EXPECT_EQ(run(ranks, 2).ids.codes, one.ids.codes) << ranks;
  source_.cache = path("cache");
  (void)run(1);
  EXPECT_EQ(run(1).ids.codes, one.ids.codes);
  source_.columns.pairs = false;
  EXPECT_EQ(run(1).ids.size(), 60U) << "the same rows, read for another task";
}

TEST_F(Tokenise, KeepsTheOrderOfSeveralFiles) {
  write_text(path("more.jsonl"), R"({"instruction": "a", "output": "z"})");
  source_.files = {path("data.jsonl"), path("more.jsonl")};
  const TokenisedConversations all = run(2);
  ASSERT_EQ(all.ids.size(), 101U);
  EXPECT_EQ(all.ids.at(100)[4], ~static_cast<int32_t>('z'));
}

TEST_F(Tokenise, TextsWithoutRolesCountWholeWithTheTokenThatEndsThem) {
  files_.templates.clear();  // a base model has none
  files_.tokens["eos_token"] = "<end>";
  write_text(path("data.jsonl"), R"({"text": "ab"})"
                                 "\n"
                                 R"({"text": "c<end>"})"
                                 "\n");
  const TokenisedConversations got = run(2);
  ASSERT_EQ(got.ids.size(), 2U);
  EXPECT_THAT(got.ids.codes, testing::ElementsAre(~'a', ~'b', ~129, ~'c', ~129));
  write_text(path("data.jsonl"), R"({"prompt": "q", "completion": "a"})"
                                 "\n");
  EXPECT_THROW(run(1), Error);  // needs one
}

TEST_F(Tokenise, RefusesOrCountsBadRows) {
  const std::string good = R"({"prompt": "q", "completion": "a"})";
  const struct {
    std::string row, message;
  } cases[] = {
      {R"({"messages": [{"role": "user", "content": "d"}]})", "row 2: no turn of the assistant"},
      {R"({"messages": [{"role": "user", "content": "d"}, {"role": "assistant", "content": "d", "weight": 0}]})",
       "row 2: no turn of the assistant counts: the messages' own switches (weight, train, ...) leave all of them out"},
      {"{\"prompt\": \"\xff\", \"completion\": \"a\"}", "row 2: "},
      {R"({"words": "t"})", "row 2: no conversation: expected \"messages\""},
      {R"({"prompt": "raise", "completion": "a"})",
       "row 2: template line 1: the template refuses the conversation: no"},
  };
  files_.templates["default"].text = std::string(
                                         "{% if messages[0].content == 'raise' %}{{ raise_exception('no') }}"
                                         "{% endif %}") +
                                     kTemplate;
  for (const auto& [row, message] : cases) {
    SCOPED_TRACE(row);
    write_text(path("data.jsonl"), good + "\n" + row + "\n" + good + "\n");
    for (const int ranks : {1, 2}) {
      source_.skips = false;
      EXPECT_ERROR(run(ranks), ErrorKind::data, path("data.jsonl") + " " + message);
      EXPECT_ERROR(run(ranks), ErrorKind::data, "; --skip-bad-rows skips and counts such rows");
      source_.skips = true;
      const TokenisedConversations got = run(ranks);
      EXPECT_EQ(got.ids.size(), 2U);
      EXPECT_EQ(got.counts.rows, 3U);
      EXPECT_EQ(got.counts.skipped, 1U);
      EXPECT_THAT(got.counts.first_skipped, StartsWith(path("data.jsonl") + " " + message));
    }
  }
}

TEST_F(Tokenise, CountsWhatIsWorthALineOnAllRanks) {
  const std::string call = R"({"role": "assistant", "content": "a", "tool_calls": [{"function": {"name": "a",
      "arguments": "{}"}}]})";
  std::string text, row = R"({"messages": [{"role": "user", "content": "q"}, )" + call + "]}";
  std::erase(row, '\n');
  for (int n = 0; n < 40; ++n) text += row + "\n" + R"({"prompt": 5, "completion": ""})" + "\n";
  write_text(path("data.jsonl"), text);
  source_.skips = true;
  files_.templates["default"].text =
      "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}{% if add_generation_prompt %}<assistant>{% "
      "endif "
      "%}";
  source_.cache = path("cache");
  for (const int ranks : {2, 1}) {  // the second from the cache
    const TokenisedConversations got = run(ranks);
    EXPECT_EQ(got.counts.reasons, (std::map<std::string, uint64_t>{{"\"prompt\" is number, expected a string", 40}}));
    EXPECT_EQ(got.counts.list.size(), 40U);
    EXPECT_EQ(got.counts.firsts.begin()->second, path("data.jsonl") + " row 2");
    ASSERT_EQ(got.notes.size(), 2U);
    EXPECT_THAT(got.notes.begin()->first, StartsWith("no special token ends what the assistant says"));
    EXPECT_THAT(got.notes.rbegin()->first, StartsWith("the arguments of tool calls are JSON as text"));
    for (const auto& [note, rows] : got.notes) EXPECT_EQ(rows, 40U);
    EXPECT_EQ(got.from_cache.empty(), ranks == 2);
  }
}

TEST_F(Tokenise, TakesTheChosenOfTwoAnswers) {
  write_text(path("data.jsonl"), R"({"prompt": "q", "chosen": "y", "rejected": "n"})");
  const TokenisedConversations got = run(1);
  ASSERT_EQ(got.ids.size(), 1U);
  EXPECT_EQ(got.ids.at(0)[4], ~static_cast<int32_t>('y'));
  EXPECT_EQ(got.rejected, 1U);
}

TEST_F(Tokenise, NamesRanksWithOtherFiles) {
  write_text(path("other.jsonl"), R"({"prompt": "q", "completion": "a"})");
  const auto body = [&](RankContext& rank) {
    ConversationSource source = source_;
    if (rank.rank() == 2) source.files = {path("other.jsonl")};
    Scalars scalars(rank.world);
    tokenise(source, files_, *tokenizer(), rank, scalars);
  };
  EXPECT_ERROR(run_local(3, body), ErrorKind::mismatch, "ranks do not have the same conversations and template");
}

TEST_F(Tokenise, StopsWhenAsked) {
  const auto body = [&](RankContext& rank) {
    rank.stop_requested = [] { return true; };
    Scalars scalars(rank.world);
    tokenise(source_, files_, *tokenizer(), rank, scalars);
  };
  EXPECT_ERROR(run_local(2, body), ErrorKind::stopped, "stopped while conversations were tokenised: nothing to save");
}

TEST_F(Tokenise, KeepsTheIdsByWhatTheyDependOn) {
  source_.cache = path("cache");
  const TokenisedConversations made = run(2);
  EXPECT_EQ(made.from_cache, "");
  const auto files = [&] {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(source_.cache)) names.push_back(entry.path());
    return names;
  };
  ASSERT_EQ(files().size(), 1U);
  const TokenisedConversations kept = run(3);
  EXPECT_EQ(kept.from_cache, files()[0]);
  EXPECT_EQ(kept.ids.codes, made.ids.codes);
  EXPECT_EQ(kept.ids.offsets, made.ids.offsets);
  EXPECT_EQ(kept.counts.rows, made.counts.rows);

  source_.loss_on = chat::LossOn::all;
  EXPECT_EQ(run(1).from_cache, "");
  source_.loss_on = chat::LossOn::assistant;
  files_.templates["default"].text = std::string("{# another #}") + kTemplate;
  EXPECT_EQ(run(1).from_cache, "");
  source_.template_options = R"({"x": 1})";
  EXPECT_EQ(run(1).from_cache, "");
  source_.date.tm_year = 126;
  EXPECT_NE(run(1).from_cache, "") << "this template does not see the date";
  files_.templates["default"].text = std::string("{{ strftime_now('%Y') if false }}") + kTemplate;
  EXPECT_EQ(run(1).from_cache, "");
  source_.date.tm_year = 127;
  EXPECT_EQ(run(1).from_cache, "");
  EXPECT_EQ(files().size(), 6U);
}

TEST_F(Tokenise, ReadsTheConversationsAgainWhenTheCacheIsDamaged) {
  source_.cache = path("cache");
  const TokenisedConversations made = run(1);
  const std::string file = std::filesystem::directory_iterator(source_.cache)->path();
  std::string text = read_text(file);
  text[text.size() / 2] ^= 1;
  write_text(file, text);
  const TokenisedConversations again = run(2);
  EXPECT_EQ(again.from_cache, "");
  EXPECT_EQ(again.ids.codes, made.ids.codes);
  EXPECT_EQ(run(2).from_cache, file) << "the damaged file was replaced";
  std::filesystem::remove(file);
  std::filesystem::create_directory(file);  // a cache that cannot be read is named and costs no start
  testing::internal::CaptureStderr();
  EXPECT_EQ(run(1).from_cache, "");
  EXPECT_NE(testing::internal::GetCapturedStderr().find(file + " is a folder"), std::string::npos);
}

}  // namespace
}  // namespace trireme
