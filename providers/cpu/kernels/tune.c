/* Extension inlay.kernels/1: which kernels an instance runs by, and timing them where they run.
 *
 * A region is built once for each place in the order of preference: with the kernels that the model likes best, then
 * with the second best of each layer that has one, and so on. What the steps of a layer take is what its kernel takes
 * there: with the caches as its neighbours leave them, and with the copies that it asks for. The choice that comes of
 * it is then run against the model's; where it is not faster as a whole, only figures that agree with the model are
 * kept. */
#include "convolution/tiles.h"
#include "simd/clock.h"
#include <string.h>

/* A layer with a kernel. */
struct timed {
    kernel_key_words key;
    double ns; /* sum over all layers of that key */
    uint32_t count;
    bool kept;
    const char *name;
};

struct trial {
    const cpu_state *state;
    inlay_compiled *compiled;
    const inlay_kernel_trial *how;
    struct timed *list; /* owned */
    uint32_t count, capacity;
    double begin_ns;
    inlay_diag *diag;
};

enum { LEAST_RUNS = 3, MOST_RUNS = 25 };
static const double WORTH = 0.995; /* of the model's choice: what is not faster is not kept */

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return x < y ? -1 : x > y;
}

/* ------------------------------------------------------------------ runs */

/* An instance, its workspace, and what its steps took in each run. */
typedef struct
try {
    inlay_instance *instance;
    void *workspace;
    double *ns; /* [MOST_RUNS][step_count] */
    uint32_t runs;
}
try;

static void try_end(struct try *t)
{
    cpu_instance_destroy(t->instance);
    free(t->workspace);
    free(t->ns);
    *t = (struct try){ 0 };
}

/* Weights that only kernels on trial read. */
static void drop_packs(const struct trial *t)
{
    (void)pthread_mutex_lock(&t->compiled->lock);
    for (uint32_t i = 0; i < t->compiled->constant_count; i++)
        cpu_constant_drop_trials(&t->compiled->constants[i]);
    (void)pthread_mutex_unlock(&t->compiled->lock);
}

static inlay_status try_begin(struct trial *t, const kernel_attempt *attempt, struct try *out)
{
    const inlay_specialize_request *r = t->how->shapes;
    inlay_status status;

    *out = (struct try){ 0 };
    (void)pthread_mutex_lock(&t->compiled->lock);
    t->compiled->trying = true;
    status = cpu_instance_build(t->compiled, r->values, r->value_stride, r->value_count,
                                INLAY_HAS(r, rooms) ? r->rooms : NULL, r->max_threads > 0 ? r->max_threads : 1, attempt,
                                &out->instance, t->diag);
    t->compiled->trying = false;
    (void)pthread_mutex_unlock(&t->compiled->lock);
    if (status != INLAY_OK) {
        out->instance = NULL;
        return status;
    }
    out->ns = calloc((size_t)MOST_RUNS * (out->instance->step_count + 1u), sizeof *out->ns);
    if (out->ns == NULL || posix_memalign(&out->workspace, 64, out->instance->workspace_bytes + 64) != 0) {
        out->workspace = NULL;
        try_end(out);
        return inlay_fail(t->diag, INLAY_OUT_OF_MEMORY, "no memory to time kernels");
    }
    return INLAY_OK;
}

/* One more run; the first of an instance does not count. */
static inlay_status try_run(struct trial *t, struct try *x)
{
    inlay_exec_args args = *t->how->args;
    inlay_status status = INLAY_OK;

    args.workspace = (inlay_buffer){ .handle = (uintptr_t)x->workspace, .bytes = x->instance->workspace_bytes };
    args.diag = t->diag;
    if (x->runs == 0)
        status = cpu_execute_timed(t->state, t->compiled, x->instance, &args, x->ns);
    if (status == INLAY_OK && t->how->poll != NULL)
        status = t->how->poll(t->how->ctx);
    if (status == INLAY_OK)
        status = cpu_execute_timed(t->state, t->compiled, x->instance, &args,
                                   x->ns + (size_t)x->runs * x->instance->step_count);
    x->runs += status == INLAY_OK;
    return status;
}

