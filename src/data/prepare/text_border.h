#pragma once
// Finds the border between training and validation in one text, counted in characters: each byte other than 10xxxxxx
// begins one.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "data/prepare/encoded_source.h"

namespace trireme {

/// Characters that begin in the text.
size_t count_characters(std::string_view text);

/// Offset of the character with that number, counted from 0, in a text that has more.
size_t find_character(std::string_view text, size_t number);

/// int(fraction * n) for the n characters of a file, which is read once, by all threads if it is not compressed. Throws
/// Error::io, Error::data (a side would be empty), Error::usage, Error::stopped.
uint64_t training_characters(const std::string& path, double fraction, int threads = 1,
                             const std::atomic<bool>* stop = nullptr, const InputEncoding& encoding = {});

}  // namespace trireme
