#include "prepost/text/pattern_syntax.h"
#include "inlay/check.h"
#include <ctype.h>
#include <stdio.h>

/* The contents of classes: Unicode's White_Space and the rest, letters of words, hexadecimal digits. */
#define SPACES "\\t-\\r\\x20\\x85\\xa0\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}\\x{205f}\\x{3000}"
#define NO_SPACES                                                                                                      \
    "\\x{0}-\\x08\\x0e-\\x1f\\x21-\\x84\\x86-\\x9f\\xa1-\\x{167f}\\x{1681}-\\x{1fff}\\x{200b}-\\x{2027}"               \
    "\\x{202a}-\\x{202e}\\x{2030}-\\x{205e}\\x{2060}-\\x{2fff}\\x{3001}-\\x{10ffff}"
#define WORDS "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}"
#define WORDS_OUTSIDE WORDS "\\xb2\\xb3\\xb9\\xbc-\\xbe" /* \w and \b outside of classes: powers and fractions, too */
#define HEX "0-9A-Fa-f"
#define NO_HEX "\\x{0}-/:-@G-`g-\\x{10ffff}"

enum { MAX_DEPTH = 64, MAX_NAME = 40 };

struct translation {
    const char *regex, *at;
    text_buf *out;
    inlay_diag *diag;
    size_t groups[MAX_DEPTH]; /* [depth] where the open groups begin in out */
    size_t depth;
    size_t atom;                   /* where the last repeatable part begins in out; SIZE_MAX: there is none */
    bool repeated, at_group_start; /* repeated: that part ends with a quantifier */
};

static inlay_status refuse(const struct translation *t, const char *what)
{
    return inlay_fail(t->diag, INLAY_UNSUPPORTED, "the pattern '%.160s' has %s at byte %zu, which is not supported",
                      t->regex, what, (size_t)(t->at - t->regex));
}

static void put(struct translation *t, const char *text)
{
    buf_append(t->out, text, strlen(text));
}

static void begin_atom(struct translation *t)
{
    t->atom = t->out->count;
    t->repeated = false;
}

static void put_code(struct translation *t, unsigned long code)
{
    char text[16];

    (void)snprintf(text, sizeof text, "\\x{%lx}", code);
    put(t, text);
}

/* \x{H}, \xHH and \uHHHH; t->at is after the x or u. A byte above 0x7f is a part of a character for Oniguruma. */
static inlay_status read_code(struct translation *t, char kind)
{
    const bool braces = kind == 'x' && *t->at == '{';
    const int most = braces ? 6 : kind == 'u' ? 4 : 2;
    unsigned long code = 0;
    int count = 0;

    t->at += braces;
    for (; count < most && isxdigit((unsigned char)*t->at); count++, t->at++)
        code = code * 16 + (unsigned long)(isdigit((unsigned char)*t->at) ? *t->at - '0' : (*t->at | 32) - 'a' + 10);
    if (count == 0 || (braces && *t->at != '}') || (kind == 'u' && count != 4) || code > 0x10ffff ||
        (kind == 'x' && !braces && code > 0x7f))
        return refuse(t, "a code");
    t->at += braces;
    put_code(t, code);
    return INLAY_OK;
}

struct property {
    const char *name, *pcre;
};

/* Names of Oniguruma that PCRE2 lacks or gives another meaning, in lower case without spaces, _ and -. */
static const struct property properties[] = {
    { "letter", "L" },
    { "casedletter", "L&" },
    { "lc", "L&" },
    { "uppercaseletter", "Lu" },
    { "lowercaseletter", "Ll" },
    { "titlecaseletter", "Lt" },
    { "modifierletter", "Lm" },
    { "otherletter", "Lo" },
    { "mark", "M" },
    { "combiningmark", "M" },
    { "nonspacingmark", "Mn" },
    { "spacingmark", "Mc" },
    { "enclosingmark", "Me" },
    { "number", "N" },
    { "decimalnumber", "Nd" },
    { "digit", "Nd" },
    { "letternumber", "Nl" },
    { "othernumber", "No" },
    { "punctuation", "P" },
    { "punct", "P" },
    { "connectorpunctuation", "Pc" },
    { "dashpunctuation", "Pd" },
    { "openpunctuation", "Ps" },
    { "closepunctuation", "Pe" },
    { "initialpunctuation", "Pi" },
    { "finalpunctuation", "Pf" },
    { "otherpunctuation", "Po" },
    { "symbol", "S" },
    { "mathsymbol", "Sm" },
    { "currencysymbol", "Sc" },
    { "modifiersymbol", "Sk" },
    { "othersymbol", "So" },
    { "separator", "Z" },
    { "spaceseparator", "Zs" },
    { "lineseparator", "Zl" },
    { "paragraphseparator", "Zp" },
    { "other", "C" },
    { "control", "Cc" },
    { "cntrl", "Cc" },
    { "format", "Cf" },
    { "privateuse", "Co" },
    { "surrogate", "Cs" },
    { "unassigned", "Cn" },
    { "any", "Any" },
    { "ascii", "ASCII" },
    { "alpha", "Alphabetic" },
    { "alphabetic", "Alphabetic" },
    { "lower", "Lowercase" },
    { "lowercase", "Lowercase" },
    { "upper", "Uppercase" },
    { "uppercase", "Uppercase" },
    { "space", "White_Space" },
    { "whitespace", "White_Space" },
    { "ideographic", "Ideographic" },
    { "emoji", "Emoji" },
    { "emojipresentation", "Emoji_Presentation" },
    { "emojimodifier", "Emoji_Modifier" },
    { "extendedpictographic", "Extended_Pictographic" },
};

