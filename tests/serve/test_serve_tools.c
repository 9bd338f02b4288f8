/* Tools in /v1/chat/completions and /v1/responses: calls that a model makes by itself and calls that it has to make,
 * whole and as events; requests that are refused. Each model generates a fixed text, independent of the prompt. */
#include "client.h"
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include "cmocka_all.h"

static struct serving server;

#define CALL(name, arguments) "<tool_call>{\"name\":\"" name "\",\"arguments\":" arguments "}</tool_call>"
#define MARK "\1" /* the token 1, a special one, whose text is [TOOL_CALLS] */

/* Templates print the calls of the assistant's messages: each member is a piece of Jinja, with c for a call. */
#define CALLS(before, one, between, after)                                                                             \
    before "{% for c in m.tool_calls %}" one "{% if not loop.last %}" between "{% endif %}{% endfor %}" after
#define JSON_CALL(arguments) "{\"name\": \"{{ c.function.name }}\", \"" arguments "\": {{ c.function.arguments }}}"
#define HERMES CALLS("", "<tool_call>\n" JSON_CALL("arguments") "\n</tool_call>", "\n", "")
#define SHORT_IDS                                                                                                      \
    "{% for c in m.tool_calls %}{% if c.id | length != 9 %}{{ raise_exception('ids') }}{% endif %}{% endfor %}"
#define MISTRAL SHORT_IDS CALLS("[TOOL_CALLS] [", JSON_CALL("arguments"), ", ", "]")

static const struct said {
    const char *model, *text;
    const char *calls; /* how the template prints calls; NULL: it takes no tools */
} said[] = {
    { "hermes", "Hm" CALL("f", "{\"a\":12}") CALL("g", "{}"), HERMES },
    { "mistral", MARK "[{\"name\":\"f\",\"arguments\":{\"a\":13}}]", MISTRAL },
    { "mistral3", MARK "f[ARGS]{\"a\":14}" MARK "g[ARGS]{}",
      CALLS("", "[TOOL_CALLS]{{ c.function.name }}[ARGS]{{ c.function.arguments }}", "", "") },
    { "phi", "<|tool_call|>[{\"name\":\"g\",\"arguments\":{}}]<|/tool_call|>",
      CALLS("<|tool_call|>[", JSON_CALL("arguments"), ", ", "]<|/tool_call|>") },
    { "llama", "{\"name\":\"f\",\"parameters\":{\"a\":15}}",
      "{% if m.tool_calls | length > 1 %}{{ raise_exception('one call') }}{% endif %}" CALLS(
          "", JSON_CALL("parameters"), "", "") },
    { "plain", "{\"name\":\"f\",\"arguments\":{\"a\":16}}", "" },
    { "text", "Hm{\"name\":\"f\"}", "" },
    { "quoted", "<tool_c<tool_call>{\"name\":\"h\",\"arguments\":{\"s\":\"}]\\\"{\"}}</tool_call>", HERMES },
    { "none", "Hm", NULL },
    { "answer", "{\"x\":1}", HERMES },
    { "both", "{\"name\":\"g\",\"arguments\":{}}", "" },
    { "ids", MARK "f[CALL_ID]aB_9[ARGS]{\"a\":18}",
      CALLS("", "[TOOL_CALLS]{{ c.function.name }}[CALL_ID]{{ c.id }}[ARGS]{{ c.function.arguments }}", "", "") },
    { "lines", "<call>f{\"a\":19}<call>g{}", /* white space may be missing */
      CALLS("", "<call>\n{{ c.function.name }}\n{{ c.function.arguments }}", "{{ '\\n' }}", "") },
    { "thinks", "<think>Hm<tool_call>{</think>Yes" CALL("f", "{\"a\":11}"), HERMES },
    { "two", MARK "[{\"name\":\"f\",\"arguments\":{\"a\":17}}]", MISTRAL }, /* see write_templates() */
};

/* The prompt is 40 characters, of which the first are the names of the tools; a message "show" fails with the messages
 * and tools as the template sees them. */
#define SHOWING                                                                                                        \
    "{% for m in messages %}{% if m.content == 'show' %}{{ raise_exception((messages | map(attribute='tool_calls', "   \
    "default='') | list | tojson) ~ (tools | tojson) ~ (messages | map(attribute='reasoning_content', default='') "    \
    "| join) ~ enable_thinking | default('')) }}{% endif %}{% endfor %}"                                               \
    "{{ ((tools or []) | map(attribute='function') | map(attribute='name') | join ~ '.' * 40)[:40] }}"                 \
    "{% for m in messages if m.role == 'assistant' %}{{ m.content or '' }}{% if m.tool_calls %}"

/* The model "two" has two templates: a default one, which takes no tools, and one for requests with tools. */
static void write_templates(const struct said *model)
{
    const bool two = strcmp(model->model, "two") == 0;
    const char *calls = model->calls != NULL ? model->calls : "";
    json_t *form = json_sprintf("%s%s%s", model->calls != NULL ? SHOWING : "{{ '.' * 40 }}", calls,
                                model->calls != NULL ? "{% endif %}{% endfor %}" : "");
    json_t *root = two ? json_pack("{s:[{s:s, s:s}, {s:s, s:o}]}", "chat_template", "name", "default", "template",
                                   "{{ '.' * 40 }}", "name", "tool_use", "template", form)
                       : json_pack("{s:o}", "chat_template", form);
    char name[64], *text = json_dumps(root, 0);

    (void)snprintf(name, sizeof name, "models/%s/tokenizer_config.json", model->model);
    serving_file(&server, name, text, 0644);
    free(text);
    json_decref(root);
}

static int start(void **state)
{
    static const char *const flags[] = { NULL };

    *state = &server;
    serving_prepare_empty(&server);
    for (size_t i = 0; i < sizeof said / sizeof said[0]; i++) {
        char name[64];

        saying = said[i].text;
        serving_model(&server, said[i].model, "options: [state=old=new]\n", write_saying);
        serving_tokenizer(&server, said[i].model, "[TOOL_CALLS]");
        (void)snprintf(name, sizeof name, "models/%s/config.json", said[i].model);
        serving_file(&server, name, "{\"eos_token_id\": 122}", 0644);
        write_templates(&said[i]);
    }
    serving_start(&server, flags);
    return 0;
}

