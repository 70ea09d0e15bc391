#include "train/glue/data.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <span>

#include "base/count.h"
#include "base/error.h"
#include "base/log.h"
#include "data/glue/reader.h"
#include "hub/place.h"

namespace trireme {
namespace {

/// Logs a difference from the published files; nothing for the user's own files.
void compare_with_published(const std::vector<GlueSet>& sets, GlueSplit split) {
  for (const GlueSet& set : sets) {
    const auto published = published_rows(set.name, split);
    const auto rows = static_cast<int64_t>(set.rows.size());
    if (published && *published != rows)
      log::info("{} has {}, the published file of {} has {}", set.path, count_text(rows, "row"), set.name, *published);
  }
}

/// The task's files in the hub's cache.
std::string fetched_folder(const GlueTask& task) {
  const hub::Place place = hub::place_of_glue(task.name);
  require(place.why_not.empty(), ErrorKind::io,
          "found no rows of {}: name the folder with the original GLUE files ({}/train.tsv, ...) with --data-dir{}",
          task.name, task.folder, place.why_not);
  return place.path;
}

void cut(std::vector<GlueSet>& sets, int64_t most) {
  for (GlueSet& set : sets) {
    if (!set.dropped.empty()) {
      constexpr size_t kShown = 20;
      const auto shown = std::span(set.dropped).first(std::min(set.dropped.size(), kShown));
      log::warning("{}: skipped {} without a text or a label: {} {}{}", set.path, count_text(set.dropped.size(), "row"),
                   set.path.ends_with(".parquet") ? "rows" : "lines", fmt::join(shown, ", "),
                   shown.size() < set.dropped.size() ? ", ..." : "");
    }
    if (most > 0 && static_cast<int64_t>(set.rows.size()) > most) set.rows.resize(static_cast<size_t>(most));
  }
}

}  // namespace

GlueData read_data(const GlueOptions& options) {
  const DataOptions& files = options.config().data;
  const RowOptions& rows = options.rows;
  const bool evaluates = options.evaluate || options.evaluation.strategy != Strategy::no;
  GlueData data;
  if (rows.task.empty()) {
    CustomData custom = read_custom({.train = files.train,
                                     .validation = files.validation,
                                     .test = files.test,
                                     .texts = rows.text_columns,
                                     .label = rows.label_column,
                                     .separator = rows.csv_separator,
                                     .encoding = input_encoding_from(rows.encoding)});
    log::info("{}", custom.columns);
    if (!custom.doubt.empty()) log::write_once(log::Level::warning, custom.doubt);
    data = {std::move(custom.task), std::move(custom.train), std::move(custom.validation), std::move(custom.test)};
    require(!options.trains() || !data.train.empty(), ErrorKind::usage, "--do-train needs --train-file");
    require(!evaluates || !data.validation.empty(), ErrorKind::usage,
            "--do-eval and --eval-strategy need --validation-file");
    require(!options.predict || !data.test.empty(), ErrorKind::usage, "--do-predict needs --test-file");
  } else {
    data.task = glue_task(rows.task);
    const std::string folder = files.dir.empty() ? fetched_folder(data.task) : files.dir;
    if (options.trains()) data.train = read_glue(data.task, folder, GlueSplit::train);
    if (evaluates) data.validation = read_glue(data.task, folder, GlueSplit::validation);
    if (options.predict) data.test = read_glue(data.task, folder, GlueSplit::test);
    compare_with_published(data.train, GlueSplit::train);
    compare_with_published(data.validation, GlueSplit::validation);
    compare_with_published(data.test, GlueSplit::test);
  }
  cut(data.train, rows.most_train);
  cut(data.validation, rows.most_evaluation);
  cut(data.test, rows.most_prediction);
  return data;
}

std::vector<NamedRows> encode_sets(const std::vector<GlueSet>& sets, const GlueTask& task, const PretrainedModel& model,
                                   int64_t max_length) {
  std::vector<NamedRows> out;
  for (const GlueSet& set : sets)
    out.push_back({set.name, set.path,
                   encode_rows(set.rows, !task.second.empty(), *model.tokenizer, static_cast<size_t>(max_length))});
  return out;
}

}  // namespace trireme
