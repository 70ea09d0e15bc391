
#include <gtest/gtest.h>

#include <bit>
#include <cstring>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "base/file.h"
#include "report/sink.h"
#include "tests/support/temporary_folder.h"

namespace trireme {
namespace {

/// A reader written from the format descriptions only, to check the writer.
struct Reader {
  std::string_view bytes;
  template <class T>
  T fixed() {
    T value;
    std::memcpy(&value, bytes.data(), sizeof value);
    bytes.remove_prefix(sizeof value);
    return value;
  }
  uint64_t varint() {
    uint64_t value = 0;
    for (int shift = 0;; shift += 7) {
      const auto byte = static_cast<uint8_t>(bytes.front());
      bytes.remove_prefix(1);
      value |= static_cast<uint64_t>(byte & 0x7F) << shift;
      if (byte < 0x80) return value;
    }
  }
  std::string_view take(size_t n) {
    const std::string_view taken = bytes.substr(0, n);
    bytes.remove_prefix(n);
    return taken;
  }
};

struct Field {
  uint64_t number = 0;  ///< varint or fixed bits
  std::string_view bytes;
};

std::map<uint64_t, Field> fields_of(std::string_view message) {
  std::map<uint64_t, Field> fields;
  for (Reader reader{message}; !reader.bytes.empty();) {
    const uint64_t tag = reader.varint();
    Field& field = fields[tag >> 3];
    if ((tag & 7) == 0) field.number = reader.varint();
    if ((tag & 7) == 1) field.number = reader.fixed<uint64_t>();
    if ((tag & 7) == 2) field.bytes = reader.take(reader.varint());
    if ((tag & 7) == 5) field.number = reader.fixed<uint32_t>();
  }
  return fields;
}

uint32_t unmasked(uint32_t masked) {
  const uint32_t rotated = masked - 0xA282EAD8;
  return (rotated >> 17) | (rotated << 15);
}

std::vector<std::string> records_of(std::string_view file) {
  std::vector<std::string> records;
  for (Reader reader{file}; !reader.bytes.empty();) {
    const std::string_view length_bytes = reader.bytes.substr(0, 8);
    const auto length = reader.fixed<uint64_t>();
    EXPECT_EQ(unmasked(reader.fixed<uint32_t>()), crc32c(length_bytes));
    records.emplace_back(reader.take(length));
    EXPECT_EQ(unmasked(reader.fixed<uint32_t>()), crc32c(records.back()));
  }
  return records;
}

TEST(Crc32c, EqualsThePublishedVectors) {
  EXPECT_EQ(crc32c(""), 0u);
  EXPECT_EQ(crc32c("123456789"), 0xE3069283u);            // check value of the CRC catalogue
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8A9136AAu);  // RFC 3720, B.4
  EXPECT_EQ(crc32c(std::string(32, '\xFF')), 0x62A8AB43u);
}

TEST(TfRecord, FramesLengthAndBytesWithMaskedChecksums) {
  EXPECT_EQ(records_of(tfrecord("abc") + tfrecord("")), (std::vector<std::string>{"abc", ""}));
}

TEST(ScalarEvent, DecodesToTimeStepTagAndValue) {
  const std::string event = scalar_event(1234.5, 300, "train/loss", 2.5f);
  auto fields = fields_of(event);
  EXPECT_EQ(std::bit_cast<double>(fields[1].number), 1234.5);
  EXPECT_EQ(fields[2].number, 300u);
  auto value = fields_of(fields_of(fields[5].bytes)[1].bytes);
  EXPECT_EQ(value[1].bytes, "train/loss");
  EXPECT_EQ(std::bit_cast<float>(static_cast<uint32_t>(value[2].number)), 2.5f);
}

TEST(TensorboardSink, WritesVersionThenSessionStartThenScalars) {
  const TemporaryFolder folder;
  const auto sink = make_tensorboard_sink(folder / "tensorboard");
  sink->start({100, 200, {}});
  sink->step({110, 4.5, 1e-3, 0.5, 1000, 12, 0.25, 0.5, 880, 1760, 0, 90.0, 2'500'000'000});
  sink->evaluation({110, std::nullopt, 4.25, 1, true});

  const MappedFile file(std::filesystem::directory_iterator(folder / "tensorboard")->path().string());
  EXPECT_NE(file.path().find("events.out.tfevents."), std::string::npos);
  const auto records = records_of(file.text());
  ASSERT_GE(records.size(), 3u);
  EXPECT_EQ(fields_of(records[0])[3].bytes, "brain.Event:2");
  EXPECT_EQ(fields_of(records[1])[2].number, 101u);  // the first step of this attempt
  EXPECT_EQ(fields_of(fields_of(records[1])[7].bytes)[1].number, 1u);

  std::map<std::string, float> scalars;
  for (size_t i = 2; i < records.size(); ++i) {
    auto event = fields_of(records[i]);
    EXPECT_EQ(event[2].number, 110u);
    auto value = fields_of(fields_of(event[5].bytes)[1].bytes);
    scalars[std::string(value[1].bytes)] = std::bit_cast<float>(static_cast<uint32_t>(value[2].number));
  }
  EXPECT_EQ(scalars.at("train/loss"), 4.5f);
  EXPECT_EQ(scalars.at("train/perplexity"), 90.0f);
  EXPECT_EQ(scalars.at("memory/resident_gb"), 2.5f);
  EXPECT_EQ(scalars.at("speed/exposed_share"), 0.25f);
  EXPECT_EQ(scalars.at("validation/loss"), 4.25f);
  EXPECT_EQ(scalars.count("validation/train_loss"), 0u);
}

TEST(TensorboardSink, BeginsAnotherFileThatIsReadableByItselfAndKeepsTheLast) {
  const TemporaryFolder folder;
  const auto sink = make_tensorboard_sink(folder.path(), 1000);
  sink->start({0, 200, {}});
  for (int64_t step = 1; step <= 100; ++step) sink->step({step, 4.5, 1e-3, 0.5, 1000, 12, 0.25, 0.5, 880, 1760, 0});
  std::set<std::string> files;
  for (const auto& item : std::filesystem::directory_iterator(folder.path())) files.insert(item.path());
  ASSERT_EQ(files.size(), 1u + kOlderLogs);
  // In the order of their names each continues the previous one.
  uint64_t step = 0;
  for (const std::string& path : files) {
    const MappedFile file(path);
    const auto records = records_of(file.text());
    EXPECT_EQ(fields_of(records[0])[3].bytes, "brain.Event:2");
    const uint64_t first = fields_of(records[1])[2].number;
    if (step > 0) {
      EXPECT_EQ(first, step + 1);
    }
    step = fields_of(records.back())[2].number;
  }
  EXPECT_EQ(step, 100u);
}

}  // namespace
}  // namespace trireme
