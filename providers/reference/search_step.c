/* SearchStep: the decoder's logits become the next word of each row. */
#include "search.h"
#include "simd/convert.h"
#include "simd/vecmath.h"
#include <float.h>
#include <math.h>
#include <string.h>

/* A word that may come next; best first, and of equal ones the one that is found first. */
struct candidate {
    float score;
    int32_t row, word;
};

struct step {
    const kit_call *call;
    struct search old; /* as it came in */
    struct search s;   /* as it goes on */
    int32_t words;
    float *scores;   /* [words] of one row */
    int32_t *sorted; /* [words] in the order in which Sampling takes them */
};

/* ------------------------------------------------------------------ scores of one row */

static const int32_t *row_words(const struct search *s, int64_t row)
{
    return s->sequence + row * s->head.max_length;
}

/* Each word that is there already counts once, however often it is there; `sorted` marks those that did. */
static inlay_status punish_repetition(const struct step *t, int64_t row)
{
    const int32_t *words = row_words(&t->old, row);
    const float penalty = t->s.head.repetition_penalty;

    if (penalty == 1)
        return INLAY_OK;
    for (int32_t i = 0; i < t->s.head.length; i++) {
        if (words[i] < 0 || words[i] >= t->words)
            return inlay_fail(t->call->diag, INLAY_INVALID_ARGUMENT, "word %d is outside [0, %d)", (int)words[i],
                              (int)t->words);
        t->sorted[words[i]] = 0;
    }
    for (int32_t i = 0; i < t->s.head.length; i++) {
        float *x = &t->scores[words[i]];

        if (t->sorted[words[i]]++ == 0)
            *x = *x < 0 ? *x * penalty : *x / penalty;
    }
    return INLAY_OK;
}

/* What would make the last words the same as some before cannot come. */
static void forbid_repeats(const struct step *t, int64_t row)
{
    const int32_t *words = row_words(&t->old, row), size = t->s.head.ngram, length = t->s.head.length;

    for (int32_t i = 0; size > 0 && i + size <= length; i++) {
        const int32_t next = words[i + size - 1];

        if (memcmp(words + i, words + length - (size - 1), (size_t)(size - 1) * sizeof *words) == 0 && next >= 0 &&
            next < t->words)
            t->scores[next] = -FLT_MAX;
    }
}

static bool has_bit(const uint32_t *bits, int32_t i)
{
    return (bits[i / 32] >> (i % 32) & 1) != 0;
}

static void apply_masks(const struct step *t, int64_t prompt)
{
    const search_head *h = &t->s.head;
    const int64_t width = search_mask_row(h);
    const uint32_t *bits = t->s.bits;
    const float presence = h->presence_penalty;

    if ((h->masks & 1) != 0) {
        for (int32_t i = 0; i < t->words; i++)
            t->scores[i] = has_bit(bits, i) ? t->scores[i] : -FLT_MAX;
        bits += width;
    }
    if ((h->masks & 2) != 0) {
        for (int32_t i = 0; i < t->words && h->length == h->prompt; i++)
            t->scores[i] = has_bit(bits + prompt * width, i) ? t->scores[i] : -FLT_MAX;
        bits += h->batch * width;
    }
    if (h->length < h->min_length && h->eos < t->words)
        t->scores[h->eos] = -FLT_MAX;
    if (h->search == SEARCH_SAMPLE && h->temperature > 0 && h->temperature != 1)
        for (int32_t i = 0; i < t->words; i++)
            t->scores[i] /= h->temperature;
    for (int32_t i = 0; (h->masks & 4) != 0 && i < t->words; i++)
        t->scores[i] -= has_bit(bits + prompt * width, i) ? presence : 0;
}

static void log_softmax(float *x, int32_t count)
{
    float most = -INFINITY;
    double sum = 0;

    for (int32_t i = 0; i < count; i++)
        most = x[i] > most ? x[i] : most;
    for (int32_t i = 0; i < count; i++)
        sum += (double)vm_exp(x[i] - most);
    most += (float)log(sum);
    for (int32_t i = 0; i < count; i++)
        x[i] -= most;
}

/* The last logits of a row, as scores. Logits are of each row, or of each prompt where the rows still agree. */
static inlay_status score(const struct step *t, int64_t row)
{
    const kit_tensor *x = &t->call->in[0];
    const int32_t beams = t->s.head.beams;
    const int64_t from = x->dims[0] == t->s.head.batch ? row / beams : row;
    inlay_status status;

    convert_to_f32(t->scores, x->dtype, x->data, ((from + 1) * x->dims[1] - 1) * x->dims[2], t->words);
    if (t->s.head.search == SEARCH_BEAM)
        log_softmax(t->scores, t->words);
    status = punish_repetition(t, row);
    if (status != INLAY_OK)
        return status;
    forbid_repeats(t, row);
    apply_masks(t, row / beams);
    return INLAY_OK;
}

