/* The filters of templates: `value | name`. */
#include "texts/template/template_internal.h"
#include <math.h>
#include <stdlib.h>

typedef struct filter_call {
    struct machine *machine;
    const struct value *name;
    const struct arguments *arguments;
} filter_call;

static bool fail(const filter_call *call, const char *what)
{
    return machine_fail(call->machine, INLAY_UNSUPPORTED, what, call->name->text, call->name->count);
}

static bool filter_length(const filter_call *call, struct value *value)
{
    size_t count = 0;

    if (value->kind != VALUE_NONE && !value_length(value, &count)) /* none: see value_compute() */
        return fail(call, "for this value, the filter");
    *value = number_value((int64_t)count);
    return true;
}

static bool filter_string(const filter_call *call, struct value *value)
{
    return value->kind == VALUE_TEXT || value_text(call->machine, value, value);
}

static bool filter_tojson(const filter_call *call, struct value *value)
{
    const struct value *indent = argument_get(call->arguments, UINT32_MAX, "indent");
    const struct value *separators = argument_get(call->arguments, UINT32_MAX, "separators");
    struct value comma = { .kind = VALUE_UNDEFINED }, colon = comma, end = text_value("", 1);
    json_style style = { .colon = ": ",
                         .sorts = argument_truth(call->arguments, UINT32_MAX, "sort_keys", false),
                         .escapes = argument_truth(call->arguments, UINT32_MAX, "ensure_ascii", false) };
    struct strbuf text = { 0 };
    bool good;

    if (indent == NULL)
        indent = argument_get(call->arguments, 0, NULL);
    style.indent = indent != NULL && value_is_whole(indent) ? indent->number : -1;
    style.indent = style.indent > 64 ? 64 : style.indent;
    style.comma = style.indent >= 0 ? "," : ", ";
    if (separators != NULL && separators->kind == VALUE_LIST && separators->count == 2 &&
        separators->list[0].kind == VALUE_TEXT && separators->list[1].kind == VALUE_TEXT) {
        for (int i = 0; i < 2; i++) { /* with a NUL */
            struct strbuf one = { 0 };

            strbuf_add(&one, separators->list[i].text, separators->list[i].count);
            strbuf_add(&one, end.text, 1);
            if (!machine_take(call->machine, &one, i == 0 ? &comma : &colon))
                return false;
        }
        style.comma = comma.text;
        style.colon = colon.text;
    }
    good = value_write_json(call->machine, &text, value, &style);
    return machine_take(call->machine, &text, value) && good;
}

static bool filter_default(const filter_call *call, struct value *value)
{
    const struct value *given = argument_get(call->arguments, 0, "default_value");
    bool replaces =
        argument_truth(call->arguments, 1, "boolean", false) ? !value_truth(value) : value->kind == VALUE_UNDEFINED;

    if (replaces)
        *value = given != NULL ? *given : text_value("", 0);
    return true;
}

static bool filter_attr(const filter_call *call, struct value *value)
{
    const struct value *name = argument_get(call->arguments, 0, "name");

    *value = name != NULL ? value_member(call->machine, value, name) : (struct value){ .kind = VALUE_UNDEFINED };
    return true;
}

static bool filter_number(const filter_call *call, struct value *value)
{
    bool whole = value_is(call->name, "int");
    const struct value *otherwise = argument_get(call->arguments, 0, "default");
    double number = 0;
    bool good = value_is_number(value);

    if (good)
        number = value_real(value);
    if (value->kind == VALUE_TEXT && value->count > 0 && value->count < 40) {
        char text[41], *end;

        (void)snprintf(text, sizeof text, "%.*s", (int)value->count, value->text);
        number = strtod(text, &end);
        while (value_is_white(*end))
            end++;
        good = end != text && *end == '\0';
    }
    if (whole && value_is_whole(value)) {
        value->kind = VALUE_NUMBER;
        return true;
    }
    if (!good || isnan(number) || (whole && !(fabs(number) < 9e18)))
        *value = otherwise != NULL ? *otherwise : whole ? number_value(0) : real_value(0);
    else
        *value = whole ? number_value((int64_t)number) : real_value(number);
    return true;
}

