#include "checkpoint/huggingface/family.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "base/error.h"
#include "checkpoint/json_fields.h"

namespace trireme {
namespace {

constexpr std::string_view kNumber = "{}";

/// Their position of our element (row, column).
size_t position(FileLayout layout, int64_t heads, int64_t rows, int64_t columns, int64_t row, int64_t column) {
  if (layout == FileLayout::qkv_blocks || layout == FileLayout::qkv_blocks_transposed) {
    const int64_t dim =
        rows / (3 * heads);  // our row: (head * 3 + part) * dim + i; theirs: (part * heads + head) * dim + i
    const int64_t head = row / (3 * dim), part = row / dim % 3;
    row = (part * heads + head) * dim + row % dim;
  }
  const bool transposed = layout == FileLayout::transposed || layout == FileLayout::qkv_blocks_transposed;
  return static_cast<size_t>(transposed ? column * rows + row : row * columns + column);
}

bool is_part(FileLayout layout) {
  return layout == FileLayout::query || layout == FileLayout::key || layout == FileLayout::value;
}

/// Calls move(our row, their row) for every row of a tensor that holds the q, the k or the v of every head.
template <class Move>
void for_each_part_row(FileLayout layout, int64_t heads, int64_t rows, Move move) {
  const int64_t dim = rows / (3 * heads), part = layout == FileLayout::query ? 0 : layout == FileLayout::key ? 1 : 2;
  for (int64_t row = 0; row < rows / 3; ++row) move((row / dim * 3 + part) * dim + row % dim, row);
}

template <class Move>
void for_each_element(int64_t rows, int64_t columns, Move move) {
  constexpr int64_t kTile = 32;  // a tile of rows and one of columns fit the L1 cache together, either way round
  for (int64_t r0 = 0; r0 < rows; r0 += kTile) {
    for (int64_t c0 = 0; c0 < columns; c0 += kTile) {
      for (int64_t r = r0; r < std::min(r0 + kTile, rows); ++r) {
        for (int64_t c = c0; c < std::min(c0 + kTile, columns); ++c) move(r, c);
      }
    }
  }
}

/// Models that are saved inside torch.compile() or DistributedDataParallel have these before every name.
std::string_view without_wrappers(std::string_view name) {
  constexpr std::string_view kCompiled = "_orig_mod.", kParallel = "module.";
  while (true) {
    if (name.starts_with(kCompiled)) {
      name.remove_prefix(kCompiled.size());
    } else if (name.starts_with(kParallel)) {
      name.remove_prefix(kParallel.size());
    } else {
      return name;
    }
  }
}

}  // namespace

std::span<const Family* const> families() {
  static const Family* const known[] = {&gpt2_family(), &opt_family(),        &gpt_neox_family(),
                                        &bert_family(), &distilbert_family(), &roberta_family()};
  return known;
}

const Family& find_family(std::string_view model_type, std::string_view where) {
  std::vector<std::string> names;
  for (const Family* family : families()) {
    if (family->model_type == model_type) return *family;
    names.emplace_back(family->model_type);
  }
  fail(ErrorKind::data, "{}: unknown model_type \"{}\"; known: {}", where, model_type, fmt::join(names, ", "));
}

const Family& family_for(const Spec& spec) {
  std::vector<std::string> names;
  for (const Family* family : families()) {
    if (family->expresses(spec)) return *family;
    names.emplace_back(family->model_type);
  }
  fail(ErrorKind::config,
       "no supported Hugging Face family has this combination of norms, positions, head, biases and epsilon; known: {}",
       fmt::join(names, ", "));
}

const Architecture& find_architecture(const Family& family, const Json& config, std::string_view where) {
  const auto field = config.find("architectures");
  if (field == config.end() || field->is_null()) return family.architectures.front();
  require(field->is_array() && field->size() == 1 && field->front().is_string(), ErrorKind::data,
          "{}: \"architectures\" is {}, expected one name", where, field->dump().substr(0, 80));
  const auto name = field->front().get<std::string>();
  std::vector<std::string> names;
  for (const Architecture& architecture : family.architectures) {
    if (architecture.name == name) return architecture;
    names.emplace_back(architecture.name);
  }
  fail(ErrorKind::data, "{}: unknown architecture \"{}\" of {}; known: {}", where, name, family.model_type,
       fmt::join(names, ", "));
}

std::string plain_name(const Family& family, std::string_view name) {
  name = without_wrappers(name);
  for (const std::string_view prefix : family.prefixes) {
    if (!name.starts_with(prefix)) continue;
    name.remove_prefix(prefix.size());
    break;
  }
  for (const NameRule& rule : family.synonyms) {
    if (name == rule.theirs) return rule.ours;
  }
  std::string plain(name);
  if (!family.gamma_beta) return plain;
  for (const auto& [old, now] : {std::pair{std::string_view(".gamma"), ".weight"}, {".beta", ".bias"}}) {
    if (plain.ends_with(old)) return plain.substr(0, plain.size() - old.size()) + now;
  }
  return plain;
}

const NameRule* untied_copy(const Family& family, const Spec& spec, std::string_view ours) {
  if (spec.tied_head || !ours.starts_with("head.")) return nullptr;
  const auto copy = std::ranges::find(family.copies, ours, &NameRule::ours);
  return copy == family.copies.end() ? nullptr : &*copy;
}

std::vector<NamedRule> numbered_rules(std::span<const NameRule> rules, int64_t blocks) {
  std::vector<NamedRule> named;
  for (const NameRule& rule : rules) {
    const bool repeated = std::string_view(rule.ours).find(kNumber) != std::string_view::npos;
    for (int64_t block = 0; block < (repeated ? blocks : 1); ++block) {
      named.push_back({numbered(rule.theirs, block), numbered(rule.ours, block), rule.layout, rule.outside});
    }
  }
  return named;
}

std::string numbered(std::string_view pattern, int64_t block) {
  std::string name(pattern);
  if (const size_t at = name.find(kNumber); at != name.npos) name.replace(at, kNumber.size(), std::to_string(block));
  return name;
}

bool fits(std::string_view pattern, std::string_view name) {
  const size_t at = pattern.find(kNumber);
  if (at == pattern.npos) return pattern == name;
  const std::string_view before = pattern.substr(0, at), after = pattern.substr(at + kNumber.size());
  if (name.size() <= before.size() + after.size() || !name.starts_with(before) || !name.ends_with(after)) return false;
  const std::string_view number = name.substr(before.size(), name.size() - before.size() - after.size());
  return std::all_of(number.begin(), number.end(), [](char c) { return c >= '0' && c <= '9'; });
}

std::vector<int64_t> their_shape(FileLayout layout, std::span<const int64_t> ours) {
  std::vector<int64_t> shape(ours.begin(), ours.end());
  if (layout == FileLayout::transposed || layout == FileLayout::qkv_blocks_transposed)
    std::swap(shape.at(0), shape.at(1));
  if (is_part(layout)) shape.at(0) /= 3;
  return shape;
}

void import_values(FileLayout layout, int64_t heads, int64_t rows, int64_t columns, std::span<const float> theirs,
                   std::span<float> ours) {
  if (layout == FileLayout::same) {
    std::copy_n(theirs.begin(), ours.size(), ours.begin());
    return;
  }
  if (is_part(layout)) {
    for_each_part_row(layout, heads, rows, [&](int64_t our, int64_t their) {
      std::copy_n(theirs.begin() + their * columns, columns, ours.begin() + our * columns);
    });
    return;
  }
  for_each_element(rows, columns, [&](int64_t r, int64_t c) {
    ours[static_cast<size_t>(r * columns + c)] = theirs[position(layout, heads, rows, columns, r, c)];
  });
}

void export_values(FileLayout layout, int64_t heads, int64_t rows, int64_t columns, std::span<const float> ours,
                   std::span<float> theirs) {
  if (is_part(layout)) {
    for_each_part_row(layout, heads, rows, [&](int64_t our, int64_t their) {
      std::copy_n(ours.begin() + our * columns, columns, theirs.begin() + their * columns);
    });
    return;
  }
  for_each_element(rows, columns, [&](int64_t r, int64_t c) {
    theirs[position(layout, heads, rows, columns, r, c)] = ours[static_cast<size_t>(r * columns + c)];
  });
}

}  // namespace trireme
