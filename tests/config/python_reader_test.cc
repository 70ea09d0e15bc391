#include "config/python_reader.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <map>

#include "base/file.h"
#include "tests/support/expect_error.h"
#include "tests/support/temporary_folder.h"

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
                 fmt::format("the escape \\{} is not supported; write the character itself", escape[0]));
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

TEST(Python, LeavesOpenWhatWouldHaveToBeExecuted) {
  const auto settings = parse(
      "import time, os\nfrom x import y\nname = 'ft-' + str(time.time(\n))\nb = [1, 2]\nc = f'{time.time()}'\n"
      "d = {'#': ')'}\ne = 'x'.title()\nf = None\ng = 3\n");
  ASSERT_EQ(settings.size(), 7u);
  EXPECT_EQ(settings[0].problem, "`'ft-' + str(time.time(`, which is not known without executing code");
  EXPECT_EQ(settings[1].problem, "a list");
  EXPECT_EQ(settings[2].problem, "`f'{time.time()}'`, which is not known without executing code");
  EXPECT_EQ(settings[3].problem, "a dictionary");
  EXPECT_EQ(settings[4].problem, "`'x'.title()`, which is not known without executing code");
  EXPECT_EQ(settings[5].problem, "None");
  EXPECT_EQ(settings[6].value, Value(int64_t{3}));
}

/// Key=value of each setting, in order; values as Python writes them.
std::string read(const std::string& program) {
  std::string out;
  for (const Setting& setting : parse(program))
    out += (out.empty() ? "" : " ") + setting.key + "=" + (setting.problem.empty() ? to_text(setting.value) : "?");
  return out;
}

TEST(Python, DoesWhatPythonDoes) {  // expected values are those of Python 3.11's exec()
  const struct {
    const char *program, *expected;
  } cases[] = {
      {"a, b, c = 2, 3, 4\n", "a=2 b=3 c=4"},
      {"[a, b] = (3, 5)\n", "a=3 b=5"},
      {"a = b = 7\n", "a=7 b=7"},
      {"a: int = 4\nb: 'x' = 3\n", "a=4 b=3"},
      {"a = 12\na += 4\na //= 3\na **= 2\na <<= 1\n", "a=50"},
      {"globals()['a'] = 4\n", "a=4"},
      {"if max_iters > 3:\n    a = 1\n    if False:\n        b = 2\n    else: b = 3\nelse:\n    a = 4\nc = 5\n",
       "a=1 b=3 c=5"},
      {"if 0: a = 1\nelif '': a = 2\nelse: a = 3; b = 4\n", "a=3 b=4"},
      {"if __name__ == '__main__':\n  a = 1\n", "a=1"},
      {"a = 3 if max_iters == 600 else 4\nb = 1 if a == 4 else 2 if a == 3 else 5\n", "a=3 b=2"},
      {"a = not 1 > 2 > 3 and 'x' in 'axb' and 2 not in (1, 3)\nb = 0 or 5\nc = 3 and 4\n", "a=true b=5 c=4"},
      {"a = f'{max_iters}-{1 + 1:03d}-{1e-5}-{0.5:.2f}-{{x}}' 'y'\n", "a=600-002-1e-05-0.50-{x}y"},
      {"a = str(1e-5) + str(0.1) + str(1e16) + str(3.0) + str(True) + str(None)\n", "a=1e-050.11e+163.0TrueNone"},
      {"a = int(1e3) + int('7')\nb = round(2.5)\nc = max(1, 5, 3)\nd = abs(-4)\ne = len([1, 2])\n",
       "a=1007 b=2 c=5 d=4 e=2"},
      {"import math\na = math.ceil(3.2) * 64\nb = math.sqrt(16)\n", "a=256 b=4"},
      {"s = {'small': (4, 128)}\na, b = s['small']\nc = [1, 2, 3][-1]\n", "s=? a=4 b=128 c=3"},
      {"a = 1 << 3 | 1\nb = 7 & 3 ^ 1\nc = 0b11 + 0o17\n", "a=9 b=2 c=18"},
      {"a = 'ab' * 2 + r'\\d'\n", "a=abab\\d"},
      {"exec('a = 3')\n", "a=3"},
      {"def f(x, y=(1, 2)):\n    \"\"\"d\"\"\"\n    if x:\n        return 1\n\n    global a\n    a = 9\n# c\na = 5\n",
       "a=5"},
      {"print('x', max_iters, f'{1}', sep='')\nassert max_iters == 600\na = 1\npass\n", "a=1"},
      {"a = 3\ndel a\nb = 4\n", "b=4"},
      {"import os\nos.environ['TRIREME_T'] = 'q'\na = os.path.join(os.environ.get('TRIREME_U', 'o'), 'b')\n"
       "b = os.environ['TRIREME_T'] + os.getenv('TRIREME_V', 'w')\n",
       "a=o/b b=qw"},
      {"a = 'cuda' if torch.cuda.is_available() else 'cpu'\n", "a=cpu"},
      {"if 1: import math; a = math.floor(2.5)\n", "a=2"},
  };
  for (const auto& [program, expected] : cases) {
    SCOPED_TRACE(program);
    try {
      EXPECT_EQ(read(program), expected);
    } catch (const Error& e) {
      ADD_FAILURE() << e.what();
    }
  }
}

