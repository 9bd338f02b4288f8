/* Einsum of two operands that is a product of matrices, batched or not, is MatMul: the letters that only one operand
 * has are its rows or columns, the one that the result lacks is summed over, all others stand first in all three, in
 * one order. A second operand that lies the other way round is transposed first. */
#include "passes/rewrite.h"
#include <string.h>

enum { MOST = 8 }; /* letters of a term */

typedef struct term {
    char letters[MOST + 1];
    uint32_t count;
} term;

/* "bij,bjk->bik" into three terms without spaces; false: something else, an ellipsis or a letter twice among it. */
static bool parse_equation(const char *text, term terms[3])
{
    uint32_t at = 0;

    memset(terms, 0, 3 * sizeof *terms);
    for (; *text != '\0'; text++) {
        if (*text == ' ')
            continue;
        if (*text == ',' && at == 0) {
            at = 1;
        } else if (*text == '-' && text[1] == '>' && at == 1) {
            at = 2;
            text++;
        } else if (((*text >= 'a' && *text <= 'z') || (*text >= 'A' && *text <= 'Z')) && terms[at].count < MOST &&
                   strchr(terms[at].letters, *text) == NULL) {
            terms[at].letters[terms[at].count++] = *text;
        } else {
            return false;
        }
    }
    return at == 2;
}

/* Is it batch + "ij", batch + "jk" (or "kj"), batch + "ik"? */
static bool is_product(const term t[3], bool *out_turned)
{
    uint32_t n = t[0].count, batch = n - 2;
    const char *a, *b, *y;

    if (n < 2 || t[1].count != n || t[2].count != n || memcmp(t[0].letters, t[1].letters, batch) != 0 ||
        memcmp(t[0].letters, t[2].letters, batch) != 0)
        return false;
    a = t[0].letters + batch;
    b = t[1].letters + batch;
    y = t[2].letters + batch;
    *out_turned = a[1] == b[1];
    return a[0] == y[0] && y[1] == b[*out_turned ? 0 : 1] && a[1] == b[*out_turned ? 1 : 0] && a[0] != b[0] &&
           a[0] != b[1];
}

/* A letter's size may be 1 in one operand and not in the other, which MatMul allows for the batch alone. */
static bool inner_sizes_agree(const rewrite *w, uint32_t a, uint32_t b, bool turned)
{
    const inlay_value_info *x = rw_info(w, a), *y = rw_info(w, b);

    return rw_dim(x, -1) >= 0 && rw_dim(x, -1) == rw_dim(y, turned ? -1 : -2);
}

static inlay_status match(rewrite *w, graph_node *n)
{
    const inlay_attr_info *equation = graph_attr(n, "equation");
    uint32_t a = rw_input(w, n, 0), b = rw_input(w, n, 1);
    graph_node *fresh;
    term terms[3];
    bool turned;

    if (!pass_is_op(n, "Einsum") || n->info.input_count != 2 || equation == NULL ||
        !parse_equation(equation->s.data, terms) || !is_product(terms, &turned) || !inner_sizes_agree(w, a, b, turned))
        return INLAY_OK;
    if (turned) {
        int64_t perm[MOST];

        for (uint32_t d = 0; d < terms[1].count; d++)
            perm[d] = d;
        perm[terms[1].count - 2] = terms[1].count - 1;
        perm[terms[1].count - 1] = terms[1].count - 2;
        fresh = rw_make(w, "Transpose", n->opset, NULL, &b, 1, 1);
        if (fresh == NULL || graph_set_attr_ints(w->g, fresh, "perm", perm, terms[1].count) != INLAY_OK ||
            rw_insert(w, fresh, rw_info(w, b)->dtype) != INLAY_OK)
            return rw_no_memory(w);
        b = fresh->info.outputs[0];
    }
    fresh = rw_make(w, "MatMul", n->opset, n, (const uint32_t[]){ a, b }, 2, 1);
    return fresh == NULL ? rw_no_memory(w) : rw_replace(w, n, fresh);
}

inlay_status pass_einsum(pass_ctx *ctx, bool *out_changed)
{
    return rewrite_each_graph(ctx, match, out_changed);
}
