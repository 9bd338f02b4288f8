/* Patience: lines that stand once on each side and in the same order are the fixed points, between which the same is
 * done again. Names make most lines of a model unique, so this is fast for models of any size. */
#include "modelkit/diff.h"
#include "base/element.h"
#include "base/names.h"
#include "base/memory.h"
#include <math.h>
#include <string.h>

/* ------------------------------------------------------------------ lines */

struct range {
    uint32_t a, a_end, b, b_end;
};

struct worker {
    struct arena *a;
    char **left, **right;
    diff_part *out;
    uint32_t depth;
    bool failed;
};

enum { MOST_DEPTH = 64 }; /* of ranges in ranges: below, lines are told as they are */

static void emit(struct worker *w, diff_side side, const char *text)
{
    w->out->lines[w->out->count++] = (diff_line){ side, text };
    w->out->changed += side != DIFF_BOTH;
}

/* A line that stands once in the range of either side: where. */
struct fixed {
    uint32_t a, b;
};

/* Numbers the lines of one side: how often each stands there, and where. */
struct tally {
    uint32_t count[2], at[2];
};

/* Lines that both ranges have exactly once, in a's order. false: no memory. */
static bool find_unique(struct worker *w, const struct range *r, struct fixed *out, uint32_t *out_count)
{
    const uint32_t total = (r->a_end - r->a) + (r->b_end - r->b);
    struct tally *seen = arena_array(w->a, (size_t)total + 1, sizeof *seen);
    names_table table = { 0 };
    uint32_t count = 0, number = 0, present;
    bool ok = seen != NULL;

    for (int side = 0; ok && side < 2; side++) {
        char **lines_of_side = side == 0 ? w->left : w->right;
        const uint32_t end = side == 0 ? r->a_end : r->b_end;

        for (uint32_t i = side == 0 ? r->a : r->b; ok && i < end; i++) {
            ok = names_add(&table, lines_of_side[i], strlen(lines_of_side[i]), number, &present);
            present = present == NAMES_NONE ? number++ : present;
            if (ok) {
                seen[present].count[side]++;
                seen[present].at[side] = i;
            }
        }
    }
    for (uint32_t i = r->a; ok && i < r->a_end; i++) {
        const struct tally *t = &seen[names_find(&table, w->left[i], strlen(w->left[i]))];

        if (t->count[0] == 1 && t->count[1] == 1)
            out[count++] = (struct fixed){ i, t->at[1] };
    }
    names_deinit(&table);
    *out_count = count;
    return ok;
}

/* Keeps the longest run of them that is in order on side b too. false: no memory. */
static bool keep_ordered(struct worker *w, struct fixed *list, uint32_t *count)
{
    uint32_t *tops = arena_array(w->a, (size_t)*count + 1, sizeof *tops); /* of piles: index into list */
    uint32_t *before = arena_array(w->a, (size_t)*count + 1, sizeof *before);
    uint32_t piles = 0, at;

    if (tops == NULL || before == NULL)
        return false;
    for (uint32_t i = 0; i < *count; i++) {
        uint32_t low = 0, high = piles;

        while (low < high) {
            const uint32_t middle = low + (high - low) / 2;

            if (list[tops[middle]].b < list[i].b)
                low = middle + 1;
            else
                high = middle;
        }
        before[i] = low > 0 ? tops[low - 1] : INLAY_NONE;
        tops[low] = i;
        piles += low == piles;
    }
    at = piles > 0 ? tops[piles - 1] : INLAY_NONE;
    for (uint32_t i = piles; i-- > 0; at = before[at])
        tops[i] = at;
    for (uint32_t i = 0; i < piles; i++)
        list[i] = list[tops[i]]; /* tops[i] >= i */
    *count = piles;
    return true;
}

/* Between two fixed points: what is equal at the ends first. */
static void compare_range(struct worker *w, struct range r)
{
    uint32_t tail = 0, count = 0;
    struct range between;
    struct fixed *list;

    while (r.a < r.a_end && r.b < r.b_end && strcmp(w->left[r.a], w->right[r.b]) == 0) {
        emit(w, DIFF_BOTH, w->left[r.a++]);
        r.b++;
    }
    while (r.a < r.a_end - tail && r.b < r.b_end - tail &&
           strcmp(w->left[r.a_end - tail - 1], w->right[r.b_end - tail - 1]) == 0)
        tail++;
    r.a_end -= tail;
    r.b_end -= tail;
    list = arena_array(w->a, (size_t)(r.a_end - r.a) + 1, sizeof *list);
    if (list == NULL || (r.a < r.a_end && r.b < r.b_end && w->depth < MOST_DEPTH &&
                         (!find_unique(w, &r, list, &count) || !keep_ordered(w, list, &count)))) {
        w->failed = true;
        return;
    }
    w->depth++;
    between = (struct range){ .a = r.a, .b = r.b };
    for (uint32_t i = 0; i < count && !w->failed; i++) {
        between.a_end = list[i].a;
        between.b_end = list[i].b;
        compare_range(w, between);
        emit(w, DIFF_BOTH, w->left[list[i].a]);
        between = (struct range){ .a = list[i].a + 1, .b = list[i].b + 1 };
    }
    between.a_end = r.a_end;
    between.b_end = r.b_end;
    if (count > 0 && !w->failed) {
        compare_range(w, between);
    } else if (!w->failed) {
        for (uint32_t i = r.a; i < r.a_end; i++)
            emit(w, DIFF_A, w->left[i]);
        for (uint32_t i = r.b; i < r.b_end; i++)
            emit(w, DIFF_B, w->right[i]);
    }
    w->depth--;
    for (uint32_t i = 0; i < tail; i++)
        emit(w, DIFF_BOTH, w->left[r.a_end + i]);
}

