/* ctc.c - CtcDecode: from scores of each step to text, by the best letters or by a beam of prefixes. */
#include "lines.h"
#include "prepost.h"
#include <math.h>
#include <stdlib.h>

static const char *const kinds[] = { "probabilities", "logarithms", "logits" };
enum { PROBABILITIES, LOGARITHMS, LOGITS };
enum { MAX_BEAM = 100, MAX_LETTERS = 40 }; /* letters of a step that prefixes are extended by */

typedef struct ctc_state {
    int64_t blank, beam;
    int kind;
    struct lines letters; /* last, see lines.h */
} ctc_state;

/* A prefix that some beam had: a letter behind another prefix; 0 is the empty one. */
struct prefix {
    int32_t parent, letter;
};

/* A prefix at a step: the logarithms of the probabilities that a blank, or its letter, came last. */
struct place {
    double blank, letter;
    int32_t at;    /* its prefix; of a candidate that is new: its parent ... */
    int32_t extra; /* ... and its letter; -1: it is a prefix already */
};

/* ------------------------------------------------------------------ scores */

static double log_add(double a, double b)
{
    const double most = a > b ? a : b, least = a > b ? b : a;

    return least == -HUGE_VAL ? most : most + log1p(exp(least - most));
}

/* What is taken off scores to make logarithms of them. */
static double log_sum(const float *row, int64_t classes, int kind)
{
    double most = -HUGE_VAL, sum = 0;

    if (kind != LOGITS)
        return 0;
    for (int64_t i = 0; i < classes; i++)
        most = row[i] > most ? row[i] : most;
    for (int64_t i = 0; i < classes; i++)
        sum += exp(row[i] - most);
    return most + log(sum);
}

static double log_of(float v, int kind, double less)
{
    return kind == PROBABILITIES ? (v > 0 ? log((double)v) : -HUGE_VAL) : v - less;
}

/* ------------------------------------------------------------------ text */

/* The letter of a class: those of the alphabet without the blank; a class behind the last is the space. */
static inlay_str letter_of(const ctc_state *state, int64_t class, int64_t blank)
{
    const int64_t i = class - (class > blank ? 1 : 0);

    return i < state->letters.count ? state->letters.list[i] : (inlay_str){ " ", 1 };
}

static inlay_status put_text(const kit_call *call, int64_t row, const int64_t *classes, int64_t count, int64_t blank)
{
    const ctc_state *state = call->state;
    uint64_t bytes = 0;
    char *text;

    for (int64_t i = 0; i < count; i++)
        bytes += letter_of(state, classes[i], blank).bytes;
    text = kit_alloc_string(call, bytes > 0 ? bytes : 1);
    if (text == NULL)
        return inlay_fail(call->diag, INLAY_OUT_OF_MEMORY, "CtcDecode: no memory for a text");
    ((inlay_str *)call->out[0].data)[row] = (inlay_str){ text, bytes };
    for (int64_t i = 0; i < count; i++) {
        const inlay_str string = letter_of(state, classes[i], blank);

        memcpy(text, string.data, string.bytes);
        text += string.bytes;
    }
    return INLAY_OK;
}

/* ------------------------------------------------------------------ the best letter of each step */

static inlay_status greedy(const kit_call *call, int64_t row, const float *input, int64_t steps, int64_t classes,
                           int64_t blank, int64_t *text)
{
    const ctc_state *state = call->state;
    int64_t before = blank, count = 0;
    double sum = 0;

    for (int64_t t = 0; t < steps; t++, input += classes) {
        int64_t best = 0;

        for (int64_t i = 1; i < classes; i++)
            if (input[i] > input[best])
                best = i;
        if (best != blank && best != before) {
            sum += exp(log_of(input[best], state->kind, log_sum(input, classes, state->kind)));
            text[count++] = best;
        }
        before = best;
    }
    if (kit_has_output(call, 1))
        ((float *)call->out[1].data)[row] = count > 0 ? (float)(sum / (double)count) : 0;
    return put_text(call, row, text, count, blank);
}

/* ------------------------------------------------------------------ a beam */

struct search {
    struct prefix *prefixes;
    int32_t prefix_count;
    struct place *places, *next; /* [beam], [beam * (letters + 1)] */
    int64_t place_count, next_count;
    int64_t *letters; /* [MAX_LETTERS] the best of a step */
    int64_t letter_count;
};

