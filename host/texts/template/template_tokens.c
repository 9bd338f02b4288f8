#include "texts/template/template_tokens.h"
#include "base/utf8.h"
#include <stdlib.h>

struct lexer {
    struct machine *machine;
    const char *form, *at, *end;
    struct token *tokens; /* [count], from malloc() */
    size_t count;
    bool strips, skips_line; /* remove all white space, or one end of line, at the start of the next text */
};

static bool fail(struct lexer *lexer, const char *what, size_t bytes)
{
    size_t rest = (size_t)(lexer->end - lexer->at);

    return machine_fail(lexer->machine, INLAY_UNSUPPORTED, what, lexer->at, bytes < rest ? bytes : rest);
}

static bool add(struct lexer *lexer, token_kind kind, struct value text)
{
    if (!LIST_GROW(lexer->tokens, lexer->count))
        return machine_fail(lexer->machine, INLAY_OUT_OF_MEMORY, "out of memory for the template", "", 0);
    lexer->tokens[lexer->count++] = (struct token){ kind, lexer->machine->line, text };
    return true;
}

static void move(struct lexer *lexer, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        lexer->machine->line += lexer->at[i] == '\n';
    lexer->at += bytes;
}

static bool is_next(const struct lexer *lexer, const char *text)
{
    size_t bytes = strlen(text);

    return (size_t)(lexer->end - lexer->at) >= bytes && memcmp(lexer->at, text, bytes) == 0;
}

/* The text before a tag, which begins at `to`. Statements and comments remove the spaces before them on their line; `-`
 * removes all white space before the tag, `+` none. */
static bool add_text(struct lexer *lexer, const char *to, bool block, char mark)
{
    const char *from = lexer->at, *line = to;

    if (lexer->skips_line && from < to && *from == '\n')
        from++;
    while (lexer->strips && from < to && value_is_white(*from))
        from++;
    lexer->strips = lexer->skips_line = false;
    while (block && mark != '+' && line > from && (line[-1] == ' ' || line[-1] == '\t'))
        line--;
    move(lexer, (size_t)(to - lexer->at));
    if (block && mark != '+' && (line == lexer->form || line[-1] == '\n'))
        to = line;
    while (mark == '-' && to > from && value_is_white(to[-1]))
        to--;
    return from == to || add(lexer, TOKEN_TEXT, text_value(from, (size_t)(to - from)));
}

/* Moves past the end of a comment or of a tag that has only a name. */
static void end_block(struct lexer *lexer, bool minus, bool plus)
{
    move(lexer, 2u + minus + plus);
    lexer->strips = minus;
    lexer->skips_line = !minus && !plus;
}

static bool read_comment(struct lexer *lexer)
{
    while (lexer->end - lexer->at >= 2 && !is_next(lexer, "#}") && !is_next(lexer, "-#}") && !is_next(lexer, "+#}"))
        move(lexer, 1);
    if (lexer->end - lexer->at < 2)
        return fail(lexer, "a comment that is not closed", 0);
    end_block(lexer, *lexer->at == '-', *lexer->at == '+');
    return true;
}

/* If "{% endraw %}" with marks is at `at`, returns the byte after its name; *mark: the first mark. */
static const char *raw_end(const struct lexer *lexer, const char *at, const char *name, char *mark)
{
    size_t bytes = strlen(name);

    *mark = '\0';
    if (lexer->end - at < 2 || at[0] != '{' || at[1] != '%')
        return NULL;
    at += 2;
    if (at < lexer->end && (*at == '-' || *at == '+'))
        *mark = *at++;
    while (at < lexer->end && value_is_white(*at))
        at++;
    if ((size_t)(lexer->end - at) < bytes || memcmp(at, name, bytes) != 0)
        return NULL;
    at += bytes;
    while (at < lexer->end && value_is_white(*at))
        at++;
    return lexer->end - at >= 2 && (*at == '%' || ((*at == '-' || *at == '+') && at[1] == '%')) ? at : NULL;
}