static bool filter_abs(const filter_call *call, struct value *value)
{
    if (!value_is_number(value) || (value_is_whole(value) && value->number == INT64_MIN))
        return fail(call, "for this value, the filter");
    *value = value->kind == VALUE_REAL ? real_value(fabs(value->real)) : number_value(llabs(value->number));
    return true;
}

static bool filter_round(const filter_call *call, struct value *value)
{
    int64_t digits = argument_number(call->arguments, 0, "precision", 0);
    const struct value *method = argument_get(call->arguments, 1, "method");
    double scale = pow(10, (double)(digits > 15 ? 15 : digits < -15 ? -15 : digits)), number;

    if (!value_is_number(value))
        return fail(call, "for this value, the filter");
    if (value_is_whole(value) && digits >= 0 && (method == NULL || value_is(method, "common"))) {
        *value = number_value(value->number); /* a whole number stays one */
        return true;
    }
    number = value_real(value) * scale;
    number = method != NULL && value_is(method, "ceil")    ? ceil(number)
             : method != NULL && value_is(method, "floor") ? floor(number)
                                                           : nearbyint(number); /* half to even */
    *value = real_value(number / scale);
    return true;
}

/* The attribute "a.b.0" of a value. */
static struct value attribute_of(struct machine *machine, const struct value *from, const struct value *path)
{
    struct value at = *from;

    if (value_is_whole(path)) {
        bool has = at.kind == VALUE_LIST && path->number >= 0 && (size_t)path->number < at.count;

        return has ? at.list[path->number] : (struct value){ .kind = VALUE_UNDEFINED };
    }
    for (size_t i = 0; path->kind == VALUE_TEXT && i <= path->count;) {
        const char *dot = i < path->count ? memchr(path->text + i, '.', path->count - i) : NULL;
        size_t bytes = dot != NULL ? (size_t)(dot - path->text) - i : path->count - i, digits = 0;
        struct value name = text_value(path->text + i, bytes);
        uint64_t index = 0;

        for (; digits < bytes && digits < 9 && name.text[digits] >= '0' && name.text[digits] <= '9'; digits++)
            index = index * 10 + (uint64_t)(name.text[digits] - '0');
        if (at.kind == VALUE_LIST)
            at = bytes > 0 && digits == bytes && index < at.count ? at.list[index]
                                                                  : (struct value){ .kind = VALUE_UNDEFINED };
        else
            at = value_member(machine, &at, &name);
        i += bytes + 1;
    }
    return at;
}

static bool filter_end(const filter_call *call, struct value *value)
{
    if (!value_elements(call->machine, value))
        return false;
    *value = value->count == 0 ? (struct value){ .kind = VALUE_UNDEFINED }
                               : value->list[value_is(call->name, "first") ? 0 : value->count - 1];
    return true;
}

static bool filter_list(const filter_call *call, struct value *value)
{
    return value_elements(call->machine, value);
}

static bool filter_join(const filter_call *call, struct value *value)
{
    const struct value *between = argument_get(call->arguments, 0, "d");
    const struct value *path = argument_get(call->arguments, 1, "attribute");
    struct strbuf text = { 0 };
    bool good = value_elements(call->machine, value);

    for (size_t i = 0; good && i < value->count; i++) {
        struct value one = path != NULL ? attribute_of(call->machine, &value->list[i], path) : value->list[i];

        good = (i == 0 || between == NULL || machine_print(call->machine, &text, between)) &&
               machine_print(call->machine, &text, &one);
    }
    return machine_take(call->machine, &text, value) && good;
}

