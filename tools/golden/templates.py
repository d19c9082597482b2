"""Small chat templates and what transformers renders from them: tests/golden/templates.json.

python tools/golden/templates.py"""

import datetime
import json
import os

from transformers.utils import chat_template_utils

HERE = os.path.dirname(os.path.abspath(__file__))
OUT = os.path.join(HERE, "..", "..", "tests", "golden", "templates.json")
CLOCK = 1700000000  # 2023-11-14 22:13:20 UTC


class Fixed(datetime.datetime):
    @classmethod
    def now(cls, tz=None):
        return datetime.datetime.fromtimestamp(CLOCK, datetime.timezone.utc).replace(tzinfo=None)


chat_template_utils.datetime = Fixed


def render(template, messages, tools=None, add_generation_prompt=False, variables=None):
    """The text, or the exception."""
    try:
        return chat_template_utils.render_jinja_template(
            [chat_template_utils._normalize_chat_messages(messages)],
            tools=tools,
            chat_template=template,
            add_generation_prompt=add_generation_prompt,
            **(variables or {}),
        )[0][0]
    except Exception as e:  # whatever Python says of a template
        return e


MESSAGES = [
    {"role": "system", "content": " Be brief. "},
    {"role": "user", "content": "Größe?\n<b>&'\"\\ 日本"},
    {
        "role": "assistant",
        "content": "<think>\nhm\n</think>\n\nWell",
        "thinking": "deep",
        "tool_calls": [
            {
                "function": {
                    "name": "f",
                    "arguments": {"b": 1, "a": [1.5, 1e-7, 1e16, -0.0, True, None], "é": {}, "l": []},
                }
            }
        ],
    },
    {"role": "user", "content": [{"type": "text", "text": "one"}, {"type": "image"}, {"type": "text", "text": "two"}]},
]
TOOLS = [{"type": "function", "function": {"name": "g", "parameters": {"properties": {"x": {"type": "string"}}}}}]
VARIABLES = {"bos_token": "<s>", "eos_token": "</s>", "enable_thinking": False}