TEST(Python, LeavesMethodsOfNoTextOpen) {
  EXPECT_EQ(read("a = str.upper('x')\nb = 'x'.lower.y()\nc = ' X'.strip().lower()\n"), "a=? b=? c=x");
}

TEST(Python, NamesTheLineOfWhatItDoesNotRead) {
  constexpr const char* kPrograms[] = {
      "for a in range(3): pass\n",
      "for a in range(3):\n  b = a\n",
      "while a < 3: a += 1\n",
      "with open('x') as f:\n  b = 1\n",
      "with open('x') as f: b = 1\n",
      "try:\n  b = 1\nexcept Exception: pass\n",
      "try: b = 1\nfinally: pass\n",
      "class A:\n  b = 1\n",
      "class A: b = 1\n",
      "@x\ndef f(): pass\n",
      "async def f(): pass\n",
      "match a:\n  case 1: pass\n",
      "globals().update(b=4)\n",
      "globals().update({'b': 4})\n",
      "globals()[a] = 4\n",
      "vars()['b'] = 4\n",
      "locals()['b'] = 4\n",
      "setattr(a, 'b', 3)\n",
      "exec('b = 4', globals())\n",
      "eval('1')\n",
      "b = eval('1')\n",
      "b = globals().update(c=1)\n",
      "b = sys.modules['__main__'].__dict__.update(a=3)\n",
      "(b := 7)\n",
      "b = (c := 7)\n",
      "print(c := 7)\n",
      "b = [c := 1 for d in (1, 2)]\n",
      "os.environ.setdefault('X', '1')\n",
      "b = os.environ.setdefault('X', '1')\n",
      "sys.path.append('x')\n",
      "a.b = 3\n",
      "a[0] = 3\n",
      "*b, c = 1, 2\n",
      "raise SystemExit\n",
      "b = 1 if time.time() > 0 else 2\n",
      "if time.time() > 0: b = 1\n",
      "from math import *\n",
      "from nowhere import *\n",
      "from .base import *\n",
      "import __main__\n",
      "exec(open('nowhere.py').read())\n",
      "exec(time.time())\n",
      "a == 1\n",
      "3 = a\n",
      "a = 1 2\n",
      "a = \n",
      "a: int\n",
      "a = c = d\n",
      "b, c = 1, 2, 3\n",
      "b, c = 4\n",
      "assert a == 2\n",
      "del max_iters\n",
      "nonlocal a\n",
      "f()\n",
  };
  for (const char* program : kPrograms) {
    SCOPED_TRACE(program);
    EXPECT_ERROR(parse(std::string("a = 1\n") + program), ErrorKind::config, "a.py:2: ");
  }
  for (const char* call :
       {"b = f()\n", "b = [f() for c in (1, 2)]\n", "print(f())\n", "b = f'{f()}'\n", "b = 1 + f()\n"}) {
    EXPECT_ERROR(parse(std::string("def f():\n  global a\n  a = 1\n") + call), ErrorKind::config,
                 "a.py:4: f() is not supported: calls are not executed; write the result instead");
  }
  for (const char* change : {"b = a.append(3)\n", "b = a.sort()\n", "a += [3]\n", "a[0] = 9\n"}) {
    EXPECT_ERROR(parse(std::string("a = [2, 1]\n") + change), ErrorKind::config, "a.py:2: ");
  }
}

