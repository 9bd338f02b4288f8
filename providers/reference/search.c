/* SearchStart, SearchStep and SearchEnd of ai.inlay: the work of BeamSearch, GreedySearch and Sampling of com.microsoft
 * between the runs of their decoder. They are defined in "ContribOperators.md" of ONNX Runtime. */
#include "inlay/check.h"
#include "inlay/graph_view.h"
#include "inlay/kit_node.h"
#include "reference/search.h"
#include "operators/args.h"
#include "simd/convert.h"
#include "operators/operators.h"
#include <math.h>
#include <string.h>

enum { HEAD = sizeof(search_head) / sizeof(int32_t) };

static bool head_is_sane(const search_head *head)
{
    return head->search >= SEARCH_BEAM && head->search <= SEARCH_SAMPLE && head->batch >= 0 && head->beams >= 1 &&
           head->beams <= SEARCH_MAX_BEAMS && (head->search == SEARCH_BEAM || head->beams == 1) &&
           head->returned >= 1 && head->returned <= head->beams && head->prompt >= 1 && head->length >= head->prompt &&
           head->max_length > head->prompt && head->length <= head->max_length && head->words >= 0 && head->eos >= 0 &&
           head->ngram >= 0 && head->masks >= 0 && head->masks <= 7 && head->mask_words >= 0 && head->mask_width >= 0 &&
           head->least >= 0 && head->random > 0;
}

/* Adds the size of a list of rows x width elements to the offset *at; returns false if the state would be too large. */
static bool add_list_size(int64_t *at, int64_t rows, int64_t width)
{
    return !__builtin_mul_overflow(rows, width, &rows) && !__builtin_add_overflow(*at, rows, at) &&
           *at <= SEARCH_MAX_WORDS;
}

inlay_status search_lay(const search_head *head, int32_t *data, struct search *out, inlay_diag *diag)
{
    const search_head *header = head;
    const int64_t rows = search_rows(header), mask_width = search_mask_row(header);
    const int64_t bits =
        (header->masks & 1) + (int64_t)header->batch * ((header->masks >> 1 & 1) + (header->masks >> 2 & 1));
    int64_t at[11] = { HEAD };
    bool fits = true;

    if (!head_is_sane(header))
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "the state of a search was not created by SearchStart");
    for (int i = 0; i < 10; i++) {
        const int64_t counts[10][2] = {
            { rows, header->max_length }, { rows, 1 },          { header->batch, 1 },
            { header->batch, 1 },         { rows, 1 },          { rows, 1 },
            { rows, header->max_length }, { header->batch, 1 }, { header->batch, header->mask_width },
            { bits, mask_width }
        };

        at[i + 1] = at[i];
        fits = fits && add_list_size(&at[i + 1], counts[i][0], counts[i][1]);
    }
    if (!fits)
        return inlay_fail(diag, INLAY_LIMIT_EXCEEDED, "%d prompts of %d beams and %d words exceed the size of a search",
                          (int)header->batch, (int)header->beams, (int)header->max_length);
    *out = (struct search){ .head = *header, .data = data, .count = at[10] };
    if (data == NULL)
        return INLAY_OK;
    out->sequence = data + at[0];
    out->score = (float *)(data + at[1]);
    out->done = data + at[2];
    out->found = data + at[3];
    out->found_score = (float *)(data + at[4]);
    out->found_length = data + at[5];
    out->found_words = data + at[6];
    out->place = data + at[7];
    out->mask = data + at[8];
    out->bits = (uint32_t *)(data + at[9]);
    return INLAY_OK;
}

