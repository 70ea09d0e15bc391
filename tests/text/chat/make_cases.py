#!/usr/bin/env python3
"""Writes cases.json: small templates, one per feature, with the text that jinja2 makes of them (null where it raises,
or where Trireme refuses a construct).

make_cases.py [--check RENDER]: with --check it writes nothing and compares the program test_render_lines with jinja2.
Needs jinja2 >= 3.1.6.
"""
import json
import pathlib
import sys

from compare_templates import with_jinja, with_trireme

VARIABLES = {
    "n": 7, "zero": 0, "minus": -7, "half": 0.5, "yes": True, "no": False, "nothing": None, "empty": "",
    "text": "  Hello, World  ", "word": "abc", "german": "Grüße ß ﬁ ŉ", "greek": "ΟΔΥΣΣΕΥΣ ΣΑΣ Σ", "wide": "a😀é世",
    "list": [3, 1, 2], "words": ["b", "A", "c"], "mixed": [1, "x", None, True, 2.5, {"k": "v'"}], "none": [],
    "dict": {"b": 1, "a": {"c": [1, 2]}, "items": "hidden", "B": 0},
    "people": [{"name": "Ann", "age": 30, "tags": {"x": 1}}, {"name": "bob", "age": 25}, {"name": "Cy", "age": None}],
    "quote": "it's \"so\" \\ \n\t\x00\x7f\u200b\U000e0001", "html": "<a & 'b' \"c\">", "keys": {"1": 2},
}

# What jinja2 renders and Trireme refuses, as docs/chat.md says.
REFUSED = ["{{ 1e400|tojson }}", "{{ range(3) }}", "{{ self }}", "{{ 1_000 }}", "{{ 0x10 }}", "x{#"]

