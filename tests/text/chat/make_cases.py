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

# Expressions: {{ ... }}. A line each.
EXPRESSIONS = r"""
1
-1
+1
1.0
1e3
1.5e-7
1e16
123456789.123
0.1 + 0.2
1e22
1e21 * 10
2 ** 10
2 ** -1
2 ** 0.5
7 / 2
7 // 2
-7 // 2
7 // -2
7 % 3
-7 % 3
7 % -3
7.5 % 2
-7.5 % 2
-7.5 // 2
1 / 0
1 // 0
1 % 0
0 ** -1
1 + 2 * 3 - 4
(1 + 2) * 3
2 * 3 ** 2
-2 ** 2
2 ** 3 ** 2
true + 1
true and false
1 == 1.0
1 == true
'1' == 1
none == none
none == false
[1, 2] == [1, 2]
[1, 2] == (1, 2)
(1, 2) == (1, 2)
{'a': 1} == {'a': 1.0}
1 < 2 < 3
1 < 3 < 2
1 < 2 > 1
'a' < 'b'
'a' < 1
[1, 2] < [1, 3]
none < 1
undefined_name < 1
undefined_name == other_name
undefined_name == none
undefined_name != none
not undefined_name
undefined_name
undefined_name.attribute
undefined_name['x']
undefined_name()
undefined_name + 1
undefined_name ~ 'x'
undefined_name in [1]
1 in undefined_name
'x' in undefined_name
undefined_name|length
undefined_name|default('d')
undefined_name|default
undefined_name|trim
undefined_name|list
undefined_name|tojson
undefined_name|upper
undefined_name|join(',')
undefined_name|int
undefined_name is iterable
undefined_name is sequence
undefined_name is mapping
undefined_name is string
nothing
nothing.attribute
nothing.a.b
nothing|length
nothing|default('d')
nothing|default('d', true)
empty|default('d')
empty|default('d', true)
empty|default('d', boolean=true)
nothing|trim
nothing|string ~ 'x'
nothing|list
nothing ~ 1 ~ true ~ 1.5
yes
no
not yes
yes or undefined_name.x
no and undefined_name.x
no or empty or 'last'
yes and 'and'
n if yes else 0
n if no else 0
n if no
(n if no) is defined
(n if no).x
1 if no else 2 if no else 3
'a' 'b'
"a\n\t\\\"\x41\u00e9\101\q"
'it\'s'
'"' ~ "'"
word[0]
word[-1]
word[3]
word[1:]
word[:1]
word[:-1]
word[::-1]
word[::2]
word[5:]
word[-2:]
word[2:0:-1]
wide[1]
wide[1:3]
wide[::-1]
wide|length
wide|list
word['upper']()
word.missing
word.missing.x
list[0]
list[-1]
list[3]
list[3] is defined
list['0']
list[0.0]
list[true]
list[1:]
list[::-1]
list[:2] + list[2:]
list.0
list[::0]
nothing[1:]
dict[1:]
n[0]
dict.b
dict['b']
dict.missing
dict.missing is defined
dict.missing.deeper
dict.a.c
dict.a.c[1]
dict['a']['c'][0]
dict.items is string
dict['items']
dict.a.items is defined
dict.a['items'] is defined
dict.a['keys'] is string
dict.get('b')
dict.get('x')
dict.get('x', 'y')
dict.get('a').c
dict.keys()|list
dict.values()|list
dict.a.items()|list
dict.a.keys()|length
dict.a.keys()[0]
dict.a.items()|tojson
dict|length
dict|list
dict
mixed
mixed[5]['k']
(1,)
(1, 2)
()
[]
{}
[1, 'a', none, [true]]
{'a': 1, 'a': 2}
{1: 'x'}[1.0]
{[1]: 2}
{'a': 1}[[1]]
quote
[quote]
mixed|tojson
quote|tojson
quote|tojson(ensure_ascii=true)
wide|tojson(ensure_ascii=true)
dict|tojson
dict|tojson(indent=2)
dict|tojson(indent=0)
dict|tojson(indent='> ')
dict|tojson(separators=(',', ':'))
dict|tojson(sort_keys=true)
dict|tojson(true, 4, none, true)
(1, 2)|tojson
{1: 2, none: 3, true: 4, 1.5: 5}|tojson
html|tojson
1e400|tojson
[]|tojson(indent=2)
{'a': [], 'b': {}}|tojson(indent=1)
range(3)|tojson
dict.get|tojson
namespace(a=1)|tojson
text|trim
text|trim|length
'xxabcx'|trim('x')
word|upper
word|capitalize
'hELLO wORLD'|capitalize
'hello wORLD-foo (bar) x_y'|title
'hello wORLD-foo'.title()
german|upper
german|lower
german|capitalize
greek|lower
greek.lower()
'İ'|lower
word|lower
5|upper
text|replace(' ', '')
word|replace('b', 'XX')
'aaa'|replace('a', 'b', 2)
'abc'|replace('', '-')
5|replace(5, 6)
word|first
word|last
list|first
list|last
none|first
[]|first is defined
[]|last is defined
list|join
list|join(', ')
word|join('-')
people|join(', ', attribute='name')
dict|join(',')
5|join(',')
list|sort
words|sort
words|sort(case_sensitive=true)
words|sort(reverse=true)
people|sort(attribute='name')|map(attribute='name')|list
mixed|sort
list|reverse|list
word|reverse
list|length
list|count
5|length
5|string ~ '!'
'5'|int + 1
'x'|int
'x'|int(9)
' 12 '|int
'3.7'|int
3.7|int
-3.7|int
nothing|int
'2.5'|float
'x'|float
5|float
-5|abs
-2.5|abs
'x'|abs
['b', 'a', 'B', 'b', 1, 1.0, true, '1']|unique|list
['b', 'a', 'B', 'b']|unique(true)|list
['b', 'a', 'B', 'b']|unique(case_sensitive=true)|join
[{'a': {'b': 1}}, {'a': {'b': 2}}, {'a': {'b': 1}}]|unique(attribute='a.b')|list
[[1], [1]]|unique|list
none|unique|list
'abca'|unique|join('-')
[]|unique|list
[3, 1, 2]|min
[3, 1, 2]|max
['b', 'A', 'a', 'B']|min
['b', 'A', 'a', 'B']|max
['b', 'A', 'a', 'B']|min(true)
[{'n': 2, 'k': 'x'}, {'n': 1, 'k': 'y'}]|min(attribute='n')
[{'n': 2, 'k': 'x'}, {'n': 1, 'k': 'y'}]|max(attribute='n')
[]|max
[]|max is defined
[1, 'a']|max
none|min
[1, 2.5, true]|sum
[]|sum
[]|sum(start=5)
[{'n': 2}, {'n': 1}]|sum(attribute='n')
[{'n': 2}, {'n': 1}]|sum('n', 10)
['a', 'b']|sum
['a', 'b']|sum(start='')
[[1], [2]]|sum(start=[])
none|sum
'a\nb\n\nc'|indent
'a\nb\n\nc'|indent(2, true)
'a\nb\n\nc'|indent(2, blank=true)
'a\nb\n\nc\n'|indent(width='> ', first=true, blank=true)
''|indent(3, true)
'a\r\nb'|indent(-1)
'a'|indent(2.5)
1|indent
none|indent
missing|indent
none|selectattr('a', 'equalto', 1)|list
none|rejectattr('a')|list
none|select|list
0|reject('odd')|list
none|map('upper')|list
none|map(attribute='a')|list
missing|map(attribute='a')|list
5|map('upper')|list
5|select|list
1 if yes else (2|no_filter)
(1|no_filter) if no else 2
(1|no_filter) if yes else 2
2 if no is no_test else 1
1 if yes else (2 is no_test)
[1|no_filter, 1 if yes else 2]
'a{}b{}'.format(1, 'x')
'{1}{0}'.format('a', none)
'{x} {y} {{z}} }}'.format(x=1.5, y=[1, 'a'])
'{0}{}'.format(1, 2)
'{}{0}'.format(1, 2)
'{}'.format()
'{x}'.format(1)
'{'.format(1)
'}'.format(1)
'{}'.format(missing)
'{00}'.format(3)
dict|dictsort
dict|dictsort(true)
dict.a|dictsort
{'b': 1, 'a': 2}|dictsort(by='value')
{'b': 1, 'a': 2}|dictsort(reverse=true)
list|dictsort
dict|items|list
undefined_name|items|list
list|items|list
people|map(attribute='name')|list
people|map(attribute='tags.x')|list
people|map(attribute='tags.x', default='-')|list
words|map('upper')|list
words|map('replace', 'b', 'q')|join
words|map('nofilter')|list
words|map('upper')|length
words|map('upper')|first
words|map('upper') is iterable
words|map('upper') is sequence
(words|map('upper'))[0]
list|select('odd')|list
list|select('gt', 1)|list
mixed|select|list
list|reject('equalto', 1)|list
list|reject('in', [1, 2])|list
people|selectattr('name', 'equalto', 'Ann')|list|length
people|selectattr('age')|map(attribute='name')|list
people|rejectattr('age', 'none')|map(attribute='name')|list
people|selectattr('tags', 'defined')|list|length
people|selectattr('tags.x', 'defined')|list|length
people|selectattr('name', 'equalto', 'Zoe')|list
'yes' if people|selectattr('name', 'equalto', 'Zoe') else 'no'
html|safe
html|safe ~ html
(html|safe) + html
html + (html|safe)
[html|safe]
(html|safe)|upper
(html|safe).strip() + '<'
n is number
half is number
yes is number
n is integer
yes is integer
half is float
word is string
n is string
list is sequence
word is sequence
dict is sequence
n is sequence
list is iterable
n is iterable
dict is mapping
list is mapping
nothing is none
n is none
n is defined
n is not defined
x is undefined
word is notest
yes is true
n is true
no is false
zero is false
yes is boolean
n is boolean
n is odd
n is even
n is divisibleby 7
n is divisibleby(3)
n is eq 7
n is equalto(7)
n is ne 7
n is gt 5
n is in [7]
1 is in 'x'
n is sameas
range is callable
word.upper is callable
not n is none
n is not none and word is string
n is string or word is string
3 in list
9 in list
9 not in list
not 3 in list
'b' in word
'' in word
1 in word
none in word
'b' in dict
'z' in dict
[1] in dict
1 in n
'a' in nothing
word.upper()
word.lower().upper()
'a,b,,c'.split(',')
'a,b,c'.split(',', 1)
'a,b,c'.split(sep=',', maxsplit=1)
' a  b '.split()
' a  b c '.split(none, 1)
'abc'.split('')
'abc'.split('x')[-1]
'a.b.c'.rsplit('.', 1)
'a b'.rsplit()
'a\nb\r\nc\n'.splitlines()
text.strip()
text.lstrip()
text.rstrip() ~ '|'
'xyabcyx'.strip('xy')
'xyabcyx'.lstrip('yx')
'xyabcyx'.rstrip('yx')
'\n\n a'.lstrip('\n')
'\u3000a\u00a0\x1c'.strip()
'a\u200b'.strip()|length
word.startswith('a')
word.startswith(('x', 'a'))
word.endswith('bc')
word.endswith(1)
word.replace('a', 'b')
'aaa'.replace('a', 'b', 1)
word.find('c')
wide.find('世')
word.find('z')
'banana'.count('an')
'-'.join(words)
'-'.join(list)
'7'.isdigit()
' '.isspace()
''.isspace()
'hello'.capitalize()
'hello'.removeprefix('he')
'hello'.removesuffix('lo')
'abc'.nosuchmethod()
list.index(1)
list.index(9)
list.count(1)
list.append(4)
dict.update({'z': 1})
dict.pop('b')
dict.__class__
word.__class__.__mro__
word.__len__()
word * 2
2 * word
word * -1
word * 1.5
[1] * 3
[1] + [2]
[1] + (2,)
(1,) + (2,)
word + 1
1 + word
word - 'a'
-word
+word
-yes
nothing + 1
list + 1
range(3)|list
range(1, 3)|list
range(5, 0, -2)|list
range(0)|list
range(3)[1]
range(3)|length
range(1, 2, 0)
range(1000000)
range('a')
range(3)
namespace(a=1).a
namespace({'a': 1}).a
namespace(a=1).b
namespace(a=1).b.c
namespace(_a=1)
dict(a=1)
{'a': 1}.b is defined
raise_exception('no')
raise_exception()
strftime_now('%Y-%m-%d %H:%M:%S')
strftime_now('%d %b %Y, %A %B %j %I %p %y %e %-d %%')
1 2
1 +
(1
[1, 2
{'a': }
'abc
1 ==
a b
n|
n|nofilter
n is notest
n is
f(x=1, 2)
f(**x)
dict(**{'a': 1})
dict(b=2, **{'a': 1})
dict(**nothing)
dict(**{1: 2})
dict(**{'a': 1}, b=2)
range(*[1, 4])|list
range(*list)|list
range(1, *[4])|list
range(*undefined_name)
'a b'.split(*[' '])
dict(a=1, *[])
dict(**{}, **{})
f(*x, 1)
n.
n[
n[1:2:3:4]
{'a' 1}
;
$
loop
loop.index
caller()
self
1 if
x = 1
'a'|upper|lower ~ 'b'|upper
1 + 2 ~ 3
'1' ~ 2 + 3
-1|abs
(-1)|abs
2|float is float
[1,2,]|length
{'a':1,}|length
(1,)|length
n == 7 and word == 'abc' or no
[n, word][0]
{'k': list}['k'][1]
{'k': {'l': 1}}.k.l
"é" in german
not not n
none is none
None is none
True
False
None
people[0]['name'] + ' ' + people[1].name
people[0].tags.x + 1
1000000 * 1000000
9007199254740993
1_000
0x10
0.5e1
.5
5.
1.e3
""" + "'a\\\nb'"

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
    lines, joined = EXPRESSIONS.strip("\n").split("\n"), []
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