inlay_status search_open(const kit_tensor *state, struct search *out, inlay_diag *diag)
{
    search_head head;
    inlay_status status;

    if (state->rank != 1 || state->count < HEAD)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "the state of a search was not created by SearchStart");
    memcpy(&head, state->data, sizeof head);
    status = search_lay(&head, state->data, out, diag);
    if (status == INLAY_OK && out->count != state->count)
        status = inlay_fail(diag, INLAY_INVALID_ARGUMENT, "the state of a search has %lld numbers instead of %lld",
                            (long long)state->count, (long long)out->count);
    for (int64_t prompt = 0; status == INLAY_OK && prompt < head.batch; prompt++)
        if (out->found[prompt] < 0 || out->found[prompt] > head.beams)
            status = inlay_fail(diag, INLAY_INVALID_ARGUMENT, "the state of a search has %d of %d sequences",
                                (int)out->found[prompt], (int)head.beams);
    return status;
}

void search_add_found(struct search *search, int32_t prompt, const int32_t *words, int32_t length, float sum)
{
    const int32_t beams = search->head.beams, max = search->head.max_length;
    const float score = sum / powf((float)length, search->head.length_penalty);
    float *scores = search->found_score + (int64_t)prompt * beams;
    int32_t *lengths = search->found_length + (int64_t)prompt * beams, *count = &search->found[prompt], at;
    int32_t *rows = search->found_words + (int64_t)prompt * beams * max;

    INLAY_CHECK(prompt >= 0 && prompt < search->head.batch);
    INLAY_CHECK(*count <= beams && length >= 0 && length <= max);
    if (*count == beams && !(score > scores[beams - 1]))
        return;
    at = *count < beams ? (*count)++ : beams - 1;
    for (; at > 0 && score > scores[at - 1]; at--) {
        scores[at] = scores[at - 1];
        lengths[at] = lengths[at - 1];
        memcpy(rows + (int64_t)at * max, rows + (int64_t)(at - 1) * max, (size_t)max * sizeof *rows);
    }
    scores[at] = score;
    lengths[at] = length;
    memcpy(rows + (int64_t)at * max, words, (size_t)length * sizeof *words);
}

enum {
    IN_IDS,
    IN_MAX,
    IN_MIN,
    IN_BEAMS,
    IN_RETURNED,
    IN_LENGTH_PENALTY,
    IN_REPETITION,
    IN_WORDS,
    IN_FIRST,
    IN_MASK,
    IN_PRESENCE,
    IN_SEED
};

typedef struct start_state {
    search_head head; /* values of the attributes */
    int32_t start;    /* decoder_start_token_id */
    bool encoder;
} start_state;

static inlay_status prepare_start(const kit_node *node, void **out_state, inlay_diag *diag)
{
    static const char *const names[] = { "beam", "greedy", "sample" };
    const inlay_node_info *info = node->info;
    const char *kind = kit_attr_string(info, "search", "");
    inlay_status status = arg_allocate_state(sizeof(start_state), out_state, diag);
    start_state *state = *out_state;
    search_head *head;

    if (status != INLAY_OK)
        return status;
    head = &state->head;
    for (int32_t i = 0; i < 3; i++)
        if (strcmp(kind, names[i]) == 0)
            head->search = i + 1;
    head->eos = (int32_t)kit_attr_int(info, "eos_token_id", -1);
    head->pad = (int32_t)kit_attr_int(info, "pad_token_id", -1);
    head->words = (int32_t)kit_attr_int(info, "vocab_size", -1);
    head->words = head->words < 0 ? 0 : head->words;
    head->ngram = (int32_t)kit_attr_int(info, "no_repeat_ngram_size", 0);
    head->early_stopping = kit_attr_int(info, "early_stopping", 0) == 1;
    head->whole = kit_attr_int(info, "whole", 0) != 0;
    head->custom = kit_attr_int(info, "custom", 0) != 0;
    head->least = (int32_t)kit_attr_int(info, "min_tokens_to_keep", 0);
    head->filter_value = (float)kit_attr_float(info, "filter_value", -1e20);
    head->temperature = (float)kit_attr_float(info, "temperature", 1);
    head->top_p = (float)kit_attr_float(info, "top_p", 0);
    head->presence_penalty = (float)kit_attr_float(info, "presence_penalty", 0);
    state->start = (int32_t)kit_attr_int(info, "decoder_start_token_id", -1);
    state->encoder = kit_attr_int(info, "encoder", 0) != 0;
    if (head->search == 0)
        return inlay_fail(diag, INLAY_INVALID_MODEL, "search '%s' is none of beam, greedy and sample", kind);
    if (head->eos < 0 || head->pad < 0)
        return inlay_fail(diag, INLAY_INVALID_MODEL, "eos_token_id %d and pad_token_id %d must not be negative",
                          (int)head->eos, (int)head->pad);
    return head->ngram >= 0 && head->least >= 0
               ? INLAY_OK
               : inlay_fail(diag, INLAY_INVALID_MODEL,
                            "no_repeat_ngram_size and min_tokens_to_keep must not be negative");
}