TEMPLATES = [
    # Unknown filters and tests.
    "{% if no %}{{ 1|no_filter }}{% endif %}x", "{% if yes %}{{ 1|no_filter }}{% endif %}x",
    "{% if yes %}x{% else %}{{ 1 is no_test }}{% endif %}", "{% if no and 1|no_filter %}{% else %}x{% endif %}",
    "{% if no %}{% for i in list %}{{ i|no_filter }}{% endfor %}{% endif %}x",
    "{% if no %}{% for i in list|no_filter %}{{ i }}{% endfor %}{% endif %}x",
    "{% if no %}{% for i in list if i is no_test %}{{ i }}{% endfor %}{% endif %}x",
    "{% for i in list %}{% if no %}{{ i|no_filter }}{% endif %}{{ i }}{% endfor %}",
    "{% if no %}{% set x = 1|no_filter %}{% endif %}x", "{% if no %}{% set x %}{{ 1|no_filter }}{% endset %}{% endif %}x",
    "{% if no %}{% set x|no_filter %}a{% endset %}{% endif %}x",
    "{% if no %}{% macro m(a) %}{{ a|no_filter }}{% endmacro %}{% endif %}x",
    "{% if no %}{% macro m(a=1|no_filter) %}{% endmacro %}{% endif %}x",
    "{% if no %}{% generation %}{{ 1|no_filter }}{% endgeneration %}{% endif %}x",
    "{% if no %}x{% endif %}{{ 1|no_filter }}",
    # White space.
    "a\n", "a\n\n", "a\r\nb\rc", "", "\n",
    "{% if yes %}\nx\n{% endif %}\ny",
    "  {% if yes %}\n  x\n  {% endif %}\ny",
    "  {%- if yes %}\n  x\n  {%- endif %}\ny",
    "  {%- if yes -%}\n  x\n  {%- endif -%}\n  y",
    "a {% if yes %} b {% endif %} c",
    "\t {% if yes %}x{% endif %}\n\n {% if yes %}y{% endif %}",
    "  {%+ if yes %}x{% endif %}",
    "{% if yes +%}\nx{% endif %}",
    "  {{ n }}  \n  {{- n -}}  \n x",
    "{{+ n }}",
    "a {# comment #} b", "a\n  {# comment #}\nb", "a\n  {#- comment -#}\n  b", "a\n {#+ c +#}\nb", "{# {{ n }} {% x %} #}z",
    "{# a\nb #}\nc", "x{#", "x{% if", "x{{ n", "x{{ n }", "{", "{ {", "}} %} #}", "{%", "{{", "a { b } c",
    "{% raw %}{{ n }} {% if %} {# x #}{% endraw %}", "a\n  {% raw %}\n b\n  {% endraw %}\nc", "{%- raw -%}  x  {%- endraw -%}  y", "{% raw %}x",
    " {% set a = 1 %}\n {% set b = 2 %}\n {{ a + b }}",
    "{% set a = 1 %}  {% set b = 2 %}|",
    "x\n\u00a0 {% if yes %}y{% endif %}",
    "{{ '}}' }}{{ '%}' }}", "{{ {'a': {'b': 1}} }}", "{{ {} }}", "{{ {'a': 1}['a'] }}",
    "{{ 'a\r\nb' }}", "{% if yes %}a{% else %}b{% endif %}{# x #}\n\nc",
    # Branches.
    "{% if no %}a{% elif zero %}b{% elif n %}c{% else %}d{% endif %}", "{% if no %}a{% elif zero %}b{% else %}d{% endif %}",
    "{% if no %}a{% endif %}b", "{% if yes %}{% if no %}a{% else %}b{% endif %}{% endif %}", "{% if %}a{% endif %}",
    "{% if yes %}a", "{% if yes %}a{% else %}b", "{% endif %}", "{% if yes %}a{% endfor %}", "{% else %}", "{% if yes, no %}a{% endif %}",
    "{% if yes if no else yes %}a{% endif %}", "{% if (yes if no else no) %}a{% endif %}", "{% if yes %}a{% endif x %}",
    # Loops.
    "{% for x in list %}{{ x }},{% endfor %}", "{% for x in none %}{{ x }}{% else %}empty{% endfor %}",
    "{% for x in missing %}{{ x }}{% else %}empty{% endfor %}", "{% for x in nothing %}{% endfor %}", "{% for x in n %}{% endfor %}",
    "{% for c in wide %}{{ c }}|{% endfor %}", "{% for k in dict %}{{ k }},{% endfor %}",
    "{% for k, v in dict.items() %}{{ k }}={{ v }};{% endfor %}", "{% for k, v in dict|items %}{{ k }};{% endfor %}",
    "{% for k, v in dict.a %}{% endfor %}", "{% for (a, b), c in [((1, 2), 3)] %}{{ a }}{{ b }}{{ c }}{% endfor %}",
    "{% for a, b in [(1, 2, 3)] %}{% endfor %}", "{% for a, b in ['xy'] %}{{ b }}{% endfor %}",
    "{% for x in list if x > 1 %}{{ loop.index }}/{{ loop.length }}:{{ x }} {% endfor %}",
    "{% for x in list if x > 9 %}a{% else %}b{% endfor %}", "{% for x in list if loop.index > 1 %}{% endfor %}",
    "{% for x in list %}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }}{{ loop.depth }}{{ loop.depth0 }};{% endfor %}",
    "{% for x in list %}{{ loop.previtem }}<{{ x }}<{{ loop.nextitem }};{% endfor %}",
    "{% for x in list %}{{ loop.previtem is defined }}{{ loop.nextitem is defined }}{% endfor %}",
    "{% for x in list %}{{ loop.cycle('a', 'b') }}{% endfor %}", "{% for x in list %}{{ loop.nothing is defined }}{% endfor %}",
    "{% for x in list %}{{ loop.nextitem.role }}{% endfor %}",
    "{% for x in list %}{% for y in words %}{{ loop.index }}{{ loop.depth }}{% endfor %}{{ loop.index }};{% endfor %}",
    "{% for x in list %}{% set outer = loop %}{% for y in words %}{{ outer.index }}{{ loop.index }} {% endfor %}{% endfor %}",
    "{% for x in list %}{% if x == 1 %}{% continue %}{% endif %}{{ x }}{% endfor %}", "{% for x in list %}{% if x == 1 %}{% break %}{% endif %}{{ x }}{% endfor %}",
    "{% for x in list %}{% break %}{% else %}e{% endfor %}", "{% for x in [] %}{% else %}{% for y in list %}{{ y }}{% break %}{% endfor %}{% endfor %}",
    "{% break %}", "{% continue %}", "{% for x in list %}{% else %}{% break %}{% endfor %}", "{% for x in 1, 2 %}{{ x }}{% endfor %}", "{% for x in (1, 2) %}{{ x }}{% endfor %}",
    "{% for x in range(3) %}{{ x }}{% endfor %}{{ x }}", "{% for x in list %}{% endfor %}{{ loop }}", "{% for 1 in list %}{% endfor %}", "{% for x list %}{% endfor %}", "{% for x in list %}",
    "{% for x in list recursive x %}{% endfor %}", "{% for x in list[1:] %}{{ x }}{% endfor %}", "{% for x in list|reverse %}{{ x }}{% endfor %}", "{% for none in list %}{% endfor %}",
    "{% for m in people %}{{ m.name }}{{ ', ' if not loop.last }}{% endfor %}",
    # Variables and scopes.
    "{% set x = 1 %}{{ x }}", "{% set x = 1, 2 %}{{ x }}", "{% set a, b = 1, 2 %}{{ b }}{{ a }}", "{% set a, b = 1 %}", "{% set a, b = [1, 2, 3] %}", "{% set n = n + 1 %}{{ n }}",
    "{% for x in list %}{% set last = x %}{% endfor %}{{ last }}", "{% set last = 0 %}{% for x in list %}{% set last = last + x %}{{ last }},{% endfor %}{{ last }}",
    "{% set ns = namespace(last=0) %}{% for x in list %}{% set ns.last = ns.last + x %}{% endfor %}{{ ns.last }}",
    "{% set ns = namespace() %}{% set ns.a = [] %}{% set ns.a = ns.a + [1] %}{{ ns.a }}{{ ns['a'] }}{{ ns.b is defined }}", "{% set dict.x = 1 %}", "{% set missing.x = 1 %}", "{% set ns = namespace() %}{% set ns._x = 1 %}",
    "{% set ns = namespace(a=1) %}{% set other = ns %}{% set other.a = 2 %}{{ ns.a }}", "{% set ns = namespace(a=1) %}{% set ns.a, b = 5, 6 %}{{ ns.a }}{{ b }}",
    "{% if yes %}{% set x = 1 %}{% endif %}{{ x }}", "{% if no %}{% set n = 1 %}{% endif %}{{ n }}", "{% set x %}a{{ n }}b{% endset %}{{ x }}", "{% set x %}\n a \n{% endset %}[{{ x }}]", "{% set x | trim %}\n a \n{% endset %}[{{ x }}]",
    "{% set x | trim | upper | replace('A', 'b') %} a {% endset %}[{{ x }}]", "{% set x %}{% set y = 1 %}{{ y }}{% endset %}{{ x }}{{ y is defined }}", "{% set x %}a", "{% set x = %}", "{% set 1 = 2 %}", "{% set x.y.z = 1 %}", "{% set true = 1 %}",
    "{{ n }}{% set n = 1 %}{{ n }}", "{% set loop = 5 %}{% for x in [1] %}{{ loop.index }}{% endfor %}{{ loop }}", "{% for x in list %}{% set x = 9 %}{{ x }}{% endfor %}", "{% set list = 1 %}{% for list in [2] %}{{ list }}{% endfor %}{{ list }}",
    "{% set x = namespace %}{{ x(a=1).a }}", "{% set g = range(2) %}{{ g|list }}{{ g|list }}", "{% set g = words|map('upper') %}{{ g|list }}{{ g|list }}", "{% set range = 5 %}{{ range }}",
    # Macros.
    "{% macro m(a, b=2) %}{{ a }}{{ b }};{% endmacro %}{{ m(1) }}{{ m(1, 3) }}{{ m(b=4, a=5) }}{{ m() }}", "{% macro m(a) %}{{ a is defined }}{{ a }}{% endmacro %}{{ m() }}", "{% macro m(a) %}{{ a.b }}{% endmacro %}{{ m() }}",
    "{% macro m(a) %}{% endmacro %}{{ m(1, 2) }}", "{% macro m(a) %}{% endmacro %}{{ m(b=2) }}", "{% macro m(a) %}{% endmacro %}{{ m(1, a=2) }}", "{% macro m() %}{{ n }}{% endmacro %}{% set n = 1 %}{{ m() }}", "{% set x = 1 %}{% macro m() %}{{ x }}{% set x = 2 %}{{ x }}{% endmacro %}{{ m() }}{{ x }}",
    "{% macro m() %}{{ x }}{% endmacro %}{% for x in list %}{{ m() }}{% endfor %}", "{% macro m() %}{{ loop }}{% endmacro %}{% for x in list %}{{ m() }}{% endfor %}", "{% macro f(k) %}{% if k > 0 %}{{ k }}{{ f(k - 1) }}{% endif %}{% endmacro %}{{ f(3) }}", "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
    "{{ m() }}{% macro m() %}x{% endmacro %}", "{% macro m(a, b=a) %}{{ b }}{% endmacro %}{{ m(3) }}", "{% macro m(a=1, b) %}{% endmacro %}", "{% macro m() %} x {% endmacro %}[{{ m()|trim }}]{{ m() ~ 'y' }}{{ m()|length }}", "{% macro m() %}{% for x in list %}{% if x == 1 %}{% break %}{% endif %}{{ x }}{% endfor %}{% endmacro %}{{ m() }}",
    "{% macro m(a, b) %}{{ a }}-{{ b }}{% endmacro %}{{ m(**{'a': 1, 'b': 2}) }}{{ m(*[3, 4]) }}{{ m(5, **{'b': 6}) }}", "{% macro m(a) %}{% endmacro %}{{ m(1, **{'a': 2}) }}",
    "{% for x in list %}{% macro m() %}{% break %}{% endmacro %}{% endfor %}", "{% macro m() %}{% macro k() %}in{% endmacro %}{{ k() }}{% endmacro %}{{ m() }}{{ k is defined }}", "{% macro m(x) %}{{ x }}{% endmacro %}{{ m(html) }}{{ m is defined }}{{ m is callable }}",
    # {% generation %}.
    "a{% generation %}b{% endgeneration %}c", "{% for w in words %}<{{ w }}>{% generation %}é{{ w }}{% endgeneration %}{% endfor %}", "{% generation %}\n x\n{% endgeneration %}\ny", "{%- generation -%} x {%- endgeneration -%} y", "{% generation %}{% set x = 1 %}{{ x }}{% endgeneration %}{{ x is defined }}",
    "{% set x = 1 %}{% generation %}{{ x }}{% set x = 2 %}{% endgeneration %}{{ x }}", "{% generation %}a", "{% for x in list %}{% generation %}{% break %}{% endgeneration %}{% endfor %}", "{% generation %}{% endgeneration %}", "{% for x in list %}{% generation %}{{ loop.index }}{% endgeneration %}{% endfor %}",
    # Others.
    "{% nosuchtag %}", "{% if yes %}{{ 1/0 }}{% endif %}", "{% if no %}{{ 1/0 }}{% endif %}x", "{{ n }}{{ n.x.y }}", "{% set x = raise_exception('stop') %}", "{{ }}", "{% %}", "{{ n }}}", "{{ n }}{{",
]


