#include "data/indexed_source.h"

#include <gtest/gtest.h>
#include <zlib.h>

#include <filesystem>
#include <thread>

#include "tests/support/expect_error.h"
#include "tests/support/temporary_folder.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

TEST(Blend, ChoosesAsMegatronDoes) {
  // from an independent computation with numpy's argmax
  const Blend blend({5, 3, 2}, 5000);
  std::vector<uint8_t> sets;
  std::vector<int64_t> samples;
  for (uint64_t i = 0; i < 5000; ++i) {
    const Blend::Choice choice = blend.at(i);
    sets.push_back(static_cast<uint8_t>(choice.set));
    samples.push_back(static_cast<int64_t>(choice.sample));
  }
  const auto crc = [](const auto& values) {
    const auto bytes = std::as_bytes(std::span(values));
    return crc32(0, reinterpret_cast<const Bytef*>(bytes.data()), static_cast<uInt>(bytes.size()));
  };
  EXPECT_EQ(crc(sets), 0x904fcfd7);
  EXPECT_EQ(crc(samples), 0x551ec670);
  EXPECT_EQ(blend.needed(0), 2513u);
  EXPECT_ERROR(Blend({0, 0}, 1), ErrorKind::usage, "the weights of the data sets are all 0");
  EXPECT_ERROR(Blend({1, -1}, 1), ErrorKind::usage, "weight -1 of a data set: expected a number >= 0");
}

TEST(ParseBlend, TakesOnePrefixOrWeightsInTurn) {
  EXPECT_EQ(parse_blend("a/x").size(), 1u);
  const auto two = parse_blend("0.7 a/x, 0.3 b");
  ASSERT_EQ(two.size(), 2u);
  EXPECT_EQ(two[0].weight, 0.7);
  EXPECT_EQ(two[1].prefix, "b");
  EXPECT_FALSE(parse_blend("a/x")[0].weighted);
  ASSERT_EQ(parse_blend("1 a/x").size(), 1u);
  EXPECT_TRUE(parse_blend("1 a/x")[0].weighted) << "one path of train_data_paths";
  EXPECT_ERROR(parse_blend("a b c"), ErrorKind::usage,
               "has 3 words; expected one prefix, or alternating weights and prefixes");
  EXPECT_ERROR(parse_blend("a 0.5 b 0.5"), ErrorKind::usage, "found \"a\", expected a weight; alternate");
}

class IndexedSamples : public testing::Test {
 protected:
  /// Documents of lengths 1 to 12 (and none), ids counting up from `first`.
  std::string dataset(const std::string& name, int first, IndexedType type = IndexedType::u16) const {
    IndexedLayout layout{.type = type};
    std::string bytes;
    int id = first;
    for (int document = 0; document < 30; ++document) {
      const int length = document * 7 % 13;
      for (int i = 0; i < length; ++i, ++id) bytes.append(reinterpret_cast<const char*>(&id), width_of(type));
      if (length > 0) layout.lengths.push_back(length);
      layout.documents.push_back(static_cast<int64_t>(layout.lengths.size()));
    }
    write_text(folder_ / (name + ".bin"), bytes);
    write_index(folder_ / (name + ".idx"), layout);
    return folder_ / name;
  }
  static std::vector<int32_t> sample(const SampleSource& source, uint64_t index, size_t sequence) {
    std::vector<int32_t> ids(sequence), targets(sequence);
    source.fill(SampleStream::training, index, ids, targets);
    EXPECT_TRUE(std::equal(ids.begin() + 1, ids.end(), targets.begin()));
    ids.push_back(targets.back());
    return ids;
  }
  TemporaryFolder folder_;
};