static uint64_t search_bytes(int64_t steps, int64_t beam)
{
    return (uint64_t)(steps * beam + 1) * sizeof(struct prefix) +
           (uint64_t)beam * (MAX_LETTERS + 2) * sizeof(struct place) + MAX_LETTERS * sizeof(int64_t);
}

static double total(const struct place *place)
{
    return log_add(place->blank, place->letter);
}

static void best_letters(struct search *search, const float *input, int64_t classes, int64_t blank)
{
    search->letter_count = 0;
    for (int64_t i = 0; i < classes; i++) {
        int64_t at = search->letter_count;

        if (i == blank)
            continue;
        while (at > 0 && input[i] > input[search->letters[at - 1]])
            at--;
        if (at >= MAX_LETTERS)
            continue;
        search->letter_count += search->letter_count < MAX_LETTERS;
        memmove(search->letters + at + 1, search->letters + at,
                (size_t)(search->letter_count - at - 1) * sizeof *search->letters);
        search->letters[at] = i;
    }
}

/* The place of the prefix that is p and a letter; NULL: it is not in the beam. */
static struct place *child_of(const struct search *search, int32_t p, int64_t letter)
{
    for (int64_t i = 0; i < search->place_count; i++) {
        const struct prefix *own = &search->prefixes[search->places[i].at];

        if (search->places[i].at != 0 && own->parent == p && own->letter == letter)
            return &search->next[i]; /* the first of next are the places themselves, a step later */
    }
    return NULL;
}

static void extend(struct search *search, const struct place *place, int64_t letter, double score)
{
    const struct prefix *own = &search->prefixes[place->at];
    const double sum = (place->at != 0 && own->letter == letter ? place->blank : total(place)) + score;
    struct place *child = child_of(search, place->at, letter);

    if (child != NULL)
        child->letter = log_add(child->letter, sum);
    else if (sum > -HUGE_VAL)
        search->next[search->next_count++] = (struct place){ -HUGE_VAL, sum, place->at, (int32_t)letter };
}

/* The best places become the beam, and those that are new prefixes of their own. */
static void keep_best(struct search *search, int64_t beam)
{
    search->place_count = 0;
    while (search->place_count < beam && search->place_count < search->next_count) {
        int64_t best = search->place_count;
        struct place place;

        for (int64_t i = search->place_count + 1; i < search->next_count; i++)
            if (total(&search->next[i]) > total(&search->next[best]))
                best = i;
        place = search->next[best];
        memmove(search->next + search->place_count + 1, search->next + search->place_count,
                (size_t)(best - search->place_count) * sizeof *search->next);
        if (place.extra >= 0) {
            search->prefixes[search->prefix_count] = (struct prefix){ place.at, place.extra };
            place.at = search->prefix_count++;
            place.extra = -1;
        }
        search->next[search->place_count] = place;
        search->places[search->place_count++] = place;
    }
}

static void step(struct search *search, const ctc_state *state, const float *input, int64_t classes, int64_t blank)
{
    const double less = log_sum(input, classes, state->kind);

    best_letters(search, input, classes, blank);
    for (int64_t i = 0; i < search->place_count; i++) {
        const struct place *place = &search->places[i];
        const int32_t letter = search->prefixes[place->at].letter;

        search->next[i] = *place;
        search->next[i].blank = total(place) + log_of(input[blank], state->kind, less);
        search->next[i].letter = place->at == 0 ? -HUGE_VAL : place->letter + log_of(input[letter], state->kind, less);
    }
    search->next_count = search->place_count;
    for (int64_t i = 0; i < search->place_count; i++)
        for (int64_t k = 0; k < search->letter_count; k++)
            extend(search, &search->places[i], search->letters[k],
                   log_of(input[search->letters[k]], state->kind, less));
    keep_best(search, state->beam);
}

