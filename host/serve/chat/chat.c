/* Interpreter of chat templates: text and statements. */
#include "inlay/check.h"
#include "serve/chat/chat_internal.h"
#include <stdlib.h>
#include <string.h>

/* ------------------------------------------------------------------ text and tags */

/* Writes the text before a tag. Statements and comments remove the spaces before them on their line; `-`
 * removes all white space before the tag. */
static void put_text(struct machine *machine, const char *to, bool tag, bool block, bool minus, bool live)
{
    const char *from = machine->at, *line;

    if (machine->skips_line && from < to && *from == '\n')
        from++;
    while (machine->strips && from < to && machine_is_white(*from))
        from++;
    machine->strips = machine->skips_line = false;
    line = to;
    while (block && line > from && (line[-1] == ' ' || line[-1] == '\t'))
        line--;
    if (block && (line == machine->chat->form || line[-1] == '\n'))
        to = line;
    while (tag && minus && to > from && machine_is_white(to[-1]))
        to--;
    if (live)
        strbuf_add(&machine->out, from, (size_t)(to - from));
}

/* Moves past the opening signs of the next tag. Returns '{', '%' or '#', or '\0' at the end of the template. */
static char next_tag(struct machine *machine, bool live)
{
    const char *at = machine->at;
    bool minus;
    char kind;

    while (machine->end - at >= 2 && !(at[0] == '{' && (at[1] == '{' || at[1] == '%' || at[1] == '#')))
        at++;
    if (machine->end - at < 2) {
        put_text(machine, machine->end, false, false, false, live);
        machine->at = machine->end;
        return '\0';
    }
    kind = at[1];
    minus = machine->end - at > 2 && at[2] == '-';
    put_text(machine, at, true, kind != '{', minus, live);
    machine->at = at + 2 + minus;
    return kind;
}

/* Reads the closing signs of a tag: "%}" or "}}". */
static bool close_tag(struct machine *machine, const char *signs)
{
    machine->strips = machine_sign(machine, "-");
    if (!machine_sign(machine, signs))
        return machine_fail(machine, INLAY_UNSUPPORTED, "unexpected text:", machine->at,
                            (size_t)(machine->end - machine->at) < 20 ? (size_t)(machine->end - machine->at) : 20);
    machine->skips_line = signs[0] == '%';
    return true;
}

/* Skips an expression in a branch that is not taken, up to the closing signs. */
static bool skip_expression(struct machine *machine)
{
    char quote = '\0';

    for (; machine->at < machine->end; machine->at++) {
        if (quote == '\0' && machine_at_end(machine))
            return true;
        if (machine->at == machine->end)
            break;
        if (quote != '\0' && *machine->at == '\\' && machine->at + 1 < machine->end)
            machine->at++;
        else if (quote != '\0' ? *machine->at == quote : *machine->at == '\'' || *machine->at == '"')
            quote = quote != '\0' ? '\0' : *machine->at;
    }
    return machine_fail(machine, INLAY_UNSUPPORTED, "a tag that is not closed", "", 0);
}

static bool skip_comment(struct machine *machine)
{
    while (machine->end - machine->at >= 2 && !(machine->at[0] == '#' && machine->at[1] == '}'))
        machine->at++;
    if (machine->end - machine->at < 2)
        return machine_fail(machine, INLAY_UNSUPPORTED, "a comment that is not closed", "", 0);
    machine->strips = machine->at[-1] == '-';
    machine->skips_line = true;
    machine->at += 2;
    return true;
}

/* ------------------------------------------------------------------ statements */

/* The tag that ended a block, after its keyword was read. */
typedef enum ending { END_OF_TEXT, END_ELIF, END_ELSE, END_IF, END_FOR, END_FAILED } ending;

static ending run(struct machine *machine, bool live);

static bool read_condition(struct machine *machine, bool live, bool *out)
{
    struct value value;

    *out = false;
    if (!(live ? value_read(machine, &value) : skip_expression(machine)) || !close_tag(machine, "%}"))
        return false;
    *out = live && value_truth(&value);
    return true;
}

