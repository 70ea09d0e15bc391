#pragma once
// A model small enough for any test, with every kind of parameter.

#include "model/parameter_table.h"

namespace trireme {

/// Two blocks of width 16; 13 token ids in 16 rows.
inline Spec tiny_spec(bool tied = true) {
  Spec spec;
  spec.vocabulary = 13;
  spec.vocabulary_rows = 16;
  spec.context = 8;
  spec.layers = 2;
  spec.heads = 2;
  spec.width = 16;
  spec.inner_width = 64;
  spec.tied_head = tied;
  return spec;
}

}  // namespace trireme
