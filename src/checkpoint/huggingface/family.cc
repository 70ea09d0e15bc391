#include "checkpoint/huggingface/family.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "base/error.h"
#include "base/json_fields.h"

namespace trireme {
namespace {

constexpr std::string_view kNumber = "{}";

/// A row of ours where q, k and v of each group of heads lie together.
struct GroupRow {
  int64_t head, part,
      value;  ///< of keys; query head of the group, or group: key, group + 1: value; value of the vector

  GroupRow(const HeadGroups& groups, int64_t rows, int64_t row) {
    const int64_t parts = groups.group + 2, dim = rows / (groups.kv_heads * parts);
    head = row / (parts * dim);
    part = row / dim % parts;
    value = row % dim;
  }
};

/// Their row where all q, all k and all v lie together.
int64_t blocks_row(const HeadGroups& groups, int64_t rows, int64_t row) {
  const GroupRow r(groups, rows, row);
  const int64_t dim = rows / (groups.kv_heads * (groups.group + 2)), queries = groups.kv_heads * groups.group;
  const int64_t vector = r.part < groups.group ? r.head * groups.group + r.part
                                               : queries + (r.part - groups.group) * groups.kv_heads + r.head;
  return vector * dim + r.value;
}

/// Their position of our element (row, column).
size_t position(FileLayout layout, const HeadGroups& groups, int64_t rows, int64_t columns, int64_t row,
                int64_t column) {
  if (layout == FileLayout::qkv_blocks || layout == FileLayout::qkv_blocks_transposed)
    row = blocks_row(groups, rows, row);
  if (layout == FileLayout::gate_up_blocks) row = row % 2 * (rows / 2) + row / 2;
  const bool transposed = layout == FileLayout::transposed || layout == FileLayout::qkv_blocks_transposed;
  return static_cast<size_t>(transposed ? column * rows + row : row * columns + column);
}

bool is_gate(FileLayout layout) { return layout == FileLayout::gate || layout == FileLayout::up; }

bool is_delta(FileLayout layout) { return layout >= FileLayout::delta_mixed; }

/// Where a row of a layer with a state lies in their file.
struct DeltaRow {
  FileLayout layout;
  int64_t row;