/* Keys, values, or pairs of a map. */
static bool pairs_of(const filter_call *call, struct value *value)
{
    struct value *list;

    if (value->kind == VALUE_UNDEFINED) {
        *value = list_value(NULL, 0);
        return true;
    }
    if (value->kind != VALUE_MAP)
        return fail(call, "for a value that is not a map, the filter");
    list = machine_memory(call->machine, 3 * value->count * sizeof *list);
    for (size_t i = 0; list != NULL && i < value->count; i++) {
        struct value *pair = list + value->count + 2 * i;

        pair[0] = value->map[i].key;
        pair[1] = value->map[i].value;
        list[i] = list_value(pair, 2);
    }
    *value = list_value(list, value->count);
    return list != NULL;
}

static bool filter_items(const filter_call *call, struct value *value)
{
    return pairs_of(call, value);
}

static bool filter_reverse(const filter_call *call, struct value *value)
{
    bool text = value->kind == VALUE_TEXT, safe = text && value->is_safe;
    struct value *list;
    struct strbuf whole = { 0 };

    if (!value_elements(call->machine, value))
        return false;
    list = machine_memory(call->machine, value->count * sizeof *list);
    for (size_t i = 0; list != NULL && i < value->count; i++)
        list[i] = value->list[value->count - 1 - i];
    *value = list_value(list, value->count);
    for (size_t i = 0; text && list != NULL && i < value->count; i++)
        strbuf_add(&whole, list[i].text, list[i].count);
    if (list == NULL || (text && !machine_take(call->machine, &whole, value)))
        return false;
    value->is_safe = safe;
    return true;
}

/* How a list is ordered, or its elements are compared. */
struct ordering {
    const filter_call *call;
    const struct value *path; /* NULL: by the elements themselves */
    bool folds;               /* case does not count */
    bool reverse, failed;
};

static int compare_text(const struct value *left, const struct value *right)
{
    size_t least = left->count < right->count ? left->count : right->count;

    for (size_t i = 0; i < least; i++) {
        unsigned char a = (unsigned char)left->text[i], b = (unsigned char)right->text[i];

        a = a >= 'A' && a <= 'Z' ? a | 32 : a;
        b = b >= 'A' && b <= 'Z' ? b | 32 : b;
        if (a != b)
            return a < b ? -1 : 1;
    }
    return (left->count > right->count) - (left->count < right->count);
}

static int compare_values(struct ordering *ordering, const struct value *left, const struct value *right)
{
    struct value a = ordering->path != NULL ? attribute_of(ordering->call->machine, left, ordering->path) : *left;
    struct value b = ordering->path != NULL ? attribute_of(ordering->call->machine, right, ordering->path) : *right;
    int which = 0;

    if (ordering->folds && a.kind == VALUE_TEXT && b.kind == VALUE_TEXT)
        return compare_text(&a, &b);
    if (!value_order(ordering->call->machine, &a, &b, &which))
        ordering->failed = true;
    return which;
}

/* Sorts stably, by merging: from `list` to `list`, with `spare` of the same length. */
static bool merge_sort(struct ordering *ordering, struct value *list, struct value *spare, size_t count)
{
    for (size_t run = 1; run < count && !ordering->failed; run *= 2) {
        for (size_t from = 0; from < count; from += 2 * run) {
            size_t middle = from + run < count ? from + run : count;
            size_t end = middle + run < count ? middle + run : count, left = from, right = middle;

            for (size_t i = from; i < end; i++) {
                bool takes_left = right == end;

                if (left < middle && right < end) {
                    int which = compare_values(ordering, &list[left], &list[right]);

                    takes_left = ordering->reverse ? which >= 0 : which <= 0;
                }
                spare[i] = takes_left ? list[left++] : list[right++];
            }
        }
        memcpy(list, spare, count * sizeof *list);
    }
    return !ordering->failed || fail(ordering->call, "values that have no order, in the filter");
}

static bool sorted(struct ordering *ordering, struct value *list)
{
    struct value *copy = machine_memory(ordering->call->machine, 2 * list->count * sizeof *copy);

    if (copy == NULL)
        return false;
    if (list->count > 0)
        memcpy(copy, list->list, list->count * sizeof *copy);
    if (!merge_sort(ordering, copy, copy + list->count, list->count))
        return false;
    *list = list_value(copy, list->count);
    return true;
}

