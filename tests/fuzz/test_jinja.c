/* test_jinja.c - chat templates under random changes, rendered with a conversation. */
#include "fuzz.h"

#include "jinja/jinja.h"
#include "qkv/file.h"

static const char conversation[] =
    "{\"messages\": [{\"role\": \"system\", \"content\": \"S\"}, {\"role\": \"user\", \"content\": "
    "\"a b\"}, {\"role\": \"assistant\", \"content\": null, \"tool_calls\": [{\"name\": \"f\", "
    "\"arguments\": {\"x\": [1, 2.5, true]}}]}], \"bos_token\": \"<s>\", \"tools\": null}";

static qkv_status read_template(qkv_context *c, const char *path)
{
    char *text;
    size_t length;
    qkv__jinja *t;
    qkv__jinja_spans spans = {0};
    qkv_text out = {0};
    qkv_status status = qkv_file_read(c, path, FUZZ_BYTES, &text, &length);
    if (status)
        return status;
    status = qkv__jinja_open(&t, c, path, text, length);
    qkv_free(c, text);
    if (status)
        return status;
    json_t *variables = json_loads(conversation, 0, NULL);
    status = qkv__jinja_render(t, variables, 0, &out, &spans);
    json_decref(variables);
    qkv__jinja_close(t);
    qkv_text_free(&out, c);
    qkv_free(c, spans.ends);
    return status;
}

const fuzz_target fuzz = {
    .read = read_template,
    .rounds = 10000,
    .texts = {
        "{{- bos_token }}{% for message in messages %}{{ '<|' + message['role'] + '|>' }}{% if "
        "message.content is string %}{{ message.content | trim }}{% elif message.tool_calls %}{% "
        "for c in message.tool_calls %}{{ c | tojson(indent=2) }}{% endfor %}{% endif %}"
        "{% endfor %}",
        "{% macro m(a, b='x') %}{{ a ~ b }}{% endmacro %}{% set ns = namespace(n=0) %}{% for m in "
        "messages if m.role != 'user' %}{% set ns.n = ns.n + loop.index %}{{ m(ns.n, b=[1, 'a']) }}"
        "{% else %}-{% endfor %}{{ ns.n }}",
        "{% set x = messages | selectattr('role', 'equalto', 'user') | map(attribute='content') | "
        "list %}{{ x[::-1] | join(', ') }}{{ x[0].split(' ')[-1].upper() }}{{ {'a': (1, 2)} }}",
        "{%- raw -%} {{ x }} {%- endraw %}{#- c -#}{{ 'a\\x41\\u00e9' * 3 }}{{ 7 // 2 ** 2 % 5 }}"
        "{{ -1.5e3 if not none else 'b' in 'abc' }}{% generation %}{{ 1 < 2 }}{% endgeneration %}",
        "{% set b | upper | replace('A', 'b') %} a {% endset %}{{ b | indent(2, true) }}{% call(y) "
        "f(1) %}{{ y }}{% endcall %}{% with a = 1 %}{{ a is divisibleby 3 }}{% endwith %}{% filter "
        "trim %} {{ messages | tojson }} {% endfilter %}"},
};
