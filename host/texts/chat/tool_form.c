#include "texts/chat/tool_form.h"
#include "texts/chat/chat.h"
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What the made-up chat says. No template prints these texts by itself. */
#define CONTENT "Zqx"
#define TOOL "inlay_offered"
static const char *const names[] = { "inlay_first", "inlay_second" };
static const char key[] = "inlay_key", value[] = "inlay_value";
static const char *const ids[][2] = { { "call_inlayMadeUpIdentifier001", "call_inlayMadeUpIdentifier002" },
                                      { "inlayId01", "inlayId02" } };

/* A kind of made-up answer; templates refuse some of them. */
struct made_up {
    int calls; /* 0: the answer is CONTENT */
    bool short_ids, has_content;
    bool as_text; /* the calls are the content of a message of the role assistant_tool_call, as in Granite 3.0 */
};

static json_t *make_call(const struct made_up *kind, int index)
{
    return json_pack("{s:s, s:s, s:{s:s, s:{s:s}}}", "id", ids[kind->short_ids][index], "type", "function", "function",
                     "name", names[index], "arguments", key, value);
}

/* The chat's messages; kind NULL: without the answer. NULL: out of memory. */
static json_t *make_messages(const struct made_up *kind)
{
    json_t *messages = json_pack("[{s:s, s:s}]", "role", "user", "content", "U"), *answer, *calls;

    if (kind == NULL)
        return messages;
    if (kind->as_text) {
        (void)json_array_append_new(
            messages,
            json_pack("{s:s, s:s}", "role", "assistant_tool_call", "content",
                      "[{\"name\": \"inlay_first\", \"arguments\": {\"inlay_key\": \"inlay_value\"}}, {\"name\": "
                      "\"inlay_second\", \"arguments\": {\"inlay_key\": \"inlay_value\"}}]"));
        return messages;
    }
    answer = json_pack("{s:s, s:o}", "role", "assistant", "content",
                       kind->calls == 0    ? json_string(CONTENT)
                       : kind->has_content ? json_string("")
                                           : json_null());
    if (kind->calls > 0) {
        calls = json_array();
        for (int i = 0; i < kind->calls; i++)
            (void)json_array_append_new(calls, make_call(kind, i));
        (void)json_object_set_new(answer, "tool_calls", calls);
    }
    (void)json_array_append_new(messages, answer);
    return messages;
}

/* The text of the chat, which the caller frees; NULL: diag says why. */
static char *render(const tool_template *source, const struct made_up *kind, inlay_diag *diag)
{
    struct chat chat = { .form = source->tree,
                         .begin = source->begin,
                         .end = source->end,
                         .messages = make_messages(kind),
                         .tools =
                             json_pack("[{s:s, s:{s:s, s:s, s:{s:s, s:{s:{s:s, s:s}}, s:[s]}}}]", "type", "function",
                                       "function", "name", TOOL, "description", "D", "parameters", "type", "object",
                                       "properties", key, "type", "string", "description", "K", "required", key),
                         .is_complete = kind != NULL };
    char *text = NULL;

    *diag = (inlay_diag)INLAY_DIAG_INIT;
    if (chat_render(&chat, &text, diag) != INLAY_OK)
        text = NULL;
    json_decref(chat.messages);
    json_decref(chat.tools);
    return text;
}

/* The JSON object {key: value} in the text, with any white space; NULL: there is none. *end: what follows it. */
static const char *find_arguments(const char *text, const char **end)
{
    const char *const tokens[] = { "{", "\"inlay_key\"", ":", "\"inlay_value\"", "}" };

    for (const char *start = strchr(text, '{'); start != NULL; start = strchr(start + 1, '{')) {
        const char *at = start;
        size_t i = 0;

        for (; i < sizeof tokens / sizeof *tokens; i++) {
            at += strspn(at, " \n\t\r");
            if (strncmp(at, tokens[i], strlen(tokens[i])) != 0)
                break;
            at += strlen(tokens[i]);
        }
        *end = at;
        if (i == sizeof tokens / sizeof *tokens)
            return start;
    }
    return NULL;
}

static size_t common_start(const char *a, const char *b)
{
    size_t bytes = 0;

    while (a[bytes] != '\0' && a[bytes] == b[bytes])
        bytes++;
    return bytes;
}

static size_t common_end(const char *a, const char *b)
{
    const size_t a_bytes = strlen(a), b_bytes = strlen(b);
    size_t bytes = 0;

    while (bytes < a_bytes && bytes < b_bytes && a[a_bytes - 1 - bytes] == b[b_bytes - 1 - bytes])
        bytes++;
    return bytes;
}

