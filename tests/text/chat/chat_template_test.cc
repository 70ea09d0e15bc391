#include "text/chat/chat_template.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ctime>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json.h"
#include "tests/support/paths.h"
#include "tests/text/chat/fixed_time.h"
#include "text/unicode.h"

namespace trireme::chat {
namespace {

using ::testing::HasSubstr;

std::string render(const std::string& source, const Json& variables = Json::object(), const ChatLimits& limits = {}) {
  return ChatTemplate(source, "t.jinja", limits).render(variables, fixed_time()).text;
}

std::string error_of(const std::string& source, const Json& variables = Json::object(), const ChatLimits& limits = {}) {
  try {
    render(source, variables, limits);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::data);
    return error.what();
  }
  return "no error";
}

const Json& published_cases() {
  static const Json cases = read_json(source_dir() + "/tests/text/chat/cases.json");
  return cases;
}

// What jinja2 makes of each template; make_cases.py wrote the file.
TEST(ChatTemplate, MakesTheTextsOfJinja2) {
  const Json& variables = published_cases().at("variables");
  size_t texts = 0, refused = 0;
  for (const Json& one : published_cases().at("cases")) {
    const auto source = one.at("template").get<std::string>();
    SCOPED_TRACE(source);
    std::optional<Rendered> rendered;
    try {
      rendered = ChatTemplate(source, "t").render(variables, fixed_time());
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::data);
      EXPECT_TRUE(one.at("text").is_null()) << error.what();
    }
    ++(rendered ? texts : refused);
    if (!rendered) continue;
    if (one.at("text").is_null()) {
      ADD_FAILURE() << "jinja2 raises, here: " << rendered->text;
      continue;
    }
    EXPECT_EQ(rendered->text, one.at("text").get<std::string>());
    Json spans = Json::array();
    for (const auto& [begin, end, message] : rendered->generated)
      spans.push_back({count_code_points(std::string_view(rendered->text).substr(0, begin)),
                       count_code_points(std::string_view(rendered->text).substr(0, end))});
    EXPECT_EQ(spans, one.value("generated", Json::array()));
  }
  EXPECT_GT(texts, 400U);
  EXPECT_GT(refused, 150U);
}

TEST(ChatTemplate, NamesLineAndConstructThatItDoesNotSupport) {
  EXPECT_EQ(error_of("a\n{{ x | batch(2) }}"), "t.jinja line 2: the filter \"batch\" is not supported");
  EXPECT_EQ(error_of("{{ x | nofilter }}"), "t.jinja line 1: unknown filter \"nofilter\"");
  EXPECT_EQ(error_of("{% if x is sameas 1 %}{% endif %}"), "t.jinja line 1: the test \"sameas\" is not supported");
  EXPECT_EQ(error_of("\n\n{% include 'x' %}"), "t.jinja line 3: the tag \"include\" is not supported");
  EXPECT_EQ(error_of("{% nosuch %}"), "t.jinja line 1: unknown tag \"nosuch\"");
  EXPECT_EQ(error_of("{% for x in y recursive %}{% endfor %}"), "t.jinja line 1: recursive loops are not supported");
  EXPECT_EQ(error_of("{{ joiner() }}"), "t.jinja line 1: the function \"joiner\" is not supported");
  EXPECT_EQ(error_of("{{ 'a'.encode() }}"), "t.jinja line 1: \"encode\" of a str is not supported");
  EXPECT_EQ(error_of("{{ '%s' % 1 }}"), "t.jinja line 1: text % value is not supported; use ~ or +");
  EXPECT_EQ(error_of("{{ \"\\N{DASH}\" }}"), "t.jinja line 1: the escape \\N{...} in a string is not supported");
  EXPECT_EQ(error_of("{{ 9223372036854775807 + 1 }}"),
            "t.jinja line 1: an integer needs more than 64 bits, which is not supported");
  EXPECT_THAT(error_of("{% macro m() %}{% generation %}{% endgeneration %}{% endmacro %}"),
              HasSubstr("line 1: {% generation %} in a macro or a {% set %} block is not supported"));
}

