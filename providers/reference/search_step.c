/* SearchStep: selects the next word of each row from the decoder's logits. */
#include "reference/search.h"
#include "inlay/check.h"
#include "simd/convert.h"
#include "simd/vecmath.h"
#include <float.h>
#include <math.h>
#include <string.h>

/* A word that may come next. Candidates are sorted by score; those with equal scores are in the order in which they
 * were found. */
struct candidate {
    float score;
    int32_t row, word;
};

struct step {
    const kit_call *call;
    struct search old;    /* the input state */
    struct search search; /* the output state */
    int32_t words;
    float *scores;   /* [words]: scores of the current row */
    int32_t *sorted; /* [words]: the words in the order of Sampling; also scratch memory */
};

static const int32_t *row_words(const struct search *search, int64_t row)
{
    return search->sequence + row * search->head.max_length;
}

/* Penalizes every word of the row once, even if it occurs several times; step->sorted marks the penalized words. */
static inlay_status penalize_repetition(const struct step *step, int64_t row)
{
    const int32_t *words = row_words(&step->old, row);
    const float penalty = step->search.head.repetition_penalty;

    if (penalty == 1)
        return INLAY_OK;
    for (int32_t i = 0; i < step->search.head.length; i++) {
        if (words[i] < 0 || words[i] >= step->words)
            return inlay_fail(step->call->diag, INLAY_INVALID_ARGUMENT, "word %d is outside [0, %d)", (int)words[i],
                              (int)step->words);
        step->sorted[words[i]] = 0;
    }
    for (int32_t i = 0; i < step->search.head.length; i++) {
        float *value = &step->scores[words[i]];

        if (step->sorted[words[i]]++ == 0)
            *value = *value < 0 ? *value * penalty : *value / penalty;
    }
    return INLAY_OK;
}

/* Excludes words that would complete an n-gram that already occurs in the row. */
static void forbid_repeats(const struct step *step, int64_t row)
{
    const int32_t *words = row_words(&step->old, row), size = step->search.head.ngram,
                  length = step->search.head.length;

    for (int32_t i = 0; size > 0 && i + size <= length; i++) {
        const int32_t next = words[i + size - 1];

        if (memcmp(words + i, words + length - (size - 1), (size_t)(size - 1) * sizeof *words) == 0 && next >= 0 &&
            next < step->words)
            step->scores[next] = -FLT_MAX;
    }
}

static bool has_bit(const uint32_t *bits, int32_t index)
{
    return (bits[index / 32] >> (index % 32) & 1) != 0;
}

static void apply_masks(const struct step *step, int64_t prompt)
{
    const search_head *head = &step->search.head;
    const int64_t width = search_mask_row(head);
    const uint32_t *bits = step->search.bits;
    const float presence = head->presence_penalty;

    if ((head->masks & 1) != 0) {
        for (int32_t i = 0; i < step->words; i++)
            step->scores[i] = has_bit(bits, i) ? step->scores[i] : -FLT_MAX;
        bits += width;
    }
    if ((head->masks & 2) != 0) {
        for (int32_t i = 0; i < step->words && head->length == head->prompt; i++)
            step->scores[i] = has_bit(bits + prompt * width, i) ? step->scores[i] : -FLT_MAX;
        bits += head->batch * width;
    }
    if (head->length < head->min_length && head->eos < step->words)
        step->scores[head->eos] = -FLT_MAX;
    if (head->search == SEARCH_SAMPLE && head->temperature > 0 && head->temperature != 1)
        for (int32_t i = 0; i < step->words; i++)
            step->scores[i] /= head->temperature;
    for (int32_t i = 0; (head->masks & 4) != 0 && i < step->words; i++)
        step->scores[i] -= has_bit(bits + prompt * width, i) ? presence : 0;
}

static void log_softmax(float *scores, int32_t count)
{
    float maximum = -INFINITY;
    double sum = 0;

    for (int32_t i = 0; i < count; i++)
        maximum = scores[i] > maximum ? scores[i] : maximum;
    for (int32_t i = 0; i < count; i++)
        sum += (double)vm_exp(scores[i] - maximum);
    maximum += (float)log(sum);
    for (int32_t i = 0; i < count; i++)
        scores[i] -= maximum;
}

/* Computes the scores of a row from its last logits. There are logits for each row, or for each prompt as long as the
 * rows of a prompt are equal. */
static inlay_status score_row(const struct step *step, int64_t row)
{
    const kit_tensor *input = &step->call->in[0];
    const int32_t beams = step->search.head.beams;
    const int64_t from = input->dims[0] == step->search.head.batch ? row / beams : row;
    inlay_status status;

    INLAY_CHECK(row < search_rows(&step->search.head) && step->words <= input->dims[2]);
    convert_to_f32(step->scores, input->dtype, input->data, ((from + 1) * input->dims[1] - 1) * input->dims[2],
                   step->words);
    if (step->search.head.search == SEARCH_BEAM)
        log_softmax(step->scores, step->words);
    status = penalize_repetition(step, row);
    if (status != INLAY_OK)
        return status;
    forbid_repeats(step, row);
    apply_masks(step, row / beams);
    return INLAY_OK;
}