/* Reads an input with a single integer in [low, high]; if the input is missing, *value is unchanged. */
static inlay_status whole_number(const kit_call *call, uint32_t input, const char *what, int64_t low, int64_t high,
                                 int32_t *value)
{
    if (!kit_has_input(call, input))
        return INLAY_OK;
    if (call->in[input].count != 1)
        return inlay_fail(call->diag, INLAY_SHAPE_MISMATCH, "%s has %lld elements instead of one", what,
                          (long long)call->in[input].count);
    *value = *(const int32_t *)call->in[input].data;
    if (*value < low || *value > high)
        return inlay_fail(call->diag, INLAY_INVALID_ARGUMENT, "%s is %d; it must be in [%lld, %lld]", what, (int)*value,
                          (long long)low, (long long)high);
    return INLAY_OK;
}

static inlay_status number(const kit_call *call, uint32_t input, const char *what, float *value)
{
    double result = *value;

    if (kit_has_input(call, input)) {
        if (call->in[input].count != 1)
            return inlay_fail(call->diag, INLAY_SHAPE_MISMATCH, "%s has %lld elements instead of one", what,
                              (long long)call->in[input].count);
        convert_to_f64(&result, call->in[input].dtype, call->in[input].data, 0, 1);
    }
    *value = (float)result;
    return INLAY_OK;
}

static inlay_status read_settings(const kit_call *call, search_head *head)
{
    const kit_tensor *ids = &call->in[IN_IDS];
    const start_state *state = call->state;
    inlay_status status = INLAY_OK;
    int32_t seed = 0;

    if (ids->rank != 2 || ids->dims[0] > INT16_MAX || ids->dims[1] > INT32_MAX || ids->dims[1] < 1)
        return inlay_fail(call->diag, INLAY_SHAPE_MISMATCH,
                          "input_ids must be [batch, length] with a length of at least 1");
    *head = state->head;
    head->batch = (int32_t)ids->dims[0];
    head->prompt = head->length = state->encoder ? 1 : (int32_t)ids->dims[1];
    head->beams = head->returned = 1;
    head->length_penalty = head->repetition_penalty = 1;
    head->mask_width = state->encoder ? 0 : head->prompt;
    INLAY_TRY(whole_number(call, IN_MAX, "max_length", (int64_t)head->prompt + 1, INT32_MAX, &head->max_length));
    INLAY_TRY(whole_number(call, IN_MIN, "min_length", INT32_MIN, head->max_length - 1, &head->min_length));
    INLAY_TRY(whole_number(call, IN_BEAMS, "num_beams", 1, SEARCH_MAX_BEAMS, &head->beams));
    INLAY_TRY(whole_number(call, IN_RETURNED, "num_return_sequences", 1, head->beams, &head->returned));
    INLAY_TRY(whole_number(call, IN_SEED, "seed", INT32_MIN, INT32_MAX, &seed));
    INLAY_TRY(number(call, IN_LENGTH_PENALTY, "length_penalty", &head->length_penalty));
    INLAY_TRY(number(call, IN_REPETITION, "repetition_penalty", &head->repetition_penalty));
    if (!(head->repetition_penalty > 0))
        status = inlay_fail(call->diag, INLAY_INVALID_ARGUMENT, "repetition_penalty is %g; it must be above 0",
                            (double)head->repetition_penalty);
    if (state->encoder && state->start < 0)
        status = inlay_fail(call->diag, INLAY_INVALID_MODEL, "decoder_start_token_id is missing");
    head->random = (uint32_t)seed % 2147483647u; /* seeded like std::minstd_rand0 */
    head->random = head->random == 0 ? 1 : head->random;
done:
    return status;
}

