#include "optim/gradient_norm.h"

#include <gtest/gtest.h>

#include <numeric>

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
  double expected = 0;  // by the definition in ops.h and the header
  for (const Parameter& parameter : table.all()) {
    double sum = 0;
    for (int64_t at = 0; at < parameter.count(); at += kNormChunk) {
      double partials[16] = {};
      for (int64_t i = at; i < std::min(at + kNormChunk, parameter.count()); ++i) {
        const double x = gradients[static_cast<size_t>(parameter.offset + i)];
        partials[(i - at) % 16] += x * x;
      }
      sum += std::accumulate(std::begin(partials), std::end(partials), 0.0);
    }
    expected += sum;
  }
  for (const int ranks : {1, 2, 3, 5}) {
    for (const int64_t bucket : {100'000, 100'000'000}) {
      const Ownership ownership(borders, ranks, bucket, 70'000);
      const GradientNorm norm(table, ownership);
      Context context;
      std::vector<double> values;
      for (int r = 0; r < ranks; ++r) {
        // Elements that a rank does not own may have any value.
        std::vector<float> own(gradients.size(), 1e9f);
        for (const auto& [begin, end] : ownership.owned_by(r))
          std::copy(gradients.begin() + begin, gradients.begin() + end, own.begin() + begin);
        std::vector<double> of_rank(norm.values_per_rank());
        norm.write_values(
            r,
            [&](int64_t first, int64_t count) { return View(std::span(own), flat.shape()).rows_slice(first, count); },
            *backend.ops, context, View(std::span(of_rank), {std::ssize(of_rank)}));
        values.insert(values.end(), of_rank.begin(), of_rank.end());
      }
      const MeshNorm all(table, {.data = ranks}, [&](const ParameterTable&) { return ownership; });
      EXPECT_EQ(all.squared(values), expected) << ranks << " ranks, buckets of " << bucket;
    }
  }
}

}  // namespace
}  // namespace trireme
