#include "plan/measured_runs.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <numeric>
#include <string_view>
#include <tuple>
#include <utility>

#include "base/count.h"
#include "base/error.h"
#include "base/file.h"
#include "base/text.h"

namespace trireme {
namespace {

constexpr size_t kColumns = 11, kSeconds = 10;
const std::array<std::string, kColumns>& column_names() {
  static const std::array<std::string, kColumns> names{"# GPUs",
                                                       "global batch",
                                                       "micro batch",
                                                       "hidden size",
                                                       "attention heads",
                                                       "# layers",
                                                       "sequence length",
                                                       "tensor parallelism",
                                                       "data parallelism",
                                                       "pipeline parallelism",
                                                       "iteration time (ms)"};
  return names;
}
constexpr std::string_view kUnusedColumn = "parameters (billion)";

std::string_view without_space(std::string_view text) {
  const std::string_view space = " \t\r";
  const size_t first = text.find_first_not_of(space);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(space) - first + 1);
}

/// The fields of a line, without the quotation marks around them.
std::vector<std::string> fields_of(std::string_view line) {
  std::vector<std::string> fields;
  while (true) {
    const size_t comma = line.find(',');
    std::string_view field = without_space(line.substr(0, comma));
    if (field.size() >= 2 && field.front() == '"' && field.back() == '"') field = field.substr(1, field.size() - 2);
    fields.emplace_back(field);
    if (comma == std::string_view::npos) return fields;
    line.remove_prefix(comma + 1);
  }
}

/// Where each column is in the header.
std::array<size_t, kColumns> places_of(const std::vector<std::string>& header, const std::string& path) {
  std::array<size_t, kColumns> places{};
  places.fill(header.size());
  const auto& names = column_names();
  for (size_t i = 0; i < header.size(); ++i) {
    const std::string name = lower_case(header[i]);
    const auto known = std::ranges::find_if(names, [&](const std::string& one) { return lower_case(one) == name; });
    if (known == names.end()) {
      require(name == kUnusedColumn, ErrorKind::data, "{}: unknown column \"{}\", nearest is \"{}\"", path, header[i],
              nearest(header[i], names));
      continue;
    }
    size_t& place = places[static_cast<size_t>(known - names.begin())];
    require(place == header.size(), ErrorKind::data, "{}: column \"{}\" appears twice", path, *known);
    place = i;
  }
  for (size_t c = 0; c < kColumns; ++c)
    require(places[c] < header.size(), ErrorKind::data, "{}: column \"{}\" is missing", path, names[c]);
  return places;
}

double number_of(const std::string& field, const std::string& where, const std::string& column) {
  const std::optional<double> value = parse_number(field);
  require(value && *value > 0, ErrorKind::data, "{}: {} is \"{}\", expected a positive number", where, column, field);
  return *value;
}

MeasuredRun run_of(const std::array<double, kColumns>& row, int64_t vocabulary, const std::string& where) {
  constexpr double kMost = 1e9;
  std::array<int64_t, kColumns> sizes{};
  for (size_t c = 0; c < kSeconds; ++c) {
    require(row[c] == std::floor(row[c]) && row[c] <= kMost, ErrorKind::data,
            "{}: {} is {}, expected a whole number up to 1e9", where, column_names()[c], row[c]);
    sizes[c] = static_cast<int64_t>(row[c]);
  }
  const auto& [ranks, batch, micro, width, heads, layers, sequence, tensor, data, pipeline, unused] = sizes;
  (void)unused;
  MeasuredRun run;
  run.model = {.layers = layers, .width = width, .heads = heads, .sequence = sequence, .vocabulary = vocabulary};
  run.layout = {.data = data,
                .tensor = tensor,
                .pipeline = pipeline,
                .global_batch = batch,
                .micro_batch = micro,
                .recomputed = Recomputed::layers};
  constexpr double kLeastMs = 1e-3, kMostMs = 1e9;  // a microsecond, eleven days
  require(row[kSeconds] >= kLeastMs && row[kSeconds] <= kMostMs, ErrorKind::data, "{}: {} is {}, expected {:g} to {:g}",
          where, column_names()[kSeconds], row[kSeconds], kLeastMs, kMostMs);
  run.seconds = row[kSeconds] / 1e3;
  const double product = row[7] * row[8] * row[9];  // as doubles: no overflow
  require(product == row[0], ErrorKind::data, "{}: tensor {} x data {} x pipeline {} ranks are {}, but # GPUs is {}",
          where, tensor, data, pipeline, product, ranks);
  require(batch % (data * micro) == 0, ErrorKind::data,
          "{}: a global batch of {} is not a multiple of data {} x micro batch {}", where, batch, data, micro);
  require(width % heads == 0, ErrorKind::data, "{}: {} attention heads do not divide the hidden size {}", where, heads,
          width);
  require(pipeline <= layers, ErrorKind::data, "{}: {} pipeline stages have only {}", where, pipeline,
          count_text(layers, "layer"));
  return run;
}

auto model_key(const MeasuredRun& run) {
  return std::tuple(run.model.layers, run.model.width, run.model.heads, run.model.sequence);
}
auto choice_key(const MeasuredRun& run) {
  return std::tuple_cat(model_key(run), std::tuple(run.layout.ranks(), run.layout.global_batch));
}
auto layout_key(const MeasuredRun& run) {
  const StepLayout& layout = run.layout;
  return std::tuple_cat(choice_key(run), std::tuple(layout.data, layout.tensor, layout.pipeline, layout.micro_batch));
}

std::vector<double> ranks_of(const std::vector<double>& values) {
  std::vector<size_t> order(values.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, [&](size_t a, size_t b) { return values[a] < values[b]; });
  std::vector<double> ranks(values.size());
  for (size_t first = 0; first < order.size();) {
    size_t end = first + 1;
    while (end < order.size() && values[order[end]] == values[order[first]]) ++end;
    for (size_t i = first; i < end; ++i) ranks[order[i]] = static_cast<double>(first + end - 1) / 2;
    first = end;
  }
  return ranks;
}

}  // namespace

