#include "data/literal.h"
#include "base/checked.h"
#include "base/element.h"
#include "base/memory.h"
#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* Parses a text without a terminating NUL. *out_whole: it is an integer of at most 64 bits, *out_integer, which is 2^64
 * larger if *out_above. */
static bool parse_number(const char *text, size_t bytes, double *out, bool *out_whole, int64_t *out_integer,
                         bool *out_above)
{
    static const struct {
        const char *word;
        int64_t value;
    } words[] = { { "true", 1 }, { "false", 0 } };
    char copy[64], *end = NULL;

    *out_whole = *out_above = false;
    if (bytes == 0 || bytes >= sizeof copy)
        return false;
    memcpy(copy, text, bytes);
    copy[bytes] = '\0';
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (strcasecmp(copy, words[i].word) == 0) {
            *out = (double)(*out_integer = words[i].value);
            return *out_whole = true;
        }
    if (isspace((unsigned char)copy[0]) || strpbrk(copy, "xXpP(") != NULL) /* forms that only strtod() knows */
        return false;
    *out = strtod(copy, &end);
    if (*end != '\0' || end == copy)
        return false;
    errno = 0;
    *out_integer = strtoll(copy, &end, 10);
    *out_whole = *end == '\0' && errno == 0;
    if (!*out_whole && *end == '\0' && copy[0] != '-') {
        errno = 0;
        *out_integer = (int64_t)strtoull(copy, &end, 10);
        *out_whole = *out_above = *end == '\0' && errno == 0;
    }
    return true;
}

bool literal_is_number(const char *text, size_t bytes)
{
    double number;
    int64_t integer;
    bool whole, above;

    return parse_number(text, bytes, &number, &whole, &integer, &above);
}

const char *literal_put(const char *text, size_t bytes, inlay_dtype dtype, void *data, int64_t index)
{
    const uint32_t width = inlay_dtype_bits(dtype) / 8;
    char *at = (char *)data + index * (int64_t)width;
    double number, back = 0;
    int64_t integer;
    bool whole, above;

    if (!element_converts(INLAY_DOUBLE, dtype))
        return "cannot be written as text; use a .npy file";
    if (!parse_number(text, bytes, &number, &whole, &integer, &above))
        return bytes == 0 ? "is empty" : "is not a number";
    if (element_put_number(dtype, at, 0, number)) {
        (void)element_number(dtype, at, 0, &back, NULL);
        return isinf(back) && strncasecmp(text + (*text == '-' || *text == '+'), "inf", 3) != 0
                   ? "is too large for the type of the input"
                   : NULL;
    }
    if (whole ? element_convert(above ? INLAY_UINT64 : INLAY_INT64, &integer, dtype, at, 1) == 1
              : element_convert(INLAY_DOUBLE, &number, dtype, at, 1) == 1)
        return NULL;
    return dtype == INLAY_BOOL ? "is neither true nor false" : whole ? "is out of range" : "is not an integer";
}

/* An element of a list: a part of the source, or for a string with escapes a copy in `texts`. */
struct element {
    const char *text;
    size_t bytes;
    bool quoted;
};

struct list {
    const char *name; /* of the input, for messages */
    const char *at;
    int64_t dims[INLAY_MAX_RANK];
    uint32_t rank; /* depth of the elements; INLAY_RANK_UNKNOWN: no element was read yet */
    struct element *elements;
    size_t count, room;
    char *texts; /* [strlen(source) + 1] */
    size_t texts_used;
    inlay_diag *diag;
};

static void skip_space(struct list *list)
{
    while (isspace((unsigned char)*list->at))
        list->at++;
}

static inlay_status list_fail(struct list *list, const char *what)
{
    return inlay_fail(list->diag, INLAY_INVALID_ARGUMENT,
                      "--input %.100s: %s at '%.40s'; lists are written as [[1,2],[3,4]]", list->name, what, list->at);
}

