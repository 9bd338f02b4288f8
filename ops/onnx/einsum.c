/* onnx/einsum.c - Einstein summation. */
#include "schema.h"
#include "inlay/check.h"
#include <string.h>

enum { LETTERS = 52, LABELS = LETTERS + INLAY_MAX_RANK };

/* Sizes by label: a-z, A-Z, then the dimensions of the ellipsis, right-aligned. */
struct labels {
    inlay_dim size[LABELS];
    uint32_t seen[LABELS]; /* occurrences in the terms of the inputs */
    uint32_t ellipsis;     /* the largest number of dimensions of an ellipsis */
};

/* The index of a letter in struct labels; LETTERS for other characters. */
static uint32_t letter_index(char c)
{
    return c >= 'a' && c <= 'z' ? (uint32_t)(c - 'a') : c >= 'A' && c <= 'Z' ? (uint32_t)(c - 'A') + 26 : LETTERS;
}

/* Counts the letters of a term. *out_end: the end of the term, which is a ',', "->" or the end of the equation.
 * *out_ellipsis: the term has an ellipsis. */
static uint32_t term_letters(const char *term, const char **out_end, bool *out_ellipsis)
{
    uint32_t count = 0;

    *out_ellipsis = false;
    for (; *term != '\0' && *term != ',' && *term != '-'; term++) {
        count += letter_index(*term) < LETTERS;
        *out_ellipsis |= *term == '.';
    }
    *out_end = term;
    return count;
}

/* Merges the dimensions of input i into the sizes of the labels of its term, which has `named` letters. */
static inlay_status read_term(op_infer *infer, uint32_t i, const char *term, const char *end, uint32_t named,
                              struct labels *labels)
{
    uint32_t rank = infer_rank(infer, i), d = 0, e = rank - named;
    inlay_status status = INLAY_OK;

    INLAY_CHECK(named <= rank && e <= labels->ellipsis);
    for (const char *p = term; p < end; p++) {
        uint32_t first = letter_index(*p), count = 1;
        if (*p == '.') {
            p += 2;
            first = LETTERS + labels->ellipsis - e;
            count = e;
        } else if (first == LETTERS) {
            continue;
        }
        for (uint32_t j = 0; j < count; j++, d++) {
            INLAY_TRY(dim_broadcast(infer, labels->size[first + j], infer_dim(infer, i, d), &labels->size[first + j]));
            labels->seen[first + j]++;
        }
    }
done:
    return status;
}

/* Sets the shape of the output. output: the term after "->", or NULL if the equation has none. */
static inlay_status set_output(op_infer *infer, const char *output, const struct labels *labels)
{
    inlay_dim dims[INLAY_MAX_RANK];
    uint32_t rank = 0;

    if (output == NULL) { /* no "->": the ellipsis, then the letters that occur once, upper case first */
        for (uint32_t j = 0; j < labels->ellipsis && rank < INLAY_MAX_RANK; j++)
            dims[rank++] = labels->size[LETTERS + j];
        for (uint32_t i = 0; i < LETTERS && rank < INLAY_MAX_RANK; i++)
            if (labels->seen[(i + 26) % LETTERS] == 1)
                dims[rank++] = labels->size[(i + 26) % LETTERS];
        return infer_set_shape(infer, 0, rank, dims);
    }
    for (const char *p = output; *p != '\0'; p++) {
        uint32_t first = letter_index(*p), count = 1;
        if (*p == ' ')
            continue;
        if (strncmp(p, "...", 3) == 0) {
            p += 2;
            first = LETTERS;
            count = labels->ellipsis;
        } else if (first == LETTERS || labels->seen[first] == 0) {
            return infer_fail(infer, INLAY_INVALID_MODEL, "the output of the equation has '%.8s', which no input has",
                              p);
        }
        for (uint32_t j = 0; j < count; j++) {
            if (rank == INLAY_MAX_RANK)
                return infer_fail(infer, INLAY_LIMIT_EXCEEDED, "the output has more than %d dims", INLAY_MAX_RANK);
            dims[rank++] = labels->size[first + j];
        }
    }
    return infer_set_shape(infer, 0, rank, dims);
}

static inlay_status infer_einsum(op_infer *infer)
{
    const char *equation = infer_attr_string(infer, "equation", ""), *term = equation, *end, *arrow;
    struct labels labels = { .ellipsis = 0 };
    uint32_t named;
    bool ellipsis;
    inlay_status status = INLAY_OK;

    for (uint32_t i = 0; i < LABELS; i++)
        labels.size[i] = dim_fixed(1);
    for (uint32_t i = 0; i < infer->in_count; i++, term = end + 1) {
        uint32_t rank = infer_rank(infer, i);
        if (rank == INLAY_RANK_UNKNOWN)
            return INLAY_OK;
        named = term_letters(term, &end, &ellipsis);
        if (rank < named || (rank > named && !ellipsis))
            return infer_fail(infer, INLAY_SHAPE_MISMATCH, "input %u has rank %u, its term of the equation %u", i, rank,
                              named);
        labels.ellipsis = rank - named > labels.ellipsis ? rank - named : labels.ellipsis;
        if ((*end == ',') != (i + 1 < infer->in_count))
            return infer_fail(infer, INLAY_INVALID_MODEL,
                              "the equation '%.64s' does not have one term for each of %u inputs", equation,
                              infer->in_count);
    }
    term = equation;
    for (uint32_t i = 0; i < infer->in_count; i++, term = end + 1) {
        named = term_letters(term, &end, &ellipsis);
        INLAY_TRY(read_term(infer, i, term, end, named, &labels));
    }
    arrow = strstr(equation, "->");
    INLAY_TRY(set_output(infer, arrow == NULL ? NULL : arrow + 2, &labels));
done:
    return status;
}

static const op_row onnx_einsum_rows[] = {
    { "Einsum", 12, 0, "Inputs*:T -> Output:T; T=@numeric; equation:s!", infer_einsum },
};

const op_table op_onnx_einsum = { "ai.onnx", onnx_einsum_rows, OP_COUNT(onnx_einsum_rows) };
