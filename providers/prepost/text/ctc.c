/* ctc.c - CtcDecode: converts the scores of each step to text, greedily or with a prefix beam search. */
#include "prepost/text/lines.h"
#include "prepost/prepost.h"
#include "inlay/check.h"
#include <math.h>

static const char *const kinds[] = { "probabilities", "logarithms", "logits" };
enum { PROBABILITIES, LOGARITHMS, LOGITS };
enum { MAX_BEAM = 100, MAX_LETTERS = 40 }; /* MAX_LETTERS: each step extends prefixes by its best letters only */

typedef struct ctc_state {
    int64_t blank, beam;
    int kind;
    struct lines letters; /* last, see lines.h */
} ctc_state;

/* A prefix that was in the beam: the letters of the prefix with index `parent`, then `letter`. Prefix 0 is empty. */
struct prefix {
    int32_t parent, letter;
};

/* A prefix at a step, with the logarithms of the probabilities that it ends in a blank, or in its letter. */
struct hypothesis {
    double blank, letter;
    int32_t prefix;     /* index of the prefix; for a new candidate the index of its parent */
    int32_t new_letter; /* letter of a new candidate; -1 for a prefix that exists already */
};

static double log_add(double a, double b)
{
    const double most = a > b ? a : b, least = a > b ? b : a;

    return least == -HUGE_VAL ? most : most + log1p(exp(least - most));
}

/* The value to subtract from scores to get logarithms of probabilities. */
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

static double log_of(float score, int kind, double log_total)
{
    return kind == PROBABILITIES ? (score > 0 ? log((double)score) : -HUGE_VAL) : score - log_total;
}

/* The letter of a class. Classes follow the lines of the alphabet, which has no line for the blank. A class beyond the
 * last line is a space. */
