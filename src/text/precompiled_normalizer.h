#pragma once
// SentencePiece's precompiled normalization table, as T5 and XLM-R files carry it.

#include "text/normalizer.h"

namespace trireme {

std::unique_ptr<Normalizer> make_precompiled_normalizer(const JsonObject& element);

}  // namespace trireme
