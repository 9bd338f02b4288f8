/* Tensors as text: the values of an argument, and the output of a run. */
#include "text.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SHOWN = 8 }; /* elements of an output */

static const struct kind {
    uint32_t dtype;
    const char *name;
    long long least;
    unsigned long long most; /* 0: a float */
} kinds[] = {
    { INLAY_FLOAT, "float", 0, 0 },
    { INLAY_DOUBLE, "double", 0, 0 },
    { INLAY_BOOL, "bool", 0, 1 },
    { INLAY_INT8, "int8", INT8_MIN, INT8_MAX },
    { INLAY_INT16, "int16", INT16_MIN, INT16_MAX },
    { INLAY_INT32, "int32", INT32_MIN, INT32_MAX },
    { INLAY_INT64, "int64", INT64_MIN, INT64_MAX },
    { INLAY_UINT8, "uint8", 0, UINT8_MAX },
    { INLAY_UINT16, "uint16", 0, UINT16_MAX },
    { INLAY_UINT32, "uint32", 0, UINT32_MAX },
    { INLAY_UINT64, "uint64", 0, UINT64_MAX },
};

static const struct kind *kind_of(const bundle_tensor *tensor)
{
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        if (kinds[i].dtype == tensor->dtype)
            return &kinds[i];
    return NULL;
}

static int is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\n';
}

/* A number, with the blanks before it. Returns the end of it, or NULL: there is none within the type. */
static const char *read_number(const struct kind *kind, const char *text, char *to, uint32_t bytes)
{
    static const char *const words[] = { "false", "true" };
    const int negative = (text += strspn(text, " \t\n"), *text == '-');
    const char *digits = text + negative;
    unsigned long long whole = 0;
    char *end = NULL;

    for (unsigned i = 0; kind->dtype == INLAY_BOOL && i < 2; i++)
        if (strncmp(text, words[i], strlen(words[i])) == 0) {
            *to = (char)i;
            return text + strlen(words[i]);
        }
    if (kind->most == 0) {
        const double number = strtod(text, &end);
        const float narrow = (float)number;

        memcpy(to, kind->dtype == INLAY_FLOAT ? (const void *)&narrow : (const void *)&number, bytes);
        /* "inf" may be given, a number beyond the type not */
        return end == text || (*digits < 'A' && isinf(kind->dtype == INLAY_FLOAT ? narrow : number)) ? NULL : end;
    }
    for (; *digits >= '0' && *digits <= '9'; digits++)
        if (__builtin_mul_overflow(whole, 10, &whole) || __builtin_add_overflow(whole, *digits - '0', &whole))
            return NULL;
    if (digits == text + negative || whole > (negative ? 0 - (unsigned long long)kind->least : kind->most))
        return NULL;
    whole = negative ? 0 - whole : whole;
    memcpy(to, &whole, bytes); /* the low bytes: little-endian */
    return digits;
}

int text_is_values(const char *text)
{
    const struct kind *number = kind_of(&(const bundle_tensor){ .dtype = INLAY_DOUBLE });
    const struct kind *word = kind_of(&(const bundle_tensor){ .dtype = INLAY_BOOL });
    char unused[8];
    const char *end = read_number(word, text, unused, 1);

    if (*text == '[')
        return 1;
    end = end != NULL ? end : read_number(number, text, unused, sizeof unused);
    return end != NULL && (*end == ',' || *end == '\0');
}

struct reader {
    const bundle_tensor *tensor;
    const struct kind *kind;
    const char *at, *fault;
    char *to;
    uint64_t count; /* of elements that were read */
};

static int fail_at(struct reader *reader, const char *fault)
{
    reader->fault = fault;
    return 0;
}

/* The members of a list up to `end`. depth: of the list in the tensor, or its rank for a list without inner lists that
 * fills any shape. */
static int read_members(struct reader *reader, uint32_t depth, char end)
{
    const bundle_tensor *tensor = reader->tensor;
    const uint64_t room = tensor->bytes / tensor->element_bytes;
    uint64_t count = 0;

    for (;; reader->at++) {
        while (is_space(*reader->at))
            reader->at++;
        if (*reader->at == end && count == 0)
            break;
        if (depth + 1 < tensor->rank) {
            if (*reader->at != '[')
                return fail_at(reader, "expected an inner list, for the rank of the input");
            reader->at++;
            if (!read_members(reader, depth + 1, ']'))
                return 0;
        } else {
            const char *next = reader->count == room
                                   ? NULL
                                   : read_number(reader->kind, reader->at,
                                                 reader->to + reader->count * tensor->element_bytes,
                                                 tensor->element_bytes);

            if (reader->count == room)
                return fail_at(reader, "more elements than the shape of the input has");
            if (next == NULL)
                return fail_at(reader, "no number of the type of the input");
            reader->at = next;
            reader->count++;
        }
        count++;
        while (is_space(*reader->at))
            reader->at++;
        if (*reader->at == end)
            break;
        if (*reader->at != ',')
            return fail_at(reader, "expected a comma or the end of the list");
    }
    if (depth < tensor->rank && count != (uint64_t)tensor->dims[depth])
        return fail_at(reader, "a list of another length than the shape of the input has");
    reader->at += *reader->at == ']';
    return 1;
}

const char *text_read(const char *text, const bundle_tensor *tensor, char *to, const char **out_at)
{
    struct reader reader = { tensor, kind_of(tensor), text, NULL, to, 0 };
    const int is_nested = text[0] == '[' && text[1 + strspn(text + 1, " \t\n")] == '[';

    *out_at = text;
    if (reader.kind == NULL)
        return "elements of this type cannot be written as text; give a .npy file";
    reader.at += *text == '[';
    if (read_members(&reader, is_nested ? 0 : tensor->rank, *text == '[' ? ']' : '\0')) {
        if (*reader.at != '\0')
            reader.fault = "text after the list";
        else if (reader.count != tensor->bytes / tensor->element_bytes)
            reader.fault = "fewer elements than the shape of the input has";
    }
    *out_at = reader.at;
    return reader.fault;
}

void text_print(const bundle_tensor *tensor, const char *from)
{
    const struct kind *kind = kind_of(tensor);
    const uint64_t count = tensor->element_bytes > 0 ? tensor->bytes / tensor->element_bytes : 0;

    (void)printf("%s: %s[", tensor->name, kind != NULL ? kind->name : "");
    for (uint32_t axis = 0; axis < tensor->rank; axis++)
        (void)printf("%s%lld", axis > 0 ? "," : "", (long long)tensor->dims[axis]);
    (void)printf("]%s", kind != NULL ? " =" : ", written by -o only");
    for (uint64_t i = 0; kind != NULL && i < count && i < SHOWN; i++) {
        const char *element = from + i * tensor->element_bytes;
        unsigned long long whole = 0;
        double number;
        float narrow;

        if (kind->most > 0) {
            memcpy(&whole, element, tensor->element_bytes);
            if (kind->least < 0 && tensor->element_bytes < 8 && whole > kind->most) /* negative */
                whole |= ~0ull << tensor->element_bytes * 8;
            (void)printf(kind->least < 0 ? " %lld" : " %llu", whole);
            continue;
        }
        memcpy(kind->dtype == INLAY_FLOAT ? (void *)&narrow : (void *)&number, element, tensor->element_bytes);
        (void)printf(" %.9g", kind->dtype == INLAY_FLOAT ? (double)narrow : number);
    }
    (void)printf("%s\n", kind != NULL && count > SHOWN ? " ..." : "");
}