/* Reads the sizes of the vocabulary masks: one row for all prompts, or one per prompt. */
static inlay_status read_masks(const kit_call *call, search_head *head)
{
    static const struct {
        uint32_t input;
        const char *name;
        bool per_prompt;
    } masks[] = { { IN_WORDS, "vocab_mask", false },
                  { IN_FIRST, "prefix_vocab_mask", true },
                  { IN_PRESENCE, "presence_mask", true } };

    for (int32_t index = 0; index < 3; index++) {
        const kit_tensor *tensor = kit_has_input(call, masks[index].input) ? &call->in[masks[index].input] : NULL;
        const uint32_t rank = masks[index].per_prompt ? 2 : 1;

        if (tensor == NULL)
            continue;
        if (tensor->rank != rank || (rank == 2 && tensor->dims[0] != head->batch) ||
            tensor->dims[rank - 1] > INT32_MAX || (head->masks != 0 && tensor->dims[rank - 1] != head->mask_words))
            return inlay_fail(call->diag, INLAY_SHAPE_MISMATCH,
                              "%s must be %s, and all masks must have the same number of words", masks[index].name,
                              rank == 1 ? "[words]" : "[batch, words]");
        head->masks |= 1 << index;
        head->mask_words = (int32_t)tensor->dims[rank - 1];
    }
    return INLAY_OK;
}

static void write_bits(const kit_call *call, struct search *search)
{
    const uint32_t inputs[] = { IN_WORDS, IN_FIRST, IN_PRESENCE };
    const int64_t width = search_mask_row(&search->head), words = search->head.mask_words;
    uint32_t *to = search->bits;

    for (int index = 0; index < 3; index++) {
        const int64_t rows = index == 0 ? 1 : search->head.batch;

        if ((search->head.masks >> index & 1) == 0)
            continue;
        for (int64_t row = 0; row < rows; row++, to += width) {
            const int32_t *from = (const int32_t *)call->in[inputs[index]].data + row * words;

            for (int64_t i = 0; i < words; i++)
                to[i / 32] |= (uint32_t)(from[i] != 0) << (i % 32);
        }
    }
}

/* Writes the mask of the prompts' tokens: a copy of the attention mask, if there is one; otherwise padding is masked.
 * For an encoder only leading padding is masked, since the end token may have the id of padding. */
static void write_mask(const kit_call *call, struct search *search, int32_t *mask)
{
    const start_state *state = call->state;
    const kit_tensor *ids = &call->in[IN_IDS];
    const int64_t length = ids->dims[1];

    for (int64_t prompt = 0; prompt < search->head.batch; prompt++, mask += length) {
        const int32_t *id = (const int32_t *)ids->data + prompt * length;
        bool began = false;

        for (int64_t i = 0; i < length; i++) {
            began |= id[i] != search->head.pad;
            mask[i] = kit_has_input(call, IN_MASK) ? ((const int32_t *)call->in[IN_MASK].data)[prompt * length + i]
                      : state->encoder             ? began
                                                   : id[i] != search->head.pad;
            search->place[prompt] += mask[i] != 0;
        }
    }
}

static void write_rows(const kit_call *call, struct search *search)
{
    const start_state *state = call->state;
    const search_head *head = &search->head;
    const int32_t *from = call->in[IN_IDS].data;
    int32_t *ids = call->out[0].data, *positions = call->out[1].data, *mask = call->out[2].data;

    for (int64_t row = 0; row < search_rows(head); row++) {
        const int64_t prompt = row / head->beams;
        int32_t position = 0;

        /* At first only the first row of a prompt counts. Otherwise all rows of the prompt would stay equal. */
        search->score[row] = row % head->beams == 0 ? 0 : -1e9f;
        if (state->encoder) {
            search->sequence[row * head->max_length] = state->start;
            continue;
        }
        for (int64_t i = 0; i < head->prompt; i++) {
            const int64_t at = row * head->prompt + i;

            ids[at] = search->sequence[row * head->max_length + i] = from[prompt * head->prompt + i];
            mask[at] = search->mask[prompt * head->prompt + i];
            positions[at] = mask[at] != 0 ? position++ : 0;
        }
    }
    for (int64_t prompt = 0; state->encoder && prompt < head->batch; prompt++) {
        ids[prompt] = state->start;
        positions[prompt] = 0;
    }
}