static bool run_if(struct machine *machine, bool live)
{
    bool now, taken = false;

    if (!read_condition(machine, live, &now))
        return false;
    for (;;) {
        ending how = run(machine, now);

        taken |= now;
        now = false;
        if (how == END_IF)
            return close_tag(machine, "%}");
        if (how == END_ELIF) {
            if (!read_condition(machine, live && !taken, &now))
                return false;
        } else if (how == END_ELSE) {
            now = live && !taken;
            if (!close_tag(machine, "%}"))
                return false;
        } else {
            return how == END_FAILED ? false : machine_fail(machine, INLAY_UNSUPPORTED, "an if without endif", "", 0);
        }
    }
}

/* Runs the body for each element. An empty list skips the body. */
static bool run_body(struct machine *machine, const char *name, size_t bytes, const struct value *list)
{
    const char *body = machine->at;
    const uint32_t variables = machine->variable_count, scope = machine->scope;
    const bool strips = machine->strips, skips_line = machine->skips_line;
    struct loop *loop;

    INLAY_CHECK(machine->loop_count < CHAT_LOOPS); /* run_for */
    loop = &machine->loops[machine->loop_count];

    *loop = (struct loop){ 0, list->count };
    for (size_t i = 0; i < (list->count > 0 ? list->count : 1); i++) {
        struct value self = { .kind = VALUE_LOOP, .number = machine->loop_count };
        ending how;

        loop->index = i;
        machine->at = body;
        machine->strips = strips;
        machine->skips_line = skips_line;
        machine->scope = variables;
        if (list->count > 0 &&
            (!machine_set(machine, name, bytes, 0, list->list[i]) || !machine_set(machine, "loop", 4, 0, self)))
            return false;
        machine->loop_count++;
        how = run(machine, list->count > 0);
        machine->loop_count--;
        machine->variable_count = variables;
        machine->scope = scope;
        if (how != END_FOR)
            return how == END_FAILED ? false : machine_fail(machine, INLAY_UNSUPPORTED, "a for without endfor", "", 0);
    }
    return close_tag(machine, "%}");
}

static bool run_for(struct machine *machine, bool live)
{
    struct value list = { .kind = VALUE_LIST };
    const char *name = "";
    size_t bytes = 0;

    if (live && (!machine_name(machine, &name, &bytes) || !machine_word(machine, "in")))
        return machine_fail(machine, INLAY_UNSUPPORTED, "a for over several names", "", 0);
    if (!(live ? value_read(machine, &list) : skip_expression(machine)) || !close_tag(machine, "%}"))
        return false;
    if (list.kind != VALUE_LIST)
        return machine_fail(machine, INLAY_UNSUPPORTED, "a for over a value that is not a list:", name, bytes);
    if (machine->loop_count == CHAT_LOOPS)
        return machine_fail(machine, INLAY_UNSUPPORTED, "more than 8 nested loops", "", 0);
    return run_body(machine, name, bytes, &list);
}

static bool run_set(struct machine *machine, bool live)
{
    const char *name, *part = NULL;
    size_t bytes, part_bytes = 0;
    int namespace_id = 0;
    struct value value;

    if (!live)
        return skip_expression(machine) && close_tag(machine, "%}");
    if (!machine_name(machine, &name, &bytes))
        return machine_fail(machine, INLAY_UNSUPPORTED, "a set without a name", "", 0);
    if (machine_sign(machine, ".") && !machine_name(machine, &part, &part_bytes))
        return machine_fail(machine, INLAY_UNSUPPORTED, "a set without a name", "", 0);
    for (uint32_t i = machine->variable_count; part != NULL && namespace_id == 0 && i-- > 0;)
        if (machine->variables[i].value.kind == VALUE_NAMESPACE && machine->variables[i].bytes == bytes &&
            memcmp(machine->variables[i].name, name, bytes) == 0)
            namespace_id = (int)machine->variables[i].value.number;
    if (!machine_sign(machine, "=") || (part != NULL && namespace_id == 0))
        return machine_fail(machine, INLAY_UNSUPPORTED, "this form of set for", name, bytes);
    return value_read(machine, &value) &&
           machine_set(machine, part != NULL ? part : name, part != NULL ? part_bytes : bytes, namespace_id, value) &&
           close_tag(machine, "%}");
}

