/* Patience diff: lines that occur exactly once on each side, in the same order, are the anchors; the ranges between
 * anchors are compared recursively. Names make most lines of a model unique, so this is fast for models of any size. */
#include "modelkit/diff.h"
#include "base/element.h"
#include "base/names.h"
#include "base/memory.h"
#include <math.h>
#include <string.h>

struct range {
    uint32_t a, a_end, b, b_end;
};

struct comparison {
    struct arena *arena;
    char **left, **right;
    diff_part *out;
    uint32_t depth;
    bool failed;
};

enum { MOST_DEPTH = 64 }; /* recursion limit; deeper ranges are reported as removed and added lines */

static void emit(struct comparison *comparison, diff_side side, const char *text)
{
    comparison->out->lines[comparison->out->count++] = (diff_line){ side, text };
    comparison->out->changed += side != DIFF_BOTH;
}

/* Positions of a line that occurs once in both ranges. */
struct anchor {
    uint32_t a, b;
};

/* How often a distinct line occurs on each side, and where. */
struct tally {
    uint32_t count[2], at[2];
};

/* Finds the lines that both ranges have exactly once, in a's order. False: out of memory. */
static bool find_anchors(struct comparison *comparison, const struct range *range, struct anchor *out,
                         uint32_t *out_count)
{
    const uint32_t total = (range->a_end - range->a) + (range->b_end - range->b);
    struct tally *tallies = arena_array(comparison->arena, (size_t)total + 1, sizeof *tallies);
    names_table table = { 0 };
    uint32_t count = 0, number = 0, present;
    bool ok = tallies != NULL;

    for (int side = 0; ok && side < 2; side++) {
        char **lines_of_side = side == 0 ? comparison->left : comparison->right;
        const uint32_t end = side == 0 ? range->a_end : range->b_end;

        for (uint32_t i = side == 0 ? range->a : range->b; ok && i < end; i++) {
            ok = names_add(&table, lines_of_side[i], strlen(lines_of_side[i]), number, &present);
            present = present == NAMES_NONE ? number++ : present;
            if (ok) {
                tallies[present].count[side]++;
                tallies[present].at[side] = i;
            }
        }
    }
    for (uint32_t i = range->a; ok && i < range->a_end; i++) {
        const struct tally *tally = &tallies[names_find(&table, comparison->left[i], strlen(comparison->left[i]))];

        if (tally->count[0] == 1 && tally->count[1] == 1)
            out[count++] = (struct anchor){ i, tally->at[1] };
    }
    names_deinit(&table);
    *out_count = count;
    return ok;
}