/* What the steps of an op take in a run, INLAY_NONE: all steps; the lower quartile. */
static double try_ns(const struct try *x, uint32_t op)
{
    double sums[MOST_RUNS];

    for (uint32_t r = 0; r < x->runs; r++) {
        sums[r] = 0;
        for (uint32_t s = 0; s < x->instance->step_count; s++)
            sums[r] +=
                op == INLAY_NONE || x->instance->steps[s].op == op ? x->ns[(size_t)r * x->instance->step_count + s] : 0;
    }
    qsort(sums, x->runs, sizeof *sums, by_size);
    return sums[x->runs / 4];
}

/* ------------------------------------------------------------------ figures */

static struct timed *find(struct trial *t, const uint64_t key[2])
{
    for (uint32_t i = 0; i < t->count; i++)
        if (memcmp(t->list[i].key.word, key, sizeof t->list[i].key.word) == 0)
            return &t->list[i];
    return NULL;
}

static double known_ns(void *ctx, const uint64_t key[2])
{
    const struct timed *there = find(ctx, key);

    return there != NULL ? there->ns / there->count : -1;
}

/* Adds what the layers of the instance took by the kernels that they had. */
static inlay_status note(struct trial *t, const struct try *x)
{
    for (uint32_t i = 0; i < x->instance->choice_count; i++) {
        const kernel_choice *choice = &x->instance->choices[i];
        kernel_key_words key;
        struct timed *there;

        if (choice->count < 2)
            continue;
        kernel_key(choice, choice->kernel[0], key.word);
        there = find(t, key.word);
        if (there == NULL) {
            if (!cpu_grow(&t->list, t->count, &t->capacity, sizeof *t->list))
                return inlay_fail(t->diag, INLAY_OUT_OF_MEMORY, "no memory to time kernels");
            there = &t->list[t->count++];
            *there = (struct timed){ .key = key, .name = kernel_kernels[choice->kernel[0]].name };
        }
        there->ns += try_ns(x, choice->op);
        there->count++;
    }
    return INLAY_OK;
}

static bool has_time(const struct trial *t, double share)
{
    return (double)clock_ns() - t->begin_ns < share * t->how->budget_ns;
}

/* All layers by the kernels at that place of their order. *out_any: some layer has one there. */
static inlay_status time_order(struct trial *t, uint32_t order, bool *out_any)
{
    const kernel_attempt attempt = { .order = order };
    inlay_status status;
    struct try x;

    *out_any = false;
    INLAY_TRY(try_begin(t, &attempt, &x));
    for (uint32_t i = 0; i < x.instance->choice_count; i++)
        *out_any = *out_any || (x.instance->choices[i].moved || (order == 0 && x.instance->choices[i].count > 1));
    while (*out_any && status == INLAY_OK && x.runs < MOST_RUNS &&
           (x.runs < LEAST_RUNS || has_time(t, 0.2 * (order + 1))))
        status = try_run(t, &x);
    if (*out_any && status == INLAY_OK)
        status = note(t, &x);
    try_end(&x);
    drop_packs(t);
done:
    return status;
}

/* Marks the figures of a layer to be kept. model: those alone whose best is what the model takes. */
static void mark(struct trial *t, const kernel_choice *choice, bool model)
{
    struct timed *of[KERNEL_COUNT] = { NULL };
    uint32_t best = 0;

    for (uint32_t i = 0; i < choice->count; i++) {
        uint64_t key[2];

        kernel_key(choice, choice->kernel[i], key);
        of[i] = find(t, key);
        if (of[i] != NULL && of[best] != NULL && of[i]->ns / of[i]->count < of[best]->ns / of[best]->count)
            best = i;
    }
    for (uint32_t i = 0; i < choice->count; i++)
        if (of[i] != NULL && (!model || best == 0))
            of[i]->kept = true;
}

/* Is the choice by these figures faster than that of the model, as a whole? Otherwise those are kept that agree with
 * the model. */