TEST_F(IndexedSamples, AreTheDocumentsInTheOrderOfTheIndex) {
  for (const IndexedType type : {IndexedType::u16, IndexedType::i32}) {
    const std::string prefix = dataset(type == IndexedType::u16 ? "x" : "y", 100, type);
    IndexedSourceOptions options;
    options.sets = {{1, prefix}};
    options.samples = 40;
    options.sequence = 9;
    options.seed = 5;
    const IndexedSource source(options);
    // All documents in the order of doc, ids concatenated: sample k (before the shuffle) is 10 of them from 9 k on.
    const NeoxIndex order(neox_index_stem(prefix, "", {"train", 40, 9, 5}));
    const IndexedDataset data(prefix);
    std::vector<int32_t> all;
    std::vector<uint64_t> begins;
    for (uint64_t place = 0; place < order.places(); ++place) {
      begins.push_back(all.size());
      const auto ids = data.sequence(order.document(place));
      all.insert(all.end(), ids.begin(), ids.end());
    }
    for (uint64_t i = 0; i < order.samples(); ++i) {
      const auto [place, offset] = order.begin(i);
      const auto from = all.begin() + static_cast<ptrdiff_t>(begins[place] + offset);
      EXPECT_EQ(sample(source, i, 9), (std::vector<int32_t>(from, from + 10))) << i;
    }
    EXPECT_EQ(sample(source, order.samples(), 9), sample(source, 0, 9));
    EXPECT_EQ(source.tokens(), data.tokens());
  }
}

TEST_F(IndexedSamples, OfSetsWithDifferentWidthsAreBlended) {
  const auto samples = [&](IndexedType second) {
    IndexedSourceOptions options;
    options.sets = {{1, dataset("x", 100)}, {1, dataset(second == IndexedType::u16 ? "y" : "z", 1000, second)}};
    options.samples = 20;
    options.sequence = 9;
    options.vocabulary = 1400;
    const IndexedSource source(options);
    std::vector<std::vector<int32_t>> all;
    for (uint64_t i = 0; i < 20; ++i) all.push_back(sample(source, i, 9));
    return all;
  };
  EXPECT_EQ(samples(IndexedType::i32), samples(IndexedType::u16));
  IndexedSourceOptions options;
  options.sets = {{1, dataset("x", 100)}, {1, dataset("w", 130000, IndexedType::i32)}};
  options.samples = 20;
  options.sequence = 9;
  options.vocabulary = 151936;
  EXPECT_ERROR(IndexedSource{options}, ErrorKind::data,
               "x.bin holds 16-bit ids, up to 65535, but the model's vocabulary has 151936 ids");
  options.vocabulary = 130010;
  options.sets = {{1, dataset("w", 130000, IndexedType::i32)}};
  EXPECT_ERROR(IndexedSource{options}, ErrorKind::data, "but the vocabulary has 130010 ids");
}

TEST_F(IndexedSamples, OfASplitCountTheTokensOfTheirPart) {
  IndexedSourceOptions options;
  options.sets = {{1, dataset("x", 100)}};
  options.split = "70,20,10";
  options.samples = 4;
  options.sequence = 3;
  const IndexedDataset data(options.sets[0].prefix);
  uint64_t total = 0;
  for (const char* part : {"train", "valid", "test"}) {
    options.part = part;
    const uint64_t tokens = IndexedSource(options).tokens();
    EXPECT_LT(tokens, data.tokens()) << part;
    total += tokens;
  }
  EXPECT_EQ(total, data.tokens());
}

TEST_F(IndexedSamples, OfSeveralSetsFollowTheWeights) {
  IndexedSourceOptions options;
  options.sets = {{3, dataset("low", 0)}, {1, dataset("high", 1000)}};
  options.samples = 400;
  options.sequence = 4;
  options.seed = 1;
  options.index_folder = folder_ / "order";
  const IndexedSource source(options);
  EXPECT_TRUE(fs::exists(folder_ / "order/low_train_0_indexmap_302ns_4sl_1s_packedpi_ac_doc_idx.npy"));
  EXPECT_TRUE(fs::exists(folder_ / "order/high_train_1_indexmap_101ns_4sl_1s_packedpi_ac_doc_idx.npy"));
  int low = 0;
  for (uint64_t i = 0; i < 400; ++i) low += sample(source, i, 4)[0] < 1000;
  EXPECT_EQ(low, 300);
  EXPECT_EQ(source.files({}).size(), 2u);
  EXPECT_NE(source.name().find("3 "), std::string::npos);
}