static float *scores_out(const struct step *step, int64_t row)
{
    return kit_has_output(step->call, 6) ? (float *)step->call->out[6].data + row * step->words : NULL;
}

/* Inserts a candidate in a sorted list of at most `most` entries. */
static void add_candidate(struct candidate *list, int32_t *count, int32_t most, struct candidate candidate)
{
    int32_t at;

    INLAY_CHECK(*count >= 0 && *count <= most);
    if (*count == most && !(candidate.score > list[most - 1].score))
        return;
    at = *count < most ? (*count)++ : most - 1;
    for (; at > 0 && candidate.score > list[at - 1].score; at--)
        list[at] = list[at - 1];
    list[at] = candidate;
}

/* Finds the best words of all rows of a prompt, two per row, so that enough are left if every row ends. */
static inlay_status find_candidates(const struct step *step, int32_t prompt, struct candidate *list)
{
    const int32_t beams = step->search.head.beams;
    int32_t count = 0;

    for (int32_t beam = 0; beam < beams; beam++) {
        const int32_t row = prompt * beams + beam;
        const float before = step->old.score[row];
        inlay_status status = score_row(step, row);
        float *out = scores_out(step, row);

        if (status != INLAY_OK)
            return status;
        for (int32_t i = 0; i < step->words; i++)
            step->scores[i] += before;
        if (out != NULL)
            memcpy(out, step->scores, (size_t)step->words * sizeof *out);
        for (int32_t i = 0; i < step->words; i++)
            if (step->scores[i] == step->scores[i])
                add_candidate(list, &count, 2 * beams, (struct candidate){ step->scores[i], row, i });
    }
    return count == 2 * beams ? INLAY_OK
                              : inlay_fail(step->call->diag, INLAY_INVALID_ARGUMENT,
                                           "only %d scores of prompt %d are numbers; %d beams need %d", (int)count,
                                           (int)prompt, (int)beams, (int)(2 * beams));
}

/* Writes the candidate's row, extended by its word, as row `row` of the output. */
static void extend_row(struct step *step, int32_t row, struct candidate candidate)
{
    const search_head *head = &step->search.head;
    int32_t *words = step->search.sequence + (int64_t)row * head->max_length;

    INLAY_CHECK(head->length < head->max_length && row < search_rows(head));
    memcpy(words, row_words(&step->old, candidate.row), (size_t)head->length * sizeof *words);
    words[head->length] = candidate.word;
    step->search.score[row] = candidate.score;
    ((int64_t *)step->call->out[3].data)[row] = candidate.row;
}

static inlay_status step_beams(struct step *step, int32_t prompt)
{
    const search_head *head = &step->search.head;
    const int32_t first = prompt * head->beams;
    struct candidate list[2 * SEARCH_MAX_BEAMS];
    inlay_status status;
    int32_t kept = 0;

    if (step->search.done[prompt] != 0) {
        float *out = scores_out(step, first);

        for (int32_t beam = 0; beam < head->beams; beam++)
            extend_row(step, first + beam, (struct candidate){ 0, first, head->pad });
        if (out != NULL)
            memset(out, 0, (size_t)head->beams * (size_t)step->words * sizeof *out);
        return INLAY_OK;
    }
    status = find_candidates(step, prompt, list);
    if (status != INLAY_OK)
        return status;
    for (int32_t index = 0; index < 2 * head->beams && kept < head->beams; index++) {
        if (list[index].word != head->eos)
            extend_row(step, first + kept++, list[index]);
        else if (index < head->beams)
            search_add_found(&step->search, prompt, row_words(&step->old, list[index].row), head->length,
                             list[index].score);
    }
    /* A prompt is done if no unfinished row can become better than the worst finished one. */
    if (step->search.found[prompt] == head->beams)
        step->search.done[prompt] =
            head->early_stopping != 0 || step->search.found_score[first + head->beams - 1] >=
                                             list[0].score / powf((float)head->length, head->length_penalty);
    return INLAY_OK;
}

/* std::minstd_rand0, and the algorithm of std::uniform_real_distribution<double> on two of its numbers: the same seed
 * gives the same words as ONNX Runtime. */
static double next_random(uint32_t *state)
{
    double number[2];

    for (int i = 0; i < 2; i++) {
        *state = (uint32_t)(*state * UINT64_C(16807) % 2147483647);
        number[i] = (double)(*state - 1);
    }
    return (number[0] + number[1] * 2147483646.0) / (2147483646.0 * 2147483646.0);
}

