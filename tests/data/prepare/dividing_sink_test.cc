#include "data/prepare/spooled_documents.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "base/rng.h"

namespace trireme {
namespace {

/// Its documents, and the unfinished one.
class Collector final : public DocumentSink {
 public:
  void append(std::span<const std::byte> ids, std::span<const size_t> ends) override {
    const std::string_view text(reinterpret_cast<const char*>(ids.data()), ids.size());
    size_t begin = 0;
    for (const size_t end : ends) {
      documents.push_back(open + std::string(text.substr(begin * 2, (end - begin) * 2)));
      open.clear();
      begin = end;
    }
    open += text.substr(begin * 2);
  }
  std::vector<std::string> documents;
  std::string open;
};

TEST(DividingSink, GivesEachDocumentToItsSideHoweverTheIdsAreCut) {
  RandomStream random(7);
  std::vector<std::string> documents;
  std::vector<uint64_t> apart;
  std::vector<std::string> expected[2];
  for (uint64_t i = 0; i < 500; ++i) {
    documents.emplace_back(2 * random.below(9), static_cast<char>('a' + i % 26));  // some are empty
    const bool is_apart = i == 0 || i == 499 || random.below(4) == 0;
    if (is_apart) apart.push_back(i);
    expected[is_apart].push_back(documents.back());
  }
  for (const uint64_t done : {uint64_t{0}, uint64_t{1}, uint64_t{77}}) {
    Collector first, second;
    DividingSink sink(apart, done, 2, first, second);
    std::string ids;
    std::vector<size_t> ends;
    const auto give = [&] {
      sink.append(std::as_bytes(std::span(ids)), ends);
      ids.clear();
      ends.clear();
    };
    for (uint64_t i = done; i < documents.size(); ++i) {
      const size_t part = 2 * random.below(documents[i].size() / 2 + 1);
      ids += documents[i].substr(0, part);
      if (random.below(3) == 0) give();
      ids += documents[i].substr(part);
      ends.push_back(ids.size() / 2);
      if (random.below(5) == 0) give();
    }
    give();
    for (const auto& [side, sink_of_side] : {std::pair{0, &first}, std::pair{1, &second}}) {
      const std::vector<std::string>& all = expected[side];
      const std::vector<std::string>& got = sink_of_side->documents;
      ASSERT_LE(got.size(), all.size());
      const uint64_t apart_done =
          static_cast<uint64_t>(std::count_if(apart.begin(), apart.end(), [&](uint64_t n) { return n < done; }));
      const uint64_t skipped = side == 1 ? apart_done : done - apart_done;
      EXPECT_EQ(got, std::vector<std::string>(all.begin() + static_cast<ptrdiff_t>(skipped), all.end()));
      EXPECT_EQ(sink_of_side->open, "");
    }
  }
}

}  // namespace
}  // namespace trireme