// The first ids of the samples of NeoX's classes (GPT2Dataset, BlendableDataset of ea7aefd) for one path with a weight.
// Every number of samples is the last of its epochs, so that 0.5 % more needs another epoch, and so another order, than
// the same dataset without a weight.
TEST_F(IndexedSamples, OfOneSetWithAWeightAreThoseOfOneOfNeoxsPaths) {
  const struct {
    const char* part;
    uint64_t samples, needed, seed;
    std::vector<int32_t> weighted, plain;
    int32_t last;
  } cases[] = {
      {"train", 171, 172, 7, {221, 124, 199, 194, 211, 268}, {266, 211, 152, 226, 219, 136}, 198},
      {"valid", 42, 43, 7, {162, 231, 153, 118, 198, 191}, {105, 155, 200, 171, 196, 152}, 166},
      {"test", 85, 86, 1234, {157, 237, 108, 171, 122, 263}, {271, 200, 135, 122, 198, 117}, 256},
  };
  const std::string prefix = dataset("x", 100);
  for (const auto& c : cases) {
    IndexedSourceOptions options;
    options.part = c.part;
    options.samples = c.samples;
    options.sequence = 4;
    options.seed = c.seed;
    for (const bool weighted : {true, false}) {
      options.sets = weighted ? parse_blend("0.3 " + prefix) : parse_blend(prefix);
      const IndexedSource source(options);
      const std::string stem =
          fmt::format("{}_{}_indexmap_{}ns_4sl_{}s_packedpi_ac", prefix, weighted ? c.part + std::string("_0") : c.part,
                      weighted ? c.needed : c.samples, c.seed);
      EXPECT_EQ(source.index_files().at(1), stem + "_doc_idx.npy");
      std::vector<int32_t> first;
      for (uint64_t i = 0; i < 6; ++i) first.push_back(sample(source, i, 4)[0]);
      EXPECT_EQ(first, weighted ? c.weighted : c.plain) << c.part;
      EXPECT_TRUE(!weighted || sample(source, c.samples - 1, 4)[0] == c.last) << c.part;
    }
  }
}

TEST_F(IndexedSamples, OfASplitComeFromItsDocuments) {
  const std::string prefix = dataset("x", 0);
  const IndexedDataset data(prefix);
  IndexedSourceOptions options;
  options.sets = {{1, prefix}};
  options.split = "80,20";
  options.samples = 50;
  options.sequence = 4;
  const uint64_t border = 22;  // of 28 sequences: round(0.8 * 28)
  uint64_t ids = 0;
  for (uint64_t i = 0; i < border; ++i) ids += static_cast<uint64_t>(data.lengths()[i]);
  const auto check = [&](const std::string& part, bool before) {
    options.part = part;
    const IndexedSource source(options);
    for (uint64_t i = 0; i < 50; ++i) {
      for (const int32_t id : sample(source, i, 4)) EXPECT_EQ(static_cast<uint64_t>(id) < ids, before) << part << i;
    }
  };
  check("train", true);
  check("valid", false);
  options.split = "50,50";  // other documents under the same names: created again
  options.part = "valid";
  const IndexedSource source(options);
  bool earlier = false;
  for (uint64_t i = 0; i < 50; ++i) earlier = earlier || static_cast<uint64_t>(sample(source, i, 4)[0]) < ids;
  EXPECT_TRUE(earlier);
}

TEST_F(IndexedSamples, AreMadeOnceByManyAtATime) {
  IndexedSourceOptions options;
  options.sets = {{1, dataset("x", 0)}};
  options.samples = 2000;
  options.sequence = 4;
  std::vector<std::vector<int32_t>> first(8);
  std::vector<std::thread> threads;
  for (size_t i = 0; i < first.size(); ++i)
    threads.emplace_back([&, i] { first[i] = sample(IndexedSource(options), 77, 4); });
  for (std::thread& thread : threads) thread.join();
  for (const auto& ids : first) EXPECT_EQ(ids, first[0]);
  for (const auto& entry : fs::directory_iterator(folder_.path())) EXPECT_NE(entry.path().extension(), ".lock");
}

