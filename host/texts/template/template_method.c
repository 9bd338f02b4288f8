/* The methods and functions of templates. */
#include "texts/template/template_internal.h"
#include <time.h>

static bool fail(struct machine *machine, const char *what, const struct value *name)
{
    return machine_fail(machine, INLAY_UNSUPPORTED, what, name->text, name->count);
}

/* Removes the characters of `set`, or white space, at the ends of a text. */
static struct value strip(struct value text, const struct value *set, bool left, bool right)
{
    bool given = set != NULL && set->kind == VALUE_TEXT;

    while (left && text.count > 0) {
        size_t bytes = value_character(&text, 1);

        if (given ? set->count == 0 || memmem(set->text, set->count, text.text, bytes) == NULL
                  : !value_is_white(text.text[0]))
            break;
        text.text += bytes;
        text.count -= bytes;
    }
    while (right && text.count > 0) {
        size_t bytes = 1;

        while (bytes < 4 && bytes < text.count && ((unsigned char)text.text[text.count - bytes] & 0xc0) == 0x80)
            bytes++;
        if (given ? set->count == 0 || memmem(set->text, set->count, text.text + text.count - bytes, bytes) == NULL
                  : !value_is_white(text.text[text.count - 1]))
            break;
        text.count -= given ? bytes : 1;
    }
    return text;
}

typedef enum letter_case { CASE_UPPER, CASE_LOWER, CASE_TITLE, CASE_CAPITAL } letter_case;

/* Letters of ASCII. */
static bool change_case(struct machine *machine, struct value *text, letter_case to)
{
    char *changed = machine_memory(machine, text->count + 1);
    bool within = false; /* after a letter of the same word */

    for (size_t i = 0; changed != NULL && i < text->count; i++) {
        char c = text->text[i];
        bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c < 0;
        bool upper = to == CASE_UPPER || (to == CASE_TITLE && !within) || (to == CASE_CAPITAL && i == 0);

        changed[i] = (char)(upper ? (c >= 'a' && c <= 'z' ? c - 32 : c) : c >= 'A' && c <= 'Z' ? c + 32 : c);
        within = letter;
    }
    text->text = changed;
    return changed != NULL;
}

static bool replace(struct machine *machine, struct value *text, const struct value *from, const struct value *to,
                    int64_t most)
{
    struct strbuf out = { 0 };
    size_t at = 0;

    while (at < text->count && most != 0) {
        const char *found =
            from->count > 0 ? memmem(text->text + at, text->count - at, from->text, from->count) : text->text + at;
        size_t next = found != NULL ? (size_t)(found - text->text) : text->count;

        strbuf_add(&out, text->text + at, next - at);
        at = next;
        if (found == NULL || out.size > TEMPLATE_TEXT)
            break;
        strbuf_add(&out, to->text, to->count);
        at += from->count;
        if (from->count == 0) { /* between all characters */
            const struct value rest = text_value(text->text + at, text->count - at);
            const size_t bytes = value_character(&rest, 1);

            strbuf_add(&out, text->text + at, bytes);
            at += bytes;
        }
        most--;
    }
    strbuf_add(&out, text->text + at, text->count - at);
    if (from->count == 0 && most != 0)
        strbuf_add(&out, to->text, to->count);
    if (out.size > TEMPLATE_TEXT) {
        strbuf_deinit(&out);
        return machine_fail(machine, INLAY_LIMIT_EXCEEDED, "the text has more than 16 MiB", "", 0);
    }
    return machine_take(machine, &out, text);
}

bool value_change_text(struct machine *machine, const struct value *name, struct value *text,
                       const struct arguments *arguments, bool *known)
{
    static const struct {
        const char *name;
        letter_case to;
    } cases[] = {
        { "upper", CASE_UPPER }, { "lower", CASE_LOWER }, { "title", CASE_TITLE }, { "capitalize", CASE_CAPITAL }
    };
    const struct value *first = argument_get(arguments, 0, NULL), *second = argument_get(arguments, 1, NULL);

    *known = true;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (value_is(name, cases[i].name))
            return change_case(machine, text, cases[i].to);
    if (value_is(name, "trim") || value_is(name, "strip") || value_is(name, "lstrip") || value_is(name, "rstrip")) {
        *text = strip(*text, first, !value_is(name, "rstrip"), !value_is(name, "lstrip"));
        return true;
    }
    *known = value_is(name, "replace");
    if (!*known)
        return true;
    if (first == NULL || second == NULL || first->kind != VALUE_TEXT || second->kind != VALUE_TEXT)
        return fail(machine, "the arguments of", name);
    return replace(machine, text, first, second, argument_number(arguments, 2, "count", -1));
}