static float *scores_out(const struct step *t, int64_t row)
{
    return kit_has_output(t->call, 6) ? (float *)t->call->out[6].data + row * t->words : NULL;
}

/* ------------------------------------------------------------------ beams */

static void offer(struct candidate *list, int32_t *count, int32_t most, struct candidate c)
{
    int32_t at;

    if (*count == most && !(c.score > list[most - 1].score))
        return;
    at = *count < most ? (*count)++ : most - 1;
    for (; at > 0 && c.score > list[at - 1].score; at--)
        list[at] = list[at - 1];
    list[at] = c;
}

/* The best words of all rows of a prompt, twice as many as there are rows: so many are left when each row ends. */
static inlay_status find_candidates(const struct step *t, int32_t prompt, struct candidate *list)
{
    const int32_t beams = t->s.head.beams;
    int32_t count = 0;

    for (int32_t k = 0; k < beams; k++) {
        const int32_t row = prompt * beams + k;
        const float before = t->old.score[row];
        inlay_status status = score(t, row);
        float *out = scores_out(t, row);

        if (status != INLAY_OK)
            return status;
        for (int32_t i = 0; i < t->words; i++)
            t->scores[i] += before;
        if (out != NULL)
            memcpy(out, t->scores, (size_t)t->words * sizeof *out);
        for (int32_t i = 0; i < t->words; i++)
            if (t->scores[i] == t->scores[i])
                offer(list, &count, 2 * beams, (struct candidate){ t->scores[i], row, i });
    }
    return count == 2 * beams ? INLAY_OK
                              : inlay_fail(t->call->diag, INLAY_INVALID_ARGUMENT,
                                           "only %d scores of prompt %d are numbers; %d beams need %d", (int)count,
                                           (int)prompt, (int)beams, (int)(2 * beams));
}

static void follow(struct step *t, int32_t row, struct candidate c)
{
    const search_head *h = &t->s.head;
    int32_t *words = t->s.sequence + (int64_t)row * h->max_length;

    memcpy(words, row_words(&t->old, c.row), (size_t)h->length * sizeof *words);
    words[h->length] = c.word;
    t->s.score[row] = c.score;
    ((int64_t *)t->call->out[3].data)[row] = c.row;
}

static inlay_status step_beams(struct step *t, int32_t prompt)
{
    const search_head *h = &t->s.head;
    const int32_t first = prompt * h->beams;
    struct candidate list[2 * SEARCH_MAX_BEAMS];
    inlay_status status;
    int32_t kept = 0;

    if (t->s.done[prompt] != 0) {
        float *out = scores_out(t, first);

        for (int32_t k = 0; k < h->beams; k++)
            follow(t, first + k, (struct candidate){ 0, first, h->pad });
        if (out != NULL)
            memset(out, 0, (size_t)h->beams * (size_t)t->words * sizeof *out);
        return INLAY_OK;
    }
    status = find_candidates(t, prompt, list);
    if (status != INLAY_OK)
        return status;
    for (int32_t j = 0; j < 2 * h->beams && kept < h->beams; j++) {
        if (list[j].word != h->eos)
            follow(t, first + kept++, list[j]);
        else if (j < h->beams)
            search_add_found(&t->s, prompt, row_words(&t->old, list[j].row), h->length, list[j].score);
    }
    if (t->s.found[prompt] == h->beams) /* can a row that still grows become better than the worst that has ended? */
        t->s.done[prompt] = h->early_stopping != 0 || t->s.found_score[first + h->beams - 1] >=
                                                          list[0].score / powf((float)h->length, h->length_penalty);
    return INLAY_OK;
}

/* ------------------------------------------------------------------ Sampling */

/* std::minstd_rand0, and what std::uniform_real_distribution<double> makes of two of its numbers: a seed gives the
 * words that ONNX Runtime gives. */
static double next_random(uint32_t *state)
{
    double number[2];

    for (int i = 0; i < 2; i++) {
        *state = (uint32_t)(*state * UINT64_C(16807) % 2147483647);
        number[i] = (double)(*state - 1);
    }
    return (number[0] + number[1] * 2147483646.0) / (2147483646.0 * 2147483646.0);
}