/* Reads {% raw %} ... {% endraw %} if it comes next. */
static bool read_raw(struct lexer *lexer, bool *out_raw)
{
    char mark;
    const char *after = raw_end(lexer, lexer->at, "raw", &mark), *to;

    *out_raw = after != NULL;
    if (after == NULL)
        return true;
    move(lexer, (size_t)(after - lexer->at));
    end_block(lexer, *lexer->at == '-', *lexer->at == '+');
    for (to = lexer->at; to < lexer->end; to++) {
        after = raw_end(lexer, to, "endraw", &mark);
        if (after == NULL)
            continue;
        if (!add_text(lexer, to, true, mark))
            return false;
        move(lexer, (size_t)(after - lexer->at));
        end_block(lexer, *lexer->at == '-', *lexer->at == '+');
        return true;
    }
    return fail(lexer, "a raw without endraw", 0);
}

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool read_number(struct lexer *lexer)
{
    char room[40];
    size_t used = 0;
    bool real = false;
    const char *at = lexer->at;

    while (at < lexer->end && used + 1 < sizeof room) {
        char c = *at;
        bool exponent = used > 0 && (room[used - 1] == 'e' || room[used - 1] == 'E');

        if (c == '_' && at + 1 < lexer->end && is_digit(at[1])) {
            at++;
            continue;
        }
        if (c == '.' && (real || at + 1 == lexer->end || !is_digit(at[1])))
            break;
        if ((c == 'e' || c == 'E') &&
            !(at + 1 < lexer->end && (is_digit(at[1]) || ((at[1] == '+' || at[1] == '-') && lexer->end - at > 2))))
            break;
        if (!is_digit(c) && c != '.' && c != 'e' && c != 'E' && !((c == '+' || c == '-') && exponent))
            break;
        real |= c == '.' || c == 'e' || c == 'E';
        room[used++] = c;
        at++;
    }
    room[used] = '\0';
    if (used + 1 == sizeof room || (!real && used > 18))
        return fail(lexer, "the number", used);
    lexer->at = at;
    return add(lexer, TOKEN_CONSTANT, real ? real_value(strtod(room, NULL)) : number_value(strtoll(room, NULL, 10)));
}

/* The character of \xHH, \uHHHH or \UHHHHHHHH; false: these are not hexadecimal digits. */
static bool read_point(const char **at, const char *end, size_t digits, uint32_t *out)
{
    *out = 0;
    for (size_t i = 0; i < digits; i++) {
        char c = *at + i < end ? (*at)[i] : '\0';

        if (!is_digit(c) && !(c >= 'a' && c <= 'f') && !(c >= 'A' && c <= 'F'))
            return false;
        *out = *out * 16 + (uint32_t)(is_digit(c) ? c - '0' : (c | 32) - 'a' + 10);
    }
    *at += digits;
    return true;
}

/* Python's escapes; an unknown one is kept as it is. */
static size_t unescape(const char *from, const char *to, char *out)
{
    static const char names[] = "ntrbfav\\'\"", meanings[] = "\n\t\r\b\f\a\v\\'\"";
    size_t count = 0;

    while (from < to) {
        const char *name;
        uint32_t point;

        if (*from != '\\' || from + 1 == to) {
            out[count++] = *from++;
            continue;
        }
        from++;
        name = memchr(names, *from, sizeof names - 1);
        if (*from == '\n') {
            from++;
        } else if (name != NULL) {
            out[count++] = meanings[name - names];
            from++;
        } else if (*from == 'x' || *from == 'u' || *from == 'U') {
            size_t digits = *from == 'x' ? 2 : *from == 'u' ? 4 : 8;

            from++;
            if (read_point(&from, to, digits, &point) && utf8_put(out + count, point) > 0)
                count += utf8_put(out + count, point);
        } else {
            out[count++] = '\\';
            out[count++] = *from++;
        }
    }
    return count;
}

static bool read_string(struct lexer *lexer)
{
    char quote = *lexer->at, *text;
    const char *from = lexer->at + 1, *to = from;
    bool escaped = false;

    for (; to < lexer->end && *to != quote; to++) {
        escaped |= *to == '\\';
        to += *to == '\\' && to + 1 < lexer->end;
    }
    if (to >= lexer->end)
        return fail(lexer, "a string that is not closed", 0);
    move(lexer, (size_t)(to + 1 - lexer->at));
    if (!escaped)
        return add(lexer, TOKEN_CONSTANT, text_value(from, (size_t)(to - from)));
    text = machine_memory(lexer->machine, (size_t)(to - from) + 4);
    return text != NULL && add(lexer, TOKEN_CONSTANT, text_value(text, unescape(from, to, text)));
}

