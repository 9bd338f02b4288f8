/* Operators of com.microsoft (version 1) on lists of tokens: NGramHashMapping, BifurcationDetector,
 * DynamicTimeWarping. */
#include "inlay/check.h"
#include "operators/args.h"
#include "operators/operators.h"
#include <math.h>
#include <string.h>

#define MICROSOFT .domain = "com.microsoft"

typedef struct hash_state {
    int64_t longest, heads, pad;
} hash_state;

static inlay_status prepare_hashes(const kit_node *node, void **out_state, inlay_diag *diag)
{
    const hash_state made = { kit_attr_int(node->info, "max_ngram_size", 0),
                              kit_attr_int(node->info, "n_head_per_ngram", 0), kit_attr_int(node->info, "pad_id", 0) };
    inlay_status status;

    if (made.longest < 2 || made.longest > INT16_MAX || made.heads < 1 || made.heads > INT16_MAX)
        return inlay_fail(diag, INLAY_INVALID_MODEL,
                          "max_ngram_size %lld must be within 2 and 32767, n_head_per_ngram %lld within 1 and 32767",
                          (long long)made.longest, (long long)made.heads);
    status = arg_allocate_state(sizeof(hash_state), out_state, diag);
    if (status == INLAY_OK)
        *(hash_state *)*out_state = made;
    return status;
}

static inlay_status shape_hashes(const void *user, kit_plan *plan, inlay_diag *diag)
{
    const hash_state *state = user;
    const kit_tensor *ids = &plan->in[0], *past = &plan->in[3];

    if (plan->in[0].dtype == INLAY_INT32 && (int32_t)state->pad != state->pad)
        return inlay_fail(diag, INLAY_INVALID_MODEL, "pad_id %lld is not an int32", (long long)state->pad);
    if (ids->rank != 2 || plan->in[1].count != state->longest ||
        plan->in[2].count != (state->longest - 1) * state->heads ||
        (plan->in_count > 3 && past->dtype != INLAY_UNDEFINED &&
         (past->rank != 2 || past->dims[0] != ids->dims[0] || past->dims[1] != state->longest - 1)))
        return inlay_fail(
            diag, INLAY_SHAPE_MISMATCH,
            "input_ids [batch, length], multipliers [max_ngram_size], vocab_sizes [(max_ngram_size - 1) * "
            "n_head_per_ngram] and past_ids [batch, max_ngram_size - 1] are needed");
    return INLAY_OK;
}

static void put_id(const kit_tensor *tensor, int64_t i, int64_t id)
{
    if (tensor->dtype == INLAY_INT32)
        ((int32_t *)tensor->data)[i] = (int32_t)id;
    else
        ((int64_t *)tensor->data)[i] = id;
}

/* The id at a position of a row; ids before the row are in past_ids, and positions before the text have pad_id. */
static int64_t token_at(const kit_call *call, int64_t row, int64_t position)
{
    const hash_state *state = call->state;
    const int64_t kept = state->longest - 1;

    if (position >= 0)
        return arg_index(&call->in[0], row * call->in[0].dims[1] + position);
    return kit_has_input(call, 3) && position >= -kept ? arg_index(&call->in[3], row * kept + kept + position)
                                                       : state->pad;
}

/* The ids times their multipliers, joined by exclusive or; arithmetic wraps at the width of the ids. */
static int64_t mix_tokens(const kit_call *call, int64_t row, int64_t position, int64_t count)
{
    uint64_t mix = 0;

    for (int64_t k = 0; k < count; k++)
        mix ^= (uint64_t)token_at(call, row, position - k) * (uint64_t)arg_index(&call->in[1], k);
    return call->in[0].dtype == INLAY_INT32 ? (int32_t)(uint32_t)mix : (int64_t)mix;
}