static inlay_status run_start(const kit_call *call)
{
    const start_state *state = call->state;
    inlay_status status = INLAY_OK;
    int64_t rows, dims[2], mask_dims[2], *prompts;
    search_head head;
    struct search search;

    INLAY_TRY(read_settings(call, &head));
    INLAY_TRY(read_masks(call, &head));
    INLAY_TRY(search_lay(&head, NULL, &search, call->diag));
    if (kit_has_input(call, IN_MASK) && call->in[IN_MASK].count != call->in[IN_IDS].count) {
        status = inlay_fail(call->diag, INLAY_SHAPE_MISMATCH, "attention_mask must have the shape of input_ids");
        goto done;
    }
    rows = search_rows(&head);
    dims[0] = state->encoder ? head.batch : rows;
    dims[1] = head.prompt;
    mask_dims[0] = dims[0];
    mask_dims[1] = call->in[IN_IDS].dims[1];
    INLAY_TRY(kit_alloc_output(call, 0, 2, dims));
    INLAY_TRY(kit_alloc_output(call, 1, 2, dims));
    INLAY_TRY(kit_alloc_output(call, 2, 2, mask_dims));
    INLAY_TRY(kit_alloc_output(call, 3, 1, &search.count));
    INLAY_TRY(kit_alloc_output(call, 4, 1, (const int64_t[]){ 1 }));
    INLAY_TRY(kit_alloc_output(call, 5, 1, &rows));
    memset(call->out[3].data, 0, (size_t)search.count * sizeof(int32_t));
    memcpy(call->out[3].data, &head, sizeof head);
    INLAY_TRY(search_lay(&head, call->out[3].data, &search, call->diag));
    write_mask(call, &search, state->encoder ? call->out[2].data : search.mask);
    write_rows(call, &search);
    write_bits(call, &search);
    *(int64_t *)call->out[4].data = rows;
    prompts = call->out[5].data;
    for (int64_t row = 0; row < rows; row++)
        prompts[row] = row / head.beams;
done:
    return status;
}

/* Writes the best sequences of each prompt, including unfinished ones unless the prompt is done. */
static inlay_status end_beams(const kit_call *call, struct search *search)
{
    const search_head *head = &search->head;
    const int64_t dims[] = { head->batch, head->returned, head->max_length };
    float *scores = NULL;
    inlay_status status = kit_alloc_output(call, 0, 3, dims);
    int32_t *to;

    if (status == INLAY_OK && kit_has_output(call, 1))
        status = kit_alloc_output(call, 1, 2, dims);
    if (status != INLAY_OK)
        return status;
    to = call->out[0].data;
    scores = kit_has_output(call, 1) ? call->out[1].data : NULL;
    for (int32_t prompt = 0; prompt < head->batch; prompt++) {
        for (int32_t beam = 0; search->done[prompt] == 0 && beam < head->beams; beam++) {
            const int64_t row = (int64_t)prompt * head->beams + beam;

            search_add_found(search, prompt, search->sequence + row * head->max_length, head->length,
                             search->score[row]);
        }
        for (int32_t beam = 0; beam < head->returned; beam++, to += head->max_length) {
            const int64_t at = (int64_t)prompt * head->beams + beam;
            const int32_t length = beam < search->found[prompt] ? search->found_length[at] : 0;

            if (length < 0 || length > head->max_length)
                return inlay_fail(call->diag, INLAY_INVALID_ARGUMENT,
                                  "the state of a search has a sequence of %d words", (int)length);
            memcpy(to, search->found_words + at * head->max_length, (size_t)length * sizeof *to);
            for (int32_t i = length; i < head->max_length; i++)
                to[i] = head->pad;
            if (scores != NULL)
                *scores++ = beam < search->found[prompt] ? search->found_score[at] : -INFINITY;
        }
    }
    return INLAY_OK;
}

