/* Templates in the Jinja language: constructions of published chat templates, in words of our own, with the results
 * that Jinja's and transformers' documentation states; mistakes and their messages; limits. */
#include "texts/template/template.h"
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "cmocka_all.h"

static const char data[] =
    "{\"messages\": [{\"role\": \"system\", \"content\": \"S\"}, {\"role\": \"user\", \"content\": \" one"
    "\\n\"}, {\"role\": \"assistant\", \"content\": null, \"tool_calls\": [{\"id\": \"c1\", \"type\": \"f"
    "unction\", \"function\": {\"name\": \"f\", \"arguments\": {\"a\": 1, \"b\": [true, null]}}}]}, {\"ro"
    "le\": \"tool\", \"content\": \"é \\\"x\\\"\", \"tool_call_id\": \"c1\"}, {\"role\": \"user\", \"cont"
    "ent\": \"three\"}], \"tools\": [{\"type\": \"function\", \"function\": {\"name\": \"f\", \"descripti"
    "on\": \"D's\", \"parameters\": {\"type\": \"object\", \"properties\": {\"a\": {\"type\": \"integer"
    "\"}, \"b\": {\"type\": \"array\"}}, \"required\": [\"a\"]}}}], \"bos_token\": \"<s>\", \"eos_token"
    "\": \"</s>\", \"add_generation_prompt\": true, \"x\": 3, \"r\": 0.5, \"big\": 1e+20, \"words\": [\"b"
    "\", \"A\", \"c\", \"a\"]}";

/* Renders with the members of `data` as variables. */
static inlay_status render(const char *form, char **out_text, inlay_diag *diag)
{
    json_t *root = json_loads(data, 0, NULL), *value;
    template_variable variables[16];
    size_t count = 0;
    template_tree *tree;
    const char *name;
    inlay_status status;

    assert_non_null(root);
    json_object_foreach(root, name, value) {
        variables[count++] = (template_variable){ name, value };
    }
    *diag = (inlay_diag)INLAY_DIAG_INIT;
    *out_text = NULL;
    status = template_open(form, &tree, diag);
    if (status == INLAY_OK)
        status = template_render(tree, variables, count, out_text, diag);
    template_close(tree);
    json_decref(root);
    return status;
}