static inlay_status run_hashes(const kit_call *call)
{
    const hash_state *state = call->state;
    const int64_t length = call->in[0].dims[1], kept = state->longest - 1, heads = kept * state->heads;

    for (int64_t head = 0; head < heads; head++)
        if (arg_index(&call->in[2], head) <= 0)
            return inlay_fail(call->diag, INLAY_INVALID_ARGUMENT, "vocab_sizes[%lld] is %lld; it must be positive",
                              (long long)head, (long long)arg_index(&call->in[2], head));
    for (int64_t row = 0; row < call->in[0].dims[0]; row++) {
        for (int64_t position = 0; position < length; position++)
            for (int64_t n = 0; n < kept; n++) {
                const int64_t mix = mix_tokens(call, row, position, n + 2);

                for (int64_t head = n * state->heads; head < (n + 1) * state->heads; head++) {
                    const int64_t size = arg_index(&call->in[2], head), rest = mix % size;

                    put_id(&call->out[0], (row * length + position) * heads + head, rest < 0 ? rest + size : rest);
                }
            }
        for (int64_t i = 0; kit_has_output(call, 1) && i < kept; i++)
            put_id(&call->out[1], row * kept + i, token_at(call, row, length - kept + i));
    }
    return INLAY_OK;
}

typedef struct match_state {
    int64_t shortest, longest;
} match_state;

static inlay_status prepare_match(const kit_node *node, void **out_state, inlay_diag *diag)
{
    const match_state made = { kit_attr_int(node->info, "min_ngram_size", 1),
                               kit_attr_int(node->info, "max_ngram_size", 3) };
    inlay_status status;

    if (made.shortest < 1 || made.longest < made.shortest)
        return inlay_fail(diag, INLAY_INVALID_MODEL,
                          "min_ngram_size %lld must be at least 1, and max_ngram_size %lld at least as large",
                          (long long)made.shortest, (long long)made.longest);
    status = arg_allocate_state(sizeof(match_state), out_state, diag);
    if (status == INLAY_OK)
        *(match_state *)*out_state = made;
    return status;
}

static inlay_status shape_match(const void *state, kit_plan *plan, inlay_diag *diag)
{
    (void)state;
    if (plan->in[0].rank != 1 || plan->in[1].rank != 1 || plan->in[2].count != 1 ||
        (plan->in_count > 3 && plan->in[3].dtype != INLAY_UNDEFINED && plan->in[3].rank != 1))
        return inlay_fail(diag, INLAY_SHAPE_MISMATCH,
                          "src_tokens, cur_tokens and pred_tokens must be lists, prev_suffix_match_idx one number");
    return INLAY_OK;
}

/* The first place of `words` from `begin` on; count if there is none. */
static int64_t find_words(const int64_t *text, int64_t count, int64_t begin, const int64_t *words, int64_t size)
{
    for (; begin + size <= count; begin++)
        if (memcmp(text + begin, words, (size_t)size * sizeof *words) == 0)
            return begin;
    return count;
}

/* Where the end of `tokens` continues in the source: after the only place that has its last n-gram, for the longest n
 * that has one; -1 if there is none or, for that n, several. */
static int64_t match_suffix(const match_state *state, const int64_t *source, int64_t source_count,
                            const int64_t *tokens, int64_t count)
{
    int64_t found = -1;

    for (int64_t n = state->shortest; n <= state->longest && n <= count; n++) {
        const int64_t place = find_words(source, source_count, 0, tokens + count - n, n);

        if (place == source_count)
            break;
        found = place + n;
        if (found >= source_count)
            break;
        if (find_words(source, source_count, place + 1, tokens + count - n, n) != source_count)
            found = -1;
    }
    return found;
}

/* Appends the predicted tokens up to the first that differs from the source, and finds where the result continues in
 * the source. */
static inlay_status run_match(const kit_call *call)
{
    const int64_t *source = call->in[0].data, *previous = call->in[2].data;
    const int64_t source_count = call->in[0].count, current = call->in[1].count, from = previous[0];
    int64_t same = -1, count = current;
    inlay_status status;

    if (kit_has_input(call, 3)) {
        const int64_t *predicted = call->in[3].data;

        if (from < 0 || from > source_count || call->in[3].count != source_count + 1 - from)
            return inlay_fail(call->diag, INLAY_INVALID_ARGUMENT,
                              "%lld predicted tokens do not continue %lld source tokens from %lld on",
                              (long long)call->in[3].count, (long long)source_count, (long long)from);
        for (same = 0; same < source_count - from && predicted[same] == source[same + from]; same++)
            continue;
        count = current + same + 1;
    }
    status = kit_alloc_output(call, 0, 1, &count);
    if (status == INLAY_OK)
        status = kit_alloc_output(call, 1, call->in[2].rank, call->in[2].dims);
    if (status != INLAY_OK || call->out[1].data == NULL || (count > 0 && call->out[0].data == NULL))
        return status;
    if (current > 0)
        memcpy(call->out[0].data, call->in[1].data, (size_t)current * sizeof(int64_t));
    if (same >= 0)
        memcpy((int64_t *)call->out[0].data + current, call->in[3].data, (size_t)(same + 1) * sizeof(int64_t));
    *(int64_t *)call->out[1].data = match_suffix(call->state, source, source_count, call->out[0].data, count);
    return INLAY_OK;
}

