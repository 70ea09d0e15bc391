#include "data/sample_source.h"

#include <gtest/gtest.h>

#include <map>

#include "base/file.h"
#include "base/rng.h"
#include "tests/support/expect_error.h"
#include "tests/support/temporary_folder.h"

namespace trireme {
namespace {

constexpr int kWords = 200, kPieces = 100;
constexpr size_t kLength = 130;  // 128 tokens of text

/// Random ids: words, pieces that continue a word, and occasional special tokens.
class ChanceText final : public FileSource {
 public:
  explicit ChanceText(uint64_t special_of = 40) : special_of_(special_of) {}
  void fill(SampleStream stream, uint64_t index, std::span<int32_t> tokens, std::span<int32_t> targets) const override {
    RandomStream random(mix_key(static_cast<uint32_t>(stream), index));
    for (int32_t& token : tokens) {
      token = static_cast<int32_t>(5 + random.below(kWords + kPieces));
      if (special_of_ > 0 && random.below(special_of_) == 0) token = 3;
    }
    std::ranges::fill(targets, 77);
  }
  uint64_t tokens() const override { return 1u << 20; }
  std::string name() const override { return "chance"; }
  std::vector<SourceFile> files(const BeforeBlock&) const override { return {{"chance.bin", 1, 2}}; }

 private:
  uint64_t special_of_;
};

class MaskedSourceTest : public testing::Test {
 protected:
  struct Sample {
    std::vector<int32_t> tokens, targets;
    bool operator==(const Sample&) const = default;
  };

  std::unique_ptr<Tokenizer> tokenizer(const std::string& first = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n",
                                       const char* piece = "##p") {
    std::string words = first;
    for (int i = 0; i < kWords; ++i) words += fmt::format("w{}\n", i);
    for (int i = 0; i < kPieces; ++i) words += fmt::format("{}{}\n", piece, i);
    write_text(folder_ / "vocab.txt", words);
    return load_tokenizer(folder_ / "vocab.txt");
  }
  MaskedSource source(double rate, bool whole_words, uint64_t seed = 7, uint64_t special_of = 40) {
    return {std::make_unique<ChanceText>(special_of), masking_of(*tokenizer(), rate, whole_words), seed};
  }
  static Sample sample(const SampleSource& from, uint64_t index, SampleStream stream = SampleStream::training,
                       size_t length = kLength) {
    Sample s{std::vector<int32_t>(length), std::vector<int32_t>(length)};
    from.fill(stream, index, s.tokens, s.targets);
    return s;
  }
  static Sample plain(uint64_t index, uint64_t special_of = 40) {
    return sample(ChanceText(special_of), index, SampleStream::training, kLength - 2);
  }
  static int64_t hidden(const Sample& s) {
    return std::ranges::count_if(s.targets, [](int32_t t) { return t >= 0; });
  }