/* Returns whether word a precedes word b in the order of Sampling. */
static bool sorts_before(const struct step *step, int32_t a, int32_t b)
{
    const float score_a = step->scores[a], score_b = step->scores[b];

    return score_a == score_b ? a < b : step->search.head.custom != 0 ? score_a > score_b : score_a < score_b;
}

static void sift(const struct step *step, int32_t at, int32_t count)
{
    int32_t *heap = step->sorted;

    for (int32_t child; (child = 2 * at + 1) < count; at = child) {
        const int32_t moved = heap[at];

        child += child + 1 < count && sorts_before(step, heap[child], heap[child + 1]);
        if (!sorts_before(step, moved, heap[child]))
            return;
        heap[at] = heap[child];
        heap[child] = moved;
    }
}

static void sort_words(const struct step *step)
{
    for (int32_t i = 0; i < step->words; i++)
        step->sorted[i] = i;
    for (int32_t i = step->words / 2; i-- > 0;)
        sift(step, i, step->words);
    for (int32_t i = step->words; i-- > 1;) {
        const int32_t last = step->sorted[i];

        step->sorted[i] = step->sorted[0];
        step->sorted[0] = last;
        sift(step, 0, i);
    }
}

/* Sets the scores of improbable words to filter_value. By default these are the least probable words, whose
 * probabilities add up to at most 1 - top_p; with `custom`, the words after the most probable ones that add up to more
 * than top_p. */
static void filter_words(const struct step *step)
{
    const search_head *head = &step->search.head;
    const float maximum = step->scores[head->custom != 0 ? step->sorted[0] : step->sorted[step->words - 1]];
    double sum = 0;
    float cumulative = 0;

    for (int32_t i = 0; i < step->words; i++)
        sum += (double)vm_exp(step->scores[i] - maximum);
    if (head->custom != 0) {
        for (int32_t index = 0; index + 1 < step->words; index++) {
            cumulative += (float)((double)vm_exp(step->scores[step->sorted[index]] - maximum) / sum);
            if (cumulative > head->top_p)
                step->scores[step->sorted[index + 1]] = head->filter_value;
        }
        return;
    }
    for (int32_t index = 0; index == 0 || index < step->words - head->least; index++) {
        cumulative += (float)((double)vm_exp(step->scores[step->sorted[index]] - maximum) / sum);
        if (cumulative <= 1 - head->top_p)
            step->scores[step->sorted[index]] = head->filter_value;
    }
}

static int32_t draw_word(const struct step *step, uint32_t *random)
{
    double maximum = -FLT_MAX, sum = 0, target;

    for (int32_t i = 0; i < step->words; i++)
        maximum = isfinite(step->scores[i]) && (double)step->scores[i] > maximum ? (double)step->scores[i] : maximum;
    for (int32_t i = 0; i < step->words; i++)
        sum += isfinite(step->scores[i]) ? exp((double)step->scores[i] - maximum) : 0;
    target = next_random(random) * sum;
    sum = 0;
    for (int32_t i = 0; i + 1 < step->words; i++) {
        sum += isfinite(step->scores[i]) ? exp((double)step->scores[i] - maximum) : 0;
        if (sum > target)
            return i;
    }
    return step->words - 1;
}

static int32_t best_word(const struct step *step)
{
    int32_t best = 0;

    for (int32_t i = 1; i < step->words; i++)
        best = step->scores[i] > step->scores[best] ? i : best;
    return best;
}

static inlay_status step_word(struct step *step, int32_t prompt)
{
    search_head *head = &step->search.head;
    inlay_status status = score_row(step, prompt);
    float *out = scores_out(step, prompt);
    int32_t word;

    if (status != INLAY_OK)
        return status;
    if (head->search == SEARCH_SAMPLE) {
        sort_words(step);
        filter_words(step);
    }
    if (out != NULL)
        memcpy(out, step->scores, (size_t)step->words * sizeof *out);
    word = head->search == SEARCH_SAMPLE ? draw_word(step, &head->random) : best_word(step);
    step->search.done[prompt] |= word == head->eos;
    extend_row(step, prompt, (struct candidate){ 0, prompt, step->search.done[prompt] != 0 ? head->pad : word });
    return INLAY_OK;
}

inlay_status search_shape_step(const void *state, kit_plan *plan, inlay_diag *diag)
{
    (void)state;
    if (plan->in[0].rank != 3)
        return inlay_fail(diag, INLAY_SHAPE_MISMATCH,
                          "the decoder's logits have rank %u instead of [rows, length, words]", plan->in[0].rank);
    plan->workspace_bytes = (uint64_t)plan->in[0].dims[2] * (sizeof(float) + sizeof(int32_t));
    return INLAY_OK;
}