std::vector<MeasuredRun> read_measured_runs(const std::string& path, int64_t vocabulary) {
  constexpr size_t kMostBytes = size_t{1} << 28;
  const std::string text = read_text(path, kMostBytes);
  std::string_view rest = text;
  constexpr std::string_view kMark = "\xEF\xBB\xBF";  // of UTF-8 files from spreadsheets
  if (rest.starts_with(kMark)) rest.remove_prefix(kMark.size());
  std::vector<MeasuredRun> runs;
  std::array<size_t, kColumns> places{};
  size_t columns = 0;
  for (size_t number = 1; !rest.empty(); ++number) {
    const size_t end = rest.find('\n');
    const std::string_view line = without_space(rest.substr(0, end));
    rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
    if (line.empty()) continue;
    const std::vector<std::string> fields = fields_of(line);
    if (columns == 0) {
      require(fields.size() > 1, ErrorKind::data,
              "{}: the first line has no comma, expected names of columns with commas between them", path);
      places = places_of(fields, path);
      columns = fields.size();
      continue;
    }
    const std::string where = fmt::format("{}:{}", path, number);
    require(fields.size() == columns, ErrorKind::data, "{}: {}, expected {} as in the first line", where,
            count_text(fields.size(), "field"), columns);
    std::array<double, kColumns> row{};
    for (size_t c = 0; c < kColumns; ++c) row[c] = number_of(fields[places[c]], where, column_names()[c]);
    runs.push_back(run_of(row, vocabulary, where));
  }
  require(columns > 0, ErrorKind::data, "{}: empty file, expected a line with the names of the columns", path);
  return runs;
}

std::vector<bool> fitted_runs(const std::vector<MeasuredRun>& runs) {
  std::map<decltype(layout_key(runs[0])), size_t> first;
  std::vector<bool> fitted(runs.size());
  for (size_t i = 0; i < runs.size(); ++i) fitted[i] = first.try_emplace(layout_key(runs[i]), i).first->second % 3 == 0;
  return fitted;
}

MachineRates FittedNumbers::apply(MachineRates machine) const {
  machine.product_share = product_share;
  machine.inner_share = inner_share;
  if (node_share) machine.node_share = *node_share;
  if (launch_seconds) machine.launch_seconds = *launch_seconds;
  return machine;
}

