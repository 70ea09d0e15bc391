#pragma once
// Asserts on the kind and the text of an Error.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"

/// The statement throws an Error of this kind whose message contains the text.
#define EXPECT_ERROR(statement, expected_kind, text)                                                \
  do {                                                                                              \
    try {                                                                                           \
      statement;                                                                                    \
      ADD_FAILURE() << "no error; expected one that says: " << (text);                              \
    } catch (const trireme::Error& error_) {                                                        \
      EXPECT_EQ(static_cast<int>(error_.kind()), static_cast<int>(expected_kind)) << error_.what(); \
      EXPECT_THAT(std::string(error_.what()), testing::HasSubstr(text));                            \
    }                                                                                               \
  } while (false)