static bool add_part(struct machine *machine, struct value **list, size_t *count, struct value part)
{
    if ((*count & (*count - 1)) == 0) { /* 0 or a power of two: twice the room */
        struct value *more = machine_memory(machine, (*count > 0 ? 2 * *count : 1) * sizeof *more);

        if (more == NULL)
            return false;
        if (*count > 0)
            memcpy(more, *list, *count * sizeof *more);
        *list = more;
    }
    (*list)[(*count)++] = part;
    return true;
}

/* Splits at white space; the parts contain none. */
static bool split_words(struct machine *machine, const struct value *text, int64_t most, struct value *out)
{
    struct value *list = NULL;
    size_t count = 0, at = 0;

    while (at < text->count) {
        size_t from;

        while (at < text->count && value_is_white(text->text[at]))
            at++;
        from = at;
        while (at < text->count && (!value_is_white(text->text[at]) || (most >= 0 && (int64_t)count == most)))
            at++;
        if (from < at && !add_part(machine, &list, &count, text_value(text->text + from, at - from)))
            return false;
    }
    *out = list_value(list, count);
    return true;
}

/* from_end: the last separators count, if there are more than `most`. */
static bool split(struct machine *machine, const struct value *text, const struct value *sign, int64_t most,
                  bool from_end, struct value *out)
{
    struct value *list = NULL;
    size_t count = 0, from = 0, signs = 0, skipped;
    const char *found;

    for (size_t at = 0; at < text->count && from_end; signs++, at = (size_t)(found - text->text) + sign->count) {
        found = memmem(text->text + at, text->count - at, sign->text, sign->count);
        if (found == NULL)
            break;
    }
    skipped = from_end && most >= 0 && signs > (size_t)most ? signs - (size_t)most : 0;
    for (size_t at = 0; at < text->count && (from_end || most < 0 || (int64_t)count < most);) {
        found = memmem(text->text + at, text->count - at, sign->text, sign->count);
        if (found == NULL)
            break;
        at = (size_t)(found - text->text) + sign->count;
        if (skipped > 0) {
            skipped--;
            continue;
        }
        if (!add_part(machine, &list, &count, text_value(text->text + from, (size_t)(found - text->text) - from)))
            return false;
        from = at;
    }
    if (!add_part(machine, &list, &count, text_value(text->text + from, text->count - from)))
        return false;
    *out = list_value(list, count);
    return true;
}

static bool split_lines(struct machine *machine, const struct value *text, bool keeps, struct value *out)
{
    struct value *list = NULL;
    size_t count = 0, from = 0;

    for (size_t at = 0; at < text->count; at++) {
        size_t end = at;

        if (text->text[at] != '\n' && text->text[at] != '\r')
            continue;
        at += text->text[at] == '\r' && at + 1 < text->count && text->text[at + 1] == '\n';
        if (!add_part(machine, &list, &count, text_value(text->text + from, (keeps ? at + 1 : end) - from)))
            return false;
        from = at + 1;
    }
    if (from < text->count && !add_part(machine, &list, &count, text_value(text->text + from, text->count - from)))
        return false;
    *out = list_value(list, count);
    return true;
}

static bool has_end(const struct value *text, const struct value *part, bool start)
{
    return part->kind == VALUE_TEXT && part->count <= text->count &&
           (part->count == 0 ||
            memcmp(start ? text->text : text->text + text->count - part->count, part->text, part->count) == 0);
}

/* startswith, endswith: a text, or one of several. */
static bool has_ends(const struct value *text, const struct value *parts, bool start)
{
    if (parts->kind != VALUE_LIST)
        return has_end(text, parts, start);
    for (size_t i = 0; i < parts->count; i++)
        if (has_end(text, &parts->list[i], start))
            return true;
    return false;
}

/* The place of the first or last occurrence in characters, or -1; and the number of occurrences. */
static int64_t find(const struct value *text, const struct value *part, bool last, int64_t *out_count)
{
    int64_t place = -1, at = 0;

    *out_count = 0;
    for (size_t i = 0; i + part->count <= text->count; at++) {
        struct value rest = text_value(text->text + i, text->count - i);

        if (has_end(&rest, part, true)) {
            place = place < 0 || last ? at : place;
            ++*out_count;
        }
        i += i < text->count ? value_character(&rest, 1) : 1;
    }
    return place;
}

static bool is_all(const struct value *text, bool digits, bool letters)
{
    for (size_t i = 0; i < text->count; i++) {
        char c = text->text[i];

        if (!(digits && c >= '0' && c <= '9') &&
            !(letters && ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c < 0)))
            return false;
    }
    return text->count > 0;
}