#define F                                                                                                              \
    "{\"name\":\"f\",\"description\":\"d\",\"parameters\":{\"type\":\"object\",\"properties\":{\"a\":{\"type\":"       \
    "\"integer\",\"minimum\":10,\"maximum\":19}},\"required\":[\"a\"],\"additionalProperties\":false}"
#define TOOLS                                                                                                          \
    "\"tools\":[{\"type\":\"function\",\"function\":" F ",\"strict\":true}},{\"type\":\"function\",\"function\":{"     \
    "\"name\":\"g\"}},{\"type\":\"function\",\"function\":{\"name\":\"h\",\"parameters\":{\"type\":\"object\","        \
    "\"properties\":{\"s\":{\"type\":\"string\"}}}}}]"
#define X_SCHEMA                                                                                                       \
    "\"schema\":{\"type\":\"object\",\"properties\":{\"x\":{\"type\":\"integer\"}},\"required\":[\"x\"],"              \
    "\"additionalProperties\":false}"
#define O_SCHEMA "{\"type\":\"object\",\"properties\":{\"x\":{\"type\":\"integer\"}},\"required\":[\"x\"]}"
#define X_FORMAT "\"response_format\":{\"type\":\"json_schema\",\"json_schema\":{\"name\":\"x\"," X_SCHEMA "}}"
#define ANY_FORMAT "\"response_format\":{\"type\":\"json_object\"}"
#define FLAT_TOOLS "\"tools\":[{\"type\":\"function\"," F_MEMBERS ",\"strict\":true}]"
#define F_MEMBERS                                                                                                      \
    "\"name\":\"f\",\"parameters\":{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"integer\",\"minimum\":10,"   \
    "\"maximum\":19}},\"required\":[\"a\"]}"
#define ASK(model, more)                                                                                               \
    "{\"model\":\"" model "\",\"temperature\":0,\"max_tokens\":200,\"messages\":[{\"role\":\"user\",\"content\":"      \
    "\"x\"}]," more "}"

/* Asks and returns the reply's JSON, which the caller releases. */
static json_t *ask(const char *path, const char *body)
{
    struct answer answer;
    json_t *reply;

    client_once(&server, "POST", path, "", body, &answer);
    if (answer.code != 200)
        fail_msg("%s: %d %s", body, answer.code, answer.body);
    reply = json_loads(answer.body, 0, NULL);
    if (reply == NULL)
        fail_msg("%s", answer.body);
    return reply;
}

/* What a reply says: the text, the calls, and why it ends. */
static void said_in(const json_t *reply, char *out, size_t bytes)
{
    const json_t *choice = json_array_get(json_object_get(reply, "choices"), 0);
    const json_t *message = json_object_get(choice, "message"), *calls = json_object_get(message, "tool_calls");
    const char *text = json_string_value(json_object_get(message, "content"));
    size_t used = (size_t)snprintf(out, bytes, "%s", text != NULL ? text : "null");

    for (size_t i = 0; i < json_array_size(calls); i++) {
        const json_t *function = json_object_get(json_array_get(calls, i), "function");

        used +=
            (size_t)snprintf(out + used, bytes - used, " %s%s", json_string_value(json_object_get(function, "name")),
                             json_string_value(json_object_get(function, "arguments")));
    }
    (void)snprintf(out + used, bytes - used, " %s", json_string_value(json_object_get(choice, "finish_reason")));
}

static void test_calls(void **state)
{
    static const struct {
        const char *body, *want;
    } rows[] = {
        { ASK("hermes", TOOLS), "Hm f{\"a\":12} g{} tool_calls" },
        { ASK("hermes", TOOLS ",\"tool_choice\":\"auto\""), "Hm f{\"a\":12} g{} tool_calls" },
        { ASK("hermes", "\"tool_choice\":\"auto\"," TOOLS ",\"parallel_tool_calls\":false"),
          "Hm f{\"a\":12} tool_calls" },
        { ASK("hermes", TOOLS ",\"tool_choice\":\"none\""), "Hm" CALL("f", "{\"a\":12}") CALL("g", "{}") " stop" },
        { ASK("hermes", "\"tools\":[]"), "Hm" CALL("f", "{\"a\":12}") CALL("g", "{}") " stop" },
        { ASK("mistral", TOOLS), "null f{\"a\":13} tool_calls" },
        { ASK("mistral", "\"n\":1"), "[{\"name\":\"f\",\"arguments\":{\"a\":13}}] stop" }, /* no special token */
        { ASK("mistral3", TOOLS), "null f{\"a\":14} g{} tool_calls" },
        { ASK("phi", TOOLS), "null g{} tool_calls" },
        { ASK("ids", TOOLS), "null f{\"a\":18} tool_calls" },
        { ASK("lines", TOOLS), "null f{\"a\":19} g{} tool_calls" },
        { ASK("llama", TOOLS), "null f{\"a\":15} tool_calls" },
        { ASK("plain", TOOLS), "null f{\"a\":16} tool_calls" },
        { ASK("text", TOOLS), "Hm{\"name\":\"f\"} stop" },
        { ASK("text", TOOLS ",\"stop\":\"\\\"f\""), "Hm{\"name\": stop" },
        { ASK("quoted", TOOLS), "<tool_c h{\"s\":\"}]\\\"{\"} tool_calls" },
        { ASK("none", "\"n\":1"), "Hm stop" },
        /* forced, against what the model says */
        { ASK("hermes", TOOLS ",\"tool_choice\":{\"type\":\"function\",\"function\":{\"name\":\"g\"}}"),
          "null g{} tool_calls" },
        { ASK("plain", TOOLS ",\"tool_choice\":\"required\",\"parallel_tool_calls\":false"),
          "null f{\"a\":16} tool_calls" },
        { ASK("hermes", TOOLS ",\"tool_choice\":{\"type\":\"allowed_tools\",\"allowed_tools\":{\"mode\":\"required\","
                              "\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"g\"}}]}},"
                              "\"parallel_tool_calls\":false"),
          "null g{} tool_calls" },
        /* an answer of a given form, or calls: as the model says */
        { ASK("answer", TOOLS "," X_FORMAT), "{\"x\":1} stop" },
        { ASK("mistral", TOOLS "," X_FORMAT), "null f{\"a\":13} tool_calls" },
        { ASK("llama", TOOLS "," X_FORMAT), "null f{\"a\":15} tool_calls" },
        { ASK("both", TOOLS "," X_FORMAT), "null g{} tool_calls" },
        { ASK("both", TOOLS "," ANY_FORMAT), "null g{} tool_calls" }, /* the model's text has both forms */
        { ASK("both", TOOLS "," ANY_FORMAT ",\"tool_choice\":\"none\""), "{\"name\":\"g\",\"arguments\":{}} stop" },
        { ASK("both", TOOLS "," ANY_FORMAT ",\"stop\":\"g\""), "{\"name\":\" stop" },
        { "{\"model\":\"both\",\"temperature\":0,\"max_tokens\":12,\"messages\":[{\"role\":\"user\",\"content\":"
          "\"x\"}]," TOOLS "," ANY_FORMAT "}",
          "{\"name\":\"g\", length" },
        { ASK("answer", TOOLS "," ANY_FORMAT), "{\"x\":1} stop" },
        { ASK("answer", TOOLS "," X_FORMAT ",\"tool_choice\":{\"type\":\"function\",\"function\":{\"name\":\"g\"}},"
                              "\"parallel_tool_calls\":false"),
          "null g{} tool_calls" },
        /* the first form that a request gives is without tools */
        { ASK("two", "\"guided_regex\":\"[a-c]\""), "a stop" },
        { ASK("two", TOOLS ",\"tool_choice\":\"required\""), "null f{\"a\":17} tool_calls" },
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        json_t *reply = ask("/v1/chat/completions", rows[i].body);
        char text[1024];

        said_in(reply, text, sizeof text);
        if (strcmp(text, rows[i].want) != 0)
            fail_msg("%s: expected\n%s\ngot\n%s", rows[i].body, rows[i].want, text);
        json_decref(reply);
    }
}

