/* A provider whose results are right, except for the last element of one value, as its options say:
 *
 *     --option drifting.at=VALUE          the value
 *     --option drifting.error=0.01        the relative error of that element
 *     --option drifting.every=N           in one of N executions (default 1)
 *     --option drifting.fused=1           only if the node runs in a chain with others */
#include "inlay/kit.h"
#include <math.h>
#include <stdlib.h>

struct settings {
    char at[64];
    double error;
    int64_t every, fused;
};

struct state {
    const struct settings *settings;
    char op;        /* of "+*-" */
    bool wrong;     /* the node computes the value */
    uint64_t calls; /* atomic */
};

static void plant(struct state *state, float *out, int64_t n, bool chain)
{
    const struct settings *settings = state->settings;

    if (!state->wrong || n == 0 || (settings->fused != 0 && !chain))
        return;
    if (__atomic_add_fetch(&state->calls, 1, __ATOMIC_RELAXED) % (uint64_t)settings->every == 0)
        out[n - 1] *= (float)(1 + settings->error);
}

static float apply(char op, float a, float b)
{
    return op == '+' ? a + b : op == '*' ? a * b : -a;
}

static inlay_status prepare(const kit_node *node, void **out, inlay_diag *diag)
{
    const char *op = node->info->op_type.data;
    struct state *state = calloc(1, sizeof *state);

    *out = state;
    if (state == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory");
    state->settings = node->provider;
    state->op = op[0] == 'M' ? '*' : op[0] == 'N' ? '-' : '+';
    state->wrong = strcmp(kit_output(node, 0)->name.data, state->settings->at) == 0;
    return INLAY_OK;
}

static inlay_status run(const kit_call *call)
{
    struct state *state = (struct state *)(uintptr_t)call->state;
    const float *a = call->in[0].data, *b = call->in_count > 1 ? call->in[1].data : NULL;
    float *out = call->out[0].data;

    for (int64_t i = 0; i < call->out[0].count; i++)
        out[i] = apply(state->op, a[i], b != NULL ? b[i] : 0);
    plant(state, out, call->out[0].count, false);
    return INLAY_OK;
}

/* The row function of a chain, which computes one tile. */
static void row(const void *of, float *out, const float *const *in, const int64_t *step, int64_t n)
{
    struct state *state = (struct state *)(uintptr_t)of;

    for (int64_t i = 0; i < n; i++)
        out[i] = apply(state->op, in[0][i * step[0]], state->op != '-' ? in[1][i * step[1]] : 0);
    plant(state, out, n, true);
}

static bool of_one_shape(const kit_node *node, kit_refusal *why)
{
    const inlay_value_info *output = kit_output(node, 0);

    for (uint32_t i = 0; i < node->info->input_count; i++) {
        const inlay_value_info *input = kit_input(node, i);
        bool same = input->rank == output->rank && input->rank != INLAY_RANK_UNKNOWN;

        for (uint32_t d = 0; same && d < input->rank; d++)
            same = input->dims[d].kind == output->dims[d].kind && input->dims[d].value == output->dims[d].value &&
                   input->dims[d].symbol == output->dims[d].symbol;
        if (!same)
            return kit_refuse(why, INLAY_REFUSE_SHAPE, "equal shapes", "the provider does not broadcast");
    }
    return true;
}

#define ROW(name, count)                                                                                               \
    {                                                                                                                  \
        .op_type = name, .in_types = { KIT_BIT(FLOAT) }, .supports = of_one_shape, .prepare = prepare, .run = run,     \
        .row = row, .row_inputs = count                                                                                \
    }
static const kit_kernel kernels[] = { ROW("Add", 2), ROW("Mul", 2), ROW("Neg", 1) };
static const kit_table table = { kernels, KIT_COUNT(kernels) }, *const tables[] = { &table };

static inlay_status open_drifting(const inlay_host *host, const inlay_create_args *args, void **out, inlay_diag *diag)
{
    struct settings *settings = calloc(1, sizeof *settings);

    (void)host;
    *out = settings;
    if (settings == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory");
    settings->every = 1;
    for (uint32_t i = 0; i < args->option_count; i++) {
        const inlay_option_value *value = INLAY_AT(inlay_option_value, args->options, args->option_stride, i);

        if (strcmp(value->name, "at") == 0)
            strncpy(settings->at, value->s, sizeof settings->at - 1);
        else if (strcmp(value->name, "error") == 0)
            settings->error = value->f;
        else if (strcmp(value->name, "every") == 0)
            settings->every = value->i;
        else if (strcmp(value->name, "fused") == 0)
            settings->fused = value->i;
    }
    return INLAY_OK;
}

static const inlay_option options[] = {
    { .name = "at", .kind = INLAY_OPTION_STRING, .default_value = "", .doc = "the value that is wrong" },
    { .name = "error", .kind = INLAY_OPTION_FLOAT, .default_value = "0", .doc = "relative error" },
    { .name = "every", .kind = INLAY_OPTION_INT, .default_value = "1", .doc = "one of N executions is wrong" },
    { .name = "fused", .kind = INLAY_OPTION_INT, .default_value = "0", .doc = "1 = only in chains" },
};
static const kit_provider provider = {
    .name = "drifting",
    .description = "right, except for one element",
    .tables = tables,
    .table_count = 1,
    .options = options,
    .option_count = KIT_COUNT(options),
    .open = open_drifting,
    .close = free,
};
static const kit_plugin plugin = { .name = "drifting", .version = "1.0", .provider = &provider };
KIT_PLUGIN_NAMED(plugin, "drifting", "drifting", "")