static inlay_status shape_warping(const void *state, kit_plan *plan, inlay_diag *diag)
{
    const kit_tensor *input = &plan->in[0];

    (void)state;
    if (input->rank != 2 && !(input->rank == 3 && input->dims[0] == 1))
        return inlay_fail(diag, INLAY_SHAPE_MISMATCH, "costs [rows, columns] or [1, rows, columns] are needed");
    if (__builtin_mul_overflow((uint64_t)(input->dims[input->rank - 2] + 1),
                               (uint64_t)(input->dims[input->rank - 1] + 1) * (sizeof(float) + 1),
                               &plan->workspace_bytes))
        return inlay_fail(diag, INLAY_LIMIT_EXCEEDED, "the table of costs exceeds the address space");
    return INLAY_OK;
}

enum { BOTH, ROW, COLUMN }; /* the step of a path into an element: along both axes, or one */

/* Fills the tables of the least costs of the paths from the first element to each element, and of the last steps of
 * these paths. Both tables have one more row and column than the input. */
static void sum_costs(const float *input, int64_t rows, int64_t columns, float *least, uint8_t *steps)
{
    const int64_t wide = columns + 1;

    for (int64_t i = 0; i < (rows + 1) * wide; i++)
        least[i] = i == 0 ? 0 : INFINITY;
    for (int64_t i = 1; i <= rows; i++)
        for (int64_t j = 1; j <= columns; j++) {
            const float both = least[(i - 1) * wide + j - 1], row = least[(i - 1) * wide + j],
                        column = least[i * wide + j - 1];
            const uint8_t step = both < row && both < column ? BOTH : row < both && row < column ? ROW : COLUMN;

            steps[i * wide + j] = step;
            least[i * wide + j] = (step == BOTH ? both : step == ROW ? row : column) + input[(i - 1) * columns + j - 1];
        }
}

/* The path of least cost from the first to the last element: [2, steps], its rows and its columns. */
static inlay_status run_warping(const kit_call *call)
{
    const kit_tensor *input = &call->in[0];
    const int64_t rows = input->dims[input->rank - 2], columns = input->dims[input->rank - 1], wide = columns + 1;
    float *least = call->workspace;
    uint8_t *steps = (uint8_t *)(least + (rows + 1) * wide);
    int64_t dims[2] = { 2, 0 }, i = rows, j = columns, at;
    inlay_status status;
    int32_t *output;

    sum_costs(input->data, rows, columns, least, steps);
    for (; i > 0 && j > 0; dims[1]++) {
        const uint8_t step = steps[i * wide + j];

        i -= step != COLUMN;
        j -= step != ROW;
    }
    status = kit_alloc_output(call, 0, 2, dims);
    if (status != INLAY_OK || call->out[0].data == NULL)
        return status;
    output = call->out[0].data;
    i = rows;
    j = columns;
    for (at = dims[1]; at > 0; at--) {
        const uint8_t step = steps[i * wide + j];

        INLAY_CHECK(i > 0 && j > 0);
        output[at - 1] = (int32_t)(i - 1);
        output[dims[1] + at - 1] = (int32_t)(j - 1);
        i -= step != COLUMN;
        j -= step != ROW;
    }
    return INLAY_OK;
}

static const kit_kernel kernels[] = {
    { MICROSOFT, .op_type = "BifurcationDetector", .since_max = 1, .flags = KIT_SHAPES_AT_RUN, .prepare = prepare_match,
      .shape = shape_match, .run = run_match },
    { MICROSOFT, .op_type = "DynamicTimeWarping", .since_max = 1, .flags = KIT_SHAPES_AT_RUN, .shape = shape_warping,
      .run = run_warping },
    { MICROSOFT, .op_type = "NGramHashMapping", .since_max = 1, .prepare = prepare_hashes, .shape = shape_hashes,
      .run = run_hashes },
};
const kit_table reference_tokens = { kernels, KIT_COUNT(kernels) };
