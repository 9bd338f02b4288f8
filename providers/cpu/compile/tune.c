/* Extension inlay.kernels/1: lists the kernels of an instance, and measures kernels within their region.
 *
 * The region is built once for each position in the ranking of kernels: with the first choices of the model, then
 * with the second choice of each layer that has one, and so on. A kernel's time is the time of its layer's steps in
 * that region. So it includes the effect of the neighbours on the caches, and the layout changes that the kernel needs.
 * The choice by these times is then run against the model's choice. If it is not faster as a whole, only times that
 * agree with the model are kept. */
#include "cpu/compile/compile.h"
#include "cpu/convolution/tiles.h"
#include "cpu/weights/packs.h"
#include "inlay/check.h"
#include "inlay/execution.h"
#include "inlay/extensions.h"
#include "simd/clock.h"
#include <string.h>

/* The measured time of one kernel for one key. */
typedef struct kernel_timing {
    kernel_key_words key;
    double ns; /* sum over all layers of that key */
    uint32_t count;
    bool kept; /* to be stored in the cache of timings */
    const char *name;
} kernel_timing;

typedef struct tuning_job {
    const cpu_state *state;
    inlay_compiled *compiled;
    const inlay_kernel_trial *request;
    kernel_timing *list; /* owned */
    uint32_t count, capacity;
    double begin_ns;
    inlay_diag *diag;
} tuning_job;

enum { MIN_RUNS = 3, MAX_RUNS = 25 };
/* Measured choices must take less than this share of the time of the model's choices. */
static const double MAX_TIME_RATIO = 0.995;

static int by_size(const void *first, const void *second)
{
    double first_ns = *(const double *)first, second_ns = *(const double *)second;

    return first_ns < second_ns ? -1 : first_ns > second_ns;
}

/* An instance, its workspace, and the time of each step in each run. */
typedef struct timed_instance {
    inlay_instance *instance;
    void *workspace;
    double *ns; /* [MAX_RUNS][step_count] */
    uint32_t runs;
} timed_instance;

static void timed_end(timed_instance *timed)
{
    cpu_instance_destroy(timed->instance);
    free(timed->workspace);
    free(timed->ns);
    *timed = (timed_instance){ 0 };
}

/* Drops packed weights that only measured kernels read. */
static void drop_packs(const tuning_job *tuning)
{
    (void)pthread_mutex_lock(&tuning->compiled->lock);
    for (uint32_t i = 0; i < tuning->compiled->constant_count; i++)
        cpu_constant_drop_trials(&tuning->compiled->constants[i]);
    (void)pthread_mutex_unlock(&tuning->compiled->lock);
}

static inlay_status timed_begin(tuning_job *tuning, const kernel_attempt *attempt, timed_instance *out)
{
    const inlay_specialize_request *shapes = tuning->request->shapes;
    inlay_status status;

    *out = (timed_instance){ 0 };
    (void)pthread_mutex_lock(&tuning->compiled->lock);
    tuning->compiled->trying = true;
    status =
        cpu_instance_build(tuning->compiled, shapes->values, shapes->value_stride, shapes->value_count,
                           INLAY_HAS(shapes, rooms) ? shapes->rooms : NULL,
                           shapes->max_threads > 0 ? shapes->max_threads : 1, attempt, &out->instance, tuning->diag);
    tuning->compiled->trying = false;
    (void)pthread_mutex_unlock(&tuning->compiled->lock);
    if (status != INLAY_OK) {
        out->instance = NULL;
        return status;
    }
    out->ns = calloc((size_t)MAX_RUNS * (out->instance->step_count + 1u), sizeof *out->ns);
    if (out->ns == NULL || posix_memalign(&out->workspace, 64, out->instance->workspace_bytes + 64) != 0) {
        out->workspace = NULL;
        timed_end(out);
        return inlay_fail(tuning->diag, INLAY_OUT_OF_MEMORY, "no memory to time kernels");
    }
    return INLAY_OK;
}

/* Runs and times the instance once more. The first run of an instance is not counted. */
static inlay_status timed_run(tuning_job *tuning, timed_instance *timed)
{
    inlay_exec_args args = *tuning->request->args;
    inlay_status status = INLAY_OK;

    args.workspace = (inlay_buffer){ .handle = (uintptr_t)timed->workspace, .bytes = timed->instance->workspace_bytes };
    args.diag = tuning->diag;
    if (timed->runs == 0)
        status = cpu_execute_timed(tuning->state, tuning->compiled, timed->instance, &args, timed->ns);
    if (status == INLAY_OK && tuning->request->poll != NULL)
        status = tuning->request->poll(tuning->request->ctx);
    if (status == INLAY_OK)
        status = cpu_execute_timed(tuning->state, tuning->compiled, timed->instance, &args,
                                   timed->ns + (size_t)timed->runs * timed->instance->step_count);
    timed->runs += status == INLAY_OK;
    return status;
}