static inlay_status compare(struct trial *t)
{
    const kernel_attempt model = { .order = 0 }, figures = { .order = 0, .find = known_ns, .ctx = t };
    inlay_status status;
    struct try a = { 0 }, b = { 0 };
    bool better;

    INLAY_TRY(try_begin(t, &model, &a));
    INLAY_TRY(try_begin(t, &figures, &b));
    for (int n = 0; n < MOST_RUNS && (n < LEAST_RUNS || has_time(t, 1)); n++) { /* in turn */
        INLAY_TRY(try_run(t, &a));
        INLAY_TRY(try_run(t, &b));
    }
    better = try_ns(&b, INLAY_NONE) < WORTH * try_ns(&a, INLAY_NONE);
    for (uint32_t i = 0; i < a.instance->choice_count; i++)
        mark(t, &a.instance->choices[i], !better);
done:
    try_end(&a);
    try_end(&b);
    drop_packs(t);
    return status;
}

static inlay_status keep_all(struct trial *t)
{
    inlay_status status = INLAY_OK;

    for (uint32_t i = 0; status == INLAY_OK && i < t->count; i++)
        if (t->list[i].kept)
            status = t->how->keep(t->how->ctx, t->list[i].key.word, sizeof t->list[i].key.word,
                                  t->list[i].ns / t->list[i].count, t->list[i].name);
    return status;
}

inlay_status kernel_time(void *state, inlay_compiled *c, const inlay_kernel_trial *how, inlay_diag *diag)
{
    struct trial t = { .state = state, .compiled = c, .how = how, .begin_ns = (double)clock_ns(), .diag = diag };
    inlay_status status = INLAY_OK;
    bool any = true;
    uint32_t orders = 0;

    for (; any && orders < KERNEL_COUNT; orders++)
        INLAY_TRY(time_order(&t, orders, &any));
    if (orders > 2) { /* the last had none */
        INLAY_TRY(compare(&t));
        INLAY_TRY(keep_all(&t));
    }
done:
    free(t.list);
    return status;
}

/* ------------------------------------------------------------------ what was chosen */

/* Why Winograd's was refused, where it was. */
static const char *say_why(const cpu_state *state, const kernel_choice *choice, char *text, size_t bytes)
{
    for (uint32_t k = 0; k < KERNEL_COUNT; k++) {
        int n;

        if (choice->trusts[k] == NULL || tiles_are_trusted(state, choice->trusts[k]))
            continue;
        n = snprintf(text, bytes, "not %s: ", kernel_kernels[k].name);
        tiles_say_distrust(state, choice->trusts[k], text + n, bytes - (size_t)n);
        return text;
    }
    return choice->why;
}

inlay_status kernel_list(void *state, inlay_compiled *c, inlay_instance *instance,
                         inlay_status (*kernel)(void *ctx, const inlay_kernel *k), void *ctx)
{
    static const uint32_t reasons[] = { [KERNEL_BY_MODEL] = INLAY_KERNEL_MODEL,
                                        [KERNEL_BY_TIME] = INLAY_KERNEL_TIMED,
                                        [KERNEL_BY_OPTION] = INLAY_KERNEL_OPTION,
                                        [KERNEL_ONLY] = INLAY_KERNEL_ONLY };
    inlay_status status = INLAY_OK;
    char text[200];

    for (uint32_t i = 0; status == INLAY_OK && i < instance->choice_count; i++) {
        const kernel_choice *choice = &instance->choices[i];
        const bool other = choice->count > 1;
        const tile_trust *trust = choice->trusts[choice->kernel[0]];
        const inlay_kernel k = {
            .struct_size = sizeof k,
            .node = c->ops[choice->op].node,
            .reason = reasons[choice->source],
            .name = kernel_kernels[choice->kernel[0]].name,
            .ns = choice->ns[0],
            .runner_up = other ? kernel_kernels[choice->kernel[1]].name : NULL,
            .runner_up_ns = other ? choice->ns[1] : -1,
            .why = say_why(state, choice, text, sizeof text),
            .error = trust != NULL ? trust->error : 0,
            .error_bound = trust == NULL    ? 0
                           : c->state->fast ? TILE_FAST_ERROR
                                            : TILE_MOST_ERROR,
        };

        status = kernel(ctx, &k);
    }
    return status;
}
