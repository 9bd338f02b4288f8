/* Chats rendered as texts: common chat templates of published models, and rejected templates. The expected texts
 * were compared with Jinja's output. */
#include "texts/chat/chat.h"
#include <stdlib.h>
#include <string.h>
#include "cmocka_all.h"

static const char hello[] = "[{\"role\": \"user\", \"content\": \"Hi there \"}]";
static const char talk[] =
    "[{\"role\": \"system\", \"content\": \"S\"}, {\"role\": \"user\", \"content\": \" one\\n\"},"
    "{\"role\": \"assistant\", \"content\": \"two\"}, {\"role\": \"user\", \"content\": \"three\"}]";

static inlay_status render(const char *form, const char *messages, char **out_text, inlay_diag *diag)
{
    struct chat chat = { .begin = "<s>", .end = "</s>", .messages = json_loads(messages, 0, NULL) };
    template_tree *tree;
    inlay_status status;

    assert_non_null(chat.messages);
    *diag = (inlay_diag)INLAY_DIAG_INIT;
    *out_text = NULL;
    status = chat_open(form, &tree, diag);
    chat.form = tree;
    if (status == INLAY_OK)
        status = chat_render(&chat, out_text, diag);
    template_close(tree);
    json_decref(chat.messages);
    return status;
}

static void expect(const char *form, const char *messages, const char *want)
{
    inlay_diag diag;
    char *text = NULL;

    if (render(form, messages, &text, &diag) != INLAY_OK)
        fail_msg("%s: %s", form, diag.text);
    if (strcmp(text, want) != 0)
        fail_msg("%s: expected\n%s\ngot\n%s", form, want, text);
    free(text);
}

static void test_markers_around_messages(void **state)
{
    static const char form[] =
        "{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}{{ '<|in|>system\\nBe "
        "brief.<|out|>\\n' }}{% endif %}{{'<|in|>' + message['role'] + '\\n' + message['content'] + '<|out|>' + "
        "'\\n'}}{% endfor %}{% if add_generation_prompt %}{{ '<|in|>assistant\\n' }}{% endif %}";

    (void)state;
    expect(form, hello, "<|in|>system\nBe brief.<|out|>\n<|in|>user\nHi there <|out|>\n<|in|>assistant\n");
    expect(form, talk,
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
    inlay_diag diag;
    char *text;

    (void)state;
    expect(form, hello, "<s> [ASK] Hi there");
    expect(form, talk, "<s> [ASK] S: one two</s> [ASK] three");
    assert_int_equal(render(form, "[{\"role\": \"assistant\", \"content\": \"x\"}]", &text, &diag),
                     INLAY_INVALID_ARGUMENT);
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
    expect(form, hello, "<|user|>\nHi there </s>\n<|assistant|>\n");
    expect(form, talk, "<|other|>\n<|user|>\n one\n</s>\n<|other|>\n<|user|>\nthree</s>\n<|assistant|>\n");
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
        expect(rows[i].form, talk, rows[i].want);
}

static void test_rejected_template(void **state)
{
    inlay_diag diag;
    char *text;

    (void)state;
    assert_int_equal(render("a\n{% import 'x' as y %}", hello, &text, &diag), INLAY_UNSUPPORTED);
    assert_string_equal(diag.text, "the model's chat template, line 2: not supported: the statement 'import'");
    assert_null(text);
}

static void test_tools_and_variables(void **state)
{
    static const char form[] = "{% if tools %}{{ tools | tojson }}{% else %}{{ tools is none }}{% endif %}{{ thinks }}"
                               "{{ add_generation_prompt }}{{ documents is none }}";
    struct chat chat = { .begin = "", .end = "", .messages = json_array() };
    inlay_diag diag = INLAY_DIAG_INIT;
    template_tree *tree;
    char *text = NULL;

    (void)state;
    assert_int_equal(chat_open(form, &tree, &diag), INLAY_OK);
    chat.form = tree;
    assert_int_equal(chat_render(&chat, &text, &diag), INLAY_OK);
    assert_string_equal(text, "TrueTrueTrue");
    free(text);
    chat.tools = json_loads("[{\"type\": \"function\"}]", 0, NULL);
    chat.variables = json_loads("{\"thinks\": false}", 0, NULL);
    assert_int_equal(chat_render(&chat, &text, &diag), INLAY_OK);
    assert_string_equal(text, "[{\"type\": \"function\"}]FalseTrueTrue");
    free(text);
    template_close(tree); /* the template was rendered twice */
    json_decref(chat.messages);
    json_decref(chat.tools);
    json_decref(chat.variables);
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
            inlay_diag diag;
            char *changed = strdup(form), *text = NULL; /* exact size, so that a sanitizer detects over-reads */

            assert_non_null(changed);
            changed[i] = signs[k];
            if (render(changed, talk, &text, &diag) == INLAY_OK)
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
        cmocka_unit_test(test_rejected_template),       cmocka_unit_test(test_tools_and_variables),
        cmocka_unit_test(test_changed_templates),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
