/* Chats rendered as texts: common chat templates of published models, and rejected templates. The expected texts
 * were compared with Jinja's output. */
#include "serve/chat/chat.h"
#include <stdlib.h>
#include <string.h>
#include "cmocka_all.h"

static const chat_message hello[] = { { "user", "Hi there " } };
static const chat_message talk[] = {
    { "system", "S" }, { "user", " one\n" }, { "assistant", "two" }, { "user", "three" }
};

static void expect_of(const char *form, const chat_message *messages, uint32_t count, const char *want)
{
    const struct chat chat = { form, "<s>", "</s>", messages, count };
    inlay_diag diag = INLAY_DIAG_INIT;
    char *text = NULL;

    if (chat_render(&chat, &text, &diag) != INLAY_OK)
        fail_msg("%s: %s", form, diag.text);
    if (strcmp(text, want) != 0)
        fail_msg("%s: expected\n%s\ngot\n%s", form, want, text);
    free(text);
}

#define EXPECT(form, messages, want) expect_of(form, messages, sizeof(messages) / sizeof(messages)[0], want)

static void test_markers_around_messages(void **state)
{
    static const char form[] =
        "{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}{{ '<|in|>system\\nBe "
        "brief.<|out|>\\n' }}{% endif %}{{'<|in|>' + message['role'] + '\\n' + message['content'] + '<|out|>' + "
        "'\\n'}}{% endfor %}{% if add_generation_prompt %}{{ '<|in|>assistant\\n' }}{% endif %}";

    (void)state;
    EXPECT(form, hello, "<|in|>system\nBe brief.<|out|>\n<|in|>user\nHi there <|out|>\n<|in|>assistant\n");
    EXPECT(form, talk,
           "<|in|>system\nS<|out|>\n<|in|>user\n one\n<|out|>\n<|in|>assistant\ntwo<|out|>\n<|in|>user\nthree<|out|>\n"
           "<|in|>assistant\n");
}

static void test_alternating_roles(void **state)
{
    static const char form[] = "{%- if messages[0]['role'] == 'system' %}\n"
                               "    {%- set system = messages[0]['content'] %}\n"
                               "    {%- set turns = messages[1:] %}\n"
                               "{%- else %}\n"
                               "    {%- set turns = messages %}\n"
                               "{%- endif %}\n"
                               "\n"
                               "{{- bos_token }}\n"
                               "{%- for message in turns %}\n"
                               "    {%- if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}\n"
                               "        {{- raise_exception('turns have to alternate') }}\n"
                               "    {%- endif %}\n"
                               "    {%- if message['role'] == 'user' %}\n"
                               "        {{- ' [ASK] ' }}{% if loop.first and system is defined %}{{ system + ': ' }}\n"
                               "        {%- endif %}{{ message['content'] | trim }}\n"
                               "    {%- elif message['role'] == 'assistant' %}\n"
                               "        {{- ' ' + message['content'] + eos_token}}\n"
                               "    {%- endif %}\n"
                               "{%- endfor %}\n";
    static const chat_message wrong[] = { { "assistant", "x" } };
    const struct chat chat = { form, "", "", wrong, 1 };
    inlay_diag diag = INLAY_DIAG_INIT;
    char *text;

    (void)state;
    EXPECT(form, hello, "<s> [ASK] Hi there");
    EXPECT(form, talk, "<s> [ASK] S: one two</s> [ASK] three");
    assert_int_equal(chat_render(&chat, &text, &diag), INLAY_INVALID_ARGUMENT);
    assert_string_equal(diag.text, "the model's chat template refuses the messages: turns have to alternate");
    assert_null(text);
}

static void test_lines_of_blocks(void **state)
{
    static const char form[] = "{% for message in messages %}\n"
                               "{# one line each #}\n"
                               "  {% if message['role'] == 'user' %}\n"
                               "{{ '<|user|>\\n' + message['content'] + eos_token }}\n"
                               "  {% else %}\n"
                               "{{ '<|other|>' }}\n"
                               "  {% endif %}\n"
                               "{% if loop.last %}\n"
                               "{{ '<|assistant|>' }}\n"
                               "{% endif %}\n"
                               "{% endfor %}";

    (void)state;
    EXPECT(form, hello, "<|user|>\nHi there </s>\n<|assistant|>\n");
    EXPECT(form, talk, "<|other|>\n<|user|>\n one\n</s>\n<|other|>\n<|user|>\nthree</s>\n<|assistant|>\n");
}