static inlay_status beamed(const kit_call *call, int64_t row, const float *input, int64_t steps, int64_t classes,
                           int64_t blank, int64_t *text, void *scratch)
{
    const ctc_state *state = call->state;
    struct search search = { .letters = scratch };
    int64_t count = 0;

    search.places = (struct place *)(void *)(search.letters + MAX_LETTERS);
    search.next = search.places + state->beam;
    search.prefixes = (struct prefix *)(void *)(search.next + state->beam * (MAX_LETTERS + 1));
    search.prefixes[0] = (struct prefix){ -1, -1 };
    search.prefix_count = 1;
    search.places[0] = (struct place){ 0, -HUGE_VAL, 0, -1 };
    search.place_count = 1;
    for (int64_t t = 0; t < steps; t++) {
        const inlay_status status = t % 16 == 0 ? kit_poll(call) : INLAY_OK;

        if (status != INLAY_OK)
            return status;
        step(&search, state, input + t * classes, classes, blank);
    }
    for (int32_t prefix = search.places[0].at; prefix > 0; prefix = search.prefixes[prefix].parent)
        text[count++] = search.prefixes[prefix].letter;
    for (int64_t i = 0; i < count / 2; i++) {
        const int64_t letter = text[i];

        text[i] = text[count - 1 - i];
        text[count - 1 - i] = letter;
    }
    if (kit_has_output(call, 1))
        ((float *)call->out[1].data)[row] = (float)exp(total(&search.places[0]));
    return put_text(call, row, text, count, blank);
}

/* ------------------------------------------------------------------ the operator */

static inlay_status infer(void *ctx, inlay_infer *in, inlay_diag *diag)
{
    const inlay_value_info *input = in->inputs[0];
    inlay_dim dims[1] = { prepost_fixed(1) };
    inlay_status status = prepost_want_rank(in, 0, 2, 3, "[steps, classes] or [N, steps, classes]", diag);

    (void)ctx;
    if (status != INLAY_OK)
        return status;
    if (!prepost_knows_rank(input))
        dims[0] = prepost_open();
    else if (input->rank == 3)
        dims[0] = input->dims[0];
    status = prepost_set(in, 0, 1, dims);
    return status != INLAY_OK ? status : prepost_set(in, 1, 1, dims);
}

static bool supports(const kit_node *node, kit_refusal *why)
{
    const int64_t beam = kit_attr_int(node->info, "beam", 1);

    if (beam < 1 || beam > MAX_BEAM)
        return kit_refuse(why, INLAY_REFUSE_ATTRIBUTE, "use 1 to 100", "beam is %lld", (long long)beam);
    return prepost_one_of(node, "scores", "probabilities", kinds, KIT_COUNT(kinds), why);
}

static inlay_status prepare(const kit_node *node, void **out_state, inlay_diag *diag)
{
    struct lines *lines = lines_create(node->info, "alphabet", offsetof(ctc_state, letters));
    ctc_state *state;

    if (lines == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "CtcDecode");
    state = (ctc_state *)(void *)((char *)lines - offsetof(ctc_state, letters));
    state->blank = kit_attr_int(node->info, "blank", 0);
    state->beam = kit_attr_int(node->info, "beam", 1);
    state->kind = prepost_word(kit_attr_string(node->info, "scores", "probabilities"), kinds, KIT_COUNT(kinds));
    *out_state = state;
    return INLAY_OK;
}

static void cost(const kit_node *node, const kit_plan *shapes, inlay_cost *cost)
{
    const int64_t count = shapes->in[0].count, beam = kit_attr_int(node->info, "beam", 1);
    const double elements = count >= 0 ? (double)count : 1e5;

    prepost_cost(cost, count >= 0, 500 + elements * (beam > 1 ? 1.5 + (double)(beam * beam) * 0.01 : 1));
}

static inlay_status shape(const void *state, kit_plan *plan, inlay_diag *diag)
{
    const ctc_state *s = state;
    const kit_tensor *input = &plan->in[0];

    if (input->count < 0 || (input->rank != 2 && input->rank != 3))
        return inlay_fail(diag, INLAY_SHAPE_MISMATCH, "CtcDecode: scores are [steps, classes] or [N, steps, classes]");
    if (input->dims[input->rank - 1] < 1 || s->blank >= input->dims[input->rank - 1] ||
        input->dims[input->rank - 1] + s->blank < 0 || input->dims[input->rank - 1] > INT32_MAX ||
        input->dims[input->rank - 2] > INT32_MAX / MAX_BEAM)
        return inlay_fail(diag, INLAY_SHAPE_MISMATCH, "CtcDecode: blank is %lld, of %lld classes", (long long)s->blank,
                          (long long)input->dims[input->rank - 1]);
    plan->workspace_bytes = (uint64_t)input->dims[input->rank - 2] * sizeof(int64_t) +
                            (s->beam > 1 ? search_bytes(input->dims[input->rank - 2], s->beam) : 0);
    for (uint32_t i = 0; i < plan->out_count; i++)
        plan->allocates |= plan->out[i].count < 0 ? 1u << i : 0;
    return INLAY_OK;
}