TEST(ChatTemplate, SaysWhatIsWrongAndWhere) {
  EXPECT_EQ(error_of("a\n\n{{ x.y }}"), "t.jinja line 3: \"x\" is undefined");
  EXPECT_EQ(error_of("{{ x.y.z }}", {{"x", {{"a", 1}}}}), "t.jinja line 1: a dict has no attribute \"y\"");
  EXPECT_EQ(error_of("{% if x %}\n{{ raise_exception('roles ' ~ x) }}{% endif %}", {{"x", 1}}),
            "t.jinja line 2: the template refuses the conversation: roles 1");
  EXPECT_EQ(error_of("{{ 'a' + 1 }}"), "t.jinja line 1: a str + an int has no meaning");
  EXPECT_EQ(error_of("{{ 1 in 5 }}"), "t.jinja line 1: \"in\" is not supported for an int");
  EXPECT_EQ(error_of("{% for a, b in [[1]] %}{% endfor %}"), "t.jinja line 1: found 1 values to assign, expected 2");
  EXPECT_EQ(error_of("{% if x %}\n"), "t.jinja line 1: {% if %} does not end: {% endif %} is missing");
  EXPECT_EQ(error_of("\n{{ 'abc }}"), "t.jinja line 2: a string does not end: ' is missing");
  EXPECT_EQ(error_of("{{ x y }}"), "t.jinja line 1: found \"y\", expected \"}}\"");
  EXPECT_EQ(error_of("{{ a ? b }}"), "t.jinja line 1: unexpected character \"?\" in a tag");
  EXPECT_EQ(error_of("{% set x.y = 1 %}", {{"x", 1}}),
            "t.jinja line 1: \"x.y\" cannot be set: \"x\" is an int, expected a namespace");
  EXPECT_EQ(error_of("{{ strftime_now('%Q') }}"), "t.jinja line 1: strftime_now: the format \"%Q\" is not supported");
  EXPECT_EQ(error_of("ab\xff"), "t.jinja: the chat template is not UTF-8 at byte 2");
  EXPECT_EQ(error_of("{{ x }}", {{"x", 18446744073709551615ULL}}),
            "t.jinja line 1: the integer 18446744073709551615 needs more than 64 bits, which templates do not support "
            "here");
  EXPECT_THAT(error_of(std::string((size_t{1} << 20) + 1, 'a')), HasSubstr("1048577 bytes, the limit is 1048576"));
}

