#include "checkpoint/parity/parity.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/error.h"

namespace trireme {
namespace {

constexpr double kNotCounted = -100;

template <class T>
std::vector<double> widen(std::span<const std::byte> bytes) {
  std::vector<double> values(bytes.size() / sizeof(T));
  for (size_t i = 0; i < values.size(); ++i) {
    T value;
    std::memcpy(&value, bytes.data() + i * sizeof(T), sizeof(T));
    values[i] = static_cast<double>(value);
  }
  return values;
}

}  // namespace

Spec parity_spec(Spec spec, const Family& family) {
  if (family.positions != PositionRule::not_padding) return spec;
  --spec.position_offset;
  ++spec.context;
  return spec;
}

std::vector<double> read_numbers(const SafetensorsFile& file, const SafetensorsEntry& entry) {
  const auto bytes = file.bytes(entry);
  if (entry.dtype == "F64") return widen<double>(bytes);
  if (entry.dtype == "I64") return widen<int64_t>(bytes);
  if (entry.dtype == "I32") return widen<int32_t>(bytes);
  if (entry.dtype == "U8" || entry.dtype == "BOOL") return widen<uint8_t>(bytes);
  const std::vector<float> values = file.read_f32(entry);
  return {values.begin(), values.end()};
}

void ParityCase::bad(const std::string& what) const { fail(ErrorKind::data, "{}: {}", file_.path(), what); }

/// A [B, T] tensor of the case, or that many times `otherwise`.
std::vector<double> ParityCase::matrix(const char* name, double otherwise) const {
  const SafetensorsEntry* entry = file_.find(name);
  if (!entry) return std::vector<double>(static_cast<size_t>(sequences_ * length_), otherwise);
  if (entry->shape != std::vector{sequences_, length_})
    bad(fmt::format("{} has shape {}, expected that of input_ids, [{}, {}]", name, entry->shape, sequences_, length_));
  return read_numbers(file_, *entry);
}

ParityCase::ParityCase(const SafetensorsFile& file, const Spec& spec, const Family& family, int64_t padding)
    : file_(file), spec_(spec), family_(family), padding_(padding) {
  const SafetensorsEntry* ids = file.find("input_ids");
  if (!ids || ids->shape.size() != 2 || ids->shape[0] < 1 || ids->shape[1] < 1)
    bad("input_ids is missing or has no rows; expected shape [sequences, length]");
  sequences_ = ids->shape[0];
  length_ = ids->shape[1];
  const int64_t known = spec.context - (family.positions == PositionRule::not_padding ? 1 : 0);
  if (length_ > known) bad(fmt::format("input_ids has {} columns, but the model has {} positions", length_, known));
  if (spec.token_types == 0 && file.find("token_type_ids")) bad("has token_type_ids, but the model has no token types");
  const auto tokens = matrix("input_ids", 0), mask = matrix("attention_mask", 1), types = matrix("token_type_ids", 0);
  for (int64_t s = 0; s < sequences_; ++s) add_sequence(s, tokens, mask, types);
  if (!file.find("labels")) bad("labels are missing");
  if (spec.head == HeadKind::classifier) {
    set_class_labels();
  } else {
    set_token_labels(matrix("labels", 0), mask);
  }
  if (counted_ == 0) bad("all labels are ignored (-100)");
}

void ParityCase::check_id(const char* name, size_t place, double id, int64_t count) const {
  if (id >= 0 && id < static_cast<double>(count) && id == std::floor(id)) return;
  bad(fmt::format("{}[{}, {}] is {}, expected a whole number below {}", name, place / static_cast<size_t>(length_),
                  place % static_cast<size_t>(length_), id, count));
}

int32_t ParityCase::position(int64_t column, int32_t counted, bool padding) const {
  if (family_.positions == PositionRule::columns) return static_cast<int32_t>(column);
  if (family_.positions == PositionRule::attended) return counted;
  return padding ? 0 : counted + 1;
}

void ParityCase::add_sequence(int64_t sequence, const std::vector<double>& ids, const std::vector<double>& mask,
                              const std::vector<double>& types) {
  if (spec_.head == HeadKind::classifier && mask[static_cast<size_t>(sequence * length_)] == 0)
    bad(fmt::format("attention_mask[{}, 0] is 0, but the classifier reads the first column; pad on the right",
                    sequence));
  int32_t counted = 0;
  for (int64_t column = 0; column < length_; ++column) {
    const auto place = static_cast<size_t>(sequence * length_ + column);
    const bool attended = mask[place] != 0, padding = static_cast<int64_t>(ids[place]) == padding_;
    if (attended) {
      check_id("input_ids", place, ids[place], spec_.vocabulary);
      check_id("token_type_ids", place, types[place], std::max<int64_t>(spec_.token_types, 1));
      tokens_.push_back(static_cast<int32_t>(ids[place]));
      types_.push_back(static_cast<int32_t>(types[place]));
      positions_.push_back(position(column, counted, padding));
      places_.push_back(static_cast<int64_t>(place));
    }
    if (family_.positions == PositionRule::not_padding ? !padding : attended) ++counted;
  }
  const auto end = static_cast<int32_t>(tokens_.size());
  if (end == offsets_.back()) bad(fmt::format("attention_mask is 0 for all of sequence {}", sequence));
  offsets_.push_back(end);
}

void ParityCase::set_token_labels(const std::vector<double>& labels, const std::vector<double>& mask) {
  const int64_t shift = spec_.head == HeadKind::language_model ? 1 : 0;  // causal: a column predicts the next one's
  for (int64_t place = 0; place < sequences_ * length_; ++place) {
    const int64_t column = place % length_;
    const bool exists = column + shift < length_;
    const double label = exists ? labels[static_cast<size_t>(place + shift)] : kNotCounted;
    const bool counts = label != kNotCounted;
    if (mask[static_cast<size_t>(place)] == 0) {
      if (counts)
        bad(fmt::format("labels[{}, {}] is not -100, but attention_mask is 0 where it is predicted; set it to -100",
                        place / length_, column + shift));
      continue;
    }
    if (counts && (label < 0 || label >= static_cast<double>(spec_.vocabulary)))
      bad(fmt::format("labels[{}, {}] is {}, outside the vocabulary of {}", place / length_, column + shift, label,
                      spec_.vocabulary));
    targets_.push_back(counts ? static_cast<int32_t>(label) : -1);
    counted_ += counts;
  }
}

void ParityCase::set_class_labels() {
  const SafetensorsEntry& entry = *file_.find("labels");
  int64_t count = 1;
  for (const int64_t size : entry.shape) count *= size;
  if (count != sequences_)
    bad(fmt::format("labels has shape {}, expected one per sequence, [{}]", entry.shape, sequences_));
  for (const double label : read_numbers(file_, entry)) {
    if (spec_.classes == 1) {
      values_.push_back(static_cast<float>(label));
      ++counted_;
      continue;
    }
    const bool counts = label != kNotCounted;
    if (counts && (label < 0 || label >= static_cast<double>(spec_.classes) || label != std::floor(label)))
      bad(fmt::format("labels has {}, expected a class below {}", label, spec_.classes));
    targets_.push_back(counts ? static_cast<int32_t>(label) : -1);
    counted_ += counts;
  }
}

Batch ParityCase::batch() const {
  const auto view = [](const auto& values) {
    return ConstView(std::span(values), {static_cast<int64_t>(values.size())});
  };
  Batch batch;
  batch.tokens = view(tokens_);
  batch.positions = view(positions_);
  batch.types = view(types_);
  batch.targets = view(targets_);
  batch.offsets = view(offsets_);
  batch.values = view(values_);
  return batch;
}

}  // namespace trireme