/* Whether a name in lower case is the short name of a general category. */
static bool is_category(const char *name)
{
    static const char all[] =
        " c cc cf cn co cs l ll lm lo lt lu m mc me mn n nd nl no p pc pd pe pf pi po ps s sc sk sm "
        "so z zl zp zs ";
    char one[5];

    if (strlen(name) > 2)
        return false;
    (void)snprintf(one, sizeof one, " %s ", name);
    return strstr(all, one) != NULL;
}

/* \p{...} or \P{...}; t->at is after the p. */
static inlay_status read_property(struct translation *t, bool negated)
{
    char name[MAX_NAME], text[MAX_NAME + 16];
    const char *given = t->at + 1, *pcre = NULL, *script = "";
    size_t count = 0;

    if (*t->at != '{')
        return refuse(t, "\\p without a name in braces");
    if (*given == '^') {
        negated = !negated;
        given++;
    }
    for (; *given != '\0' && *given != '}'; given++) {
        if (*given == ' ' || *given == '_' || *given == '-')
            continue;
        if (!isalnum((unsigned char)*given) || count + 1 == sizeof name)
            return refuse(t, "a property");
        name[count++] = (char)tolower((unsigned char)*given);
    }
    name[count] = '\0';
    for (size_t i = 0; i < sizeof properties / sizeof *properties && pcre == NULL; i++)
        pcre = strcmp(properties[i].name, name) == 0 ? properties[i].pcre : NULL;
    if (*given != '}' || count == 0 || (count > 2 && memcmp(name, "in", 2) == 0 && pcre == NULL))
        return refuse(t, "a property"); /* In_...: a block */
    if (pcre == NULL && is_category(name)) {
        name[0] = (char)toupper((unsigned char)name[0]);
        pcre = name;
    }
    if (pcre == NULL) { /* a script, not the extended one that PCRE2 assumes */
        pcre = name;
        script = "sc:";
    }
    t->at = given + 1;
    (void)snprintf(text, sizeof text, "\\%c{%s%s}", negated ? 'P' : 'p', script, pcre);
    put(t, text);
    return INLAY_OK;
}

/* The content of a class that an escape stands for; NULL: it stands for none. */
static const char *class_of_escape(char c)
{
    switch (c) {
    case 'd':
        return "\\p{Nd}";
    case 'D':
        return "\\P{Nd}";
    case 's':
        return SPACES;
    case 'S':
        return NO_SPACES;
    case 'w':
        return WORDS;
    case 'h':
        return HEX;
    case 'H':
        return NO_HEX;
    default:
        return NULL;
    }
}

/* An escape that means a character, within and outside of classes; t->at is after the backslash. */
static inlay_status read_character(struct translation *t)
{
    const char c = *t->at;
    const char text[3] = { '\\', c, '\0' };

    if (c == 'x' || c == 'u') {
        t->at++;
        return read_code(t, c);
    }
    if (c == '\0' || isdigit((unsigned char)c) || (isalpha((unsigned char)c) && strchr("ntrfaev", c) == NULL))
        return refuse(t, "an escape");
    if (c == 'v')
        put_code(t, 11);
    else if ((unsigned char)c < 0x80)
        put(t, text);
    else
        return INLAY_OK; /* the next character, which needs no backslash */
    t->at++;
    return INLAY_OK;
}