/* A text in double quotes, with \" and \\. */
static inlay_status read_quoted(struct list *list, struct element *out)
{
    char *to = list->texts + list->texts_used;

    *out = (struct element){ to, 0, true };
    for (list->at++; *list->at != '"'; list->at++) {
        if (*list->at == '\\' && (list->at[1] == '"' || list->at[1] == '\\'))
            list->at++;
        if (*list->at == '\0')
            return list_fail(list, "the closing quote is missing");
        to[out->bytes++] = *list->at;
    }
    list->at++;
    list->texts_used += out->bytes;
    return INLAY_OK;
}

static inlay_status read_element(struct list *list)
{
    struct element element = { list->at, 0, false };
    inlay_status status = INLAY_OK;

    if (*list->at == '"')
        status = read_quoted(list, &element);
    else
        for (; *list->at != '\0' && *list->at != ',' && *list->at != ']' && *list->at != '['; list->at++)
            element.bytes = isspace((unsigned char)*list->at) ? element.bytes : (size_t)(list->at + 1 - element.text);
    if (status != INLAY_OK)
        return status;
    if (element.bytes == 0 && !element.quoted)
        return list_fail(list, "an element is missing");
    if (list->count == list->room) {
        const size_t room = list->room * 2 + 16;
        struct element *more = realloc(list->elements, room * sizeof *more);

        if (more == NULL)
            return no_memory(list->diag, "for %zu elements", room);
        list->elements = more;
        list->room = room;
    }
    list->elements[list->count++] = element;
    return INLAY_OK;
}

/* Reads the members of a list up to its end: ']', or for the outermost list without brackets the end of the text. */
static inlay_status read_members(struct list *list, uint32_t depth, char end)
{
    int64_t count = 0;
    inlay_status status = INLAY_OK;

    for (skip_space(list); *list->at != end || count > 0; skip_space(list)) {
        if (*list->at == '[') {
            if (depth + 1 == INLAY_MAX_RANK)
                return list_fail(list, "too many inner lists");
            list->at++;
            status = read_members(list, depth + 1, ']');
        } else {
            if (list->rank == INLAY_RANK_UNKNOWN)
                list->rank = depth + 1;
            if (list->rank != depth + 1)
                return list_fail(list, "a number where a list is expected");
            status = read_element(list);
        }
        if (status != INLAY_OK)
            return status;
        count++;
        skip_space(list);
        if (*list->at == end)
            break;
        if (*list->at != ',')
            return list_fail(list, *list->at == '\0' ? "a bracket is not closed" : "expected a comma");
        list->at++;
    }
    if (list->rank == INLAY_RANK_UNKNOWN)
        list->rank = depth + 1; /* an empty list */
    if (depth >= list->rank)
        return list_fail(list, "a list where a number is expected");
    if (list->dims[depth] >= 0 && list->dims[depth] != count)
        return inlay_fail(list->diag, INLAY_INVALID_ARGUMENT,
                          "--input %.100s: a list of %lld among lists of %lld: all need the same length", list->name,
                          (long long)count, (long long)list->dims[depth]);
    list->dims[depth] = count;
    list->at += *list->at == ']';
    return INLAY_OK;
}

static inlay_status read_list(struct list *list)
{
    const bool bracket = (skip_space(list), *list->at == '[');
    inlay_status status;

    list->at += bracket;
    status = read_members(list, 0, bracket ? ']' : '\0');
    skip_space(list);
    return status == INLAY_OK && *list->at != '\0' ? list_fail(list, "text after the list") : status;
}

bool literal_is(const char *source)
{
    while (isspace((unsigned char)*source))
        source++;
    if (*source == '[')
        return true;
    for (;;) {
        const size_t bytes = strcspn(source, ",");
        const size_t space = strspn(source, " \t");

        if (space > bytes || !literal_is_number(source + space, bytes - space))
            return false;
        if (source[bytes] == '\0')
            return true;
        source += bytes + 1;
    }
}

