#include "data/indexed_dataset.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>

#include "base/error.h"
#include "data/prepare/prepare_megatron.h"
#include "tests/support/expect_error.h"
#include "tests/support/temporary_folder.h"
#include "text/files/tokenizer_writer.h"

namespace trireme {
namespace {

using testing::HasSubstr;

class Indexed : public testing::Test {
 protected:
  Indexed() { prefix_ = (folder_ / "x_text_document").string(); }

  /// Documents {7, 8, 9}, none, {513}.
  void write_sample(IndexedType type) const {
    write_text(prefix_ + ".bin", bytes_of({7, 8, 9, 513}, width_of(type)));
    write_index(prefix_ + ".idx", {.type = type, .lengths = {3, 1}, .documents = {0, 1, 1, 2}});
  }
  static std::string bytes_of(std::initializer_list<uint64_t> values, size_t width) {
    std::string out;
    for (const uint64_t value : values) out.append(reinterpret_cast<const char*>(&value), width);
    return out;
  }
  std::string error() const {
    try {
      const IndexedDataset dataset(prefix_);
    } catch (const Error& e) {
      EXPECT_EQ(e.kind(), ErrorKind::data);
      return e.what();
    }
    return "no error";
  }

  TemporaryFolder temporary_;
  std::filesystem::path folder_ = temporary_.path();
  std::string prefix_;
};

TEST_F(Indexed, WritesTheBytesOfTheFormat) {
  write_sample(IndexedType::u16);
  EXPECT_EQ(read_text(prefix_ + ".idx"), std::string("MMIDIDX\0\0", 9) + bytes_of({1}, 8) + "\x08" +
                                             bytes_of({2, 4}, 8) + bytes_of({3, 1}, 4) + bytes_of({0, 6}, 8) +
                                             bytes_of({0, 1, 1, 2}, 8));
  write_sample(IndexedType::i32);
  EXPECT_EQ(read_text(prefix_ + ".idx"), std::string("MMIDIDX\0\0", 9) + bytes_of({1}, 8) + "\x04" +
                                             bytes_of({2, 4}, 8) + bytes_of({3, 1}, 4) + bytes_of({0, 12}, 8) +
                                             bytes_of({0, 1, 1, 2}, 8));
}

TEST_F(Indexed, ReadsBackBothTypes) {
  for (const IndexedType type : {IndexedType::u16, IndexedType::i32}) {
    write_sample(type);
    const IndexedDataset dataset(prefix_);
    EXPECT_EQ(dataset.type(), type);
    EXPECT_EQ(dataset.tokens(), 4u);
    EXPECT_EQ(dataset.documents(), 3u);
    EXPECT_EQ(dataset.sequence(0), (std::vector<TokenId>{7, 8, 9}));
    EXPECT_EQ(dataset.sequence(1), (std::vector<TokenId>{513}));
  }
}

TEST_F(Indexed, ReadsTheCachedForm) {
  write_text(prefix_ + ".bin", bytes_of({7, 8, 9, 513}, 4));
  write_text(prefix_ + ".idx", std::string("TNTIDX\0\0", 8) + bytes_of({1, 4, 4, 2, 2, 3}, 8) + bytes_of({0, 1, 2}, 8) +
                                   bytes_of({0, 3, 4}, 8) + bytes_of({3, 1}, 8) + bytes_of({0, 1, 2}, 8));
  const IndexedDataset dataset(prefix_);
  EXPECT_EQ(dataset.documents(), 2u);
  EXPECT_EQ(dataset.sequence(0), (std::vector<TokenId>{7, 8, 9}));
}

TEST_F(Indexed, RefusesWhatDoesNotFit) {
  write_sample(IndexedType::u16);
  const std::string good = read_text(prefix_ + ".idx");
  const auto with = [&](size_t at, char byte) {
    std::string bad = good;
    bad[at] = byte;
    write_text(prefix_ + ".idx", bad);
    return error();
  };
  EXPECT_THAT(with(0, 'X'), HasSubstr("is not an index"));
  EXPECT_THAT(with(9, 2), HasSubstr("version 2, expected 1"));
  EXPECT_THAT(with(17, 5), HasSubstr("dtype code 5"));
  EXPECT_THAT(with(34, 4), HasSubstr("sequence 1 begins at byte 6, but according to the lengths before it at 8"));
  EXPECT_THAT(with(25, 0x7f), HasSubstr("is truncated: it declares"));
  EXPECT_THAT(with(good.size() - 8, 1), HasSubstr("the document index does not go from 0 to 2"));
  for (size_t size = 9; size < good.size(); ++size) {
    write_text(prefix_ + ".idx", good.substr(0, size));
    EXPECT_THAT(error(), HasSubstr("is truncated")) << size;
  }
  write_text(prefix_ + ".idx", good + "mm");
  EXPECT_THAT(error(), HasSubstr("2 bytes after the index"));
  write_text(prefix_ + ".idx", good);
  write_text(prefix_ + ".bin", "odd");
  EXPECT_THAT(error(), HasSubstr("has 3 bytes"));
}

TEST_F(Indexed, ChoosesTheTypeOfTheReference) {
  EXPECT_EQ(indexed_type_for(65499), IndexedType::u16);
  EXPECT_EQ(indexed_type_for(65500), IndexedType::i32);
}

TEST_F(Indexed, PreparesOneDatasetPerKey) {
  write_text((folder_ / "t.json").string(), character_tokenizer_json({'a', 'b'}, true));
  write_text((folder_ / "in.jsonl").string(),
             "{\"text\": \"ab\", \"title\": \"b\"}\n{\"text\": \"\", \"title\": \"a\"}\n");
  MegatronOptions options;
  options.inputs = {(folder_ / "in.jsonl").string()};
  options.tokenizer = (folder_ / "t.json").string();
  options.prefix = (folder_ / "out").string();
  options.json_keys = {"text", "title"};
  options.append_eod = true;
  const MegatronReport report = prepare_megatron(options);
  EXPECT_EQ(report.documents, 2u);
  const IndexedDataset text(options.prefix + "_text_document"), title(options.prefix + "_title_document");
  EXPECT_EQ(text.sequence(0), (std::vector<TokenId>{0, 1, 2}));
  EXPECT_EQ(text.sequence(1), (std::vector<TokenId>{2}));
  EXPECT_EQ(title.sequence(1), (std::vector<TokenId>{0, 2}));
  EXPECT_EQ(text.check_ids(3, true), 1u);
  EXPECT_EQ(text.sidecar()->tokens, 4u);
  EXPECT_FALSE(std::filesystem::exists(folder_ / ".out.prepare"));
}

TEST_F(Indexed, FindsWhatWasChangedAfterwards) {
  write_text((folder_ / "t.json").string(), character_tokenizer_json({'a', 'b'}, true));
  write_text((folder_ / "in.jsonl").string(), "{\"text\": \"ab\"}\n");
  MegatronOptions options;
  options.inputs = {(folder_ / "in.jsonl").string()};
  options.tokenizer = (folder_ / "t.json").string();
  options.prefix = (folder_ / "x").string();
  prepare_megatron(options);
  EXPECT_ERROR(IndexedDataset(prefix_).check_ids(2, false), ErrorKind::data,
               "was prepared with a vocabulary of 3 ids, but the model has 2");
  write_text(prefix_ + ".bin", bytes_of({0, 2}, 2));
  EXPECT_ERROR(IndexedDataset(prefix_).check_ids(3, false), ErrorKind::data, "have checksum");
  std::filesystem::remove(prefix_ + ".bin.json");
  EXPECT_EQ(IndexedDataset(prefix_).check_ids(3, true), 1u);
  EXPECT_ERROR(IndexedDataset(prefix_).check_ids(2, true), ErrorKind::data, "token 1 is id 2");
}

}  // namespace
}  // namespace trireme