/* Where the tag begins in which the first `bytes` of the text end; `bytes` if they end in none. */
static size_t tag_start(const char *text, size_t bytes)
{
    for (size_t i = bytes; i > 0 && text[i - 1] != '>' && text[i - 1] != ']'; i--)
        if (text[i - 1] == '<' || text[i - 1] == '[')
            return i - 1;
    return bytes;
}

/* Removes the JSON member whose value is the id at `at`, and its comma: models need not write it. false: it is none. */
static bool drop_member(char *text, char *at, size_t id_bytes)
{
    char *from = at, *to = at + id_bytes + 1;

    if (at == text || at[-1] != '"' || to[-1] != '"')
        return false;
    while (from > text && *from != ':')
        from--;
    while (from > text && *from != ',' && *from != '{')
        from--;
    if (*from == '{') { /* the first member */
        to += strspn(to, " \n");
        if (*to++ != ',')
            return false;
        to += strspn(to, " \n");
        from++;
    } else if (*from != ',') {
        return false;
    }
    memmove(from, to, strlen(to) + 1);
    return true;
}

/* Removes the ids of the calls that are members of JSON objects. Others become TOOL_FORM_ID. */
static void drop_ids(char *text)
{
    for (int i = 0; i < 4; i++) {
        const char *id = ids[i / 2][i % 2];
        const size_t bytes = strlen(id);

        for (char *at = strstr(text, id); at != NULL; at = strstr(text, id)) {
            if (drop_member(text, at, bytes))
                continue;
            *at = TOOL_FORM_ID;
            memmove(at + 1, at + bytes, strlen(at + bytes) + 1);
        }
    }
}

/* Copies a part. false: it is too long, or ends in an id, whose end a reader could not find. */
static bool put_part(char out[TOOL_PART_BYTES], const char *text, size_t bytes)
{
    if (bytes >= TOOL_PART_BYTES || (bytes > 0 && text[bytes - 1] == TOOL_FORM_ID))
        return false;
    memcpy(out, text, bytes);
    out[bytes] = '\0';
    return true;
}

/* Sets the trigger, the beginning that distinguishes a call from other text: its first tag; of JSON, its first key;
 * otherwise all that precedes the JSON. */
static void find_trigger(tool_form *form)
{
    const char *lead = form->lead, *end = NULL;
    size_t bytes = strcspn(lead, "{");

    form->at_start = lead[strspn(lead, "[ \n")] == '{';
    if (form->at_start) {
        end = strchr(lead, '"');
        end = end != NULL ? strchr(end + 1, '"') : NULL;
    } else if (lead[0] == '<' || lead[0] == '[') {
        end = strchr(lead, lead[0] == '<' ? '>' : ']');
    }
    if (end != NULL)
        bytes = (size_t)(end - lead) + 1;
    while (bytes > 0 && isspace((unsigned char)lead[bytes - 1]))
        bytes--;
    (void)snprintf(form->trigger, sizeof form->trigger, "%.*s", (int)bytes, lead);
}

/* The first token in the text that ends a text; NULL: there is none. */
static const char *find_end(const tool_template *source, const char *text)
{
    const char *first = NULL;

    for (size_t i = 0; i < source->end_count; i++) {
        const char *end = source->ends[i][0] != '\0' ? strstr(text, source->ends[i]) : NULL;

        if (end != NULL && (first == NULL || end < first))
            first = end;
    }
    return first;
}

/* The length of the calls' part of `tail`, which is what follows the last call's arguments: up to a token that ends a
 * text, and to what also ends a message without calls. */
static size_t calls_end(const tool_template *source, const char *tail, const char *plain)
{
    const size_t whole = strlen(tail);
    const char *token = find_end(source, tail);
    size_t bytes = whole - common_end(tail, plain);

    if (tag_start(tail, bytes) < bytes) /* the messages end in different tags that have the same ending */
        bytes += strcspn(tail + bytes, ">]") + (bytes < whole);
    if (token != NULL && (size_t)(token - tail) < bytes)
        bytes = (size_t)(token - tail);
    while (bytes > 0 && isspace((unsigned char)tail[bytes - 1]))
        bytes--;
    return bytes < whole ? bytes : whole;
}

/* Finds the texts after a call's arguments. end: after those of the first; second: the next call's name, or NULL. */
static bool find_ends(const tool_template *source, const char *end, const char *second, const char *plain,
                      tool_form *out)
{
    const char *tail = NULL, *token = find_end(source, end);
    size_t tail_bytes, bytes;

    if (second != NULL && find_arguments(second, &tail) != NULL && (token == NULL || token > second)) {
        tail_bytes = calls_end(source, tail, plain);
        bytes = common_start(end, tail);
        bytes = tag_start(end, bytes < tail_bytes ? bytes : tail_bytes);
        return put_part(out->after, end, bytes) && put_part(out->next, end + bytes, (size_t)(second - end) - bytes) &&
               put_part(out->close, tail + bytes, tail_bytes - bytes);
    }
    out->single = true;
    return put_part(out->after, end, calls_end(source, end, plain));
}

