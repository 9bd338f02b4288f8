/* The text and the statements of a template. */
#include "serve/chat_internal.h"
#include <stdlib.h>
#include <string.h>

/* ------------------------------------------------------------------ the machine */

bool machine_fail(struct machine *m, inlay_status status, const char *what, const char *detail, size_t bytes)
{
    unsigned line = 1;

    if (m->failed)
        return false;
    m->failed = true;
    for (const char *at = m->chat->form; at < m->at; at++)
        line += *at == '\n';
    if (bytes > 80)
        bytes = 80;
    if (what == NULL)
        (void)inlay_fail(m->diag, status, "the model's chat template refuses the messages: %.*s", (int)bytes, detail);
    else
        (void)inlay_fail(m->diag, status, "the model's chat template, line %u: %s%s%s%.*s%s", line,
                         status == INLAY_UNSUPPORTED ? "not supported: " : "", what, bytes > 0 ? " '" : "", (int)bytes,
                         detail, bytes > 0 ? "'" : "");
    return false;
}

void *machine_memory(struct machine *m, size_t bytes)
{
    void *memory = NULL;

    if (m->memory_bytes + bytes <= 2u * CHAT_BYTES && LIST_GROW(m->memory, m->memory_count))
        memory = malloc(bytes > 0 ? bytes : 1);
    if (memory == NULL) {
        (void)machine_fail(m, INLAY_OUT_OF_MEMORY, "there is no memory for the text", "", 0);
        return NULL;
    }
    m->memory[m->memory_count++] = memory;
    m->memory_bytes += bytes + 16;
    return memory;
}

bool machine_set(struct machine *m, const char *name, size_t bytes, int space, struct value v)
{
    uint32_t from = space == 0 ? m->scope : 0;

    if (m->quiet > 0)
        return true;
    for (uint32_t i = from; i < m->variable_count; i++) {
        struct variable *x = &m->variables[i];

        if (x->space == space && x->bytes == bytes && memcmp(x->name, name, bytes) == 0) {
            x->value = v;
            return true;
        }
    }
    if (m->variable_count == CHAT_VARIABLES)
        return machine_fail(m, INLAY_UNSUPPORTED, "another name after 64,", name, bytes);
    m->variables[m->variable_count++] = (struct variable){ name, bytes, space, v };
    return true;
}