static const lines_part *find_part(const struct lines *l, const char *title)
{
    for (uint32_t i = 0; i < l->count; i++)
        if (strcmp(l->parts[i].title, title) == 0)
            return &l->parts[i];
    return NULL;
}

static bool compare_parts(struct diff *d, const lines_part *left, const lines_part *right)
{
    static const lines_part none = { .title = "" };
    struct worker w = { .a = &d->a, .out = &d->parts[d->part_count++] };

    left = left != NULL ? left : &none;
    right = right != NULL ? right : &none;
    w.left = left->lines;
    w.right = right->lines;
    *w.out = (diff_part){ .title = left != &none ? left->title : right->title };
    w.out->lines = arena_array(&d->a, (size_t)left->count + right->count + 1, sizeof *w.out->lines);
    if (w.out->lines == NULL)
        return false;
    compare_range(&w, (struct range){ 0, left->count, 0, right->count });
    d->changed += w.out->changed;
    return !w.failed;
}

/* ------------------------------------------------------------------ weights */

static bool same_shape(const inlay_value_info *x, const inlay_value_info *y)
{
    if (x->dtype != y->dtype || x->rank != y->rank || x->data_bytes != y->data_bytes || x->dtype == INLAY_STRING)
        return false;
    for (uint32_t i = 0; i < x->rank; i++)
        if (x->dims[i].value != y->dims[i].value)
            return false;
    return true;
}

static diff_weight compare_weight(const inlay_value_info *x, const inlay_value_info *y)
{
    diff_weight w = { .name = x->name.data, .elements = 1 };
    double squares = 0, own = 0;

    for (uint32_t i = 0; i < x->rank; i++)
        w.elements *= x->dims[i].value;
    for (int64_t i = 0; i < w.elements; i++) {
        double p = 0, q = 0;

        (void)element_number(x->dtype, x->data, i, &p, NULL);
        (void)element_number(y->dtype, y->data, i, &q, NULL);
        own += p * p;
        if (p == q || (isnan(p) && isnan(q)))
            continue;
        w.differing++;
        w.largest = fabs(p - q) > w.largest ? fabs(p - q) : w.largest;
        squares += (p - q) * (p - q);
    }
    w.relative = own > 0 ? sqrt(squares / own) : squares > 0 ? INFINITY : 0;
    return w;
}

static bool compare_weights(struct diff *d, const struct graph *left, const struct graph *right)
{
    names_table names = { 0 };
    bool ok = true;

    d->weights = arena_array(&d->a, (size_t)left->value_count + 1, sizeof *d->weights);
    for (uint32_t v = 0; ok && v < right->value_count; v++)
        if ((right->values[v].info.flags & INLAY_VALUE_CONSTANT) != 0)
            ok = names_add(&names, right->values[v].info.name.data, right->values[v].info.name.bytes, v, NULL);
    for (uint32_t v = 0; ok && d->weights != NULL && v < left->value_count; v++) {
        const inlay_value_info *x = &left->values[v].info, *y;
        const uint32_t at =
            (x->flags & INLAY_VALUE_CONSTANT) != 0 ? names_find(&names, x->name.data, x->name.bytes) : NAMES_NONE;

        if (at == NAMES_NONE)
            continue;
        y = &right->values[at].info;
        if (same_shape(x, y) && memcmp(x->data, y->data, x->data_bytes) != 0)
            d->weights[d->weight_count++] = compare_weight(x, y);
    }
    names_deinit(&names);
    return ok && d->weights != NULL;
}

/* ------------------------------------------------------------------ the whole */

inlay_status diff_models(graph_model *a, graph_model *b, struct diff *out, inlay_diag *diag)
{
    bool ok;

    *out = (struct diff){ 0 };
    lines_of(a, &out->text[0]);
    lines_of(b, &out->text[1]);
    out->parts = arena_array(&out->a, (size_t)out->text[0].count + out->text[1].count + 1, sizeof *out->parts);
    ok = !out->text[0].failed && !out->text[1].failed && out->parts != NULL;
    for (uint32_t i = 0; ok && i < out->text[0].count; i++)
        ok = compare_parts(out, &out->text[0].parts[i], find_part(&out->text[1], out->text[0].parts[i].title));
    for (uint32_t i = 0; ok && i < out->text[1].count; i++)
        if (find_part(&out->text[0], out->text[1].parts[i].title) == NULL)
            ok = compare_parts(out, NULL, &out->text[1].parts[i]);
    ok = ok && compare_weights(out, a->main, b->main);
    return ok ? INLAY_OK : no_memory(diag, "to compare the models");
}

void diff_deinit(struct diff *d)
{
    lines_deinit(&d->text[0]);
    lines_deinit(&d->text[1]);
    arena_deinit(&d->a);
    *d = (struct diff){ 0 };
}
