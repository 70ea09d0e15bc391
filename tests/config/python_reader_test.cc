#include "config/python_reader.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/expect_error.h"

namespace trireme {
namespace {

std::vector<Setting> parse(const std::string& text) {
  return parse_python(text, "a.py", 0, {{"max_iters", int64_t{600}}});
}

Value value_of(const std::string& expression) {
  const auto settings = parse("x = " + expression + "\n");
  EXPECT_EQ(settings.size(), 1u);
  return settings.at(0).value;
}

Value text(const char* value) { return std::string(value); }

TEST(Python, NamesEscapesThatItDoesNotRead) {
  for (const char* escape : {"x41", "u00e9", "101", "a"}) {
    EXPECT_ERROR(value_of(std::string("'\\") + escape + "'"), ErrorKind::config,
                 fmt::format("the escape \\{} is not read; write the character itself", escape[0]));
  }
}

TEST(Python, ReadsLiterals) {
  EXPECT_EQ(value_of("12"), Value(int64_t{12}));
  EXPECT_EQ(value_of("1_000"), Value(int64_t{1000}));
  EXPECT_EQ(value_of("0x1F"), Value(int64_t{31}));
  EXPECT_EQ(value_of("-3"), Value(int64_t{-3}));
  EXPECT_EQ(value_of("6e-4"), Value(6e-4));
  EXPECT_EQ(value_of("1."), Value(1.0));
  EXPECT_EQ(value_of(".5"), Value(0.5));
  EXPECT_EQ(value_of("True"), Value(true));
  EXPECT_EQ(value_of("False # c"), Value(false));
  EXPECT_EQ(value_of("'a # b'"), text("a # b"));
  EXPECT_EQ(value_of("\"it's\" 'x'"), text("it'sx"));
  EXPECT_EQ(value_of("'a\\n\\t\\\\\\'\\d'"), text("a\n\t\\'\\d"));
  EXPECT_EQ(value_of("'''a\nb'''"), text("a\nb"));
  EXPECT_EQ(value_of("''"), text(""));
}

TEST(Python, ComputesAsPythonDoes) {
  EXPECT_EQ(value_of("5 * 8"), Value(int64_t{40}));
  EXPECT_EQ(value_of("2 + 3 * 4"), Value(int64_t{14}));
  EXPECT_EQ(value_of("(2 + 3) * 4"), Value(int64_t{20}));
  EXPECT_EQ(value_of("10 - 4 - 3"), Value(int64_t{3}));
  EXPECT_EQ(value_of("2 ** 3 ** 2"), Value(int64_t{512}));
  EXPECT_EQ(value_of("-2 ** 2"), Value(int64_t{-4}));
  EXPECT_EQ(value_of("2 ** -1"), Value(0.5));
  EXPECT_EQ(value_of("7 / 2"), Value(3.5));
  EXPECT_EQ(value_of("4 / 2"), Value(2.0)) << "/ always gives a float";
  EXPECT_EQ(value_of("7 // 2"), Value(int64_t{3}));
  EXPECT_EQ(value_of("-7 // 2"), Value(int64_t{-4}));
  EXPECT_EQ(value_of("-7 % 3"), Value(int64_t{2}));
  EXPECT_EQ(value_of("7 % -3"), Value(int64_t{-2}));
  EXPECT_EQ(value_of("-7.5 // 2"), Value(-4.0));
  EXPECT_EQ(value_of("1e-4 / 2"), Value(5e-5));
  EXPECT_EQ(value_of("True + 1"), Value(int64_t{2}));
  EXPECT_EQ(value_of("+True"), Value(int64_t{1}));
  EXPECT_EQ(value_of("--3"), Value(int64_t{3}));
  EXPECT_EQ(value_of("'a' + 'b'"), text("ab"));
  EXPECT_EQ(value_of("(1 +\n  # why\n 2)"), Value(int64_t{3}));
  EXPECT_EQ(value_of("1 + \\\n 2"), Value(int64_t{3}));
  EXPECT_EQ(value_of("max_iters // 2"), Value(int64_t{300})) << "defaults have names";
}

TEST(Python, KeepsOrderLinesAndTheLastOfEqualNames) {
  const auto settings = parse("\"\"\"about\nthis\"\"\"\na = 1\n\n# c\nb = a * 2; c = b\r\na = 5\n");
  ASSERT_EQ(settings.size(), 3u);
  EXPECT_EQ(settings[0].key, "b");
  EXPECT_EQ(settings[0].value, Value(int64_t{2}));
  EXPECT_EQ(settings[0].origin.text(), "a.py:6");
  EXPECT_EQ(settings[1].value, Value(int64_t{2}));
  EXPECT_EQ(settings[2].key, "a");
  EXPECT_EQ(settings[2].value, Value(int64_t{5}));
  EXPECT_EQ(settings[2].origin.line, 7);
}

TEST(Python, ExecutesNothing) {
  const auto settings = parse(
      "import time, os\nfrom x import y\nname = 'ft-' + str(time.time(\n))\nb = [1, 2]\nc = f'{b}'\nd = {'#': ')'}\n"
      "e = 'x'.upper()\nf = None\ng = 3\n");
  ASSERT_EQ(settings.size(), 7u);
  EXPECT_EQ(settings[0].problem, "`'ft-' + str(time.time(`, which would have to be executed");
  EXPECT_EQ(settings[1].problem, "`[1, 2]`, which would have to be executed");
  EXPECT_EQ(settings[2].problem, "`f'{b}'`, which would have to be executed");
  EXPECT_EQ(settings[3].problem, "`{'#': ')'}`, which would have to be executed");
  EXPECT_EQ(settings[4].problem, "`'x'.upper()`, which would have to be executed");
  EXPECT_EQ(settings[5].problem, "None");
  EXPECT_EQ(settings[6].value, Value(int64_t{3}));
}

TEST(Python, NamesTheLineOfWhatItDoesNotRead) {
  EXPECT_ERROR(parse("a = 1\nif a:\n  b = 2\n"), ErrorKind::config,
               "a.py:2: found \"if a:\"; only `name = value` lines are read");
  EXPECT_ERROR(parse("a = 1\n  b = 2\n"), ErrorKind::config, "a.py:2: an indented line");
  EXPECT_ERROR(parse("print('x')\n"), ErrorKind::config, "a.py:1: found \"print('x')\"");
  EXPECT_ERROR(parse("a == 1\n"), ErrorKind::config, "a.py:1: found \"a == 1\"");
  EXPECT_ERROR(parse("a += 1\n"), ErrorKind::config, "a.py:1: found \"a += 1\"");
  EXPECT_ERROR(parse("3 = a\n"), ErrorKind::config, "a.py:1: found \"3 = a\"");
  EXPECT_ERROR(parse("a = 1 2\n"), ErrorKind::config, "a.py:1: found \"2\" after the value");
  EXPECT_ERROR(parse("a = 1 if True else 2\n"), ErrorKind::config, "found \"if True else 2\" after the value");
  EXPECT_ERROR(parse("a = 1 == 2\n"), ErrorKind::config, "found \"== 2\" after the value");
  EXPECT_ERROR(parse("a = b = 3\n"), ErrorKind::config, "a.py:1: \"b\" has no value here; assign it first");
  EXPECT_ERROR(parse("a = \n"), ErrorKind::config, "a.py:1: a value is missing");
  EXPECT_ERROR(parse("a = (1 + 2\nb = 3\n"), ErrorKind::config, "')' is missing");
  EXPECT_ERROR(parse("a = 'x\n"), ErrorKind::config, "a.py:1: a string is not closed");
  EXPECT_ERROR(parse("\n\na = '''x\n\n"), ErrorKind::config, "a.py:3: a string is not closed");
  EXPECT_ERROR(parse("a = 1.2.3\n"), ErrorKind::config, "a.py:1: 1.2.3 is not a number");
  EXPECT_ERROR(parse("a = 5x\n"), ErrorKind::config, "5x is not a number");
}

TEST(Python, RefusesArithmeticThatFails) {
  EXPECT_ERROR(parse("\na = 1 / 0\n"), ErrorKind::config, "a.py:2: division by zero");
  EXPECT_ERROR(parse("a = 1.5 % 0\n"), ErrorKind::config, "division by zero");
  EXPECT_ERROR(parse("a = 'x' * 3\n"), ErrorKind::config, "a.py:1: * needs numbers, found \"x\"");
  EXPECT_ERROR(parse("a = -'x'\n"), ErrorKind::config, "- needs numbers");
  EXPECT_ERROR(parse("a = None + 1\n"), ErrorKind::config, "+ needs numbers, found None");
  EXPECT_ERROR(parse("a = 9223372036854775807 + 1\n"), ErrorKind::config, "does not fit a 64-bit whole number");
  EXPECT_ERROR(parse("a = 10 ** 10 ** 10\n"), ErrorKind::config, "does not fit a 64-bit whole number");
  EXPECT_ERROR(parse("a = 99999999999999999999\n"), ErrorKind::config, "outside of the range of numbers");
  EXPECT_ERROR(parse("a = 1e999\n"), ErrorKind::config, "outside of the range of numbers");
  EXPECT_ERROR(parse("a = 1e300 * 1e300\n"), ErrorKind::config, "not a finite number");
  EXPECT_ERROR(parse("a = (0 - 9223372036854775807 - 1) // -1\n"), ErrorKind::config, "does not fit");
}

TEST(Python, BoundsDepthAndGrowth) {
  EXPECT_ERROR(parse("a = " + std::string(100000, '(')), ErrorKind::config, "nests deeper than 64 levels");
  EXPECT_EQ(value_of(std::string(100000, '-') + "1"), Value(int64_t{1}));
  std::string towers = "2";
  for (int i = 0; i < 1000; ++i) towers += "**1";
  EXPECT_ERROR(parse("a = " + towers), ErrorKind::config, "nests deeper than 64 levels");
  std::string doubling = "a = 'xxxxxxxxxxxxxxxx'\n";
  for (int i = 0; i < 64; ++i) doubling += "a = a + a\n";
  EXPECT_ERROR(parse(doubling), ErrorKind::config, "a text grows beyond 65536 bytes");
}

TEST(PythonWord, IsALiteralOrItself) {
  EXPECT_EQ(python_word("True"), Value(true));
  EXPECT_EQ(python_word("-3"), Value(int64_t{-3}));
  EXPECT_EQ(python_word("1e-3"), Value(1e-3));
  EXPECT_EQ(python_word("'5'"), text("5"));
  EXPECT_EQ(python_word("out-1"), text("out-1"));
  EXPECT_EQ(python_word("2-1"), text("2-1"));
  EXPECT_EQ(python_word("gpt2"), text("gpt2"));
  EXPECT_EQ(python_word("/a b/#c"), text("/a b/#c"));
  EXPECT_EQ(python_word("it's"), text("it's"));
  EXPECT_EQ(python_word(""), text(""));
}

}  // namespace
}  // namespace trireme