TEST(Python, SaysWhatItDoesNotRead) {
  EXPECT_ERROR(parse("a = 1\nfor b in a:\n  b = 2\n"), ErrorKind::config,
               "a.py:2: found \"for b in a:\"; only assignments, `if`, imports, print() and exec(open(FILE).read()) "
               "are supported");
  EXPECT_ERROR(parse("a = 1\n  b = 2\n"), ErrorKind::config, "a.py:2: unexpected indentation");
  EXPECT_ERROR(parse("if 1:\n        a = 1\n\tb = 2\n"), ErrorKind::config,
               "a.py:3: the indentation mixes tabs and blanks");
  EXPECT_ERROR(parse("a = 1 2\n"), ErrorKind::config, "a.py:1: found \"2\" after the value");
  EXPECT_ERROR(parse("a = b = 3 + c\n"), ErrorKind::config, "a.py:1: \"c\" has no value here; assign it first");
  EXPECT_ERROR(parse("a = \n"), ErrorKind::config, "a.py:1: missing value");
  EXPECT_ERROR(parse("a = (1 + 2\nb = 3\n"), ErrorKind::config, "missing ')'");
  EXPECT_ERROR(parse("a = 'x\n"), ErrorKind::config, "a.py:1: a string is not closed");
  EXPECT_ERROR(parse("\n\na = '''x\n\n"), ErrorKind::config, "a.py:3: a string is not closed");
  EXPECT_ERROR(parse("a = 1.2.3\n"), ErrorKind::config, "a.py:1: 1.2.3 is not a number");
  EXPECT_ERROR(parse("a = 5x\n"), ErrorKind::config, "5x is not a number");
  EXPECT_ERROR(parse("from nowhere.base import *\n"), ErrorKind::config,
               "a.py:1: `from nowhere.base import *`: no nowhere/base.py in the working directory or beside this file");
}

/// The folder's a.py, read with max_iters and n_layer as keys.
std::string read_files(const std::map<std::string, std::string>& files) {
  const TemporaryFolder folder;
  std::filesystem::create_directories(folder / "config");
  for (const auto& [name, text] : files) {
    std::string place = text;
    for (size_t at = 0; (at = place.find("HERE", at)) != std::string::npos;) place.replace(at, 4, folder.path());
    write_text(folder / name, place);
  }
  std::string out;
  for (const Setting& setting :
       read_python(folder / "a.py", 0, {{"max_iters", int64_t{600}}, {"n_layer", int64_t{12}}}))
    out += (out.empty() ? "" : " ") + setting.key + "=" + (setting.problem.empty() ? to_text(setting.value) : "?");
  return out;
}

TEST(Python, FollowsFilesAsPythonDoes) {
  const std::string base = "max_iters = 77\nbatch = 4\n_own = 3\n";
  EXPECT_EQ(read_files({{"a.py", "from config.base import *\n"}, {"config/base.py", base}}), "batch=4 max_iters=77");
  EXPECT_EQ(read_files({{"a.py", "from base import batch as n_layer\n"}, {"base.py", base}}), "n_layer=4");
  EXPECT_EQ(read_files({{"a.py", "import config.base\nn_layer = config.base.batch\n"}, {"config/base.py", base}}),
            "n_layer=4");
  EXPECT_EQ(read_files({{"a.py", "import config.base as b\nn_layer = b._own\n"}, {"config/base.py", base}}),
            "n_layer=3");
  EXPECT_EQ(read_files({{"a.py", "from config import base\nmax_iters = base.batch\n"}, {"config/base.py", base}}),
            "max_iters=4");
  EXPECT_EQ(read_files({{"a.py", "from config import *\n"},
                        {"config/__init__.py", "from config.base import *\n"},
                        {"config/base.py", base}}),
            "batch=4 max_iters=77");
  EXPECT_EQ(read_files({{"a.py", "from base import *\n"}, {"base.py", "__all__ = ['n_layer']\nn_layer = 2\nx = 3\n"}}),
            "n_layer=2");
  EXPECT_EQ(read_files({{"a.py", "exec(open('HERE/config/base.py').read())\nn_layer = batch * 2\n"},
                        {"config/base.py", base + "max_iters += 1\n"}}),
            "max_iters=78 n_layer=8")
      << "batch is a variable of the file: an expression uses it";
  EXPECT_EQ(read_files({{"a.py", "import time\nn_layer = 2\n"}, {"time.py", "n_layer = 5\n"}}), "n_layer=2")
      << "Python's own modules come first";
  EXPECT_EQ(read_files({{"a.py", "from model import GPT\nn_layer = 2\n"}, {"model.py", "class GPT: pass\n"}}),
            "n_layer=2");
  EXPECT_EQ(read_files({{"a.py", "from model import n_layer\n"}, {"model.py", "class GPT: pass\nn_layer = 3\n"}}),
            "n_layer=?")
      << "a file that is not read completely gives no values";
  EXPECT_ERROR(read_files({{"a.py", "from base import *\n"}, {"base.py", "n_layer = 2\nfor x in y: pass\n"}}),
               ErrorKind::config, "base.py:2: found \"for x in y: pass\"");
  EXPECT_ERROR(read_files({{"a.py", "from base import *\n"}, {"base.py", "n_layer = max_iters\n"}}), ErrorKind::config,
               "base.py:1: \"max_iters\" has no value here");
  EXPECT_ERROR(read_files({{"a.py", "from base import nothing\n"}, {"base.py", base}}), ErrorKind::config,
               "a.py:1: module base has no \"nothing\"");
  EXPECT_ERROR(read_files({{"a.py", "from a import *\n"}}), ErrorKind::config, "include each other in an endless loop");
  try {
    read_files({{"a.py", "from b import *\n"}, {"b.py", "from c import *\n"}, {"c.py", "n_layer = x\n"}});
    ADD_FAILURE() << "no error";
  } catch (const Error& e) {
    const std::string text = e.what();
    EXPECT_NE(text.find("b.py:1)"), std::string::npos) << text;
    EXPECT_EQ(text.find("(read for "), text.rfind("(read for "))
        << "only the place that reads the wrong file: " << text;
  }
  EXPECT_ERROR(read_files({{"a.py", "exec(open('HERE/a.py').read())\n"}}), ErrorKind::config,
               "include each other in an endless loop");
}

