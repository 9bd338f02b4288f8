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
    struct arena *arena;
    char **left, **right;
    diff_part *out;
    uint32_t depth;
    bool failed;
};

enum { MOST_DEPTH = 64 }; /* of ranges in ranges: below, lines are told as they are */

static void emit(struct worker *worker, diff_side side, const char *text)
{
    worker->out->lines[worker->out->count++] = (diff_line){ side, text };
    worker->out->changed += side != DIFF_BOTH;
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
static bool find_unique(struct worker *worker, const struct range *range, struct fixed *out, uint32_t *out_count)
{
    const uint32_t total = (range->a_end - range->a) + (range->b_end - range->b);
    struct tally *seen = arena_array(worker->arena, (size_t)total + 1, sizeof *seen);
    names_table table = { 0 };
    uint32_t count = 0, number = 0, present;
    bool ok = seen != NULL;

    for (int side = 0; ok && side < 2; side++) {
        char **lines_of_side = side == 0 ? worker->left : worker->right;
        const uint32_t end = side == 0 ? range->a_end : range->b_end;

        for (uint32_t i = side == 0 ? range->a : range->b; ok && i < end; i++) {
            ok = names_add(&table, lines_of_side[i], strlen(lines_of_side[i]), number, &present);
            present = present == NAMES_NONE ? number++ : present;
            if (ok) {
                seen[present].count[side]++;
                seen[present].at[side] = i;
            }
        }
    }
    for (uint32_t i = range->a; ok && i < range->a_end; i++) {
        const struct tally *tally = &seen[names_find(&table, worker->left[i], strlen(worker->left[i]))];

        if (tally->count[0] == 1 && tally->count[1] == 1)
            out[count++] = (struct fixed){ i, tally->at[1] };
    }
    names_deinit(&table);
    *out_count = count;
    return ok;
}

/* Keeps the longest run of them that is in order on side b too. false: no memory. */
static bool keep_ordered(struct worker *worker, struct fixed *list, uint32_t *count)
{
    uint32_t *tops = arena_array(worker->arena, (size_t)*count + 1, sizeof *tops); /* of piles: index into list */
    uint32_t *before = arena_array(worker->arena, (size_t)*count + 1, sizeof *before);
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
static void compare_range(struct worker *worker, struct range range)
{
    uint32_t tail = 0, count = 0;
    struct range between;
    struct fixed *list;

    while (range.a < range.a_end && range.b < range.b_end &&
           strcmp(worker->left[range.a], worker->right[range.b]) == 0) {
        emit(worker, DIFF_BOTH, worker->left[range.a++]);
        range.b++;
    }
    while (range.a < range.a_end - tail && range.b < range.b_end - tail &&
           strcmp(worker->left[range.a_end - tail - 1], worker->right[range.b_end - tail - 1]) == 0)
        tail++;
    range.a_end -= tail;
    range.b_end -= tail;
    list = arena_array(worker->arena, (size_t)(range.a_end - range.a) + 1, sizeof *list);
    if (list == NULL || (range.a < range.a_end && range.b < range.b_end && worker->depth < MOST_DEPTH &&
                         (!find_unique(worker, &range, list, &count) || !keep_ordered(worker, list, &count)))) {
        worker->failed = true;
        return;
    }
    worker->depth++;
    between = (struct range){ .a = range.a, .b = range.b };
    for (uint32_t i = 0; i < count && !worker->failed; i++) {
        between.a_end = list[i].a;
        between.b_end = list[i].b;
        compare_range(worker, between);
        emit(worker, DIFF_BOTH, worker->left[list[i].a]);
        between = (struct range){ .a = list[i].a + 1, .b = list[i].b + 1 };
    }
    between.a_end = range.a_end;
    between.b_end = range.b_end;
    if (count > 0 && !worker->failed) {
        compare_range(worker, between);
    } else if (!worker->failed) {
        for (uint32_t i = range.a; i < range.a_end; i++)
            emit(worker, DIFF_A, worker->left[i]);
        for (uint32_t i = range.b; i < range.b_end; i++)
            emit(worker, DIFF_B, worker->right[i]);
    }
    worker->depth--;
    for (uint32_t i = 0; i < tail; i++)
        emit(worker, DIFF_BOTH, worker->left[range.a_end + i]);
}

static const lines_part *find_part(const struct lines *lines, const char *title)
{
    for (uint32_t i = 0; i < lines->count; i++)
        if (strcmp(lines->parts[i].title, title) == 0)
            return &lines->parts[i];
    return NULL;
}

static bool compare_parts(struct diff *diff, const lines_part *left, const lines_part *right)
{
    static const lines_part none = { .title = "" };
    struct worker worker = { .arena = &diff->arena, .out = &diff->parts[diff->part_count++] };

    left = left != NULL ? left : &none;
    right = right != NULL ? right : &none;
    worker.left = left->lines;
    worker.right = right->lines;
    *worker.out = (diff_part){ .title = left != &none ? left->title : right->title };
    worker.out->lines = arena_array(&diff->arena, (size_t)left->count + right->count + 1, sizeof *worker.out->lines);
    if (worker.out->lines == NULL)
        return false;
    compare_range(&worker, (struct range){ 0, left->count, 0, right->count });
    diff->changed += worker.out->changed;
    return !worker.failed;
}

/* ------------------------------------------------------------------ weights */

static bool same_shape(const inlay_value_info *input, const inlay_value_info *output)
{
    if (input->dtype != output->dtype || input->rank != output->rank || input->data_bytes != output->data_bytes ||
        input->dtype == INLAY_STRING)
        return false;
    for (uint32_t i = 0; i < input->rank; i++)
        if (input->dims[i].value != output->dims[i].value)
            return false;
    return true;
}

static diff_weight compare_weight(const inlay_value_info *input, const inlay_value_info *output)
{
    diff_weight weight = { .name = input->name.data, .elements = 1 };
    double squares = 0, own = 0;

    for (uint32_t i = 0; i < input->rank; i++)
        weight.elements *= input->dims[i].value;
    for (int64_t i = 0; i < weight.elements; i++) {
        double p = 0, q = 0;

        (void)element_number(input->dtype, input->data, i, &p, NULL);
        (void)element_number(output->dtype, output->data, i, &q, NULL);
        own += p * p;
        if (p == q || (isnan(p) && isnan(q)))
            continue;
        weight.differing++;
        weight.largest = fabs(p - q) > weight.largest ? fabs(p - q) : weight.largest;
        squares += (p - q) * (p - q);
    }
    weight.relative = own > 0 ? sqrt(squares / own) : squares > 0 ? INFINITY : 0;
    return weight;
}

static bool compare_weights(struct diff *diff, const struct graph *left, const struct graph *right)
{
    names_table names = { 0 };
    bool ok = true;

    diff->weights = arena_array(&diff->arena, (size_t)left->value_count + 1, sizeof *diff->weights);
    for (uint32_t value = 0; ok && value < right->value_count; value++)
        if ((right->values[value].info.flags & INLAY_VALUE_CONSTANT) != 0)
            ok = names_add(&names, right->values[value].info.name.data, right->values[value].info.name.bytes, value,
                           NULL);
    for (uint32_t value = 0; ok && diff->weights != NULL && value < left->value_count; value++) {
        const inlay_value_info *input = &left->values[value].info, *output;
        const uint32_t at = (input->flags & INLAY_VALUE_CONSTANT) != 0
                                ? names_find(&names, input->name.data, input->name.bytes)
                                : NAMES_NONE;

        if (at == NAMES_NONE)
            continue;
        output = &right->values[at].info;
        if (same_shape(input, output) && memcmp(input->data, output->data, input->data_bytes) != 0)
            diff->weights[diff->weight_count++] = compare_weight(input, output);
    }
    names_deinit(&names);
    return ok && diff->weights != NULL;
}

/* ------------------------------------------------------------------ the whole */

inlay_status diff_models(graph_model *a, graph_model *b, struct diff *out, inlay_diag *diag)
{
    bool ok;

    *out = (struct diff){ 0 };
    lines_of(a, &out->text[0]);
    lines_of(b, &out->text[1]);
    out->parts = arena_array(&out->arena, (size_t)out->text[0].count + out->text[1].count + 1, sizeof *out->parts);
    ok = !out->text[0].failed && !out->text[1].failed && out->parts != NULL;
    for (uint32_t i = 0; ok && i < out->text[0].count; i++)
        ok = compare_parts(out, &out->text[0].parts[i], find_part(&out->text[1], out->text[0].parts[i].title));
    for (uint32_t i = 0; ok && i < out->text[1].count; i++)
        if (find_part(&out->text[0], out->text[1].parts[i].title) == NULL)
            ok = compare_parts(out, NULL, &out->text[1].parts[i]);
    ok = ok && compare_weights(out, a->main, b->main);
    return ok ? INLAY_OK : no_memory(diag, "to compare the models");
}

void diff_deinit(struct diff *diff)
{
    lines_deinit(&diff->text[0]);
    lines_deinit(&diff->text[1]);
    arena_deinit(&diff->arena);
    *diff = (struct diff){ 0 };
}