static inlay_status run(const kit_call *call)
{
    const ctc_state *state = call->state;
    const kit_tensor *input = &call->in[0];
    const int64_t classes = input->dims[input->rank - 1], steps = input->dims[input->rank - 2];
    const int64_t rows = input->rank == 3 ? input->dims[0] : 1,
                  blank = state->blank < 0 ? state->blank + classes : state->blank;
    int64_t *text = call->workspace;
    inlay_status status = INLAY_OK;

    for (uint32_t i = 0; i < 2; i++)
        if (kit_has_output(call, i) && call->out[i].data == NULL)
            INLAY_TRY(kit_alloc_output(call, i, 1, &rows));
    if (!kit_has_output(call, 0))
        return inlay_fail(call->diag, INLAY_UNSUPPORTED, "CtcDecode: the text is left out");
    for (int64_t r = 0; r < rows && status == INLAY_OK; r++) {
        const float *row = (const float *)input->data + r * steps * classes;

        status = state->beam > 1 ? beamed(call, r, row, steps, classes, blank, text, text + steps)
                                 : greedy(call, r, row, steps, classes, blank, text);
    }
done:
    return status;
}

static const int64_t step_dims[] = { 5, 3 }, thin_dims[] = { 2, 2 }, one_dims[] = { 1 };
static const float steps_in[] = { 0.1f,  0.8f, 0.1f, 0.2f, 0.75f, 0.05f, 0.9f, 0.05f,
                                  0.05f, 0.1f, 0.7f, 0.2f, 0.1f,  0.1f,  0.8f };
/* The blank is the best of both steps, but "a" in one of them or both is likelier than neither. */
static const float thin_in[] = { 0.6f, 0.4f, 0.6f, 0.4f };
static const inlay_str aab[] = { PREPOST_STR("aab") }, just_a[] = { PREPOST_STR("a") };
static const float aab_sure[] = { (0.8f + 0.7f + 0.8f) / 3 }, a_sure[] = { 0.64f };
static const inlay_tensor_view step_view[] = { PREPOST_VIEW(steps_in, step_dims, INLAY_FLOAT) };
static const inlay_tensor_view thin_view[] = { PREPOST_VIEW(thin_in, thin_dims, INLAY_FLOAT) };
static const inlay_tensor_view aab_view[] = { PREPOST_VIEW(aab, one_dims, INLAY_STRING),
                                              PREPOST_VIEW(aab_sure, one_dims, INLAY_FLOAT) };
static const inlay_tensor_view a_view[] = { PREPOST_VIEW(just_a, one_dims, INLAY_STRING),
                                            PREPOST_VIEW(a_sure, one_dims, INLAY_FLOAT) };
static const inlay_attr_info ab[] = { PREPOST_ATTR_STRING("alphabet", "a\nb") };
static const inlay_attr_info ab_beam[] = { PREPOST_ATTR_STRING("alphabet", "a"), PREPOST_ATTR_INT("beam", 4) };
static const inlay_op_example examples[] = {
    PREPOST_EXAMPLE("repeats are one letter, a blank divides", ab, step_view, aab_view, 1e-6),
    PREPOST_EXAMPLE("a beam adds up what leads to the same text", ab_beam, thin_view, a_view, 1e-6),
};

const prepost_operator prepost_ctc_decode = {
    .op_type = "CtcDecode",
    .signature = "scores:F -> text:S, confidence?:F; F=float, S=string; alphabet:s!, blank:i=0, beam:i=1, "
                 "scores:s='probabilities'",
    .doc =
        "Connectionist temporal classification: the text of scores [N, steps, classes] or [steps, classes]. alphabet "
        "has a letter each line, without the blank, whose class is `blank` (-1: the last); a class behind the last "
        "letter is the space. beam 1 takes the best class of each step, and confidence is the mean of its letters; "
        "more keeps so many prefixes, and confidence is the probability of the text. scores are probabilities, "
        "logarithms or logits.",
    .infer = infer,
    PREPOST_EXAMPLES(examples),
    .kernel = { .supports = supports, .cost = cost, .prepare = prepare, .shape = shape, .run = run },
};