static void test_constructions(void **state)
{
    static const struct {
        const char *form, *want;
    } rows[] = {
        { "{{ tools[0].function.parameters.properties | tojson }}",
          "{\"a\": {\"type\": \"integer\"}, \"b\": {\"type\": \"array\"}}" },
        { "{{ {'a': [1, 2], 'b': {}, 'c': []} | tojson(indent=2) }}",
          "{\n  \"a\": [\n    1,\n    2\n  ],\n  \"b\": {},\n  \"c\": []\n}" },
        { "{{ messages[3].content | tojson }}{{ messages[3].content | tojson(ensure_ascii=True) }}",
          "\"é \\\"x\\\"\"\"\\u00e9 \\\"x\\\"\"" },
        { "{{ {'b': 1, 'a': 2} | tojson(separators=(',', ':'), sort_keys=true) }}", "{\"a\":2,\"b\":1}" },
        { "{{ messages[2].tool_calls[0].function.arguments }}|{{ 'x' + messages[2].tool_calls[0].function.argum"
          "ents }}",
          "{\"a\": 1, \"b\": [true, null]}|x{\"a\": 1, \"b\": [true, null]}" },
        { "{% for k, v in messages[2].tool_calls[0].function.arguments | items %}{{ k }}={{ v }};{% endfor %}",
          "a=1;b=[True, None];" },
        { "{% for k, v in tools[0].function.items() %}{{ k }} {% endfor %}", "name description parameters " },
        { "{{ tools[0].function.description }} {{ tools[0].function }}",
          "D's {'name': 'f', 'description': \"D's\", 'parameters': {'type': 'object', 'properties': {'a': {'typ"
          "e': 'integer'}, 'b': {'type': 'array'}}, 'required': ['a']}}" },
        { "{% macro f(a, b=2, c='z') %}({{ a }}{{ b }}{{ c }}){% endmacro %}{{ f(1) }}{{ f(1, c=3) }}{{ f(1, 5)"
          " | upper }}",
          "(12z)(123)(15Z)" },
        { "{% macro down(n) %}{{ n }}{% if n > 0 %}{{ down(n - 1) }}{% endif %}{% endmacro %}{{ down(3) }}", "3210" },
        { "{% macro box() %}[{{ caller('q') }}]{% endmacro %}{% call(p) box() %}{{ p }}{{ x }}{% endcall %}", "[q3]" },
        { "{% set ns = namespace(found=false, n=0) %}{% for m in messages %}{% if m.role == 'user' %}{% set ns."
          "n = ns.n + 1 %}{% set ns.found = true %}{% endif %}{% endfor %}{{ ns.found }}{{ ns.n }}",
          "True2" },
        { "{% set x = 1 %}{% for i in range(3) %}{% set x = i %}{{ x }}{% endfor %}{{ x }}", "0121" },
        { "{% for m in messages[::-1] %}{{ loop.revindex0 }}{{ m.role[0] }}{% endfor %}", "4u3t2a1u0s" },
        { "{% for i in range(5) if i is odd %}{{ loop.index }}:{{ i }}{{ ',' if not loop.last }}{% else %}none{"
          "% endfor %}",
          "1:1,2:3" },
        { "{% for i in [] %}{% else %}none{% endfor %}{% for i in range(9) %}{% if i == 1 %}{% continue %}{% el"
          "if i == 3 %}{% break %}{% endif %}{{ i }}{% endfor %}",
          "none02" },
        { "{% for a, b in [(1, 2), (3, 4)] %}{{ a }}{{ b }}{{ loop.cycle('x', 'y') }}{{ loop.previtem }}{% endf"
          "or %}",
          "12x34y[1, 2]" },
        { "{{ messages | selectattr('role', 'equalto', 'user') | list | length }}{{ messages | rejectattr('role"
          "', 'in', ['user', 'tool']) | map(attribute='role') | join(', ') }}",
          "2system, assistant" },
        { "{{ messages | selectattr('tool_calls', 'defined') | list | length }}{{ messages | selectattr('conten"
          "t') | map(attribute='role') | list }}",
          "1['system', 'user', 'tool', 'user']" },
        { "{{ words | map('upper') | join }}{{ words | sort | join }}{{ words | sort(case_sensitive=true, rever"
          "se=true) | join }}{{ words | unique | list | length }}",
          "BACAAabccbaA3" },
        { "{{ words | select('in', ['a', 'b']) | list }}{{ words | reject('equalto', 'c') | list | count }}",
          "['b', 'a']3" },
        { "{{ {'b': 1, 'a': 2} | dictsort }}{{ {'b': 1, 'a': 2} | dictsort(by='value', reverse=true) | first | "
          "first }}",
          "[['a', 2], ['b', 1]]a" },
        { "{{ nothing | default('d') }}{{ '' | default('d') }}{{ '' | default('d', true) }}{{ nothing.x is defi"
          "ned if false else 'ok' }}",
          "ddok" },
        { "{{ 'a-b-c'.split('-') }}{{ 'a-b-c'.split('-', 1)[-1] }}{{ 'a-b-c'.rsplit('-', 1)[0] }}{{ ' a  b '.sp"
          "lit() }}",
          "['a', 'b', 'c']b-ca-b['a', 'b']" },
        { "{{ 'x</t>yy</t>z'.split('</t>')[-1].lstrip('\\n') }}{{ '\\n\\na\\n'.strip('\\n') }}{{ 'abcab'.rstrip"
          "('ba') }}",
          "zaabc" },
        { "{{ 'hello world'.title() }}{{ 'ABC' | capitalize }}{{ 'aXbX'.replace('X', '-') }}{{ 'aXbX'.replace('"
          "X', '-', 1) }}{{ 'aXa' | replace('a', '') }}",
          "Hello WorldAbca-b-a-bXX" },
        { "{{ 'é€x'[1] }}{{ 'é€x' | length }}{{ 'é€x'[::-1] }}{{ 'é€x'[1:] }}", "€3x€é€x" },
        { "{{ 'abc'.find('c') }}{{ 'abc'.find('z') }}{{ 'abab'.count('ab') }}{{ 'abab'.rfind('ab') }}{{ '12'.is"
          "digit() }}{{ ', '.join(['a', 'b']) }}",
          "2-122Truea, b" },
        { "{{ 'a\\nb\\r\\nc'.splitlines() }}{{ 'ab'.startswith(('x', 'a')) }}", "['a', 'b', 'c']True" },
        { "{{ 'a\nb' | indent }}|{{ 'a\nb' | indent(2, true) }}|{{ 'a\n\nb' | indent(1) }}",
          "a\n    b|  a\n  b|a\n\n b" },
        { "{{ 7 // 2 }}{{ -7 // 2 }}{{ 7 / 2 }}{{ 2 ** 10 }}{{ 7 % -3 }}{{ 1.5 + 1 }}{{ 'ab' * 3 }}{{ [1] + [2]"
          " }}",
          "3-43.51024-22.5ababab[1, 2]" },
        { "{{ r }} {{ big }} {{ 1.0 }} {{ 0.1 + 0.2 }} {{ 1e-7 }} {{ 100000.0 }}",
          "0.5 1e+20 1.0 0.30000000000000004 1e-07 100000.0" },
        { "{{ 1 < 2 < 3 }}{{ 1 < 3 < 2 }}{{ 'a' < 'b' }}{{ [1, 2] == [1, 2] }}{{ 1 == 1.0 }}{{ {'a': 1} == {'a'"
          ": 1} }}",
          "TrueFalseTrueTrueTrueTrue" },
        { "{{ not x == 3 }}{{ x is number and x is not string }}{{ x + 1 is odd }}{{ 'a' ~ x * 2 }}", "FalseTrue4a6" },
        { "{{ x is divisibleby 3 }}{{ x is divisibleby(2) }}{{ messages is sequence }}{{ messages[0] is mapping"
          " }}{{ 'a' is iterable }}{{ none is none }}{{ x is in [3] }}",
          "TrueFalseTrueTrueTrueTrueTrue" },
        { "{{ messages[2].content is none }}{{ messages[0].content is string }}{{ true is boolean }}{{ 1.5 is f"
          "loat }}{{ 3 is integer }}{{ nope is undefined }}",
          "TrueTrueTrueTrueTrueTrue" },
        { "{{ '3' | int + 1 }}{{ 'x' | int(7) }}{{ '1.5' | float }}{{ 2.5 | round | int }}{{ 2.567 | round(2) }"
          "}{{ -3 | abs }}{{ [1, 5, 2] | max }}{{ [1, 2] | sum }}",
          "471.522.57353" },
        { "{{ words | first }}{{ words | last }}{{ words | reverse | join }}{{ 'abc' | reverse }}{{ 'ab' | list"
          " }}",
          "baacAbcba['a', 'b']" },
        { "{% set a, b = 1, 'q' %}{{ b }}{{ a }}{% set t %}x{{ a }}y{% endset %}{{ t | upper }}{% set u | trim "
          "%}  z {% endset %}{{ u }}",
          "q1X1Yz" },
        { "{% filter upper %}ab{{ x }}{% endfilter %}{% with y = 5, z = 6 %}{{ y }}{{ z }}{% endwith %}{{ y }}",
          "AB356" },
        { "{% generation %}g{{ x }}{% endgeneration %}{% raw %}{{ x }}{% y %}{% endraw %}", "g3{{ x }}{% y %}" },
        { "a  {%- if true %} b {%- endif -%}  c\n  {{- 'd' }}", "a bcd" },
        { "  {%+ if true %}x{% endif %}\n  {% if true +%}\ny{% endif %}\n{# c #}\nz\n", "  x\nyz" },
        { "{{ 'a' 'b' }}{{ \"\\u00e9\\x41\\\\\\'\" }}{{ 'it\\'s' }}", "abéA\\'it's" },
        { "{{ dict(a=1, b=2).keys() | list }}{{ dict(a=1).get('z', 9) }}{{ {'a': 1}.get('z') }}{{ {'a': 5}['a']"
          " }}",
          "['a', 'b']9None5" },
        { "{{ {} }}{{ [] }}{{ {'a': {'b': 1}} }}{{ (1, 2) | length }}{{ 1, 2 }}", "{}[]{'a': {'b': 1}}2[1, 2]" },
        { "{{ 'a' if x > 2 }}{{ 'b' if x > 5 }}{{ 'c' if x > 5 else 'd' if x == 3 else 'e' }}", "ad" },
        { "{{ x.y is defined }}{{ messages[0].y.z is defined if messages[0].y is defined else 'no' }}{{ 'role' "
          "in messages[0] }}{{ 'z' in nope }}",
          "FalsenoTrueFalse" },
        { "{{ messages[2].tool_calls[0]['function']['name'] }}{{ messages[2]['tool_calls'][0].function|tojson }"
          "}",
          "f{\"name\": \"f\", \"arguments\": {\"a\": 1, \"b\": [true, null]}}" },
        { "{%- set out = tools[0].function.parameters.required|tojson -%}{{- out[:-1] }}", "[\"a\"" },
        { "{{ '%s' | string | escape }}{{ '<a>' | e }}{{ '&' | safe }}", "%s&lt;a&gt;&" },
        { "{% set ns = namespace(a=[]) %}{% for i in range(3) %}{% set ns.a = ns.a + [i] %}{% endfor %}{{ ns.a "
          "}}",
          "[0, 1, 2]" },
        { "{{ (messages | map(attribute='content') | list)[4] }}{{ messages | map(attribute='nope', default='-'"
          ") | join }}",
          "three-----" },
        { "{{ range(1, 7, 2) | list }}{{ range(3, 0, -1) | join('-') }}", "[1, 3, 5]3-2-1" },
        { "{{ none | selectattr('type') | list }}{{ 0 | map('upper') | list }}{{ nope | rejectattr('a') | list | length"
          " }}",
          "[][]0" },
        /* text that is appended to a safe string is escaped */
        { "{{ '<'|safe + '<' }} {{ ('a' + '&'|safe)|upper + '>' }} {{ '&'|e|e }} {{ ('<'|safe ~ '<') + '<' }} "
          "{{ '<b>'|safe * 2 + '\"' }} {{ ('<a'|safe)[1:] + '<' }}",
          "<&lt; A&&gt; &amp; <<< <b><b>&#34; a&lt;" },
        { "{{ ('<'|safe|reverse) + '<' }} {{ ('<'|safe|replace('a','b')) + '<' }} {{ ' <'|safe|trim + '<' }} "
          "{{ ('<'|safe|title) + '<' }}",
          "<&lt; << <&lt; <<" },
        /* the content of a message with calls counts as "" where a text is needed */
        { "{{ '</think>' in messages[2].content }}{{ 'a' not in none }}{{ messages[2].content | length }}"
          "{{ 'x' + messages[2].content + 'y' }}{{ none + 'z' }}{{ messages[2].content }}",
          "FalseTrue0xyzNone" },
        { "{{ 'x' is string or nope.a.b }}{{ false and nope.a.b }}{{ none or 'z' }}{{ 0 or '' }}", "TrueFalsez" },
        { "{{ words[1:3] }}{{ words[-2:] }}{{ words[:-1] }}{{ words[::2] }}{{ words[5:] }}",
          "['A', 'c']['c', 'a']['b', 'A', 'c']['b', 'c'][]" },
        { "{{ -2 ** 2 }}{{ - 3 }}{{ +3 }}{{ 10 - 2 - 3 }}{{ 2 + 3 * 4 }}{{ (2 + 3) * 4 }}", "4-3351420" },
        { "{{ loop is defined }}{% for i in [1] %}{{ loop.length }}{{ loop.depth }}{% for j in [1] %}{{ loop.de"
          "pth0 }}{% endfor %}{{ loop.nextitem is defined }}{% endfor %}",
          "False111False" },
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        inlay_diag diag;
        char *text = NULL;

        if (render(rows[i].form, &text, &diag) != INLAY_OK)
            fail_msg("%s: %s", rows[i].form, diag.text);
        if (strcmp(text, rows[i].want) != 0)
            fail_msg("%s: expected\n%s\ngot\n%s", rows[i].form, rows[i].want, text);
        free(text);
    }
}