static bool join(struct machine *machine, const struct value *between, struct value list, struct value *out)
{
    struct strbuf text = { 0 };
    bool good = value_elements(machine, &list);

    for (size_t i = 0; good && i < list.count; i++)
        good = (i == 0 || machine_print(machine, &text, between)) && machine_print(machine, &text, &list.list[i]);
    return machine_take(machine, &text, out) && good;
}

/* Methods with arguments. *known: there is one of this name. */
static bool call_text(struct machine *machine, const struct value *name, struct value *text,
                      const struct arguments *arguments, bool *known)
{
    const struct value *first = argument_get(arguments, 0, "sep");
    bool is_text = first != NULL && first->kind == VALUE_TEXT, start = value_is(name, "startswith");
    int64_t most = argument_number(arguments, 1, "maxsplit", -1), count, place;

    *known = true;
    if (value_is(name, "split") || value_is(name, "rsplit")) {
        if (first == NULL || first->kind == VALUE_NONE)
            return split_words(machine, text, most, text);
        if (!is_text || first->count == 0)
            return fail(machine, "the arguments of", name);
        return split(machine, text, first, most, name->text[0] == 'r', text);
    }
    if (value_is(name, "splitlines"))
        return split_lines(machine, text, argument_truth(arguments, 0, "keepends", false), text);
    if ((start || value_is(name, "endswith")) && first != NULL) {
        *text = bool_value(has_ends(text, first, start));
        return true;
    }
    if (value_is(name, "join") && first != NULL)
        return join(machine, text, *first, text);
    if (value_is(name, "isdigit") || value_is(name, "isalpha") || value_is(name, "isalnum")) {
        *text = bool_value(is_all(text, name->text[2] == 'd' || name->count == 7, name->text[2] == 'a'));
        return true;
    }
    *known = is_text && (value_is(name, "find") || value_is(name, "rfind") || value_is(name, "count"));
    if (*known) {
        place = find(text, first, name->text[0] == 'r', &count);
        *text = number_value(name->text[0] == 'c' ? count : place);
    }
    return true;
}

/* keys(), values(), items(), get(). */
static bool call_map(struct machine *machine, const struct value *name, struct value *map,
                     const struct arguments *arguments, bool *known)
{
    bool space = map->kind == VALUE_NAMESPACE;
    const value_pair *pairs = space ? map->space->pairs : map->map;
    size_t count = space ? map->space->count : map->count;
    const struct value *key = argument_get(arguments, 0, NULL), *otherwise = argument_get(arguments, 1, "default");
    struct value *list;

    *known = value_is(name, "get") && key != NULL;
    if (*known) {
        struct value found = value_member(machine, map, key);

        if (found.kind == VALUE_UNDEFINED)
            found = otherwise != NULL ? *otherwise : (struct value){ .kind = VALUE_NONE };
        *map = found;
        return true;
    }
    *known = value_is(name, "keys") || value_is(name, "values") || value_is(name, "items");
    if (!*known)
        return true;
    list = machine_memory(machine, 3 * count * sizeof *list);
    for (size_t i = 0; list != NULL && i < count; i++) {
        struct value *pair = list + count + 2 * i;

        pair[0] = pairs[i].key;
        pair[1] = pairs[i].value;
        list[i] = name->text[0] == 'i' ? list_value(pair, 2) : pair[name->text[0] == 'v'];
    }
    *map = list_value(list, count);
    return list != NULL;
}

static bool call_list(struct machine *machine, const struct value *name, struct value *list,
                      const struct arguments *arguments, bool *known)
{
    const struct value *what = argument_get(arguments, 0, NULL);
    int64_t count = 0, place = -1;

    *known = what != NULL && (value_is(name, "count") || value_is(name, "index"));
    for (size_t i = 0; *known && i < list->count; i++)
        if (value_same(machine, &list->list[i], what)) {
            place = place < 0 ? (int64_t)i : place;
            count++;
        }
    if (*known)
        *list = number_value(value_is(name, "count") ? count : place);
    return true;
}

bool value_method(struct machine *machine, const struct value *name, struct value *value,
                  const struct arguments *arguments)
{
    bool known = false;

    if (value->kind == VALUE_UNDEFINED)
        return fail(machine, "an undefined value has no", name);
    if (value->kind == VALUE_TEXT) {
        if (!value_change_text(machine, name, value, arguments, &known) ||
            (!known && !call_text(machine, name, value, arguments, &known)))
            return false;
    } else if (value->kind == VALUE_MAP || value->kind == VALUE_NAMESPACE) {
        if (!call_map(machine, name, value, arguments, &known))
            return false;
    } else if (value->kind == VALUE_LIST && !call_list(machine, name, value, arguments, &known)) {
        return false;
    }
    return known || fail(machine, "the method", name);
}