TEST(ChatTemplate, IsBoundedInStepsTextAndDepth) {
  const ChatLimits small{.steps = 1000, .text = 10'000, .output = 1000, .items = 100, .nesting = 60};
  const auto stops = [&](const std::string& source) { return error_of(source, Json::object(), small); };
  EXPECT_EQ(stops("{% for a in range(99) %}{% for b in range(99) %}{% endfor %}{% endfor %}"),
            "t.jinja line 1: stopped after 1000 steps, the limit for one conversation");
  EXPECT_EQ(stops("{% set n = namespace(t='x') %}{% for a in range(50) %}{% set n.t = n.t ~ n.t %}{% endfor %}"),
            "t.jinja line 1: a string would have 1024 bytes, the limit is 1000");
  EXPECT_EQ(stops("{{ 'x' * 900 }}{{ 'x' * 900 }}"),
            "t.jinja line 1: the text of a conversation exceeds 1000 bytes, the limit");
  EXPECT_EQ(stops("{% for a in range(40) %}{% set x = 'x' * 900 %}{% endfor %}"),
            "t.jinja line 1: all strings together exceed 10000 bytes, the limit for one conversation");
  EXPECT_EQ(stops("{{ [1] * 101 }}"), "t.jinja line 1: a list would have more than 100 items, the limit");
  EXPECT_EQ(stops("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}"),
            "t.jinja line 1: expressions, blocks and macros are nested more than 60 levels deep");
  EXPECT_EQ(error_of("{% set n = namespace(l=[]) %}{% for a in range(999) %}{% set n.l = [n.l] %}{% endfor %}"),
            "t.jinja line 1: lists and dictionaries are nested more than 128 levels deep");
  EXPECT_THAT(error_of("{{ " + std::string(5000, '(') + std::string(5000, ')') + " }}"),
              HasSubstr("nested more than 100 levels deep"));
  EXPECT_THAT(error_of("{{ " + std::string(5000, '-') + "1 }}"), HasSubstr("nested more than 100 levels deep"));
  std::string chain = "{{ x";
  for (int i = 0; i < 5000; ++i) chain += ".y";
  EXPECT_THAT(error_of(chain + " }}"), HasSubstr("an expression has more than 100 levels"));
  std::string sum = "{{ 1";
  for (int i = 0; i < 5000; ++i) sum += " + 1";
  EXPECT_EQ(render(sum + " }}"), "5001");
}

// Cycles through a namespace, a loop and a method, none of which may be followed without end.
TEST(ChatTemplate, SurvivesValuesThatReferToThemselves) {
  EXPECT_EQ(render("{% set n = namespace() %}{% set n.n = n %}{{ n.n.n.n is defined }}{{ n == n.n }}"), "TrueTrue");
  EXPECT_EQ(error_of("{% set n = namespace() %}{% set n.n = n %}{{ [n.n] }}"),
            "t.jinja line 1: a namespace cannot become a string here");
  EXPECT_THAT(
      error_of("{% set n = namespace(f={}) %}{% for i in range(999) %}{% set n.f = {'get': n.f.get} %}{% endfor %}"
               "{% set n.f = {} %}{% for i in range(999) %}{% set n.f = {'g': n.f.items} %}{% endfor %}"),
      HasSubstr("nested more than 128 levels deep"));
  EXPECT_THAT(error_of("{% set n = namespace(l=[1]) %}{% for i in range(999) %}{% for x in n.l %}{% set n.l = [loop] "
                       "%}{% endfor %}{% endfor %}"),
              HasSubstr("nested more than 128 levels deep"));
}

TEST(ChatTemplate, RefusesHostileWorkInBoundedTime) {
  const auto seconds = [](const std::string& source, const Json& variables) {
    const auto start = std::clock();
    EXPECT_NE(error_of(source, variables, {.steps = 2'000'000}), "no error");
    return static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
  };
  const std::string text(1 << 20, 'a');
  const Json variables = {{"text", text}, {"part", std::string(1 << 19, 'a') + "b"}};
  constexpr double kMost = 5;  // seconds; 0.2 without sanitizers
  EXPECT_LT(seconds("{% for i in range(99999) %}{% if part in text %}{% endif %}{% endfor %}", variables), kMost);
  EXPECT_LT(seconds("{% for i in range(99999) %}{{ text.strip(part)|length }}{% endfor %}", variables), kMost);
  EXPECT_LT(seconds("{% for i in range(99999) %}{{ text.rsplit(part, 1)|length }}{% endfor %}", variables), kMost);
  EXPECT_LT(seconds("{% for i in range(99999) %}{{ text.replace('a', text)|length }}{% endfor %}", variables), kMost);
  EXPECT_LT(seconds("{% for i in range(99999) %}{{ text|upper|lower|length }}{% endfor %}", variables), kMost);
  EXPECT_LT(seconds("{% for i in range(99999) %}{{ text[i] }}{{ text|tojson|length }}{% endfor %}", variables), kMost);
  EXPECT_LT(seconds("{% for a in text %}{% for b in text %}{% endfor %}{% endfor %}", variables), kMost);
}

// Mutations of the published cases: an error or a text, never anything else.
TEST(ChatTemplate, TakesEveryMutationOfATemplate) {
  const Json& cases = published_cases().at("cases");
  const Json& variables = published_cases().at("variables");
  const ChatLimits limits{.steps = 20'000, .text = 1 << 20, .output = 1 << 18, .items = 5000, .nesting = 200};
  static constexpr std::string_view kPieces[] = {"{{",
                                                 "}}",
                                                 "{%",
                                                 "%}",
                                                 "{#",
                                                 "-",
                                                 "|",
                                                 "(",
                                                 ")",
                                                 "[",
                                                 "]",
                                                 ".",
                                                 "'",
                                                 " in ",
                                                 " if ",
                                                 " else ",
                                                 "loop",
                                                 "namespace",
                                                 "0",
                                                 "9",
                                                 "~",
                                                 "**",
                                                 "{% set n = ",
                                                 "{% for i in list %}",
                                                 "{% endfor %}",
                                                 "tojson"};
  uint64_t state = 1;
  const auto draw = [&](size_t below) {
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    return static_cast<size_t>(state >> 33) % below;
  };
  size_t rendered = 0;
  for (int round = 0; round < 20'000; ++round) {
    auto source = cases[draw(cases.size())].at("template").get<std::string>();
    for (size_t edits = 1 + draw(3); edits > 0; --edits) {
      const size_t place = draw(source.size() + 1);
      switch (draw(4)) {
        case 0:
          source.insert(place, kPieces[draw(std::size(kPieces))]);
          break;
        case 1:
          source.erase(place, 1 + draw(4));
          break;
        case 2:
          source.insert(place, cases[draw(cases.size())].at("template").get<std::string>());
          break;
        default:
          source.insert(place, 1, static_cast<char>(draw(128)));
          break;
      }
    }
    try {
      ChatTemplate(source, "t", limits).render(variables, fixed_time());
      ++rendered;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::data) << source;
    }
  }
  EXPECT_GT(rendered, 1000U);
}

TEST(ChatTemplate, KnowsWhetherItMarksWhatAnAssistantWrote) {
  EXPECT_TRUE(
      ChatTemplate("{% for m in messages %}{% generation %}{% endgeneration %}{% endfor %}", "t").marks_generation());
  EXPECT_FALSE(ChatTemplate("{{ messages }}", "t").marks_generation());
}

TEST(ChatTemplate, TakesTheTimeOfTheMachine) {
  const std::string year = ChatTemplate("{{ strftime_now('%Y') }}", "t").render(Json::object()).text;
  EXPECT_GE(std::stoi(year), 2024);
}

}  // namespace
}  // namespace trireme::chat