/* Runs a statement. If it ends a block instead, *out is set. */
static bool run_statement(struct machine *machine, bool live, ending *out)
{
    static const struct {
        const char *word;
        ending how;
    } ends[] = { { "elif", END_ELIF }, { "else", END_ELSE }, { "endif", END_IF }, { "endfor", END_FOR } };
    const char *name = "";
    size_t bytes = 0;
    bool good;

    for (int i = 0; i < 4; i++) {
        if (!machine_word(machine, ends[i].word))
            continue;
        *out = ends[i].how;
        return true;
    }
    if (machine->nested++ == CHAT_NESTED)
        return machine_fail(machine, INLAY_LIMIT_EXCEEDED, "it is nested too deeply", "", 0);
    if (machine_word(machine, "if"))
        good = run_if(machine, live);
    else if (machine_word(machine, "for"))
        good = run_for(machine, live);
    else if (machine_word(machine, "set"))
        good = run_set(machine, live);
    else
        good = machine_name(machine, &name, &bytes) &&
               machine_fail(machine, INLAY_UNSUPPORTED, "the statement", name, bytes);
    if (!good)
        (void)machine_fail(machine, INLAY_UNSUPPORTED, "a statement without a keyword", "", 0);
    machine->nested--;
    return good;
}

static ending run(struct machine *machine, bool live)
{
    for (;;) {
        ending how = END_OF_TEXT;
        struct value value;

        switch (next_tag(machine, live)) {
        case '\0':
            return END_OF_TEXT;
        case '#':
            if (!skip_comment(machine))
                return END_FAILED;
            break;
        case '{':
            if (!(live ? value_read(machine, &value) && value_print(machine, &value) : skip_expression(machine)) ||
                !close_tag(machine, "}}"))
                return END_FAILED;
            break;
        default:
            if (!run_statement(machine, live, &how))
                return END_FAILED;
            if (how != END_OF_TEXT)
                return how;
        }
        if (machine->steps++ > CHAT_STEPS) {
            (void)machine_fail(machine, INLAY_LIMIT_EXCEEDED, "it takes too long", "", 0);
            return END_FAILED;
        }
    }
}

/* ------------------------------------------------------------------ messages to text */

static bool define(struct machine *machine, const char *name, struct value value)
{
    return machine_set(machine, name, strlen(name), 0, value);
}

static bool define_all(struct machine *machine)
{
    const struct chat *chat = machine->chat;
    struct value *list = machine_memory(machine, chat->count * sizeof *list);

    for (uint32_t i = 0; list != NULL && i < chat->count; i++)
        list[i] = (struct value){ .kind = VALUE_MESSAGE, .message = &chat->messages[i] };
    return list != NULL &&
           define(machine, "messages", (struct value){ .kind = VALUE_LIST, .list = list, .count = chat->count }) &&
           define(machine, "add_generation_prompt", (struct value){ .kind = VALUE_BOOL, .number = 1 }) &&
           define(machine, "bos_token", text_value(chat->begin, strlen(chat->begin))) &&
           define(machine, "eos_token", text_value(chat->end, strlen(chat->end)));
}

inlay_status chat_render(const struct chat *chat, char **out_text, inlay_diag *diag)
{
    struct machine *machine = calloc(1, sizeof *machine);
    inlay_diag failure = INLAY_DIAG_INIT;

    *out_text = NULL;
    if (machine == NULL)
        return no_memory(diag, "for the chat");
    machine->chat = chat;
    machine->diag = &failure;
    machine->at = chat->form;
    machine->end = chat->form + strlen(chat->form);
    machine->end -=
        machine->end > machine->at && machine->end[-1] == '\n'; /* the last end of line is not part of the template */
    if (define_all(machine) && run(machine, true) != END_OF_TEXT)
        (void)machine_fail(machine, INLAY_UNSUPPORTED, "an end tag without its start tag", "", 0);
    strbuf_add(&machine->out, "", 1);
    if (machine->out.failed)
        (void)machine_fail(machine, INLAY_OUT_OF_MEMORY, "out of memory for the text", "", 0);
    for (size_t i = 0; i < machine->memory_count; i++)
        free(machine->memory[i]);
    free((void *)machine->memory);
    if (machine->failed)
        strbuf_deinit(&machine->out);
    else
        *out_text = machine->out.data;
    free(machine);
    return failure.code == INLAY_OK ? INLAY_OK : inlay_fail(diag, failure.code, "%s", failure.text);
}