  DeltaRow(const HeadGroups& groups, int64_t of_head, int64_t ours) {
    const int64_t head = ours / of_head, heads = groups.delta_heads, group = groups.delta_group;
    const int64_t keys = groups.key_size, values = group * groups.value_size;
    int64_t at = ours % of_head;
    if (at < groups.mixed()) {
      layout = FileLayout::delta_mixed;
      const int64_t part = std::min<int64_t>(at / keys, 2);  // queries, keys, values
      row = part * heads * keys + head * (part == 2 ? values : keys) + at - part * keys;
      return;
    }
    at -= groups.mixed();
    layout = at < values           ? FileLayout::delta_gates
             : at < values + group ? FileLayout::delta_betas
                                   : FileLayout::delta_decays;
    row = layout == FileLayout::delta_gates ? head * values + at : head * group + (at - values) % group;
  }
};

bool is_part(FileLayout layout) {
  if (is_delta(layout)) return true;
  return layout == FileLayout::query || layout == FileLayout::key || layout == FileLayout::value || is_gate(layout);
}

/// Rows of a tensor that holds a part of ours.
int64_t part_rows(FileLayout layout, const HeadGroups& groups, int64_t rows) {
  if (is_gate(layout)) return rows / 2;
  switch (layout) {
    case FileLayout::delta_mixed:
      return groups.delta_heads * groups.mixed();
    case FileLayout::delta_gates:
      return groups.delta_heads * groups.delta_group * groups.value_size;
    case FileLayout::delta_betas:
    case FileLayout::delta_decays:
      return groups.delta_heads * groups.delta_group;
    case FileLayout::delta_channels:
      return rows;
    default:
      break;
  }
  return rows / (groups.group + 2) * (layout == FileLayout::query ? groups.group : 1);
}

/// Calls move(our row, their row) for every row of a tensor that holds a part of ours.
template <class Move>
void for_each_part_row(FileLayout layout, const HeadGroups& groups, int64_t rows, Move move) {
  if (is_gate(layout)) {
    for (int64_t row = 0; row < rows / 2; ++row) move(2 * row + (layout == FileLayout::up ? 1 : 0), row);
    return;
  }
  if (is_delta(layout)) {
    const bool channels = layout == FileLayout::delta_channels;
    for (int64_t row = 0; row < rows; ++row) {
      const DeltaRow r(groups, channels ? groups.mixed() : groups.delta_rows(), row);
      if (channels || r.layout == layout) move(row, r.row);
    }
    return;
  }
  const int64_t dim = rows / (groups.kv_heads * (groups.group + 2));
  for (int64_t row = 0; row < rows; ++row) {
    const GroupRow r(groups, rows, row);
    const FileLayout of = r.part < groups.group    ? FileLayout::query
                          : r.part == groups.group ? FileLayout::key
                                                   : FileLayout::value;
    if (of != layout) continue;
    const int64_t head = layout == FileLayout::query ? r.head * groups.group + r.part : r.head;
    move(row, head * dim + r.value);
  }
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
  static const std::vector<const Family*> known = [] {
    std::vector<const Family*> all = {&gpt2_family(), &opt_family(),        &gpt_neox_family(),
                                      &bert_family(), &distilbert_family(), &roberta_family()};
    for (const Family& family : decoder_families()) all.push_back(&family);
    return all;
  }();
  return known;
}

const Family& find_family(std::string_view model_type, std::string_view where, const Json& config) {
  std::vector<std::string> names;
  for (const Family* family : families()) {
    if (family->model_type == model_type) return *family;
    names.emplace_back(family->model_type);
  }
  const std::string reason = why_unsupported(model_type, config);
  require(reason.empty(), ErrorKind::data, "{}: model_type \"{}\" is not supported: {}; supported: {}", where,
          model_type, reason, fmt::join(names, ", "));
  fail(ErrorKind::data, "{}: unknown model_type \"{}\"; known: {}", where, model_type, fmt::join(names, ", "));
}

const Family& find_family(std::string_view model_type, std::string_view where) {
  return find_family(model_type, where, Json());
}

const Family& family_for(const Spec& spec, std::string_view model_type) {
  std::vector<std::string> names;
  std::vector<const Family*> able;
  for (const Family* family : families()) {
    if (family->expresses(spec)) able.push_back(family);
    names.emplace_back(family->model_type);
  }
  const bool longrope = spec.rotary.kind == RotaryKind::longrope;
  const auto same = std::ranges::find(able, model_type, &Family::model_type);
  if (same != able.end()) return **same;
  const auto usual = std::ranges::find(able, longrope, &Family::longrope);
  if (usual != able.end()) return **usual;
  if (!able.empty()) return *able.front();
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

bool is_of_another_part(const Family& family, std::string_view name) {
  return std::ranges::any_of(family.others, [&](const char* start) { return name.starts_with(start); });
}

std::string plain_name(const Family& family, std::string_view name) {
  name = without_wrappers(name);
  size_t longest = 0;  // one of them may begin with another
  for (const std::string_view prefix : family.prefixes)
    if (name.starts_with(prefix)) longest = std::max(longest, prefix.size());
  name.remove_prefix(longest);
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

std::vector<int64_t> their_shape(FileLayout layout, const HeadGroups& groups, std::span<const int64_t> ours) {
  std::vector<int64_t> shape(ours.begin(), ours.end());
  if (layout == FileLayout::transposed || layout == FileLayout::qkv_blocks_transposed)
    std::swap(shape.at(0), shape.at(1));
  if (is_part(layout)) shape.at(0) = part_rows(layout, groups, shape.at(0));
  return shape;
}

void import_values(FileLayout layout, const HeadGroups& groups, int64_t rows, int64_t columns,
                   std::span<const float> theirs, std::span<float> ours) {
  if (layout == FileLayout::same) {
    std::copy_n(theirs.begin(), ours.size(), ours.begin());
    return;
  }
  if (is_part(layout)) {
    for_each_part_row(layout, groups, rows, [&](int64_t our, int64_t their) {
      std::copy_n(theirs.begin() + their * columns, columns, ours.begin() + our * columns);
    });
    return;
  }
  for_each_element(rows, columns, [&](int64_t r, int64_t c) {
    ours[static_cast<size_t>(r * columns + c)] = theirs[position(layout, groups, rows, columns, r, c)];
  });
}

void export_values(FileLayout layout, const HeadGroups& groups, int64_t rows, int64_t columns,
                   std::span<const float> ours, std::span<float> theirs) {
  if (is_part(layout)) {
    for_each_part_row(layout, groups, rows, [&](int64_t our, int64_t their) {
      std::copy_n(ours.begin() + our * columns, columns, theirs.begin() + their * columns);
    });
    return;
  }
  for_each_element(rows, columns, [&](int64_t r, int64_t c) {
    theirs[position(layout, groups, rows, columns, r, c)] = ours[static_cast<size_t>(r * columns + c)];
  });
}

}  // namespace trireme