static inlay_status read_escape(struct translation *t)
{
    static const char within[] =
        "(?:(?<=[" WORDS_OUTSIDE "])(?![" WORDS_OUTSIDE "])|(?<![" WORDS_OUTSIDE "])(?=[" WORDS_OUTSIDE "]))";
    static const char inside[] =
        "(?:(?<=[" WORDS_OUTSIDE "])(?=[" WORDS_OUTSIDE "])|(?<![" WORDS_OUTSIDE "])(?![" WORDS_OUTSIDE "]))";
    const char c = *++t->at, *class = class_of_escape(c);

    begin_atom(t);
    if (c == 'p' || c == 'P') {
        t->at++;
        return read_property(t, c == 'P');
    }
    if (c == 'w' || c == 'W') {
        put(t, c == 'w' ? "[" WORDS_OUTSIDE "]" : "[^" WORDS_OUTSIDE "]");
    } else if (class != NULL) {
        put(t, "[");
        put(t, class);
        put(t, "]");
    } else if (c == 'b' || c == 'B') {
        put(t, c == 'b' ? within : inside);
    } else if (c == 'A' || c == 'z' || c == 'Z') {
        put(t, c == 'A' ? "\\A" : c == 'z' ? "\\z" : "\\Z");
    } else {
        return read_character(t);
    }
    t->at++;
    return INLAY_OK;
}

/* [:name:] within a class. */
static inlay_status read_posix(struct translation *t)
{
    static const struct property names[] = {
        { "alpha", "\\p{Alphabetic}" },
        { "digit", "\\p{Nd}" },
        { "punct", "\\p{P}\\p{S}" },
        { "space", SPACES },
        { "lower", "\\p{Lowercase}" },
        { "upper", "\\p{Uppercase}" },
        { "word", WORDS },
        { "xdigit", HEX },
        { "alnum", "\\p{Alphabetic}\\p{Nd}" },
        { "cntrl", "\\p{Cc}" },
        { "blank", "\\t\\p{Zs}" },
    };

    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const size_t bytes = strlen(names[i].name);

        if (strncmp(t->at + 2, names[i].name, bytes) == 0 && strncmp(t->at + 2 + bytes, ":]", 2) == 0) {
            put(t, names[i].pcre);
            t->at += bytes + 4;
            return INLAY_OK;
        }
    }
    return refuse(t, "a class within a class");
}

/* A hyphen is written with a backslash next to a set such as \s, where it is not the middle of a range. */
static bool is_set(const char *at)
{
    return at[0] == '\\' && strchr("dDsSwhHpP", at[1]) != NULL && at[1] != '\0';
}

static inlay_status read_class(struct translation *t)
{
    const char *first;
    inlay_status status = INLAY_OK;
    size_t size;
    bool after_set = false;

    begin_atom(t);
    put(t, "[");
    if (*++t->at == '^') {
        put(t, "^");
        t->at++;
    }
    for (first = t->at; status == INLAY_OK && (*t->at != ']' || t->at == first);) {
        const bool set = is_set(t->at) || *t->at == '[';

        if (*t->at == '\0')
            return refuse(t, "a class without end");
        if (*t->at == '[') {
            status = t->at[1] == ':' ? read_posix(t) : refuse(t, "a class within a class");
        } else if (t->at[0] == '&' && t->at[1] == '&') {
            status = refuse(t, "&&");
        } else if (*t->at == '-' && (after_set || is_set(t->at + 1))) {
            put(t, "\\-");
            t->at++;
        } else if (*t->at == ']') {
            put(t, "\\]");
            t->at++;
        } else if (*t->at != '\\') {
            (void)char_at(t->at, &size);
            buf_append(t->out, t->at, size);
            t->at += size;
        } else if (*++t->at == 'p' || *t->at == 'P') {
            t->at++;
            status = read_property(t, t->at[-1] == 'P');
        } else if (class_of_escape(*t->at) != NULL) {
            put(t, class_of_escape(*t->at++));
        } else if (*t->at == 'b') {
            put_code(t, 8);
            t->at++;
        } else {
            status = read_character(t);
        }
        after_set = set;
    }
    if (status == INLAY_OK) {
        put(t, "]");
        t->at++;
    }
    return status;
}

/* (?flags) or (?flags:; t->at is after the question mark. Oniguruma's m is PCRE2's s. Flags without a group hold for
 * the rest of the group with its alternatives, in PCRE2 only if they are at the start of the group. */
static inlay_status read_flags(struct translation *t, bool at_start, bool *out_is_group)
{
    char text[16] = "(?";
    size_t count = 2;

    for (; strchr("im-", *t->at) != NULL && *t->at != '\0' && count < 10; t->at++)
        text[count++] = (char)(*t->at == 'm' ? 's' : *t->at);
    if (count == 2 || (*t->at != ')' && *t->at != ':') || (*t->at == ')' && !at_start))
        return refuse(t, "a group");
    *out_is_group = *t->at == ':';
    text[count++] = *t->at++;
    text[count] = '\0';
    put(t, text);
    return INLAY_OK;
}