static bool filter_sort(const filter_call *call, struct value *value)
{
    struct ordering ordering = { .call = call,
                                 .reverse = argument_truth(call->arguments, 0, "reverse", false),
                                 .folds = !argument_truth(call->arguments, 1, "case_sensitive", false),
                                 .path = argument_get(call->arguments, 2, "attribute") };

    return value_elements(call->machine, value) && sorted(&ordering, value);
}

static bool filter_dictsort(const filter_call *call, struct value *value)
{
    const struct value *by = argument_get(call->arguments, 1, "by");
    const struct value place = number_value(by != NULL && value_is(by, "value"));
    struct ordering ordering = { .call = call,
                                 .path = &place,
                                 .folds = !argument_truth(call->arguments, 0, "case_sensitive", false),
                                 .reverse = argument_truth(call->arguments, 2, "reverse", false) };

    return pairs_of(call, value) && sorted(&ordering, value);
}

static bool filter_extreme(const filter_call *call, struct value *value)
{
    struct ordering ordering = { .call = call,
                                 .folds = !argument_truth(call->arguments, 0, "case_sensitive", false),
                                 .path = argument_get(call->arguments, 1, "attribute") };
    const struct value *best = NULL;

    if (!value_elements(call->machine, value))
        return false;
    for (size_t i = 0; i < value->count; i++) {
        int which = best != NULL ? compare_values(&ordering, &value->list[i], best) : 0;

        if (best == NULL || (value_is(call->name, "min") ? which < 0 : which > 0))
            best = &value->list[i];
    }
    *value = best != NULL ? *best : (struct value){ .kind = VALUE_UNDEFINED };
    return !ordering.failed || fail(call, "values that have no order, in the filter");
}

static bool filter_sum(const filter_call *call, struct value *value)
{
    const struct value *path = argument_get(call->arguments, 0, "attribute");
    int64_t whole = argument_number(call->arguments, 1, "start", 0);
    double real = (double)whole;
    bool reals = false;

    if (!value_elements(call->machine, value))
        return false;
    for (size_t i = 0; i < value->count; i++) {
        struct value one = path != NULL ? attribute_of(call->machine, &value->list[i], path) : value->list[i];

        if (!value_is_number(&one) || (one.kind != VALUE_REAL && __builtin_add_overflow(whole, one.number, &whole)))
            return fail(call, "for these values, the filter");
        real += value_real(&one);
        reals |= one.kind == VALUE_REAL;
    }
    *value = reals ? real_value(real) : number_value(whole);
    return true;
}

static bool filter_unique(const filter_call *call, struct value *value)
{
    bool folds = !argument_truth(call->arguments, 0, "case_sensitive", false);
    const struct value *path = argument_get(call->arguments, 1, "attribute");
    struct value *list;
    size_t count = 0;

    if (!value_elements(call->machine, value))
        return false;
    list = machine_memory(call->machine, value->count * sizeof *list);
    for (size_t i = 0; list != NULL && i < value->count; i++) {
        struct value one = path != NULL ? attribute_of(call->machine, &value->list[i], path) : value->list[i];
        bool known = false;

        for (size_t k = 0; k < count && !known; k++) {
            struct value other = path != NULL ? attribute_of(call->machine, &list[k], path) : list[k];

            if (!machine_enter(call->machine))
                return false;
            machine_leave(call->machine);
            known = folds && one.kind == VALUE_TEXT && other.kind == VALUE_TEXT
                        ? compare_text(&one, &other) == 0
                        : value_same(call->machine, &one, &other);
        }
        if (!known)
            list[count++] = value->list[i];
    }
    *value = list_value(list, count);
    return list != NULL;
}

/* The arguments from `first` on that have no names. */
static struct arguments rest_of(const struct arguments *given, uint32_t first)
{
    struct arguments rest = { .count = 0 };