TEST_F(IndexedSamples, AreMadeAgainWhenTheirFilesAreNotWhatTheyMustBe) {
  const std::string prefix = dataset("x", 0);
  IndexedSourceOptions options;
  options.sets = {{1, prefix}};
  options.samples = 20;
  options.sequence = 4;
  const std::string stem = neox_index_stem(prefix, "", {"train", 20, 4, 0});
  const auto samples = [&] {
    const IndexedSource source(options);
    std::vector<std::vector<int32_t>> all;
    for (uint64_t i = 0; i < 20; ++i) all.push_back(sample(source, i, 4));
    return all;
  };
  const auto expected = samples();
  std::vector<std::string> good;
  for (const std::string& file : neox_index_files(stem)) good.push_back(read_text(file));
  const std::string record = read_text(stem + ".xxh3");
  const auto expect_good = [&](const std::string& what) {
    testing::internal::CaptureStderr();
    EXPECT_EQ(samples(), expected) << what;
    const std::string said = testing::internal::GetCapturedStderr();
    for (size_t i = 0; i < good.size(); ++i) EXPECT_EQ(read_text(neox_index_files(stem)[i]), good[i]) << what;
    EXPECT_EQ(read_text(stem + ".xxh3"), record) << what;
    return said;
  };
  int damages = 0;
  for (size_t file = 0; file < good.size(); ++file) {
    for (size_t at = 0; at < good[file].size(); at += at < 128 ? 97 : 37) {
      for (const bool recorded : {true, false}) {  // NeoX keeps no record
        std::string bad = good[file];
        at >= 128 && at % 2 == 0 ? static_cast<void>(bad[at] ^= 4) : bad.resize(at);  // 128: the header
        write_text(neox_index_files(stem)[file], bad);
        if (!recorded) fs::remove(stem + ".xxh3");
        const std::string said = expect_good(fmt::format("file {}, byte {}, recorded {}", file, at, recorded));
        EXPECT_NE(said.find("is damaged or is that of other documents: creating it again"), std::string::npos);
        ++damages;
      }
    }
  }
  EXPECT_GT(damages, 30);
  for (const std::string& other : {std::string("nonsense"), std::string(), std::string(1000, '\0')}) {
    write_text(stem + ".xxh3", other);
    EXPECT_EQ(expect_good("record").find("is damaged"), std::string::npos);
  }
  // files that are right are used, whoever made them
  const auto made = fs::file_time_type::clock::now() - std::chrono::hours(1);
  fs::last_write_time(stem + "_doc_idx.npy", made);
  fs::remove(stem + ".xxh3");
  EXPECT_EQ(expect_good("NeoX's").find("creat"), std::string::npos);
  EXPECT_EQ(fs::last_write_time(stem + "_doc_idx.npy"), made);
  // data of other lengths under the same name, however old it is
  IndexedLayout layout{.type = IndexedType::u16, .lengths = {70, 80}, .documents = {0, 1, 2}};
  write_text(prefix + ".bin", std::string(300, '\1'));
  write_index(prefix + ".idx", layout);
  fs::last_write_time(prefix + ".idx", made - std::chrono::hours(1));
  EXPECT_EQ(samples().at(0), (std::vector<int32_t>(5, 257)));
}

TEST_F(IndexedSamples, OfAReadOnlyFolderAreCheckedWithoutARecord) {
  const std::string prefix = dataset("x", 0);
  IndexedSourceOptions options;
  options.sets = {{1, prefix}};
  options.samples = 20;
  options.sequence = 4;
  const auto expected = sample(IndexedSource(options), 3, 4);
  const std::string record = neox_index_stem(prefix, "", {"train", 20, 4, 0}) + ".xxh3";
  fs::remove(record);
  fs::create_directory(record);  // cannot be written, by root neither
  EXPECT_EQ(sample(IndexedSource(options), 3, 4), expected);
}

TEST_F(IndexedSamples, OfTooLittleTextAreRefused) {
  IndexedSourceOptions options;
  options.sets = {{1, dataset("x", 0)}};
  options.samples = 5;
  options.sequence = 500;
  EXPECT_ERROR(IndexedSource{options}, ErrorKind::data, "one sample needs 501; lower batch.sequence");
  options.sequence = 50;
  options.split = "999,1";
  options.part = "valid";
  EXPECT_ERROR(IndexedSource{options}, ErrorKind::data,
               "the documents for valid have 0 tokens, but one sample needs 51");
  const std::vector<int32_t> one = {1};
  EXPECT_ERROR(build_neox_index(folder_ / "y", one, 0, 1, {"train", 1'000'000, 4096, 0}), ErrorKind::data,
               "1000000 samples of 4096 ids need 4096000001 passes over the 1 document of the part \"train\"");
}

TEST_F(IndexedSamples, WithIdsThatTheModelLacksAreRefused) {
  IndexedSourceOptions options;
  options.sets = {{1, dataset("x", 1000)}};
  options.samples = 20;
  options.sequence = 4;
  options.vocabulary = 1050;
  EXPECT_ERROR(IndexedSource{options}, ErrorKind::data, "token 50 is id 1050, but the vocabulary has 1050 ids");
}

}  // namespace
}  // namespace trireme