FittedNumbers fit_runs(const std::vector<MeasuredRun>& runs, const MachineRates& machine) {
  require(!runs.empty(), ErrorKind::data, "no measured runs to fit: expected at least one");
  const bool several =
      std::ranges::any_of(runs, [&](const MeasuredRun& run) { return run.layout.ranks() > machine.node_ranks; });
  const auto numbers = [&](const std::vector<double>& point) {
    FittedNumbers fitted{std::min(1.0, std::exp(point[0])), std::min(1.0, std::exp(point[1])), {}, {}};
    (several ? fitted.node_share : fitted.launch_seconds) =
        several ? std::min(1.0, std::exp(point[2])) : std::exp(point[2]);
    return fitted;
  };
  constexpr double kRounded = 0.03;
  const auto cost = [&](const std::vector<double>& point) {
    const MachineRates rates = numbers(point).apply(machine);
    double sum = 0;
    for (const MeasuredRun& run : runs)
      sum += std::hypot(std::log(step_time(run.model, run.layout, rates).total() / run.seconds), kRounded);
    // Beyond 1 a share has no effect: leads the search back.
    double beyond = 0;
    for (size_t i = 0; i < (several ? 3U : 2U); ++i) beyond += std::max(0.0, point[i]);
    return sum / static_cast<double>(runs.size()) + beyond;
  };
  std::vector<double> point{std::log(0.7), std::log(0.7), std::log(several ? 0.7 : 2e-5)};
  for (const double step : {0.3, -0.1, 0.03}) point = least_point(cost, point, step);  // again from where it ended
  return numbers(point);
}

double rank_correlation(const std::vector<double>& a, const std::vector<double>& b) {
  const std::vector<double> x = ranks_of(a), y = ranks_of(b);
  const double mean = static_cast<double>(x.size() - 1) / 2;
  double xy = 0, xx = 0, yy = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    xy += (x[i] - mean) * (y[i] - mean);
    xx += (x[i] - mean) * (x[i] - mean);
    yy += (y[i] - mean) * (y[i] - mean);
  }
  return xx > 0 && yy > 0 ? xy / std::sqrt(xx * yy) : 0;
}

JudgedRuns judge_runs(const std::vector<MeasuredRun>& runs, const std::vector<bool>& fitted,
                      std::vector<double> planned) {
  JudgedRuns judged;
  std::map<decltype(model_key(runs[0])), std::pair<std::vector<double>, std::vector<double>>> models;
  struct Choice {
    double planned = 0, measured = 0, best = 0;
  };
  std::map<decltype(choice_key(runs[0])), Choice> choices;
  for (size_t i = 0; i < runs.size(); ++i) {
    const auto [place, is_new] =
        choices.try_emplace(choice_key(runs[i]), Choice{planned[i], runs[i].seconds, runs[i].seconds});
    Choice& choice = place->second;
    if (!is_new) {
      if (planned[i] < choice.planned) choice = {planned[i], runs[i].seconds, choice.best};
      choice.best = std::min(choice.best, runs[i].seconds);
    }
    if (fitted[i]) {
      ++judged.fitted;
      continue;
    }
    ++judged.judged;
    const double error = std::abs(planned[i] / runs[i].seconds - 1);
    judged.mean_error += error;
    judged.max_error = std::max(judged.max_error, error);
    auto& [ours, theirs] = models[model_key(runs[i])];
    ours.push_back(planned[i]);
    theirs.push_back(runs[i].seconds);
  }
  require(judged.judged > 0, ErrorKind::data,
          "fitting uses all of {}, none is left to judge: add runs of other layouts", count_text(runs.size(), "run"));
  judged.mean_error /= static_cast<double>(judged.judged);
  judged.least_spearman = 1;
  for (const auto& [key, times] : models) {
    constexpr size_t kFewest = 3;  // two values are in order or not
    if (times.first.size() < kFewest) continue;
    const double one = rank_correlation(times.first, times.second);
    judged.spearman += one;
    judged.least_spearman = std::min(judged.least_spearman, one);
    ++judged.models;
  }
  if (judged.models > 0) judged.spearman /= static_cast<double>(judged.models);
  if (judged.models == 0) judged.least_spearman = 0;
  for (const auto& [key, choice] : choices) {
    const double loss = choice.measured / choice.best - 1;
    judged.choice_loss += loss;
    judged.largest_choice_loss = std::max(judged.largest_choice_loss, loss);
  }
  judged.groups = choices.size();
  judged.choice_loss /= static_cast<double>(judged.groups);
  judged.planned = std::move(planned);
  return judged;
}

}  // namespace trireme