/* Keeps the longest subsequence that is ordered on side b as well. False: out of memory. */
static bool keep_ordered(struct comparison *comparison, struct anchor *list, uint32_t *count)
{
    uint32_t *tops =
        arena_array(comparison->arena, (size_t)*count + 1, sizeof *tops); /* of the piles: index into list */
    uint32_t *before = arena_array(comparison->arena, (size_t)*count + 1, sizeof *before);
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

/* Compares the range between two anchors. Equal lines at both ends of the range are matched first. */
static void compare_range(struct comparison *comparison, struct range range)
{
    uint32_t tail = 0, count = 0;
    struct range between;
    struct anchor *list;

    while (range.a < range.a_end && range.b < range.b_end &&
           strcmp(comparison->left[range.a], comparison->right[range.b]) == 0) {
        emit(comparison, DIFF_BOTH, comparison->left[range.a++]);
        range.b++;
    }
    while (range.a < range.a_end - tail && range.b < range.b_end - tail &&
           strcmp(comparison->left[range.a_end - tail - 1], comparison->right[range.b_end - tail - 1]) == 0)
        tail++;
    range.a_end -= tail;
    range.b_end -= tail;
    list = arena_array(comparison->arena, (size_t)(range.a_end - range.a) + 1, sizeof *list);
    if (list == NULL ||
        (range.a < range.a_end && range.b < range.b_end && comparison->depth < MOST_DEPTH &&
         (!find_anchors(comparison, &range, list, &count) || !keep_ordered(comparison, list, &count)))) {
        comparison->failed = true;
        return;
    }
    comparison->depth++;
    between = (struct range){ .a = range.a, .b = range.b };
    for (uint32_t i = 0; i < count && !comparison->failed; i++) {
        between.a_end = list[i].a;
        between.b_end = list[i].b;
        compare_range(comparison, between);
        emit(comparison, DIFF_BOTH, comparison->left[list[i].a]);
        between = (struct range){ .a = list[i].a + 1, .b = list[i].b + 1 };
    }
    between.a_end = range.a_end;
    between.b_end = range.b_end;
    if (count > 0 && !comparison->failed) {
        compare_range(comparison, between);
    } else if (!comparison->failed) {
        for (uint32_t i = range.a; i < range.a_end; i++)
            emit(comparison, DIFF_A, comparison->left[i]);
        for (uint32_t i = range.b; i < range.b_end; i++)
            emit(comparison, DIFF_B, comparison->right[i]);
    }
    comparison->depth--;
    for (uint32_t i = 0; i < tail; i++)
        emit(comparison, DIFF_BOTH, comparison->left[range.a_end + i]);
}

/* The part of `lines` with the title of part `index` of `other`. Nodes of different graphs may have the same name, and
 * hence their bodies the same title: the n-th part with a title corresponds to the n-th one of the other model. */
static const lines_part *find_part(const struct lines *lines, const struct lines *other, uint32_t index)
{
    uint32_t before = 0;

    for (uint32_t i = 0; i < index; i++)
        before += strcmp(other->parts[i].title, other->parts[index].title) == 0;
    for (uint32_t i = 0; i < lines->count; i++)
        if (strcmp(lines->parts[i].title, other->parts[index].title) == 0 && before-- == 0)
            return &lines->parts[i];
    return NULL;
}

static bool compare_parts(struct diff *diff, const lines_part *left, const lines_part *right)
{
    static const lines_part none = { .title = "" };
    struct comparison comparison = { .arena = &diff->arena, .out = &diff->parts[diff->part_count++] };

    left = left != NULL ? left : &none;
    right = right != NULL ? right : &none;
    comparison.left = left->lines;
    comparison.right = right->lines;
    *comparison.out = (diff_part){ .title = left != &none ? left->title : right->title };
    comparison.out->lines =
        arena_array(&diff->arena, (size_t)left->count + right->count + 1, sizeof *comparison.out->lines);
    if (comparison.out->lines == NULL)
        return false;
    compare_range(&comparison, (struct range){ 0, left->count, 0, right->count });
    diff->changed += comparison.out->changed;
    return !comparison.failed;
}

static bool same_shape(const inlay_value_info *left, const inlay_value_info *right)
{
    if (left->dtype != right->dtype || left->rank != right->rank || left->data_bytes != right->data_bytes ||
        left->dtype == INLAY_STRING)
        return false;
    for (uint32_t i = 0; i < left->rank; i++)
        if (left->dims[i].value != right->dims[i].value)
            return false;
    return true;
}

static diff_weight compare_weight(const inlay_value_info *left, const inlay_value_info *right)
{
    diff_weight weight = { .name = left->name.data, .elements = 1 };
    double squares = 0, squares_left = 0;

    for (uint32_t i = 0; i < left->rank; i++)
        weight.elements *= left->dims[i].value;
    for (int64_t i = 0; i < weight.elements; i++) {
        double left_element = 0, right_element = 0;

        (void)element_number(left->dtype, left->data, i, &left_element, NULL);
        (void)element_number(right->dtype, right->data, i, &right_element, NULL);
        squares_left += left_element * left_element;
        if (left_element == right_element || (isnan(left_element) && isnan(right_element)))
            continue;
        weight.differing++;
        weight.largest =
            fabs(left_element - right_element) > weight.largest ? fabs(left_element - right_element) : weight.largest;
        squares += (left_element - right_element) * (left_element - right_element);
    }
    weight.relative = squares_left > 0 ? sqrt(squares / squares_left) : squares > 0 ? INFINITY : 0;
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

inlay_status diff_models(graph_model *a, graph_model *b, struct diff *out, inlay_diag *diag)
{
    bool ok;

    *out = (struct diff){ 0 };
    lines_of(a, &out->text[0]);
    lines_of(b, &out->text[1]);
    out->parts = arena_array(&out->arena, (size_t)out->text[0].count + out->text[1].count + 1, sizeof *out->parts);
    ok = !out->text[0].failed && !out->text[1].failed && out->parts != NULL;
    for (uint32_t i = 0; ok && i < out->text[0].count; i++)
        ok = compare_parts(out, &out->text[0].parts[i], find_part(&out->text[1], &out->text[0], i));
    for (uint32_t i = 0; ok && i < out->text[1].count; i++)
        if (find_part(&out->text[0], &out->text[1], i) == NULL)
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