static void test_expressions(void **state)
{
    static const struct {
        const char *form, *want;
    } rows[] = {
        { "{% set ns = namespace(n=0) %}{% for m in messages %}{% set ns.n = ns.n + 1 %}{% set x = 5 %}{% endfor %}"
          "{{ ns.n * 3 - 1 }}{{ x }}",
          "11" },
        { "{{ 7 % 3 }}{{ -7 % 3 }}{{ 'a' ~ 1 ~ true ~ none }}", "12a1TrueNone" },
        { "{{ 'x' if messages | length > 1 else 'y' }}{{ 'p' if false else 'q' if true else 'r' }}{{ 1 if false }}",
          "xq" },
        { "{{ messages[-1].content[1:3] | upper }}{{ messages[0].tool_calls is not defined }}{{ nothing }}", "HRTrue" },
        { "{{ messages[0]['role'] in ['user', 'system'] }} {{ 'ab' not in 'cabd' }} {{ 'role' in messages[0] }}",
          "True False True" },
        { "{{ ' a b '.strip().startswith('a') and not 'ab'.endswith('a') }}", "True" },
        { "{{ true or nothing.at.all }}{% if tools %}{% for a, b in tools.items() %}{{ a | tojson }}{% endfor %}{% "
          "endif %}",
          "True" },
        { "{{ messages[1:3] | length }}{{ (messages | first).role }}{{ messages[9] is defined }}", "2systemFalse" },
        { "{{ \"q\\\"\\\\\" }}{{ 2 <= 3 }}", "q\"\\True" },
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        EXPECT(rows[i].form, talk, rows[i].want);
}

static void test_rejected_templates(void **state)
{
    static const struct {
        const char *form, *part;
    } rows[] = {
        { "a\nb{{ messages | tojson }}", "line 2: not supported: the filter 'tojson'" },
        { "{% macro f() %}{% endmacro %}", "the statement 'macro'" },
        { "{% for m in messages %}", "a for without endfor" },
        { "{% if a %}", "an if without endif" },
        { "{% endif %}", "an end tag without its start tag" },
        { "{{ 'a }}", "a string that is not closed" },
        { "{# a", "a comment that is not closed" },
        { "{{", "an expression" },
        { "{%", "a statement without a keyword" },
        { "{{ messages[0].foo.bar }}", "the attribute 'bar'" },
        { "{{ messages }}", "printing a list" },
        { "{{ now('%Y') }}", "the function 'now'" },
        { "{{ loop.depth }}", "not supported" },
        { "{% for m in messages %}{{ loop.depth }}{% endfor %}", "loop's 'depth'" },
        { "{{ 1 }", "unexpected text: '}'" },
        { "{% set a.b = 1 %}", "this form of set for 'a'" },
    };
    static char deep[4096];
    inlay_diag diag = INLAY_DIAG_INIT;
    struct chat chat = { deep, "", "", talk, 4 };
    char *text;

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        chat.form = rows[i].form;
        diag = (inlay_diag)INLAY_DIAG_INIT;
        assert_int_equal(chat_render(&chat, &text, &diag), INLAY_UNSUPPORTED);
        if (strstr(diag.text, rows[i].part) == NULL)
            fail_msg("%s: %s", rows[i].form, diag.text);
    }
    chat.form = deep;
    memset(deep, '(', sizeof deep - 1);
    memcpy(deep, "{{", 2);
    assert_int_equal(chat_render(&chat, &text, &diag), INLAY_LIMIT_EXCEEDED);
    for (size_t i = 0; i + 9 < sizeof deep; i += 9)
        memcpy(deep + i, "{% if 1%}", 9);
    deep[sizeof deep - 1] = '\0';
    assert_int_equal(chat_render(&chat, &text, &diag), INLAY_LIMIT_EXCEEDED);
}

/* With any character of a template changed, the result is a text or an error message. */
static void test_changed_templates(void **state)
{
    static const char form[] =
        "{%- set ns = namespace(a=1) -%}{% for m in messages[0:2] %}\n {# c #}{{ m['role'] | trim + "
        "'x\\n' ~ (2 - 1) }}{% if not loop.last and ns.a == 1 %}y{% elif m.content in ['a', 'b'] "
        "%}z{% else %}w{% endif %}{% endfor %}{{ 'a' if eos_token is defined else 'b' }}";
    static const char signs[] = "{}%#'\"[](.|-x 0";
    uint32_t good = 0, bad = 0;

    (void)state;
    for (size_t i = 0; i < sizeof form - 1; i++) {
        for (size_t k = 0; k < sizeof signs - 1; k++) {
            inlay_diag diag = INLAY_DIAG_INIT;
            char *changed = strdup(form), *text = NULL; /* exact size, so that a sanitizer detects over-reads */
            struct chat chat = { changed, "<s>", "</s>", talk, 4 };

            assert_non_null(changed);
            changed[i] = signs[k];
            if (chat_render(&chat, &text, &diag) == INLAY_OK)
                good++;
            else if (diag.text[0] != '\0' && text == NULL)
                bad++;
            free(text);
            free(changed);
        }
    }
    assert_int_equal(good + bad, (sizeof form - 1) * (sizeof signs - 1));
    assert_true(good > 100 && bad > 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_markers_around_messages), cmocka_unit_test(test_alternating_roles),
        cmocka_unit_test(test_lines_of_blocks),         cmocka_unit_test(test_expressions),
        cmocka_unit_test(test_rejected_templates),      cmocka_unit_test(test_changed_templates),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