def expressions():
    """{{ ... }} around each line of expressions.txt; a backslash at a line's end joins it with the next."""
    text = pathlib.Path(__file__).with_name("expressions.txt").read_text(encoding="utf-8")
    lines, joined = text.strip("\n").split("\n"), []
    for line in lines:
        if joined and joined[-1].endswith("\\"):
            joined[-1] += "\n" + line
        else:
            joined.append(line)
    return ["{{ " + line + " }}" for line in joined]


def main():
    sources = expressions() + TEMPLATES
    found = [with_jinja(source, VARIABLES) for source in sources]
    if sys.argv[1:2] == ["--check"]:
        different = 0
        for source, theirs, ours in zip(sources, found, with_trireme(sys.argv[2], [(source, VARIABLES) for source in sources])):
            refused = "error" in ours and ("error" in theirs or source in REFUSED)
            if ours != theirs and not refused:
                different += 1
                print(f"{source!r}\n  here   {ours}\n  jinja2 {theirs}")
        print(f"{len(sources)} cases, {different} differ")
        return
    cases = [
        {"template": source, "text": None if source in REFUSED else result.get("text"), **({"generated": result["generated"]} if result.get("generated") else {})}
        for source, result in zip(sources, found)
    ]
    with open(pathlib.Path(__file__).with_name("cases.json"), "w", encoding="utf-8") as file:
        lines = ",\n".join(json.dumps(case) for case in cases)
        file.write('{"variables": ' + json.dumps(VARIABLES) + ',\n"cases": [\n' + lines + "\n]}\n")


if __name__ == "__main__":
    main()