/* Finds the parts of the form in `text`, a chat with calls. plain: with a text instead; prompt: without an answer. */
static inlay_status find_parts(const tool_template *source, const char *text, const char *plain, const char *prompt,
                               tool_form *out, inlay_diag *diag)
{
    const size_t prompt_bytes = strlen(prompt);
    size_t start = tag_start(text, common_start(text, plain));
    const char *name, *arguments, *end;

    if (strncmp(text, prompt, prompt_bytes) == 0 && prompt_bytes > start)
        start = prompt_bytes;
    start += strspn(text + start, " \n\t\r");
    name = strstr(text, names[0]);
    arguments = find_arguments(text + start, &end);
    if (arguments == NULL || arguments < name)
        return inlay_fail(diag, INLAY_UNSUPPORTED,
                          "the model's chat template writes no JSON object of arguments after the name of a call");
    if (text + start >= name)
        return inlay_fail(diag, INLAY_UNSUPPORTED,
                          "in the model's chat template nothing before the name distinguishes a call from other text");
    if (!put_part(out->lead, text + start, (size_t)(name - text) - start) ||
        !put_part(out->middle, name + strlen(names[0]), (size_t)(arguments - name) - strlen(names[0])) ||
        !find_ends(source, end, strstr(name, names[1]), plain, out))
        return inlay_fail(diag, INLAY_UNSUPPORTED,
                          "the model's chat template writes more than %d bytes, or an id last, around the name or the "
                          "arguments of a call",
                          TOOL_PART_BYTES - 1);
    find_trigger(out);
    return INLAY_OK;
}

/* Renders the chat with two calls, or with one, in a way that the template takes. NULL: it prints none. */
static char *render_calls(const tool_template *source, const char *prompt, tool_form *out)
{
    for (int i = 0; i < 9; i++) {
        const struct made_up kind = {
            .calls = 2 - i / 4 % 2, .short_ids = i / 2 % 2 == 1, .has_content = i % 2 == 1, .as_text = i == 8
        };
        inlay_diag refused;
        char *text = render(source, &kind, &refused);
        const bool answers = text != NULL && (!kind.as_text || strncmp(text, prompt, strlen(prompt)) == 0);

        if (answers && strstr(text, names[0]) != NULL && (kind.calls == 1 || strstr(text, names[1]) != NULL)) {
            out->short_ids = kind.short_ids;
            drop_ids(text);
            return text;
        }
        free(text);
    }
    return NULL;
}

/* The form of calls that a template does not print: JSON alone, or what Granite's templates ask for in the prompt. */
static void assume_form(const char *prompt, tool_form *out)
{
    static const tool_form alone = { .at_start = true,
                                     .trigger = "{\"name\"",
                                     .lead = "{\"name\": \"",
                                     .middle = "\", \"arguments\": ",
                                     .after = "}",
                                     .next = "\n{\"name\": \"" };
    static const tool_form array = { .trigger = "<|tool_call|>",
                                     .lead = "<|tool_call|>[{\"name\": \"",
                                     .middle = "\", \"arguments\": ",
                                     .after = "}",
                                     .next = ", {\"name\": \"",
                                     .close = "]" };

    *out = strstr(prompt, array.trigger) != NULL ? array : alone;
}

inlay_status tool_form_read(const tool_template *source, tool_form *out, inlay_diag *diag)
{
    const struct made_up answer = { .calls = 0 };
    char *prompt = render(source, NULL, diag), *plain = NULL, *calls = NULL;
    inlay_status status = INLAY_OK;

    *out = (tool_form){ .single = false };
    if (prompt == NULL) {
        status = diag->code;
    } else if (strstr(prompt, TOOL) == NULL) {
        assume_form("", out);
        out->in_messages = true;
    } else if ((calls = render_calls(source, prompt, out)) == NULL) {
        assume_form(prompt, out);
    } else {
        plain = render(source, &answer, diag);
        status = plain != NULL ? find_parts(source, calls, plain, prompt, out, diag) : diag->code;
    }
    free(prompt);
    free(plain);
    free(calls);
    return status;
}

bool tool_form_has(const tool_form *form, const char *text, size_t bytes)
{
    const char *const parts[] = { form->lead, form->middle, form->after, form->next, form->close };

    for (size_t i = 0; i < sizeof parts / sizeof *parts && bytes > 0; i++)
        if (memmem(parts[i], strlen(parts[i]), text, bytes) != NULL)
            return true;
    return false;
}
