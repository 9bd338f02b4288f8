/* A Softsign for `inlay admit`. The name of the file says how it is: candidate_N_M computes the result N times for few
 * elements and M times for many, and so is faster or slower than `rival`, which computes it RIVAL_REPEATS times;
 * candidate_N_M_FAULT also has one of the faults below, and so has one whose option `fault` names it. NAME: of the
 * provider. */
#include "defect.h"
#include "inlay/kit.h"
#include <fenv.h>
#include <math.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { RIVAL_REPEATS = 20, MANY = 20000 };

static const char *fault = ""; /* of the name or the option */
static int repeats[2] = { RIVAL_REPEATS, RIVAL_REPEATS };

static void read_name(void)
{
    char *at;

    read_defect();
    if (is("rival") || is("candidate"))
        return;
    repeats[0] = (int)strtol(defect + 10, &at, 10);
    repeats[1] = (int)strtol(at + 1, &at, 10);
    fault = *at == '_' ? at + 1 : "";
}

static bool has(const char *name)
{
    return strcmp(fault, name) == 0;
}

static float softsign(float x)
{
    return x / (1 + fabsf(x));
}

/* ---- faults of results: written into y after the right ones */

static float less_precise(float value, uint32_t bits)
{
    uint32_t word;

    memcpy(&word, &value, sizeof word);
    word &= ~UINT32_C(0) << bits;
    memcpy(&value, &word, sizeof value);
    return value;
}

static float wrong_value(float x)
{
    if (has("sign"))
        return x / (1 + x);
    if (has("nan"))
        return isnan(x) ? 0 : softsign(x);
    if (has("huge"))
        return fabsf(x) > 1e30f ? 0 : softsign(x);
    if (has("tiny"))
        return fabsf(x) < 1e-30f ? 0 : softsign(x);
    if (has("approximate"))
        return less_precise(softsign(x), 12);
    if (has("clamped"))
        return fmaxf(-0.99f, fminf(0.99f, softsign(x)));
    if (has("positive"))
        return fabsf(softsign(x));
    return softsign(x);
}

static void spoil(const float *x, float *y, int64_t count, uint32_t rank)
{
    static _Thread_local uint32_t calls;

    for (int64_t i = 0; i < count; i++)
        y[i] = wrong_value(x[i]);
    if (has("last") && count > 1000)
        y[count - 1] = 0;
    if (has("first") && count > 1)
        y[0] = 0;
    for (int64_t i = count - count % 8; has("tail") && i < count && count > 8; i++)
        y[i] = 0;
    for (int64_t i = count - count % 64; has("long_tail") && i < count && count > 64; i++)
        y[i] = 0;
    for (int64_t i = 0; has("stride") && i < count; i += 1024)
        y[i] = count > 1024 ? 0 : y[i];
    for (int64_t i = 0; has("swapped") && i + 1 < count && count > 16; i += 2) {
        const float next = y[i + 1];

        y[i + 1] = y[i];
        y[i] = next;
    }
    if (has("large") && count > 30000)
        y[12345] += 0.01f;
    if (has("rank") && rank >= 3 && count > 1)
        y[count - 1] = -y[count - 1] + 1;
    if (has("scalar") && rank == 0)
        y[0] = 0;
    if (has("beyond"))
        y[count] = 0;
    if (has("fickle") && count > 0)
        y[count / 3] += calls++ % 2 != 0 ? 1e-3f : 0;
}

/* ---- faults that need more than one call */

static void remember(const float *x, float *y, int64_t count)
{
    static const void *last;
    static int64_t first_count;
    static float shared[1 << 16];

    if (has("stale") && last == x && count > 0)
        memset(y, 0, (size_t)count * sizeof *y); /* "the output is still there" */
    last = x;
    if (has("first_shape") && first_count == 0)
        first_count = count;
    for (int64_t i = first_count; has("first_shape") && i < count; i++)
        y[i] = 0;
    if (!has("shared") || count > 1 << 16)
        return;
    memcpy(shared, x, (size_t)count * sizeof *x);
    (void)sched_yield();
    (void)usleep(100);
    for (int64_t i = 0; i < count; i++)
        y[i] = softsign(shared[i]);
}

/* ---- faults towards the process */

static inlay_status misbehave(const kit_call *call, int64_t count)
{
    static volatile char *kept;

    if (has("input") && count > 0)
        ((float *)(uintptr_t)call->in[0].data)[0] = 1;
    if (has("crash") && count % 7 == 3)
        *(volatile int *)8 = 1;
    if (has("abort") && count > 5000)
        abort();
    if (has("exit") && count > 5000)
        exit(3);
    if (has("empty") && count == 0)
        *(volatile int *)8 = 1;
    if (has("leak"))
        kept = malloc(4096);
    if (has("file"))
        (void)dup(0);
    if (has("rounding"))
        (void)fesetround(FE_UPWARD);
    if (has("folder") && chdir("/") != 0)
        return INLAY_IO_ERROR;
    if (has("prints"))
        (void)puts("softsign");
    (void)kept;
    return has("refuses") && count > 1000 ? inlay_fail(call->diag, INLAY_UNSUPPORTED, "too many elements") : INLAY_OK;
}

static inlay_status run(const kit_call *call)
{
    const int64_t count = call->out[0].count;

    for (int i = 0; i < repeats[count >= MANY]; i++) {
        const float *x = call->in[0].data;
        float *y = call->out[0].data;

        for (int64_t k = 0; k < count; k++)
            y[k] = softsign(x[k]);
        __asm__ volatile("" ::: "memory"); /* each time */
    }
    if (fault[0] == '\0')
        return INLAY_OK;
    spoil(call->in[0].data, call->out[0].data, count, call->out[0].rank);
    remember(call->in[0].data, call->out[0].data, count);
    return misbehave(call, count);
}

static void cost(const kit_node *node, const kit_plan *shapes, inlay_cost *out)
{
    const double count = shapes->in[0].count > 0 ? (double)shapes->in[0].count : 0; /* -1: not known */

    (void)node;
    out->flops = 2 * count;
    out->ns = has("price") ? NAN : 0.5 * count;
    out->confidence = INLAY_CONFIDENCE_MODEL;
}

static const kit_kernel kernels[] = {
    { .op_type = "Softsign", .in_types = { KIT_BIT(FLOAT) }, .cost = cost, .run = run },
};
static const kit_table table = { kernels, KIT_COUNT(kernels) }, *const tables[] = { &table };

static inlay_status open_provider(const inlay_host *host, const inlay_create_args *args, void **out, inlay_diag *diag)
{
    static char chosen[32];
    const char *option = INLAY_AT(inlay_option_value, args->options, args->option_stride, 0)->s;

    (void)host, (void)diag;
    read_name();
    if (option[0] != '\0') {
        (void)snprintf(chosen, sizeof chosen, "%s", option);
        fault = strcmp(chosen, "none") == 0 ? "" : chosen; /* a check of each result would take as long as the rival */
    }
    *out = NULL;
    return INLAY_OK;
}

static const inlay_option options[] = {
    { .name = "fault", .doc = "Which fault to have", .default_value = "", .kind = INLAY_OPTION_STRING },
};

static const kit_provider provider = { .name = NAME,
                                       .description = "one kernel that someone has written",
                                       .tables = tables,
                                       .table_count = 1,
                                       .options = options,
                                       .option_count = KIT_COUNT(options),
                                       .open = open_provider };
static const kit_plugin plugin = { .name = NAME, .version = "1.0", .provider = &provider };
KIT_PLUGIN_NAMED(plugin, NAME, NAME, "")
