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
static inlay_str letter_of(const ctc_state *s, int64_t class, int64_t blank)
{
    const int64_t i = class - (class > blank ? 1 : 0);

    return i < s->letters.count ? s->letters.list[i] : (inlay_str){ " ", 1 };
}

static inlay_status put_text(const kit_call *call, int64_t row, const int64_t *classes, int64_t count, int64_t blank)
{
    const ctc_state *s = call->state;
    uint64_t bytes = 0;
    char *text;

    for (int64_t i = 0; i < count; i++)
        bytes += letter_of(s, classes[i], blank).bytes;
    text = kit_alloc_string(call, bytes > 0 ? bytes : 1);
    if (text == NULL)
        return inlay_fail(call->diag, INLAY_OUT_OF_MEMORY, "CtcDecode: no memory for a text");
    ((inlay_str *)call->out[0].data)[row] = (inlay_str){ text, bytes };
    for (int64_t i = 0; i < count; i++) {
        const inlay_str l = letter_of(s, classes[i], blank);

        memcpy(text, l.data, l.bytes);
        text += l.bytes;
    }
    return INLAY_OK;
}

/* ------------------------------------------------------------------ the best letter of each step */

static inlay_status greedy(const kit_call *call, int64_t row, const float *x, int64_t steps, int64_t classes,
                           int64_t blank, int64_t *text)
{
    const ctc_state *s = call->state;
    int64_t before = blank, count = 0;
    double sum = 0;

    for (int64_t t = 0; t < steps; t++, x += classes) {
        int64_t best = 0;

        for (int64_t i = 1; i < classes; i++)
            if (x[i] > x[best])
                best = i;
        if (best != blank && best != before) {
            sum += exp(log_of(x[best], s->kind, log_sum(x, classes, s->kind)));
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

static double total(const struct place *p)
{
    return log_add(p->blank, p->letter);
}

static void best_letters(struct search *h, const float *x, int64_t classes, int64_t blank)
{
    h->letter_count = 0;
    for (int64_t i = 0; i < classes; i++) {
        int64_t at = h->letter_count;

        if (i == blank)
            continue;
        while (at > 0 && x[i] > x[h->letters[at - 1]])
            at--;
        if (at >= MAX_LETTERS)
            continue;
        h->letter_count += h->letter_count < MAX_LETTERS;
        memmove(h->letters + at + 1, h->letters + at, (size_t)(h->letter_count - at - 1) * sizeof *h->letters);
        h->letters[at] = i;
    }
}

/* The place of the prefix that is p and a letter; NULL: it is not in the beam. */
static struct place *child_of(const struct search *h, int32_t p, int64_t letter)
{
    for (int64_t i = 0; i < h->place_count; i++) {
        const struct prefix *own = &h->prefixes[h->places[i].at];

        if (h->places[i].at != 0 && own->parent == p && own->letter == letter)
            return &h->next[i]; /* the first of next are the places themselves, a step later */
    }
    return NULL;
}

static void extend(struct search *h, const struct place *p, int64_t letter, double score)
{
    const struct prefix *own = &h->prefixes[p->at];
    const double sum = (p->at != 0 && own->letter == letter ? p->blank : total(p)) + score;
    struct place *child = child_of(h, p->at, letter);

    if (child != NULL)
        child->letter = log_add(child->letter, sum);
    else if (sum > -HUGE_VAL)
        h->next[h->next_count++] = (struct place){ -HUGE_VAL, sum, p->at, (int32_t)letter };
}

/* The best places become the beam, and those that are new prefixes of their own. */
static void keep_best(struct search *h, int64_t beam)
{
    h->place_count = 0;
    while (h->place_count < beam && h->place_count < h->next_count) {
        int64_t best = h->place_count;
        struct place p;

        for (int64_t i = h->place_count + 1; i < h->next_count; i++)
            if (total(&h->next[i]) > total(&h->next[best]))
                best = i;
        p = h->next[best];
        memmove(h->next + h->place_count + 1, h->next + h->place_count,
                (size_t)(best - h->place_count) * sizeof *h->next);
        if (p.extra >= 0) {
            h->prefixes[h->prefix_count] = (struct prefix){ p.at, p.extra };
            p.at = h->prefix_count++;
            p.extra = -1;
        }
        h->next[h->place_count] = p;
        h->places[h->place_count++] = p;
    }
}

static void step(struct search *h, const ctc_state *s, const float *x, int64_t classes, int64_t blank)
{
    const double less = log_sum(x, classes, s->kind);

    best_letters(h, x, classes, blank);
    for (int64_t i = 0; i < h->place_count; i++) {
        const struct place *p = &h->places[i];
        const int32_t letter = h->prefixes[p->at].letter;

        h->next[i] = *p;
        h->next[i].blank = total(p) + log_of(x[blank], s->kind, less);
        h->next[i].letter = p->at == 0 ? -HUGE_VAL : p->letter + log_of(x[letter], s->kind, less);
    }
    h->next_count = h->place_count;
    for (int64_t i = 0; i < h->place_count; i++)
        for (int64_t k = 0; k < h->letter_count; k++)
            extend(h, &h->places[i], h->letters[k], log_of(x[h->letters[k]], s->kind, less));
    keep_best(h, s->beam);
}

static inlay_status beamed(const kit_call *call, int64_t row, const float *x, int64_t steps, int64_t classes,
                           int64_t blank, int64_t *text, void *scratch)
{
    const ctc_state *s = call->state;
    struct search h = { .letters = scratch };
    int64_t count = 0;

    h.places = (struct place *)(void *)(h.letters + MAX_LETTERS);
    h.next = h.places + s->beam;
    h.prefixes = (struct prefix *)(void *)(h.next + s->beam * (MAX_LETTERS + 1));
    h.prefixes[0] = (struct prefix){ -1, -1 };
    h.prefix_count = 1;
    h.places[0] = (struct place){ 0, -HUGE_VAL, 0, -1 };
    h.place_count = 1;
    for (int64_t t = 0; t < steps; t++) {
        const inlay_status status = t % 16 == 0 ? kit_poll(call) : INLAY_OK;

        if (status != INLAY_OK)
            return status;
        step(&h, s, x + t * classes, classes, blank);
    }
    for (int32_t p = h.places[0].at; p > 0; p = h.prefixes[p].parent)
        text[count++] = h.prefixes[p].letter;
    for (int64_t i = 0; i < count / 2; i++) {
        const int64_t letter = text[i];

        text[i] = text[count - 1 - i];
        text[count - 1 - i] = letter;
    }
    if (kit_has_output(call, 1))
        ((float *)call->out[1].data)[row] = (float)exp(total(&h.places[0]));
    return put_text(call, row, text, count, blank);
}

/* ------------------------------------------------------------------ the operator */

static inlay_status infer(void *ctx, inlay_infer *in, inlay_diag *diag)
{
    const inlay_value_info *x = in->inputs[0];
    inlay_dim dims[1] = { pp_fixed(1) };
    inlay_status status = pp_want_rank(in, 0, 2, 3, "[steps, classes] or [N, steps, classes]", diag);

    (void)ctx;
    if (status != INLAY_OK)
        return status;
    if (!pp_knows_rank(x))
        dims[0] = pp_open();
    else if (x->rank == 3)
        dims[0] = x->dims[0];
    status = pp_set(in, 0, 1, dims);
    return status != INLAY_OK ? status : pp_set(in, 1, 1, dims);
}

static bool supports(const kit_node *node, kit_refusal *why)
{
    const int64_t beam = kit_attr_int(node->info, "beam", 1);

    if (beam < 1 || beam > MAX_BEAM)
        return kit_refuse(why, INLAY_REFUSE_ATTRIBUTE, "use 1 to 100", "beam is %lld", (long long)beam);
    return pp_one_of(node, "scores", "probabilities", kinds, KIT_COUNT(kinds), why);
}

static inlay_status prepare(const kit_node *node, void **out_state, inlay_diag *diag)
{
    struct lines *l = lines_create(node->info, "alphabet", offsetof(ctc_state, letters));
    ctc_state *s;

    if (l == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "CtcDecode");
    s = (ctc_state *)(void *)((char *)l - offsetof(ctc_state, letters));
    s->blank = kit_attr_int(node->info, "blank", 0);
    s->beam = kit_attr_int(node->info, "beam", 1);
    s->kind = pp_word(kit_attr_string(node->info, "scores", "probabilities"), kinds, KIT_COUNT(kinds));
    *out_state = s;
    return INLAY_OK;
}

static void cost(const kit_node *node, const kit_plan *shapes, inlay_cost *cost)
{
    const int64_t count = shapes->in[0].count, beam = kit_attr_int(node->info, "beam", 1);
    const double elements = count >= 0 ? (double)count : 1e5;

    pp_cost(cost, count >= 0, 500 + elements * (beam > 1 ? 1.5 + (double)(beam * beam) * 0.01 : 1));
}

static inlay_status shape(const void *state, kit_plan *plan, inlay_diag *diag)
{
    const ctc_state *s = state;
    const kit_tensor *x = &plan->in[0];

    if (x->count < 0 || (x->rank != 2 && x->rank != 3))
        return inlay_fail(diag, INLAY_SHAPE_MISMATCH, "CtcDecode: scores are [steps, classes] or [N, steps, classes]");
    if (x->dims[x->rank - 1] < 1 || s->blank >= x->dims[x->rank - 1] || x->dims[x->rank - 1] + s->blank < 0 ||
        x->dims[x->rank - 1] > INT32_MAX || x->dims[x->rank - 2] > INT32_MAX / MAX_BEAM)
        return inlay_fail(diag, INLAY_SHAPE_MISMATCH, "CtcDecode: blank is %lld, of %lld classes", (long long)s->blank,
                          (long long)x->dims[x->rank - 1]);
    plan->workspace_bytes = (uint64_t)x->dims[x->rank - 2] * sizeof(int64_t) +
                            (s->beam > 1 ? search_bytes(x->dims[x->rank - 2], s->beam) : 0);
    for (uint32_t i = 0; i < plan->out_count; i++)
        plan->allocates |= plan->out[i].count < 0 ? 1u << i : 0;
    return INLAY_OK;
}

static inlay_status run(const kit_call *call)
{
    const ctc_state *s = call->state;
    const kit_tensor *x = &call->in[0];
    const int64_t classes = x->dims[x->rank - 1], steps = x->dims[x->rank - 2];
    const int64_t rows = x->rank == 3 ? x->dims[0] : 1, blank = s->blank < 0 ? s->blank + classes : s->blank;
    int64_t *text = call->workspace;
    inlay_status status = INLAY_OK;

    for (uint32_t i = 0; i < 2; i++)
        if (kit_has_output(call, i) && call->out[i].data == NULL)
            INLAY_TRY(kit_alloc_output(call, i, 1, &rows));
    if (!kit_has_output(call, 0))
        return inlay_fail(call->diag, INLAY_UNSUPPORTED, "CtcDecode: the text is left out");
    for (int64_t r = 0; r < rows && status == INLAY_OK; r++) {
        const float *row = (const float *)x->data + r * steps * classes;

        status = s->beam > 1 ? beamed(call, r, row, steps, classes, blank, text, text + steps)
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
static const inlay_str aab[] = { PP_STR("aab") }, just_a[] = { PP_STR("a") };
static const float aab_sure[] = { (0.8f + 0.7f + 0.8f) / 3 }, a_sure[] = { 0.64f };
static const inlay_tensor_view step_view[] = { PP_VIEW(steps_in, step_dims, INLAY_FLOAT) };
static const inlay_tensor_view thin_view[] = { PP_VIEW(thin_in, thin_dims, INLAY_FLOAT) };
static const inlay_tensor_view aab_view[] = { PP_VIEW(aab, one_dims, INLAY_STRING),
                                              PP_VIEW(aab_sure, one_dims, INLAY_FLOAT) };
static const inlay_tensor_view a_view[] = { PP_VIEW(just_a, one_dims, INLAY_STRING),
                                            PP_VIEW(a_sure, one_dims, INLAY_FLOAT) };
static const inlay_attr_info ab[] = { PP_ATTR_STRING("alphabet", "a\nb") };
static const inlay_attr_info ab_beam[] = { PP_ATTR_STRING("alphabet", "a"), PP_ATTR_INT("beam", 4) };
static const inlay_op_example examples[] = {
    PP_EXAMPLE("repeats are one letter, a blank divides", ab, step_view, aab_view, 1e-6),
    PP_EXAMPLE("a beam adds up what leads to the same text", ab_beam, thin_view, a_view, 1e-6),
};

const pp_operator pp_ctc_decode = {
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
    PP_EXAMPLES(examples),
    .kernel = { .supports = supports, .cost = cost, .prepare = prepare, .shape = shape, .run = run },
};