    for (uint32_t i = 0; i < given->count; i++) {
        if (given->names[i].kind == VALUE_UNDEFINED && first > 0) {
            first--;
            continue;
        }
        rest.names[rest.count] = given->names[i];
        rest.values[rest.count++] = given->values[i];
    }
    return rest;
}

/* The elements that select and map take: as in Jinja, a value that counts as false has none. */
static bool elements_if_true(const filter_call *call, struct value *value)
{
    if (!value_truth(value))
        *value = list_value(NULL, 0);
    return value_elements(call->machine, value);
}

/* select, reject, selectattr, rejectattr: by a test, or by the truth. */
static bool filter_select(const filter_call *call, struct value *value)
{
    bool by_attribute = call->name->count > 6, keeps = call->name->text[0] == 's';
    const struct value *path = argument_get(call->arguments, 0, NULL);
    const struct value *test = argument_get(call->arguments, by_attribute, NULL);
    struct arguments rest = rest_of(call->arguments, 1u + by_attribute);
    struct value *list;
    size_t count = 0;

    if (by_attribute && path == NULL)
        return fail(call, "without a name, the filter");
    if (!elements_if_true(call, value))
        return false;
    list = machine_memory(call->machine, value->count * sizeof *list);
    for (size_t i = 0; list != NULL && i < value->count; i++) {
        struct value one = by_attribute ? attribute_of(call->machine, &value->list[i], path) : value->list[i];
        bool holds = value_truth(&one);

        if (test != NULL && (test->kind != VALUE_TEXT || !value_test(call->machine, test, &one, &rest, &holds)))
            return fail(call, "without the name of a test, the filter");
        if (holds == keeps)
            list[count++] = value->list[i];
    }
    *value = list_value(list, count);
    return list != NULL;
}

/* map(attribute="a.b", default=x), or map("filter", arguments). */
static bool filter_map(const filter_call *call, struct value *value)
{
    const struct value *path = argument_get(call->arguments, UINT32_MAX, "attribute");
    const struct value *otherwise = argument_get(call->arguments, UINT32_MAX, "default");
    const struct value *filter = argument_get(call->arguments, 0, NULL);
    struct arguments rest = rest_of(call->arguments, 1);
    struct value *list;
    bool good = machine_enter(call->machine);

    if (!good || (path == NULL && (filter == NULL || filter->kind != VALUE_TEXT)))
        return fail(call, "without a filter or an attribute, the filter");
    good = elements_if_true(call, value);
    list = good ? machine_memory(call->machine, value->count * sizeof *list) : NULL;
    for (size_t i = 0; list != NULL && good && i < value->count; i++) {
        list[i] = path != NULL ? attribute_of(call->machine, &value->list[i], path) : value->list[i];
        if (path == NULL)
            good = value_filter(call->machine, filter, &list[i], &rest);
        else if (list[i].kind == VALUE_UNDEFINED && otherwise != NULL)
            list[i] = *otherwise;
    }
    machine_leave(call->machine);
    *value = list_value(list, value->count);
    return list != NULL && good;
}

static bool filter_indent(const filter_call *call, struct value *value)
{
    const struct value *width = argument_get(call->arguments, 0, "width");
    bool first = argument_truth(call->arguments, 1, "first", false);
    bool blank = argument_truth(call->arguments, 2, "blank", false);
    struct value space = text_value("                                                                ", 4);
    struct strbuf text = { 0 };

    if (value->kind != VALUE_TEXT)
        return fail(call, "for this value, the filter");
    if (width != NULL && width->kind == VALUE_TEXT)
        space = *width;
    else if (width != NULL && value_is_whole(width))
        space.count = width->number < 0 ? 0 : width->number > 64 ? 64 : (size_t)width->number;
    if (first)
        strbuf_add(&text, space.text, space.count);
    for (size_t i = 0; i < value->count; i++) {
        if (i > 0 && value->text[i - 1] == '\n' && (blank || value->text[i] != '\n'))
            strbuf_add(&text, space.text, space.count);
        strbuf_add(&text, &value->text[i], 1);
        if (text.size > TEMPLATE_TEXT)
            break;
    }
    return machine_take(call->machine, &text, value);
}

