/* The form of tool calls, read from what chat templates print: templates like those of published models. */
#include "texts/chat/chat.h"
#include "texts/chat/tool_form.h"
#include <stdlib.h>
#include <string.h>
#include "cmocka_all.h"

/* Prompts and texts as "<|im_start|>role\n...<|im_end|>\n"; the calls of a message are printed by the piece `calls`. */
#define CHAT(calls)                                                                                                    \
    "{% if tools %}{{ tools | tojson }}{% endif %}{% for m in messages %}<|im_start|>{{ m.role }}\n{% if m.content "   \
    "%}{{ m.content }}{% endif %}" calls "<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>"          \
    "assistant\n{% endif %}"
#define EACH(one) "{% for c in m.tool_calls or [] %}{% set f = c.function %}" one "{% endfor %}"
#define ONCE(text) "{% if m.tool_calls %}" text "{% endif %}"

static const struct row {
    const char *name, *form;
    const char *trigger, *lead, *middle, *after, *next, *close;
    bool at_start, short_ids, single;
} rows[] = {
    { .name = "tags around JSON",
      .form =
          CHAT(EACH("{{ '\\n' }}<tool_call>\n{\"name\": \"{{ f.name }}\", \"arguments\": {{ f.arguments | tojson }}}\n"
                    "</tool_call>")),
      .trigger = "<tool_call>",
      .lead = "<tool_call>\n{\"name\": \"",
      .middle = "\", \"arguments\": ",
      .after = "}\n</tool_call>",
      .next = "\n<tool_call>\n{\"name\": \"",
      .close = "" },
    { .name = "an array with ids of 9 characters, which are dropped",
      .form = CHAT(ONCE("[TOOL_CALLS] [") EACH(
          "{% if c.id | length != 9 %}{{ raise_exception('length 9') }}{% endif %}{\"name\": \"{{ f.name }}\", "
          "\"arguments\": {{ f.arguments }}, \"id\": \"{{ c.id }}\"}{% if not loop.last %}, {% endif %}") ONCE("]")),
      .trigger = "[TOOL_CALLS]",
      .lead = "[TOOL_CALLS] [{\"name\": \"",
      .middle = "\", \"arguments\": ",
      .after = "}",
      .next = ", {\"name\": \"",
      .close = "]",
      .short_ids = true },
    { .name = "marks and an id",
      .form = CHAT(EACH("[TOOL_CALLS]{{ f.name }}[CALL_ID]{{ c.id }}[ARGS]{{ f.arguments | tojson }}")),
      .trigger = "[TOOL_CALLS]",
      .lead = "[TOOL_CALLS]",
      .middle = "[CALL_ID]\1[ARGS]",
      .after = "",
      .next = "[TOOL_CALLS]",
      .close = "" },
    { .name = "one call of JSON alone",
      .form = CHAT("{% if m.tool_calls | default([]) | length > 1 %}{{ raise_exception('one') }}{% endif %}" EACH(
          "{\"name\": \"{{ f.name }}\", \"parameters\": {{ f.arguments | tojson }}}")),
      .trigger = "{\"name\"",
      .lead = "{\"name\": \"",
      .middle = "\", \"parameters\": ",
      .after = "}",
      .next = "",
      .close = "",
      .at_start = true,
      .single = true },
    { .name = "nested tags that begin alike",
      .form = CHAT(ONCE("<|calls|>") EACH(
          "<|call|>function<|sep|>{{ f.name }}\n```json\n{{ f.arguments }}\n```<|/call|>") ONCE("<|/calls|>")),
      .trigger = "<|calls|>",
      .lead = "<|calls|><|call|>function<|sep|>",
      .middle = "\n```json\n",
      .after = "\n```<|/call|>",
      .next = "<|call|>function<|sep|>",
      .close = "<|/calls|>" },
    { .name = "whole calls, printed by the template's tojson",
      .form = CHAT(ONCE("<|tool_call|>{{ m.tool_calls | tojson }}")),
      .trigger = "<|tool_call|>",
      .lead = "<|tool_call|>[{\"type\": \"function\", \"function\": {\"name\": \"",
      .middle = "\", \"arguments\": ",
      .after = "}}",
      .next = ", {\"type\": \"function\", \"function\": {\"name\": \"",
      .close = "]" },
    { .name = "words and indented JSON",
      .form = CHAT(ONCE("Action: ```json\n[\n") EACH("    {\n        \"tool_name\": \"{{ f.name }}\",\n        "
                                                     "\"parameters\": {{ f.arguments | tojson(indent=4) }}\n"
                                                     "    }{% if not loop.last %},\n{% endif %}") ONCE("]```")),
      .trigger = "Action: ```json\n[",
      .lead = "Action: ```json\n[\n    {\n        \"tool_name\": \"",
      .middle = "\",\n        \"parameters\": ",
      .after = "\n    }",
      .next = ",\n    {\n        \"tool_name\": \"",
      .close = "]```" },
    { .name = "a name in a tag",
      .form = CHAT(EACH("<function={{ f.name }}>{{ f.arguments }}</function>")),
      .trigger = "<function=",
      .lead = "<function=",
      .middle = ">",
      .after = "</function>",
      .next = "<function=",
      .close = "" },
    { .name = "a message for each call",
      .form = CHAT(EACH("<c>{{ f.name }}<a>{{ f.arguments }}{% if not loop.last %}<|im_end|>\n<|im_start|>assistant\n"
                        "{% endif %}")),
      .trigger = "<c>",
      .lead = "<c>",
      .middle = "<a>",
      .after = "",
      .next = "",
      .close = "",
      .single = true },
    { .name = "calls of a role of their own",
      .form =
          "{{ tools | tojson }}{% for m in messages %}<|role|>{{ 'assistant' if m.role == 'assistant_tool_call' else "
          "m.role }}<|text|>{% if m.role == 'assistant_tool_call' %}<|tool_call|>{% endif %}{{ m.content }}"
          "<|im_end|>{% endfor %}{% if add_generation_prompt %}<|role|>assistant<|text|>{% endif %}",
      .trigger = "<|tool_call|>",
      .lead = "<|tool_call|>[{\"name\": \"",
      .middle = "\", \"arguments\": ",
      .after = "}",
      .next = ", {\"name\": \"",
      .close = "]" },
    { .name = "calls that the prompt asks for",
      .form = "{{ tools | tojson }}Answer with <|tool_call|> and a list.{% for m in messages %}<|{{ m.role }}|>"
              "{{ m.content }}{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}",
      .trigger = "<|tool_call|>",
      .lead = "<|tool_call|>[{\"name\": \"",
      .middle = "\", \"arguments\": ",
      .after = "}",
      .next = ", {\"name\": \"",
      .close = "]" },
    { .name = "tools without calls",
      .form = CHAT(""),
      .trigger = "{\"name\"",
      .lead = "{\"name\": \"",
      .middle = "\", \"arguments\": ",
      .after = "}",
      .next = "\n{\"name\": \"",
      .close = "",
      .at_start = true },
};