TEST(Python, RefusesArithmeticThatFails) {
  EXPECT_ERROR(parse("\na = 1 / 0\n"), ErrorKind::config, "a.py:2: division by zero");
  EXPECT_ERROR(parse("a = 1.5 % 0\n"), ErrorKind::config, "division by zero");
  EXPECT_ERROR(parse("a = 'x' * 1.5\n"), ErrorKind::config, "a.py:1: * needs numbers, found \"x\"");
  EXPECT_ERROR(parse("a = 'x' * 10 ** 9\n"), ErrorKind::config, "a string grows beyond 65536 bytes");
  EXPECT_ERROR(parse("a = 1.5 | 2\n"), ErrorKind::config, "| needs whole numbers");
  EXPECT_ERROR(parse("a = -'x'\n"), ErrorKind::config, "- needs numbers");
  EXPECT_ERROR(parse("a = None + 1\n"), ErrorKind::config, "+ needs numbers, found None");
  EXPECT_ERROR(parse("a = 9223372036854775807 + 1\n"), ErrorKind::config, "does not fit a 64-bit whole number");
  EXPECT_ERROR(parse("a = 10 ** 10 ** 10\n"), ErrorKind::config, "does not fit a 64-bit whole number");
  EXPECT_ERROR(parse("a = 99999999999999999999\n"), ErrorKind::config, "outside the range of numbers");
  EXPECT_ERROR(parse("a = 1e999\n"), ErrorKind::config, "outside the range of numbers");
  EXPECT_ERROR(parse("a = 1e300 * 1e300\n"), ErrorKind::config, "not a finite number");
  EXPECT_ERROR(parse("a = (0 - 9223372036854775807 - 1) // -1\n"), ErrorKind::config, "does not fit");
}

TEST(Python, BoundsDepthAndGrowth) {
  EXPECT_ERROR(parse("a = " + std::string(100000, '(')), ErrorKind::config, "nests deeper than 64 levels");
  EXPECT_EQ(value_of(std::string(100000, '-') + "1"), Value(int64_t{1}));
  std::string towers = "2";
  for (int i = 0; i < 1000; ++i) towers += "**1";
  EXPECT_ERROR(parse("a = " + towers), ErrorKind::config, "nests deeper than 64 levels");
  std::string chain = "a = 1\n";
  for (int i = 0; i < 100; ++i) chain += "a = [a]\n";
  EXPECT_ERROR(parse(chain), ErrorKind::config, "a.py:66: lists nest deeper than 64 levels");
  std::string doubling = "a = 'xxxxxxxxxxxxxxxx'\n";
  for (int i = 0; i < 64; ++i) doubling += "a = a + a\n";
  EXPECT_ERROR(parse(doubling), ErrorKind::config, "a string grows beyond 65536 bytes");
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