static bool is_white(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

void machine_spaces(struct machine *m)
{
    while (m->at < m->end && is_white(*m->at))
        m->at++;
}

static bool comes(const struct machine *m, const char *sign)
{
    size_t bytes = strlen(sign);

    return (size_t)(m->end - m->at) >= bytes && memcmp(m->at, sign, bytes) == 0;
}

bool machine_sign(struct machine *m, const char *sign)
{
    machine_spaces(m);
    if (!comes(m, sign))
        return false;
    m->at += strlen(sign);
    return true;
}

bool machine_name(struct machine *m, const char **out, size_t *out_bytes)
{
    const char *from;

    machine_spaces(m);
    from = m->at;
    if (m->at == m->end || !is_letter(*m->at))
        return false;
    while (m->at < m->end && (is_letter(*m->at) || (*m->at >= '0' && *m->at <= '9')))
        m->at++;
    *out = from;
    *out_bytes = (size_t)(m->at - from);
    return true;
}

bool machine_word(struct machine *m, const char *word)
{
    const char *from = m->at, *name;
    size_t bytes;

    if (machine_name(m, &name, &bytes) && bytes == strlen(word) && memcmp(name, word, bytes) == 0)
        return true;
    m->at = from;
    return false;
}

bool machine_at_end(struct machine *m)
{
    machine_spaces(m);
    return comes(m, "%}") || comes(m, "-%}") || comes(m, "}}") || comes(m, "-}}");
}

/* ------------------------------------------------------------------ text and tags */

/* Text up to a tag: statements and comments take the spaces of their line before them, `-` takes all. */
static void put_text(struct machine *m, const char *to, bool tag, bool block, bool minus, bool live)
{
    const char *from = m->at, *line;

    if (m->skips_line && from < to && *from == '\n')
        from++;
    while (m->strips && from < to && is_white(*from))
        from++;
    m->strips = m->skips_line = false;
    line = to;
    while (block && line > from && (line[-1] == ' ' || line[-1] == '\t'))
        line--;
    if (block && (line == m->chat->form || line[-1] == '\n'))
        to = line;
    while (tag && minus && to > from && is_white(to[-1]))
        to--;
    if (live)
        strbuf_add(&m->out, from, (size_t)(to - from));
}

/* Goes on to the next tag, and behind its opening signs. '\0': there is none; otherwise '{', '%' or '#'. */
static char next_tag(struct machine *m, bool live)
{
    const char *at = m->at;
    bool minus;
    char kind;

    while (m->end - at >= 2 && !(at[0] == '{' && (at[1] == '{' || at[1] == '%' || at[1] == '#')))
        at++;
    if (m->end - at < 2) {
        put_text(m, m->end, false, false, false, live);
        m->at = m->end;
        return '\0';
    }
    kind = at[1];
    minus = m->end - at > 2 && at[2] == '-';
    put_text(m, at, true, kind != '{', minus, live);
    m->at = at + 2 + minus;
    return kind;
}

/* The closing signs of a tag: "%}" or "}}". */
static bool close_tag(struct machine *m, const char *signs)
{
    m->strips = machine_sign(m, "-");
    if (!machine_sign(m, signs))
        return machine_fail(m, INLAY_UNSUPPORTED, "what follows here:", m->at,
                            (size_t)(m->end - m->at) < 20 ? (size_t)(m->end - m->at) : 20);
    m->skips_line = signs[0] == '%';
    return true;
}

/* To the closing signs, past an expression that does not count. */
static bool skip_expression(struct machine *m)
{
    char quote = '\0';

    for (; m->at < m->end; m->at++) {
        if (quote == '\0' && machine_at_end(m))
            return true;
        if (m->at == m->end)
            break;
        if (quote != '\0' && *m->at == '\\' && m->at + 1 < m->end)
            m->at++;
        else if (quote != '\0' ? *m->at == quote : *m->at == '\'' || *m->at == '"')
            quote = quote != '\0' ? '\0' : *m->at;
    }
    return machine_fail(m, INLAY_UNSUPPORTED, "a tag without an end", "", 0);
}

static bool skip_comment(struct machine *m)
{
    while (m->end - m->at >= 2 && !(m->at[0] == '#' && m->at[1] == '}'))
        m->at++;
    if (m->end - m->at < 2)
        return machine_fail(m, INLAY_UNSUPPORTED, "a comment without an end", "", 0);
    m->strips = m->at[-1] == '-';
    m->skips_line = true;
    m->at += 2;
    return true;
}

/* ------------------------------------------------------------------ statements */

/* What ends a part of a template, its word already read. */
typedef enum ending { END_OF_TEXT, END_ELIF, END_ELSE, END_IF, END_FOR, END_FAILED } ending;

static ending run(struct machine *m, bool live);

static bool read_condition(struct machine *m, bool live, bool *out)
{
    struct value v;

    *out = false;
    if (!(live ? value_read(m, &v) : skip_expression(m)) || !close_tag(m, "%}"))
        return false;
    *out = live && value_truth(&v);
    return true;
}

static bool run_if(struct machine *m, bool live)
{
    bool now, taken = false;

    if (!read_condition(m, live, &now))
        return false;
    for (;;) {
        ending how = run(m, now);

        taken |= now;
        now = false;
        if (how == END_IF)
            return close_tag(m, "%}");
        if (how == END_ELIF) {
            if (!read_condition(m, live && !taken, &now))
                return false;
        } else if (how == END_ELSE) {
            now = live && !taken;
            if (!close_tag(m, "%}"))
                return false;
        } else {
            return how == END_FAILED ? false : machine_fail(m, INLAY_UNSUPPORTED, "an if without endif", "", 0);
        }
    }
}

/* The body once for each element; with none, it is passed over. */
static bool run_body(struct machine *m, const char *name, size_t bytes, const struct value *list)
{
    const char *body = m->at;
    const uint32_t variables = m->variable_count, scope = m->scope;
    const bool strips = m->strips, skips_line = m->skips_line;
    struct loop *l = &m->loops[m->loop_count];

    *l = (struct loop){ 0, list->count };
    for (size_t i = 0; i < (list->count > 0 ? list->count : 1); i++) {
        struct value self = { .kind = VALUE_LOOP, .number = m->loop_count };
        ending how;

        l->index = i;
        m->at = body;
        m->strips = strips;
        m->skips_line = skips_line;
        m->scope = variables;
        if (list->count > 0 && (!machine_set(m, name, bytes, 0, list->list[i]) || !machine_set(m, "loop", 4, 0, self)))
            return false;
        m->loop_count++;
        how = run(m, list->count > 0);
        m->loop_count--;
        m->variable_count = variables;
        m->scope = scope;
        if (how != END_FOR)
            return how == END_FAILED ? false : machine_fail(m, INLAY_UNSUPPORTED, "a for without endfor", "", 0);
    }
    return close_tag(m, "%}");
}

static bool run_for(struct machine *m, bool live)
{
    struct value list = { .kind = VALUE_LIST };
    const char *name = "";
    size_t bytes = 0;

    if (live && (!machine_name(m, &name, &bytes) || !machine_word(m, "in")))
        return machine_fail(m, INLAY_UNSUPPORTED, "a for over several names", "", 0);
    if (!(live ? value_read(m, &list) : skip_expression(m)) || !close_tag(m, "%}"))
        return false;
    if (list.kind != VALUE_LIST)
        return machine_fail(m, INLAY_UNSUPPORTED, "a for over what is no list:", name, bytes);
    if (m->loop_count == CHAT_LOOPS)
        return machine_fail(m, INLAY_UNSUPPORTED, "so many loops in one another", "", 0);
    return run_body(m, name, bytes, &list);
}

static bool run_set(struct machine *m, bool live)
{
    const char *name, *part = NULL;
    size_t bytes, part_bytes = 0;
    int space = 0;
    struct value v;

    if (!live)
        return skip_expression(m) && close_tag(m, "%}");
    if (!machine_name(m, &name, &bytes))
        return machine_fail(m, INLAY_UNSUPPORTED, "a set without a name", "", 0);
    if (machine_sign(m, ".") && !machine_name(m, &part, &part_bytes))
        return machine_fail(m, INLAY_UNSUPPORTED, "a set without a name", "", 0);
    for (uint32_t i = m->variable_count; part != NULL && space == 0 && i-- > 0;)
        if (m->variables[i].value.kind == VALUE_SPACE && m->variables[i].bytes == bytes &&
            memcmp(m->variables[i].name, name, bytes) == 0)
            space = (int)m->variables[i].value.number;
    if (!machine_sign(m, "=") || (part != NULL && space == 0))
        return machine_fail(m, INLAY_UNSUPPORTED, "such a set of", name, bytes);
    return value_read(m, &v) &&
           machine_set(m, part != NULL ? part : name, part != NULL ? part_bytes : bytes, space, v) &&
           close_tag(m, "%}");
}

/* A statement that ends nothing; the others are told by *out. */
static bool run_statement(struct machine *m, bool live, ending *out)
{
    static const struct {
        const char *word;
        ending how;
    } ends[] = { { "elif", END_ELIF }, { "else", END_ELSE }, { "endif", END_IF }, { "endfor", END_FOR } };
    const char *name = "";
    size_t bytes = 0;
    bool good;

    for (int i = 0; i < 4; i++) {
        if (!machine_word(m, ends[i].word))
            continue;
        *out = ends[i].how;
        return true;
    }
    if (m->nested++ == CHAT_NESTED)
        return machine_fail(m, INLAY_LIMIT_EXCEEDED, "it is nested too deep", "", 0);
    if (machine_word(m, "if"))
        good = run_if(m, live);
    else if (machine_word(m, "for"))
        good = run_for(m, live);
    else if (machine_word(m, "set"))
        good = run_set(m, live);
    else
        good = machine_name(m, &name, &bytes) && machine_fail(m, INLAY_UNSUPPORTED, "the statement", name, bytes);
    if (!good)
        (void)machine_fail(m, INLAY_UNSUPPORTED, "a statement without a word", "", 0);
    m->nested--;
    return good;
}

static ending run(struct machine *m, bool live)
{
    for (;;) {
        ending how = END_OF_TEXT;
        struct value v;

        switch (next_tag(m, live)) {
        case '\0':
            return END_OF_TEXT;
        case '#':
            if (!skip_comment(m))
                return END_FAILED;
            break;
        case '{':
            if (!(live ? value_read(m, &v) && value_print(m, &v) : skip_expression(m)) || !close_tag(m, "}}"))
                return END_FAILED;
            break;
        default:
            if (!run_statement(m, live, &how))
                return END_FAILED;
            if (how != END_OF_TEXT)
                return how;
        }
        if (m->steps++ > CHAT_STEPS) {
            (void)machine_fail(m, INLAY_LIMIT_EXCEEDED, "it takes too long", "", 0);
            return END_FAILED;
        }
    }
}

/* ------------------------------------------------------------------ from messages to text */

static bool define(struct machine *m, const char *name, struct value v)
{
    return machine_set(m, name, strlen(name), 0, v);
}

static bool define_all(struct machine *m)
{
    const struct chat *c = m->chat;
    struct value *list = machine_memory(m, c->count * sizeof *list);

    for (uint32_t i = 0; list != NULL && i < c->count; i++)
        list[i] = (struct value){ .kind = VALUE_MESSAGE, .message = &c->messages[i] };
    return list != NULL &&
           define(m, "messages", (struct value){ .kind = VALUE_LIST, .list = list, .count = c->count }) &&
           define(m, "add_generation_prompt", (struct value){ .kind = VALUE_BOOL, .number = 1 }) &&
           define(m, "bos_token", text_value(c->begin, strlen(c->begin))) &&
           define(m, "eos_token", text_value(c->end, strlen(c->end)));
}

inlay_status chat_render(const struct chat *c, char **out_text, inlay_diag *diag)
{
    struct machine *m = calloc(1, sizeof *m);
    inlay_diag own = INLAY_DIAG_INIT;

    *out_text = NULL;
    if (m == NULL)
        return no_memory(diag, "for the chat");
    m->chat = c;
    m->diag = &own;
    m->at = c->form;
    m->end = c->form + strlen(c->form);
    m->end -= m->end > m->at && m->end[-1] == '\n'; /* the last end of line is none of the text */
    if (define_all(m) && run(m, true) != END_OF_TEXT)
        (void)machine_fail(m, INLAY_UNSUPPORTED, "an end of what has not begun", "", 0);
    strbuf_add(&m->out, "", 1);
    if (m->out.failed)
        (void)machine_fail(m, INLAY_OUT_OF_MEMORY, "there is no memory for the text", "", 0);
    for (size_t i = 0; i < m->memory_count; i++)
        free(m->memory[i]);
    free((void *)m->memory);
    if (m->failed)
        strbuf_deinit(&m->out);
    else
        *out_text = m->out.data;
    free(m);
    return own.code == INLAY_OK ? INLAY_OK : inlay_fail(diag, own.code, "%s", own.text);
}