static inlay_status read_group(struct translation *t)
{
    static const char *const same[] = { "(?:", "(?=", "(?!", "(?<=", "(?<!", "(?>" };
    const bool at_start = t->at_group_start;
    bool is_group = true;
    const char *end;
    size_t i = 0;

    if (t->depth == MAX_DEPTH)
        return refuse(t, "groups nested too deep");
    t->groups[t->depth] = t->out->count;
    while (i < sizeof same / sizeof *same && strncmp(t->at, same[i], strlen(same[i])) != 0)
        i++;
    if (i < sizeof same / sizeof *same) {
        put(t, same[i]);
        t->at += strlen(same[i]);
    } else if (strncmp(t->at, "(?#", 3) == 0) {
        end = strchr(t->at, ')');
        if (end == NULL)
            return refuse(t, "a comment without end");
        t->at = end + 1;
        return INLAY_OK;
    } else if (strncmp(t->at, "(?<", 3) == 0) {
        end = strchr(t->at, '>');
        if (end == NULL)
            return refuse(t, "a group");
        put(t, "(?:");
        t->at = end + 1;
    } else if (t->at[1] == '?') {
        inlay_status status;

        t->at += 2;
        status = read_flags(t, at_start, &is_group);
        if (status != INLAY_OK)
            return status;
    } else {
        put(t, "(?:");
        t->at++;
    }
    t->depth += is_group;
    t->atom = SIZE_MAX;
    t->at_group_start = true;
    return INLAY_OK;
}

/* The interval {n}, {n,}, {,m} or {n,m} at t->at: its bytes, or 0 if the brace is a character. */
static size_t interval_bytes(const char *at, bool *out_is_fixed, bool *out_no_least)
{
    const char *end = at + 1;
    size_t before, after = 0;

    before = strspn(end, "0123456789");
    end += before;
    *out_is_fixed = *end != ',';
    if (*end == ',')
        after = strspn(++end, "0123456789");
    end += after;
    *out_no_least = before == 0;
    return *end == '}' && before + after > 0 ? (size_t)(end - at) + 1 : 0;
}

/* Puts the repeatable part into a group of its own. */
static void wrap_atom(struct translation *t)
{
    static const char open[] = "(?:";

    put(t, "   ");
    if (t->out->failed)
        return;
    memmove(t->out->data + t->atom + 3, t->out->data + t->atom, t->out->count - 3 - t->atom);
    memcpy(t->out->data + t->atom, open, 3);
    put(t, ")");
}

static inlay_status read_quantifier(struct translation *t)
{
    bool fixed = false, no_least = false;
    const size_t bytes = *t->at == '{' ? interval_bytes(t->at, &fixed, &no_least) : 1;

    if (bytes == 0) {
        begin_atom(t);
        put(t, "\\{");
        t->at++;
        return INLAY_OK;
    }
    if (t->atom == SIZE_MAX)
        return refuse(t, "nothing to repeat");
    if (t->repeated)
        wrap_atom(t);
    if (no_least)
        put(t, "{0");
    buf_append(t->out, t->at + no_least, bytes - no_least);
    t->repeated = true;
    t->at += bytes;
    if (*t->at == '?' && bytes > 1 && fixed)
        return refuse(t, "a question mark behind {n}");
    if (*t->at == '?' || (*t->at == '+' && bytes == 1)) {
        buf_append(t->out, t->at, 1);
        t->at++;
    }
    return INLAY_OK;
}

static inlay_status read_part(struct translation *t)
{
    size_t size;

    switch (*t->at) {
    case '\\':
        return read_escape(t);
    case '[':
        return read_class(t);
    case '(':
        return read_group(t);
    case '*':
    case '+':
    case '?':
    case '{':
        return read_quantifier(t);
    case ')':
        if (t->depth == 0)
            return refuse(t, "a closing parenthesis");
        t->atom = t->groups[--t->depth];
        t->repeated = false;
        put(t, ")");
        break;
    case '|':
        t->atom = SIZE_MAX;
        put(t, "|");
        break;
    case '^':
    case '$': /* no line begins or ends after a \n that ends the text */
        begin_atom(t);
        put(t, *t->at == '^' ? "^" : "(?:(?=\\n)|(?<!\\n)\\z)");
        break;
    default:
        begin_atom(t);
        (void)char_at(t->at, &size);
        buf_append(t->out, t->at, size);
        t->at += size - 1;
    }
    t->at++;
    return INLAY_OK;
}

inlay_status pattern_translate(const char *regex, text_buf *out, inlay_diag *diag)
{
    struct translation t = { .regex = regex, .at = regex, .out = out, .diag = diag, .atom = SIZE_MAX };
    inlay_status status = INLAY_OK;

    t.at_group_start = true;
    while (*t.at != '\0' && status == INLAY_OK) {
        const bool opens = *t.at == '(';

        status = read_part(&t);
        t.at_group_start = opens && t.at_group_start;
    }
    if (status == INLAY_OK && t.depth > 0)
        status = refuse(&t, "a group without end");
    if (status == INLAY_OK && out->failed)
        status = inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for a pattern");
    return status;
}