bool value_escape(struct machine *machine, struct value *text)
{
    static const char signs[] = "&<>'\"";
    static const char *const names[] = { "&amp;", "&lt;", "&gt;", "&#39;", "&#34;" };
    struct strbuf escaped = { 0 };

    if (text->is_safe)
        return true;
    for (size_t i = 0; i < text->count; i++) {
        const char *at = memchr(signs, text->text[i], sizeof signs - 1);

        if (at != NULL)
            strbuf_text(&escaped, names[at - signs]);
        else
            strbuf_add(&escaped, &text->text[i], 1);
    }
    if (!machine_take(machine, &escaped, text))
        return false;
    text->is_safe = true;
    return true;
}

static bool filter_escape(const filter_call *call, struct value *value)
{
    return filter_string(call, value) && value_escape(call->machine, value);
}

static bool filter_safe(const filter_call *call, struct value *value)
{
    if (!filter_string(call, value))
        return false;
    value->is_safe = true;
    return true;
}

/* Filters that are also methods of texts. As in Jinja, other values are converted to texts first. */
static bool filter_text(const filter_call *call, struct value *value)
{
    bool known;

    return filter_string(call, value) && value_change_text(call->machine, call->name, value, call->arguments, &known) &&
           (known || fail(call, "the filter"));
}

/* Upper-cases the first letter of each word. The method of the same name also upper-cases letters after other
 * characters than the separators here. */
static bool filter_title(const filter_call *call, struct value *value)
{
    bool first = true;
    char *changed;

    if (!filter_string(call, value) || (changed = machine_memory(call->machine, value->count + 1)) == NULL)
        return false;
    for (size_t i = 0; i < value->count; i++) {
        const char c = value->text[i];

        changed[i] = (char)(first && c >= 'a' && c <= 'z' ? c - 32 : !first && c >= 'A' && c <= 'Z' ? c + 32 : c);
        first = c != '\0' && (value_is_white(c) || strchr("-({[<", c) != NULL);
    }
    *value = text_value(changed, value->count);
    return true;
}

bool value_filter(struct machine *machine, const struct value *name, struct value *value,
                  const struct arguments *arguments)
{
    static const struct {
        const char *name;
        bool (*change)(const filter_call *call, struct value *value);
    } filters[] = {
        { "abs", filter_abs },           { "attr", filter_attr },       { "capitalize", filter_text },
        { "count", filter_length },      { "d", filter_default },       { "default", filter_default },
        { "dictsort", filter_dictsort }, { "e", filter_escape },        { "escape", filter_escape },
        { "first", filter_end },         { "float", filter_number },    { "indent", filter_indent },
        { "int", filter_number },        { "items", filter_items },     { "join", filter_join },
        { "last", filter_end },          { "length", filter_length },   { "list", filter_list },
        { "lower", filter_text },        { "map", filter_map },         { "max", filter_extreme },
        { "min", filter_extreme },       { "reject", filter_select },   { "rejectattr", filter_select },
        { "replace", filter_text },      { "reverse", filter_reverse }, { "round", filter_round },
        { "safe", filter_safe },         { "select", filter_select },   { "selectattr", filter_select },
        { "sort", filter_sort },         { "string", filter_string },   { "sum", filter_sum },
        { "title", filter_title },       { "tojson", filter_tojson },   { "trim", filter_text },
        { "unique", filter_unique },     { "upper", filter_text },
    };
    const filter_call call = { machine, name, arguments };

    for (size_t i = 0; i < sizeof filters / sizeof *filters; i++)
        if (value_is(name, filters[i].name))
            return filters[i].change(&call, value);
    return fail(&call, "the filter");
}