/* Is word a to stand before word b? */
static bool before(const struct step *t, int32_t a, int32_t b)
{
    const float x = t->scores[a], y = t->scores[b];

    return x == y ? a < b : t->s.head.custom != 0 ? x > y : x < y;
}

static void sift(const struct step *t, int32_t at, int32_t count)
{
    int32_t *heap = t->sorted;

    for (int32_t child; (child = 2 * at + 1) < count; at = child) {
        const int32_t moved = heap[at];

        child += child + 1 < count && before(t, heap[child], heap[child + 1]);
        if (!before(t, moved, heap[child]))
            return;
        heap[at] = heap[child];
        heap[child] = moved;
    }
}

static void sort_words(const struct step *t)
{
    for (int32_t i = 0; i < t->words; i++)
        t->sorted[i] = i;
    for (int32_t i = t->words / 2; i-- > 0;)
        sift(t, i, t->words);
    for (int32_t i = t->words; i-- > 1;) {
        const int32_t last = t->sorted[i];

        t->sorted[i] = t->sorted[0];
        t->sorted[0] = last;
        sift(t, 0, i);
    }
}

/* Words that together have at most 1 - top_p go (custom: those behind the ones that have top_p). */
static void filter(const struct step *t)
{
    const search_head *h = &t->s.head;
    const float most = t->scores[h->custom != 0 ? t->sorted[0] : t->sorted[t->words - 1]];
    double sum = 0;
    float part = 0;

    for (int32_t i = 0; i < t->words; i++)
        sum += (double)vm_exp(t->scores[i] - most);
    if (h->custom != 0) {
        for (int32_t j = 0; j + 1 < t->words; j++) {
            part += (float)((double)vm_exp(t->scores[t->sorted[j]] - most) / sum);
            if (part > h->top_p)
                t->scores[t->sorted[j + 1]] = h->filter_value;
        }
        return;
    }
    for (int32_t j = 0; j == 0 || j < t->words - h->least; j++) {
        part += (float)((double)vm_exp(t->scores[t->sorted[j]] - most) / sum);
        if (part <= 1 - h->top_p)
            t->scores[t->sorted[j]] = h->filter_value;
    }
}

static int32_t draw(const struct step *t, uint32_t *random)
{
    double most = -FLT_MAX, sum = 0, target;

    for (int32_t i = 0; i < t->words; i++)
        most = isfinite(t->scores[i]) && (double)t->scores[i] > most ? (double)t->scores[i] : most;
    for (int32_t i = 0; i < t->words; i++)
        sum += isfinite(t->scores[i]) ? exp((double)t->scores[i] - most) : 0;
    target = next_random(random) * sum;
    sum = 0;
    for (int32_t i = 0; i + 1 < t->words; i++) {
        sum += isfinite(t->scores[i]) ? exp((double)t->scores[i] - most) : 0;
        if (sum > target)
            return i;
    }
    return t->words - 1;
}

/* ------------------------------------------------------------------ one row a prompt */

static int32_t best_word(const struct step *t)
{
    int32_t best = 0;

    for (int32_t i = 1; i < t->words; i++)
        best = t->scores[i] > t->scores[best] ? i : best;
    return best;
}

static inlay_status step_word(struct step *t, int32_t prompt)
{
    search_head *h = &t->s.head;
    inlay_status status = score(t, prompt);
    float *out = scores_out(t, prompt);
    int32_t word;

    if (status != INLAY_OK)
        return status;
    if (h->search == SEARCH_SAMPLE) {
        sort_words(t);
        filter(t);
    }
    if (out != NULL)
        memcpy(out, t->scores, (size_t)t->words * sizeof *out);
    word = h->search == SEARCH_SAMPLE ? draw(t, &h->random) : best_word(t);
    t->s.done[prompt] |= word == h->eos;
    follow(t, prompt, (struct candidate){ 0, prompt, t->s.done[prompt] != 0 ? h->pad : word });
    return INLAY_OK;
}

/* ------------------------------------------------------------------ the operator */

inlay_status search_shape_step(const void *state, kit_plan *plan, inlay_diag *diag)
{
    (void)state;
    if (plan->in[0].rank != 3)
        return inlay_fail(diag, INLAY_SHAPE_MISMATCH,
                          "the decoder's logits have rank %u instead of [rows, length, words]", plan->in[0].rank);
    plan->workspace_bytes = (uint64_t)plan->in[0].dims[2] * (sizeof(float) + sizeof(int32_t));
    return INLAY_OK;
}