/* Reads the form of a template. */
static inlay_status read_form(const char *text, tool_form *out, inlay_diag *diag)
{
    static const char *const ends[] = { "<|im_end|>" };
    tool_template source = { .begin = "<s>", .end = "<|im_end|>", .ends = ends, .end_count = 1 };
    template_tree *tree = NULL;
    inlay_status status = chat_open(text, &tree, diag);

    source.tree = tree;
    assert_int_equal(status, INLAY_OK);
    status = tool_form_read(&source, out, diag);
    template_close(tree);
    return status;
}

static void test_forms(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const struct row *row = &rows[i];
        inlay_diag diag = INLAY_DIAG_INIT;
        tool_form form;

        if (read_form(row->form, &form, &diag) != INLAY_OK)
            fail_msg("%s: %s", row->name, diag.text);
        if (strcmp(form.trigger, row->trigger) != 0 || strcmp(form.lead, row->lead) != 0 ||
            strcmp(form.middle, row->middle) != 0 || strcmp(form.after, row->after) != 0 ||
            strcmp(form.next, row->next) != 0 || strcmp(form.close, row->close) != 0 ||
            form.at_start != row->at_start || form.short_ids != row->short_ids || form.single != row->single)
            fail_msg("%s: trigger '%s', lead '%s', middle '%s', after '%s', next '%s', close '%s', at_start %d, "
                     "short_ids %d, single %d",
                     row->name, form.trigger, form.lead, form.middle, form.after, form.next, form.close, form.at_start,
                     form.short_ids, form.single);
    }
}

static void test_special_tokens(void **state)
{
    inlay_diag diag = INLAY_DIAG_INIT;
    tool_form form;

    (void)state;
    assert_int_equal(read_form(rows[4].form, &form, &diag), INLAY_OK);
    assert_true(tool_form_has(&form, "<|sep|>", 7));
    assert_true(tool_form_has(&form, "<|/calls|>", 10));
    assert_false(tool_form_has(&form, "<|im_end|>", 10));
}

/* Templates that know no tools. */
static void test_unknown_tools(void **state)
{
    static const char *const forms[] = { "{% for m in messages %}{{ m.content }}{% endfor %}",
                                         "{# tools <tool_call> #}{% for m in messages %}{{ m.content }}{% endfor %}" };

    (void)state;
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        inlay_diag diag = INLAY_DIAG_INIT;
        tool_form form;

        assert_int_equal(read_form(forms[i], &form, &diag), INLAY_OK);
        assert_true(form.in_messages && form.at_start);
        assert_string_equal(form.trigger, "{\"name\"");
    }
}

static void test_refused(void **state)
{
    static const struct {
        const char *form, *part;
    } refused[] = {
        { CHAT(
              EACH("<c>{{ f.name }}{% for k, v in f.arguments | items %}<k>{{ k }}</k><v>{{ v }}</v>{% endfor %}</c>")),
          "writes no JSON object of arguments after the name" },
        { CHAT(EACH("<c>{\"arguments\": {{ f.arguments }}, \"name\": \"{{ f.name }}\"}</c>")),
          "writes no JSON object of arguments after the name" },
        { CHAT(EACH("{{ f.name }}{{ f.arguments }}")), "nothing before the name" },
        { CHAT(EACH("<c>{{ 'x' * 300 }}{{ f.name }}{{ f.arguments }}")), "more than 239 bytes" },
        { CHAT(EACH("<c>{{ f.name }} {{ c.id }}{{ f.arguments }}")), "or an id last" },
    };

    (void)state;
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        inlay_diag diag = INLAY_DIAG_INIT;
        tool_form form;

        if (read_form(refused[i].form, &form, &diag) != INLAY_UNSUPPORTED || strstr(diag.text, refused[i].part) == NULL)
            fail_msg("%s: %s", refused[i].form, diag.text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_forms), cmocka_unit_test(test_special_tokens),
                                        cmocka_unit_test(test_unknown_tools), cmocka_unit_test(test_refused) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