/* Reads the inside of a tag, up to its closing signs. */
static bool read_tag(struct lexer *lexer, bool block)
{
    static const char *const signs[] = { "==", "!=", "<=", ">=", "//", "**", "+", "-", "*", "/", "%", "~", "(",
                                         ")",  "[",  "]",  "{",  "}",  ",",  ":", ".", "|", "=", "<", ">" };
    const char *close = block ? "%}" : "}}";
    uint32_t open = 0; /* brackets; within them "}}" is not the end */
    size_t sign;

    for (;;) {
        while (lexer->at < lexer->end && value_is_white(*lexer->at))
            move(lexer, 1);
        if (lexer->at == lexer->end)
            return fail(lexer, "a tag that is not closed", 0);
        if (open == 0 && ((*lexer->at == '-' || *lexer->at == '+') && lexer->end - lexer->at > 2) &&
            memcmp(lexer->at + 1, close, 2) == 0) {
            bool minus = *lexer->at == '-';

            end_block(lexer, minus, !minus);
            return add(lexer, TOKEN_CLOSE, text_value("", 0));
        }
        if (open == 0 && is_next(lexer, close)) {
            end_block(lexer, false, false);
            lexer->skips_line = block;
            return add(lexer, TOKEN_CLOSE, text_value("", 0));
        }
        if (*lexer->at == '\'' || *lexer->at == '"') {
            if (!read_string(lexer))
                return false;
            continue;
        }
        if (is_digit(*lexer->at)) {
            if (!read_number(lexer))
                return false;
            continue;
        }
        if (is_letter(*lexer->at)) {
            const char *from = lexer->at;

            while (lexer->at < lexer->end && (is_letter(*lexer->at) || is_digit(*lexer->at)))
                lexer->at++;
            if (!add(lexer, TOKEN_NAME, text_value(from, (size_t)(lexer->at - from))))
                return false;
            continue;
        }
        for (sign = 0; sign < sizeof signs / sizeof *signs && !is_next(lexer, signs[sign]);)
            sign++;
        if (sign == sizeof signs / sizeof *signs)
            return fail(lexer, "unexpected text:", 1);
        open += strchr("([{", signs[sign][0]) != NULL;
        open -= open > 0 && strchr(")]}", signs[sign][0]) != NULL;
        if (!add(lexer, TOKEN_SIGN, text_value(signs[sign], strlen(signs[sign]))))
            return false;
        move(lexer, strlen(signs[sign]));
    }
}

/* Reads a text and the tag after it. *out_more is false at the end of the template. */
static bool read_part(struct lexer *lexer, bool *out_more)
{
    const char *at = lexer->at;
    bool raw = false;
    char kind, mark;

    while (lexer->end - at >= 2 && !(at[0] == '{' && (at[1] == '{' || at[1] == '%' || at[1] == '#')))
        at++;
    *out_more = lexer->end - at >= 2;
    if (!*out_more)
        return add_text(lexer, lexer->end, false, '\0');
    kind = at[1];
    mark = lexer->end - at > 2 && (at[2] == '-' || at[2] == '+') ? at[2] : '\0';
    if (!add_text(lexer, at, kind != '{', mark))
        return false;
    if (kind == '%' && (!read_raw(lexer, &raw) || raw))
        return raw && !lexer->machine->failed;
    move(lexer, 2 + (mark != '\0'));
    if (kind == '#')
        return read_comment(lexer);
    return add(lexer, kind == '{' ? TOKEN_PRINT : TOKEN_BLOCK, text_value("", 0)) && read_tag(lexer, kind == '%');
}

bool template_tokens(struct machine *machine, const char *form, size_t bytes, struct token **out)
{
    struct lexer lexer = { .machine = machine, .form = form, .at = form, .end = form + bytes };
    bool good = true, more = true;

    machine->line = 1;
    while (good && more)
        good = read_part(&lexer, &more);
    good = good && add(&lexer, TOKEN_END, text_value("", 0));
    *out = good ? machine_memory(machine, lexer.count * sizeof **out) : NULL;
    if (*out != NULL)
        memcpy(*out, lexer.tokens, lexer.count * sizeof **out);
    free(lexer.tokens);
    return *out != NULL;
}
