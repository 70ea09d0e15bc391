#pragma once
// Finds the border between training and validation in one text, counted in characters: each byte other than 10xxxxxx
// begins one.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data/prepare/byte_source.h"
#include "data/prepare/input_files.h"

namespace trireme {

// Reads uncompressed files with all threads.

/// Part of a file: bytes [begin, begin + bytes). The source is at its beginning and continues after its end.
struct FilePart {
  ByteSource& source;
  uint64_t begin, bytes;
};

/// The sum of `count` over all parts of the files, called by several threads. Throws Error::io and exceptions of
/// `count`.
uint64_t sum_over_parts(const std::vector<std::string>& paths, int threads,
                        const std::function<uint64_t(FilePart)>& count);

/// Characters that begin in the text.
size_t count_characters(std::string_view text);

/// Offset of the character with that number, counted from 0, in a text that has more.
size_t find_character(std::string_view text, size_t number);

/// int(fraction * n) for the n characters of a file, which is read once, by all threads if it is not compressed. Throws
/// Error::io, Error::data (a side would be empty), Error::usage, Error::stopped.
uint64_t training_characters(const std::string& path, double fraction, int threads = 1,
                             const std::atomic<bool>* stop = nullptr, const InputEncoding& encoding = {});

// Counts documents before they are encoded, so that each one's output file is known at once.

/// The number that encode_documents() will count if every line that is not blank has a document, up to `most` (0: all).
/// Empty if a file cannot be read twice, or reading costs more than copying ids: pipes, compressed files, archives,
/// Parquet. Throws Error::io, Error::stopped.
std::optional<uint64_t> expected_documents(const std::vector<InputFile>& files, uint64_t most, int threads,
                                           const std::atomic<bool>* stop = nullptr);

}  // namespace trireme
