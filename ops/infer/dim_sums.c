/* ops/infer/dim_sums.c - sums of products: their normal form, writing and parsing. dims.c describes the notation. */
#include "dim_sums.h"
#include "inlay/check.h"
#include <string.h>

static int compare_atoms(struct atom a, struct atom b)
{
    size_t n = a.bytes < b.bytes ? a.bytes : b.bytes;
    int order = memcmp(a.text, b.text, n);

    return order != 0 ? order : (a.bytes > b.bytes) - (a.bytes < b.bytes);
}

/* The constant term comes last. */
static int compare_terms(const struct term *a, const struct term *b)
{
    if (a->count == 0 || b->count == 0)
        return (a->count == 0) - (b->count == 0);
    for (uint32_t i = 0; i < a->count && i < b->count; i++) {
        int order = compare_atoms(a->atoms[i], b->atoms[i]);

        if (order != 0)
            return order;
    }
    return (a->count > b->count) - (a->count < b->count);
}

bool sum_add(struct sum *sum, const struct term *term)
{
    uint32_t i = 0;
    int order = 1;

    INLAY_CHECK(sum->count <= MAX_TERMS && (term->factor == 0 || term->count <= MAX_ATOMS));
    if (term->factor == 0)
        return true;
    for (; i < sum->count && (order = compare_terms(&sum->terms[i], term)) < 0; i++)
        ;
    if (i < sum->count && order == 0) {
        if (__builtin_add_overflow(sum->terms[i].factor, term->factor, &sum->terms[i].factor))
            return false;
        if (sum->terms[i].factor == 0)
            memmove(&sum->terms[i], &sum->terms[i + 1], (--sum->count - i) * sizeof sum->terms[0]);
        return true;
    }
    if (sum->count == MAX_TERMS)
        return false;
    memmove(&sum->terms[i + 1], &sum->terms[i], (sum->count++ - i) * sizeof sum->terms[0]);
    sum->terms[i] = *term;
    return true;
}

bool term_multiply(const struct term *a, const struct term *b, struct term *out)
{
    uint32_t i = 0, j = 0;

    INLAY_CHECK(out != a && out != b);
    if (a->count + b->count > MAX_ATOMS || __builtin_mul_overflow(a->factor, b->factor, &out->factor))
        return false;
    for (out->count = 0; i < a->count || j < b->count; out->count++) {
        bool first = j == b->count || (i < a->count && compare_atoms(a->atoms[i], b->atoms[j]) <= 0);

        out->atoms[out->count] = first ? a->atoms[i++] : b->atoms[j++];
    }
    INLAY_CHECK(out->count == a->count + b->count);
    return true;
}

bool term_divide(const struct term *a, const struct term *b, struct term *out)
{
    uint32_t j = 0;

    INLAY_CHECK(out != a && out != b);
    if (b->factor == 0 || (a->factor == INT64_MIN && b->factor == -1) || a->factor % b->factor != 0)
        return false;
    out->factor = a->factor / b->factor;
    out->count = 0;
    for (uint32_t i = 0; i < a->count; i++) {
        if (j < b->count && compare_atoms(a->atoms[i], b->atoms[j]) == 0)
            j++;
        else
            out->atoms[out->count++] = a->atoms[i];
    }
    return j == b->count;
}

void text_append(dim_text *text, const char *data, size_t bytes)
{
    INLAY_CHECK(text->bytes <= MAX_TEXT);
    if (bytes > MAX_TEXT - text->bytes) {
        text->full = true;
        return;
    }
    memcpy(text->data + text->bytes, data, bytes);
    text->bytes += bytes;
    text->data[text->bytes] = '\0';
}

void text_append_string(dim_text *text, const char *data)
{
    text_append(text, data, strlen(data));
}

static void text_append_number(dim_text *text, uint64_t value)
{
    char digits[24];
    int count = snprintf(digits, sizeof digits, "%llu", (unsigned long long)value);

    INLAY_CHECK(count > 0 && (size_t)count < sizeof digits);
    text_append(text, digits, (size_t)count);
}

static void text_append_term(dim_text *text, const struct term *product, bool first)
{
    uint64_t size = product->factor < 0 ? 0 - (uint64_t)product->factor : (uint64_t)product->factor;

    if (product->factor < 0)
        text_append_string(text, first ? "-" : " - ");
    else if (!first)
        text_append_string(text, " + ");
    if (size != 1 || product->count == 0)
        text_append_number(text, size);
    for (uint32_t i = 0; i < product->count; i++) {
        if (i > 0 || size != 1)
            text_append_string(text, "*");
        text_append(text, product->atoms[i].text, product->atoms[i].bytes);
    }
}

void text_append_sum(dim_text *text, const struct sum *sum)
{
    for (uint32_t i = 0; i < sum->count; i++)
        text_append_term(text, &sum->terms[i], i == 0);
    if (sum->count == 0)
        text_append_string(text, "0");
}

static bool is_name_char(char c, bool first)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
           (!first && ((c >= '0' && c <= '9') || c == '.'));
}

/* The bytes of "floor(", "min(", "broadcast(" or "last(" at the start of the text; otherwise 0. */
static size_t call_bytes(const char *at)
{
    static const char *const calls[] = { "floor(", "min(", "broadcast(", "last(" };

    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++)
        if (strncmp(at, calls[i], strlen(calls[i])) == 0)
            return strlen(calls[i]);
    return 0;
}