static inlay_str letter_of(const ctc_state *state, int64_t class, int64_t blank)
{
    const int64_t i = class - (class > blank ? 1 : 0);

    INLAY_CHECK(class >= 0 && class != blank);
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

static inlay_status greedy_decode(const kit_call *call, int64_t row, const float *input, int64_t steps, int64_t classes,
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

struct search {
    struct prefix *prefixes; /* [steps * beam + 1], the first prefix_count are in use */
    int32_t prefix_count;
    struct hypothesis *beam; /* [beam] the prefixes before the step; the first beam_count are set */
    /* [beam * (MAX_LETTERS + 1)] the candidates after the step: the prefixes of `beam` in the same order, then new
     * ones */
    struct hypothesis *next;
    int64_t beam_count, next_count;
    int64_t *letters; /* [MAX_LETTERS] the best letters of the step; the first letter_count are set */
    int64_t letter_count;
};

/* Bytes of the arrays of struct search. */
static uint64_t search_bytes(int64_t steps, int64_t beam)
{
    return (uint64_t)(steps * beam + 1) * sizeof(struct prefix) +
           (uint64_t)beam * (MAX_LETTERS + 2) * sizeof(struct hypothesis) + MAX_LETTERS * sizeof(int64_t);
}

static double total(const struct hypothesis *hypothesis)
{
    return log_add(hypothesis->blank, hypothesis->letter);
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

/* The candidate of the prefix `parent` followed by a letter; NULL if that prefix is not in the beam. */
static struct hypothesis *child_of(const struct search *search, int32_t parent, int64_t letter)
{
    for (int64_t i = 0; i < search->beam_count; i++) {
        const struct prefix *own = &search->prefixes[search->beam[i].prefix];

        if (search->beam[i].prefix != 0 && own->parent == parent && own->letter == letter)
            return &search->next[i];
    }
    return NULL;
}

static void extend(struct search *search, const struct hypothesis *hypothesis, int64_t letter, double score)
{
    const struct prefix *own = &search->prefixes[hypothesis->prefix];
    /* A letter that repeats the last one is a new letter only after a blank. */
    const double sum =
        (hypothesis->prefix != 0 && own->letter == letter ? hypothesis->blank : total(hypothesis)) + score;
    struct hypothesis *child = child_of(search, hypothesis->prefix, letter);

    INLAY_CHECK(hypothesis->prefix >= 0 && hypothesis->prefix < search->prefix_count && hypothesis->new_letter < 0);
    if (child != NULL)
        child->letter = log_add(child->letter, sum);
    else if (sum > -HUGE_VAL)
        search->next[search->next_count++] = (struct hypothesis){ -HUGE_VAL, sum, hypothesis->prefix, (int32_t)letter };
}

/* Moves the best candidates into the beam, and adds the new ones among them to the prefixes. */
static void prune(struct search *search, int64_t beam)
{
    search->beam_count = 0;
    while (search->beam_count < beam && search->beam_count < search->next_count) {
        int64_t best = search->beam_count;
        struct hypothesis hypothesis;

        for (int64_t i = search->beam_count + 1; i < search->next_count; i++)
            if (total(&search->next[i]) > total(&search->next[best]))
                best = i;
        hypothesis = search->next[best];
        memmove(search->next + search->beam_count + 1, search->next + search->beam_count,
                (size_t)(best - search->beam_count) * sizeof *search->next);
        if (hypothesis.new_letter >= 0) {
            search->prefixes[search->prefix_count] = (struct prefix){ hypothesis.prefix, hypothesis.new_letter };
            hypothesis.prefix = search->prefix_count++;
            hypothesis.new_letter = -1;
        }
        search->next[search->beam_count] = hypothesis;
        search->beam[search->beam_count++] = hypothesis;
    }
}

static void step(struct search *search, const ctc_state *state, const float *input, int64_t classes, int64_t blank)
{
    const double log_total = log_sum(input, classes, state->kind);

    INLAY_CHECK(search->beam_count > 0 && search->beam_count <= state->beam);
    best_letters(search, input, classes, blank);
    for (int64_t i = 0; i < search->beam_count; i++) {
        const struct hypothesis *hypothesis = &search->beam[i];
        const int32_t letter = search->prefixes[hypothesis->prefix].letter;

        search->next[i] = *hypothesis;
        search->next[i].blank = total(hypothesis) + log_of(input[blank], state->kind, log_total);
        search->next[i].letter =
            hypothesis->prefix == 0 ? -HUGE_VAL : hypothesis->letter + log_of(input[letter], state->kind, log_total);
    }
    search->next_count = search->beam_count;
    for (int64_t i = 0; i < search->beam_count; i++)
        for (int64_t k = 0; k < search->letter_count; k++)
            extend(search, &search->beam[i], search->letters[k],
                   log_of(input[search->letters[k]], state->kind, log_total));
    INLAY_CHECK(search->next_count <= state->beam * (MAX_LETTERS + 1));
    prune(search, state->beam);
}

static inlay_status beam_decode(const kit_call *call, int64_t row, const float *input, int64_t steps, int64_t classes,
                                int64_t blank, int64_t *text, void *scratch)
{
    const ctc_state *state = call->state;
    struct search search = { .letters = scratch };
    int64_t count = 0;

    search.beam = (struct hypothesis *)(void *)(search.letters + MAX_LETTERS);
    search.next = search.beam + state->beam;
    search.prefixes = (struct prefix *)(void *)(search.next + state->beam * (MAX_LETTERS + 1));
    search.prefixes[0] = (struct prefix){ -1, -1 };
    search.prefix_count = 1;
    search.beam[0] = (struct hypothesis){ 0, -HUGE_VAL, 0, -1 };
    search.beam_count = 1;
    for (int64_t t = 0; t < steps; t++) {
        const inlay_status status = t % 16 == 0 ? kit_poll(call) : INLAY_OK;

        if (status != INLAY_OK)
            return status;
        step(&search, state, input + t * classes, classes, blank);
    }
    for (int32_t prefix = search.beam[0].prefix; prefix > 0; prefix = search.prefixes[prefix].parent) {
        INLAY_CHECK(prefix < search.prefix_count && count < steps);
        text[count++] = search.prefixes[prefix].letter;
    }
    for (int64_t i = 0; i < count / 2; i++) {
        const int64_t letter = text[i];

        text[i] = text[count - 1 - i];
        text[count - 1 - i] = letter;
    }
    if (kit_has_output(call, 1))
        ((float *)call->out[1].data)[row] = (float)exp(total(&search.beam[0]));
    return put_text(call, row, text, count, blank);
}

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
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "CtcDecode: no memory for the alphabet");
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
        return inlay_fail(diag, INLAY_SHAPE_MISMATCH,
                          "CtcDecode: scores must be [steps, classes] or [N, steps, classes]");
    if (input->dims[input->rank - 1] < 1 || s->blank >= input->dims[input->rank - 1] ||
        input->dims[input->rank - 1] + s->blank < 0 || input->dims[input->rank - 1] > INT32_MAX ||
        input->dims[input->rank - 2] > INT32_MAX / MAX_BEAM)
        return inlay_fail(diag, INLAY_SHAPE_MISMATCH, "CtcDecode: blank is %lld, but there are %lld classes",
                          (long long)s->blank, (long long)input->dims[input->rank - 1]);
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
        if (kit_has_output(call, i))
            INLAY_TRY(prepost_output(call, i, 1, &rows));
    if (!kit_has_output(call, 0))
        return inlay_fail(call->diag, INLAY_UNSUPPORTED, "CtcDecode: output text is required");
    for (int64_t r = 0; r < rows && status == INLAY_OK; r++) {
        const float *row = (const float *)input->data + r * steps * classes;

        status = state->beam > 1 ? beam_decode(call, r, row, steps, classes, blank, text, text + steps)
                                 : greedy_decode(call, r, row, steps, classes, blank, text);
    }
done:
    return status;
}

static const int64_t step_dims[] = { 5, 3 }, thin_dims[] = { 2, 2 }, one_dims[] = { 1 };
static const float steps_in[] = { 0.1f,  0.8f, 0.1f, 0.2f, 0.75f, 0.05f, 0.9f, 0.05f,
                                  0.05f, 0.1f, 0.7f, 0.2f, 0.1f,  0.1f,  0.8f };
/* The blank is the best class of both steps, but "a" in one step or both is more probable than two blanks. */
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
    PREPOST_EXAMPLE("repeats are one letter, a blank separates letters", ab, step_view, aab_view, 1e-6),
    PREPOST_EXAMPLE("a beam adds the probabilities of equal texts", ab_beam, thin_view, a_view, 1e-6),
};

const prepost_operator prepost_ctc_decode = {
    .op_type = "CtcDecode",
    .signature = "scores:F -> text:S, confidence?:F; F=float, S=string; alphabet:s!, blank:i=0, beam:i=1, "
                 "scores:s='probabilities'",
    .doc =
        "Connectionist temporal classification: decodes scores [N, steps, classes] or [steps, classes] to text. "
        "alphabet has one letter a line, without the blank, whose class is `blank` (-1: the last class); a class after "
        "the last letter is the space. beam 1 takes the best class of each step, and confidence is the mean of the "
        "scores of its letters; a larger beam keeps that number of prefixes, and confidence is the probability of the "
        "text. scores are probabilities, logarithms or logits.",
    .infer = infer,
    PREPOST_EXAMPLES(examples),
    .kernel = { .supports = supports, .cost = cost, .prepare = prepare, .shape = shape, .run = run },
};
