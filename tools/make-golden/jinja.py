#!/usr/bin/env python3
"""Makes tests/golden/jinja.json with jinja2, set up as transformers sets it up: what templates
give, or that they are refused (null).

    python3 tools/make-golden/jinja.py
"""
import json
import os

from transformers.utils.chat_template_utils import _compile_jinja_template

OUT = os.path.join(os.path.dirname(__file__), "..", "..", "tests", "golden", "jinja.json")

CONTEXT = {
    "s": "a b<c> é\U0001f642\n\tend ", "n": 3, "r": 2.5, "t": True, "none": None, "e": "",
    "l": [3, 1, 2], "w": ["b", "A", "a", "B"], "d": {"k": "v", "x": 1, "items": "mine"},
    "ms": [{"role": "system", "content": "S"}, {"role": "user", "content": " U "},
           {"role": "assistant", "content": "A",
            "calls": [{"name": "f", "arguments": {"a": 1.0}}]}],
    "q": "it's \"x\" \\ \u2028\x01", "nested": [[1, "a"], {"b": [None, True, 1e20, 1e-7, -0.5]}],
}

TEMPLATES = [
    # White space.
    "a\n", "a\n\n", "{% if t %}\n  x\n{% endif %}\ny", "  {% if t %} x{% endif %}\n", " {{ n }} \n",
    "a {%- if t %} b {%- endif %} c", "a {%+ if t %} b{% endif +%}\nc", "a\n  {#- c -#}  \nb",
    "a\n  {# c #}\nb", "{{- n -}}  x", "x {%- raw %} {{ n }} {% endraw -%} y", "a\r\nb\rc\r\n",
    "{% raw %}\n {{ x }} {% endraw %}\nb", "{% for i in l %}\n  {{ i }}\n{% endfor %}\n.",
    "  {%- for i in l -%}  {{ i }}  {%- endfor -%}  ", "a\n\n   {% if t %}{% endif %}\n\nb",
    "{% set x = 1 %}  {% set y = 2 %}\n{{ x + y }}", "\t{% if t -%}\n\n z\n{%- endif %}\n",
    "{{ '}}' }}{{ '%}' }}", "{{ {'a': {'b': 1}} }}", "{#- a {{ b }} -#} x", "{{n}}{{n}}",
    # Literals and printing.
    "{{ 1 }} {{ 1.0 }} {{ 1e20 }} {{ 1.5e-7 }} {{ 1_000 }} {{ 0.1 + 0.2 }} {{ 100000.0 * 1e11 }}",
    "{{ 'a\\n\\x41\\u00e9\\t\\'\\q' }}", '{{ "a" "b" }}',
    "{{ true }} {{ None }} {{ False }} {{ none }}",
    "{{ [1, 'a', 2.0, none, true] }} {{ (1,) }} {{ (1, 2) }} {{ () }} {{ {} }} {{ [] }}",
    "{{ nested }}", "{{ d }}", "{{ [q] }}", '{{ [\'\\x00\\x7f\', "it\'s"] }}', "{{ missing }}|",
    "{{ 1, 2 }}", "{{ -n }} {{ +n }} {{ - -n }} {{ -n ** 2 }} {{ 2 ** 3 ** 2 }}",
    "{{ 7 // 2 }} {{ -7 // 2 }} {{ 7 % -3 }} {{ -7 % 3 }} {{ 7 / 2 }} {{ 7.5 // 2 }} {{ -7.5 "
    "% 2 }}",
    "{{ 1.0 // 0.1 }} {{ -1.0 // 0.1 }} {{ 1e20 % 3 }} {{ -5.5 % 3 }} {{ 5.5 % -3 }} {{ 6.0 % "
    "-3 }}",
    "{{ 1 / 0 }}", "{{ 1 // 0 }}", "{{ 2 ** -1 }} {{ 2 ** 0.5 }}",
    "{{ true + 1 }} {{ 1 == 1.0 == true }}",
    # Operators.
    "{{ 'a' + 'b' ~ 1 ~ none }}", "{{ 'ab' * 3 }} {{ 2 * 'x' }} {{ [1] * 2 }} {{ l + [4] }}",
    "{{ 1 < 2 < 3 }} {{ 1 < 3 < 2 }} {{ 'a' < 'b' }} {{ [1, 2] < [1, 3] }}", "{{ 'a' < 1 }}",
    "{{ 'a' in 'cat' }} {{ 3 in l }} {{ 'k' in d }} {{ 9 not in l }} {{ none in [none] }}",
    "{{ 1 in 'abc' }}", "{{ 'a' in none }}", "{{ 'a' in missing }}",
    "{{ n if t else e }} {{ n if e }}|",
    "{{ e or 'x' }} {{ t and 0 }} {{ not e }} {{ not t or t }} {{ none or none }}",
    "{{ missing + 'a' }}", "{{ 'a' ~ missing }}", "{{ 1 + 'a' }}", "{{ 'a' + 1 }}",
    "{{ '%s-%d' % ('x', 3) }} {{ 'a%%' % () }}",
    "{{ d == {'x': 1, 'k': 'v', 'items': 'mine'} }} {{ (1, 2) == [1, 2] }} {{ missing == nope }}",
    "{{ 'a' if false else 'b' if false else 'c' }}", "{{ (n if t else 0) + 1 }}",
    # Names, items, slices.
    "{{ d.k }} {{ d['k'] }} {{ d.none }}| {{ ms[0].role }} {{ ms[-1]['content'] }} {{ ms[9] }}|",
    "{{ d['items'] }} {{ d.get('k') }} {{ d.get('z') }} {{ d.get('z', 5) }}", "{{ ms[9].role }}",
    "{{ missing.a }}", "{{ missing['a'] }}", "{{ s[0] }} {{ s[-2] }} {{ s[99] }}| {{ s[2:5] }}",
    "{{ l[::-1] }} {{ l[1:] }} {{ l[:-1] }} {{ l[::2] }} {{ s[::-1] }} {{ l[5:] }} {{ l[-9:2] }}",
    "{{ 'abcdef'[4:1:-2] }} {{ 'abc'[:] }} {{ (1, 2, 3)[:2] }} {{ l[::0] }}", "{{ l['a':] }}",
    "{{ '\u00e9\u6f22\U0001f642x'[1:3] }} {{ '\u00e9\u6f22\U0001f642x'[-1] }}",
    "{{ none[0] }}|", "{{ none.x }}|", "{{ d.k.upper() }} {{ 'abc'.nope }}|", "{{ 'abc'.nope() }}",
    "{{ nope() }}", "{{ l.append(1) }}", "{{ l.1 }} {{ ms.0.role }}", "{{ d.items() | list }}",
    "{{ d.keys() | list }} {{ d.values() | list }}",
    # Statements.
    "{% if n == 1 %}a{% elif n == 3 %}b{% elif t %}c{% else %}d{% endif %}",
    "{% if e %}a{% endif %}.",
    "{% for m in ms %}{{ loop.index }}{{ loop.index0 }}{{ loop.first }}{{ loop.last }}{{ "
    "loop.length }}{{ loop.revindex }}{{ loop.revindex0 }} {% endfor %}",
    "{% for x in [] %}a{% else %}none{% endfor %}",
    "{% for m in ms if m.role != 'user' %}{{ loop.index }}{{ m.role }}{{ loop.length }} {% "
    "endfor %}",
    "{% for m in ms %}{{ loop.previtem.role if loop.previtem is defined }}>{{ "
    "loop.nextitem.role if not loop.last }} {% endfor %}",
    "{% for k, v in d.items() %}{{ k }}={{ v }};{% endfor %}",
    "{% for k in d %}{{ k }}{% endfor %}",
    "{% for c in 'a\u00e9\U0001f642' %}[{{ c }}]{% endfor %}",
    "{% for a, b in [(1, 2), (3, 4)] %}{{ a + b }} {% endfor %}",
    "{% for a, b in [1] %}{% endfor %}", "{% for x in none %}{% endfor %}",
    "{% for x in missing %}{% endfor %}.", "{% for x in 5 %}{% endfor %}",
    "{% for a, (b, c) in [[1, [2, 3]]] %}{{ c }}{{ a }}{{ b }}{% endfor %}",
    "{% for ((a, b), c) in [['xy', 3]] %}{{ a }}{{ b }}{{ c }}{% endfor %}",
    "{% set (a, b) = [1, 2] %}{{ b }}{% set a, (b, c) = 1, [2, 3] %}{{ c }}",
    "{% for x in l %}{% if x == 1 %}{% continue %}{% endif %}{{ x }}{% endfor %}",
    "{% for x in l %}{% if x == 1 %}{% break %}{% endif %}{{ x }}{% else %}e{% endfor %}",
    "{% for x in l %}{% for y in l %}{% if y == 1 %}{% break %}{% endif %}{{ x }}{{ y }} {% "
    "endfor %}{{ loop.index }}{% endfor %}",
    "{% for x in l %}{% for y in 'ab' %}{{ loop.depth }}{% endfor %}{{ loop.depth0 }}{% endfor %}",
    "{% set x = 1 %}{% for i in l %}{% set x = x + i %}{{ x }}{% endfor %}{{ x }}",
    "{% set ns = namespace(x=1, y='a') %}{% for i in l %}{% set ns.x = ns.x + i %}{% endfor "
    "%}{{ ns.x }}{{ ns.y }}",
    "{% set d.k = 1 %}", "{% set a, b = 1, 2 %}{{ b }}{{ a }}", "{% set a = 1, 2 %}{{ a }}",
    "{% set x %}a{{ n }}\n{% endset %}[{{ x }}]",
    "{% set x | trim | upper %} a {% endset %}[{{ x }}]",
    "{% if t %}{% set x = 1 %}{% endif %}{{ x }}",
    "{% with a = 1, b = n %}{{ a + b }}{% endwith %}{{ a }}|",
    "{% macro m(a, b=2, c=a) %}{{ a }}{{ b }}{{ c }}{% endmacro %}{{ m(1) }} {{ m(1, c=3) }} "
    "{{ m(b=1) }}",
    "{% macro m(a) %}{% if a > 0 %}{{ a }}{{ m(a - 1) }}{% endif %}{% endmacro %}{{ m(4) }}",
    "{% macro m() %}{{ x }}{% endmacro %}{% set x = 5 %}{{ m() }}{% set x = 6 %}{{ m() }}",
    "{% macro m() %}{% set y = 1 %}{% endmacro %}{{ m() }}{{ y }}|",
    "{% macro m(a) %}{% endmacro %}{{ m(1, 2) }}", "{% macro m(a) %}{% endmacro %}{{ m(z=2) }}",
    "{% macro m(a) %} {{ a }} {% endmacro %}{{ m('x') | trim }}",
    "{% macro m(a) %}<{{ caller(a) }}>{% endmacro %}{% call(x) m(3) %}[{{ x }}{{ n }}]{% "
    "endcall %}",
    "{% macro m() %}<{{ caller() }}>{% endmacro %}{% call m() %}in{% endcall %}",
    "{% filter upper %}a{{ n }}b{% endfilter %}",
    "{% generation %}{{ n }}{% set z = 1 %}{% endgeneration %}{{ z }}|",
    "{% macro a(x) %}{{ x }}{% endmacro %}{% set f = [a] %}{{ f[0](*[7]) }}{{ a(**{'x': 8}) }}",
    "{{ raise_exception('no ' ~ n) }}", "{% if false %}{{ raise_exception('x') }}{% endif %}ok",
    "{{ range(3) | list }} {{ range(1, 7, 2) | list }} {{ range(3, 0, -1) | list }} {{ "
    "range(5)[1] }}",
    "{{ range(3) | length }} {{ 2 in range(3) }}", "{{ dict(a=1, b=2) }} {{ dict({'z': 0}, a=1) }}",
    "{% for i in range(0, messages | length) %}{% endfor %}.", "{% set loop = 5 %}{{ loop }}",
    "{% macro f(x) %}{{ x }}{% endmacro %}{{ f('a') ~ f('b') }}{{ f is defined }}{{ f is "
    "callable }}",
    # Filters.
    "[{{ s | trim }}] [{{ '..a.' | trim('.') }}] {{ s | length }} {{ l | length }} {{ "
    "missing | length }}",
    "{{ none | length }}", "{{ 5 | length }}",
    "{{ 'Stra\u00dfe \u00e9A' | upper }} {{ '\u00c0B' | lower }} {{ 'aB c' | capitalize }}",
    '{{ \'hello wOrld-foo (bar)\' | title }} {{ "it\'s" | title }} {{ \'it\\\'s x1y\'.title() }}',
    "{{ nested | tojson }}", "{{ nested | tojson(indent=2) }}",
    "{{ d | tojson(indent=4, sort_keys=true) }}",
    "{{ q | tojson }} {{ s | tojson }} {{ s | tojson(ensure_ascii=true) }} {{ '<a&b>' | tojson }}",
    "{{ {1: 2, none: 3, true: 4, 1.5: 5} | tojson }}", "{{ l | tojson(separators=(',', ':')) }}",
    "{{ [] | tojson(indent=2) }}", "{{ missing | tojson }}", "{{ [missing] | tojson }}",
    "{{ e | default('x') }}|{{ missing | default('x') }}|{{ e | default('x', true) }}|{{ "
    "none | d('x') }}|{{ missing | default }}|{{ e | default('y', boolean=True) }}",
    "{{ l | join }} {{ l | join(', ') }} {{ ms | join('-', attribute='role') }} {{ 'abc' | "
    "join('.') }}",
    "{{ w | sort }} {{ w | sort(case_sensitive=true) }} {{ l | sort(reverse=true) }} {{ ms | "
    "sort(attribute='content') | map(attribute='role') | join(',') }}",
    "{{ [1, 'a'] | sort }}", "{{ w | unique | list }} {{ l | reverse | list }}",
    "{{ 'abc' | reverse }} {{ l | first }} {{ l | last }} {{ [] | first }}| {{ e | last }}| "
    "{{ s | first }}",
    "{{ l | min }} {{ l | max }} {{ l | sum }} {{ [] | max }}| {{ w | min }}",
    "{{ d | dictsort }} {{ d | items | list }}",
    "{{ {'b': 1, 'A': 2} | dictsort }} {{ {'b': 1, 'A': 2} | dictsort(true) }} {{ {'b': 1, "
    "'a': 2} | dictsort(by='value') }}",
    "{{ ms | selectattr('role', 'equalto', 'user') | list }} {{ ms | rejectattr('role', "
    "'in', ['user']) | list | length }}",
    "{{ ms | selectattr('calls') | map(attribute='role') | list }} {{ ms | "
    "selectattr('calls', 'defined') | list | length }}",
    "{{ l | select('odd') | list }} {{ l | reject('gt', 2) | list }} {{ [0, 1, ''] | select "
    "| list }}",
    "{{ w | map('upper') | list }} {{ ms | map(attribute='calls', default=0) | list }} {{ ms "
    "| map(attribute='calls.0.name') | list }}",
    "{{ l | map('string') | join('+') }} {{ w | map('replace', 'a', 'x') | list }}",
    "{{ l | map('nope') | list }}",
    "{{ 'a-b-a' | replace('a', 'x') }} {{ 'aaa' | replace('a', 'b', 2) }} {{ 'ab' | "
    "replace('', '.') }} {{ 5 | replace('5', 'y') }}",
    "{{ '12' | int }} {{ 'x' | int }} {{ 'x' | int(7) }} {{ '3.9' | int }} {{ 3.9 | int }} "
    "{{ ' 5 ' | int }} {{ true | int }}",
    "{{ '1.5' | float }} {{ 'x' | float }} {{ 2 | float }} {{ -3 | abs }} {{ 2.567 | "
    "round(2) }} {{ 2.5 | round }} {{ 2.1 | round(0, 'ceil') }}",
    "{{ 'a\\nb\\n\\nc\\n' | indent }}|{{ 'a\\nb' | indent(2, true) }}|{{ 'a\\n\\nb' | "
    "indent(2, blank=true) }}|{{ 'a\\nb' | indent('> ') }}",
    "{{ 'x\\n' | indent(2) }}|{{ '' | indent(2) }}|{{ 'x\\n' | indent(2, true, true) }}|{{ "
    "'\\n' | indent(3, true) }}|",
    "{{ n | string + 'x' }} {{ l | string }} {{ none | string }} {{ 'abc' | list }} {{ d | "
    "list }} {{ d | length }}",
    "{{ '<b>' | safe + '<i>' }} {{ '<a>' + '<b>' | safe }} {{ '<x>' | safe ~ '<y>' }} {{ "
    '(\'<b>\' | safe) * 2 + "\'" }}',
    "{{ '%s and %s' | format('a', 1) }} {{ '%s' | format }}",
    "{{ [[1, 2], [3]] | sum(attribute=0) }}", "{{ n | nope }}",
    "{{ (ms | selectattr('role', 'equalto', 'nope')) is defined }}{% if ms | "
    "selectattr('role', 'equalto', 'nope') %}true{% endif %}",
    "{{ (l | map('string')) | length }}",
    "{% set g = l | map('string') %}{{ g | join }}{{ g | join }}.",
    "{{ (w | select('string'))[0] }}|",
    "{{ none | selectattr('a') | list }} {{ 0 | map('upper') | list }} {{ '' | reject | list }}",
    "{{ 7 | round }} {{ 7 | round(1) }} {{ 15 | round(-1) }} {{ 7 | round(0, 'ceil') }}",
    "{{ missing | int }}", "{{ missing | float }}", "{{ 1.5 is odd }} {{ 1.5 is even }} {{ 3.0 is "
    "odd }}",
    "{{ none | list }}", "{{ none | join }}", "{{ none | unique | list }}", "{{ none | sum }}",
    "{{ ('<b>' | safe).upper() + '<i>' }} {{ ('<b>' | safe | lower) + '<i>' }}",
    "{{ ('<b>' | safe).strip('<') + '<i>' }} {{ ('<b>' | safe)[1:] + '<i>' }}",
    "{{ '\\x7f' | tojson(ensure_ascii=true) }}{{ '\\x7f' | tojson }}",
    "{{ 'a\\u2028' | indent(2, true, true) }}|{{ 'a\\r\\n' | indent(2, true, true) }}|{{ "
    "'ab' | indent }}|",
    # What is not known matters where it is used.
    "{% if none %}{{ n | nope }}{% endif %}ok", "{% if t %}{{ n | nope }}{% endif %}",
    "{{ n | nope if e else 'ok' }}", "{{ n if n is nope else 'ok' }}",
    "{% if e and n is nope %}{% endif %}ok",
    # Tests.
    "{{ n is defined }} {{ missing is defined }} {{ missing is undefined }} {{ d.z is not "
    "defined }} {{ none is none }}",
    "{{ s is string }} {{ d is mapping }} {{ l is sequence }} {{ d is sequence }} {{ s is "
    "iterable }} {{ n is iterable }} {{ missing is iterable }}",
    "{{ t is boolean }} {{ t is true }} {{ 1 is true }} {{ false is false }} {{ n is number "
    "}} {{ t is number }} {{ n is integer }} {{ t is integer }} {{ r is float }}",
    "{{ n is odd }} {{ n is even }} {{ 9 is divisibleby 3 }} {{ 9 is divisibleby(2) }} {{ n "
    "is eq 3 }} {{ n is gt 2 }} {{ n is in [3] }} {{ n is not in [3] }}",
    "{{ 'abc' is lower }} {{ 'ABC' is upper }} {{ '1' is lower }} {{ range is callable }} {{ "
    "'upper' is filter }} {{ n is equalto 3 and t }}",
    "{{ n is nope }}",
    "{{ (1, 2) is sequence }} {{ range(2) is sequence }} {{ d.items() is sequence }} {{ none "
    "is sameas none }} {{ 1 is sameas true }}",
    "{{ l is not string and l is not mapping and l is iterable }}",
    "{{ not n is defined }} {{ n is defined == t }}",
    # Methods.
    "[{{ s.strip() }}] [{{ '  a '.lstrip() }}] [{{ ' a  '.rstrip() }}] [{{ "
    "'xxaxy'.strip('xy') }}] [{{ '\\na\\n'.strip('\\n') }}]",
    "{{ 'a,b,,c'.split(',') }} {{ 'a b  c '.split() }} {{ 'a,b,c'.split(',', 1) }} {{ 'a b "
    "c'.split(None, 1) }} {{ ''.split(',') }} {{ ''.split() }}",
    "{{ 'a,b,c'.rsplit(',', 1) }} {{ 'aXXbXXc'.rsplit('XX') }} {{ 'a</t>b'.split('</t>')[-1] "
    "}} {{ 'x'.split('') }}",
    "{{ 'abc'.startswith('ab') }} {{ 'abc'.endswith(('x', 'c')) }} {{ 'abc'.startswith('') "
    "}} {{ 'abc'.removeprefix('a') }} {{ 'abc'.removesuffix('c') }}",
    "{{ 'abcabc'.replace('b', 'x') }} {{ 'abcabc'.replace('b', 'x', 1) }} {{ "
    "'abcb'.find('b') }} {{ 'abcb'.rfind('b') }} {{ '\u00e9\u6f22b'.find('b') }} {{ "
    "'a'.find('z') }}",
    "{{ 'ab'.upper() }} {{ 'AB'.lower() }} {{ 'aB'.capitalize() }} {{ 'a b'.title() }} {{ "
    "'abab'.count('ab') }} {{ ','.join(w) }} {{ ','.join(l) }}",
    "{{ 'a\\nb\\r\\nc'.splitlines() }} {{ 'a\\n'.splitlines(true) }} {{ '12'.isdigit() }} {{ "
    "'a1'.isalpha() }} {{ 'a1'.isalnum() }} {{ ' '.isspace() }}",
    "{{ '{} {}'.format('a', 1) }} {{ '{0}{1}{0}'.format('a', 'b') }} {{ '{x}'.format(x=2) }} "
    "{{ '{{}}'.format() }} {{ '{x:d}{:s}{:d}'.format('b', -3, x=2) }}", "{{ '{:d}'.format('3') }}",
    # Wrong.
    "{% if %}a{% endif %}", "{% if t %}", "{% endif %}", "{{ }}", "{{ 1 + }}",
    "{% for x l %}{% endfor %}", "{{ 'a }}", "{# a", "{% nope %}", "{{ (1 }}", "{{ a b }}",
    "{% set %}", "{% set 1 = 2 %}", "{{ [1, 2 }}", "{% else %}", "{% break %}", "{{ f(a=1, 2) }}",
    "{% macro %}{% endmacro %}", "{{ 1 ? 2 }}", "{% include 'x' %}", "{{ x!y }}",
    "{% if t %}{% endfor %}", "{{ n is defined is true }}", "{% do l.append(1) %}",
    "{{ range(100001) }}", "{{ s.__class__ }}|", "{{ ''.__class__.__mro__ }}",
    "{{ namespace().x }}|",
]


def render(template):
    try:
        return _compile_jinja_template(template).render(**CONTEXT)
    except Exception:  # any: what is refused
        return None


cases = [{"template": t, "text": render(t)} for t in TEMPLATES]
with open(OUT, "w", encoding="utf-8") as f:
    json.dump({"context": CONTEXT, "cases": cases}, f, ensure_ascii=True, indent=0)
    f.write("\n")
print(len(cases), "templates,", sum(c["text"] is None for c in cases), "of them refused")
