#include "optim/optimizer.h"

#include <gtest/gtest.h>

#include <numeric>

#include "base/exact_sum.h"
#include "ops/backend.h"
#include "tests/support/tiny_model.h"

namespace trireme {
namespace {

/// A model in which some parameters have several values of the norm.
Spec wide_spec() {
  Spec spec = tiny_spec();
  spec.width = 256;
  spec.inner_width = 1024;
  return spec;
}

TEST(GradientNorm, OfOwnersHasTheBitsOfOneRank) {
  const ParameterTable table(wide_spec());
  const Backend backend = make_backend();
  std::vector<float> gradients(static_cast<size_t>(table.flat_count()));
  for (const Parameter& parameter : table.all()) {
    for (int64_t i = 0; i < parameter.count(); ++i)
      gradients[static_cast<size_t>(parameter.offset + i)] = 1e-3f * static_cast<float>((i * 2654435761u + 7) % 1009);
  }
  const View flat{std::span(gradients), {table.flat_count()}};
  const auto borders = norm_borders(table);
  ASSERT_GT(borders.size(), table.all().size() + 4) << "some parameters are cut";
  ExactSum expected;  // by the definition in ops.h and the header
  for (const Parameter& parameter : table.all()) {
    for (int64_t at = 0; at < parameter.count(); at += kNormChunk) {
      double partials[16] = {};
      for (int64_t i = at; i < std::min(at + kNormChunk, parameter.count()); ++i) {
        const double x = gradients[static_cast<size_t>(parameter.offset + i)];
        partials[(i - at) % 16] += x * x;
      }
      expected.add(std::accumulate(std::begin(partials), std::end(partials), 0.0));
    }
  }
  for (const int ranks : {1, 2, 3, 5}) {
    for (const int64_t bucket : {100'000, 100'000'000}) {
      const Ownership ownership(borders, ranks, bucket, 70'000);
      Context context;
      ExactSum sum;
      for (int r = 0; r < ranks; ++r) {
        // Elements that a rank does not own may have any value.
        std::vector<float> own(gradients.size(), 1e9f);
        for (const auto& [begin, end] : ownership.owned_by(r))
          std::copy(gradients.begin() + begin, gradients.begin() + end, own.begin() + begin);
        const GradientNorm norm(table, ownership, r);
        std::vector<double> of_rank(static_cast<size_t>(norm.count()));
        norm.write_values(
            [&](int64_t first, int64_t count) { return View(std::span(own), flat.shape()).rows_slice(first, count); },
            *backend.ops, context, View(std::span(of_rank), {std::ssize(of_rank)}));
        for (const double value : of_rank) sum.add(value);
      }
      EXPECT_EQ(sum.value(), expected.value()) << ranks << " ranks, buckets of " << bucket;
    }
  }
}

}  // namespace
}  // namespace trireme