EXPRESSIONS = """
1 + 2 * 3 - 4 // 3 % 2 ** 2 ** 1
7 / 2 ~ -7 // 2 ~ -7 % 3 ~ 7 % -3 ~ 7.5 // 2 ~ -7.5 % 2
-3 | abs ~ +3 ~ - 2 ** 2
'a' 'b' "c\\n\\t\\x41\\u00e9\\101\\q"
1_000 ~ 1.5e3 ~ 1e-5 ~ 1e22 ~ 0.1 ~ 123456789.125 ~ 1e16 ~ 1e15
true ~ False ~ none ~ None ~ nothing
[1, 'a', none, 2.0, [], {}, (1,), (1, 2), "it's", 'q"\\'', 'é\\n\\x00\\u2028']
{'a': 1, 'b': {'c': [true]}} | string
(1, 2) == (1, 2) and [1] != [2] or false
1 < 2 < 3 and not 3 < 2 and 1 <= 1.0 and 'a' < 'b' and [1, 2] < [1, 3]
'x' in 'xyz' and 3 not in [1, 2] and 'a' in {'a': 1} and nothing not in [1]
'yes' if 1 == 1.0 else 'no'
'lost' if false
'a' if false else 'b' if false else 'c'
nothing is defined ~ nothing is undefined ~ messages is defined
'x' is string ~ 1 is string ~ none is none ~ {} is mapping ~ [] is iterable ~ 'x' is iterable
'x' is sequence ~ [] is sequence ~ {} is sequence ~ 1 is sequence ~ nothing is sequence ~ nothing is iterable
1 is number ~ true is number ~ 1 is integer ~ true is integer ~ 1.0 is float ~ true is boolean ~ 1 is true
true is true ~ false is false ~ 3 is odd ~ 4 is even ~ 9 is divisibleby 3 ~ 1 is eq 1 ~ 1 is in [1] ~ 2 is gt(1)
1 is not none and nothing is not defined
messages[0].role ~ messages[0]['role'] ~ messages[-1].role ~ messages[0].nothing ~ messages[9]
messages | length ~ messages[1].content | length ~ messages[1].content[-2:] ~ messages[1].content[::-1]
'abcdef'[1:4] ~ 'abcdef'[:-1] ~ 'abcdef'[::2] ~ 'abcdef'[4:1:-1] ~ 'abcdef'[2] ~ 'abcdef'[-1] ~ 'abc'[7]
[1, 2, 3, 4][1:] ~ [1, 2, 3][::-1] ~ (1, 2, 3)[:2] ~ [1, 2, 3][5:]
'abc' * 2 ~ [1] * 2 ~ [1] + [2]
messages[2].tool_calls[0].function.arguments | tojson
messages[2].tool_calls[0].function.arguments | tojson(indent=2)
messages[2].tool_calls[0].function.arguments | tojson(sort_keys=true, separators=(',', ':'))
messages[1].content | tojson ~ (messages[1].content | tojson(ensure_ascii=true)) ~ '🎉' | tojson(ensure_ascii=true)
tools | tojson(indent='\\t')
(1, 'a', 1.0) | tojson
' x ' | trim ~ '|' ~ 'xxaxx' | trim('x') ~ '|' ~ ' a b ' | replace(' ', '_') ~ 'aaa' | replace('a', 'b', 2)
'hELLO wORLD-foo' | title ~ 'hELLO ÄB' | capitalize ~ 'äß' | upper ~ 'ÄB' | lower
nothing | default('d') ~ '' | default('d') ~ '' | default('d', true) ~ none | default('n') ~ nothing | d
[3, 1, 2] | sort | join(',') ~ ['b', 'A', 'c'] | sort | join ~ ['b', 'A'] | sort(case_sensitive=true, reverse=true) | join
messages | map(attribute='role') | join(' ') ~ ['a', 'b'] | map('upper') | list
messages | selectattr('role', 'equalto', 'user') | list | length ~ messages | rejectattr('thinking') | list | length
[1, 2, 3, 4] | select('odd') | list ~ [1, 2, 3] | reject('equalto', 2) | list ~ [0, 1] | select | list
messages[3].content | selectattr('text', 'defined') | map(attribute='text', default='-') | join('+')
messages | map(attribute='content.0.text', default='-') | join('+')
[1, 2, 2, 'a', 'A'] | unique | list ~ [3, 1, 2] | min ~ [3, 1, 2] | max ~ [] | min ~ [1, 2] | first ~ [1, 2] | last
{'b': 1, 'a': 2} | dictsort ~ {'b': 1, 'A': 2} | dictsort(true) ~ {'b': 1, 'a': 2} | dictsort(by='value', reverse=true)
{'b': 1} | items | list ~ {'b': 1}.items() | list ~ {'b': 1}.keys() | list ~ {'b': 1}.values() | list
{'a': 1}.get('a') ~ {'a': 1}.get('b') ~ {'a': 1}.get('b', 2) ~ {'a': 1}['items'] is defined ~ {}.x
'abc' | list ~ {'a': 1} | list ~ [1, 2] | reverse | list ~ 'abc' | reverse ~ ' 12 ' | int ~ 'x' | int ~ '1.9' | int ~ 2.9 | int
'x' | int(7) ~ '1.5' | float ~ 'x' | float ~ 3 | string ~ [1, 2] | count
'a\\nb\\n\\nc' | indent ~ 'a\\nb' | indent(2, true) ~ 'a\\n\\nb\\n' | indent(1, blank=true) ~ 'a\\nb' | indent('--')
'<a>' | safe + '<b>' ~ '<b>' + '<a>' | safe ~ '<&>"' | escape ~ '<' | e + '<'
'a,b,c'.split(',') ~ 'a,b,c'.split(',', 1) ~ ' a  b '.split() ~ ' a  b c '.split(none, 1) ~ 'abc'.split('x') ~ 'a,b,c'.rsplit(',', 1)
' x '.strip() ~ 'xxa'.lstrip('x') ~ 'axx'.rstrip('x') ~ 'abcba'.strip('ab') ~ '\\u00a0x\\u2003'.strip()
'abc'.startswith('ab') ~ 'abc'.endswith(('x', 'c')) ~ 'abc'.find('c') ~ 'äbc'.find('c') ~ 'abc'.find('x') ~ 'aXa'.count('a')
'a-b'.replace('-', '+') ~ 'abc'.replace('', '.') ~ 'aaa'.replace('a', 'b', 1) ~ ', '.join(['a', 'b']) ~ 'x{}y{}'.format(1, 'z')
'{0}{{}}{1}'.format('a', 'b') ~ "they're bill's".title() ~ 'aBC'.capitalize() ~ 'aB'.upper() ~ 'aB'.lower() ~ '12'.isdigit()
'abc'.removeprefix('a') ~ 'abc'.removesuffix('c') ~ 'a\\nb\\r\\nc'.splitlines() ~ [1, 2, 1].count(1) ~ [1, 2].index(2)
strftime_now('%Y-%m-%d %d %B %b %A %a %H:%M:%S %I %p %j %y %%')
range(3) | list ~ range(1, 4) | list ~ range(5, 0, -2) | list
dict(a=1, b='x') ~ dict({'c': 2}, d=3)
bos_token + eos_token ~ enable_thinking
messages[2].thinking ~ messages[2].reasoning_content ~ messages[2].reasoning is defined
none | selectattr('x') | list
(1, 2, 3) | length ~ (1, 2, 3)[0] ~ () | length
1, 2
messages.0.role ~ [[1, 2], [3]].0.1
'a' ~ 1 ~ none ~ [1]
not '' and not [] and not {} and not 0 and not none and not nothing
'%' ~ 5 % 3
loop is defined
""".strip().split("\n")