static void test_time(void **state)
{
    char before[16], after[16], *text = NULL;
    time_t now = time(NULL);
    inlay_diag diag;

    (void)state;
    (void)strftime(before, sizeof before, "%d/%Y", localtime(&now));
    assert_int_equal(render("{{ strftime_now('%d/%Y') }}", &text, &diag), INLAY_OK);
    now = time(NULL);
    (void)strftime(after, sizeof after, "%d/%Y", localtime(&now));
    assert_true(strcmp(text, before) == 0 || strcmp(text, after) == 0);
    free(text);
}

static void test_mistakes(void **state)
{
    static const struct {
        const char *form, *part;
        inlay_status status;
    } rows[] = {
        { "a\nb{{ x | nofilter }}", "line 2: not supported: the filter 'nofilter'", INLAY_UNSUPPORTED },
        { "{{ x is nothing }}", "the test 'nothing'", INLAY_UNSUPPORTED },
        { "{{ 'a'.nomethod() }}", "the method 'nomethod'", INLAY_UNSUPPORTED },
        { "{{ words.append('a') }}", "the method 'append'", INLAY_UNSUPPORTED },
        { "{{ now('%Y') }}", "the function 'now'", INLAY_UNSUPPORTED },
        { "{% import 'a' as b %}", "the statement 'import'", INLAY_UNSUPPORTED },
        { "{% block a %}{% endblock %}", "the statement 'block'", INLAY_UNSUPPORTED },
        { "{% for m in messages recursive %}{% endfor %}", "a loop that is 'recursive'", INLAY_UNSUPPORTED },
        { "{% for m in messages %}", "missing end tag of 'for'", INLAY_UNSUPPORTED },
        { "{% if a %}{% else %}", "missing end tag of 'if'", INLAY_UNSUPPORTED },
        { "{% macro f() %}", "missing end tag of 'macro'", INLAY_UNSUPPORTED },
        { "{% endif %}", "the statement 'endif'", INLAY_UNSUPPORTED },
        { "{% break %}", "outside of a loop: 'break'", INLAY_UNSUPPORTED },
        { "{{ 'a }}", "a string that is not closed", INLAY_UNSUPPORTED },
        { "{# a", "a comment that is not closed", INLAY_UNSUPPORTED },
        { "{% raw %} a", "a raw without endraw", INLAY_UNSUPPORTED },
        { "{{", "a tag that is not closed", INLAY_UNSUPPORTED },
        { "{%", "a tag that is not closed", INLAY_UNSUPPORTED },
        { "{{ }}", "a tag that ends too early", INLAY_UNSUPPORTED },
        { "{{ 1 2 }}", "unexpected text:", INLAY_UNSUPPORTED },
        { "{{ 1 } }}", "unexpected text: '}'", INLAY_UNSUPPORTED },
        { "{{ x ? }}", "unexpected text: '?'", INLAY_UNSUPPORTED },
        { "{{ nope.a }}", "an undefined value has no 'a'", INLAY_UNSUPPORTED },
        { "{{ nope.a() }}", "an undefined value has no 'a'", INLAY_UNSUPPORTED },
        { "{% set a.b = 1 %}", "an attribute can be set of a namespace only, not of 'a'", INLAY_UNSUPPORTED },
        { "{% for a, b in [[1]] %}{% endfor %}", "more names than values", INLAY_UNSUPPORTED },
        { "{% for a, b in [[1, 2, 3]] %}{% endfor %}", "more values than names", INLAY_UNSUPPORTED },
        { "{% for a in 5 %}{% endfor %}", "the elements of a value that has none", INLAY_UNSUPPORTED },
        { "{{ 'a' + 1 }}", "these operands of '+'", INLAY_UNSUPPORTED },
        { "{{ 1 // 0 }}{{ 1 % 0 }}", "these operands of '//'", INLAY_UNSUPPORTED },
        { "{{ 9223372036854775807 + 1 }}", "the number", INLAY_UNSUPPORTED },
        { "{{ 999999999999999999 * 99 }}", "these operands of '*'", INLAY_UNSUPPORTED },
        { "{{ 1 < 'a' }}", "comparing values that have no order", INLAY_UNSUPPORTED },
        { "{{ [1, 'a'] | sort }}", "values that have no order, in the filter 'sort'", INLAY_UNSUPPORTED },
        { "{{ nope | tojson }}", "JSON of a value that is not data", INLAY_UNSUPPORTED },
        { "{{ [1][::0] }}", "a slice whose step is 0", INLAY_UNSUPPORTED },
        { "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", "nested too deeply", INLAY_LIMIT_EXCEEDED },
        { "{% for a in range(9999) %}{% for b in range(9999) %}{% endfor %}{% endfor %}", "too much memory",
          INLAY_LIMIT_EXCEEDED },
        { "{% set ns = namespace(a='0123456789') %}{% for a in range(99) %}{% set ns.a = ns.a + ns.a %}{% endfor %}",
          "more than ", INLAY_LIMIT_EXCEEDED },
        { "{% set a = namespace(x=[], y=[]) %}{% for i in range(99) %}{% set a.x = [a.x, a.x] %}{% set a.y = [a.y, "
          "a.y] %}"
          "{% endfor %}{{ a.x == a.y }}",
          "takes more than 4000000 steps", INLAY_LIMIT_EXCEEDED },
        { "{% set a = namespace(x=[], y=[]) %}{% for i in range(99) %}{% set a.x = [a.x, a.x] %}{% set a.y = [a.y, "
          "a.y] %}"
          "{% endfor %}{{ a.x < a.y }}",
          "takes more than 4000000 steps", INLAY_LIMIT_EXCEEDED },
        { "{{ {1: 2, 'a': 3} | tojson(sort_keys=true) }}", "sorting keys that cannot be compared", INLAY_UNSUPPORTED },
        { "{{ 'abc' * 99999999 }}", "the text has more than 16 MiB", INLAY_LIMIT_EXCEEDED },
        { "{{ range(99999999) }}", "a range has more than 100000 elements", INLAY_LIMIT_EXCEEDED },
        { "a\n{{ raise_exception('no ' + 'way') }}", "no way", INLAY_INVALID_ARGUMENT },
    };
    static char deep[4096];
    inlay_diag diag;
    char *text = NULL;

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        inlay_status status = render(rows[i].form, &text, &diag);

        assert_null(text);
        if (status != rows[i].status || strstr(diag.text, rows[i].part) == NULL)
            fail_msg("%s: %d %s", rows[i].form, status, diag.text);
    }
    memset(deep, '(', sizeof deep - 1);
    memcpy(deep, "{{", 2);
    assert_int_equal(render(deep, &text, &diag), INLAY_UNSUPPORTED); /* the tag is not closed */
    memcpy(deep + sizeof deep - 3, "}}", 2);
    assert_int_equal(render(deep, &text, &diag), INLAY_UNSUPPORTED); /* nor within brackets */
    memset(deep, '-', sizeof deep - 1);
    memcpy(deep, "{{", 2);
    memcpy(deep + sizeof deep - 5, "1 }}", 4);
    assert_int_equal(render(deep, &text, &diag), INLAY_LIMIT_EXCEEDED);
    memset(deep, ' ', sizeof deep - 1);
    for (size_t i = 0; i + 10 < sizeof deep; i += 9)
        memcpy(deep + i, "{% if 1%}", 9);
    assert_int_equal(render(deep, &text, &diag), INLAY_LIMIT_EXCEEDED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_constructions),
        cmocka_unit_test(test_time),
        cmocka_unit_test(test_mistakes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
