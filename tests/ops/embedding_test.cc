#include <gmock/gmock.h>

#include "base/error.h"
#include "tests/ops/op_test.h"
#include "tests/support/expect_error.h"

namespace trireme::test {
namespace {

/// Ids that repeat, with gaps; the first and last of the table are among them.
Tensor some_ids(int64_t rows, int64_t table_rows, uint64_t seed) {
  Tensor ids(DType::i32, {rows});
  RandomStream random(seed);
  for (size_t i = 0; i < ids.size(); ++i)
    ids.set(i, static_cast<double>(random.below(static_cast<uint64_t>(table_rows))) * (i % 3 == 0 ? 0.1 : 1));
  if (rows > 1) ids.set(1, static_cast<double>(table_rows - 1));
  return ids;
}

class Embedding : public CpuOp {};
INSTANTIATE_TEST_SUITE_P(Cpu, Embedding, every_case(), case_name);

TEST_P(Embedding, ForwardEqualsTheReference) {
  for (int64_t rows : kRows)
    for (int64_t width : kWidths) {
      const Tensor tokens = some_ids(rows, 100, 1), positions = some_ids(rows, 20, 2);
      const Tensor table = Tensor::random(dtype(), {100, width}, 3), places = Tensor::random(dtype(), {20, width}, 4);
      Tensor y(dtype(), {rows, width}), want(DType::f64, {rows, width});
      cpu->ops->embedding(cpu->context, tokens.view(), positions.view(), table.view(), places.view(), y.view());
      reference->ops->embedding(reference->context, tokens.view(), positions.view(), table.wide().view(),
                                places.wide().view(), want.view());
      expect_close(y, want, GetParam().activation(), fmt::format("{} x {}", rows, width));
    }
}

TEST_P(Embedding, TableAloneAndAddedTablesEqualTheReference) {
  for (int64_t rows : kRows)
    for (int64_t width : kWidths) {
      const Tensor ids = some_ids(rows, 100, 1), table = Tensor::random(dtype(), {100, width}, 3);
      Tensor y(dtype(), {rows, width}), want(DType::f64, {rows, width});
      cpu->ops->embedding(cpu->context, ids.view(), {}, table.view(), {}, y.view());
      reference->ops->embedding(reference->context, ids.view(), {}, table.wide().view(), {}, want.view());
      EXPECT_EQ(y.values(), want.values());
      y = Tensor::random(dtype(), {rows, width}, 5), want = y.wide();
      cpu->ops->embedding_add(cpu->context, ids.view(), table.view(), y.view());
      reference->ops->embedding_add(reference->context, ids.view(), table.wide().view(), want.view());
      expect_close(y, want, GetParam().activation(), fmt::format("{} x {}", rows, width));
    }
}

TEST_P(Embedding, ScatteredRowsLieWhereTheyWereGathered) {
  const Tensor rows(DType::i32, {3}, {4, 0, 2}), y = Tensor::random(dtype(), {3, 7}, 1);
  for (Device* device : {cpu.get(), reference.get()}) {
    const Tensor from = device == reference.get() ? y.wide() : y;
    Tensor x = Tensor::random(from.dtype(), {5, 7}, 2), back(from.dtype(), {3, 7});
    device->ops->scatter_rows(device->context, from.view(), rows.view(), x.view());
    device->ops->embedding(device->context, rows.view(), {}, x.view(), {}, back.view());
    EXPECT_TRUE(back == from);
    for (size_t i = 0; i < 7; ++i) EXPECT_EQ(x.at(7 + i), 0) << "row 1 was not given";
  }
}

TEST_P(Embedding, BackwardEqualsTheReference) {
  for (int64_t rows : kRows)
    for (int64_t width : kWidths)
      for (int64_t table_rows : {int64_t{1}, int64_t{5}, width > 48 ? int64_t{60} : int64_t{3000}})
        for (Write write : {Write::overwrite, Write::add}) {
          const Tensor ids = some_ids(rows, table_rows, 1), dy = Tensor::random(dtype(), {rows, width}, 2);
          Tensor got = Tensor::random(DType::f32, {table_rows, width}, 3), want = got.wide();
          cpu->ops->embedding_backward(cpu->context, ids.view(), dy.view(), got.view(), write);
          reference->ops->embedding_backward(reference->context, ids.view(), dy.wide().view(), want.view(), write);
          expect_close(got, want, {2e-6, 5e-6}, fmt::format("{} x {}, table {}", rows, width, table_rows));
        }
}

TEST_P(Embedding, BackwardOfFrequentIdsEqualsTheReference) {
  for (int64_t width : {7, 48})
    for (Write write : {Write::overwrite, Write::add}) {
      Tensor ids = some_ids(700, 3, 1);
      for (size_t i = 0; i < 64; ++i) ids.set(i * 5, 3);  // exactly 64 rows of one id
      const Tensor dy = Tensor::random(dtype(), {700, width}, 2);
      Tensor got = Tensor::random(DType::f32, {5, width}, 3), want = got.wide();
      cpu->ops->embedding_backward(cpu->context, ids.view(), dy.view(), got.view(), write);
      reference->ops->embedding_backward(reference->context, ids.view(), dy.wide().view(), want.view(), write);
      expect_close(got, want, {4e-6, 4e-5}, fmt::format("width {}", width));
    }
}

TEST_P(Embedding, PartsOfATableAddUpToTheWholeOne) {
  constexpr int64_t kTable = 60;
  for (int64_t rows : kRows)
    for (int64_t width : kWidths) {
      const Tensor ids = some_ids(rows, kTable, 1), table = Tensor::random(dtype(), {kTable, width}, 3);
      const Tensor dy = Tensor::random(dtype(), {rows, width}, 2);
      Tensor y(dtype(), {rows, width}), whole(DType::f32, {kTable, width});
      cpu->ops->embedding(cpu->context, ids.view(), {}, table.view(), {}, y.view());
      cpu->ops->embedding_backward(cpu->context, ids.view(), dy.view(), whole.view(), Write::overwrite);
      Tensor parts(dtype(), {3, rows * width}), sum(dtype(), {rows, width});
      Tensor cut = Tensor::random(DType::f32, {kTable, width}, 4);
      for (int64_t p = 0; p < 3; ++p) {
        const TableRows part{20 * p, kTable};
        const View out = parts.view().rows_slice(p, 1).reshape({rows, width});
        cpu->ops->embedding_part(cpu->context, ids.view(), table.view().rows_slice(20 * p, 20), part, out);
        Tensor wide(DType::f64, {rows, width});
        reference->ops->embedding_part(reference->context, ids.view(), table.wide().view().rows_slice(20 * p, 20), part,
                                       wide.view());
        for (size_t i = 0; i < wide.size(); ++i)
          ASSERT_EQ(parts.at(static_cast<size_t>(p) * wide.size() + i), wide.at(i));
        cpu->ops->embedding_backward(cpu->context, ids.view(), dy.view(), cut.view().rows_slice(20 * p, 20),
                                     Write::overwrite, part);
        Tensor want = Tensor::random(DType::f64, {20, width}, 5), got = Tensor::random(DType::f32, {20, width}, 5);
        want = got.wide();
        cpu->ops->embedding_backward(cpu->context, ids.view(), dy.view(), got.view(), Write::add, part);
        reference->ops->embedding_backward(reference->context, ids.view(), dy.wide().view(), want.view(), Write::add,
                                           part);
        expect_close(got, want, {2e-6, 5e-6}, fmt::format("{} x {}, part {}", rows, width, p));
      }
      cpu->ops->sum_parts(cpu->context, parts.view(), sum.view());
      EXPECT_TRUE(sum == y);
      EXPECT_TRUE(cut == whole);
    }
}

TEST_P(Embedding, AnInvalidPartIsRefused) {
  const Tensor ids(DType::i32, {2}, {1, 9}), table = Tensor::random(dtype(), {5, 3}, 1);
  Tensor y(dtype(), {2, 3});
  EXPECT_ERROR(cpu->ops->embedding_part(cpu->context, ids.view(), table.view(), {6, 10}, y.view()), ErrorKind::shape,
               "embedding_part: rows 6 to 11 are outside a table of 10 rows");
}

TEST_P(Embedding, BackwardHasTheSameBitsOnAnyThreadCount) {
  const Tensor ids = some_ids(301, 50, 1), dy = Tensor::random(dtype(), {301, 48}, 2);
  const auto one_thread = Device::cpu(1);
  for (Write write : {Write::overwrite, Write::add}) {
    Tensor got = Tensor::random(DType::f32, {50, 48}, 3), want = got;
    cpu->ops->embedding_backward(cpu->context, ids.view(), dy.view(), got.view(), write);
    one_thread->ops->embedding_backward(one_thread->context, ids.view(), dy.view(), want.view(), write);
    EXPECT_TRUE(got == want);
  }
}

TEST_P(Embedding, AddIsTheOverwriteSumAddedOnce) {
  const Tensor ids = some_ids(301, 50, 1), dy = Tensor::random(dtype(), {301, 48}, 2);
  const Tensor before = Tensor::random(DType::f32, {50, 48}, 3, 1e4);
  Tensor added = before, alone = before;
  cpu->ops->embedding_backward(cpu->context, ids.view(), dy.view(), added.view(), Write::add);
  cpu->ops->embedding_backward(cpu->context, ids.view(), dy.view(), alone.view(), Write::overwrite);
  for (size_t i = 0; i < before.size(); ++i)
    ASSERT_EQ(static_cast<float>(added.at(i)), static_cast<float>(before.at(i)) + static_cast<float>(alone.at(i)));
}

TEST(EmbeddingReference, BackwardEqualsFiniteDifferences) {
  const auto device = Device::reference();
  const Tensor tokens(DType::i32, {4}, {2, 0, 2, 4}), positions(DType::i32, {4}, {0, 1, 2, 0});
  const Tensor table = Tensor::random(DType::f64, {5, 3}, 1), places = Tensor::random(DType::f64, {3, 3}, 2);
  const Tensor dy = Tensor::random(DType::f64, {4, 3}, 3);
  Tensor y = dy, dtable = table, dplaces = places;
  device->ops->embedding_backward(device->context, tokens.view(), dy.view(), dtable.view(), Write::overwrite);
  device->ops->embedding_backward(device->context, positions.view(), dy.view(), dplaces.view(), Write::overwrite);
  const auto loss = [&](const Tensor& t, const Tensor& p) {
    device->ops->embedding(device->context, tokens.view(), positions.view(), t.view(), p.view(), y.view());
    return dot(y, dy);
  };
  expect_gradient([&](const Tensor& t) { return loss(t, places); }, table, dtable, "tokens");
  expect_gradient([&](const Tensor& p) { return loss(table, p); }, places, dplaces, "positions");
}

}  // namespace
}  // namespace trireme::test