bool literal_fill(const inlay_io_info *info, int64_t count, int64_t *dims, uint32_t *out_rank)
{
    int64_t known = 1;
    uint32_t open = INLAY_NONE;

    if (info->rank == INLAY_RANK_UNKNOWN || info->rank > INLAY_MAX_RANK) {
        dims[0] = count;
        *out_rank = 1;
        return true;
    }
    *out_rank = info->rank;
    for (uint32_t axis = 0; axis < info->rank; axis++) {
        dims[axis] = info->dims[axis] >= 0 ? info->dims[axis] : 1;
        open = info->dims[axis] >= 0 ? open : axis;
        if (__builtin_mul_overflow(known, dims[axis], &known))
            return false;
    }
    if (open == INLAY_NONE)
        return known == count;
    if (known == 0 || count % known != 0)
        return false;
    dims[open] = count / known;
    return true;
}

static inlay_status make_strings(const struct list *list, const int64_t *dims, uint32_t rank, inlay_value **out_value)
{
    inlay_str *texts = calloc(list->count + 1, sizeof *texts);
    inlay_status status;

    if (texts == NULL)
        return no_memory(list->diag, "for %zu texts", list->count);
    for (size_t i = 0; i < list->count; i++)
        texts[i] = (inlay_str){ list->elements[i].text, list->elements[i].bytes };
    status = inlay_value_create_strings(rank, dims, texts, out_value, list->diag);
    free(texts);
    return status;
}

static inlay_status make_numbers(const struct list *list, const inlay_io_info *info, const int64_t *dims, uint32_t rank,
                                 inlay_value **out_value)
{
    inlay_value *value = NULL;
    inlay_status status = inlay_value_create(info->dtype, rank, dims, &value, list->diag);

    for (size_t i = 0; status == INLAY_OK && i < list->count; i++) {
        const struct element *element = &list->elements[i];
        const char *wrong = element->quoted ? "is a text"
                                            : literal_put(element->text, element->bytes, info->dtype,
                                                          inlay_value_data(value), (int64_t)i);

        if (wrong != NULL)
            status = inlay_fail(list->diag, INLAY_INVALID_ARGUMENT,
                                "--input %.100s: '%.*s' (element %zu) %s; the input is %s", list->name,
                                (int)(element->bytes < 60 ? element->bytes : 60), element->text, i, wrong,
                                inlay_dtype_name(info->dtype));
    }
    if (status == INLAY_OK) {
        *out_value = value;
        value = NULL;
    }
    inlay_value_unref(value);
    return status;
}

inlay_status literal_load(const char *source, const inlay_io_info *info, inlay_value **out_value, inlay_diag *diag)
{
    struct list list = { .name = info->name, .at = source, .rank = INLAY_RANK_UNKNOWN, .diag = diag };
    inlay_io_info number = *info;
    int64_t dims[INLAY_MAX_RANK];
    char want[128];
    uint32_t rank;
    inlay_status status;

    number.dtype = info->dtype == INLAY_UNDEFINED ? INLAY_FLOAT : info->dtype;
    for (uint32_t i = 0; i < INLAY_MAX_RANK; i++)
        list.dims[i] = -1;
    list.texts = malloc(strlen(source) + 1);
    if (list.texts == NULL) {
        status = no_memory(diag, "for an input");
        goto done;
    }
    INLAY_TRY(read_list(&list));
    rank = list.rank;
    memcpy(dims, list.dims, sizeof dims);
    if (rank == 1 && !literal_fill(&number, (int64_t)list.count, dims, &rank)) {
        status = inlay_fail(diag, INLAY_SHAPE_MISMATCH, "--input %.100s: %zu elements do not fill %s%s", info->name,
                            list.count, inlay_dtype_name(number.dtype),
                            dims_text(info->dims, info->rank, ",", want, sizeof want));
        goto done;
    }
    status = number.dtype == INLAY_STRING ? make_strings(&list, dims, rank, out_value)
                                          : make_numbers(&list, &number, dims, rank, out_value);
done:
    free(list.elements);
    free(list.texts);
    return status;
}
