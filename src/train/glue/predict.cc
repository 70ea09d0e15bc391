#include "train/glue/predict.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

#include "data/sampler.h"
#include "train/progress_log.h"

namespace trireme {

std::optional<std::vector<double>> predict(Session& session, DType dtype, const EncodedRows& rows,
                                           const RowLayout& layout, const BatchLimit& limit) {
  Scalars& scalars = session.scalars();
  Stage& stage = session.stage();
  const Communicator& data = session.mesh().data();
  const BatchSlice part = batch_slice(0, {.global = rows.rows(), .ranks = data.size(), .rank = data.rank()}, 0);
  const int64_t classes = layout.classes;
  std::vector<uint32_t> order(static_cast<size_t>(part.count));
  std::iota(order.begin(), order.end(), static_cast<uint32_t>(part.first));
  std::vector<float> own(static_cast<size_t>(part.count * classes));
  Arena arena(static_cast<size_t>(limit.rows * classes) * (size_of(dtype) + sizeof(float)) + 128,
              session.ops().device());
  const View logits = arena.take(dtype, {limit.rows, classes}),
             widened = dtype == DType::f32 ? logits : arena.take(DType::f32, {limit.rows, classes});
  RowPacker packer(layout);
  ProgressLog progress("classification", "rows of rank 0");
  int64_t first = 0;
  while (
      scalars.any(first < part.count)) {  // all ranks continue while one has rows left, and agree on a stop in between
    if (scalars.any(session.rank().stop_requested())) return std::nullopt;
    if (first == part.count) {
      stage.logits_without_rows();
      continue;
    }
    const auto at = static_cast<size_t>(first);
    const auto rest = std::span(order).subspan(at);
    const int64_t count = rows_that_fit(rows, rest, limit);
    const Batch& batch = packer.pack(rows, rest.first(static_cast<size_t>(count)), part.first + at);
    const View wide(
        std::span<float>(own).subspan(at * static_cast<size_t>(classes), static_cast<size_t>(count * classes)),
        {count, classes});
    first += count;
    progress.report(first, part.count);
    stage.logits(batch, logits.rows_slice(0, count));
    if (dtype != DType::f32)
      session.ops().cast(stage.context(), logits.rows_slice(0, count), widened.rows_slice(0, count));
    stage.context().stream->copy(widened.rows_slice(0, count), wide);
  }
  std::vector<double> all;
  if (!session.counts_batch()) own.clear();  // tensor ranks compute the same logits: only the first rank's count
  const std::string_view bytes(reinterpret_cast<const char*>(own.data()), own.size() * sizeof(float));
  for (const std::string& text : scalars.gather(bytes)) {
    for (size_t i = 0; i < text.size(); i += sizeof(float)) {
      float value;
      std::memcpy(&value, text.data() + i, sizeof value);
      all.push_back(static_cast<double>(value));
    }
  }
  return all;
}

double mean_loss(std::span<const double> logits, std::span<const double> labels, int64_t classes, double smoothing) {
  double loss = 0;
  const auto width = static_cast<size_t>(classes);
  for (size_t i = 0; i < labels.size(); ++i) {
    const auto row = logits.subspan(i * width, width);
    if (classes == 1) {
      loss += (row[0] - labels[i]) * (row[0] - labels[i]);
      continue;
    }
    const double most = *std::ranges::max_element(row);
    double sum = 0, total = 0;
    for (const double z : row) sum += std::exp(z - most), total += z;
    const double target = row[static_cast<size_t>(labels[i])];
    loss += std::log(sum) + most - ((1 - smoothing) * target + smoothing * total / static_cast<double>(classes));
  }
  return loss / static_cast<double>(labels.size());
}

std::vector<double> decide(std::span<const double> logits, int64_t classes) {
  if (classes == 1) return {logits.begin(), logits.end()};
  const auto width = static_cast<size_t>(classes);
  std::vector<double> out;
  for (size_t i = 0; i < logits.size(); i += width) {
    const auto row = logits.subspan(i, width);
    out.push_back(static_cast<double>(std::ranges::max_element(row) - row.begin()));
  }
  return out;
}

}  // namespace trireme
