/* onnx/einsum.c - Einstein summation. */
#include "schema.h"
#include <string.h>

enum { LABELS = 52 + INLAY_MAX_RANK };

/* What the equation says of each label: letters first, then the axes that "..." stands for, counted from the last. */
typedef struct labels {
    inlay_dim size[LABELS];
    uint32_t uses[LABELS];
    uint32_t ellipsis; /* most axes that "..." stands for */
} labels;

/* Number of a letter, or -1. */
static int label_of(char c)
{
    if (c >= 'A' && c <= 'Z')
        return c - 'A';
    return c >= 'a' && c <= 'z' ? c - 'a' + 26 : -1;
}

static bool at_ellipsis(const char *at)
{
    return strncmp(at, "...", 3) == 0;
}

/* Counts the letters of a term, which ends at ',', '-' or the end; *out_dots says whether it has an ellipsis. */
static inlay_status measure_term(const op_infer *infer, const char *term, uint32_t *out_letters, bool *out_dots)
{
    *out_letters = 0;
    *out_dots = false;
    for (; *term != '\0' && *term != ',' && *term != '-'; term++) {
        if (at_ellipsis(term) && !*out_dots) {
            *out_dots = true;
            term += 2;
        } else if (label_of(*term) >= 0) {
            ++*out_letters;
        } else if (*term != ' ') {
            return infer_fail(infer, INLAY_INVALID_MODEL, "equation has the character '%c' where a letter is due",
                              *term);
        }
    }
    return INLAY_OK;
}

static inlay_status use_label(op_infer *infer, labels *l, uint32_t label, inlay_dim size)
{
    if (l->uses[label]++ == 0)
        l->size[label] = size;
    return dim_broadcast(infer, l->size[label], size, &l->size[label]);
}

/* Ties the axes of input i to the labels of its term. Moves *term to what follows it. */
static inlay_status read_term(op_infer *infer, uint32_t i, const char **term, labels *l)
{
    uint32_t rank = infer_rank(infer, i), letters, dots, d = 0;
    inlay_status status;
    bool has_dots;

    INLAY_TRY(measure_term(infer, *term, &letters, &has_dots));
    if (rank != INLAY_RANK_UNKNOWN && (has_dots ? letters > rank : letters != rank))
        return infer_fail(infer, INLAY_SHAPE_MISMATCH,
                          "input %u has rank %u, but its term of the equation has %u letters", i, rank, letters);
    dots = has_dots && rank != INLAY_RANK_UNKNOWN ? rank - letters : 0;
    if (dots > l->ellipsis)
        l->ellipsis = dots;
    for (; **term != '\0' && **term != ',' && **term != '-'; ++*term) {
        if (at_ellipsis(*term)) {
            for (uint32_t k = 0; k < dots; k++)
                INLAY_TRY(use_label(infer, l, 52 + dots - 1 - k, infer_dim(infer, i, d++)));
            *term += 2;
        } else if (label_of(**term) >= 0) {
            INLAY_TRY(use_label(infer, l, (uint32_t)label_of(**term), infer_dim(infer, i, d++)));
        }
    }
done:
    return status;
}

static uint32_t add_ellipsis(const labels *l, inlay_dim *dims, uint32_t rank)
{
    for (uint32_t k = l->ellipsis; k > 0 && rank < INLAY_MAX_RANK; k--)
        dims[rank++] = l->size[52 + k - 1];
    return rank;
}

/* The output that the equation states behind "->"; without it the ellipsis and every letter that is used once, sorted.
 */
static inlay_status set_output(op_infer *infer, const char *output, const labels *l)
{
    inlay_dim dims[INLAY_MAX_RANK];
    uint32_t rank = 0, letters;
    inlay_status status = INLAY_OK;
    bool has_dots;

    if (output == NULL) {
        rank = add_ellipsis(l, dims, rank);
        for (uint32_t label = 0; label < 52 && rank < INLAY_MAX_RANK; label++)
            if (l->uses[label] == 1)
                dims[rank++] = l->size[label];
        return infer_set_shape(infer, 0, rank, dims);
    }
    INLAY_TRY(measure_term(infer, output, &letters, &has_dots));
    if (letters + (has_dots ? l->ellipsis : 0) > INLAY_MAX_RANK)
        return infer_fail(infer, INLAY_LIMIT_EXCEEDED, "equation asks for an output of rank above %d", INLAY_MAX_RANK);
    for (; *output != '\0' && *output != ',' && *output != '-'; output++) {
        int label = label_of(*output);

        if (at_ellipsis(output)) {
            rank = add_ellipsis(l, dims, rank);
            output += 2;
        } else if (label >= 0 && l->uses[label] == 0) {
            return infer_fail(infer, INLAY_INVALID_MODEL, "equation has '%c' in its output but in no input", *output);
        } else if (label >= 0) {
            dims[rank++] = l->size[label];
        }
    }
    status = infer_set_shape(infer, 0, rank, dims);
done:
    return status;
}

/* Einsum-12 */
static inlay_status infer_einsum(op_infer *infer)
{
    const char *equation = infer_attr_string(infer, "equation", ""), *arrow = strstr(equation, "->"), *term = equation;
    inlay_status status = INLAY_OK;
    bool ranks_known = true;
    labels l = { .ellipsis = 0 };

    for (uint32_t i = 0; i < infer->in_count; i++) {
        ranks_known = ranks_known && infer_rank(infer, i) != INLAY_RANK_UNKNOWN;
        if (i > 0 && *term++ != ',')
            return infer_fail(infer, INLAY_INVALID_MODEL, "equation '%.100s' has fewer terms than there are inputs",
                              equation);
        INLAY_TRY(read_term(infer, i, &term, &l));
    }
    if (*term != '\0' && term != arrow)
        return infer_fail(infer, INLAY_INVALID_MODEL, "equation '%.100s' has more terms than the %u inputs", equation,
                          infer->in_count);
    if (ranks_known || strstr(equation, "...") == NULL)
        status = set_output(infer, arrow != NULL ? arrow + 2 : NULL, &l);
done:
    return status;
}

static const op_row rows[] = {
    { "Einsum", 12, 0, "Inputs*:T -> Output:T; T=@numeric; equation:s!", infer_einsum },
};

const op_table op_onnx_einsum = { "ai.onnx", rows, OP_COUNT(rows) };