/* Each part comes after the one before it. */
static void expect_order(const char *text, const char *const *parts)
{
    const char *at = text;

    for (; *parts != NULL; parts++) {
        at = strstr(at, *parts);
        if (at == NULL)
            fail_msg("%s is missing, or out of order, in\n%s", *parts, text);
        at += strlen(*parts);
    }
}

static char events[1 << 18];

/* A thought is apart from the answer, and calls no tools. */
static void test_thoughts(void **state)
{
    static const char *const parts[] = {
        "\"delta\":{\"role\":\"assistant\",\"content\":null,\"reasoning_content\":\"H\"}",
        "\"delta\":{\"reasoning_content\":\"m\"}",
        "\"delta\":{\"reasoning_content\":\"<t\"}",
        "\"delta\":{\"content\":\"Y\"}",
        "\"delta\":{\"content\":\"s\"}",
        "\"tool_calls\":[{\"index\":0,",
        "\"finish_reason\":\"tool_calls\"",
        NULL,
    };
    static const char *const lines[] = {
        "{\"model\":\"thinks\",\"created_at\":\"20",
        "Z\",\"message\":{\"role\":\"assistant\",\"content\":\"\",\"thinking\":\"H\"},\"done\":false}\n",
        "\"message\":{\"role\":\"assistant\",\"content\":\"Y\"},\"done\":false}\n",
        "\"message\":{\"role\":\"assistant\",\"content\":\"\",\"tool_calls\":[{\"function\":{\"name\":\"f\","
        "\"arguments\":{\"a\":11}}}]},\"done\":true,\"done_reason\":\"stop\",\"total_duration\":",
        NULL,
    };
#define O_ASK(more) "{\"model\":\"thinks:latest\",\"options\":{\"temperature\":0,\"num_predict\":-2}," more "}"
#define O_MESSAGES "\"messages\":[{\"role\":\"user\",\"content\":\"x\"}]"
    static const struct {
        const char *path, *body, *part;
        int code;
    } rows[] = {
        { "/v1/chat/completions", ASK("thinks", TOOLS),
          "\"content\":\"Yes\",\"reasoning_content\":\"Hm<tool_call>{\",\"tool_calls\":[{\"id\":", 200 },
        { "/v1/chat/completions", ASK("thinks", "\"reasoning_format\":\"none\""),
          "\"content\":\"<think>Hm<tool_call>{</think>Yes", 200 },
        { "/v1/chat/completions", ASK("thinks", "\"stop\":\"<too\""), "\"content\":\"\",\"reasoning_content\":\"Hm\"",
          200 },
        { "/v1/chat/completions", ASK("thinks", "\"reasoning_format\":\"odd\""), "reasoning_format: 'odd'", 400 },
        { "/v1/chat/completions", ASK("thinks", "\"guided_regex\":\"<think>.*\""), "\"content\":\"<think>Hm", 200 },
        { "/api/chat", O_ASK("\"stream\":false," O_MESSAGES "," TOOLS),
          "\"message\":{\"role\":\"assistant\",\"content\":\"Yes\",\"thinking\":\"Hm<tool_call>{\",\"tool_calls\":[{"
          "\"function\":{\"name\":\"f\",\"arguments\":{\"a\":11}}}]},\"done\":true,\"done_reason\":\"stop\",",
          200 },
        { "/api/generate", O_ASK("\"stream\":false,\"prompt\":\"x\",\"think\":true"), "\"response\":\"Yes<tool_call>",
          200 },
        { "/api/chat", O_ASK("\"stream\":false,\"format\":" O_SCHEMA "," O_MESSAGES),
          "\"content\":\"{\\\"x\\\":", 200 },
        { "/api/chat", O_ASK("\"format\":\"xml\"," O_MESSAGES), "{\"error\":\"format: neither", 400 },
        { "/api/chat", O_ASK("\"messages\":[{\"role\":\"user\",\"content\":\"x\",\"images\":[\"AA==\"]}]"),
          "the messages have images; the model takes texts only", 400 },
        { "/api/chat", "{\"model\":\"thinks\",\"options\":{\"beams\":1}," O_MESSAGES "}", "options: beams", 400 },
        { "/api/generate", "{\"model\":\"thinks\"}", "no prompt", 400 },
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        client_expect(&server, "POST", rows[i].path, "", rows[i].body, rows[i].code, rows[i].part);
    client_stream(&server, "/v1/chat/completions", ASK("thinks", TOOLS ",\"stream\":true"), NULL, events,
                  sizeof events);
    expect_order(events, parts);
    client_stream(&server, "/api/chat", O_ASK(O_MESSAGES "," TOOLS), NULL, events, sizeof events);
    expect_order(events, lines);
    client_expect(&server, "GET", "/api/tags", "", NULL, 200, ",{\"name\":\"thinks\",\"model\":\"thinks\"}");
}

/* The arguments of a forced call follow the schema, also if the model's text does not. */
static void test_forced_arguments(void **state)
{
    static const char *const models[] = { "hermes", "mistral", "mistral3", "phi",  "llama",
                                          "text",   "quoted",  "ids",      "lines" };

    (void)state;
    for (size_t i = 0; i < sizeof models / sizeof models[0]; i++) {
        char body[2048], text[1024];
        json_t *reply, *arguments;
        int64_t a;

        (void)snprintf(body, sizeof body,
                       "{\"model\":\"%s\",\"temperature\":0,\"max_tokens\":200,\"messages\":[{\"role\":\"user\","
                       "\"content\":\"x\"}]," TOOLS ",\"tool_choice\":{\"type\":\"function\",\"function\":{\"name\":"
                       "\"f\"}}}",
                       models[i]);
        reply = ask("/v1/chat/completions", body);
        said_in(reply, text, sizeof text);
        if (strncmp(text, "null f{", 7) != 0 || strstr(text, "} tool_calls") == NULL)
            fail_msg("%s: %s", models[i], text);
        strstr(text, " tool_calls")[0] = '\0';
        arguments = json_loads(text + 6, 0, NULL);
        a = json_integer_value(json_object_get(arguments, "a"));
        if (a < 10 || a > 19)
            fail_msg("%s: %s", models[i], text);
        json_decref(arguments);
        json_decref(reply);
    }
}

static void test_ids(void **state)
{
    json_t *first = ask("/v1/chat/completions", ASK("hermes", TOOLS)), *calls;
    json_t *second = ask("/v1/chat/completions", ASK("hermes", TOOLS));
    const char *ids[4];

    (void)state;
    for (int i = 0; i < 4; i++) {
        calls = json_object_get(
            json_object_get(json_array_get(json_object_get(i < 2 ? first : second, "choices"), 0), "message"),
            "tool_calls");
        ids[i] = json_string_value(json_object_get(json_array_get(calls, (size_t)i % 2), "id"));
        assert_true(strncmp(ids[i], "call_", 5) == 0 && strlen(ids[i]) == 29);
        for (int k = 0; k < i; k++)
            assert_string_not_equal(ids[i], ids[k]);
    }
    json_decref(first);
    json_decref(second);
    first = ask("/v1/chat/completions", ASK("mistral", TOOLS));
    calls =
        json_object_get(json_object_get(json_array_get(json_object_get(first, "choices"), 0), "message"), "tool_calls");
    assert_int_equal(strlen(json_string_value(json_object_get(json_array_get(calls, 0), "id"))), 9);
    json_decref(first);
}

static void test_events(void **state)
{
    static const char *const parts[] = {
        "\"delta\":{\"role\":\"assistant\",\"content\":\"H\"}",
        "\"delta\":{\"content\":\"m\"}",
        "\"delta\":{\"tool_calls\":[{\"index\":0,\"id\":\"call_",
        "\"type\":\"function\",\"function\":{\"name\":\"f\",\"arguments\":\"\"}}]},",
        "\"delta\":{\"tool_calls\":[{\"index\":0,\"function\":{\"arguments\":\"{\"}}]}",
        "\"delta\":{\"tool_calls\":[{\"index\":0,\"function\":{\"arguments\":\"}\"}}]}",
        "\"delta\":{\"tool_calls\":[{\"index\":1,\"id\":\"call_",
        "\"function\":{\"name\":\"g\",\"arguments\":\"\"}}]},",
        "\"delta\":{\"tool_calls\":[{\"index\":1,\"function\":{\"arguments\":\"{\"}}]}",
        "\"delta\":{},\"logprobs\":null,\"finish_reason\":\"tool_calls\"",
        "data: [DONE]",
        NULL,
    };
    static const char *const silent[] = {
        "\"delta\":{\"role\":\"assistant\",\"content\":null,\"tool_calls\":[{\"index\":0,\"id\":",
        "\"finish_reason\":\"tool_calls\"",
        NULL,
    };
    static const char *const answered[] = { "\"content\":\"{\"", "\"content\":\"1\"", "\"finish_reason\":\"stop\"",
                                            NULL };
    static const char *const called[] = { "\"function\":{\"name\":\"g\",\"arguments\":",
                                          "\"finish_reason\":\"tool_calls\"", NULL };
    static const char *const cut[] = { "\"name\":\"f\"", "\"delta\":{},\"logprobs\":null,\"finish_reason\":\"length\"",
                                       NULL };

    (void)state;
    client_stream(&server, "/v1/chat/completions", ASK("hermes", TOOLS ",\"stream\":true"), NULL, events,
                  sizeof events);
    expect_order(events, parts);
    assert_null(strstr(events, "<tool"));
    client_stream(&server, "/v1/chat/completions", ASK("mistral", TOOLS ",\"stream\":true"), NULL, events,
                  sizeof events);
    expect_order(events, silent);
    client_stream(&server, "/v1/chat/completions", ASK("answer", TOOLS "," X_FORMAT ",\"stream\":true"), NULL, events,
                  sizeof events);
    expect_order(events, answered);
    assert_null(strstr(events, "tool_calls"));
    client_stream(&server, "/v1/chat/completions", ASK("both", TOOLS "," ANY_FORMAT ",\"stream\":true"), NULL, events,
                  sizeof events);
    expect_order(events, called);
    assert_null(strstr(events, "\"content\":\"")); /* none before it was decided */
    client_stream(
        &server, "/v1/chat/completions",
        "{\"model\":\"llama\",\"temperature\":0,\"max_tokens\":20,\"stream\":true,\"messages\":[{\"role\":\"user\","
        "\"content\":\"x\"}]," TOOLS "}",
        NULL, events, sizeof events);
    expect_order(events, cut);
}

#define RESPOND(model, more)                                                                                           \
    "{\"model\":\"" model "\",\"temperature\":0,\"max_output_tokens\":200,\"input\":\"x\"," FLAT_TOOLS more "}"

static void test_responses(void **state)
{
    static const char *const parts[] = { "\"type\":\"response.created\"",
                                         "\"type\":\"response.output_item.added\"",
                                         "\"type\":\"message\"",
                                         "\"type\":\"response.output_text.delta\"",
                                         "\"type\":\"response.output_text.done\"",
                                         "\"text\":\"Hm\"",
                                         "\"type\":\"response.output_item.done\"",
                                         "\"type\":\"response.output_item.added\"",
                                         "\"output_index\":1,\"item\":{\"type\":\"function_call\"",
                                         "\"type\":\"response.function_call_arguments.delta\"",
                                         "\"type\":\"response.function_call_arguments.done\"",
                                         "\"arguments\":\"{\\\"a\\\":12}\"",
                                         "\"type\":\"response.output_item.done\"",
                                         "\"status\":\"completed\"",
                                         "\"type\":\"response.completed\"",
                                         NULL };
    json_t *reply = ask("/v1/responses", RESPOND("llama", ""));
    const json_t *items = json_object_get(reply, "output"), *item = json_array_get(items, 0);

    (void)state;
    assert_int_equal(json_array_size(items), 1);
    assert_string_equal(json_string_value(json_object_get(item, "type")), "function_call");
    assert_string_equal(json_string_value(json_object_get(item, "name")), "f");
    assert_string_equal(json_string_value(json_object_get(item, "arguments")), "{\"a\":15}");
    assert_int_equal(json_array_size(json_object_get(reply, "tools")), 1);
    json_decref(reply);
    reply = ask("/v1/responses",
                RESPOND("answer", ",\"text\":{\"format\":{\"type\":\"json_schema\",\"name\":\"x\"," X_SCHEMA "}}"));
    item = json_array_get(json_object_get(reply, "output"), 0);
    assert_string_equal(json_string_value(json_object_get(json_array_get(json_object_get(item, "content"), 0), "text")),
                        "{\"x\":1}");
    json_decref(reply);
    client_stream(&server, "/v1/responses", RESPOND("hermes", ",\"parallel_tool_calls\":false,\"stream\":true"), NULL,
                  events, sizeof events);
    expect_order(events, parts);
}

/* A thought is an item of its own before the message. */
static void test_reasoning(void **state)
{
    static const char *const parts[] = {
        "\"output_index\":0,\"item\":{\"type\":\"reasoning\",\"id\":\"rs_",
        "\"status\":\"in_progress\",\"summary\":[],\"content\":[]}",
        "\"type\":\"response.content_part.added\"",
        "\"output_index\":0,\"content_index\":0,\"part\":{\"type\":\"reasoning_text\",\"text\":\"\"}",
        "\"type\":\"response.reasoning_text.delta\"",
        "\"output_index\":0,\"content_index\":0,\"delta\":\"H\"}",
        "\"type\":\"response.reasoning_text.done\"",
        "\"text\":\"Hm<tool_call>{\"}",
        "\"type\":\"response.content_part.done\"",
        "\"type\":\"response.output_item.done\"",
        "\"status\":\"completed\",\"summary\":[],\"content\":[{\"type\":\"reasoning_text\",\"text\":\"Hm<tool_call>{\"}"
        "]}",
        "\"output_index\":1,\"item\":{\"type\":\"message\"",
        "\"output_index\":1,\"content_index\":0,\"logprobs\":[],\"delta\":\"Y\"}",
        "\"output_index\":2,\"item\":{\"type\":\"function_call\"",
        "\"type\":\"response.completed\"",
        "\"output\":[{\"type\":\"reasoning\"",
        "{\"type\":\"message\"",
        "{\"type\":\"function_call\"",
        NULL,
    };
    json_t *reply = ask("/v1/responses", RESPOND("thinks", ""));
    const json_t *items = json_object_get(reply, "output"), *item = json_array_get(items, 0);

    (void)state;
    assert_int_equal(json_array_size(items), 3);
    assert_string_equal(json_string_value(json_object_get(json_array_get(json_object_get(item, "content"), 0), "text")),
                        "Hm<tool_call>{");
    assert_string_equal(json_string_value(json_object_get(item, "status")), "completed");
    item =
        json_object_get(json_object_get(json_object_get(reply, "usage"), "output_tokens_details"), "reasoning_tokens");
    assert_int_equal(json_integer_value(item), strlen("<think>Hm<tool_call>{</think>"));
    json_decref(reply);
    client_stream(&server, "/v1/responses", RESPOND("thinks", ",\"stream\":true"), NULL, events, sizeof events);
    expect_order(events, parts);
    reply = ask("/v1/responses", "{\"model\":\"thinks\",\"temperature\":0,\"max_output_tokens\":9,\"input\":\"x\"}");
    item = json_array_get(json_object_get(reply, "output"), 0);
    assert_string_equal(json_string_value(json_object_get(item, "status")), "incomplete");
    json_decref(reply);
}

#define A_TOOLS                                                                                                        \
    "\"tools\":[{\"name\":\"f\",\"description\":\"d\",\"input_schema\":{\"type\":\"object\",\"properties\":{\"a\":{"   \
    "\"type\":"                                                                                                        \
    "\"integer\",\"minimum\":10,\"maximum\":19}},\"required\":[\"a\"]}},{\"type\":\"custom\",\"name\":\"g\",\"input_"  \
    "schema\":{"                                                                                                       \
    "\"type\":\"object\"}}]"
#define A_SHOW(more)                                                                                                   \
    "{\"model\":\"hermes\",\"max_tokens\":1,\"messages\":[{\"role\":\"user\",\"content\":\"show\"}]" more "}"
#define A_ASK(model, more)                                                                                             \
    "{\"model\":\"" model                                                                                              \
    "\",\"temperature\":0,\"max_tokens\":200,\"messages\":[{\"role\":\"user\",\"content\":\"x\"}]" more "}"

/* Anthropic's form: replies, events, and what the template sees of messages and tools. */
static void test_anthropic(void **state)
{
    static const struct {
        const char *body, *part;
        int code;
    } rows[] = {
        { A_ASK("hermes", "," A_TOOLS),
          "\"type\":\"message\",\"role\":\"assistant\",\"model\":\"hermes\",\"content\":[{\"type\":\"text\",\"text\":"
          "\"Hm\"},{\"type\":\"tool_use\",\"id\":\"call_",
          200 },
        { A_ASK("hermes", "," A_TOOLS), "\"name\":\"f\",\"input\":{\"a\":12}},{\"type\":\"tool_use\"", 200 },
        { A_ASK("hermes", "," A_TOOLS),
          "\"stop_reason\":\"tool_use\",\"stop_sequence\":null,\"usage\":{\"input_tokens\":", 200 },
        { A_ASK("hermes", "," A_TOOLS ",\"tool_choice\":{\"type\":\"auto\",\"disable_parallel_tool_use\":true}"),
          "\"input\":{\"a\":12}}],", 200 },
        { A_ASK("hermes", "," A_TOOLS ",\"tool_choice\":{\"type\":\"tool\",\"name\":\"none\"}"), "no such function",
          400 },
        { A_ASK("mistral", "," A_TOOLS), "\"content\":[{\"type\":\"tool_use\"", 200 },
        { A_ASK("thinks", "," A_TOOLS),
          "\"content\":[{\"type\":\"thinking\",\"thinking\":\"Hm<tool_call>{\",\"signature\":\"\"},{\"type\":\"text\","
          "\"text\":\"Yes\"},{\"type\":\"tool_use\"",
          200 },
        { "{\"model\":\"thinks\",\"temperature\":0,\"max_tokens\":9,\"messages\":[{\"role\":\"user\",\"content\":"
          "\"x\"}]}",
          "\"content\":[{\"type\":\"thinking\",\"thinking\":\"Hm\",\"signature\":\"\"}],\"stop_reason\":\"max_tokens\"",
          200 },
        { "{\"model\":\"hermes\",\"max_tokens\":1,\"messages\":[{\"role\":\"assistant\",\"content\":[{\"type\":"
          "\"thinking\",\"thinking\":\"so\",\"signature\":\"\"},{\"type\":\"text\",\"text\":\"yes\"}]},{\"role\":"
          "\"user\",\"content\":\"show\"}]}",
          "nullso", 400 },
        { A_ASK("none", ",\"stop_sequences\":[\"m\"]"),
          "\"text\":\"H\"}],\"stop_reason\":\"stop_sequence\",\"stop_sequence\":\"m\"", 200 },
        { A_ASK("none", ""), "\"text\":\"Hm\"}],\"stop_reason\":\"end_turn\"", 200 },
        { "{\"model\":\"none\",\"temperature\":0,\"max_tokens\":1,\"messages\":[{\"role\":\"user\",\"content\":\"x\"}]"
          "}",
          "\"stop_reason\":\"max_tokens\"", 200 },
        { A_SHOW(",\"thinking\":{\"type\":\"enabled\",\"budget_tokens\":1024}"), "nullTrue", 400 },
        { A_SHOW(",\"thinking\":{\"type\":\"adaptive\"}"), "nullTrue", 400 },
        { A_SHOW(",\"thinking\":{\"type\":\"disabled\"}"), "nullFalse", 400 },
        { A_SHOW(",\"thinking\":{\"type\":\"enabled\",\"budget_tokens\":\"all\"}"),
          "thinking: budget_tokens is no positive number", 400 },
        { A_SHOW(",\"thinking\":{\"type\":\"deep\"}"),
          "{\"type\":\"error\",\"error\":{\"message\":\"thinking: 'deep' is not supported", 400 },
        { "{\"model\":\"hermes\",\"max_tokens\":1,\"messages\":[{\"role\":\"user\",\"content\":\"show\"}]," A_TOOLS "}",
          "[\\\"\\\"][{\\\"type\\\": \\\"function\\\", \\\"function\\\": {\\\"name\\\": \\\"f\\\", "
          "\\\"description\\\": \\\"d\\\", \\\"parameters\\\": {\\\"type\\\": \\\"object\\\"",
          400 },
        { A_ASK("none", ",\"n\":2"), "n: not supported", 400 },
        { "{\"model\":\"hermes\",\"max_tokens\":1,\"messages\":[]}", "the request has no messages", 400 },
        { "{\"model\":\"hermes\",\"max_tokens\":1,\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"image\"}]}]"
          "}",
          "message 0: part 0 of the content: an image must be a data URI", 400 },
        { "{\"model\":\"hermes\",\"max_tokens\":1,\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"document\"}"
          "]"
          "}]}",
          "message 0: a block of type 'document' is not supported", 400 },
        { "{\"model\":\"hermes\",\"max_tokens\":1,\"messages\":[{\"role\":\"system\",\"content\":\"Hm\"}]}",
          "neither user nor assistant", 400 },
        { "{\"model\":\"hermes\",\"max_tokens\":1,\"system\":[{\"type\":\"text\",\"text\":\"s\"}],\"messages\":[{"
          "\"role\":\"user\",\"content\":\"x\"},{\"role\":\"assistant\",\"content\":[{\"type\":\"text\",\"text\":"
          "\"call\"},{\"type\":\"tool_use\",\"id\":\"i\",\"name\":\"f\",\"input\":{\"a\":[1]}}]},{\"role\":\"user\","
          "\"content\":[{\"type\":\"tool_result\",\"tool_use_id\":\"i\",\"content\":[{\"type\":\"text\",\"text\":"
          "\"show\"}]},{\"type\":\"text\",\"text\":\"go\"}]}]," A_TOOLS "}",
          "[\\\"\\\", \\\"\\\", [{\\\"id\\\": \\\"i\\\", \\\"type\\\": \\\"function\\\", \\\"function\\\": {"
          "\\\"name\\\": \\\"f\\\", \\\"arguments\\\": {\\\"a\\\": [1]}}}], \\\"\\\", \\\"\\\"]",
          400 },
    };
    static const char *const parts[] = {
        "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"msg_",
        "\"content\":[],\"stop_reason\":null,\"stop_sequence\":null,\"usage\":{\"input_tokens\":",
        "{\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":\"\"}}",
        "{\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"H\"}}",
        "{\"type\":\"content_block_stop\",\"index\":0}",
        "{\"type\":\"content_block_start\",\"index\":1,\"content_block\":{\"type\":\"tool_use\",\"id\":\"call_",
        "\"name\":\"f\",\"input\":{}}}",
        "{\"type\":\"content_block_delta\",\"index\":1,\"delta\":{\"type\":\"input_json_delta\",\"partial_json\":\"{\"}"
        "}",
        "{\"type\":\"content_block_stop\",\"index\":1}",
        "{\"type\":\"content_block_start\",\"index\":2,",
        "{\"type\":\"content_block_stop\",\"index\":2}",
        "{\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"tool_use\",\"stop_sequence\":null},\"usage\":{",
        "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n",
        NULL
    };
    static const char *const thoughts[] = {
        "{\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"thinking\",\"thinking\":\"\",",
        "\"index\":0,\"delta\":{\"type\":\"thinking_delta\",\"thinking\":\"H\"}}",
        "\"index\":0,\"delta\":{\"type\":\"signature_delta\",\"signature\":\"\"}}",
        "{\"type\":\"content_block_stop\",\"index\":0}",
        "{\"type\":\"content_block_start\",\"index\":1,\"content_block\":{\"type\":\"text\",\"text\":\"\"}}",
        "{\"type\":\"content_block_delta\",\"index\":1,\"delta\":{\"type\":\"text_delta\",\"text\":\"Y\"}}",
        "{\"type\":\"content_block_stop\",\"index\":1}",
        "{\"type\":\"content_block_start\",\"index\":2,\"content_block\":{\"type\":\"tool_use\",\"id\":\"call_",
        "{\"type\":\"content_block_stop\",\"index\":2}",
        "event: message_stop\n",
        NULL
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        client_expect(&server, "POST", "/v1/messages", "", rows[i].body, rows[i].code, rows[i].part);
    client_stream(&server, "/v1/messages", A_ASK("hermes", "," A_TOOLS ",\"stream\":true"), "message_stop\"}\n\n",
                  events, sizeof events);
    expect_order(events, parts);
    assert_null(strstr(events, "[DONE]"));
    client_stream(&server, "/v1/messages", A_ASK("thinks", "," A_TOOLS ",\"stream\":true"), "message_stop\"}\n\n",
                  events, sizeof events);
    expect_order(events, thoughts);
}

static void test_prompts(void **state)
{
    static const struct {
        const char *path, *body, *part;
    } rows[] = {
        { "/v1/chat/completions",
          "{\"model\":\"hermes\",\"messages\":[{\"role\":\"assistant\",\"content\":null,\"tool_calls\":[{\"id\":\"i\","
          "\"type\":\"function\",\"function\":{\"name\":\"f\",\"arguments\":\"{\\\"a\\\": [1]}\"}}]},{\"role\":"
          "\"tool\",\"tool_call_id\":\"i\",\"content\":\"show\"}]}",
          "\\\"name\\\": \\\"f\\\", \\\"arguments\\\": {\\\"a\\\": [1]}}}], \\\"\\\"]null" },
        { "/v1/responses",
          "{\"model\":\"hermes\",\"input\":[{\"type\":\"function_call\",\"call_id\":\"i\",\"name\":\"f\",\"arguments\":"
          "\"{}\"},{\"type\":\"function_call_output\",\"call_id\":\"i\",\"output\":\"show\"}]}",
          "[[{\\\"id\\\": \\\"i\\\", \\\"type\\\": \\\"function\\\", \\\"function\\\": {\\\"name\\\": \\\"f\\\"" },
        { "/v1/responses",
          "{\"model\":\"hermes\",\"input\":[{\"type\":\"reasoning\",\"id\":\"r\",\"summary\":[],\"content\":[{\"type\":"
          "\"reasoning_text\",\"text\":\"so\"}]},{\"type\":\"function_call\",\"call_id\":\"i\",\"name\":\"f\","
          "\"arguments\":\"{}\"},{\"type\":\"function_call_output\",\"call_id\":\"i\",\"output\":\"show\"}]}",
          "nullso" },
        { "/v1/responses",
          "{\"model\":\"hermes\",\"input\":[{\"type\":\"reasoning\",\"summary\":[{\"type\":\"summary_text\",\"text\":"
          "\"so\"}]},{\"type\":\"message\",\"role\":\"assistant\",\"content\":\"yes\"},{\"role\":\"user\","
          "\"content\":\"show\"}]}",
          "nullso" },
        { "/v1/chat/completions",
          "{\"model\":\"hermes\",\"messages\":[{\"role\":\"user\",\"content\":\"show\"}],\"tools\":[{\"type\":"
          "\"function\",\"function\":{\"name\":\"g\",\"strict\":false}}]}",
          "[{\\\"type\\\": \\\"function\\\", \\\"function\\\": {\\\"name\\\": \\\"g\\\", \\\"parameters\\\": "
          "{\\\"type\\\": \\\"object\\\"" },
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        client_expect(&server, "POST", rows[i].path, "", rows[i].body, 400, rows[i].part);
}

static void test_refused(void **state)
{
#define TOOL(more) "\"tools\":[{\"type\":\"function\",\"function\":{" more "}}]"
    static const struct {
        const char *body, *part;
    } rows[] = {
        { ASK("hermes", "\"tools\":{}"), "tools: not an array" },
        { ASK("hermes", "\"tools\":[{\"type\":\"web_search\"}]"),
          "tools: element 0: type 'web_search' is not supported; 'function' is" },
        { ASK("hermes", "\"tools\":[{\"type\":\"function\"}]"), "tools: element 0: function is not an object" },
        { ASK("hermes", TOOL("\"name\":\"a b\"")), "tools: element 0: the function has no name of 1 to 64" },
        { ASK("hermes", TOOL("\"name\":\"a\",\"parameters\":[]")), "tools: element 0: parameters is not an object" },
        { ASK("hermes", TOOL("\"name\":\"a\",\"strict\":1")), "tools: element 0: strict is neither" },
        { ASK("hermes", TOOL("\"name\":\"a\",\"strict\":true,\"parameters\":{\"type\":\"object\",\"properties\":{\"q\":"
                             "{\"type\":\"array\",\"uniqueItems\":true}}}")),
          "function 'a' is strict, and its parameters cannot be obeyed: the schema, 'uniqueItems'" },
        { ASK("hermes", TOOLS ",\"tool_choice\":\"maybe\""), "tool_choice: 'maybe' is not supported" },
        { ASK("hermes", TOOLS ",\"tool_choice\":{\"type\":\"function\",\"function\":{\"name\":\"q\"}}"),
          "tool_choice: there is no such function among the tools" },
        { ASK("hermes", "\"tool_choice\":\"required\""), "tool_choice: 'required' needs tools" },
        { "{\"model\":\"hermes\",\"messages\":[{\"role\":\"assistant\",\"tool_calls\":[{\"function\":{\"name\":\"f\","
          "\"arguments\":\"{\"}}]}]}",
          "messages: message 0: the arguments of a tool call are not a text of a JSON object" },
        { "{\"model\":\"hermes\",\"messages\":[{\"role\":\"assistant\",\"tool_calls\":[{}]}]}",
          "messages: message 0: a tool call has no name" },
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        client_expect(&server, "POST", "/v1/chat/completions", "", rows[i].body, 400, rows[i].part);
}

/* A tool that is not strict, whose schema cannot be obeyed, is named in each form of the reply. */
static void test_warnings(void **state)
{
#define ODD "\"parameters\":{\"type\":\"object\",\"properties\":{\"q\":{\"type\":\"array\",\"uniqueItems\":true}}}"
    static const struct {
        const char *path, *body;
    } rows[] = {
        { "/v1/chat/completions", ASK("hermes", TOOL("\"name\":\"a\"," ODD)) },
        { "/v1/chat/completions", ASK("hermes", TOOL("\"name\":\"a\"," ODD) ",\"stream\":true") },
        { "/v1/responses",
          "{\"model\":\"hermes\",\"input\":\"x\",\"max_output_tokens\":2,\"tools\":[{\"type\":\"function\","
          "\"name\":\"a\"," ODD "}]}" },
    };

    static const char warning[] =
        "\"warnings\":[\"function 'a' may get any object: its parameters cannot be obeyed: the "
        "schema, 'uniqueItems'";

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        client_stream(&server, rows[i].path, rows[i].body, NULL, events, sizeof events);
        if (strstr(events, warning) == NULL)
            fail_msg("row %zu has no warning: %s", i, events);
    }
    client_expect(&server, "POST", "/v1/chat/completions", "", ASK("none", TOOLS), 200,
                  "\"warnings\":[\"the model's chat template takes no tools; the first message describes them\"],");
    assert_true(client_metric(&server, "inlay_loose_tools_total{model=\"hermes\",version=\"1\"}") ==
                sizeof rows / sizeof rows[0]);
}

/* Later requests get copies of the grammars of earlier ones, with the same replies and warnings. */
static void test_kept_grammars(void **state)
{
    static const char *const bodies[] = {
        ASK("answer", X_FORMAT), ASK("hermes", TOOLS), ASK("hermes", TOOL("\"name\":\"a\"," ODD)),
        ASK("none", "\"guided_regex\":\"H.*\""), ASK("none", "\"guided_choice\":[\"Hm\",\"Hn\"]"),
        ASK("none", "\"grammar\":\"root ::= \\\"Hm\\\"\""), ASK("answer", ANY_FORMAT),
        /* the same tools, of which others may be called, or which are strict */
        ASK("hermes", TOOLS ",\"tool_choice\":{\"type\":\"function\",\"function\":{\"name\":\"f\"}}"),
        ASK("hermes", TOOLS ",\"parallel_tool_calls\":false")
    };
    enum { COUNT = sizeof bodies / sizeof *bodies };
    char heard[2][COUNT][256];
    double found = 0, built = 0;

    (void)state;
    for (int round = 0; round < 2; round++) {
        for (size_t i = 0; i < COUNT; i++) {
            json_t *reply = ask("/v1/chat/completions", bodies[i]);

            said_in(reply, heard[round][i], sizeof heard[round][i]);
            assert_true((json_object_get(reply, "warnings") != NULL) == (i == 2));
            json_decref(reply);
            assert_true(round == 0 || strcmp(heard[0][i], heard[1][i]) == 0);
        }
        if (round == 1)
            break;
        found = client_metric(&server, "inlay_grammars_total{result=\"found\"}");
        built = client_metric(&server, "inlay_grammars_total{result=\"built\"}");
    }
    assert_true(client_metric(&server, "inlay_grammars_total{result=\"found\"}") == found + COUNT);
    assert_true(client_metric(&server, "inlay_grammars_total{result=\"built\"}") == built);
    assert_true(client_metric(&server, "inlay_grammar_bytes") > 0);
    assert_string_not_equal(heard[0][1], heard[0][8]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_calls),     cmocka_unit_test(test_forced_arguments), cmocka_unit_test(test_ids),
        cmocka_unit_test(test_thoughts),  cmocka_unit_test(test_events),           cmocka_unit_test(test_responses),
        cmocka_unit_test(test_reasoning), cmocka_unit_test(test_anthropic),        cmocka_unit_test(test_prompts),
        cmocka_unit_test(test_refused),   cmocka_unit_test(test_warnings),         cmocka_unit_test(test_kept_grammars),
    };

    return cmocka_run_group_tests(tests, start, serving_tear_down);
}