static inlay_status open_step(const kit_call *call, struct step *step)
{
    const kit_tensor *input = &call->in[0];
    const search_head *head = &step->old.head;
    inlay_status status = search_open(&call->in[1], &step->old, call->diag);

    if (status != INLAY_OK)
        return status;
    if (head->length >= head->max_length || input->dims[1] < 1 || input->dims[2] < 1 || input->dims[2] > INT32_MAX ||
        (input->dims[0] != search_rows(head) && input->dims[0] != head->batch) || head->words > input->dims[2])
        return inlay_fail(call->diag, INLAY_SHAPE_MISMATCH,
                          "the decoder's logits [%lld, %lld, %lld] do not match %lld rows and %d words",
                          (long long)input->dims[0], (long long)input->dims[1], (long long)input->dims[2],
                          (long long)search_rows(head), (int)head->words);
    step->words = head->words > 0 ? head->words : (int32_t)input->dims[2];
    if (head->masks != 0 && head->mask_words != step->words)
        return inlay_fail(call->diag, INLAY_SHAPE_MISMATCH, "the masks have %d words, the decoder's logits %d",
                          (int)head->mask_words, (int)step->words);
    step->scores = call->workspace;
    step->sorted = (int32_t *)(step->scores + input->dims[2]);
    return INLAY_OK;
}

static inlay_status allocate(const kit_call *call, const struct step *step)
{
    const search_head *head = &step->old.head;
    const int64_t rows = search_rows(head), next = head->length + 1;
    inlay_status status = INLAY_OK;

    INLAY_TRY(kit_alloc_output(call, 0, 0, NULL));
    INLAY_TRY(kit_alloc_output(call, 1, 1, &step->old.count));
    INLAY_TRY(kit_alloc_output(call, 2, 2, (const int64_t[]){ rows, head->whole != 0 ? next : 1 }));
    INLAY_TRY(kit_alloc_output(call, 3, 1, &rows));
    if (kit_has_output(call, 4))
        INLAY_TRY(kit_alloc_output(call, 4, 2, (const int64_t[]){ rows, 1 }));
    if (kit_has_output(call, 5))
        INLAY_TRY(kit_alloc_output(call, 5, 2, (const int64_t[]){ rows, head->mask_width + next - head->prompt }));
    if (kit_has_output(call, 6))
        INLAY_TRY(kit_alloc_output(call, 6, 3, (const int64_t[]){ head->batch, head->beams, step->words }));
done:
    return status;
}

/* Writes the next inputs of the decoder. */
static void write_feeds(const kit_call *call, const struct step *step)
{
    const search_head *head = &step->search.head; /* the length includes the new word */
    const int64_t width = (int64_t)head->mask_width + head->length - head->prompt;
    int32_t *ids = call->out[2].data, *mask = kit_has_output(call, 5) ? call->out[5].data : NULL;

    INLAY_CHECK(head->length <= head->max_length);
    for (int64_t row = 0; row < search_rows(head); row++) {
        const int32_t *words = row_words(&step->search, row);
        const int32_t count = head->whole != 0 ? head->length : 1;

        memcpy(ids + row * count, words + head->length - count, (size_t)count * sizeof *ids);
        if (kit_has_output(call, 4))
            ((int32_t *)call->out[4].data)[row] =
                (int32_t)((int64_t)step->search.place[row / head->beams] + head->length - head->prompt - 1);
        for (int64_t i = 0; mask != NULL && i < width; i++)
            *mask++ = i < head->mask_width ? step->search.mask[row / head->beams * head->mask_width + i] : 1;
    }
}

inlay_status search_run_step(const kit_call *call)
{
    struct step step = { .call = call };
    inlay_status status = open_step(call, &step);
    bool done = true;

    if (status == INLAY_OK)
        status = allocate(call, &step);
    if (status != INLAY_OK)
        return status;
    memcpy(call->out[1].data, call->in[1].data, (size_t)step.old.count * sizeof(int32_t));
    status = search_lay(&step.old.head, call->out[1].data, &step.search, call->diag);
    for (int32_t prompt = 0; status == INLAY_OK && prompt < step.search.head.batch; prompt++) {
        status = step.search.head.search == SEARCH_BEAM ? step_beams(&step, prompt) : step_word(&step, prompt);
        if (status == INLAY_OK)
            status = kit_poll(call);
        done = done && step.search.done[prompt] != 0;
    }
    if (status != INLAY_OK)
        return status;
    step.search.head.length++;
    memcpy(call->out[1].data, &step.search.head, sizeof step.search.head);
    write_feeds(call, &step);
    *(uint8_t *)call->out[0].data = !done && step.search.head.length < step.search.head.max_length;
    return INLAY_OK;
}
