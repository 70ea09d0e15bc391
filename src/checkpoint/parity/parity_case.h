#pragma once
// A parity case as packed rows, without those that attention_mask excludes.

#include <string>
#include <vector>

#include "checkpoint/huggingface/family.h"
#include "checkpoint/safetensors/safetensors.h"
#include "model/pass.h"

namespace trireme {

/// Elements of a tensor of any numeric type. Throws Error::data for other types.
std::vector<double> read_numbers(const SafetensorsFile& file, const SafetensorsEntry& entry);

/// The model that runs cases. Where positions count tokens other than padding, a padding token that is attended to has
/// the row before the first position: it becomes position 0, and every other one is one later.
Spec parity_spec(Spec spec, const Family& family);

class ParityCase {
 public:
  /// spec: parity_spec(). padding: id that the family gives no gradient.
  ParityCase(const SafetensorsFile& file, const Spec& spec, const Family& family, int64_t padding);

  /// Views of this object's arrays.
  Batch batch() const;
  int64_t rows() const { return static_cast<int64_t>(tokens_.size()); }
  int64_t sequences() const { return static_cast<int64_t>(offsets_.size()) - 1; }
  /// Tokens, or sequences, whose loss is counted.
  int64_t counted() const { return counted_; }
  /// Of each row: its place in the case's [B x T].
  const std::vector<int64_t>& places() const { return places_; }
  int64_t length() const { return length_; }

 private:
  std::vector<double> matrix(const char* name, double otherwise) const;
  void check_id(const char* name, size_t place, double id, int64_t count) const;
  int32_t position(int64_t column, int32_t counted, bool padding) const;
  void add_sequence(int64_t sequence, const std::vector<double>& ids, const std::vector<double>& mask,
                    const std::vector<double>& types);
  void set_token_labels(const std::vector<double>& labels, const std::vector<double>& mask);
  void set_class_labels();
  [[noreturn]] void bad(const std::string& what) const;

  const SafetensorsFile& file_;
  const Spec& spec_;
  const Family& family_;
  int64_t padding_, sequences_ = 0, length_ = 0, counted_ = 0;
  std::vector<int32_t> tokens_, positions_, types_, targets_, offsets_{0};
  std::vector<float> values_;
  std::vector<int64_t> places_;
};

}  // namespace trireme
