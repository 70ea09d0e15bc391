#pragma once
// Where one text is divided into training and validation, counted in characters: bytes that are not 10xxxxxx begin one.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "data/prepare/encoded_source.h"

namespace trireme {

/// Characters that begin in the text.
size_t count_characters(std::string_view text);

/// Where the character of that number, the first is 0, begins in a text that has more.
size_t find_character(std::string_view text, size_t number);

/// int(fraction * n) of the n characters of a file, which is read once, by all threads where it is not compressed.
/// Throws Error::io, Error::data (a side would be empty), Error::usage, Error::stopped.
uint64_t training_characters(const std::string& path, double fraction, int threads = 1,
                             const std::atomic<bool>* stop = nullptr, const InputEncoding& encoding = {});

}  // namespace trireme