/* Reads a name, a call such as floor(...), or [...]. Returns the text after it; NULL if there is no atom. */
static const char *read_atom(const char *at, struct atom *out)
{
    size_t call = call_bytes(at);
    uint32_t open = 0;

    out->text = at;
    if (*at == '[') {
        at = strchr(at, ']');
        at = at != NULL ? at + 1 : NULL;
    } else if (call > 0) {
        do {
            open += *at == '(';
            open -= *at == ')' && open > 0;
            at++;
        } while (*at != '\0' && (open > 0 || at < out->text + call));
        at = open == 0 ? at : NULL;
    } else {
        while (is_name_char(*at, at == out->text))
            at++;
    }
    if (at == NULL || at == out->text)
        return NULL;
    out->bytes = (size_t)(at - out->text);
    return at;
}

static const char *read_term(const char *at, struct term *out)
{
    bool number = *at >= '0' && *at <= '9';
    struct term one = { .count = 1, .factor = 1 }, product;

    *out = (struct term){ .factor = 1 };
    if (number) {
        for (out->factor = 0; *at >= '0' && *at <= '9'; at++)
            if (__builtin_mul_overflow(out->factor, 10, &out->factor) ||
                __builtin_add_overflow(out->factor, *at - '0', &out->factor))
                return NULL;
        if (*at != '*')
            return at;
        at++;
    }
    for (;;) {
        at = read_atom(at, &one.atoms[0]);
        if (at == NULL || !term_multiply(out, &one, &product))
            return NULL;
        *out = product;
        if (*at != '*')
            return at;
        at++;
    }
}

/* A model may call a dimension "7": that is a name, and its size may be another number. */
static bool has_names(const struct sum *sum)
{
    return sum->count > 1 || (sum->count == 1 && sum->terms[0].count > 0);
}

bool sum_read(const char *at, struct sum *out)
{
    int64_t sign = 1;

    out->count = 0;
    if (*at == '-') {
        sign = -1;
        at++;
    }
    for (;;) {
        struct term term;

        at = read_term(at, &term);
        if (at == NULL)
            return false;
        term.factor *= sign;
        if (!sum_add(out, &term))
            return false;
        if (*at == '\0')
            return has_names(out);
        if (strncmp(at, " + ", 3) != 0 && strncmp(at, " - ", 3) != 0)
            return false;
        sign = at[1] == '+' ? 1 : -1;
        at += 3;
    }
}

bool sum_read_with(const char *text, int64_t (*size)(void *ctx, const char *name, size_t bytes), void *ctx,
                   struct sum *out)
{
    struct sum read;

    out->count = 0;
    if (!sum_read(text, &read))
        return false;
    for (uint32_t i = 0; i < read.count; i++) {
        struct term term = { .factor = read.terms[i].factor };

        for (uint32_t k = 0; k < read.terms[i].count; k++) {
            const struct atom *atom = &read.terms[i].atoms[k];
            const int64_t known = size(ctx, atom->text, atom->bytes);

            if (known < 0)
                term.atoms[term.count++] = *atom;
            else if (__builtin_mul_overflow(term.factor, known, &term.factor))
                return false;
        }
        if (!sum_add(out, &term))
            return false;
    }
    return true;
}

int64_t sum_value(const struct sum *sum)
{
    if (has_names(sum))
        return -1;
    return sum->count == 0 ? 0 : sum->terms[0].factor < 0 ? -1 : sum->terms[0].factor;
}

bool sum_from_dim(const op_infer *infer, inlay_dim dim, dim_text *scratch, struct sum *out)
{
    const char *name;

    out->count = 0;
    if (dim.kind == INLAY_DIM_FIXED)
        return sum_add(out, &(struct term){ .factor = dim.value });
    if (dim.kind != INLAY_DIM_SYMBOLIC)
        return false;
    name = infer->symbol_name(infer->ctx, dim.symbol);
    if (name == NULL)
        return false;
    if (sum_read(name, out))
        return true;
    if (strchr(name, ']') != NULL)
        return false;
    scratch->bytes = 0;
    scratch->full = false;
    text_append_string(scratch, "[");
    text_append_string(scratch, name);
    text_append_string(scratch, "]");
    out->count = 1;
    out->terms[0] = (struct term){ .factor = 1, .count = 1, .atoms = { { scratch->data, scratch->bytes } } };
    return !scratch->full;
}

inlay_dim dim_from_sum(op_infer *infer, const struct sum *sum)
{
    dim_text text = { .bytes = 0 };
    const char *name = text.data;
    uint32_t symbol;

    if (sum->count == 0)
        return dim_fixed(0);
    if (sum->count == 1 && sum->terms[0].count == 0)
        return dim_fixed(sum->terms[0].factor);
    text_append_sum(&text, sum);
    if (text.full)
        return dim_unknown();
    INLAY_CHECK(text.bytes > 0);
    if (sum->count == 1 && sum->terms[0].count == 1 && sum->terms[0].factor == 1 && text.data[0] == '[') {
        text.data[text.bytes - 1] = '\0';
        name++;
    }
    symbol = infer->symbol(infer->ctx, name);
    if (symbol == 0)
        return dim_unknown();
    return (inlay_dim){ .value = -1, .kind = INLAY_DIM_SYMBOLIC, .symbol = symbol };
}