/* Pairs from a map, a namespace, a list of pairs, and named arguments. */
static bool make_space(struct machine *machine, const struct arguments *arguments, struct value_space *out)
{
    const struct value *from = argument_get(arguments, 0, NULL);
    bool map = from != NULL && from->kind == VALUE_MAP;

    for (size_t i = 0; from != NULL && (map || from->kind == VALUE_LIST) && i < from->count; i++) {
        const struct value *pair = map ? NULL : &from->list[i];

        if (!map && (pair->kind != VALUE_LIST || pair->count != 2))
            return machine_fail(machine, INLAY_UNSUPPORTED, "a map of elements that are not pairs", "", 0);
        if (!space_set(machine, out, map ? from->map[i].key : pair->list[0], map ? from->map[i].value : pair->list[1]))
            return false;
    }
    for (uint32_t i = 0; i < arguments->count; i++)
        if (arguments->names[i].kind == VALUE_TEXT &&
            !space_set(machine, out, arguments->names[i], arguments->values[i]))
            return false;
    return true;
}

static bool make_range(struct machine *machine, const struct arguments *arguments, struct value *out)
{
    bool one = argument_get(arguments, 1, NULL) == NULL;
    int64_t from = one ? 0 : argument_number(arguments, 0, NULL, 0);
    int64_t to = argument_number(arguments, one ? 0 : 1, NULL, 0), step = argument_number(arguments, 2, NULL, 1);
    double count;
    struct value *list;

    if (step == 0)
        return machine_fail(machine, INLAY_UNSUPPORTED, "a range whose step is 0", "", 0);
    count = ((double)to - (double)from) / (double)step;
    count = count > 0 ? count : 0;
    if (count > 100000)
        return machine_fail(machine, INLAY_LIMIT_EXCEEDED, "a range has more than 100000 elements", "", 0);
    list = machine_memory(machine, ((size_t)count + 1) * sizeof *list);
    *out = list_value(list, 0);
    for (; list != NULL && (step > 0 ? from < to : from > to); from += step)
        list[out->count++] = number_value(from);
    return list != NULL;
}

/* The time of the server's clock, in its time zone. */
static bool format_time(struct machine *machine, const struct arguments *arguments, struct value *out)
{
    const struct value *format = argument_get(arguments, 0, "format");
    char form[128], text[512];
    time_t now = time(NULL);
    struct tm parts;

    if (format == NULL || format->kind != VALUE_TEXT || format->count >= sizeof form)
        return machine_fail(machine, INLAY_UNSUPPORTED, "the arguments of 'strftime_now'", "", 0);
    (void)snprintf(form, sizeof form, "%.*s", (int)format->count, format->text);
    if (localtime_r(&now, &parts) == NULL)
        return machine_fail(machine, INLAY_UNSUPPORTED, "the time is not known", "", 0);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    return machine_copy(machine, text, strftime(text, sizeof text, form, &parts), out);
#pragma GCC diagnostic pop
}

bool value_is_function(const struct value *name)
{
    static const char *const names[] = { "dict", "namespace", "raise_exception", "range", "strftime_now" };

    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (value_is(name, names[i]))
            return true;
    return false;
}

bool value_function(struct machine *machine, const struct value *name, const struct arguments *arguments,
                    struct value *out, bool *known)
{
    const struct value *first = argument_get(arguments, 0, "message");
    struct value_space pairs = { 0 };

    *known = true;
    if (value_is(name, "raise_exception"))
        return machine_fail(machine, INLAY_INVALID_ARGUMENT, NULL,
                            first != NULL && first->kind == VALUE_TEXT ? first->text : "",
                            first != NULL && first->kind == VALUE_TEXT ? first->count : 0);
    if (value_is(name, "strftime_now"))
        return format_time(machine, arguments, out);
    if (value_is(name, "range"))
        return make_range(machine, arguments, out);
    if (value_is(name, "dict")) {
        *out = (struct value){ .kind = VALUE_MAP };
        if (!make_space(machine, arguments, &pairs))
            return false;
        out->count = pairs.count;
        out->map = pairs.pairs;
        return true;
    }
    *known = value_is(name, "namespace");
    if (!*known)
        return true;
    *out = (struct value){ .kind = VALUE_NAMESPACE };
    out->space = machine_memory(machine, sizeof *out->space);
    return out->space != NULL && make_space(machine, arguments, out->space);
}