/* Time of the steps of an op in a run, or of all steps if op is INLAY_NONE: the lower quartile of the runs. */
static double timed_ns(const timed_instance *timed, uint32_t op)
{
    double sums[MAX_RUNS];

    INLAY_CHECK(timed->runs > 0 && timed->runs <= MAX_RUNS);
    for (uint32_t run = 0; run < timed->runs; run++) {
        sums[run] = 0;
        for (uint32_t step = 0; step < timed->instance->step_count; step++)
            sums[run] += op == INLAY_NONE || timed->instance->steps[step].op == op
                             ? timed->ns[(size_t)run * timed->instance->step_count + step]
                             : 0;
    }
    qsort(sums, timed->runs, sizeof *sums, by_size);
    return sums[timed->runs / 4];
}

static kernel_timing *find(tuning_job *tuning, const uint64_t key[2])
{
    for (uint32_t i = 0; i < tuning->count; i++)
        if (memcmp(tuning->list[i].key.word, key, sizeof tuning->list[i].key.word) == 0)
            return &tuning->list[i];
    return NULL;
}

static double known_ns(void *ctx, const uint64_t key[2])
{
    const kernel_timing *timing = find(ctx, key);

    return timing != NULL ? timing->ns / timing->count : -1;
}

/* Adds the times of the kernels that the instance uses. */
static inlay_status note(tuning_job *tuning, const timed_instance *timed)
{
    for (uint32_t i = 0; i < timed->instance->choice_count; i++) {
        const kernel_choice *choice = &timed->instance->choices[i];
        kernel_key_words key;
        kernel_timing *timing;

        if (choice->count < 2)
            continue;
        kernel_key(choice, choice->kernel[0], key.word);
        timing = find(tuning, key.word);
        if (timing == NULL) {
            if (!cpu_grow(&tuning->list, tuning->count, &tuning->capacity, sizeof *tuning->list))
                return inlay_fail(tuning->diag, INLAY_OUT_OF_MEMORY, "no memory to time kernels");
            timing = &tuning->list[tuning->count++];
            *timing = (kernel_timing){ .key = key, .name = kernel_table[choice->kernel[0]].name };
        }
        timing->ns += timed_ns(timed, choice->op);
        timing->count++;
    }
    return INLAY_OK;
}

static bool has_time(const tuning_job *tuning, double share)
{
    return (double)clock_ns() - tuning->begin_ns < share * tuning->request->budget_ns;
}

/* Times the kernels at position `order` of each layer's ranking. *out_any: some layer has a kernel there. */
static inlay_status time_order(tuning_job *tuning, uint32_t order, bool *out_any)
{
    const kernel_attempt attempt = { .order = order };
    inlay_status status;
    timed_instance timed;

    *out_any = false;
    INLAY_TRY(timed_begin(tuning, &attempt, &timed));
    for (uint32_t i = 0; i < timed.instance->choice_count; i++)
        *out_any =
            *out_any || (timed.instance->choices[i].moved || (order == 0 && timed.instance->choices[i].count > 1));
    while (*out_any && status == INLAY_OK && timed.runs < MAX_RUNS &&
           (timed.runs < MIN_RUNS || has_time(tuning, 0.2 * (order + 1))))
        status = timed_run(tuning, &timed);
    if (*out_any && status == INLAY_OK)
        status = note(tuning, &timed);
    timed_end(&timed);
    drop_packs(tuning);
done:
    return status;
}

/* Marks the times of a layer that are to be kept. model: only if the fastest kernel is the model's first choice. */
static void mark(tuning_job *tuning, const kernel_choice *choice, bool model)
{
    kernel_timing *timings[KERNEL_COUNT] = { NULL };
    uint32_t best = 0;

    for (uint32_t i = 0; i < choice->count; i++) {
        uint64_t key[2];

        kernel_key(choice, choice->kernel[i], key);
        timings[i] = find(tuning, key);
        if (timings[i] != NULL &&
            (timings[best] == NULL || timings[i]->ns / timings[i]->count < timings[best]->ns / timings[best]->count))
            best = i;
    }
    for (uint32_t i = 0; i < choice->count; i++)
        if (timings[i] != NULL && (!model || best == 0))
            timings[i]->kept = true;
}

/* Compares the choice by measured times with the model's choice. If it is not faster as a whole, only the times that
 * agree with the model are kept. */