static inlay_status open_step(const kit_call *call, struct step *t)
{
    const kit_tensor *x = &call->in[0];
    const search_head *h = &t->old.head;
    inlay_status status = search_open(&call->in[1], &t->old, call->diag);

    if (status != INLAY_OK)
        return status;
    if (h->length >= h->max_length || x->dims[1] < 1 || x->dims[2] < 1 || x->dims[2] > INT32_MAX ||
        (x->dims[0] != search_rows(h) && x->dims[0] != h->batch) || h->words > x->dims[2])
        return inlay_fail(call->diag, INLAY_SHAPE_MISMATCH,
                          "the decoder's logits [%lld, %lld, %lld] do not fit %lld rows and %d words",
                          (long long)x->dims[0], (long long)x->dims[1], (long long)x->dims[2],
                          (long long)search_rows(h), (int)h->words);
    t->words = h->words > 0 ? h->words : (int32_t)x->dims[2];
    if (h->masks != 0 && h->mask_words != t->words)
        return inlay_fail(call->diag, INLAY_SHAPE_MISMATCH, "the masks are of %d words, the decoder's logits of %d",
                          (int)h->mask_words, (int)t->words);
    t->scores = call->workspace;
    t->sorted = (int32_t *)(t->scores + x->dims[2]);
    return INLAY_OK;
}

static inlay_status allocate(const kit_call *call, const struct step *t)
{
    const search_head *h = &t->old.head;
    const int64_t rows = search_rows(h), next = h->length + 1;
    inlay_status status = INLAY_OK;

    INLAY_TRY(kit_alloc_output(call, 0, 0, NULL));
    INLAY_TRY(kit_alloc_output(call, 1, 1, &t->old.count));
    INLAY_TRY(kit_alloc_output(call, 2, 2, (const int64_t[]){ rows, h->whole != 0 ? next : 1 }));
    INLAY_TRY(kit_alloc_output(call, 3, 1, &rows));
    if (kit_has_output(call, 4))
        INLAY_TRY(kit_alloc_output(call, 4, 2, (const int64_t[]){ rows, 1 }));
    if (kit_has_output(call, 5))
        INLAY_TRY(kit_alloc_output(call, 5, 2, (const int64_t[]){ rows, h->mask_width + next - h->prompt }));
    if (kit_has_output(call, 6))
        INLAY_TRY(kit_alloc_output(call, 6, 3, (const int64_t[]){ h->batch, h->beams, t->words }));
done:
    return status;
}

/* What the decoder reads next. */
static void write_feeds(const kit_call *call, const struct step *t)
{
    const search_head *h = &t->s.head; /* with the new word */
    const int64_t width = (int64_t)h->mask_width + h->length - h->prompt;
    int32_t *ids = call->out[2].data, *mask = kit_has_output(call, 5) ? call->out[5].data : NULL;

    for (int64_t r = 0; r < search_rows(h); r++) {
        const int32_t *words = row_words(&t->s, r);
        const int32_t count = h->whole != 0 ? h->length : 1;

        memcpy(ids + r * count, words + h->length - count, (size_t)count * sizeof *ids);
        if (kit_has_output(call, 4))
            ((int32_t *)call->out[4].data)[r] =
                (int32_t)((int64_t)t->s.place[r / h->beams] + h->length - h->prompt - 1);
        for (int64_t i = 0; mask != NULL && i < width; i++)
            *mask++ = i < h->mask_width ? t->s.mask[r / h->beams * h->mask_width + i] : 1;
    }
}

inlay_status search_run_step(const kit_call *call)
{
    struct step t = { .call = call };
    inlay_status status = open_step(call, &t);
    bool done = true;

    if (status == INLAY_OK)
        status = allocate(call, &t);
    if (status != INLAY_OK)
        return status;
    memcpy(call->out[1].data, call->in[1].data, (size_t)t.old.count * sizeof(int32_t));
    status = search_lay(&t.old.head, call->out[1].data, &t.s, call->diag);
    for (int32_t b = 0; status == INLAY_OK && b < t.s.head.batch; b++) {
        status = t.s.head.search == SEARCH_BEAM ? step_beams(&t, b) : step_word(&t, b);
        if (status == INLAY_OK)
            status = kit_poll(call);
        done = done && t.s.done[b] != 0;
    }
    if (status != INLAY_OK)
        return status;
    t.s.head.length++;
    memcpy(call->out[1].data, &t.s.head, sizeof t.s.head);
    write_feeds(call, &t);
    *(uint8_t *)call->out[0].data = !done && t.s.head.length < t.s.head.max_length;
    return INLAY_OK;
}
