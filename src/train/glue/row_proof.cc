#include "train/glue/row_proof.h"

#include <algorithm>

#include "base/error.h"
#include "base/hash.h"
#include "comm/proof.h"

namespace trireme {
namespace {

constexpr size_t kParts = 64;  // one line each

template <class T>
uint64_t hash_of(const std::vector<T>& values, size_t begin, size_t end) {
  return xxh3(std::as_bytes(std::span(values).subspan(begin, end - begin)));
}

std::string lines_of(const NamedRows& set) {
  const EncodedRows& rows = set.rows;
  const size_t count = rows.labels.size(), parts = std::min(kParts, count);
  std::string lines = fmt::format("{}: {} rows\n", set.path, count);
  for (size_t part = 0; part < parts; ++part) {
    const size_t first = count * part / parts, last = count * (part + 1) / parts;
    const size_t begin = rows.offsets[first], end = rows.offsets[last];
    lines +=
        fmt::format("{}: rows {} to {} have {} ids with XXH3 {}, labels with XXH3 {}\n", set.path, first + 1, last,
                    end - begin, hex64(hash_of(rows.tokens, begin, end)), hex64(hash_of(rows.labels, first, last)));
  }
  return lines;
}

}  // namespace

void prove_same_rows(const GlueJob& job, Scalars& scalars, std::string_view host) {
  if (scalars.size() == 1) return;
  std::string text;
  for (const auto* sets : {&job.train, &job.validation, &job.test}) {
    for (const NamedRows& set : *sets) text += lines_of(set);
  }
  prove_same_text(scalars, host, text, "have the same rows", "copy the files and the tokenizer to that host again");
}

}  // namespace trireme