static inlay_status compare(tuning_job *tuning)
{
    const kernel_attempt model = { .order = 0 }, figures = { .order = 0, .find = known_ns, .ctx = tuning };
    inlay_status status;
    timed_instance by_model = { 0 }, by_time = { 0 };
    bool better;

    INLAY_TRY(timed_begin(tuning, &model, &by_model));
    INLAY_TRY(timed_begin(tuning, &figures, &by_time));
    for (int run = 0; run < MAX_RUNS && (run < MIN_RUNS || has_time(tuning, 1)); run++) { /* interleaved */
        INLAY_TRY(timed_run(tuning, &by_model));
        INLAY_TRY(timed_run(tuning, &by_time));
    }
    better = timed_ns(&by_time, INLAY_NONE) < MAX_TIME_RATIO * timed_ns(&by_model, INLAY_NONE);
    for (uint32_t i = 0; i < by_model.instance->choice_count; i++)
        mark(tuning, &by_model.instance->choices[i], !better);
done:
    timed_end(&by_model);
    timed_end(&by_time);
    drop_packs(tuning);
    return status;
}

static inlay_status keep_all(tuning_job *tuning)
{
    inlay_status status = INLAY_OK;

    for (uint32_t i = 0; status == INLAY_OK && i < tuning->count; i++)
        if (tuning->list[i].kept)
            status =
                tuning->request->keep(tuning->request->ctx, tuning->list[i].key.word, sizeof tuning->list[i].key.word,
                                      tuning->list[i].ns / tuning->list[i].count, tuning->list[i].name);
    return status;
}

inlay_status kernel_tune(void *state, inlay_compiled *compiled, const inlay_kernel_trial *request, inlay_diag *diag)
{
    tuning_job tuning = {
        .state = state, .compiled = compiled, .request = request, .begin_ns = (double)clock_ns(), .diag = diag
    };
    inlay_status status = INLAY_OK;
    bool any = true;
    uint32_t orders = 0;

    for (; any && orders < KERNEL_COUNT; orders++)
        INLAY_TRY(time_order(&tuning, orders, &any));
    if (orders > 2) { /* no layer had a kernel at the last order */
        INLAY_TRY(compare(&tuning));
        INLAY_TRY(keep_all(&tuning));
    }
done:
    free(tuning.list);
    return status;
}

/* The reason why a Winograd kernel was rejected, or any other remark on the choice. */
static const char *say_why(const cpu_state *state, const kernel_choice *choice, char *text, size_t bytes)
{
    for (uint32_t k = 0; k < KERNEL_COUNT; k++) {
        int prefix;

        if (choice->accuracies[k] == NULL || winograd_is_accurate(state, choice->accuracies[k]))
            continue;
        prefix = snprintf(text, bytes, "not %s: ", kernel_table[k].name);
        winograd_explain_inaccuracy(state, choice->accuracies[k], text + prefix, bytes - (size_t)prefix);
        return text;
    }
    return choice->why;
}

/* The time of candidate i; negative: unknown. */
static double candidate_ns(const kernel_choice *choice, uint32_t i)
{
    const double expected = choice->expected_ns[choice->kernel[i]];

    if (choice->source == KERNEL_BY_TIME)
        return choice->ns[i];
    return expected > 0 ? expected : -1;
}

inlay_status kernel_list(void *state, const inlay_kernel_list *request, inlay_diag *diag)
{
    static const uint32_t reasons[] = { [KERNEL_BY_MODEL] = INLAY_KERNEL_MODEL,
                                        [KERNEL_BY_TIME] = INLAY_KERNEL_TIMED,
                                        [KERNEL_BY_OPTION] = INLAY_KERNEL_OPTION,
                                        [KERNEL_ONLY] = INLAY_KERNEL_ONLY };
    const inlay_compiled *compiled = request->compiled;
    const inlay_instance *instance = request->instance;
    inlay_status status = INLAY_OK;
    char text[200];

    for (uint32_t i = 0; status == INLAY_OK && i < instance->choice_count; i++) {
        const kernel_choice *choice = &instance->choices[i];
        const bool other = choice->count > 1;
        const winograd_accuracy *accuracy = choice->accuracies[choice->kernel[0]];
        const inlay_kernel info = {
            .struct_size = sizeof info,
            .node = compiled->ops[choice->op].node,
            .reason = reasons[choice->source],
            .name = kernel_table[choice->kernel[0]].name,
            .ns = candidate_ns(choice, 0),
            .runner_up = other ? kernel_table[choice->kernel[1]].name : NULL,
            .runner_up_ns = other ? candidate_ns(choice, 1) : -1,
            .why = say_why(state, choice, text, sizeof text),
            .error = accuracy != NULL ? accuracy->error : 0,
            .error_bound = accuracy == NULL        ? 0
                           : compiled->state->fast ? TILE_FAST_ERROR
                                                   : TILE_MOST_ERROR,
        };

        status = request->kernel(request->ctx, &info);
    }
    return status == INLAY_OK ? status : inlay_fail(diag, status, "the host takes no more kernels");
}