static inlay_status end_words(const kit_call *call, const struct search *search)
{
    const search_head *head = &search->head;
    const int64_t dims[] = { head->batch, head->max_length };
    inlay_status status = kit_alloc_output(call, 0, 2, dims);
    int32_t *to;

    if (status != INLAY_OK)
        return status;
    to = call->out[0].data;
    for (int64_t prompt = 0; prompt < head->batch; prompt++)
        for (int64_t i = 0; i < head->max_length; i++)
            *to++ = i < head->length ? search->sequence[prompt * head->max_length + i] : head->pad;
    return INLAY_OK;
}

/* Writes the scores of all steps, 0 after the last one; for Sampling, those of the last step. */
static inlay_status end_scores(const kit_call *call, const struct search *search)
{
    const kit_tensor *from = &call->in[1];
    const search_head *head = &search->head;
    const bool last = head->search == SEARCH_SAMPLE;
    const int64_t steps = head->max_length - head->prompt;
    int64_t dims[4], step_count;
    inlay_status status;

    if (!kit_has_input(call, 1) || from->rank != 4 || from->dims[0] < 1 || from->dims[0] > steps)
        return inlay_fail(call->diag, INLAY_SHAPE_MISMATCH, "the scores must be [steps, batch, beams, words]");
    memcpy(dims, from->dims, sizeof dims);
    step_count = from->count / dims[0];
    dims[0] = steps;
    status =
        last ? kit_alloc_output(call, 1, 2, (const int64_t[]){ dims[1], dims[3] }) : kit_alloc_output(call, 2, 4, dims);
    if (status != INLAY_OK)
        return status;
    if (last) {
        memcpy(call->out[1].data, (const float *)from->data + from->count - step_count,
               (size_t)step_count * sizeof(float));
        return INLAY_OK;
    }
    memcpy(call->out[2].data, from->data, (size_t)from->count * sizeof(float));
    memset((float *)call->out[2].data + from->count, 0, (size_t)(steps * step_count - from->count) * sizeof(float));
    return INLAY_OK;
}

static inlay_status shape_end(const void *state, kit_plan *plan, inlay_diag *diag)
{
    (void)state;
    (void)diag;
    plan->workspace_bytes = plan->in[0].count > 0 ? (uint64_t)plan->in[0].count * sizeof(int32_t) : 0;
    return INLAY_OK;
}

static inlay_status run_end(const kit_call *call)
{
    kit_tensor state_copy = call->in[0]; /* a copy, because finishing the search modifies the state */
    inlay_status status;
    struct search search;

    state_copy.data = call->workspace;
    if (state_copy.count > 0)
        memcpy(state_copy.data, call->in[0].data, (size_t)state_copy.count * sizeof(int32_t));
    status = search_open(&state_copy, &search, call->diag);
    if (status == INLAY_OK)
        status = search.head.search == SEARCH_BEAM ? end_beams(call, &search) : end_words(call, &search);
    if (status == INLAY_OK && kit_has_output(call, search.head.search == SEARCH_SAMPLE ? 1 : 2))
        status = end_scores(call, &search);
    return status;
}

#define AI_INLAY .domain = "ai.inlay", .since_max = 1, .flags = KIT_SHAPES_AT_RUN

static const kit_kernel kernels[] = {
    { AI_INLAY, .op_type = "SearchStart", .prepare = prepare_start, .run = run_start },
    { AI_INLAY, .op_type = "SearchStep", .shape = search_shape_step, .run = search_run_step },
    { AI_INLAY, .op_type = "SearchEnd", .shape = shape_end, .run = run_end },
};
const kit_table reference_search = { kernels, KIT_COUNT(kernels) };