STATEMENTS = [
    # white space
    "a\n  {% if true %}\n    b\n  {% endif %}\nc\n",
    "a \n {%- if true -%} \n b \n {%- endif -%} \n c",
    "a\n  {%+ if true %}x{% endif %}\n  {{ 1 }}\n  {{- 2 -}}  \n  3",
    "a {# comment #} b\n {# comment #}\nc {#- comment -#} d\n\n",
    "x{% raw %} {{ raw }} {% if %} {% endraw %}y{%- raw -%}  z  {%- endraw -%}  w",
    "{{ '}}' }}{{ \"%}\" }}{{ {'a': {'b': 1}} }}\r\nx\ry",
    "\n\n{% set x = 1 %}\n\n{{ x }}\n\n",
    "{% if true %}\n\n  x\n{% endif +%}\ny",
    # loops
    "{% for m in messages %}{{ loop.index }}{{ loop.index0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }}"
    "{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.previtem.role if not loop.first }}"
    "{{ loop.nextitem.role if not loop.last }}{{ loop.cycle('a', 'b') }}{{ loop.changed(m.role) }};{% endfor %}",
    "{% for k, v in {'a': 1, 'b': 2}.items() %}{{ k }}={{ v }},{% endfor %}",
    "{% for k, v in {'a': 1} | items %}{{ k }}{{ v }}{% endfor %}",
    "{% for x in [1, 2, 3, 4] if x % 2 == 0 %}{{ loop.index }}:{{ x }}/{{ loop.length }} {% else %}none{% endfor %}",
    "{% for x in [] %}{{ x }}{% else %}none{% endfor %}{% for x in nothing %}{{ x }}{% else %}undefined{% endfor %}",
    "{% for x in [1, 2, 3, 4] %}{% if x == 2 %}{% continue %}{% endif %}{% if x == 4 %}{% break %}{% endif %}{{ x }}"
    "{% endfor %}",
    "{% for x in [1, 2] %}{% for y in [1, 2] %}{{ loop.index }}{% endfor %}{{ loop.index }}{% endfor %}",
    "{% for c in 'äb' %}{{ c }}-{% endfor %}{% for k in {'a': 1} %}{{ k }}{% endfor %}",
    "{% for (a, b) in [(1, 2)] %}{{ a }}{{ b }}{% endfor %}{% for a in 1, 2 %}{{ a }}{% endfor %}",
    # scopes
    "{% set x = 1 %}{% for i in [1, 2] %}{{ x }}{% set x = x + 1 %}{{ x }}{% endfor %}{{ x }}",
    "{% set ns = namespace(x=1, y=[]) %}{% for i in [1, 2] %}{% set ns.x = ns.x + i %}{% endfor %}{{ ns.x }}{{ ns.z }}",
    "{% if true %}{% set x = 1 %}{% endif %}{{ x }}{% if false %}{% set y = 1 %}{% endif %}{{ y }}",
    "{% set a, b = 1, 2 %}{{ a }}{{ b }}{% set (c, d) = 'xy' %}{{ c }}{{ d }}",
    "{% set x %}a{{ 1 }}b{% set inner = 2 %}{% endset %}[{{ x }}{{ inner }}]",
    "{% set x | trim | upper %}  a  {% endset %}[{{ x }}]{% filter upper | replace('A', 'b') %}aAc{% endfilter %}",
    "{% set messages = messages[1:] %}{{ messages[0].role }}{{ messages | length }}",
    # macros
    "{% macro f(a, b=2, c=a) %}{{ a }}{{ b }}{{ c }}{{ x }}{% endmacro %}{% set x = 9 %}{{ f(1) }}{{ f(1, 3) }}"
    "{{ f(b=5, a=4) }}{{ f() }}{{ f(*[7, 8]) }}",
    "{% macro f(n) %}{{ n }}{% if n > 0 %}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(3) | upper }}{{ f is callable }}",
    "{% macro f(n) %}{% set y = n %}{{ y }}{% endmacro %}{% set y = 0 %}{{ f(1) }}{{ y }}"
    "{% for i in [1] %}{{ f(i) }}{% endfor %}",
    "{% macro f() %}  a\n{% endmacro %}{{ '[' ~ f() ~ ']' }}{{ f() | trim }}{{ [f][0]() }}",
    # what a filter gives is read once
    "{% set x = [1, 2] | map('string') %}{{ x | list }}{{ x | list }}{{ 'true' if x }}{{ 'a' if [] | map('string') }}",
    # choices
    "{% if 0 %}a{% elif '' %}b{% elif [1] %}c{% else %}d{% endif %}{% if not messages %}a{% else %}b{% endif %}",
    # refusals of a template's own, and mistakes that only show when they are reached
    "{{ raise_exception('Roles must alternate') }}",
    "{% if messages[0].role == 'user' %}{{ raise_exception('x') }}{% endif %}fine",
    "{{ nothing.x }}",
    "{{ nothing['x'] }}",
    "{{ messages[0].nothing.x }}",
    "{{ nothing + 'x' }}",
    "{{ 'x' + 1 }}",
    "{{ 1 in 'x' }}",
    "{{ none | length }}",
    "{{ 'a' < 1 }}",
    "{{ nothing | tojson }}",
    "{{ 1 // 0 }}",
    "{% for x in 1 %}{% endfor %}",
    "{% set a, b = [1] %}",
    "{{ [].append(1) }}",
    "{{ {}.pop('x') }}",
    "{{ nothing() }}{% set nothing = 1 %}",
    "{% macro f(a) %}{% endmacro %}{{ f(1, 2) }}",
    "{% macro f(a) %}{% endmacro %}{{ f(b=2) }}",
    "{% set messages.x = 1 %}",
    "{% set ns = namespace() %}{% set ns._x = 1 %}",
    "{{ 'a'.split('') }}",
    "{{ {[]: 1} }}",
    "{{ range(100001) | length }}",
    # generation blocks, and a whole template
    "{% set x = 1 %}{% for m in messages %}{% generation %}\n{% set x = 2 %}{{ m.role }}{{ x }}{% endgeneration %}\n"
    "{{ x }}{% endfor %}",
    "{%- for m in messages %}\n    {{- '<|im_start|>' + m.role + '\\n' }}\n    {%- if m.content is string %}\n"
    "        {{- m.content | trim }}\n    {%- else %}\n        {%- for p in m.content %}{{ p.text }}{% endfor %}\n"
    "    {%- endif %}\n    {{- '<|im_end|>\\n' }}\n{%- endfor %}\n{%- if add_generation_prompt %}\n"
    "    {{- '<|im_start|>assistant\\n' }}\n{%- endif %}\n",
]


def main():
    cases = []
    for template in ["{{ %s }}" % e for e in EXPRESSIONS] + STATEMENTS:
        text = render(template, MESSAGES, TOOLS, True, VARIABLES)
        cases.append({"template": template, "text": None if isinstance(text, Exception) else text})
    whole = {"messages": MESSAGES, "tools": TOOLS, "variables": VARIABLES, "cases": cases}
    with open(OUT, "w", encoding="utf-8") as f:
        f.write(json.dumps(whole, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