  TemporaryFolder folder_;
};

TEST_F(MaskedSourceTest, PutsTheTextBetweenTheTokenizersEnds) {
  const Sample s = sample(source(0.15, false), 4), text = plain(4);
  EXPECT_EQ(s.tokens.front(), 2);
  EXPECT_EQ(s.tokens.back(), 3);
  EXPECT_EQ(s.targets.front(), -1);
  EXPECT_EQ(s.targets.back(), -1);
  for (size_t i = 0; i < text.tokens.size(); ++i) {
    if (s.targets[i + 1] < 0) {
      EXPECT_EQ(s.tokens[i + 1], text.tokens[i]) << i;
    } else {
      EXPECT_EQ(s.targets[i + 1], text.tokens[i]) << i;
    }
  }
}

TEST_F(MaskedSourceTest, MasksTheRequestedShareUniformly) {
  constexpr int kSamples = 600;
  const MaskedSource masked = source(0.15, false, 7, 0);
  std::map<int32_t, int> drawn;
  std::vector<int> places(kLength);
  int masks = 0, others = 0, same = 0;
  for (uint64_t n = 0; n < kSamples; ++n) {
    const Sample s = sample(masked, n);
    EXPECT_EQ(hidden(s), 19);  // 0.15 x 128
    for (size_t i = 0; i < kLength; ++i) {
      if (s.targets[i] < 0) continue;
      ++places[i];
      if (s.tokens[i] == 4) {
        ++masks;
      } else if (s.tokens[i] == s.targets[i]) {
        ++same;
      } else {
        ++others;
        ++drawn[s.tokens[i]];
      }
    }
  }
  // Five standard deviations of 11400 draws.
  constexpr double kAll = kSamples * 19;
  EXPECT_NEAR(masks / kAll, 0.8, 0.019);
  EXPECT_NEAR(same / kAll, 0.1, 0.014);
  EXPECT_NEAR(others / kAll, 0.1, 0.014);
  EXPECT_GT(drawn.size(), 250u);  // of 300 ordinary tokens
  EXPECT_GE(drawn.begin()->first, 5);
  for (size_t i = 1; i + 1 < kLength; ++i) EXPECT_NEAR(places[i] / 600.0, 19.0 / 128, 0.073) << i;
}

TEST_F(MaskedSourceTest, NeverHidesSpecialTokens) {
  const MaskedSource masked = source(0.9, false, 7, 4);
  for (uint64_t n = 0; n < 50; ++n) {
    const Sample s = sample(masked, n);
    for (size_t i = 0; i < kLength; ++i) EXPECT_TRUE(s.targets[i] == -1 || s.targets[i] >= 5);
  }
}

TEST_F(MaskedSourceTest, IsAPureFunctionOfSeedStreamAndIndex) {
  const MaskedSource masked = source(0.15, true), other_seed = source(0.15, true, 8);
  std::vector<Sample> forward, backward;
  for (uint64_t n = 0; n < 30; ++n) forward.push_back(sample(masked, n));
  for (uint64_t n = 30; n-- > 0;) backward.insert(backward.begin(), sample(masked, n));
  EXPECT_EQ(forward, backward);
  int same = 0;
  for (uint64_t n = 0; n < 30; ++n) {
    same += sample(other_seed, n) == forward[n];
    same += sample(masked, n, SampleStream::evaluation) == forward[n];
    same += n > 0 && forward[n].targets == forward[n - 1].targets;
  }
  EXPECT_EQ(same, 0);
}

TEST_F(MaskedSourceTest, HidesWholeWordsOrNone) {
  const MaskedSource masked = source(0.15, true);
  int64_t all = 0, words = 0;
  const auto is_piece = [](int32_t id) { return id >= 5 + kWords; };
  for (uint64_t n = 0; n < 300; ++n) {
    const Sample s = sample(masked, n), text = plain(n);
    all += hidden(s);
    const auto specials = std::ranges::count(text.tokens, 3);
    EXPECT_LE(hidden(s), std::llround(0.15 * static_cast<double>(128 - specials)));
    for (size_t i = 1; i < text.tokens.size(); ++i) {
      if (!is_piece(text.tokens[i]) || text.tokens[i - 1] == 3) continue;
      ++words;
      EXPECT_EQ(s.targets[i + 1] >= 0, s.targets[i] >= 0) << "sample " << n << " place " << i;
    }
  }
  EXPECT_GT(words, 5000);
  EXPECT_NEAR(static_cast<double>(all) / (300 * 125), 0.15, 0.005);  // the rest is shorter than a word
}

TEST_F(MaskedSourceTest, HidesAtLeastOneTokenOfTheShortestText) {
  const MaskedSource masked = source(0.01, true, 7, 0);
  for (uint64_t n = 0; n < 50; ++n) EXPECT_GE(hidden(sample(masked, n, SampleStream::training, 4)), 1);
}

TEST_F(MaskedSourceTest, SaysWhatATokenizerLacks) {
  EXPECT_ERROR(masking_of(*tokenizer("[PAD]\n[UNK]\n[CLS]\n[SEP]\n"), 0.15, false), ErrorKind::config,
               "the data's tokenizer lacks [MASK], which a masked language model needs");
  EXPECT_ERROR(masking_of(*tokenizer("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n", "p"), 0.15, true), ErrorKind::config,
               "data.whole-words needs a WordPiece vocabulary, but no token of the data's tokenizer begins with ##");
}

}  // namespace
}  // namespace trireme
